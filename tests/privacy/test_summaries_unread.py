"""A private summary says nothing of a record, and what can be refused with the rows unread costs nothing."""

import warnings

import numpy as np
import pytest

import unpooled as up
from tests.cases.private_summaries import Unread, basis, rows
from unpooled._base import threads
from unpooled._base.threads import silence_warnings
from unpooled.losses import Huber
from unpooled.privacy import Ledger, PrivacyRequest

pytest.importorskip("opendp")
pd = pytest.importorskip("pandas")
B = basis(6, 60)
P = up.bases.EmpiricalFeatures(up.kernels.Polynomial(3), 6).fit(rows(99, n=60)[0])
X, Y = rows(n=300)
SHRUNK = PrivacyRequest(1.0, 1e-6, 2.0, kappa=3.0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CUBIC = up.SummaryRegressor(lam=0.1).fit_summary(up.Summary.of(P, X, Y))

QUESTIONS = {
    "order 1": lambda X, y, engine: up.Summary.of(P, X, y, 1, privacy=SHRUNK, engine=engine),
    "order 2": lambda X, y, engine: up.Summary.of(P, X, y, 2, privacy=SHRUNK, engine=engine),
    "residuals": lambda X, y, engine: up.Summary.of(
        P, X, y, residuals_of=CUBIC, loss=Huber(0.5), privacy=SHRUNK, engine=engine
    ),
    "residuals of another basis": lambda X, y, engine: up.Summary.of(
        B, X, y, residuals_of=CUBIC, loss=Huber(0.5), privacy=PrivacyRequest(1.0, 1e-6), engine=engine
    ),
}


def extreme(n=300):
    Z, z = rows(n=n)
    Z[7], z[8], z[9] = 1e300, -1e300, 1e-310
    return Z, z


@pytest.mark.parametrize("name", QUESTIONS)
def test_nothing_is_said_of_a_record(name):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        QUESTIONS[name](*extreme(), None)


def test_nor_on_the_threads_of_an_engine(monkeypatch):
    monkeypatch.setattr("unpooled.summaries.passes.STRETCH", 1)  # several parts, of few rows
    before = list(warnings.filters)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        QUESTIONS["residuals"](*extreme(4000), up.engines.Threads(2))
    assert warnings.filters == before


def test_nor_in_other_processes(capfd):
    QUESTIONS["order 1"](*extreme(), "processes")
    assert "Warning" not in capfd.readouterr().err


def test_a_float_too_long_for_a_double_is_an_error_and_no_warning():
    if np.finfo(np.longdouble).max == np.finfo(float).max:
        pytest.skip("long doubles are doubles here")
    Z = X.astype(np.longdouble)
    Z[0] = np.finfo(np.longdouble).max
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="infinity"):
            QUESTIONS["order 1"](Z, Y, None)


def test_what_was_set_is_set_again():
    with np.errstate(over="raise"):
        before, filters = np.geterr(), list(warnings.filters)
        with silence_warnings(), silence_warnings():
            warnings.warn("of a record", RuntimeWarning, stacklevel=1)
        assert np.geterr() == before
        assert warnings.filters == filters


def test_threads_round_and_warn_as_their_caller_says(monkeypatch):
    monkeypatch.setattr("unpooled._base.threads.count_threads", lambda: 2)
    found = []
    with np.errstate(over="raise", under="ignore"):
        threads.for_each(lambda _: found.append(np.geterr()), [slice(0, 1), slice(1, 2)])
        assert found == [np.geterr()] * 2


FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
NAMED = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 6).fit(FRAME[["a", "b"]][:60])
REFUSED = {
    "two labels": (B, Unread(300, 2), Unread(300, 2), "one label, and y has 2"),
    "no label": (B, Unread(300, 2), None, "requires y"),
    "labels without a width": (B, Unread(300, 2), Unread(300, 0), "one label per row"),
    "labels of one number": (B, Unread(300, 2), Unread(), "one label per row"),
    "X too wide": (B, Unread(300, 3), Unread(300), "3 features"),
    "X too narrow": (B, Unread(300, 1), Unread(300), "1 features"),
    "X of one dimension": (B, Unread(300), Unread(300), "two-dimensional"),
    "no rows": (B, Unread(0, 2), Unread(0), "at least one row"),
    "y too short": (B, Unread(300, 2), Unread(299), "X has 300 rows and y has 299"),
    "a list too short": (B, Unread(300, 2), [1.0, 2.0], "X has 300 rows and y has 2"),
    "a column without a frame": (B, Unread(300, 2), "y", "not a data frame"),
    "no such column": (NAMED, FRAME, "z", "'z' is not in X"),
    "other names": (NAMED, FRAME[["a", "y"]], Y, "feature names"),
    "a column too many": (NAMED, FRAME, Y, "feature names"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_by_shape_or_name_is_not_charged(name, tmp_path):
    fitted, inputs, labels, sentence = REFUSED[name]
    ledger = Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    with pytest.raises(ValueError, match=sentence):
        up.Summary.of(fitted, inputs, labels, privacy=PrivacyRequest(0.5, 1e-6, 2.0, ledger=ledger))
    assert not ledger.charges()


@pytest.mark.parametrize(
    ("columns", "labels", "sentence"),
    [
        (["a", "b", "y"], ["a", "y"], "one label, and y has 2"),
        (["a", "b", "y"], "z", "'z'"),
        (["a", "y"], "y", "'b'"),
    ],
)
def test_nor_is_one_by_the_schema_of_a_parquet_file(columns, labels, sentence, tmp_path, monkeypatch):
    def read(*_, **__):
        raise AssertionError("the data were looked at")

    FRAME[columns].to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr("unpooled.data.parquet.RowGroup._rows", read)
    ledger = Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    with pytest.raises(ValueError, match=sentence):
        up.Summary.of(NAMED, tmp_path / "rows.parquet", labels, privacy=PrivacyRequest(0.5, 1e-6, 2.0, ledger=ledger))
    assert not ledger.charges()


def test_what_has_to_be_read_to_be_refused_is_charged(tmp_path):
    """Lists and CSV: how wide they are is seen by reading them. What the arguments say alone is free here too."""
    FRAME[["a", "y"]].to_csv(tmp_path / "rows.csv", index=False)
    ledger = Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    asked = PrivacyRequest(0.1, 1e-6, 2.0, ledger=ledger)
    with pytest.raises(ValueError, match="one label, and y has 2"):
        up.Summary.of(NAMED, tmp_path / "rows.csv", ["a", "y"], privacy=asked)
    assert not ledger.charges()
    with pytest.raises(ValueError, match="'b'"):
        up.Summary.of(NAMED, tmp_path / "rows.csv", "y", privacy=asked)
    with pytest.raises(ValueError, match="3 features"):
        up.Summary.of(B, [[1.0, 2.0, 3.0]], [1.0], privacy=asked)
    assert [charge.is_released for charge in ledger.charges()] == [False, False]


def test_names_are_warned_of_once():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        up.Summary.of(B, FRAME[["a", "b"]], Y, privacy=PrivacyRequest(1.0, 1e-6, 2.0))
    assert len([one for one in heard if "feature names" in str(one.message)]) == 1
