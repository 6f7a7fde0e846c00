"""Damaged and forged files of every kind: each is refused with a FileError, or gives what it should.

    python -m tests.models.fuzz_files --cases 10000

Damage (bytes changed, lost, added, exchanged) must be refused or harmless: the object saves to the very file it was.
A forgery has a changed header or changed arrays and the right SHA-256 over them: it must be refused, or give an object
that works. Nothing may crash, hang, or take much memory.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import unpooled as up
from unpooled._base import files
from unpooled.cli.inspect import of_candidates, of_model, of_scores
from unpooled.summaries.contents import loss_of

SLOW = 5  # seconds for a file of a few kilobytes


@dataclass
class Specimen:
    """One file, how it is read and written, and what can be done with what is in it."""

    name: str
    load: Callable[[Path], Any]
    save: Callable[[Any, Path], None]
    use: Callable[[Any], object]
    content: bytes = b""


def specimens(folder: Path) -> list[Specimen]:
    """A file of every kind, small."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    y = np.sin(X[:, 0]) + 0.1 * Y[:, 0]
    import pyarrow as pa

    table = pa.table({"age": X[:20, 0], "dose": X[:20, 1]})
    named = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 5, standardize=True).fit(table)
    waves = up.bases.RandomFeatures(up.kernels.Matern(1.5), 7, seed=1).fit(X[:20])
    sums = [up.kernels.Gaussian(1.0) + 0.5 * up.kernels.Linear()]
    summed = up.bases.EmpiricalFeatures(sums[0], 4).fit(X[:20])

    def summary(basis: Any, rows: slice, labels: np.ndarray, **how: Any) -> Any:
        x = pa.table({"age": X[rows, 0], "dose": X[rows, 1]}) if basis is named else X[rows]
        return up.Summary.of(basis, x, labels[rows], **how)

    halves = [slice(0, 30), slice(30, 60)]
    first = sum(summary(named, half, y) for half in halves)
    second = sum(summary(named, half, Y, order=2) for half in halves)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few public rows are worth a warning
        regressor = up.SummaryRegressor(fit_intercept=True, ridge=True).fit_summary(first)
    candidates = regressor.candidates()
    residuals = summary(named, slice(0, 60), y, residuals_of=regressor)
    round_two = copy.deepcopy(regressor).update(residuals)
    own = up.SummaryRegressor(filter="iterated-tikhonov", n_features=4, fit_intercept=False).fit_summary(second)
    pooled = up.SummaryRegressor(fit_intercept=True).fit_summary(summary(named, slice(0, 60), y, order=2)).candidates()
    less = up.LESSRegressor(up.kernels.Gaussian(1.0), 5, rounds=3, loss="huber", fit_intercept=True).fit(
        X, y, public=X[:20]
    )
    scores = sum(
        up.Scores.of(candidates, named, pa.table({"age": X[half, 0], "dose": X[half, 1]}), y[half]) for half in halves
    )
    asked = up.privacy.PrivacyRequest(50.0, 1e-6, label_bound=2.0)
    rounds = up.PrivateRegressor(50.0, 1e-6, 2.0, up.kernels.Gaussian(1.0), n_features=5, rounds=2)
    descent = up.PrivateSGDRegressor(50.0, 1e-6, 2.0, up.kernels.Gaussian(1.0), n_features=5, passes=2)
    with mock.patch(
        "unpooled.privacy.noise._add_discrete_gaussian", lambda units, _: units
    ):  # or each run had other files
        noised = summary(named, slice(0, 60), y, order=2, privacy=asked)
        rounds.fit(X, y, public=X[:20], sites=np.arange(60) % 2)
        descent.fit(X, y, public=X[:20])
    objects: list[tuple[str, Any]] = [
        ("basis", named),
        ("basis of waves", waves),
        ("basis of a sum", summed),
        ("summary of order 1", summary(waves, slice(0, 60), y)),
        ("summary of order 2", summary(named, slice(0, 60), Y, order=2)),
        ("merged summary", second),
        ("robust residuals", summary(named, slice(0, 60), y, residuals_of=regressor, loss=up.losses.Huber(1.5))),
        ("SummaryRegressor", round_two),
        ("SummaryRegressor of order 2", own),
        ("LESSRegressor", less),
        ("candidates", candidates),
        ("candidates of order 2", pooled),
        ("scores", scores),
        ("private summary", noised),
        ("model of a private summary", up.SummaryRegressor(fit_intercept=True).fit_summary(noised)),
        ("PrivateRegressor", rounds),
        ("PrivateSGDRegressor", descent),
    ]
    found = []
    for number, (name, one) in enumerate(objects):
        made = Specimen(name, *_ways(one, X[:3]))
        if name == "SummaryRegressor":
            made.use = lambda m: (of_model(m), _predicted(m, X[:3]), _next_round(m, named, table, y[:20]))
        path = folder / f"{number}"
        made.save(one, path)
        made.content = path.read_bytes()
        assert again(made, made.load(path), folder / "again") == made.content, name
        found.append(made)
    return found


