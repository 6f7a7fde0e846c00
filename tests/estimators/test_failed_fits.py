"""A fit that fails, or is interrupted wherever it may be, changes nothing: neither attributes nor predictions."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unpooled as up
from tests.estimators.fitted import CASES, KERNEL, U, X, basis, y
from unpooled._base.declared import digest_of
from unpooled.kernels import Gaussian

pytestmark = pytest.mark.filterwarnings("ignore")
ESTIMATORS = str(Path(up.__file__).parent / "estimators")
#: The public calls themselves, which only check and return.
UNINTERRUPTED = {"fit", "partial_fit", "fit_summary", "update", "_keeps_no_rows"}

cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class State:
    """All that a model holds: its attributes, its digest, its predictions to the bit."""

    def __init__(self, model: Any) -> None:
        self.attributes, self.digest = dict(vars(model)), digest_of(model)
        self.values = np.asarray(model.predict(U)).tobytes()
        self.content = _content(model)

    def check(self, model: Any) -> None:
        assert vars(model).keys() == self.attributes.keys()
        assert all(vars(model)[name] is value for name, value in self.attributes.items())
        assert digest_of(model) == self.digest
        assert np.asarray(model.predict(U)).tobytes() == self.values
        assert _content(model) == self.content


def _content(model: Any) -> bytes | None:
    """What is pickled, where it can be: also what is held in private attributes."""
    try:
        return pickle.dumps(
            {name: value for name, value in vars(model).items() if name in ("_sums", "_asked", "_guess")}
        )
    except (TypeError, pickle.PicklingError):
        return None


class Interrupting:
    """Raises an error at one of the lines that the files of a room run, or counts these lines."""

    def __init__(
        self, at: int | None = None, error: type[BaseException] = KeyboardInterrupt, room: str = ESTIMATORS
    ) -> None:
        self.at, self.error, self.room, self.lines = at, error, room, 0

    def __enter__(self) -> Interrupting:
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self.room) or code.co_name in UNINTERRUPTED:
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                raise self.error("in the middle")
        return self.trace


@cases
def test_a_refused_fit_changes_nothing(case):
    model = case.fit(case.make())
    before = State(model)
    for bad in case.bad:
        with pytest.raises((ValueError, TypeError, FileNotFoundError)):
            bad(model)
        before.check(model)


@cases
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_that_is_interrupted_at_any_line_changes_nothing(case, error):
    model = case.fit(case.make())
    with Interrupting() as counting:
        case.again(model)
    assert counting.lines > 5
    model = case.fit(case.make())
    given = model.get_params(deep=False)
    before = State(model)
    for at in np.unique(np.linspace(1, counting.lines * 0.95, 12).astype(int)):
        with Interrupting(int(at), error), pytest.raises((error, up.BlockError)):
            case.again(model)
        before.check(model.set_params(**given))


@cases
def test_after_a_fit_that_failed_the_next_gives_what_it_would_have_given(case):
    if "private" in case.name:  # whose noise nobody can repeat
        return
    expected = case.again(case.fit(case.make())).predict(U)
    model = case.fit(case.make())
    other = case.fit(case.make())
    with Interrupting() as counting:
        case.again(other)
    with Interrupting(int(counting.lines * 0.8)), pytest.raises((KeyboardInterrupt, up.BlockError)):
        case.again(model)
    np.testing.assert_array_equal(case.again(model).predict(U), expected)


class Failing(Gaussian):
    """A kernel that fails where it is to give values."""

    def block(self, X, Z):
        raise RuntimeError("the kernel gave up")


class FailingEngine(up.engines.Threads):
    """An engine that fails after its first work is done."""

    def map_reduce(self, *given, **others):
        super().map_reduce(*given, **others)
        raise RuntimeError("the engine gave up")


with_kernel = [case for case in CASES if "summary" not in case.name and "more rows" not in case.name]


@pytest.mark.parametrize("case", with_kernel, ids=lambda case: case.name)
def test_a_kernel_that_fails_in_the_middle_changes_nothing(case):
    model = case.fit(case.make())
    name, before = "estimator__kernel" if case.name == "averaged" else "kernel", State(model)
    model.set_params(**{name: Failing(0.7)})
    with pytest.raises((RuntimeError, up.BlockError), match="gave up"):
        case.again(model)
    before.check(model.set_params(**{name: KERNEL}))


with_engine = [case for case in CASES if "engine" in case.make().get_params(deep=False)]


@pytest.mark.parametrize("case", with_engine, ids=lambda case: case.name)
def test_an_engine_that_fails_in_the_middle_changes_nothing(case):
    model = case.fit(case.make())
    before = State(model)
    with pytest.raises(RuntimeError, match="gave up"):
        case.again(model.set_params(engine=FailingEngine(1)))
    before.check(model.set_params(engine=None))


def test_a_fit_leaves_nothing_of_an_earlier_one():
    model = up.SpectralRegressor(KERNEL, fit_intercept=False).fit(X, y)
    assert "path_" in vars(model)
    assert "path_" not in vars(model.set_params(lam=0.1).fit(X, y))
    less = up.LESSRegressor(basis=basis(), lam=0.1, fit_intercept=False).fit(X, y)
    assert "summary_" in vars(less)
    assert "summary_" not in vars(less.set_params(rounds=2).fit(X, y))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize("cls", [up.NystromRegressor, up.CorrentropyRegressor, up.AveragedRegressor])
def test_a_failed_fit_puts_a_random_generator_back_to_where_it_stood(cls, make):
    rng = np.random.default_rng(0)
    rows, labels = rng.uniform(-1, 1, size=(80, 2)), rng.normal(size=80)
    spoilt = labels.copy()
    spoilt[5] = np.nan

    def fitted(*tries):
        model = cls(random_state=make(5)).fit(rows, labels)
        for wrong in tries:
            with pytest.raises(ValueError):
                model.fit(rows, wrong)
        return model.fit(rows, labels)

    np.testing.assert_array_equal(fitted().predict(rows), fitted(spoilt, spoilt).predict(rows))
