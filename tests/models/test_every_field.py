"""Every field of every file, at every depth, set to every wrong kind of value: refused in one sentence.

The files are the golden ones of all kinds, their models in format 2 too, and an average in the span of a basis. What a
value may be is said here once more, by hand and by the name of the field, so a check that is lost in the library
is missed here.

Tests `estimators/stored.py`.
"""

from __future__ import annotations

import copy
import json
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unpooled as up
from tests.estimators.test_basis_average import average
from unpooled._base import files, renames

FOLDER = Path(__file__).parent / "golden"
#: how a file of each kind is read, and written again
LOAD: dict[str, Callable[[str], Any]] = {
    "model": up.load,
    "basis": up.bases.load,
    "summary": up.Summary.load,
    "candidates": up.Candidates.load,
    "scores": up.Scores.load,
}
PATHS = [path for kind in LOAD for path in sorted(FOLDER.glob(f"*.{kind}"))]
NAMES = [*(path.name for path in PATHS), "average in a span.model"]
NAMES += [f"{path.stem} in format 2" for path in PATHS if path.suffix == ".model"]
MISSING = object()
#: a value of every kind that JSON has, and some of the wrong size
VALUES: list[Any] = [None, True, 7, -3, 0.5, math.pi * 1e300, "nonsense", [], {}, [[1.0]], {"nonsense": 1}, ["a", 1]]

#: Fields in the envelope of a file, of which its content knows nothing.
ENVELOPE = {"format", "kind", "unpooled"}
#: Kinds of values that a field may have, by its name, a letter for each: see `letter`.
MAY_BE = {
    # parameters
    "kernel": "N", "engine": "NW", "lam": "WRH", "grid": "NWRH", "random_state": "NW", "cv": "W", "fit_intercept": "T",
    "per_target": "T", "refit": "T", "ridge": "T", "standardize": "T", "shrink": "T", "averaged": "T",
    "verbose": "TWR-H", "tol": "R", "tolerance": "R", "step": "NWRH", "decay": "R", "jump": "R",
    "memory_limit": "NWRH", "time_limit": "NWRH", "max_validation": "W", "params.n_blocks": "W",
    "max_iter": "W", "weight_decay": "WRH",
    "n_features": "W", "rounds": "W", "passes": "NW", "batch_size": "NW", "n_steps": "NW", "clip": "NWRH",
    "precondition": "NWRH", "label_bound": "NWRH", "estimator": "N", "scale": "WRH", "n_iter": "W", "order": "",
    # the same in files of format 1
    "center": "T", "intercept": "NT", "max_rounds": "W", "local": "N",
    # facts of a fit
    "one_target": "", "one_lam": "", "n_features_in": "",
    "n_blocks": "", "exact": "T", "jitter": "RH", "n_rounds": "W", "n_features_rule": "W",
    "n_sites": "W", "rows": "W", "unlabeled": "W", "weight": "RH", "round": "W", "feature_names": "", "targets": "",
    "privacy": "", "floor": "N", "mean": "NRH", "operator": "NRH", "constant": "WRH", "mu": "WRH", "epsilon": "WRH",
    "kappa": "WRH", "r2": "NRH",
    "plan.ridge": "NWRH", "sensitivity": "WRH", "sigma": "WRH", "n_rows": "W",
    "length_scale": "WRH", "iterations": "W", "nu": "WRH", "odd": "",
    # of the other files
    "basis: n_public": "W", "basis: kappa_sq": "RH", "summary: privacy": "N", "privacy.labels": "WRH",
    "candidates: weight": "RH", "candidates: own": "T",
}  # fmt: skip
#: Fields whose text is free: names of rows, columns and labels, and sentences.
FREE = {"name", "purpose", "mechanism", "neighbours"}
#: What not every model has, and lists that may be empty.
OPTIONAL = {"compression"}
EMPTY = {"spent_on", "history", "sites", "history_", "sites_"}
FREE_LISTS = {"feature_names", "targets", "why", "public", "conditions"}


