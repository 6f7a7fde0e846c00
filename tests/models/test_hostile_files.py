"""Small files that ask for much memory or time, or bring kernels without values: each is refused in a sentence.

Time is told by what is called: a bomb would resolve a kernel, or make arrays that are far larger than the file.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

import unpooled as up
from tests.made_up import CUBE, points
from unpooled._base import declared, files
from unpooled.kernels import Kernel

X = points(0, 60, between=CUBE)
ROOM = 32 << 20  # bytes, many times the size of any file here


@pytest.fixture(autouse=True)
def little_memory():
    """A file that makes its reader ask for much more than it holds fails the test."""
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < ROOM


def parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header, arrays = declared.to_parts_of(model, "saved")
    return json.loads(json.dumps(header)), dict(arrays)


def basis_parts(tmp_path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    BASIS.save(tmp_path / "a.basis")
    header, arrays = files.read(tmp_path / "a.basis", "basis")
    return {name: value for name, value in header.items() if name not in ("format", "kind", "unpooled")}, dict(arrays)


BASIS = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), n_features=4).fit(X)
MODEL = up.SpectralRegressor(up.kernels.Gaussian(1.0), lam=0.1).fit(X, X[:, 0])


def refuse(tmp_path, kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray], match: str) -> None:
    files.write(tmp_path / "forged", kind, header, arrays)
    load = {"model": up.load, "basis": up.bases.load, "summary": up.Summary.load}[kind]
    with pytest.raises(files.FileError, match=match) as caught:
        load(tmp_path / "forged")
    assert len(str(caught.value).splitlines()) == 1


def sum_of(leaves: int, leaf: dict[str, Any]) -> dict[str, Any]:
    """A balanced sum of kernels."""
    items = [dict(leaf) for _ in range(leaves)]
    while len(items) > 1:
        pairs = [{"type": "Sum", "left": a, "right": b} for a, b in zip(items[::2], items[1::2])]
        items = pairs + items[2 * len(pairs) :]
    return items[0]


@pytest.mark.parametrize("width", [10**8, 10**12])
def test_a_function_of_no_points_with_many_features_is_refused(width, tmp_path):
    header, arrays = parts(MODEL)
    header["n_features_in"] = width
    arrays |= {"points": np.empty((0, width)), "coef": np.empty((0, 1))}
    refuse(tmp_path, "model", header, arrays, "the function has no points")


def test_a_precomputed_kernel_cannot_claim_features_for_a_kernel_that_is_computed(tmp_path):
    """It may load, but it must not make rows of as many features as it claims."""
    header, arrays = parts(MODEL)
    header |= {"kernel": {"type": "Precomputed", "columns": None}, "n_features_in": 10**12}
    arrays["points"] = np.empty((len(X), 0))
    files.write(tmp_path / "forged", "model", header, arrays)
    try:
        up.load(tmp_path / "forged")
    except files.FileError as error:
        assert len(str(error).splitlines()) == 1


@pytest.fixture
def no_kernel_is_resolved(monkeypatch):
    def resolve(self: Kernel, *_: Any) -> Kernel:
        raise AssertionError("a kernel of a file was searched for its length scale")

    for kernel in (up.kernels.Gaussian, up.kernels.Matern, up.kernels.Laplacian):
        monkeypatch.setattr(kernel, "resolve", resolve)


@pytest.mark.parametrize("scale", ["median", "auto"])
def test_the_kernel_of_a_fitted_function_is_not_searched_for_its_length_scale(scale, tmp_path, no_kernel_is_resolved):
    leaf = {"type": "Gaussian", "length_scale": scale}
    header, arrays = basis_parts(tmp_path)
    refuse(tmp_path, "basis", header | {"kernel": sum_of(50, leaf)}, arrays, "still to be chosen")
    header, arrays = parts(MODEL)
    refuse(tmp_path, "model", header | {"kernel": sum_of(50, leaf)}, arrays, "still to be chosen")


def test_a_kernel_of_very_many_parts_is_refused(tmp_path):
    leaf = {"type": "Gaussian", "length_scale": 1.0}
    header, arrays = basis_parts(tmp_path)
    refuse(tmp_path, "basis", header | {"kernel": sum_of(400, leaf)}, arrays, "at most 100")
    header, arrays = parts(MODEL)
    refuse(tmp_path, "model", header | {"kernel": sum_of(400, leaf)}, arrays, "at most 100")
    header["params"]["kernel"] = sum_of(400, leaf | {"length_scale": "auto"})
    refuse(tmp_path, "model", header, arrays, "at most 100")


WITHOUT_VALUES = [
    {"type": "Matern", "length_scale": 1.0, "nu": 0},
    {"type": "Pairwise", "metric": "nonsense", "gamma": None},
    {"type": "Pairwise", "metric": "rbf", "gamma": -1},
    {"type": "Gaussian", "length_scale": [1.0, 2.0, 3.0]},
    {"type": "Brownian"},
]


@pytest.mark.parametrize("kernel", WITHOUT_VALUES, ids=lambda kernel: kernel["type"])
@pytest.mark.parametrize("cls", [up.SpectralRegressor, up.CorrentropyRegressor])
def test_a_kernel_without_values_at_its_own_points_is_refused(cls, kernel, tmp_path):
    header, arrays = parts(cls(up.kernels.Gaussian(1.0)).fit(X, X[:, 0]))
    refuse(tmp_path, "model", header | {"kernel": kernel}, arrays, "complete model")


@pytest.mark.parametrize("features", [3 * 10**8, 2**62])
@pytest.mark.parametrize("order", [1, 2])
def test_a_summary_that_claims_many_features_makes_nothing_for_them(features, order, tmp_path):
    pytest.importorskip("opendp")
    noisy = up.Summary.of(BASIS, X, X[:, 0], order=order, privacy=up.privacy.PrivacyRequest(1.0, 1e-6, label_bound=1.0))
    noisy.save(tmp_path / "a.summary")
    header, arrays = files.read(tmp_path / "a.summary", "summary")
    kept = {name: value for name, value in header.items() if name not in ("format", "kind", "unpooled")}
    refuse(tmp_path, "summary", kept | {"n_features": features}, arrays, "too short for the number of features")


def test_a_lack_of_memory_is_a_sentence_too(monkeypatch, tmp_path):
    up.save(MODEL, tmp_path / "a.model")

    def exhausted(*_: Any) -> None:
        raise MemoryError("cannot allocate 14 TiB")

    monkeypatch.setattr(up.SpectralRegressor, "_from_parts", exhausted)
    with pytest.raises(files.FileError, match="does not hold a complete model"):
        up.load(tmp_path / "a.model")
