"""What cannot be right is refused in one clear sentence that names the argument."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as gp

from tests.made_up import regression, sine
from unpooled import SpectralRegressor
from unpooled.filters import IteratedTikhonov, NuMethod, Tikhonov
from unpooled.kernels import Brownian, Gaussian, Laplacian, Linear, Matern, Pairwise, Polynomial, Scaled, Sum

FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
CRITERIA = ("loo", "gcv", "cv")
GRID = np.logspace(0, -3, 7)
every_filter = pytest.mark.parametrize("filter", FILTERS)
every_mode = pytest.mark.parametrize("lam", [0.05, *CRITERIA])
centring = pytest.mark.parametrize("center", [False, True])


@contextlib.contextmanager
def refused(match, error=ValueError):
    """A message in one line that matches."""
    with pytest.raises(error, match=match) as caught:
        yield
    assert "\n" not in str(caught.value)


def cases(table):
    return pytest.mark.parametrize("name", table)


X, y = regression(n=20, function=sine(1), noise=0.2)
one_nan, one_inf, words = X.copy(), X.copy(), X.astype(object)
one_nan[3, 1], one_inf[4, 0], words[0, 0] = np.nan, -np.inf, "red"

BAD_X = {
    "NaN": (one_nan, "^X contains NaN, first in row 3, column 1"),
    "infinity": (one_inf, "^X contains infinity .*first in row 4, column 0"),
    "a missing value": (np.where(np.isnan(one_nan), None, one_nan), "^X contains NaN, first in row 3, column 1"),
    "one dimension": (X[:, 0], "X.*Reshape your data"),
    "three dimensions": (X[:, :, None], "X.*dim"),
    "no rows": (X[:0], "X.*0 sample"),
    "no columns": (X[:, :0], "X.*0 feature"),
    "complex numbers": (X + 1j, "X.*[Cc]omplex|[Cc]omplex.*X"),
    "a sparse matrix": (scipy.sparse.csr_array(X), "[Ss]parse data.*X"),
    "a word": (words, "X.*'red'"),
    "words": ([["red", "blue"]] * 20, "X.*'red'"),
    "None": (None, "X"),
    "a number": (3.0, "X"),
    "rows of different lengths": ([[1.0, 2.0], [3.0]], "X"),
    "dictionaries": ([[{}, {}]] * 20, "X.*(number|dict)"),
}


@cases(BAD_X)
def test_rows_that_are_no_table_of_numbers_are_refused(name):
    bad, match = BAD_X[name]
    with refused(match, (TypeError, ValueError)):
        SpectralRegressor(lam=0.1, fit_intercept=False).fit(bad, y)


@cases(BAD_X)
def test_rows_to_predict_that_are_no_table_of_numbers_are_refused(name):
    bad, match = BAD_X[name]
    model = SpectralRegressor(lam=0.1, fit_intercept=False).fit(X, y)
    with refused(match, (TypeError, ValueError)):
        model.predict(bad)


def test_a_column_with_a_missing_value_is_named():
    frame = pd.DataFrame(one_nan, columns=["age", "dose"])
    with refused("^X contains NaN, first in row 3, column 'dose'"):
        SpectralRegressor(fit_intercept=False).fit(frame, y)


BAD_Y = {
    "None": (None, "y.*None"),
    "NaN": (np.where(np.arange(20) == 7, np.nan, y), "^y contains NaN, first in row 7"),
    "infinity": (np.where(np.arange(20) == 7, np.inf, y), "^y contains infinity .*first in row 7"),
    "NaN in a second column": (np.column_stack([y, one_nan[:, 1]]), "^y contains NaN, first in row 3"),
    "words": (["red"] * 20, "^y must hold numbers"),
    "complex numbers": (y + 1j, "^y.*[Cc]omplex|[Cc]omplex.* y "),
    "a sparse matrix": (scipy.sparse.csr_array(X), "y"),
    "too few": (y[:-1], "^X has 20 rows and y has 19"),
    "none at all": ([], "y"),
    "no columns": (X[:, :0], "y"),
    "three dimensions": (X[:, :, None], "y"),
    "a number": (3.0, "y"),
    "rows of different lengths": ([[1.0, 2.0], [3.0]] * 10, "y"),
}


@cases(BAD_Y)
def test_labels_that_are_no_numbers_one_a_row_are_refused(name):
    bad, match = BAD_Y[name]
    with refused(match, (TypeError, ValueError)):
        SpectralRegressor(lam=0.1, fit_intercept=False).fit(X, bad)


BAD_WEIGHTS = {
    "negative": np.where(np.arange(20) == 7, -1.0, 1.0),
    "NaN": np.where(np.arange(20) == 7, np.nan, 1.0),
    "infinite": np.where(np.arange(20) == 7, np.inf, 1.0),
    "all zero": np.zeros(20),
    "too few": np.ones(19),
    "a column": np.ones((20, 1)),
    "words": ["heavy"] * 20,
    "complex": np.ones(20) + 1j,
    "a dictionary": {},
    "of different lengths": [[1.0], [1.0, 2.0]],
    "zero": 0,
    "a negative number": -2.0,
}


@cases(BAD_WEIGHTS)
def test_weights_that_weigh_nothing_are_refused(name):
    with refused("^sample_weight ", (TypeError, ValueError)):
        SpectralRegressor(lam=0.1, fit_intercept=False).fit(X, y, BAD_WEIGHTS[name])


BAD_NUMBERS = [0, 0.0, -1, -0.1, np.nan, np.inf, None, True, False, [], [0.1, 0.0], [0.1, np.nan], [[0.1, 0.2]], {}, 1j]
BAD_NUMBERS += [np.ones((20, 20)), np.complex128(1), [0.1, True], ["a"], np.array(True), b"loo"]


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=lambda value: repr(value)[:20])
def test_a_lam_that_is_no_positive_number_is_refused(value):
    with refused("^lam must be a positive number"):
        SpectralRegressor(lam=value, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("value", [v for v in BAD_NUMBERS if v is not None], ids=lambda value: repr(value)[:20])
def test_a_grid_that_is_no_positive_numbers_is_refused(value):
    with refused("^grid must be a positive number"):
        SpectralRegressor(grid=value, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("value", ["", "LOO", "aic", "0.1", "auto"])
def test_a_criterion_that_is_not_known_is_refused(value):
    with refused("^lam must be a positive number, an array of them, 'loo', 'gcv' or 'cv'"):
        SpectralRegressor(lam=value, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("filter", ["landweber", "nu"])
def test_a_lam_that_stands_for_more_steps_than_there_are_numbers_is_refused(filter):
    with refused("lam"):
        SpectralRegressor(Gaussian(1.0), filter, lam=1e-320, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("value", [0, 1, -1, 21, True, 2.5, "x", {}], ids=repr)
def test_folds_that_are_no_folds_are_refused(value):
    with refused("cv"):
        SpectralRegressor(lam="cv", cv=value, fit_intercept=False).fit(X, y)


BAD_FOLDS = {
    "no folds": [],
    "an empty training set": [([], [0, 1])],
    "an empty test set": [([0, 1], [])],
    "rows that are not there": [([0, 1, 2], [99])],
}


@cases(BAD_FOLDS)
def test_splits_that_do_not_fit_the_rows_are_refused(name):
    with refused("cv", (ValueError, IndexError, TypeError)):
        SpectralRegressor(lam="cv", cv=BAD_FOLDS[name], fit_intercept=False).fit(X, y)


def test_splits_may_be_lists_or_masks():
    train, test = np.arange(20) < 15, np.arange(20) >= 15
    expected = SpectralRegressor(
        Gaussian(1.0), lam="cv", grid=GRID, cv=[(np.flatnonzero(train), np.flatnonzero(test))], fit_intercept=False
    )
    expected.fit(X, y)
    for fold in ((np.flatnonzero(train).tolist(), np.flatnonzero(test).tolist()), (train, test)):
        model = SpectralRegressor(Gaussian(1.0), lam="cv", grid=GRID, cv=[fold], fit_intercept=False).fit(X, y)
        assert_allclose(model.path_.criterion, expected.path_.criterion)


@pytest.mark.parametrize("value", ["svd", "", None, 3, ["auto"], "Eigh"], ids=repr)
def test_a_solver_that_is_not_known_is_refused(value):
    with refused("^solver must be 'auto', 'low-rank', "):
        SpectralRegressor(solver=value, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize(
    ("solver", "filter", "lam"),
    [
        ("cholesky", "cutoff", 0.1),
        ("cholesky", "tikhonov", "loo"),
        ("cholesky", "tikhonov", np.logspace(0, -9, 28)),
        ("products", "tikhonov", 0.1),
        ("products", "landweber", "loo"),
        ("mixed", "tikhonov", 0.1),
        ("mixed", "cutoff", "loo"),
        ("mixed", "tikhonov", "cv"),
        ("banded", "iterated-tikhonov", "loo"),
        ("banded", "tikhonov", 0.1),
    ],
    ids=lambda value: "array" if isinstance(value, np.ndarray) else str(value),
)
def test_a_solver_that_does_not_serve_the_filter_is_refused(solver, filter, lam):
    with refused(f"^solver='{solver}' does not serve filter='{filter}'.*: use solver='auto'"):
        SpectralRegressor(filter=filter, lam=lam, solver=solver, fit_intercept=False).fit(X, y)


def test_a_route_that_cannot_be_certified_is_refused():
    rows = np.random.default_rng(0).normal(size=(100, 5))
    with refused("^solver='low-rank' cannot be certified for this kernel and lam: use solver='auto'"):
        SpectralRegressor(Gaussian(0.01), lam=1e-6, solver="low-rank", fit_intercept=False).fit(rows, rows[:, 0])


@pytest.mark.parametrize(
    "value", ["ridge", "", None, 3, Tikhonov, ["tikhonov"], np.ones((9, 9))], ids=lambda v: repr(v)[:20]
)
def test_a_filter_that_is_not_known_is_refused(value):
    with refused("^filter must be 'tikhonov', .* or a Filter object"):
        SpectralRegressor(filter=value, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("times", [0, -1, 2.5, "a", None, np.nan])
@pytest.mark.parametrize("lam", [0.1, "loo"])
def test_iterated_tikhonov_needs_a_whole_number_of_times(times, lam):
    with refused("^times must be a whole number of at least 1"):
        SpectralRegressor(filter=IteratedTikhonov(times), lam=lam, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("nu", [0, 0.1, -1, np.nan, np.inf, "a", None])
@pytest.mark.parametrize("lam", [0.1, "loo"])
def test_the_nu_method_needs_a_nu_of_at_least_one_half(nu, lam):
    with refused("^nu must be a number of at least 1/2"):
        SpectralRegressor(filter=NuMethod(nu), lam=lam, grid=GRID, fit_intercept=False).fit(X, y)


BAD_KERNELS = {
    "a name": ("gauss", "^kernel 'gauss' is not known"),
    "a class": (Gaussian, "^kernel must be an object, not the class Gaussian: write Gaussian"),
    "a class of scikit-learn": (gp.RBF, "^kernel must be an object, not the class RBF"),
    "a number": (3, "^kernel must be a Kernel"),
    "a matrix": (np.ones((20, 20)), "^kernel must be a Kernel"),
    "a list": ([Gaussian(1.0)], "^kernel must be a Kernel"),
    "no length": (Gaussian(0), "length_scale must be a positive number"),
    "a negative length": (Matern(-1.0), "length_scale must be a positive number"),
    "NaN as length": (Laplacian(np.nan), "length_scale must be a positive number"),
    "an infinite length": (Gaussian(np.inf), "length_scale must be a positive number"),
    "None as length": (Gaussian(None), "length_scale must be a positive number"),
    "a word as length": (Gaussian("mean"), "length_scale must be a positive number"),
    "a length that is zero for one feature": (Gaussian([1.0, 0.0]), "length_scale must be a positive number"),
    "lengths for other features": (Gaussian([1.0, 2.0, 3.0]), "length_scale has 3 numbers and X has 2 features"),
    "a matrix of lengths": (Gaussian(np.ones((9, 9))), "length_scale must be a positive number"),
    "scaled by zero": (Scaled(0.0, Gaussian(1.0)), "^scale must be a positive number"),
    "scaled by NaN": (Scaled(np.nan, Gaussian(1.0)), "^scale must be a positive number"),
    "an order without a closed form": (Matern(1.0, nu=1.0), "^nu must be 0.5, 1.5 or 2.5"),
    "degree 0": (Polynomial(0), "^degree must be a whole number"),
    "degree 1.5": (Polynomial(1.5), "^degree must be a whole number"),
    "a negative gamma": (Polynomial(gamma=-1), "^gamma must be a positive number"),
    "a word as gamma": (Polynomial(gamma="a"), "^gamma must be a positive number"),
    "a negative coef0": (Polynomial(coef0=-1), "^coef0 must be a number of at least 0"),
    "a word as coef0": (Polynomial(coef0="a"), "^coef0 must"),
    "a negative gamma by name": (Pairwise("rbf", gamma=-1.0), "^gamma must be"),
    "gamma zero by name": (Pairwise("rbf", gamma=0.0), "^gamma must be"),
    "a metric that is not known": (Pairwise("manhattan"), "metric"),
    "too many features for it": (Brownian(), "^X must have one feature for the kernel Brownian, but it has 2"),
}


@cases(BAD_KERNELS)
def test_a_kernel_that_is_not_one_is_refused(name):
    kernel, match = BAD_KERNELS[name]
    with refused(match):
        SpectralRegressor(kernel, fit_intercept=False).fit(X, y)


def test_the_brownian_kernel_refuses_what_is_left_of_zero():
    model = SpectralRegressor(Brownian(), fit_intercept=False).fit(np.abs(X[:, :1]), y)
    with refused("^X must not be negative for the kernel Brownian"):
        model.predict([[-1.0]])


def test_a_precomputed_matrix_has_a_row_and_a_column_for_each_label():
    K = Gaussian(1.0)(X)
    with refused("^with a precomputed kernel X must be square"):
        SpectralRegressor("precomputed", fit_intercept=False).fit(K[:, :-1], y)
    with refused("^X has 19 features, but SpectralRegressor is expecting 20 features"):
        SpectralRegressor("precomputed", lam=0.1, fit_intercept=False).fit(K, y).predict(K[:, :-1])


def indefinite(A, B):
    """1 + xz - 2x²z²: symmetric, positive on the diagonal for |x| < 1, and no kernel."""
    products = A @ B.T
    return 1 + products - 2 * products**2


@pytest.mark.parametrize("n", [20, 1000])
@pytest.mark.parametrize("lam", [1e-3, "loo", "gcv"])
def test_a_function_that_is_not_positive_semi_definite_is_refused(n, lam):
    rows = np.random.default_rng(0).uniform(-0.9, 0.9, size=(n, 1))
    with refused("kernel.* not positive (semi-)?definite.*use a Mercer kernel"):
        SpectralRegressor(indefinite, lam=lam, fit_intercept=False).fit(rows, np.cos(rows[:, 0]))


@every_filter
def test_a_matrix_that_is_not_positive_semi_definite_is_refused(filter):
    K = np.random.default_rng(0).normal(size=(20, 20))
    with refused("kernel.* not positive (semi-)?definite.*use a Mercer kernel"):
        SpectralRegressor("precomputed", filter, fit_intercept=False).fit(K + K.T, y)


def test_a_matrix_that_is_not_symmetric_is_refused():
    K = Gaussian(1.0)(X)
    K[0, 1] += 0.5
    with refused("symmetric"):
        SpectralRegressor("precomputed", lam=0.1, fit_intercept=False).fit(K, y)


def test_predicting_before_fitting_is_refused():
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        SpectralRegressor(fit_intercept=False).predict(X)


def test_other_features_than_those_fitted_are_refused():
    model = SpectralRegressor(Gaussian(1.0), fit_intercept=False).fit(X, y)
    with refused("^X has 1 features, but SpectralRegressor is expecting 2 features"):
        model.predict(X[:, :1])
    with refused("features"):
        model.path_.predict(X[:, :1])
    with refused("features"):
        model.predictor_.predict(X[:, :1])


def test_a_fit_that_fails_leaves_the_earlier_one():
    model = SpectralRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(X, y)
    before = model.predict(X)
    with refused("^y contains NaN"):
        model.fit(X, BAD_Y["NaN"][0])
    assert_allclose(model.predict(X), before)


@pytest.mark.parametrize("scale", [1e-170, 1e160])
def test_labels_whose_squares_are_out_of_range_are_refused(scale):
    with refused("^y has values of size .* bring y to another unit"):
        SpectralRegressor(fit_intercept=False).fit(X, scale * y)


def test_a_label_for_all_rows_is_refused():
    with refused("^y must have one number per row"):
        SpectralRegressor(fit_intercept=False).fit(X, 3.0)


def test_dates_are_refused():
    with refused("^X must hold numbers, not dates"):
        SpectralRegressor(fit_intercept=False).fit(
            np.array([["2026-01-01"], ["2026-01-02"]], dtype="datetime64[D]"), [1.0, 2.0]
        )


def test_a_sum_of_something_else_than_kernels_is_refused():
    with refused("^a Sum combines two Kernel objects, and 'rbf' is not one"):
        SpectralRegressor(Sum("rbf", Gaussian(1.0)), fit_intercept=False).fit(X, y)


def test_the_nu_method_refuses_more_steps_than_anybody_waits_for():
    with refused("^lam is too small for the ν-method"):
        SpectralRegressor(Gaussian(1.0), "nu", lam=1e-14, solver="eigh", fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(), "linear", "poly"], ids=repr)
@pytest.mark.parametrize("lam", [0.05, "loo"])
def test_a_kernel_that_overflows_is_refused(kernel, lam):
    with refused("X"):
        SpectralRegressor(kernel, lam=lam, fit_intercept=False).fit(1e200 * X, y)