def letter(value: Any) -> str:
    """None, truth, whole, real, negative or huge number, string, list or dictionary."""
    if value is None:
        return "N"
    if isinstance(value, bool):
        return "T"
    if isinstance(value, (int, float)):
        return "-" if value < 0 else "H" if value > 1e9 else "W" if isinstance(value, int) else "R"
    return "S" if isinstance(value, str) else "L" if isinstance(value, list) else "D"


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every entry of a header: of dictionaries, and of lists those at the beginning."""
    items = content.items() if isinstance(content, dict) else enumerate(content[:2])
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def changed(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    content = copy.deepcopy(content)
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return content


class Reader:
    """Reads a header and arrays as ``load`` reads a file with them."""

    def __init__(self, monkeypatch: Any) -> None:
        self.parts: Any = None
        self.written: Any = None
        monkeypatch.setattr(files, "read", lambda *_: copy.deepcopy(self.parts))
        monkeypatch.setattr(files, "write", lambda _, *parts: setattr(self, "written", parts))

    def refuses(self, header: Any, arrays: Any) -> bool:
        """Whether a file is refused, in one sentence; what is read must be written as it was."""
        self.parts, kind = (header, arrays), header["kind"]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of scikit-learn's kernels and of a δ that is large
                found = LOAD[kind]("it")
        except files.FileError as error:
            start, _, sentence = str(error).partition(": ")
            assert start in (f"it does not hold a complete {kind}", f"it does not hold complete {kind}")
            assert "\n" not in sentence
            assert sentence.count(" ") > 1, sentence
            assert len(sentence) < 600, sentence
            return True
        if kind == "model":
            up.save(found, "it")
        else:
            found.save("it")
        again_as, again, numbers, *_ = self.written
        assert again_as == kind
        content = {k: v for k, v in header.items() if k not in ENVELOPE}
        if kind == "model" and header["format"] == 1:
            assert again.pop("digest", None) in (None, files.digest(content, arrays))
            content = renames.translate(content)
        assert json.loads(json.dumps(again)) == content
        assert numbers.keys() == arrays.keys()
        return False


@pytest.fixture
def reader(monkeypatch):
    return Reader(monkeypatch)


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    path = tmp_path_factory.mktemp("average") / "average in a span.model"
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.5), n_features=6).fit(np.linspace(-1, 1, 40)[:, None])
    up.save(average(basis), path)
    found = {one.name: files.read_any(one) for one in [*PATHS, path]}
    for one in FOLDER.glob("*.model"):
        header, arrays = found[one.name]
        found[f"{one.stem} in format 2"] = renames.translate(header) | {"format": 2}, arrays
    return found


def allowed(kind: str, path: tuple[Any, ...], old: Any, new: Any) -> bool:
    """Whether a value is of a kind that the field may have: then it may be read, and must be written again as it is."""
    key = path[-1]
    if isinstance(key, int):  # an entry of a list
        of = path[-2]
        kinds = MAY_BE.get(f"{path[0]}.{of}", MAY_BE.get(of, "")).replace("N", "")
        return (of in FREE_LISTS and isinstance(new, str)) or letter(new) in kinds
    if key in FREE and isinstance(new, str):
        return True
    if key == "name":
        return False
    if key in FREE_LISTS and isinstance(new, list):
        return all(isinstance(one, str) for one in new)
    if key in EMPTY and new == []:
        return True
    beside = MAY_BE.get(f"{path[-2]}.{key}" if len(path) > 1 else f"{kind}: {key}")
    return letter(new) in (beside or MAY_BE.get(key, {"W": "W", "R": "RH", "H": "RH"}.get(letter(old), "")))


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_of_the_header_set_to_every_wrong_kind_is_refused_in_a_sentence(name, reader, contents):
    header, arrays = contents[name]
    assert not reader.refuses(header, arrays)
    accepted = []
    for path in places(header):
        if path[0] in ENVELOPE | {"class"}:  # by which the file is taken to its reader, and to its class
            continue
        old = header
        for key in path:
            old = old[key]
        for value in [*VALUES, *([] if isinstance(path[-1], int) else [MISSING])]:
            if value is not MISSING and type(value) is type(old) and value == old:
                continue
            if header["kind"] == "summary" and path == ("one_target",) and value is True:
                continue  # sums for several functions of one label: read, and not written so again
            if not reader.refuses(changed(header, path, value), arrays) and (
                path[-1] not in OPTIONAL if value is MISSING else not allowed(header["kind"], path, old, value)
            ):
                accepted.append((path, "missing" if value is MISSING else value))
    assert not accepted


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_too_many_is_refused_at_every_depth(name, reader, contents):
    header, arrays = contents[name]
    accepted = []
    for path in [(), *places(header)]:
        inner = header
        for key in path:
            inner = inner[key]
        if isinstance(inner, dict) and not reader.refuses(changed(header, (*path, "surplus"), 1), arrays):
            accepted.append(path)
    assert not accepted
    assert reader.refuses(header, arrays | {"surplus": np.ones(3)})


#: Arrays in which a number may be unknown.
UNKNOWN = {"path.criterion", "path.df", "path.score", "path.scales", "scale", "scale_", "path.scale"}


#: Counts, which may be large.
COUNTS = {"n_iter", "n_iter_", "path.iterations", "path.n_iter", "path.tried"}


def wrong_arrays(array: np.ndarray) -> Iterator[tuple[str, np.ndarray | object]]:
    yield "missing", MISSING
    yield "a dimension more", array[None]
    yield "empty", array[:0]
    yield "longer", np.concatenate([array, array])
    yield "truths", array.astype(bool)
    if array.dtype.kind == "f":
        yield "whole numbers", np.nan_to_num(array, posinf=9.0).astype(np.int64)
        for what, value in (("NaN", np.nan), ("infinite", np.inf)):
            holed = array.copy()
            holed.flat[-1:] = value
            yield what, holed
    else:
        yield "real numbers", array.astype(float)
        yield "negative", np.full_like(array, -1)
        yield "of one far beyond", np.full_like(array, 10**6)


@pytest.mark.parametrize("name", NAMES)
def test_every_array_of_another_kind_or_shape_is_refused_in_a_sentence(name, reader, contents):
    header, arrays = contents[name]
    accepted = []
    for key, array in arrays.items():
        for what, value in wrong_arrays(array):
            if (what in ("NaN", "infinite") and key in UNKNOWN) or (what == "of one far beyond" and key in COUNTS):
                continue
            if (key, what) == ("coef", "longer"):  # a basis that no file holds may have more features
                continue
            if (key, what) == ("vectors", "missing"):  # of candidates: without them the axes of the basis are meant
                continue
            others = {k: v for k, v in arrays.items() if k != key}
            if not reader.refuses(header, others if value is MISSING else others | {key: value}):
                accepted.append((key, what))
    assert not accepted
