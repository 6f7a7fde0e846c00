"""Impossible input is refused with one clear sentence, and never becomes a wrong model."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import unpooled as up
from tests.made_up import regression, sine
from unpooled.bases import EmpiricalFeatures, RandomFeatures
from unpooled.kernels import FromFunction, Gaussian, Linear, Pairwise, Precomputed
from unpooled.losses import Correntropy, Huber

pytestmark = pytest.mark.filterwarnings("ignore:.*public rows stand in for")


@contextlib.contextmanager
def refused(match, error=ValueError):
    """A message in one line that matches."""
    with pytest.raises(error, match=match) as caught:
        yield
    assert "\n" not in str(caught.value)


def cases(table):
    return pytest.mark.parametrize("name", table)


X, y, U = regression(n=20, function=sine(1), noise=0.0, others=(300,))
BASIS = EmpiricalFeatures(Gaussian(1.0), n_features=12).fit(U)
NAMED = EmpiricalFeatures(Gaussian(1.0), n_features=12).fit(pd.DataFrame(U, columns=["a", "b"]))
SUMMARY = up.Summary.of(BASIS, X, y)
MODEL = up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(SUMMARY)


def with_value(array, place, value):
    out = np.array(array, dtype=object if isinstance(value, str) else float)
    out[place] = value
    return out


BAD_X = {
    "NaN": (with_value(X, (3, 1), np.nan), "^X contains NaN, first in row 3, column 1"),
    "infinity": (with_value(X, (4, 0), np.inf), "^X contains infinity .*first in row 4, column 0"),
    "one dimension": (X[:, 0], "X.*Reshape your data"),
    "no rows": (X[:0], "X.*0 sample"),
    "no columns": (X[:, :0], "X.*0 feature"),
    "complex numbers": (X + 1j, "X.*[Cc]omplex|[Cc]omplex.*X"),
    "a sparse matrix": (scipy.sparse.csr_array(X), "[Ss]parse data.*X"),
    "a word": (with_value(X, (0, 0), "red"), "X.*'red'"),
    "None": (None, "X"),
    "a number": (3.0, "X"),
    "rows of different lengths": ([[1.0, 2.0], [3.0]], "X"),
    "a path that is not there": ("/nowhere/rows.parquet", "/nowhere/rows.parquet"),
}
WIDE = {"too wide": (np.ones((20, 3)), "3 features.*2 features"), "too narrow": (X[:, :1], "1 features.*2 features")}
BAD_Y = {
    "None": (None, "y.*None"),
    "NaN": (with_value(y, 5, np.nan), "^y contains NaN, first in row 5"),
    "infinity": (with_value(y, 5, -np.inf), "^y contains infinity"),
    "words": (["a"] * 20, "y must hold numbers"),
    "a word": (with_value(y, 0, "red"), "y must hold numbers"),
    "too short": (y[:-1], "X has 20 rows and y has 19"),
    "a number": (1.0, "y must have one number per row"),
    "no columns": (np.ones((20, 0)), "y"),
    "three dimensions": (np.ones((20, 1, 1)), "y"),
    "complex numbers": (y + 1j, "[Cc]omplex"),
    "squares beyond numbers": (1e200 * y, "y has values of size"),
    "a column of no frame": ("y", "y or sample_weight names a column, but X is not a data frame"),
}
BAD_WEIGHTS = {
    "negative": (-np.ones(20), "sample_weight.*not negative"),
    "NaN": (with_value(np.ones(20), 1, np.nan), "sample_weight must hold finite"),
    "all zero": (np.zeros(20), "sample_weight is zero for every row"),
    "too few": (np.ones(3), "sample_weight must be one number per row"),
    "words": (["a"] * 20, "sample_weight"),
    "huge": (np.full(20, 1e150), "sample_weight has values beyond"),
}


def ways():
    """Summary.of, Scores.of, LESSRegressor's fit and partial_fit, each with one argument replaced."""
    candidates = MODEL.candidates()
    return {
        "summary": lambda X, y, w: up.Summary.of(BASIS, X, y, sample_weight=w),
        "second order": lambda X, y, w: up.Summary.of(BASIS, X, y, 2, sample_weight=w),
        "residuals": lambda X, y, w: up.Summary.of(BASIS, X, y, residuals_of=MODEL, sample_weight=w),
        "scores": lambda X, y, w: up.Scores.of(candidates, BASIS, X, y, sample_weight=w),
        "less": lambda X, y, w: up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(
            X, y, public=U, sample_weight=w
        ),
        "rows as public sample": lambda X, y, w: up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(
            X, y, sample_weight=w
        ),
        "rounds": lambda X, y, w: up.LESSRegressor(basis=BASIS, lam=0.1, rounds=3, fit_intercept=False).fit(
            X, y, sample_weight=w
        ),
        "partial": lambda X, y, w: up.LESSRegressor(basis=BASIS, lam=0.1, fit_intercept=False).partial_fit(
            X, y, sample_weight=w
        ),
    }


