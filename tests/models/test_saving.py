"""A saved model comes back exactly; a damaged or foreign file is refused in a sentence; no half of a file is left."""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import safetensors.numpy
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold

from tests.made_up import regression, sine
from unpooled import FileError, SpectralRegressor, load, save
from unpooled._base import files, renames
from unpooled.filters import CutOff, IteratedTikhonov, Landweber, NuMethod, Tikhonov
from unpooled.kernels import Brownian, Centered, Gaussian, Laplacian, Linear, Matern, Pairwise, Polynomial

KERNELS = [
    None,
    Gaussian(0.7),
    Gaussian("median"),
    Gaussian([0.3, 0.6]),
    Gaussian(np.array([0.3, 0.6])),
    Laplacian(0.5),
    Matern(0.5, nu=0.5),
    Matern(0.5, nu=2.5),
    Linear(),
    Polynomial(2, gamma=0.3, coef0=0.5),
    2.5 * Gaussian(0.7),
    np.float32(2.5) * Gaussian(0.7),
    Gaussian(0.7) + Linear() * Matern(0.5),
    "rbf",
    "poly",
    "linear",
    "laplacian",
    Pairwise("laplacian"),
    "cosine",
    gp.RBF(0.7),
    gp.RBF([0.3, 0.6]),
    gp.ConstantKernel(2.0) * gp.Matern(0.9, nu=1.2),
    gp.RationalQuadratic(0.8, 1.5) + gp.WhiteKernel(0.2),
    gp.DotProduct(0.5),
]
FILTERS = [
    Tikhonov(),
    IteratedTikhonov(3),
    IteratedTikhonov(np.int64(3)),
    CutOff(),
    Landweber(),
    NuMethod(2),
    NuMethod(np.float32(1.5)),
]
GRID = np.logspace(0, -2, 5)

data = partial(
    regression,
    n=20,
    between=(0.0, 1.0),
    function=lambda X: np.column_stack([np.sin(6 * X[:, 0]), 5 + X[:, 1]]),
    targets=2,
    then=(7,),
)


def through(path, model):
    save(model, path)
    return load(path)


def same(a, b, Z):
    """Two models are one in everything that a user sees of them."""
    assert_array_equal(a.predict(Z), b.predict(Z), strict=True)
    assert_array_equal(a.lam_, b.lam_, strict=True)
    assert_array_equal(a.intercept_, b.intercept_, strict=True)
    assert (a.solver_, a.kernel_, a.n_features_in_) == (b.solver_, b.kernel_, b.n_features_in_)
    assert (type(a._filter), a._filter.get_params()) == (type(b._filter), b._filter.get_params())
    assert hasattr(a, "path_") == hasattr(b, "path_")
    if hasattr(a, "path_"):
        assert (a.path_.criterion_name, a.path_.exact) == (b.path_.criterion_name, b.path_.exact)
        assert a.path_.at_edge == b.path_.at_edge
        for name, column in a.path_.as_dict().items():
            assert_array_equal(column, b.path_.as_dict()[name])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("lam", [0.05, "loo"])
def test_every_kernel_comes_back_exactly(kernel, lam, tmp_path):
    X, Y, Z = data()
    model = SpectralRegressor(kernel, lam=lam, grid=GRID, fit_intercept=False).fit(X, Y[:, 0])
    same(model, through(tmp_path / "a.model", model), Z)


@pytest.mark.parametrize("lam", [0.05, "loo"])
def test_the_kernels_of_one_feature_and_a_precomputed_matrix_come_back_exactly(lam, tmp_path):
    X, Y, Z = data()
    for kernel in (Brownian(), gp.ExpSineSquared(0.8, 2.0)):
        model = SpectralRegressor(kernel, lam=lam, grid=GRID, fit_intercept=False).fit(X[:, :1], Y)
        same(model, through(tmp_path / "a.model", model), Z[:, :1])
    by_matrix = SpectralRegressor("precomputed", lam=lam, grid=GRID, fit_intercept=False).fit(Gaussian(0.5)(X), Y)
    same(by_matrix, through(tmp_path / "a.model", by_matrix), Gaussian(0.5)(Z, X))


