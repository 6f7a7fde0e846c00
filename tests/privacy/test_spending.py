"""Private rows are paid for before anybody reads them, wherever something is released of them.

Six places do so. Each is run here with rows, ledgers and noise that write down what happens to them; the last tests
plant faults in the one context that all six use, and the tests above must see every fault.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unpooled as up
from tests.cases.spending import BOUND, CASES, DELTA, PLACES, TABLE, Diary, keep, of_a_site, of_an_audit, rows_of
from unpooled.estimators import private_sgd
from unpooled.privacy import Approximate, Ledger, Overspend
from unpooled.privacy.ledger import Spending

pytest.importorskip("opendp")

every_case = pytest.mark.parametrize(("place", "kind"), CASES, ids=lambda part: getattr(part, "__name__", part))
WITH_LEDGER = [(place, kind) for place, kind in CASES if place is not of_an_audit]  # an audit makes ledgers of its own
every_case_with_a_ledger = pytest.mark.parametrize(
    ("place", "kind"), WITH_LEDGER, ids=lambda part: getattr(part, "__name__", part)
)


@pytest.fixture
def diary(monkeypatch):
    found = Diary()
    keep(found, monkeypatch)
    return found


@pytest.fixture
def ledger(tmp_path, diary):
    """With room for one release and not for two."""
    found = Ledger.create(tmp_path / "rows.ledger", 1.2, DELTA, "rows")
    diary.events.clear()
    return found


def state(ledger):
    return [charge.released for charge in ledger.charges()]


@every_case
def test_the_order_is_charge_read_noise_release(place, kind, diary, ledger, tmp_path):
    place(diary, tmp_path, *rows_of(kind, diary, tmp_path, place))
    diary.check()
    assert diary.events[0] == "charged"
    assert diary.events[-1] == "released" or place is of_an_audit
    assert diary.events.count("released") == diary.events.count("charged") == (3 if place is of_an_audit else 1)
    assert "read" in diary.events
    if place is not of_an_audit:
        assert state(ledger) == [True]


@every_case_with_a_ledger
def test_what_does_not_fit_the_budget_reads_nothing(place, kind, diary, ledger, tmp_path):
    rows = rows_of(kind, diary, tmp_path, place)
    ledger.charge(Approximate(1.1, DELTA / 2), "something else")
    diary.events.clear()
    with pytest.raises((Overspend, RuntimeError), match="budget") as caught:
        place(diary, tmp_path, *rows)
    assert diary.events == [], caught.value
    assert state(ledger) == [False]


@every_case
@pytest.mark.parametrize("when", ["charged", "read", "noise"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_is_stopped_after_its_charge_stays_charged_and_unreleased(
    place, kind, when, error, diary, ledger, tmp_path
):
    """Whether by Ctrl-C or by an error, right after the charge, at the first row or with the noise on the numbers."""
    rows = rows_of(kind, diary, tmp_path, place)
    diary.fails = {when: error("stopped")}
    with pytest.raises((error, RuntimeError, ValueError)):
        place(diary, tmp_path, *rows)
    diary.check()
    assert diary.events[-1] == when
    assert "released" not in diary.events
    if place is of_an_audit:
        return
    assert state(ledger) == [False]
    diary.events.clear()
    with pytest.raises((Overspend, RuntimeError), match="budget"):  # it was spent: nobody gets it back
        place(diary, tmp_path, *rows)
    assert diary.events == []


@every_case_with_a_ledger
def test_an_error_in_the_check_costs_nothing(place, kind, diary, ledger, tmp_path):
    """A budget that is none; and columns that are missing, where that can be told with the rows unread."""
    with pytest.raises((ValueError, RuntimeError)):
        place(diary, tmp_path, *rows_of(kind, diary, tmp_path, place), epsilon=-1.0)
    assert diary.events == []
    with pytest.raises((ValueError, RuntimeError)):
        place(diary, tmp_path, *rows_of(kind, diary, tmp_path, place, TABLE.drop_columns(["b"])))
    diary.check()
    assert diary.events == [] or kind in ("lists", "csv")
    assert state(ledger) == [False] * ("charged" in diary.events)


@every_case_with_a_ledger
def test_rows_that_only_reading_can_judge_are_paid_for_before_they_are_judged(place, kind, diary, ledger, tmp_path):
    """A value that is no number is a secret too: nobody learns of it who has not paid."""
    y = TABLE["y"].to_numpy().copy()
    y[5] = np.nan
    rows = rows_of(kind, diary, tmp_path, place, TABLE.set_column(2, "y", pa.array(y)))
    with pytest.raises((ValueError, RuntimeError)):
        place(diary, tmp_path, *rows)
    diary.check()
    assert diary.events[0] == "charged"
    assert state(ledger) == [False]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_labels_beyond_the_bound_are_no_error(place, diary, ledger, tmp_path):
    kind = PLACES[place][0]
    beyond = TABLE.set_column(2, "y", pa.array(1e3 * BOUND * TABLE["y"].to_numpy()))
    place(diary, tmp_path, *rows_of(kind, diary, tmp_path, place, beyond))
    diary.check()


# --- faults that are planted in the one context: the diary must show every one of them --------------------------------


def read_before_charge(self, reader):
    found = reader()
    self.charge()
    return found


def never_charged(self):
    pass


def released_on_entry(self):
    self.charge()
    self._reservation.commit()
    return self


def released_whatever_happens(self, *_):
    if self._reservation is not None:
        self._reservation.commit(**self._facts)


FAULTS = [
    ("read", read_before_charge, None),
    ("charge", never_charged, None),
    ("__enter__", released_on_entry, None),
    ("__exit__", released_whatever_happens, "noise"),
]
READ_AT_ONCE = {place: "arrays" if "arrays" in kinds else "csv" for place, kinds in PLACES.items()}


@pytest.mark.parametrize(("method", "fault", "stopped_at"), FAULTS, ids=lambda part: getattr(part, "__name__", None))
@pytest.mark.parametrize("place", READ_AT_ONCE, ids=lambda place: place.__name__)
def test_a_fault_in_the_order_is_seen_at_every_place(
    place, method, fault, stopped_at, diary, ledger, tmp_path, monkeypatch
):
    """So all six places go through the context, and the tests above would fail without it."""
    rows = rows_of(READ_AT_ONCE[place], diary, tmp_path, place)
    monkeypatch.setattr(Spending, method, fault)
    if stopped_at is not None:
        diary.fails = {stopped_at: OSError("stopped")}
    with contextlib.suppress(OSError, RuntimeError):
        place(diary, tmp_path, *rows)
    if stopped_at is None:
        with pytest.raises(AssertionError, match="before|has paid"):
            diary.check()
    elif place is not of_a_site:  # which enters the context when the answer is made, at its gate
        assert "released" in diary.events


def test_a_release_is_paid_for_once_however_often_it_reads(ledger):
    spent = Approximate(0.5, DELTA / 2)
    with Spending(ledger, spent, "a release") as spending:
        assert [spending.read(lambda: 1), spending.read(lambda: 2)] == [1, 2]
        spending.charge()
        assert state(ledger) == [False]
        spending.note(n_rows=3)
    assert state(ledger) == [True]
    assert ledger._entries()[-1].event["facts"] == {"n_rows": 3}
    with Spending(ledger, spent, "nothing was read"):
        pass
    assert len(ledger.charges()) == 1
    with Spending(None, spent, "a release") as spending:
        assert spending.read(lambda: "without a ledger") == "without a ledger"


def test_rows_that_change_between_their_count_and_their_reading_are_refused_and_stay_paid_for(tmp_path, monkeypatch):
    """The noise of a descent is planned for as many rows as were counted."""
    path = tmp_path / "rows.parquet"
    public = np.random.default_rng(1).uniform(-1, 1, size=(100, 2))

    def write(n):
        rng = np.random.default_rng(n)
        inputs = rng.uniform(-1, 1, size=(n, 2))
        pq.write_table(pa.table({"a": inputs[:, 0], "b": inputs[:, 1], "y": inputs[:, 0]}), path)

    write(3000)
    plan = private_sgd.tight_plan

    def plan_while_the_file_is_exported_anew(*given):
        found = plan(*given)
        write(300)
        return found

    monkeypatch.setattr(private_sgd, "tight_plan", plan_while_the_file_is_exported_anew)
    books = Ledger.create(tmp_path / "books.ledger", 2.0, DELTA, "rows")
    model = up.PrivateSGDRegressor(1.0, DELTA / 10, label_bound=1.0, ledger=books)
    with pytest.raises(ValueError, match="rows have changed since they were counted"):
        model.fit(path, "y", public=pd.DataFrame(public, columns=["a", "b"]))
    assert state(books) == [False]
    assert not hasattr(model, "coef_")


class Lying:
    """An array that says it has more rows than it has."""

    def __init__(self, values, n):
        self.values, self.shape = values, (n, *values.shape[1:])
        self.ndim, self.dtype = values.ndim, values.dtype

    def __array__(self, *_, **__):
        return self.values

    def __len__(self):
        return self.shape[0]


@pytest.mark.parametrize("cls", [up.PrivateRegressor, up.PrivateSGDRegressor])
def test_rows_that_say_they_are_more_than_they_are_are_refused(cls):
    rng = np.random.default_rng(0)
    few = rng.uniform(-1, 1, size=(300, 2))
    with pytest.raises(ValueError, match="announced 20000 rows, but 300 were read"):
        cls(1.0, 1e-6, label_bound=1.0).fit(Lying(few, 20_000), Lying(few[:, 0], 20_000), public=few[:100])


def test_one_release_is_made_once():
    spending = Spending(None, (), "two means")
    with spending:
        spending.read(lambda: None)
    with pytest.raises(RuntimeError, match="made already"), spending:
        pass
