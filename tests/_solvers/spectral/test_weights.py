"""sample_weight acts as repeated rows: in every filter, route and intercept; only ratios of weights matter."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import PredefinedSplit

from tests.made_up import CUBE, regression
from unpooled import SpectralRegressor
from unpooled.kernels import Gaussian, Linear, Matern, Polynomial

few = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
lams = st.floats(-3, 0).map(lambda u: 10.0**u)
centring = pytest.mark.parametrize("center", [False, True])

AT_ONE_LAM = [
    (filter, solver)
    for filter, solvers in {
        "tikhonov": ("cholesky", "eigh", "low-rank"),
        "iterated-tikhonov": ("cholesky", "eigh", "low-rank"),
        "cutoff": ("eigh", "low-rank"),
        "landweber": ("products", "eigh", "low-rank"),
        "nu": ("products", "eigh", "low-rank"),
    }.items()
    for solver in solvers
]
FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
CRITERIA = ("loo", "gcv", "cv")

data = partial(regression, n=20, between=CUBE, noise=0.3, offset=5, then=(7,))


def weighted_ridge(K, y, w, lam, center):
    """c and b of min Σ w_i (f(x_i) + b - y_i)² + W·λ‖f‖², W = Σ w_i, from its stationarity conditions.

    W·λ c_i/w_i + (𝕂c)_i + b = y_i, and Σ c_i = 0 if there is a b at all.
    """
    n = len(y)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = K + np.diag(w.sum() * lam / w)
    system[:n, n] = 1.0
    system[n, :n] = 1.0
    if not center:
        system = system[:n, :n]
    solution = np.linalg.solve(system, np.append(y, 0.0)[: len(system)])
    return solution[:n], solution[n] if center else 0.0


@centring
@pytest.mark.parametrize("kernel", [Gaussian(0.7), Linear(), Polynomial(2)], ids=repr)
@few
@given(seed=seeds, lam=lams)
def test_weighted_ridge_minimises_the_weighted_squares(center, kernel, seed, lam):
    rng = np.random.default_rng(seed)
    X, y, Z = data(rng)
    w = rng.uniform(0.1, 4, size=len(y))
    c, b = weighted_ridge(kernel(X), y, w, lam, center)
    model = SpectralRegressor(kernel, lam=lam, fit_intercept=center).fit(X, y, w)
    assert_allclose(model.predict(Z), kernel(Z, X) @ c + b, atol=1e-8)


@pytest.mark.parametrize(("filter", "solver"), AT_ONE_LAM)
@centring
@few
@given(seed=seeds, lam=lams)
def test_whole_weights_are_repeated_rows(filter, solver, center, seed, lam):
    rng = np.random.default_rng(seed)
    X, y, Z = data(rng)
    w = rng.integers(1, 4, size=len(y))
    options = {"filter": filter, "lam": lam, "fit_intercept": center, "solver": solver}
    weighted = SpectralRegressor(Gaussian(0.7), **options).fit(X, y, w)
    repeated = SpectralRegressor(Gaussian(0.7), **options).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, abs=1e-13)
    assert_allclose(weighted.predict(Z), repeated.predict(Z), atol=1e-5 if solver == "low-rank" else 1e-8)
    assert weighted.solver_ == solver


@pytest.mark.parametrize("filter", FILTERS)
@centring
def test_whole_weights_are_repeated_rows_for_several_targets_and_the_median_length_scale(filter, center):
    rng = np.random.default_rng(1)
    X, y, Z = data(rng)
    Y, w = np.column_stack([y, y**2]), rng.integers(0, 4, size=len(y))
    options = {"filter": filter, "lam": 0.01, "fit_intercept": center}
    weighted = SpectralRegressor(**options).fit(X, Y, w)
    repeated = SpectralRegressor(**options).fit(np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0))
    assert weighted.kernel_.length_scale == pytest.approx(repeated.kernel_.length_scale)
    assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-12)
    assert_allclose(weighted.predict(Z), repeated.predict(Z), atol=1e-7)


@pytest.mark.parametrize("solver", ["mixed", "banded", "eigh", "low-rank"])
@centring
def test_whole_weights_are_repeated_rows_on_every_lam_of_a_path(solver, center):
    rng = np.random.default_rng(2)
    X, y, Z = data(rng)
    w = rng.integers(1, 4, size=len(y))
    options = {"lam": np.logspace(0, -3, 4), "fit_intercept": center, "solver": solver}
    weighted = SpectralRegressor(Gaussian(0.7), **options).fit(X, y, w)
    repeated = SpectralRegressor(Gaussian(0.7), **options).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.solver_ == repeated.solver_ == solver
    assert_allclose(weighted.path_.predict(Z), repeated.path_.predict(Z), atol=1e-6)
    assert_allclose(weighted.path_.df, repeated.path_.df, rtol=1e-4)


@pytest.mark.parametrize("lam", [0.01, *CRITERIA])
@pytest.mark.parametrize("filter", FILTERS)
@centring
@settings(few, max_examples=5)
@given(seed=seeds)
def test_a_row_of_weight_zero_is_an_absent_row(lam, filter, center, seed):
    rng = np.random.default_rng(seed)
    X, y, Z = data(rng)
    w = rng.uniform(0.5, 2, size=len(y)) * (rng.random(len(y)) < 0.7)
    X[w == 0], y[w == 0] = 1e3, 1e9  # whatever they hold
    options = {"filter": filter, "lam": lam, "fit_intercept": center, "grid": np.logspace(0, -3, 7)}
    weighted = SpectralRegressor(**options).fit(X, y, w)
    without = SpectralRegressor(**options).fit(X[w > 0], y[w > 0], w[w > 0])
    assert weighted.lam_ == without.lam_
    assert_allclose(weighted.predict(Z), without.predict(Z), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lam", [0.01, *CRITERIA])
@centring
def test_a_row_of_weight_zero_is_an_absent_row_of_a_precomputed_matrix(lam, center):
    rng = np.random.default_rng(3)
    X, y, Z = data(rng)
    w = rng.uniform(0.5, 2, size=len(y))
    w[[2, 3, 5, 7, 11, 13]] = 0
    kernel, kept = Gaussian(0.5), w > 0
    options = {"lam": lam, "fit_intercept": center, "grid": np.logspace(0, -3, 7)}
    weighted = SpectralRegressor("precomputed", **options).fit(kernel(X), y, w)
    without = SpectralRegressor("precomputed", **options).fit(kernel(X[kept]), y[kept], w[kept])
    if lam in CRITERIA:
        assert weighted.lam_ == without.lam_
        assert_allclose(weighted.path_.criterion, without.path_.criterion, rtol=1e-9)
    assert_allclose(weighted.predict(kernel(Z, X)), without.predict(kernel(Z, X[kept])), atol=1e-9)


def test_folds_that_a_user_gives_are_folds_of_the_rows_the_user_gave():
    rng = np.random.default_rng(4)
    X, y, _ = data(rng)
    w, fold = rng.uniform(0.5, 2, size=len(y)), rng.permutation(np.arange(len(y)) % 4)
    w[:5] = 0
    grid = np.logspace(0, -3, 7)
    weighted = SpectralRegressor(Gaussian(0.5), lam="cv", grid=grid, cv=PredefinedSplit(fold), fit_intercept=False).fit(
        X, y, w
    )
    without = SpectralRegressor(Gaussian(0.5), lam="cv", grid=grid, cv=PredefinedSplit(fold[5:]), fit_intercept=False)
    without.fit(X[5:], y[5:], w[5:])
    assert_allclose(weighted.path_.criterion, without.path_.criterion, rtol=1e-10)


@pytest.mark.parametrize("lam", [0.01, *CRITERIA])
@pytest.mark.parametrize(
    "factor", [2.0**-1060, 1e-200, 1e-3, 1 / 3, 1e200, 5e307]
)  # from the least number to the largest
@centring
def test_scaling_all_weights_changes_nothing(lam, factor, center):
    rng = np.random.default_rng(5)
    X, y, Z = data(rng)
    w = rng.integers(1, 4, size=len(y)).astype(float)
    model = SpectralRegressor(Gaussian(0.7), lam=lam, fit_intercept=center, grid=np.logspace(0, -3, 7))
    plain = model.fit(X, y, w).predict(Z)
    assert_allclose(model.fit(X, y, factor * w).predict(Z), plain, rtol=1e-9)


@pytest.mark.parametrize("factor", [1e-50, 1e-20, 1e20, 1e50])
@centring
def test_scaling_all_weights_changes_nothing_in_single_precision(factor, center):
    rng = np.random.default_rng(5)
    X, y, Z = data(rng)
    X, w = X.astype(np.float32), rng.integers(1, 4, size=len(y)).astype(float)
    model = SpectralRegressor(Gaussian(0.7), lam=0.01, fit_intercept=center)
    plain = model.fit(X, y, w).predict(Z)
    assert_allclose(model.fit(X, y, factor * w).predict(Z), plain, rtol=1e-4)


@pytest.mark.parametrize("lam", [0.01, *CRITERIA])
@pytest.mark.parametrize("filter", FILTERS)
@centring
def test_equal_weights_are_no_weights(lam, filter, center):
    X, y, Z = data(6)
    model = SpectralRegressor(filter=filter, lam=lam, fit_intercept=center, grid=np.logspace(0, -3, 7))
    plain = model.fit(X, y).predict(Z)
    assert_array_equal(model.fit(X, y, np.full(len(y), 0.3)).predict(Z), plain)
    assert_array_equal(model.fit(X, y, sample_weight=7).predict(Z), plain)


@pytest.mark.parametrize("solver", ["mixed", "banded", "eigh", "low-rank"])
@centring
@settings(few, max_examples=8)
@given(seed=seeds)
def test_weighted_leave_one_out_is_refitting_without_a_row_and_all_its_weight(solver, center, seed):
    rng = np.random.default_rng(seed)
    X, y, _ = data(rng)
    w, kernel = rng.uniform(0.2, 3, size=len(y)), Gaussian(0.7)
    K, grid = kernel(X), np.logspace(0, -3, 4)
    model = SpectralRegressor(kernel, lam="loo", grid=grid, fit_intercept=center, solver=solver).fit(X, y, w)
    for lam, score in zip(grid, model.path_.criterion):
        total = 0.0
        for i in range(len(y)):
            rest = np.arange(len(y)) != i
            kept_lam = w.sum() * lam / w[rest].sum()  # W·λ held fixed
            c, b = weighted_ridge(K[np.ix_(rest, rest)], y[rest], w[rest], kept_lam, center)
            total += w[i] * (K[i, rest] @ c + b - y[i]) ** 2
        assert score == pytest.approx(total / w.sum(), rel=1e-3 if solver == "mixed" else 1e-6)
    assert model.path_.exact
    assert model.solver_ == solver


@centring
def test_weighted_gcv_weighs_the_errors_and_counts_the_rows(center):
    rng = np.random.default_rng(7)
    X, y, _ = data(rng)
    w, kernel, lam = rng.uniform(0.2, 3, size=len(y)), Gaussian(0.7), 0.01
    model = SpectralRegressor(kernel, lam="gcv", grid=[lam], fit_intercept=center).fit(X, y, w)
    fits = [weighted_ridge(kernel(X), e, w, lam, center) for e in np.eye(len(y))]
    hat = np.column_stack([kernel(X) @ c + b for c, b in fits])
    df = np.trace(hat)
    expected = np.average((y - hat @ y) ** 2, weights=w) / (1 - df / len(y)) ** 2
    assert model.path_.df[0] == pytest.approx(df)
    assert model.path_.criterion[0] == pytest.approx(expected)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Matern(0.3)], ids=repr)
@centring
def test_weights_mean_the_same_on_the_routes_of_large_samples(kernel, center):
    rng = np.random.default_rng(8)
    X, y, Z = data(rng, n=1000, d=1)
    w = rng.uniform(0.2, 3, size=len(y))
    grid = np.logspace(0, -4, 9)
    large = SpectralRegressor(kernel, fit_intercept=center, grid=grid).fit(X, y, w)
    direct = SpectralRegressor(kernel, fit_intercept=center, grid=grid, solver="eigh").fit(X, y, w)
    assert large.solver_ == ("low-rank" if isinstance(kernel, Gaussian) else "mixed")
    assert large.lam_ == direct.lam_
    assert large.intercept_ == pytest.approx(direct.intercept_, abs=1e-12)
    assert_allclose(large.predict(Z), direct.predict(Z), atol=1e-6)


@pytest.mark.parametrize("n", [30, 600, 1500])
def test_whole_weights_equal_repeated_rows_with_the_default_kernel(n):
    """The median length scale counts weights too, also where it looks at a part of the rows only."""
    rng = np.random.default_rng(n)
    X, y, w = rng.normal(size=(n, 2)), rng.normal(size=n), rng.integers(1, 4, size=n)
    weighted = SpectralRegressor(lam=0.01, fit_intercept=True).fit(X, y, w)
    repeated = SpectralRegressor(lam=0.01, fit_intercept=True).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.kernel_.length_scale == repeated.kernel_.length_scale
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)