WAYS = ways()
every_way = pytest.mark.parametrize("way", WAYS)


@every_way
@cases(BAD_X)
def test_rows_that_are_no_table_of_numbers_are_refused(way, name):
    bad, match = BAD_X[name]
    with refused(match, (TypeError, ValueError)):
        WAYS[way](bad, "y" if isinstance(bad, str) else y, None)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "rows as public sample"])
@cases(WIDE)
def test_rows_of_another_width_than_the_basis_are_refused(way, name):
    bad, match = WIDE[name]
    with refused(match):
        WAYS[way](bad, y, None)
    with refused(match):
        MODEL.predict(bad)


@every_way
@cases(BAD_Y)
def test_labels_that_are_no_numbers_are_refused(way, name):
    bad, match = BAD_Y[name]
    with refused(match, (TypeError, ValueError)):
        WAYS[way](X, bad, None)


@every_way
@cases(BAD_WEIGHTS)
def test_weights_that_are_none_are_refused(way, name):
    bad, match = BAD_WEIGHTS[name]
    with refused(match):
        WAYS[way](X, y, bad)


@cases({k: v for k, v in BAD_X.items() if k not in ("None", "a path that is not there")})
@pytest.mark.parametrize("kind", [EmpiricalFeatures, RandomFeatures])
def test_public_rows_that_are_no_table_of_numbers_are_refused(kind, name):
    bad, match = BAD_X[name]
    with refused(match, (TypeError, ValueError)):
        kind(Gaussian(1.0)).fit(bad)
    with refused(match, (TypeError, ValueError)):
        up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(X, y, public=bad)


BAD_BASES = {
    "no kernel": (EmpiricalFeatures("foo"), "kernel"),
    "a precomputed kernel": (EmpiricalFeatures(Precomputed()), "precomputed"),
    "no features": (EmpiricalFeatures(n_features=0), "n_features must be a positive whole number or 'auto', got 0"),
    "a word": (EmpiricalFeatures(n_features="foo"), "n_features must be .*'foo'"),
    "half a feature": (EmpiricalFeatures(n_features=1.5), "n_features must be"),
    "True": (EmpiricalFeatures(n_features=True), "n_features must be"),
    "no points": (EmpiricalFeatures(max_points=0), "max_points must be"),
    "auto waves": (RandomFeatures(n_features="auto"), "n_features must be a positive whole number, got 'auto'"),
    "a negative seed": (RandomFeatures(seed=-1), "seed must be a whole number of at least 0"),
    "waves of no stationary kernel": (RandomFeatures(Linear()), "Linear is not stationary"),
    "a negative length": (EmpiricalFeatures(Gaussian(-1.0)), "length_scale must be"),
    "lengths of other columns": (EmpiricalFeatures(Gaussian([1.0, 2.0, 3.0])), "length_scale has 3 numbers"),
    "no kernel matrix": (EmpiricalFeatures(Pairwise("sigmoid", gamma=3.0)), "positive"),
    "a function of this process": (EmpiricalFeatures(FromFunction(lambda A, B: A @ B.T)), "FromFunction"),
}


@cases(BAD_BASES)
def test_a_basis_that_cannot_be_is_refused(name):
    basis, match = BAD_BASES[name]
    with refused(match, (TypeError, ValueError)):
        basis.fit(U)
    assert not hasattr(basis, "_digest")


def test_a_kernel_with_values_that_are_no_numbers_is_refused():
    with np.errstate(over="ignore", invalid="ignore"), refused("not finite on the public sample"):
        EmpiricalFeatures(Linear()).fit(1e200 * U)


def test_a_basis_that_is_not_fitted_or_none_at_all_is_refused():
    for bad in (EmpiricalFeatures(), None, "basis", BASIS.coefficients_):
        with refused("basis must be a fitted basis of up.bases"):
            up.Summary.of(bad, X, y)
    with pytest.raises(NotFittedError):
        EmpiricalFeatures().transform(X)
    with pytest.raises(NotFittedError):
        _ = EmpiricalFeatures().digest
    with pytest.raises(NotFittedError):
        up.LESSRegressor(basis=EmpiricalFeatures(), lam=0.1, fit_intercept=False).fit(X, y)
    with refused("basis was fitted to its own public sample already: leave public out"):
        up.LESSRegressor(basis=BASIS, lam=0.1, fit_intercept=False).fit(X, y, public=U)


