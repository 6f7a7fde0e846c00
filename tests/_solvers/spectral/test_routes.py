"""Whatever route a fit takes, it is right, or it is not taken."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.made_up import CUBE, regression
from unpooled import SpectralRegressor
from unpooled._solvers.spectral import routes
from unpooled.kernels import Gaussian, Kernel, Matern

data = partial(regression, between=CUBE, noise=0.3, then=(40,))


@pytest.fixture
def small_is_large(monkeypatch):
    """The routes of thousands of rows, on hundreds."""
    monkeypatch.setattr(routes, "BANDED_FROM", 150)
    monkeypatch.setattr(routes, "LARGE", 100)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("small_is_large")
def test_banded_form_in_single_precision_chooses_for_double(criterion, center, weighted):
    X, y, Z = data(n=400)
    Y = np.column_stack([y, y[::-1] + 5.0])
    w = np.random.default_rng(1).uniform(0.5, 2.0, size=400) if weighted else None
    options = {"lam": criterion, "fit_intercept": center, "per_target": True}
    large = SpectralRegressor(Matern(0.5), **options).fit(X, Y, w)
    direct = SpectralRegressor(Matern(0.5), **options, solver="eigh").fit(X, Y, w)
    # What rounding makes of leave-one-out scores below what single precision can tell differs between machines:
    # where it looks like the best, double precision has to say.
    assert large.solver_ in ("mixed", "banded") if criterion == "loo" else large.solver_ == "mixed"
    assert_allclose(large.lam_, direct.lam_)
    assert_allclose(large.predict(Z), direct.predict(Z), atol=1e-9)
    scored = np.isfinite(large.path_.freedom)
    assert scored.sum() >= 15
    assert (scored.sum() < len(scored)) == (large.solver_ == "mixed")
    assert_allclose(large.path_.scored[scored], direct.path_.criterion[scored], rtol=0.1)
    rounding = 1e-6 if large.solver_ == "mixed" else 1e-5
    assert_allclose(large.path_.criterion, direct.path_.criterion, rtol=rounding)  # the first look completes it
    assert_allclose(large.path_.df, direct.path_.df, rtol=1e-6)
    assert_allclose(large.path_.predict(Z), direct.path_.predict(Z), atol=1e-9)


@pytest.mark.usefixtures("small_is_large")
def test_banded_form_in_single_precision_serves_single_precision_data():
    X, y, Z = (a.astype(np.float32) for a in data(n=400))
    large = SpectralRegressor(Matern(0.5), fit_intercept=True).fit(X, y)
    direct = SpectralRegressor(Matern(0.5), fit_intercept=True, solver="eigh").fit(X, y)
    assert (large.solver_, large.predict(Z).dtype) == ("banded", np.float32)
    assert large.lam_ == direct.lam_
    assert_allclose(large.predict(Z), direct.predict(Z), atol=1e-3)


@pytest.mark.parametrize(("dtype", "lam", "tolerance"), [
    (np.float64, 1e-3, 1e-9),
    (np.float64, 1e-6, 1e-7),
    (np.float64, 1e-9, 1e-5),
    (np.float32, 1e-2, 1e-3),
    (np.float32, 1e-5, 1e-2),
])  # fmt: skip
def test_a_low_rank_where_it_is_taken_is_as_good_as_cholesky(dtype, lam, tolerance):
    X, y, Z = data(n=1200, d=1)
    exact = SpectralRegressor(Gaussian(0.3), lam=lam, solver="cholesky", fit_intercept=False).fit(X, y).predict(Z)
    model = SpectralRegressor(Gaussian(0.3), lam=lam, fit_intercept=False).fit(X.astype(dtype), y.astype(dtype))
    assert_allclose(model.predict(Z.astype(dtype)), exact, atol=tolerance)


def test_a_low_rank_that_rounding_cannot_certify_is_not_taken():
    X, y, _ = data(n=1200, d=1)
    assert SpectralRegressor(Gaussian(0.3), lam=1e-3, fit_intercept=False).fit(X, y).solver_ == "low-rank"
    assert SpectralRegressor(Gaussian(0.3), lam=1e-12, fit_intercept=False).fit(X, y).solver_ == "cholesky"
    assert (
        SpectralRegressor(Gaussian(0.3), lam=1e-5, fit_intercept=False).fit(X.astype("f"), y.astype("f")).solver_
        == "cholesky"
    )
    with pytest.raises(ValueError, match="solver='low-rank' cannot be certified"):
        SpectralRegressor(Gaussian(0.3), lam=1e-12, solver="low-rank", fit_intercept=False).fit(X, y)


class Parabola(Kernel):
    """1 - ‖x - z‖²/2: says it is positive semi-definite, as every Kernel does, and is not."""

    def block(self, X, Z):
        return 1.0 - 0.5 * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)

    def diag(self, X):
        return np.ones(len(X))

    def kappa(self, X=None):
        return 1.0


@pytest.mark.parametrize("lam", [1e-3, "loo", "gcv", "cv"])
@pytest.mark.parametrize("filter", ["tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu"])
@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.usefixtures("small_is_large")
def test_no_route_fits_a_kernel_that_is_none(lam, filter, as_function):
    X, y, _ = data(n=200)
    kernel = Parabola().block if as_function else Parabola()
    with pytest.raises(ValueError, match="not positive (semi-)?definite.*Mercer"):
        SpectralRegressor(4.0 * Parabola() if not as_function else kernel, filter, lam, fit_intercept=False).fit(
            3.0 * X, y
        )


def test_low_rank_does_not_serve_folds():
    X, y, _ = data(n=60)
    with pytest.raises(ValueError, match="solver='low-rank' does not serve"):
        SpectralRegressor(Gaussian(1.0), lam="cv", solver="low-rank", fit_intercept=False).fit(X, y)


def test_iterating_once_is_ridge_and_its_leave_one_out_exact():
    from unpooled.filters import IteratedTikhonov

    X, y, _ = data(n=40)
    assert SpectralRegressor(Gaussian(0.5), IteratedTikhonov(1), fit_intercept=False).fit(X, y).path_.exact
    assert not SpectralRegressor(Gaussian(0.5), IteratedTikhonov(2), fit_intercept=False).fit(X, y).path_.exact
