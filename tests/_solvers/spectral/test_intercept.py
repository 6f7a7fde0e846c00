"""center=True is the centred regression of Wang (2018): a constant in the labels moves only the intercept."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse.linalg import eigsh

from tests import reference
from tests.made_up import CUBE, regression
from unpooled import SpectralRegressor
from unpooled.kernels import Centered, Gaussian, Linear, Matern, Polynomial

few = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
steps = st.integers(1, 30)  # λ = 1/t²: t² steps of Landweber, t of the ν-method

DIRECT, CERTIFIED = 1e-8, 1e-6  # what a direct route promises, and what the low-rank one does
AT_ONE_LAM = {
    "tikhonov": ("cholesky", "eigh", "low-rank"),
    "iterated-tikhonov": ("cholesky", "eigh", "low-rank"),
    "cutoff": ("eigh", "low-rank"),
    "landweber": ("products", "eigh", "low-rank"),
    "nu": ("products", "eigh", "low-rank"),
}
ON_A_PATH = {
    "tikhonov": ("mixed", "banded", "eigh", "low-rank"),
    "iterated-tikhonov": ("eigh", "low-rank"),
    "cutoff": ("eigh", "low-rank"),
    "landweber": ("eigh", "low-rank"),
    "nu": ("eigh", "low-rank"),
}


def pairs(routes):
    return pytest.mark.parametrize(("filter", "solver"), [(f, s) for f, solvers in routes.items() for s in solvers])


# labels are multiples of 2⁻²⁰, so that adding 10⁶ to them is exact
data = partial(regression, n=25, between=CUBE, noise=0.3, grid=2.0**-20, then=(9,))


def coefficients(filter, K, y, t):
    """The coefficients of every filter at λ = 1/t² and κ = 1, by brute force."""
    lam = 1 / t**2
    return {
        "tikhonov": lambda: reference.ridge_coefficients(K, y, lam),
        "iterated-tikhonov": lambda: reference.iterated_ridge_coefficients(K, y, lam, 2),
        "cutoff": lambda: reference.cutoff_coefficients(K, y, lam),
        "landweber": lambda: reference.landweber_coefficients(K, y, 1.0, t**2),
        "nu": lambda: reference.nu_coefficients(K, y, 1.0, t, 1.0),
    }[filter]()


def centred_values(kernel, X, Z, c, b):
    """Σ c_i K̂(z, x_i) + b, K̂ written out on the sample."""
    K, K_new = kernel(X), kernel(Z, X)
    return (K_new - K_new.mean(axis=1)[:, None] - K.mean(axis=0)[None, :] + K.mean()) @ c + b


@pytest.mark.parametrize("solver", ["auto", "cholesky", "eigh", "low-rank"])
@pytest.mark.parametrize("kernel", [Gaussian(0.7), 2.5 * Gaussian(0.7), Linear(), Polynomial(2), Matern(0.5)], ids=repr)
@few
@given(seed=seeds, t=steps)
def test_centred_ridge_is_the_formula_of_the_paper(solver, kernel, seed, t):
    X, y, Z = data(seed)
    lam = kernel.kappa(X) ** 2 / t**2
    c, b = reference.centered_ridge(kernel(X), y, lam)
    model = SpectralRegressor(kernel, lam=lam, center=True, solver=solver).fit(X, y)
    tolerance = CERTIFIED if solver == "low-rank" else DIRECT
    assert_allclose(model.predict(Z), centred_values(kernel, X, Z, c, b), atol=tolerance)


@pairs(AT_ONE_LAM)
@few
@given(seed=seeds, t=steps)
def test_every_filter_and_route_works_on_the_centred_matrix(filter, solver, seed, t):
    X, y, Z = data(seed)
    H, kernel = reference.centering(len(y)), Gaussian(0.7)
    c = H @ coefficients(filter, H @ kernel(X) @ H, y - y.mean(), t)
    model = SpectralRegressor(kernel, filter, lam=1 / t**2, center=True, solver=solver).fit(X, y)
    tolerance = CERTIFIED if solver == "low-rank" else DIRECT
    assert_allclose(model.predict(Z), centred_values(kernel, X, Z, c, y.mean()), atol=tolerance)
    assert model.solver_ == solver


@few
@given(seed=seeds, t=steps)
def test_centring_is_plain_ridge_with_the_centred_kernel_on_the_labels_less_their_mean(seed, t):
    X, y, Z = data(seed)
    plain = SpectralRegressor(Centered(Gaussian(0.7), X), lam=1 / t**2).fit(X, y - y.mean())
    centred = SpectralRegressor(Gaussian(0.7), lam=1 / t**2, center=True).fit(X, y)
    assert_allclose(centred.predict(Z), plain.predict(Z) + y.mean(), atol=DIRECT)


def moved_by(shift, model, X, y, Z, **fit):
    """The fits to y and to y + shift, and how far the predictions of the second, less the shift, are from the first."""
    before = model().fit(X, y, **fit)
    after = model().fit(X, y + shift, **fit)
    distance = np.abs(after.predict(Z) - shift - before.predict(Z)).max()
    return before, after, distance


# The shift itself is exact (see data). What is left is the rounding of the intercept and of each prediction, which are
# near 10⁶: four units in the last place there, about 5e-10, whatever the filter, the route and λ ≥ 10⁻⁶.
SHIFT = 1e6
FOUR_LAST_PLACES = 4 * np.spacing(SHIFT)


@pairs(AT_ONE_LAM)
@pytest.mark.parametrize("weighted", [False, True])
@few
@given(seed=seeds, power=st.floats(-6, 0))
def test_a_shift_of_the_labels_moves_only_the_intercept(filter, solver, weighted, seed, power):
    X, y, Z = data(seed)
    lam = 10.0 ** (power / 2 if filter == "landweber" else power)  # a thousand steps will do
    weights = np.random.default_rng(seed).uniform(0.5, 2, size=len(y)) if weighted else None
    before, after, distance = moved_by(
        SHIFT,
        lambda: SpectralRegressor(Gaussian(0.5), filter, lam=lam, center=True, solver=solver),
        X,
        y,
        Z,
        sample_weight=weights,
    )
    assert abs(after.intercept_ - SHIFT - before.intercept_) <= FOUR_LAST_PLACES
    assert distance <= FOUR_LAST_PLACES


@pairs(ON_A_PATH)
@pytest.mark.parametrize("lam", ["loo", "gcv"])
@settings(few, max_examples=8)
@given(seed=seeds)
def test_a_shift_of_the_labels_leaves_the_choice_of_lam_alone(filter, solver, lam, seed):
    X, y, Z = data(seed)
    grid = np.logspace(0, -4, 9)
    before, after, distance = moved_by(
        SHIFT, lambda: SpectralRegressor(Gaussian(0.5), filter, lam, True, grid=grid, solver=solver), X, y, Z
    )
    assert after.lam_ == before.lam_
    assert_allclose(after.path_.criterion, before.path_.criterion, rtol=1e-5 if solver == "mixed" else 1e-6)
    assert distance <= FOUR_LAST_PLACES


@pytest.mark.parametrize("filter", AT_ONE_LAM)
@settings(few, max_examples=8)
@given(seed=seeds)
def test_a_shift_of_the_labels_leaves_the_choice_by_folds_alone(filter, seed):
    X, y, Z = data(seed)
    grid = np.logspace(0, -4, 9)
    before, after, distance = moved_by(
        SHIFT, lambda: SpectralRegressor(Gaussian(0.5), filter, "cv", True, grid=grid), X, y, Z
    )
    assert after.lam_ == before.lam_
    assert distance <= FOUR_LAST_PLACES


def test_a_shift_is_harmless_where_single_precision_chooses_lam():
    X, y, Z = data(0, n=1000)
    before, after, distance = moved_by(SHIFT, lambda: SpectralRegressor(Matern(0.3), center=True), X, y, Z)
    assert before.solver_ == after.solver_ == "mixed"
    assert after.lam_ == before.lam_
    assert distance <= FOUR_LAST_PLACES


@pairs(AT_ONE_LAM)
@few
@given(seed=seeds, t=steps, shift=st.sampled_from([0.0, 10.0, SHIFT]))
def test_the_intercept_is_the_weighted_mean_and_the_coefficients_sum_to_zero(filter, solver, seed, t, shift):
    X, y, _ = data(seed)
    w = np.random.default_rng(seed).integers(1, 5, size=len(y)).astype(float)
    model = SpectralRegressor(Gaussian(0.7), filter, lam=1 / t**2, center=True, solver=solver).fit(X, y + shift, w)
    assert model.intercept_ - shift == pytest.approx(np.average(y, weights=w), abs=max(1e-14, 4 * np.spacing(shift)))
    c = model.predictor_.coef[:, 0]
    assert abs(c.sum()) <= 1e-11 * max(np.abs(c).sum(), 1.0)


@few
@given(seed=seeds, t=steps)
def test_each_target_has_its_own_intercept(seed, t):
    X, y, Z = data(seed)
    Y = np.column_stack([y, -2 * y + 100])
    model = SpectralRegressor(Gaussian(0.7), lam=1 / t**2, center=True).fit(X, Y)
    assert_allclose(model.intercept_, Y.mean(axis=0), atol=1e-14 * np.abs(Y).max())
    assert_allclose(model.predict(Z)[:, 1], -2 * model.predict(Z)[:, 0] + 100, rtol=1e-10)


def test_without_centring_there_is_no_intercept():
    X, y, _ = data(0)
    model = SpectralRegressor(Gaussian(0.7), lam=0.01).fit(X, y)
    assert model.intercept_ == 0.0
    assert model.predictor_.intercept == 0.0


@pytest.mark.parametrize("filter", AT_ONE_LAM)
def test_a_large_lam_predicts_the_mean(filter):
    X, y, Z = data(0)
    model = SpectralRegressor(Gaussian(0.7), filter, lam=1e12, center=True).fit(X, y)
    # one step is the least that an iteration can do
    expected = coefficients(filter, _centred(X), y - y.mean(), 1) if filter in ("landweber", "nu") else 0 * y
    assert_allclose(model.predict(Z), centred_values(Gaussian(0.7), X, Z, expected, y.mean()), atol=1e-9)


def _centred(X):
    H = reference.centering(len(X))
    return H @ Gaussian(0.7)(X) @ H


NEARLY_CONSTANT = {
    "wide": (Gaussian(1e3), 0.0),
    "very wide": (Gaussian(1e6), 0.0),
    "wide and rough": (Matern(1e5), 0.0),
    "linear with an offset": (Linear(), 2000.0),
    "quadratic with an offset": (Polynomial(2), 300.0),
}


@pytest.mark.parametrize("name", NEARLY_CONSTANT)
@pytest.mark.parametrize("filter", AT_ONE_LAM)
@pytest.mark.parametrize("lam", ["loo", "gcv", "cv"])
def test_a_kernel_that_is_nearly_constant_can_be_centred(name, filter, lam):
    """A kernel matrix that centring leaves smaller than its rounding is not reported as indefinite."""
    kernel, offset = NEARLY_CONSTANT[name]
    X, y, Z = data(0)
    grid = kernel.kappa(X + offset) ** 2 * np.logspace(0, -4, 5)
    model = SpectralRegressor(kernel, filter, lam, center=True, grid=grid).fit(X + offset, y)
    assert np.all(np.abs(model.predict(Z + offset)) < 3)


@pytest.mark.parametrize("filter", ["tikhonov", "iterated-tikhonov", "cutoff"])
@pytest.mark.parametrize("offset", [100.0, 2000.0])
def test_centred_linear_regression_does_not_see_an_offset_of_the_features(filter, offset):
    X, y, Z = data(0)
    X, Z = np.round(X * 64) / 64, np.round(Z * 64) / 64  # adding the offset is exact
    model = SpectralRegressor(Linear(), filter, lam=0.05, center=True, solver="eigh")
    expected = model.fit(X, y).predict(Z)
    assert_allclose(model.fit(X + offset, y).predict(Z + offset), expected, atol=1e-7)


def test_section_2_4_a_shift_by_ten_ruins_plain_ridge_and_leaves_centred_ridge_as_it_was():
    """The target is Σ a_i φ_i over the ten leading empirical features of 3000 uniform points, a_i standard normal."""
    rng = np.random.default_rng(0)
    kernel = Gaussian(1.0)
    u = rng.uniform(size=(3000, 1))
    sigma, V = eigsh(kernel(u) / 3000, k=10, v0=np.ones(3000))
    known = sigma > 1e-12
    expansion = V[:, known] @ (rng.normal(size=known.sum()) / np.sqrt(3000 * sigma[known]))

    def target(x):
        return kernel(x, u) @ expansion

    for n in (100, 300, 500, 1000):
        errors = []  # the mean of three repetitions
        for _ in range(3):
            X, Z = rng.uniform(size=(n, 1)), rng.uniform(size=(3000, 1))
            y = target(X) + 0.1 * rng.normal(size=n)
            models = [SpectralRegressor(kernel, lam=n ** (-4 / 5), center=center) for center in (False, True)]
            errors.append(
                [
                    np.sqrt(np.mean((model.fit(X, y + shift).predict(Z) - target(Z) - shift) ** 2))
                    for model in models
                    for shift in (0, 10)
                ]
            )
        plain, plain_shifted, centred, centred_shifted = np.mean(errors, axis=0)
        assert plain_shifted >= 4 * plain
        assert centred_shifted == pytest.approx(centred, rel=1e-12)


def test_labels_in_double_beside_rows_in_single_are_centred_before_they_lose_digits():
    X, y, _ = data(5)
    X = X.astype(np.float32)
    before, after = (SpectralRegressor(Gaussian(0.5), center=True).fit(X, labels) for labels in (y, y + 2.0**20))
    assert after.lam_ == before.lam_
    assert_allclose(after.predictor_.coef, before.predictor_.coef, atol=1e-5 * np.abs(before.predictor_.coef).max())
    assert after.intercept_ - 2.0**20 == pytest.approx(before.intercept_, abs=1e-9)
