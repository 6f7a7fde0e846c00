"""PrivateRegressor refuses what it cannot promise in a sentence, and pays before it looks at a record."""

from __future__ import annotations

import math
import sys
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unpooled as up
from tests.cases.private_summaries import Unread
from tests.made_up import CUBE, points, sine
from unpooled import privacy
from unpooled._base import progress
from unpooled.kernels import Gaussian, Linear, Polynomial
from unpooled.privacy.rounds.schedule import make_schedule

rng = np.random.default_rng(0)
X, U = points(rng, 400, between=CUBE), points(rng, 60, between=CUBE)
y = sine(3, slope=0.5)(X)


def private(epsilon=1.0, label_bound=2.0, **how):
    return up.PrivateRegressor(epsilon, 1e-6, label_bound, **{"n_features": 12, **how})


BAD = [
    ({"epsilon": 0.0}, {}, "epsilon must be a positive"),
    ({"epsilon": -1}, {}, "epsilon must be a positive"),
    ({"epsilon": math.inf}, {}, "epsilon must be a positive"),
    ({"epsilon": "1"}, {}, "epsilon must be a positive"),
    ({"epsilon": 1e30}, {}, "do not fit into 64 bits"),
    ({"delta": 0.0}, {}, "delta must lie between 0 and 1"),
    ({"delta": 1.0}, {}, "delta must lie between 0 and 1"),
    ({"delta": -1e-6}, {}, "delta must lie between 0 and 1"),
    ({"label_bound": 0.0}, {}, "label_bound must be a positive"),
    ({"label_bound": -2.0}, {}, "label_bound must be a positive"),
    ({"label_bound": math.nan}, {}, "label_bound must be a positive"),
    ({"label_bound": 1e200}, {}, "label_bound must lie between"),
    ({"label_bound": 1e-200}, {}, "label_bound must lie between"),
    ({"kernel": Linear()}, {}, "Linear has no bound"),
    ({"kernel": Polynomial(2)}, {"public": U}, "Polynomial has no bound"),
    ({"kernel": Gaussian([1.0, 2.0, 3.0])}, {}, "3"),
    ({"kernel": Gaussian([1.0, 2.0, 3.0])}, {"public": U}, "3"),
    ({"kernel": "unknown"}, {}, "is not known"),
    ({"basis": up.bases.EmpiricalFeatures(Gaussian(1.0), 5).fit(U)}, {"public": U}, "leave public out"),
    ({"basis": up.bases.EmpiricalFeatures(Gaussian(1.0), 5).fit(U[:, :1])}, {}, "X has 2 features, but"),
    ({}, {"public": U[:, :1]}, "X has 2 features, but"),
    ({}, {"public": np.c_[U, U]}, "X has 2 features, but"),
    ({}, {"public": np.full((3, 2), np.nan)}, "public: X contains NaN"),
    ({"n_features": "auto"}, {"public": "nowhere.parquet"}, "public: X cannot be used"),
    ({"n_features": 0}, {}, "n_features must be"),
    ({"n_features": 2.5}, {}, "n_features must be"),
    ({"n_features": "many"}, {}, "n_features must be"),
    ({"rounds": 0}, {}, "rounds must be a whole number"),
    ({"rounds": 2.0}, {}, "rounds must be a whole number"),
    ({"rounds": "many"}, {}, "rounds must be a whole number"),
    ({"loss": "squared"}, {}, "loss must be 'auto', 'huber' or 'correntropy'"),
    ({"noise": "none"}, {}, "noise must be 'total' or 'site'"),
    ({"ledger": 5}, {}, "ledger must be a Ledger"),
    ({"random_state": None}, {}, "random_state must be a whole number"),
    ({"engine": "cloud"}, {}, "engine must be"),
    ({}, {"y": None}, "requires y to be passed"),
    ({}, {"y": Unread(399)}, "X has 400 rows and y has 399"),
    ({}, {"y": Unread(400, 2)}, "y must have one label for each row"),
    ({}, {"sites": np.zeros(399)}, "sites must hold one label per row"),
    ({}, {"sites": [None] * 400}, "sites has rows without a label"),
]


@pytest.mark.parametrize(("how", "given", "says"), BAD)
def test_bad_input_is_refused_in_a_sentence_before_data_are_read_or_budget_is_charged(how, given, says, tmp_path):
    ledger = privacy.Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    params = {"epsilon": 1.0, "delta": 1e-6, "label_bound": 2.0, "n_features": 12, "ledger": ledger, **how}
    with pytest.raises(ValueError, match=says) as error:
        up.PrivateRegressor(**params).fit(Unread(400, 2), **{"y": Unread(400), **given})
    assert "\n" not in str(error.value)
    assert ledger.charges() == []


@pytest.mark.parametrize("cls", [up.PrivateRegressor, up.PrivateSGDRegressor])
def test_without_opendp_nothing_is_paid_for(cls, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    ledger = privacy.Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    with pytest.raises(ImportError, match=r"unpooled\[privacy\]"):
        cls(1.0, 1e-6, 2.0, n_features=5, ledger=ledger).fit(Unread(400, 2), Unread(400), public=U)
    assert ledger.charges() == []


def test_values_that_are_no_numbers_are_refused_on_reading():
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="y contains NaN or infinity"):
            private().fit(X, np.where(np.arange(400) == 7, bad, y))
        with pytest.raises(ValueError, match="X contains"):
            private().fit(np.where(np.arange(800).reshape(400, 2) == 7, bad, X), y)


