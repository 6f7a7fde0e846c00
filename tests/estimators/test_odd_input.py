"""What is merely odd is done right: one row, constants, duplicates, rows far apart, numbers of any size."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as gp

from tests import reference
from tests.made_up import regression, sine
from unpooled import SpectralRegressor
from unpooled.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial

FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
CRITERIA = ("loo", "gcv", "cv")
GRID = np.logspace(0, -3, 7)
every_filter = pytest.mark.parametrize("filter", FILTERS)
every_mode = pytest.mark.parametrize("lam", [0.05, *CRITERIA])
centring = pytest.mark.parametrize("center", [False, True])

data = partial(regression, n=20, function=sine(1), noise=0.2)


X, y = data()


@every_filter
@centring
def test_one_row_predicts_itself_shrunk(filter, center):
    model = SpectralRegressor(filter=filter, lam=1e-3, fit_intercept=center).fit([[1.0, 2.0]], [5.0])
    assert model.predict([[1.0, 2.0]])[0] == pytest.approx(5.0, rel=1e-2)


@every_filter
@every_mode
@centring
def test_constant_labels_are_predicted(filter, lam, center):
    model = SpectralRegressor(Gaussian(3.0), filter, lam, center, grid=GRID).fit(X, np.full(20, 7.0))
    assert_allclose(model.predict(X), 7.0, rtol=1e-10 if center else 0.3)


@every_filter
@every_mode
@pytest.mark.parametrize("kernel", [None, Linear(), Polynomial(), Matern("median")], ids=repr)
def test_constant_features_give_the_shrunk_mean(filter, lam, kernel):
    rows = np.full((20, 2), 3.0)
    centred = SpectralRegressor(kernel, filter, lam, fit_intercept=True).set_params(grid=GRID).fit(rows, y)
    assert_allclose(centred.predict(rows), y.mean(), atol=1e-8)
    plain = SpectralRegressor(kernel, filter, lam, fit_intercept=False).set_params(grid=GRID).fit(rows, y)
    assert np.ptp(plain.predict(rows)) < 1e-8


@every_filter
def test_features_of_zeros_give_the_linear_kernel_nothing_to_go_by(filter):
    rows = np.zeros((20, 2))
    assert_allclose(
        SpectralRegressor(Linear(), filter, fit_intercept=False).set_params(grid=GRID).fit(rows, y).predict(rows), 0.0
    )
    centred = SpectralRegressor(Linear(), filter, fit_intercept=True).set_params(grid=GRID).fit(rows, y)
    assert_allclose(centred.predict(rows), y.mean(), atol=1e-12)


@every_filter
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(1.0), Matern(1.0, nu=2.5), Linear()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_repeat_with_other_labels_are_averaged(filter, kernel, dtype):
    labels = y + np.random.default_rng(1).normal(size=(3, 20))
    repeated = SpectralRegressor(kernel, filter, lam=0.05, fit_intercept=False).fit(
        np.tile(X, (3, 1)).astype(dtype), labels.ravel()
    )
    averaged = SpectralRegressor(kernel, filter, lam=0.05, fit_intercept=False).fit(
        X.astype(dtype), labels.mean(axis=0)
    )
    assert_allclose(repeated.predict(X), averaged.predict(X), atol=1e-7 if dtype == np.float64 else 1e-3)
    chosen = SpectralRegressor(kernel, filter, grid=GRID, fit_intercept=False).fit(
        np.tile(X, (3, 1)).astype(dtype), labels.ravel()
    )
    assert np.all(np.isfinite(chosen.predict(X)))


@every_filter
@every_mode
def test_more_features_than_rows_are_fitted(filter, lam):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(10, 200))
    labels = rows[:, 0]
    for kernel in (None, Linear(), Polynomial(2)):
        model = SpectralRegressor(kernel, filter, lam, fit_intercept=True, grid=None if lam == 0.05 else 200 * GRID)
        assert np.all(np.isfinite(model.fit(rows, labels).predict(rows)))


def right_or_refused(match, work):
    """Run the work; a refusal in one line is as good."""
    message = match
    try:
        work()
    except ValueError as error:
        message = str(error)
    assert "\n" not in message
    assert match in message


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1e-9, 1e9, 1e100, 1e200])
@pytest.mark.parametrize("kernel", [None, Laplacian("median"), Matern("median")], ids=repr)
def test_the_median_length_scale_makes_the_unit_of_features_immaterial(scale, kernel):
    expected = SpectralRegressor(kernel, fit_intercept=False).fit(X, y).predict(X)

    def work():
        assert_allclose(
            SpectralRegressor(kernel, fit_intercept=False).fit(scale * X, y).predict(scale * X), expected, atol=1e-6
        )

    right_or_refused("X", work)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Matern(1.0), Laplacian(1.0), "rbf", gp.RBF(1.0)], ids=repr)
def test_rows_too_far_apart_to_know_of_each_other_are_shrunk_alone(kernel):
    """𝕂 is the identity: f(x_i) = y_i/(1 + Nλ)."""

    def work():
        model = SpectralRegressor(kernel, lam=0.05, fit_intercept=False).fit(1e200 * X, y)
        assert_allclose(model.predict(1e200 * X), y / 2)

    right_or_refused("X", work)


@pytest.mark.parametrize("far", [1e4, 1e6, 1e9])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(1.0), Matern(1.0, nu=1.5), Matern(1.0, nu=2.5)], ids=repr)
@every_mode
def test_two_groups_of_rows_far_apart_are_fitted_as_each_alone(far, kernel, lam):
    """Distances within a group must not drown in the distance between the groups."""
    rows, labels = data(n=40)
    first = np.arange(40) < 20
    rows = rows + np.where(first, 0.0, far)[:, None]
    together = SpectralRegressor(kernel, lam=lam, grid=[0.05], fit_intercept=False).fit(rows, labels)
    for group in (first, ~first):
        alone = SpectralRegressor(kernel, lam=0.1, fit_intercept=False).fit(
            rows[group], labels[group]
        )  # N·λ is the same
        assert_allclose(together.predict(rows[group]), alone.predict(rows[group]), atol=1e-7)


@pytest.mark.parametrize("outlier", [1e4, 1e6, 1e9, 1e15])
@pytest.mark.parametrize("lam", ["loo", "gcv"])
def test_one_outlier_does_not_make_a_gaussian_kernel_indefinite(outlier, lam):
    rows, labels = data(n=100, d=1)
    rows[0] = outlier
    model = SpectralRegressor(Gaussian(1.0), lam=lam, fit_intercept=False).fit(rows, labels)
    K = reference.gaussian(rows, rows, 1.0)
    expected = K @ reference.ridge_coefficients(K, labels, model.lam_)
    assert_allclose(model.predict(rows), expected, atol=1e-6)


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(1.0), Matern(1.0)], ids=repr)
def test_an_offset_of_all_features_changes_nothing(offset, kernel):
    rows = np.round(X * 64) / 64
    expected = SpectralRegressor(kernel, fit_intercept=False).fit(rows, y).predict(rows)
    assert_allclose(
        SpectralRegressor(kernel, fit_intercept=False).fit(rows + offset, y).predict(rows + offset), expected, atol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-100, 1e-9, 1e9, 1e100])
@every_mode
@centring
def test_the_unit_of_labels_is_immaterial(scale, lam, center):
    expected = SpectralRegressor(Gaussian(1.0), lam=lam, fit_intercept=center).fit(X, y).predict(X)
    model = SpectralRegressor(Gaussian(1.0), lam=lam, fit_intercept=center).fit(X, scale * y)
    assert_allclose(model.predict(X) / scale, expected, atol=1e-8)


@every_filter
def test_a_tiny_lam_interpolates(filter):
    lam = 1e-6 if filter == "nu" else 1e-12  # a thousand steps will do
    assert_allclose(
        SpectralRegressor(Gaussian(0.1), filter, lam=lam, fit_intercept=False).fit(X, y).predict(X), y, atol=1e-3
    )


@every_filter
def test_a_huge_lam_shrinks(filter):
    values = SpectralRegressor(Gaussian(0.1), filter, lam=1e12, fit_intercept=False).fit(X, y).predict(X)
    one_step = 2 / len(y)  # the least that an iteration can do
    assert np.abs(values).max() <= (one_step if filter in ("landweber", "nu") else 1e-10) * np.abs(y).max()


def test_a_model_keeps_its_rows_when_the_callers_change():
    rows, labels = data(n=20)
    model = SpectralRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(rows, labels)
    before = model.predict(rows.copy())
    kept = rows.copy()
    rows *= 2.0
    assert_allclose(model.predict(kept), before, rtol=0)