def test_columns_of_other_names_are_refused():
    right, renamed = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(X, columns=["a", "c"])
    for bad in (renamed, right[["b", "a"]]):
        with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
            up.Summary.of(NAMED, bad, y)
        with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
            up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(
                bad, y, public=pd.DataFrame(U, columns=["a", "b"])
            )
    swapped = up.SpectralRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(right[["b", "a"]], y)
    with refused("residuals_of is a model of b, a, but the basis maps a, b"):
        up.Summary.of(NAMED, right, y, residuals_of=swapped)
    with refused("residuals_of is a model of 1 columns, but the basis maps 2 columns"):
        up.Summary.of(
            BASIS, X, y, residuals_of=up.SpectralRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(X[:, :1], y)
        )


BAD_OPTIONS = {
    "order 3": ({"order": 3}, "order must be 1 or 2, got 3"),
    "order True": ({"order": True}, "order must be 1 or 2, got True"),
    "order a word": ({"order": "first"}, "order must be 1 or 2"),
    "no loss": ({"loss": "foo"}, "loss must be 'squared', .*'foo'"),
    "a negative scale": ({"loss": Huber(-1.0)}, "scale must be a positive number, got -1.0"),
    "a scale that is no number": ({"loss": Correntropy(np.nan)}, "scale must be a positive number, got nan"),
    "a scale of zero": ({"loss": Huber(0.0)}, "scale must be a positive number"),
    "many scales": ({"loss": Huber(np.array([1.0, 2.0]))}, "must be one number"),
    "residuals at second order": ({"order": 2, "residuals_of": MODEL}, "order must be 1 for residuals"),
    "robust at second order": ({"order": 2, "loss": Huber(1.0)}, "order must be 1 for residuals"),
    "no model": ({"residuals_of": "model"}, "str is not a model"),
    "a basis": ({"residuals_of": BASIS}, "EmpiricalFeatures is not a model"),
    "a model of two labels": (
        {
            "residuals_of": up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(
                up.Summary.of(BASIS, X, np.ones((20, 2)))
            )
        },
        "residuals_of predicts 2 label",
    ),
    "another kind of model of two labels": (
        {"residuals_of": up.SpectralRegressor(lam=0.1, fit_intercept=False).fit(X, np.ones((20, 2)))},
        "residuals_of predicts 2 label",
    ),
    "an engine": ({"engine": "foo"}, "engine"),
}


@cases(BAD_OPTIONS)
def test_a_summary_of_what_cannot_be_is_refused(name):
    options, match = BAD_OPTIONS[name]
    with refused(match, (TypeError, ValueError, up.BlockError)):
        up.Summary.of(BASIS, X, y, **options)


def test_residuals_of_a_model_that_has_learned_nothing_are_refused():
    with pytest.raises(NotFittedError):
        up.Summary.of(BASIS, X, y, residuals_of=up.SummaryRegressor(fit_intercept=False))


BAD_MODELS = {
    "lam a word": ({"lam": "foo"}, "lam must be .*'foo'"),
    "lam zero": ({"lam": 0.0}, "lam must"),
    "lam negative": ({"lam": [0.1, -0.1]}, "lam must"),
    "lam NaN": ({"lam": np.nan}, "lam must"),
    "lam None": ({"lam": None}, "lam must"),
    "no lam": ({"lam": []}, "lam must"),
    "grid negative": ({"grid": [-1.0]}, "grid must"),
    "center a word": ({"fit_intercept": "x"}, "fit_intercept must be True, False or 'public', got 'x'"),
    "center a number": ({"fit_intercept": 2}, "fit_intercept must be True, False or 'public'"),
    "steps": ({"steps": "foo"}, "steps must be 'plain' or 'conjugate', got 'foo'"),
    "filter": ({"filter": "foo"}, "filter"),
}
OF_SUMMARIES = {
    "n_features a word": ({"n_features": "foo"}, "n_features must be 'all', 'rule' or a positive whole number"),
    "n_features zero": ({"n_features": 0}, "n_features must be"),
    "n_features True": ({"n_features": True}, "n_features must be"),
}
OF_ROWS = {
    "rounds zero": ({"rounds": 0}, "rounds must be a positive whole number, got 0"),
    "half a round": ({"rounds": 1.5}, "rounds must be a positive whole number"),
    "rounds True": ({"rounds": True}, "rounds must be a positive whole number"),
    "order": ({"order": 3}, "order must be 1 or 2, got 3"),
    "rounds at second order": ({"order": 2, "rounds": 2}, "order=2 is exact"),
    "loss": ({"loss": "foo"}, "loss must be"),
    "a negative scale": ({"loss": Huber(-1.0)}, "scale must be a positive number"),
    "tol": ({"tol": 2.0}, "tol must be a number from 0 to 1"),
    "tol a word": ({"tol": "small"}, "tol must be a number from 0 to 1"),
    "n_features": ({"n_features": "foo"}, "n_features must be"),
    "kernel": ({"kernel": "foo"}, "kernel"),
    "engine": ({"engine": "foo"}, "engine"),
}