def _ways(one: Any, rows: np.ndarray) -> tuple[Any, Any, Any]:
    def own(value: Any, path: Path) -> None:
        value.save(path)

    if isinstance(one, up.bases.Basis):
        return up.bases.load, own, lambda b: (b.describe(), b.digest, b.features(_fitting(rows, b.map_)), b.n_features_)
    if isinstance(one, up.Summary):
        return up.Summary.load, own, lambda s: (s.describe(), s + s, s.gram, s.to_first_order())
    if isinstance(one, up.Candidates):
        return up.Candidates.load, own, lambda c: (of_candidates(c), c.digest, _scored(c))
    if isinstance(one, up.Scores):
        return up.Scores.load, own, lambda s: (of_scores(s), s + s, s.mean)
    return up.load, up.save, lambda m: (of_model(m), _predicted(m, rows), repr(m), getattr(m, "path_", None))


def _fitting(rows: np.ndarray, map_: Any) -> np.ndarray:
    """A forgery may have other columns than the file it was made from."""
    return np.resize(rows, (len(rows), map_.n_features_in))


def _predicted(model: Any, rows: np.ndarray) -> Any:
    return model.predictor_.predict(_fitting(rows, model.predictor_.map))


def _next_round(model: Any, basis: Any, rows: Any, y: np.ndarray) -> None:
    """A forged state of the rounds may be refused here as well, in a sentence."""
    if model.summary_.order == 1:
        try:
            residuals = up.Summary.of(basis, rows, y, residuals_of=model, loss=loss_of(model.loss_))
            copy.deepcopy(model).update(residuals)
        except (ValueError, up.BlockError) as error:
            assert type(error) is ValueError or type(error.__cause__) is ValueError, repr(error)


def _scored(candidates: Any) -> np.ndarray:
    _, M, T = candidates.coef.shape
    return candidates.errors(np.ones((2, M)), np.ones((2, T)), None)


def again(specimen: Specimen, one: Any, path: Path) -> bytes:
    """The file that an object saves to."""
    specimen.save(one, path)
    return path.read_bytes()