@pytest.mark.parametrize("filter", FILTERS, ids=repr)
@pytest.mark.parametrize("lam", [0.05, list(GRID), "loo", "gcv", "cv"], ids=["fixed", "array", "loo", "gcv", "cv"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("per_target", [False, True])
def test_every_filter_comes_back_exactly(filter, lam, center, per_target, tmp_path):
    X, Y, Z = data()
    options = {"lam": lam, "fit_intercept": center, "per_target": per_target, "grid": GRID}
    for labels in (Y, Y[:, 0], Y[:, :1]):
        model = SpectralRegressor(Gaussian(0.5), filter, **options).fit(X, labels)
        same(model, through(tmp_path / "a.model", model), Z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_of_a_model_is_kept(dtype, tmp_path):
    X, Y, Z = (array.astype(dtype) for array in data())
    model = SpectralRegressor(Gaussian(0.5), fit_intercept=True).fit(X, Y)
    again = through(tmp_path / "a.model", model)
    assert again.predictor_.coef.dtype == again.predict(Z).dtype == dtype
    same(model, again, Z)


def test_a_model_of_torch_tensors_comes_back_with_the_same_numbers(tmp_path):
    X, Y, Z = data()
    model = SpectralRegressor(Gaussian(0.5), fit_intercept=True).fit(torch.from_numpy(X), torch.from_numpy(Y))
    again = through(tmp_path / "a.model", model)
    assert_array_equal(again.predict(torch.from_numpy(Z)).numpy(), model.predict(torch.from_numpy(Z)).numpy())
    assert_array_equal(again.intercept_, model.intercept_.numpy())


def test_weights_and_numbers_of_numpy_as_parameters_do_not_hinder(tmp_path):
    X, Y, Z = data()
    options = {
        "lam": np.float32(0.05),
        "fit_intercept": np.True_,
        "random_state": np.random.RandomState(0),
        "cv": KFold(3),
    }
    model = SpectralRegressor(Polynomial(np.int64(2)), **options).fit(X, Y, np.linspace(0, 1, 20))
    same(model, through(tmp_path / "a.model", model), Z)


def test_what_was_loaded_can_be_fitted_cloned_and_saved_again(tmp_path):
    X, Y, Z = data()
    model = SpectralRegressor(Gaussian("median"), NuMethod(2), lam="gcv", fit_intercept=True, grid=GRID).fit(X, Y)
    again = through(tmp_path / "a.model", model)
    same(model, through(tmp_path / "b.model", again), Z)
    same(model, clone(again).fit(X, Y), Z)
    same(model, again.fit(X, Y), Z)


def test_a_loaded_path_says_that_its_coefficients_were_not_kept(tmp_path):
    X, Y, Z = data()
    again = through(tmp_path / "a.model", SpectralRegressor(Gaussian(0.5), fit_intercept=False).fit(X, Y))
    with pytest.raises(ValueError, match="a model from a file predicts at its chosen lam only"):
        again.path_.predict(Z)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_the_names_of_features_are_kept_and_still_compared(frame, tmp_path):
    X, Y, Z = data()
    names = ["größe", 'a b\n"c"']
    table, rows = (frame({name: array[:, i] for i, name in enumerate(names)}) for array in (X, Z))
    model = SpectralRegressor(Gaussian(0.5), fit_intercept=False).fit(table, Y)
    again = through(tmp_path / "a.model", model)
    assert list(again.feature_names_in_) == names
    same(model, again, rows)
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame({name: Z[:, i] for i, name in enumerate(["größe", "other"])}))


def test_a_path_may_be_text_or_a_path_and_an_old_file_is_replaced(tmp_path):
    X, Y, Z = data()
    one, two = (SpectralRegressor(Gaussian(0.5), lam=lam, fit_intercept=False).fit(X, Y) for lam in (0.1, 0.01))
    save(one, str(tmp_path / "a.model"))
    save(two, tmp_path / "a.model")
    same(two, load(str(tmp_path / "a.model")), Z)
    assert os.listdir(tmp_path) == ["a.model"]


def test_a_file_can_be_read_by_those_whom_the_umask_lets(tmp_path):
    X, Y, _ = data()
    save(SpectralRegressor(Gaussian(0.5), lam=0.1, fit_intercept=False).fit(X, Y), tmp_path / "a.model")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.model").stat().st_mode) == 0o666 & ~mask


def test_a_file_holds_no_pickle_and_its_header_is_readable(tmp_path):
    X, Y, _ = data()
    save(SpectralRegressor(Gaussian(0.5), fit_intercept=True).fit(X, Y), tmp_path / "a.model")
    with safetensors.safe_open(tmp_path / "a.model", framework="numpy") as file:
        header = json.loads(file.metadata()["unpooled"])["header"]
    assert (header["kind"], header["class"], header["format"]) == ("model", "SpectralRegressor", 2)
    assert header["kernel"]["length_scale"] == 0.5
    assert "Gaussian" in header["kernel"].values()


def small_file(tmp_path):
    X, y = regression(n=4, d=1, between=(0.0, 1.0), function=sine(6), noise=0.0)
    model = SpectralRegressor(Gaussian(0.5), lam=[0.1, 0.01], fit_intercept=True).fit(X, y)
    path = tmp_path / "small.model"
    save(model, path)
    return path, path.read_bytes(), X, model.predict(X)


def refused_or_unharmed(path, content, X, expected):
    """Whether the file is refused; if it is not, its predictions are those of the file that was written."""
    path.write_bytes(content)
    try:
        model = load(path)
    except FileError as error:
        message = str(error)
    else:
        assert_array_equal(model.predict(X), expected)
        return False
    assert message.startswith(str(path))
    assert "\n" not in message
    return True


def test_a_changed_byte_anywhere_is_refused_or_harmless(tmp_path):
    path, content, X, expected = small_file(tmp_path)
    rng = np.random.default_rng(1)
    refused = 0
    for place in range(len(content)):
        for value in {content[place] ^ (1 << rng.integers(8)), int(rng.integers(256))} - {content[place]}:
            refused += refused_or_unharmed(path, content[:place] + bytes([value]) + content[place + 1 :], X, expected)
    assert refused > 0.95 * len(content)


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    path, content, X, expected = small_file(tmp_path)
    assert all(refused_or_unharmed(path, content[:length], X, expected) for length in range(len(content)))


def test_bytes_put_in_anywhere_are_refused_or_harmless(tmp_path):
    path, content, X, expected = small_file(tmp_path)
    rng = np.random.default_rng(2)
    for place in range(len(content) + 1):
        extra = bytes(rng.integers(256, size=rng.integers(1, 9), dtype=np.uint8))
        refused_or_unharmed(path, content[:place] + extra + content[place:], X, expected)


def test_bytes_of_two_models_do_not_mix(tmp_path):
    path, content, X, expected = small_file(tmp_path)
    save(SpectralRegressor(Gaussian(0.5), lam=[0.1, 0.01], fit_intercept=True).fit(X, np.cos(X[:, 0])), path)
    other = path.read_bytes()
    assert len(other) == len(content)
    start = 8 + int.from_bytes(content[:8], "little")
    assert refused_or_unharmed(path, content[:start] + other[start:], X, expected)


def zipped_arrays():
    buffer = io.BytesIO()
    np.savez(buffer, points=np.zeros(3))
    return buffer.getvalue()


FOREIGN = {
    "text": lambda path: path.write_text("not a model\nat all\n"),
    "nothing": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(1000)),
    "ones": lambda path: path.write_bytes(b"\xff" * 1000),
    "json": lambda path: path.write_text(json.dumps({"format": 1})),
    "numpy": lambda path: path.write_bytes(zipped_arrays()),
    "pickle": lambda path: path.write_bytes(pickle.dumps({"format": 1})),
    "torch": lambda path: torch.save({"points": torch.zeros(3)}, path),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_kind_is_refused(kind, tmp_path):
    path = tmp_path / "a.model"
    FOREIGN[kind](path)
    with pytest.raises(FileError, match=r"a\.model is not a file of unpooled, or it is damaged"):
        load(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_others_is_refused(metadata, tmp_path):
    safetensors.numpy.save_file({"points": np.zeros((2, 2))}, tmp_path / "a.model", metadata=metadata)
    with pytest.raises(FileError, match="is a safetensors file, but not one that unpooled wrote"):
        load(tmp_path / "a.model")


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    X, Y, _ = data()
    with monkeypatch.context() as newer:
        newer.setattr(renames, "format_of", lambda _: 3)
        save(SpectralRegressor(Gaussian(0.5), fit_intercept=False).fit(X, Y), tmp_path / "a.model")
    with pytest.raises(FileError, match="has format 3 and this unpooled reads up to 2: install a newer unpooled"):
        load(tmp_path / "a.model")


def test_a_file_of_unpooled_that_is_not_a_model_is_refused(tmp_path):
    files.write(tmp_path / "a.model", "basis", {}, {"points": np.zeros(2)})
    with pytest.raises(FileError, match="holds a basis, not a model"):
        load(tmp_path / "a.model")
    files.write(tmp_path / "a.model", "model", {"class": "Oracle"}, {})
    with pytest.raises(FileError, match="holds a Oracle, which this version of unpooled does not know"):
        load(tmp_path / "a.model")


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[2Jcleared", "long" * 30, "", None, 3, ["a"]])
def test_a_forged_class_or_kind_cannot_write_a_line_of_its_own_on_the_screen(name, tmp_path):
    path = tmp_path / "a.model"
    files.write(path, "model", {"class": name}, {})
    with pytest.raises(FileError, match="which this version of unpooled does not know") as error:
        load(path)
    files.write(path, name, {}, {})
    with pytest.raises(FileError, match="not a model") as other:
        load(path)
    for text in (str(error.value), str(other.value)):
        assert text.isprintable()
        assert len(text) < len(str(path)) + 160


JUNK = [None, [], {}, "x", -1, 0.5, 1e308, True, [[]], {"kernel": []}, {"kernel": "Sum"}]


def places(tree, at=()):
    """Every position in a nest of dictionaries and lists."""
    for key in tree if isinstance(tree, dict) else range(len(tree)):
        yield (*at, key)
        if isinstance(tree[key], (dict, list)):
            yield from places(tree[key], (*at, key))


def test_a_header_of_nonsense_with_the_right_checksum_is_refused_or_loads(tmp_path):
    path, *_ = small_file(tmp_path)
    header, arrays = files.read(path, "model")
    for place in places(header):
        for junk in JUNK:
            changed = json.loads(json.dumps(header))
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = junk
            kind, own = changed.pop("kind"), dict(changed)
            files.write(path, "model", {**own, "kind": kind}, arrays)
            _load_or_refuse(path)
            if isinstance(inner, dict):
                inner.pop(place[-1], None)
                files.write(path, "model", own, arrays)
                _load_or_refuse(path)


def test_arrays_that_are_missing_or_misshapen_are_refused_or_load(tmp_path):
    path, *_ = small_file(tmp_path)
    header, arrays = files.read(path, "model")
    for name, array in arrays.items():
        rest = {other: value for other, value in arrays.items() if other != name}
        changed = [
            array[None],
            array[:0],
            array.astype(np.int8),
            np.zeros(0),
            np.full_like(array, -1),
            (array * np.nan if array.dtype.kind == "f" else array),
        ]
        files.write(path, "model", header, rest)
        _load_or_refuse(path)
        for value in changed:
            files.write(path, "model", header, {**rest, name: value})
            _load_or_refuse(path)


def test_a_header_that_is_not_json_or_far_too_deep_is_refused(tmp_path):
    for text in ("not json", "[" * 100_000, "3", '{"format": "1"}'):
        safetensors.numpy.save_file(
            {}, tmp_path / "a.model", metadata={"unpooled": text, "sha256": files.digest(text, {})}
        )
        with pytest.raises(FileError, match=r"a\.model"):
            load(tmp_path / "a.model")


def _load_or_refuse(path):
    message = ""
    try:
        load(path)
    except FileError as error:
        message = str(error)
    assert "\n" not in message


def test_what_does_not_exist_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.model does not exist, or is not a file"):
        load(tmp_path / "nowhere.model")
    with pytest.raises(FileNotFoundError, match="does not exist, or is not a file"):
        load(tmp_path)


def fitted():
    X, Y, _ = data()
    return SpectralRegressor(Gaussian(0.5), lam=0.1, fit_intercept=False).fit(X, Y)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot be written: the folder .*missing does not exist"):
        save(fitted(), tmp_path / "missing" / "a.model")
    assert os.listdir(tmp_path) == []


def untouched(folder, model, match, error=ValueError):
    """Saving fails with this message and changes nothing in the folder."""
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder) if (folder / name).is_file()}
    names = sorted(os.listdir(folder))
    with pytest.raises(error, match=match):
        save(model, folder / "a.model")
    assert sorted(os.listdir(folder)) == names
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_what_cannot_be_saved_says_why_and_leaves_the_folder_as_it_was(tmp_path):
    X, Y, _ = data()
    save(fitted(), tmp_path / "a.model")
    untouched(tmp_path, SpectralRegressor(fit_intercept=False), "is not fitted yet", NotFittedError)
    untouched(
        tmp_path,
        SpectralRegressor(lambda X, Z: X @ Z.T, lam=0.1, fit_intercept=False).fit(X, Y),
        "a model with the kernel FromFunction cannot be saved",
    )
    power = SpectralRegressor(gp.RBF() ** 2, lam=0.1, fit_intercept=False).fit(X, Y)
    untouched(tmp_path, power, "a model with scikit-learn's kernel Exponentiation cannot be saved")

    class Own(Tikhonov):
        pass

    own = SpectralRegressor(Gaussian(0.5), Own(), lam=0.1, fit_intercept=False).fit(X, Y)
    untouched(tmp_path, own, "a model with the filter Own cannot be saved")
    untouched(tmp_path, KernelRidge().fit(X, Y), "KernelRidge is not a model that can be saved: use one of")


@pytest.mark.parametrize("step", ["os.fsync", "os.replace", "os.chmod"])
def test_a_disk_that_fails_leaves_the_old_file_and_no_new_one(step, tmp_path, monkeypatch):
    save(fitted(), tmp_path / "a.model")

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(step, fail)
    untouched(tmp_path, fitted(), "No space left on device", OSError)


def test_a_folder_in_the_place_of_the_file_is_not_replaced(tmp_path):
    (tmp_path / "a.model").mkdir()
    untouched(tmp_path, fitted(), r"a\.model", OSError)


def test_equal_models_are_equal_files(tmp_path):
    X, Y, _ = data()
    model = SpectralRegressor(Gaussian(0.5), fit_intercept=False).fit(X, Y)
    for i in range(8):
        save(model, tmp_path / f"{i}.model")
    assert len({(tmp_path / f"{i}.model").read_bytes() for i in range(8)}) == 1


def test_a_kernel_centred_on_a_sample_comes_back_exactly(tmp_path):
    X, Y, Z = data()
    model = SpectralRegressor(Centered(Gaussian(0.5), X[:7], np.arange(1.0, 8.0)), fit_intercept=False).fit(X, Y)
    assert_array_equal(through(tmp_path / "a.model", model).predict(Z), model.predict(Z))