@cases({**BAD_MODELS, **OF_SUMMARIES})
def test_a_model_of_summaries_that_cannot_be_is_refused(name):
    options, match = {**BAD_MODELS, **OF_SUMMARIES}[name]
    model = up.SummaryRegressor(**{"fit_intercept": False, **options})
    with refused(match, (TypeError, ValueError)):
        model.fit_summary(SUMMARY)
    assert not hasattr(model, "predictor_")


@cases({**BAD_MODELS, **OF_ROWS})
def test_a_model_of_rows_that_cannot_be_is_refused(name):
    options, match = {**BAD_MODELS, **OF_ROWS}[name]
    model = up.LESSRegressor(**{"fit_intercept": False, **options})
    with refused(match, (TypeError, ValueError)):
        model.fit(X, y, public=U)
    assert not hasattr(model, "predictor_")


def test_what_is_no_summary_is_refused():
    for bad in (None, 3, "a.summary", [SUMMARY], X):
        with refused("summary must be a Summary"):
            up.SummaryRegressor(fit_intercept=False).fit_summary(bad)
        with refused("residuals must be a Summary"):
            MODEL.update(bad)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        up.SummaryRegressor(fit_intercept=False).predict(X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        up.SummaryRegressor(fit_intercept=False).update(SUMMARY)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        up.SummaryRegressor(fit_intercept=False).candidates()


def test_sites_that_do_not_go_with_the_rows_are_refused():
    for bad, match in ((np.arange(3), "20 rows"), ("site", "20 rows"), ([None] * 20, "without a label")):
        with refused(f"sites.*{match}"):
            up.LESSRegressor(lam=0.1, fit_intercept=False).fit(X, y, sites=bad)


def test_one_row_cannot_choose_lam():
    for options in ({}, {"rounds": 3}, {"loss": "huber"}, {"order": 2}):
        with refused("needs at least 2 rows and X has n_samples = 1: give lam as a number"):
            up.LESSRegressor(**{"fit_intercept": False, **options}).fit(X[:1], y[:1])


def test_a_kernel_that_is_zero_everywhere_gives_the_mean_or_nothing():
    nothing = np.zeros((20, 2))
    for order in (1, 2):
        for lam in (0.1, "auto"):
            plain = up.LESSRegressor(Linear(), lam=lam, order=order, fit_intercept=False).fit(nothing, y)
            assert np.all(plain.predict(nothing) == 0.0)
            for center in (True, "public"):
                centred = up.LESSRegressor(Linear(), lam=lam, order=order, fit_intercept=center).fit(nothing, y)
                np.testing.assert_allclose(centred.predict(nothing), y.mean(), atol=1e-12)


def test_a_public_sample_of_another_width_is_refused():
    with refused("2 features.*3 features"):
        up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(X, y, public=np.ones((5, 3)))
    for public in (U[:1], np.ones((9, 2))):
        for center in (False, True):
            model = up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=center).fit(X, y, public=public)
            assert np.all(np.isfinite(model.predict(X)))


def test_sums_that_are_no_numbers_any_more_are_refused():
    with refused("too large for double precision", (ValueError, up.BlockError)):
        up.Summary.of(BASIS, np.repeat(X, 500, axis=0), np.full(10_000, 1e149), sample_weight=np.full(10_000, 1e99))


def test_files_of_another_kind_are_refused_by_name(tmp_path):
    BASIS.save(tmp_path / "a.basis")
    SUMMARY.save(tmp_path / "a.summary")
    up.save(MODEL, tmp_path / "a.model")
    MODEL.candidates().save(tmp_path / "a.candidates")
    up.Scores.of(MODEL.candidates(), BASIS, X, y).save(tmp_path / "a.scores")
    readers = {
        "basis": up.bases.load,
        "summary": up.Summary.load,
        "model": up.load,
        "candidates": up.Candidates.load,
        "scores": up.Scores.load,
    }
    for kind, read in readers.items():
        read(tmp_path / f"a.{kind}")
        for other in readers:
            if other != kind:
                with refused(f"holds (a |an )?{other}, not (a |an )?{kind}$", up.FileError):
                    read(tmp_path / f"a.{other}")
        (tmp_path / "no.file").write_bytes(b"no")
        with refused("no.file", up.FileError):
            read(tmp_path / "no.file")
        with pytest.raises(FileNotFoundError, match="missing"):
            read(tmp_path / "missing")
