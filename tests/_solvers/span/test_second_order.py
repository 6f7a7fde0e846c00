"""A second-order summary is regression on the pooled rows in the span of the basis: every filter and λ, GCV, df."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge

import unpooled as up
from tests import reference
from tests.made_up import regression
from unpooled.bases import EmpiricalFeatures, RandomFeatures
from unpooled.filters import CutOff, IteratedTikhonov
from unpooled.kernels import Gaussian, Linear, Matern

few = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
every_filter = pytest.mark.parametrize("filter", FILTERS)
centring = pytest.mark.parametrize("center", [False, True])
LAM = {"landweber": 1 / 40, "nu": 1 / 36}  # of κ²: a whole number of steps

data = partial(regression, n=60, function=lambda X: np.sin(2 * X[:, 0]) + 4.0, noise=0.3, others=(12, 7))


def k(X, Z):
    return 2.0 * reference.matern(X, Z, 1.5)


KERNEL = 2.0 * Matern(1.5)


def pooled(filter, X, y, U, Z, lam, center, weights=None):
    """The filter's regression with the Nyström kernel on the rows, and its smoother: (predictions, S)."""
    K = reference.nystrom_kernel(k(X, U), k(U, U), k(U, X))
    K_new = reference.nystrom_kernel(k(Z, U), k(U, U), k(U, X))
    n = len(X)
    H = reference.centering(n) if center else np.eye(n)
    # Coefficients for every label that has a single 1: the whole smoother.
    c = H @ reference.filtered_coefficients(filter, H @ K @ H, H, lam, 2.0)
    mean = np.full((1, n), 1 / n) if center else np.zeros((1, n))
    new = (K_new - (K.mean(axis=0) if center else 0.0)) @ c + mean
    own = (K - (K.mean(axis=0) if center else 0.0)) @ c + mean
    return new @ y, own


@every_filter
@centring
@few
@given(seed=seeds, T=st.sampled_from([1, 3]))
def test_every_filter_is_its_regression_on_the_pooled_rows_with_the_nystrom_kernel(filter, center, seed, T):
    X, Y, U, Z = data(seed, targets=T)
    basis = EmpiricalFeatures(KERNEL).fit(U)
    lam = 2.0 * LAM.get(filter, 0.01)
    summary = sum(up.Summary.of(basis, X[i::5], Y[i::5], order=2) for i in range(5))
    model = up.SummaryRegressor(filter, lam, center).fit_summary(summary)
    expected, _ = pooled(filter, X, Y, U, Z, lam, center)
    assert_allclose(model.predict(Z), expected, atol=1e-9 * np.abs(Y).max())


@every_filter
@centring
@few
@given(seed=seeds)
def test_degrees_of_freedom_and_gcv_are_those_of_the_rows(filter, center, seed):
    X, y, U, Z = data(seed)
    basis = EmpiricalFeatures(KERNEL).fit(U)
    lams = 2.0 * np.array([1.0, LAM.get(filter, 0.01)])
    model = up.SummaryRegressor(filter, lams, center).fit_summary(up.Summary.of(basis, X, y, order=2))
    assert model.path_.criterion_name == "gcv"
    for i, lam in enumerate(lams):
        _, S = pooled(filter, X, y, U, Z, lam, center)
        df = np.trace(S)
        assert model.path_.df[i] == pytest.approx(df, rel=1e-8)
        assert model.path_.criterion[i] == pytest.approx(np.mean((y - S @ y) ** 2) / (1 - df / len(y)) ** 2, rel=1e-7)
    assert model.lam_ == lams[np.argmin(model.path_.criterion)]