def test_a_delta_above_one_in_n_is_warned_of():
    with pytest.warns(UserWarning, match="delta = 0.01 is above 1/n"):
        up.PrivateRegressor(1.0, 0.01, 2.0, n_features=5).fit(X, y, public=U)


def test_the_ledger_is_charged_before_the_data_are_looked_at(tmp_path):
    ledger = privacy.Ledger.create(tmp_path / "clinic.ledger", 1.0, 1e-6, "clinic")
    first = private(ledger=str(tmp_path / "clinic.ledger")).fit(X, y, public=U)
    assert [charge.is_released for charge in ledger.charges()] == [True]
    [charged] = ledger.events()
    assert charged.mu == pytest.approx(np.sqrt(sum(event.mu**2 for _, event in first.schedule_.events())), rel=1e-9)
    for public in (U, None):
        with pytest.raises(privacy.Overspend, match="would bring clinic"):
            private(ledger=ledger).fit(Unread(400, 2), Unread(400), public=public)
    assert len(ledger.charges()) == 1
    other = privacy.Ledger.create(tmp_path / "other.ledger", 5.0, 1e-5, "other")
    with pytest.raises(AssertionError, match="looked at"):
        private(ledger=other).fit(Unread(400, 2), Unread(400), public=U)
    assert [charge.is_released for charge in other.charges()] == [False]  # spent, and nothing has left
    assert private(ledger=other).fit(X, y).privacy_.epsilon == 1.0
    assert len(other.charges()) == 2


@pytest.mark.parametrize("bound", [2.0, None])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("public", [U, None])
def test_what_was_spent_is_within_the_budget_and_in_the_ledger(bound, epsilon, public, tmp_path):
    ledger = privacy.Ledger.create(tmp_path / "a.ledger", 2 * epsilon, 1e-5, "a")
    model = private(epsilon, bound, ledger=ledger).fit(X, y, public=public)
    mu = privacy.mu_for(epsilon, 1e-6)
    spent = [item.event.mu for item in model.privacy_.spent_on]
    assert math.fsum(m**2 for m in spent) <= mu**2 * (1 + 1e-9)
    [charged] = ledger.events()
    assert math.fsum(m**2 for m in spent) <= charged.mu**2 * (1 + 1e-9)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 10**7),
    epsilon=st.floats(1e-3, 1e6),
    delta=st.floats(1e-12, 1e-2),
    bound=st.one_of(st.none(), st.floats(1e-50, 1e50)),
    n_public=st.one_of(st.none(), st.integers(1, 10**5)),
    rounds=st.one_of(st.just("auto"), st.integers(1, 200)),
)
def test_every_plan_keeps_the_budget_and_survives_its_file(n, epsilon, delta, bound, n_public, rounds):
    plan = make_schedule(n, epsilon, delta, bound, n_features=20, n_public=n_public, rounds=rounds)
    assert privacy.composition.delta([event for _, event in plan.events()], epsilon) <= delta * (1 + 1e-9)
    assert sum(name.startswith("round") for name, _ in plan.events()) == plan.rounds
    assert type(plan).from_dict(plan.to_dict()) == plan
    assert str(n) in str(plan)


def test_every_answer_is_asked_for_at_a_price_that_was_planned(monkeypatch):
    """The custodian is asked for no more, and for nothing else, than what the ledger was charged for."""
    from unpooled.privacy.rounds.custodian import RowHolder

    seen, ask = [], RowHolder.ask

    def spy(self, question, mu):
        seen.append(mu)
        return ask(self, question, mu)

    monkeypatch.setattr(RowHolder, "ask", spy)
    for public in (U, None):
        seen.clear()
        model = private(50.0).fit(X, y, public=public)
        assert seen == [item.event.mu for item in model.privacy_.spent_on]
        planned = [event.mu for _, event in model.schedule_.events()]
        assert all(any(math.isclose(mu, other, rel_tol=1e-12) for other in planned) for mu in seen)
        assert len(seen) <= len(planned)


def test_rows_that_must_be_read_to_be_described_are_paid_for_first(tmp_path):
    """An exhausted ledger must not answer questions about lists and CSV, not even with an error."""
    ledger = privacy.Ledger.create(tmp_path / "clinic.ledger", 0.1, 1e-6, "clinic")
    bad = [[0.0, float("nan")], [1.0, 2.0], [0.5, 0.5]]
    (tmp_path / "rows.csv").write_text("a,b,y\n1,2,3\n1,secret,3\n")
    for model in (private(ledger=ledger), up.PrivateSGDRegressor(1.0, 1e-6, 1.0, ledger=ledger)):
        for X_given, y_given in ((bad, [1.0, 2.0, 3.0]), (str(tmp_path / "rows.csv"), "y")):
            with pytest.raises(privacy.Overspend):
                model.fit(X_given, y_given)
    assert ledger.charges() == []


class CountedProgress(progress.Progress):
    """A progress bar that is not drawn, and remembers its total and its count."""

    shown: ClassVar[list[tuple[int, int]]] = []

    def __exit__(self, *_):
        self.shown.append((self.total, self._done))


@pytest.mark.parametrize("public", [U, None], ids=["public rows", "no public rows"])
def test_the_progress_bar_counts_every_question_that_is_paid_for(public, monkeypatch):
    """Those about the inputs too, which are asked where there are no public rows."""
    monkeypatch.setattr(CountedProgress, "shown", [])
    monkeypatch.setattr("unpooled.estimators.private.Progress", CountedProgress)
    model = private(50.0, verbose=1).fit(X, y, public=public)
    planned, counted = CountedProgress.shown[0]
    assert planned == len(model.schedule_.events())
    assert counted == len(model.privacy_.spent_on) <= planned
