"""LESS: a_i = d_i/(λ_i^u + λ) from sums alone; kernel ridge regression where the public sample is the rows.

Tests `_solvers/span/moments.py`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge

import unpooled as up
from tests import reference
from tests.made_up import points, regression, sine
from unpooled import models
from unpooled._base.compensated import Sum
from unpooled.bases import EmpiricalFeatures, RandomFeatures
from unpooled.filters import IteratedTikhonov
from unpooled.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial

pytestmark = pytest.mark.filterwarnings("ignore:.*public rows stand in for")
few = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
ratios = st.floats(-4, 0).map(lambda u: 10.0**u)
FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
centring = pytest.mark.parametrize("center", [False, True, "public"])
KERNELS = {
    "matern": (Matern(0.7), lambda X, Z: reference.matern(X, Z, 0.7)),
    "gaussian": (2.5 * Gaussian(0.7), lambda X, Z: 2.5 * reference.gaussian(X, Z, 0.7)),
    "linear": (Linear(), lambda X, Z: X @ Z.T),
    "polynomial": (Polynomial(2), lambda X, Z: (X @ Z.T / X.shape[1] + 1) ** 2),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)

data = partial(regression, n=40, function=lambda X: np.sin(2 * X[:, 0]) + 2.0, noise=0.3, others=(25, 7))


@every_kernel
@few
@given(seed=seeds, ratio=ratios, duplicates=st.booleans())
def test_where_the_public_sample_is_the_rows_it_is_kernel_ridge_regression(name, seed, ratio, duplicates):
    kernel, function = KERNELS[name]
    X, y, _, Z = data(seed, n=18)
    if duplicates:
        X, y = np.vstack([X, X[:5]]), np.concatenate([y, y[:5] + 1.0])
    K = function(X, X)
    lam = ratio * float(np.max(np.diag(K)))
    twin = KernelRidge(kernel="precomputed", alpha=len(y) * lam).fit(K, y)
    size = 1e-8 * np.abs(y).max() * max(1.0, np.abs(function(Z, X)).max() / np.max(np.diag(K)))
    assert_allclose(
        up.LESSRegressor(kernel, lam=lam, fit_intercept=False).fit(X, y).predict(Z),
        twin.predict(function(Z, X)),
        atol=size,
    )
    basis = EmpiricalFeatures(kernel).fit(X)
    by_sums = up.SummaryRegressor(lam=lam, fit_intercept=False).fit_summary(up.Summary.of(basis, X, y))
    assert_allclose(by_sums.predict(Z), twin.predict(function(Z, X)), atol=size)


@few
@given(seed=seeds, ratio=ratios)
def test_with_an_intercept_it_is_then_the_centred_kernels_ridge_regression(seed, ratio):
    X, y, _, Z = data(seed, n=18)
    K, K_new = reference.matern(X, X, 0.7), reference.matern(Z, X, 0.7)
    c, b = reference.centered_ridge(K, y, ratio)
    for center in (True, "public"):
        model = up.LESSRegressor(Matern(0.7), lam=ratio, fit_intercept=center).fit(X, y)
        assert_allclose(model.predict(Z), (K_new - K.mean(axis=0)) @ c + b, atol=1e-8)


@centring
@pytest.mark.parametrize("kind", ["empirical", "few", "random"])
@few
@given(seed=seeds, ratio=ratios, T=st.integers(1, 3), weighted=st.booleans())
def test_the_model_is_the_papers_formula(center, kind, seed, ratio, T, weighted):
    X, Y, U, Z = data(seed, targets=T)
    w = np.random.default_rng(seed).uniform(0.1, 3, size=40) if weighted else np.ones(40)
    basis = {
        "empirical": EmpiricalFeatures(Matern(0.7)),
        "few": EmpiricalFeatures(Gaussian(1.0), n_features=9, standardize=True),
        "random": RandomFeatures(Gaussian(1.0), n_features=15),
    }[kind].fit(U)
    model = up.SummaryRegressor(lam=ratio, fit_intercept=center).fit_summary(
        up.Summary.of(basis, X, Y, sample_weight=w)
    )
    phi = basis.transform(X)
    for t, y in enumerate(np.reshape(Y, (40, T)).T):
        a, b = reference.less(phi, y, w, basis.eigenvalues_, basis.mean_, ratio, center)
        predicted = np.reshape(model.predict(Z), (7, T))[:, t]
        assert_allclose(predicted, basis.transform(Z) @ a + b, atol=1e-9 / ratio)


@pytest.mark.parametrize("filter", FILTERS)
@few
@given(seed=seeds)
def test_any_filter_may_stand_in_the_place_of_tikhonovs(filter, seed):
    X, y, U, _ = data(seed)
    basis = EmpiricalFeatures(Matern(0.7)).fit(U)
    lam = 1 / 36
    model = up.SummaryRegressor(filter, lam, fit_intercept=False).fit_summary(up.Summary.of(basis, X, y))
    M, d = basis.n_features_, basis.transform(X).T @ y / len(y)
    expected = reference.filtered_coefficients(filter, M * np.diag(basis.eigenvalues_), M * d, lam, 1.0)
    assert_allclose(model.coef_, expected, rtol=1e-8, atol=1e-10)


@few
@given(seed=seeds, ratio=ratios)
def test_the_papers_rule_keeps_the_eigenvalues_above_kappa_squared_lam(seed, ratio):
    X, y, U, _ = data(seed)
    basis = EmpiricalFeatures(2.5 * Gaussian(0.7)).fit(U)
    summary = up.Summary.of(basis, X, y)
    every = up.SummaryRegressor(lam=ratio, fit_intercept=False).fit_summary(summary)
    ruled = up.SummaryRegressor(lam=ratio, n_features="rule", fit_intercept=False).fit_summary(summary)
    kept = basis.eigenvalues_ > 2.5 * ratio
    assert ruled.n_features_rule_ == every.n_features_rule_ == kept.sum()
    assert_array_equal(ruled.coef_, np.where(kept, every.coef_, 0.0))
    some = up.SummaryRegressor(lam=ratio, n_features=4, fit_intercept=False).fit_summary(summary)
    assert_array_equal(some.coef_, np.where(np.arange(len(kept)) < 4, every.coef_, 0.0))


@pytest.mark.parametrize("filter", FILTERS)
@few
@given(seed=seeds, shift=st.floats(-1e4, 1e4))
def test_a_constant_added_to_the_labels_moves_the_intercept_and_nothing_else(filter, seed, shift):
    X, y, U, Z = data(seed)
    basis = EmpiricalFeatures(Matern(0.7)).fit(U)
    fits = [
        up.SummaryRegressor(filter, 1 / 36, fit_intercept=True).fit_summary(up.Summary.of(basis, X, y + c))
        for c in (0, shift)
    ]
    size = 1e-9 * max(1.0, abs(shift))
    assert_allclose(fits[1].predict(Z), fits[0].predict(Z) + shift, atol=size)
    assert_allclose(fits[1].coef_, fits[0].coef_, atol=size)
    shifted = up.LESSRegressor(Matern(0.7), fit_intercept=True).fit(X, y + shift, public=U)
    assert shifted.lam_ == up.LESSRegressor(Matern(0.7), fit_intercept=True).fit(X, y, public=U).lam_


def test_centring_on_the_public_sample_needs_no_sum_of_features():
    X, y, U, Z = data(0)
    summary = up.Summary.of(EmpiricalFeatures(Matern(0.7)).fit(U), X, y)
    bare = replace(summary, sums=summary.sums | {"phi": Sum.of(np.zeros(summary.contents.n_features))})
    fits = [up.SummaryRegressor(lam=0.1, fit_intercept="public").fit_summary(s) for s in (summary, bare)]
    assert_array_equal(fits[0].predict(Z), fits[1].predict(Z))


@centring
@pytest.mark.parametrize("order", [1, 2])
def test_learning_by_parts_is_learning_from_all(center, order):
    X, y, U, Z = data(1)
    basis = EmpiricalFeatures(Matern(0.7)).fit(U)
    whole = up.SummaryRegressor(fit_intercept=center).fit_summary(up.Summary.of(basis, X, y, order))
    parts = up.SummaryRegressor(fit_intercept=center)
    less = up.LESSRegressor(Matern(0.7), lam=whole.lam_, order=order, fit_intercept=center)
    for i in range(0, 40, 7):
        parts.partial_fit(up.Summary.of(basis, X[i : i + 7], y[i : i + 7], order))
        less.partial_fit(X[i : i + 7], y[i : i + 7], public=U)
    assert parts.lam_ == whole.lam_
    assert_allclose(parts.predict(Z), whole.predict(Z), atol=1e-11)
    assert_allclose(less.predict(Z), whole.predict(Z), atol=1e-11)
    at_once = up.LESSRegressor(Matern(0.7), lam=whole.lam_, order=order, fit_intercept=center).fit(X, y, public=U)
    assert_allclose(less.predict(Z), at_once.predict(Z), atol=1e-11)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("lam", [0.1, "auto"])
@centring
def test_a_file_holds_a_model_exactly_and_it_can_go_on(order, lam, center, tmp_path):
    X, Y, U, Z = data(2, targets=2)
    basis = EmpiricalFeatures(Gaussian(1.0), standardize=True).fit(U)
    summary = up.Summary.of(basis, X, Y, order)
    model = up.SummaryRegressor(IteratedTikhonov(2), lam, center, steps="conjugate").fit_summary(summary)
    up.save(model, tmp_path / "a.model")
    read = up.load(tmp_path / "a.model")
    assert models.digest_of(read) == models.digest_of(model)
    up.save(read, tmp_path / "b.model")
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()
    assert_array_equal(read.predict(Z), model.predict(Z))
    assert_array_equal(read.coef_, model.coef_)
    assert read.floor_ == model.floor_
    assert read.lam_ == model.lam_
    # What it was made of came along: more summaries can be added, and candidates made.
    assert_array_equal(read.partial_fit(summary).predict(Z), model.partial_fit(summary).predict(Z))
    assert read.candidates().digest == model.candidates().digest


def test_a_small_public_sample_is_warned_of_and_its_floor_shrinks_as_it_grows():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5000, 1))
    y = np.sin(6 * X[:, 0])
    floors, errors = [], []
    for n_public in (10, 100, 5000):
        U = rng.uniform(size=(n_public, 1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = up.LESSRegressor(Gaussian(0.3), lam=1e-4, fit_intercept=False).fit(X, y, public=U)
        assert bool(caught) == (n_public < 5000)
        floors.append(model.floor_.error)
        errors.append(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    assert floors[0] > 2 * floors[1] > 4 * floors[2]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert up.LESSRegressor(Gaussian(0.3), lam=1e-4, fit_intercept=False).fit(X[:50], y[:50]).floor_ is None


def test_the_expected_floor_is_about_the_size_of_the_true_one():
    rng = np.random.default_rng(1)
    X, y = regression(rng, 3000, 1, between=(0.0, 1.0), function=sine(6))
    ratios = []
    for _ in range(20):
        basis = EmpiricalFeatures(Gaussian(0.3)).fit(points(rng, 60, 1, between=(0.0, 1.0)))
        second = up.Summary.of(basis, X, y, 2)
        expected = up.SummaryRegressor(lam=1e-3, fit_intercept=False).fit_summary(second.to_first_order()).floor_.error
        ratios.append(expected / up.SummaryRegressor(lam=1e-3, fit_intercept=False).fit_summary(second).floor_.error)
    assert 0.5 < np.median(ratios) < 2.0


@pytest.mark.parametrize("U", [np.zeros((4, 2)), np.ones((1, 2)), np.repeat(np.eye(2), 5, axis=0)])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Linear(), Laplacian("median")], ids=repr)
@centring
def test_a_poor_public_sample_gives_a_finite_model(U, kernel, center):
    X, y, _, Z = data(3)
    basis = EmpiricalFeatures(kernel).fit(U)
    for lam in (1e-12, 1.0, "auto"):
        for order in (1, 2):
            model = up.SummaryRegressor(lam=lam, fit_intercept=center).fit_summary(up.Summary.of(basis, X, y, order))
            assert np.all(np.isfinite(model.predict(Z)))