@pytest.mark.parametrize("kind", ["empirical", "random", "linear"])
@centring
@few
@given(seed=seeds, ratio=st.floats(-6, 0).map(lambda u: 10.0**u))
def test_tikhonov_minimises_the_weighted_squares_with_its_penalty(kind, center, seed, ratio):
    X, y, U, Z = data(seed)
    w = np.random.default_rng(seed).uniform(0.1, 3, size=len(y))
    basis = {
        "empirical": EmpiricalFeatures(KERNEL),
        "random": RandomFeatures(Gaussian(1.0), n_features=31),
        "linear": EmpiricalFeatures(Linear(), standardize=True),
    }[kind].fit(U)
    lam = ratio * basis.kappa_sq_
    model = up.SummaryRegressor(lam=lam, fit_intercept=center).fit_summary(
        up.Summary.of(basis, X, y, 2, sample_weight=w)
    )
    a, b = reference.span_ridge(basis.transform(X), y, w, lam, center)
    assert_allclose(model.predict(Z), basis.transform(Z) @ a + b, atol=1e-7 * np.abs(y).max())
    assert model.intercept_ == pytest.approx(b, abs=1e-6)


@centring
@few
@given(seed=seeds, ratio=st.floats(-4, 0).map(lambda u: 10.0**u))
def test_where_the_public_sample_is_the_rows_it_is_kernel_ridge_regression(center, seed, ratio):
    X, y, _, Z = data(seed, n=20)
    lam = 2.0 * ratio
    model = up.LESSRegressor(KERNEL, lam=lam, order=2, fit_intercept=center).fit(X, y)
    K = k(X, X)
    if center:
        c, b = reference.centered_ridge(K, y, lam)
        expected = (k(Z, X) - K.mean(axis=0)) @ c + b
    else:
        twin = KernelRidge(kernel="precomputed", alpha=len(y) * lam).fit(K, y)
        expected = twin.predict(k(Z, X))
    assert_allclose(model.predict(Z), expected, atol=1e-8 * np.abs(y).max())


@every_filter
@few
@given(seed=seeds, shift=st.floats(-1e4, 1e4))
def test_a_constant_added_to_the_labels_moves_the_intercept_and_nothing_else(filter, seed, shift):
    X, y, U, Z = data(seed)
    basis = EmpiricalFeatures(KERNEL).fit(U)
    fits = [
        up.SummaryRegressor(filter, grid=[0.2, 0.05, 0.0125], fit_intercept=True).fit_summary(
            up.Summary.of(basis, X, y + c, 2)
        )
        for c in (0.0, shift)
    ]
    assert fits[0].lam_ == fits[1].lam_
    size = 1e-12 * max(1.0, abs(shift))
    assert_allclose(fits[1].predict(Z), fits[0].predict(Z) + shift, atol=1e3 * size)
    assert_allclose(fits[1].coef_, fits[0].coef_, atol=1e3 * size)


def test_at_second_order_there_is_one_way_to_centre():
    X, y, U, Z = data(0)
    summary = up.Summary.of(EmpiricalFeatures(KERNEL).fit(U), X, y, 2)
    fits = [up.SummaryRegressor(lam=0.1, fit_intercept=c).fit_summary(summary) for c in (True, "public")]
    assert_array_equal(fits[0].predict(Z), fits[1].predict(Z))


@every_filter
@centring
@pytest.mark.parametrize("weighted", [False, True])
def test_the_floor_is_how_far_less_is_from_the_ridge_on_the_rows(filter, center, weighted):
    X, y, U, _ = data(1)
    w = np.arange(1, 61) % 5 + 0.5 if weighted else np.ones(60)
    basis = EmpiricalFeatures(KERNEL).fit(U)
    summary = up.Summary.of(basis, X, y, 2, sample_weight=w)
    model = up.SummaryRegressor(filter, 2.0 * LAM.get(filter, 0.01), center).fit_summary(summary)
    with pytest.warns(UserWarning, match="12 public rows stand in for"):
        less = up.SummaryRegressor(filter, model.lam_, center).fit_summary(summary.to_first_order())
    gap = model.predict(X) - less.predict(X)
    assert model.floor_.error == pytest.approx(np.sqrt(np.average(gap**2, weights=w)), rel=1e-8)
    phi = basis.transform(X)
    C = phi.T @ (w[:, None] * phi) / w.sum()
    assert model.floor_.operator == pytest.approx(np.linalg.norm(np.diag(basis.eigenvalues_) - C, 2), rel=1e-10)
    assert model.floor_.mean == pytest.approx(
        np.linalg.norm(basis.mean_ - np.average(phi, axis=0, weights=w)), rel=1e-10
    )
    assert "12 public rows" in str(model.floor_)