# --- damage -----------------------------------------------------------------------------------------------------------


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The file after an accident."""
    data, n = bytearray(content), len(content)
    at, other = (int(i) for i in rng.integers(0, n, 2))
    length = int(rng.integers(1, 64))
    kind = int(rng.integers(0, 9))
    if kind <= 1:  # most of all: one bit, one byte
        data[at] ^= 1 << int(rng.integers(0, 8)) if kind == 0 else int(rng.integers(1, 256))
    elif kind == 2:
        for place in rng.integers(0, n, int(rng.integers(2, 20))):
            data[place] = int(rng.integers(0, 256))
    elif kind == 3:
        del data[at:]
    elif kind == 4:
        data[at:at] = rng.bytes(length)
    elif kind == 5:
        del data[at : at + length]
    elif kind == 6:
        a, b = sorted((at, other))
        data[a : a + length], data[b : b + length] = data[b : b + length], data[a : a + length]
    elif kind == 7:
        data[at : at + length] = bytes(len(data[at : at + length]))
    else:
        data += rng.bytes(length)
    # Half of the time the damage is where the structure is: in the first bytes and the header.
    where = int(rng.integers(0, 6))
    if where == 0:
        return _other_container(content, rng)
    return bytes(data) if where <= 3 else bytes(_near_the_start(bytearray(content), rng))


def _other_container(content: bytes, rng: np.random.Generator) -> bytes:
    """Arrays of another type, shape or place, as safetensors itself says it."""
    start = int.from_bytes(content[:8], "little") + 8
    outer = json.loads(content[8:start])
    name = sorted(outer)[int(rng.integers(0, len(outer)))]
    entry = outer[name]
    kind = int(rng.integers(0, 7))
    if name == "__metadata__" or kind == 0:
        outer[["a", "__metadata__", "b" * 300][int(rng.integers(0, 3))]] = outer.pop(name)
    elif kind <= 2:
        entry["dtype"] = TYPES[int(rng.integers(0, len(TYPES)))]
    elif kind == 3:
        entry["shape"] = [[], [0], [2**62, 0], [2**62, 4], entry["shape"][::-1], [1] * 70][int(rng.integers(0, 6))]
    elif kind == 4:
        entry["data_offsets"] = [int(i) for i in rng.integers(0, len(content) - start + 8, 2)]
    elif kind == 5:
        other = outer[sorted(set(outer) - {"__metadata__"})[0]]
        entry["data_offsets"], other["data_offsets"] = other["data_offsets"], entry["data_offsets"]
    else:
        del entry[["dtype", "shape", "data_offsets"][int(rng.integers(0, 3))]]
    text = json.dumps(outer).encode()
    return len(text).to_bytes(8, "little") + text + content[start:]


TYPES = ["F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "I64", "U64", "I8", "BOOL", "C64", "F128"]


def _near_the_start(data: bytearray, rng: np.random.Generator) -> bytearray:
    start = int.from_bytes(data[:8], "little") + 8
    for _ in range(int(rng.integers(1, 3))):
        data[int(rng.integers(0, start))] = int(rng.integers(32, 127))
    return data


# --- forgery ----------------------------------------------------------------------------------------------------------

DEEP: Any = {"type": "Sum", "left": {"type": "Gaussian"}, "right": {"type": "Gaussian"}}
for _ in range(300):
    DEEP = {"type": "Sum", "left": DEEP, "right": {"type": "Gaussian"}}
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 10**9, 2**63, -(10**30), 10**400, 0.0, -1.0, 0.5, 1e308, 5e-324),
    *("", "x", "nan", "inf", "median", "huber", "huber -1", "huber nan", "squared 2", "correntropy 1e400", "é" * 300),
    *("0" * 64, "f" * 63, "rule", "rows", "public", "kernel", "waves", "RandomFeatures", "AveragedRegressor"),
    *([], {}, [[]], [None], [1], ["a", "b"], [1e308, -1], {"a": 1}, [[[[[[1]]]]]], list(range(1000))),
    *({"type": "Gaussian"}, {"type": "Linear"}, {"type": "Precomputed"}, {"type": "Brownian"}, {"type": "Centered"}),
    *({"type": "Gaussian", "length_scale": -1.0}, {"type": "Gaussian", "length_scale": [1.0] * 7}),
    *({"type": "Polynomial", "degree": 10**6}, {"type": "Matern", "nu": -1}, {"type": "Sum", "left": 1, "right": 2}),
    *({"filter": "nu", "nu": -5}, {"filter": "iterated-tikhonov", "iterations": 10**9}, {"filter": "landweber"}),
    *({"loss": "huber", "scale": -2}, {"loss": "huber", "scale": []}, {"scikit-learn": "RBF"}, DEEP),
]


def _value(rng: np.random.Generator) -> Any:
    return json.loads(json.dumps(VALUES[int(rng.integers(0, len(VALUES)))]))


def forged(header: dict[str, Any], arrays: dict[str, np.ndarray], rng: np.random.Generator) -> tuple[Any, Any]:
    """A header and arrays that somebody has changed on purpose."""
    header, arrays = copy.deepcopy(header), dict(arrays)
    for _ in range(int(rng.integers(1, 3))):
        if rng.integers(0, 5) < 3:
            _change_header(header, rng)
        else:
            _change_arrays(arrays, rng)
    return header, arrays


def _change_header(header: Any, rng: np.random.Generator) -> None:
    place, key = header, ""
    while isinstance(place, dict) and place:  # down to a random place
        key = sorted(place)[int(rng.integers(0, len(place)))]
        if not isinstance(place[key], dict) or not place[key] or rng.integers(0, 4) == 0:
            break
        place = place[key]
    kind = int(rng.integers(0, 8))
    if kind == 0:
        place.pop(key, None)
    elif kind == 1:
        place["surplus"] = _value(rng)
    elif kind == 2 and isinstance(place.get(key), list):
        place[key] = [*place[key], _value(rng)]
    elif kind == 3 and type(place.get(key)) in (int, float):
        place[key] = place[key] * [-1, 0, 2, 1000][int(rng.integers(0, 4))]
    else:
        place[key] = _value(rng)


def _change_arrays(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    names = sorted(arrays)
    name = names[int(rng.integers(0, len(names)))]
    array = np.atleast_1d(arrays[name])
    other = arrays[names[int(rng.integers(0, len(names)))]]
    extremes = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, -1e308, 1e-308]

    def one(value: float) -> np.ndarray:
        changed = array.astype(float)
        changed.flat[int(rng.integers(0, max(array.size, 1))) :][:1] = value
        return changed

    changes: list[Callable[[], np.ndarray]] = [
        lambda: one(extremes[int(rng.integers(0, len(extremes)))]),
        lambda: np.full_like(array, [0, -1, 1, 127][int(rng.integers(0, 4))]),
        lambda: array.astype([np.float32, np.float16, np.int8, np.uint8, np.int64, bool][int(rng.integers(0, 6))]),
        lambda: array[None],
        lambda: array[..., None],
        lambda: array[:0],
        lambda: array[: max(1, len(array) - 1)],
        lambda: np.concatenate([array, array]),
        lambda: array.T.copy(),
        lambda: array.reshape(-1),
        lambda: np.zeros((0, 3, 0)),
        lambda: np.asarray(1.0),
        lambda: other,
        lambda: array[::-1].copy(),
        lambda: array * 1e200,
    ]
    choice = int(rng.integers(0, len(changes) + 2))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if choice == len(changes):
            del arrays[name]
        elif choice == len(changes) + 1:
            arrays[["surplus", f"{name}.low", "summary.extra", "rounds.extra"][int(rng.integers(0, 4))]] = array
        else:
            arrays[name] = changes[choice]()


# --- the run ----------------------------------------------------------------------------------------------------------


def run(n_cases: int, seed: int, folder: Path, tell: Callable[[str], None] = lambda _: None) -> Counter[str]:
    """So many cases, half of them damage; the outcomes, counted. An AssertionError tells of the first bad one."""
    outcomes: Counter[str] = Counter()
    found = specimens(folder)
    parts = {}
    for specimen in found:
        (folder / "whole").write_bytes(specimen.content)
        parts[specimen.name] = files.read_any(folder / "whole")
    path = folder / "case"
    for case in range(n_cases):
        rng = np.random.default_rng([seed, case])
        specimen = found[case // 2 % len(found)]
        what = f"case {case} of seed {seed}, {specimen.name}"
        started = time.monotonic()
        if case % 2:
            header, arrays = forged(*parts[specimen.name], rng)
            files.write(path, header.get("kind", "nothing"), header, arrays)
            outcomes[f"forged, {_forgery(specimen, path, folder, what)}"] += 1
        else:
            path.write_bytes(damaged(specimen.content, rng))
            outcomes[f"damaged, {_damage(specimen, path, folder, what)}"] += 1
        took = time.monotonic() - started
        assert took < SLOW, f"{what} took {took:.0f} seconds"
        if case % 1000 == 999:
            tell(f"{case + 1} cases: {dict(outcomes)}")
    return outcomes


def run_every(folder: Path, tell: Callable[[str], None] = lambda _: None) -> Counter[str]:
    """Every field of every header with every value there is, and without it."""
    outcomes: Counter[str] = Counter()
    for specimen in specimens(folder):
        path = folder / "case"
        path.write_bytes(specimen.content)
        header, arrays = files.read_any(path)
        for place in _places(header):
            for number, value in enumerate([*VALUES, ...]):
                changed = copy.deepcopy(header)
                inner = changed
                for key in place[:-1]:
                    inner = inner[key]
                inner[place[-1]] = value
                if value is ...:
                    del inner[place[-1]]
                files.write(path, "nothing", changed, arrays)
                what = f"{specimen.name}, {'.'.join(place)}, value {number}"
                outcomes[f"field changed, {_forgery(specimen, path, folder, what)}"] += 1
        tell(f"{specimen.name}: {dict(outcomes)}")
    return outcomes


def _places(header: dict[str, Any]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in header.items():
        found.append((key,))
        if isinstance(value, dict):
            found += [(key, *inner) for inner in _places(value)]
    return found


def _loaded(specimen: Specimen, path: Path, what: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return specimen.load(path)
    except files.FileError as error:
        assert "\n" not in str(error), f"{what}: not one line: {error!r}"
        assert len(str(error)) < 1000 + len(str(path)), f"{what}: long: {str(error)[:200]}"
        return None
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def _damage(specimen: Specimen, path: Path, folder: Path, what: str) -> str:
    one = _loaded(specimen, path, what)
    if one is None:
        return "refused"
    assert again(specimen, one, folder / "again") == specimen.content, f"{what}: another object"
    return "harmless"


def _forgery(specimen: Specimen, path: Path, folder: Path, what: str) -> str:
    one = _loaded(specimen, path, what)
    if one is None:
        return "refused"
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            specimen.use(one)
            written = again(specimen, one, folder / "again")
            assert again(specimen, specimen.load(folder / "again"), folder / "again") == written
    except Exception as error:
        raise AssertionError(f"{what}: loaded, and then {type(error).__name__}: {error}") from error
    return "works"


def main() -> None:
    """Every case in this process, with a limit on memory and an alarm for hanging."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", action="store_true", help="also every field with every value, some 20,000 cases")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
    signal.alarm(3600)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(asked.cases, asked.seed, Path(folder), _tell)
        if asked.every:
            outcomes += run_every(Path(folder), _tell)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:>7}  {outcome}")
    print(f"{sum(outcomes.values()):>7}  cases in {time.monotonic() - started:.0f} s, none of them bad")


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