@every_filter
def test_the_path_predicts_what_fits_at_each_lam_predict(filter):
    X, Y, U, Z = data(2, targets=2)
    summary = up.Summary.of(EmpiricalFeatures(KERNEL).fit(U), X, Y, 2)
    model = up.SummaryRegressor(filter, grid=[1.0, 0.25, 0.0625], fit_intercept=True).fit_summary(summary)
    assert len(model.path_) == 3
    for lam, predicted in zip(model.path_.lam, model.path_.predict(Z)):
        alone = up.SummaryRegressor(filter, float(lam), True).fit_summary(summary)
        assert_allclose(predicted, alone.predict(Z), atol=1e-12)
    assert model.lam_ in model.path_.lam
    assert set(model.path_.as_dict()) == {"lam", "df", "gcv_0", "gcv_1"}


def test_labels_are_fitted_one_by_one():
    X, Y, U, Z = data(3, targets=3)
    basis = EmpiricalFeatures(KERNEL).fit(U)
    together = up.SummaryRegressor(lam=0.01, fit_intercept=True).fit_summary(up.Summary.of(basis, X, Y, 2))
    for t in range(3):
        alone = up.SummaryRegressor(lam=0.01, fit_intercept=True).fit_summary(up.Summary.of(basis, X, Y[:, t], 2))
        assert_allclose(together.predict(Z)[:, t], alone.predict(Z), atol=1e-12)


def test_a_filter_object_and_a_number_of_features_are_taken():
    X, y, U, Z = data(4)
    summary = up.Summary.of(EmpiricalFeatures(KERNEL).fit(U), X, y, 2)
    three = up.SummaryRegressor(IteratedTikhonov(3), 0.02, fit_intercept=False).fit_summary(summary)
    K = reference.nystrom_kernel(k(X, U), k(U, U), k(U, X))
    c = reference.iterated_ridge_coefficients(K, y, 0.02, 3)
    assert_allclose(three.predict(Z), reference.nystrom_kernel(k(Z, U), k(U, U), k(U, X)) @ c, atol=1e-8)
    # The largest five eigenvalues of the rows: a cut-off between the fifth and the sixth.
    sigma = np.sort(np.linalg.eigvalsh(K / len(y)))[::-1]
    few_features = up.SummaryRegressor(CutOff(), 1e-12, n_features=5, fit_intercept=False).fit_summary(summary)
    cut = up.SummaryRegressor(CutOff(), (sigma[4] + sigma[5]) / 2, fit_intercept=False).fit_summary(summary)
    assert_allclose(few_features.predict(Z), cut.predict(Z), atol=1e-8)


@centring
def test_rows_that_leave_directions_of_the_span_untouched_are_no_trouble(center):
    """Fewer rows than features, all in one corner; and a single row many times."""
    _, _, U, Z = data(5)
    basis = EmpiricalFeatures(KERNEL).fit(U)
    X = np.array([[0.1, 0.2], [0.1, 0.2], [0.3, 0.2]])
    y = np.array([1.0, 3.0, 5.0])
    for filter in FILTERS:
        for rows in (slice(0, 3), slice(0, 2), slice(0, 1)):
            model = up.SummaryRegressor(filter, 0.05, center).fit_summary(up.Summary.of(basis, X[rows], y[rows], 2))
            assert np.all(np.isfinite(model.predict(Z)))
    a, b = reference.span_ridge(basis.transform(X), y, np.ones(3), 0.05, center)
    model = up.SummaryRegressor(lam=0.05, fit_intercept=center).fit_summary(up.Summary.of(basis, X, y, 2))
    assert_allclose(model.predict(Z), basis.transform(Z) @ a + b, atol=1e-10)
