"""At a given λ every filter follows its formula in the papers, by every route, with every kernel and every spelling.

Tests `_solvers/spectral/problem.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels

from tests import reference
from unpooled import SpectralRegressor
from unpooled.filters import CutOff, IteratedTikhonov, Landweber, NuMethod, Tikhonov
from unpooled.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial, as_kernel

few = settings(max_examples=20, deadline=None, derandomize=True)
FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")

# A kernel of the library beside the same function in plain NumPy; all but the first have κ ≠ 1.
KERNELS = {
    "gaussian": (Gaussian(0.7), lambda X, Z: reference.gaussian(X, Z, 0.7)),
    "scaled": (2.5 * Gaussian(0.7), lambda X, Z: 2.5 * reference.gaussian(X, Z, 0.7)),
    "linear": (Linear(), lambda X, Z: X @ Z.T),
    "polynomial": (Polynomial(degree=2), lambda X, Z: (X @ Z.T / X.shape[1] + 1) ** 2),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)


@dataclass
class Case:
    """Training rows and labels, new rows, and the kernel on them."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    kernel: object
    K: np.ndarray
    K_new: np.ndarray

    @property
    def kappa_sq(self):
        return float(np.max(np.diag(self.K)))

    def agrees(self, model, coefficients, rtol):
        """The model's predictions are those of Σ c_i K_{x_i}, to rtol of the size of the labels."""
        size = max(1.0, np.abs(self.K_new).max() / self.kappa_sq) * np.abs(self.y).max()
        assert_allclose(model.fit(self.X, self.y).predict(self.Z), self.K_new @ coefficients, rtol=0, atol=rtol * size)
        return model


def case(name, seed, n=18, d=2):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(7, d))
    kernel, function = KERNELS[name]
    return Case(X, rng.normal(size=n), Z, kernel, function(X, X), function(Z, X))


seeds = st.integers(0, 10**6)
ratios = st.floats(-4, 0).map(lambda u: 10.0**u)  # λ/κ²
# What a route promises: rounding, or for the low-rank route tr E ≤ 1e-8·Nλ, which moves predictions a little more.
DIRECT, CERTIFIED = 1e-8, 1e-6


@every_kernel
@pytest.mark.parametrize(
    ("solver", "rtol"), [("auto", DIRECT), ("cholesky", DIRECT), ("eigh", DIRECT), ("low-rank", CERTIFIED)]
)
@few
@given(seed=seeds, ratio=ratios)
def test_tikhonov_is_the_ridge_system(name, solver, rtol, seed, ratio):
    c = case(name, seed)
    lam = ratio * c.kappa_sq
    model = SpectralRegressor(c.kernel, lam=lam, solver=solver)
    c.agrees(model, reference.ridge_coefficients(c.K, c.y, lam), rtol)
    assert model.solver_ == ("cholesky" if solver == "auto" else solver)


@every_kernel
@few
@given(seed=seeds, ratio=ratios)
def test_tikhonov_is_kernel_ridge_with_alpha_n_lam(name, seed, ratio):
    c = case(name, seed)
    lam = ratio * c.kappa_sq
    twin = KernelRidge(kernel="precomputed", alpha=len(c.y) * lam).fit(c.K, c.y)
    c.agrees(SpectralRegressor(c.kernel, lam=lam), twin.dual_coef_, DIRECT)


@every_kernel
@pytest.mark.parametrize(("solver", "rtol"), [("cholesky", DIRECT), ("eigh", DIRECT), ("low-rank", CERTIFIED)])
@few
@given(seed=seeds, ratio=ratios, times=st.integers(1, 4))
def test_iterated_tikhonov_is_ridge_on_the_residuals_again_and_again(name, solver, rtol, seed, ratio, times):
    c = case(name, seed)
    lam = ratio * c.kappa_sq
    expected = reference.iterated_ridge_coefficients(c.K, c.y, lam, times)
    c.agrees(SpectralRegressor(c.kernel, IteratedTikhonov(times), lam=lam, solver=solver), expected, rtol)


@every_kernel
@pytest.mark.parametrize(("solver", "rtol"), [("products", DIRECT), ("eigh", DIRECT), ("low-rank", CERTIFIED)])
@few
@given(seed=seeds, t=st.integers(1, 300))
def test_landweber_is_t_gradient_steps(name, solver, rtol, seed, t):
    c = case(name, seed)
    expected = reference.landweber_coefficients(c.K, c.y, 1 / c.kappa_sq, t)
    c.agrees(SpectralRegressor(c.kernel, "landweber", lam=c.kappa_sq / t, solver=solver), expected, rtol)


@every_kernel
@pytest.mark.parametrize(("solver", "rtol"), [("products", DIRECT), ("eigh", DIRECT), ("low-rank", CERTIFIED)])
@few
@given(seed=seeds, t=st.integers(1, 60), nu=st.sampled_from([0.5, 1.0, 2.0, 3.5]))
def test_the_nu_method_is_its_two_step_recursion(name, solver, rtol, seed, t, nu):
    c = case(name, seed)
    expected = reference.nu_coefficients(c.K, c.y, 1 / c.kappa_sq, t, nu)
    c.agrees(SpectralRegressor(c.kernel, NuMethod(nu), lam=c.kappa_sq / t**2, solver=solver), expected, rtol)


@every_kernel
@pytest.mark.parametrize(("solver", "rtol"), [("auto", DIRECT), ("eigh", DIRECT), ("low-rank", CERTIFIED)])
@few
@given(seed=seeds, rank=st.integers(1, 8))
def test_cutoff_is_the_projection_on_the_leading_eigenvectors(name, solver, rtol, seed, rank):
    c = case(name, seed)
    sigma = np.linalg.eigvalsh(c.K / len(c.y))[::-1]
    rank = min(rank, int(np.sum(sigma > 1e-5 * c.kappa_sq)))
    lam = np.sqrt(sigma[rank - 1] * max(sigma[rank], 1e-2 * sigma[rank - 1]))  # between two eigenvalues
    model = SpectralRegressor(c.kernel, "cutoff", lam=lam, solver=solver)
    c.agrees(model, reference.cutoff_coefficients(c.K, c.y, lam), rtol)


@every_kernel
@pytest.mark.parametrize(
    ("solver", "times", "rtol"),
    [
        ("mixed", 1, DIRECT),
        ("banded", 1, DIRECT),
        ("eigh", 1, DIRECT),
        ("eigh", 3, DIRECT),
        ("low-rank", 1, CERTIFIED),
        ("low-rank", 3, CERTIFIED),
    ],
)
@few
@given(seed=seeds)
def test_every_lam_of_a_path_is_its_own_ridge_system(name, solver, times, rtol, seed):
    c = case(name, seed)
    lams = c.kappa_sq * np.logspace(0, -4, 5)
    filter = Tikhonov() if times == 1 else IteratedTikhonov(times)
    model = SpectralRegressor(c.kernel, filter, lam=lams, solver=solver).fit(c.X, c.y)
    expected = [c.K_new @ reference.iterated_ridge_coefficients(c.K, c.y, lam, times) for lam in lams]
    size = max(1.0, np.abs(c.K_new).max() / c.kappa_sq) * np.abs(c.y).max()
    assert_allclose(model.path_.predict(c.Z), expected, rtol=0, atol=rtol * size)
    assert model.solver_ == solver


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("center", [False, True])
@few
@given(seed=seeds, ratio=ratios, scale=st.floats(-6, 6).map(lambda u: 10.0**u))
def test_scaling_the_kernel_and_lam_together_changes_nothing(filter, center, seed, ratio, scale):
    c = case("gaussian", seed)
    plain = SpectralRegressor(c.kernel, filter, lam=ratio, center=center).fit(c.X, c.y)
    scaled = SpectralRegressor(scale * c.kernel, filter, lam=scale * ratio, center=center).fit(c.X, c.y)
    assert_allclose(scaled.predict(c.Z), plain.predict(c.Z), atol=1e-7)


@pytest.mark.parametrize("filter", [Tikhonov(), IteratedTikhonov(2), CutOff(), Landweber(), NuMethod(1.0)], ids=FILTERS)
def test_a_filter_by_name_is_the_filter_itself(filter):
    c = case("scaled", 0)
    name = FILTERS[[Tikhonov, IteratedTikhonov, CutOff, Landweber, NuMethod].index(type(filter))]
    by_name = SpectralRegressor(c.kernel, name, lam=0.01).fit(c.X, c.y)
    assert_array_equal(by_name.predict(c.Z), SpectralRegressor(c.kernel, filter, lam=0.01).fit(c.X, c.y).predict(c.Z))


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("solver", ["auto", "eigh"])
@few
@given(seed=seeds, ratio=ratios)
def test_several_targets_are_fitted_as_each_alone(filter, solver, seed, ratio):
    c = case("scaled", seed)
    Y = np.column_stack([c.y, 1e3 * np.cos(c.X[:, 0]), np.ones(len(c.y))])
    together = SpectralRegressor(c.kernel, filter, lam=ratio, solver=solver).fit(c.X, Y).predict(c.Z)
    alone = [SpectralRegressor(c.kernel, filter, lam=ratio, solver=solver).fit(c.X, y).predict(c.Z) for y in Y.T]
    assert together.shape == (len(c.Z), 3)
    assert_allclose(together, np.column_stack(alone), rtol=1e-8, atol=1e-8)


# Gaussian-process regression with its own noise alpha = N·λ is kernel ridge regression.
PROCESSES = {
    "rbf": gp.RBF(0.7),
    "one length scale a feature": gp.RBF([0.5, 2.0]),
    "scaled rbf": gp.ConstantKernel(3.0) * gp.RBF(0.7),
    "matern": gp.Matern(0.9, nu=1.5),
    "matern of another order": gp.Matern(0.9, nu=1.2),
    "rational quadratic": gp.RationalQuadratic(0.8, 1.5),
    "periodic": gp.ExpSineSquared(0.8, 2.0),
    "dot product": gp.DotProduct(0.5),
    "white noise in a sum": gp.RBF(0.7) + gp.WhiteKernel(0.3),
    "white noise, scaled": gp.ConstantKernel(2.0) * (gp.RBF(0.7) + gp.WhiteKernel(0.3)),
    "white noise in a product": gp.RBF(0.7) * gp.WhiteKernel(0.3) + gp.Matern(1.0, nu=2.5),
    "a power of white noise and rbf": (gp.RBF(0.7) + gp.WhiteKernel(0.3)) ** 2,
}


@pytest.mark.parametrize("process", PROCESSES)
@few
@given(seed=seeds, ratio=ratios)
def test_gaussian_process_regression_with_alpha_n_lam_predicts_the_same(process, seed, ratio):
    kernel = PROCESSES[process]
    c = case("gaussian", seed, d=1 if process == "periodic" else 2)  # in the plane a periodic kernel is not one
    lam = ratio * float(np.max(kernel.diag(c.X)))
    twin = GaussianProcessRegressor(kernel, alpha=len(c.y) * lam, optimizer=None).fit(c.X, c.y)
    model = SpectralRegressor(kernel, lam=lam).fit(c.X, c.y)
    rows = np.vstack([c.Z, c.X])  # training rows too: at prediction they carry no white noise
    assert_allclose(model.predict(rows), twin.predict(rows), atol=1e-7 * np.abs(c.y).max())


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("filter", FILTERS)
def test_a_gaussian_process_kernel_is_its_own_matrix_under_every_filter(process, filter):
    kernel = PROCESSES[process]
    c = case("gaussian", 3, d=1 if process == "periodic" else 2)
    direct = SpectralRegressor(kernel, filter, lam=0.02, solver="eigh").fit(c.X, c.y).predict(c.Z)
    by_matrix = SpectralRegressor("precomputed", filter, lam=0.02, solver="eigh").fit(kernel(c.X), c.y)
    assert_allclose(direct, by_matrix.predict(kernel(c.Z, c.X)), atol=1e-7)


@pytest.mark.parametrize("lam", [0.01, "loo", "gcv", "cv"])
@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("center", [False, True])
@every_kernel
def test_a_precomputed_matrix_is_the_kernel_itself(name, filter, center, lam):
    c = case(name, 1)
    grid = c.kappa_sq * np.logspace(0, -3, 7)
    options = {"filter": filter, "center": center, "lam": lam, "grid": grid}
    direct = SpectralRegressor(c.kernel, **options).fit(c.X, c.y)
    by_matrix = SpectralRegressor("precomputed", **options).fit(c.K, c.y)
    assert by_matrix.lam_ == direct.lam_
    assert_allclose(by_matrix.predict(c.K_new), direct.predict(c.Z), atol=1e-7 * np.abs(c.y).max())


@pytest.mark.parametrize("name", ["rbf", "linear", "poly", "polynomial", "laplacian", "cosine", "chi2"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_name_of_scikit_learn_keeps_scikit_learns_function_and_defaults(name, d):
    c = case("gaussian", 5, d=d)
    X, Z = np.abs(c.X), np.abs(c.Z)  # chi2 wants non-negative features
    expected = pairwise_kernels(Z, X, metric=name) @ reference.ridge_coefficients(
        pairwise_kernels(X, X, metric=name), c.y, 0.02
    )
    assert_allclose(SpectralRegressor(name, lam=0.02).fit(X, c.y).predict(Z), expected, atol=1e-8)


def matrices(X, Z):
    return np.exp(-((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2) / 2)


FUNCTIONS = {
    "of two matrices": (matrices, Gaussian(1.0)),
    "of two matrices, in Fortran's order": (lambda X, Z: np.asfortranarray(matrices(X, Z)), Gaussian(1.0)),
    "of two rows": (lambda x, z: np.exp(-np.sum((x - z) ** 2) / 2), Gaussian(1.0)),
    "of two rows, a dot product": (lambda x, z: x @ z, Linear()),
    "of numpy": (np.dot, Linear()),
    "that counts": (lambda X, Z: (X[:, None, :] == Z[None, :, :]).all(axis=2), Laplacian(1e-9)),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("lam", [0.05, "loo"])
@pytest.mark.parametrize("center", [False, True])
def test_a_function_is_the_kernel_it_computes(function, d, lam, center):
    c = case("gaussian", 7, d=d)
    given_function, kernel = FUNCTIONS[function]
    options = {"lam": lam, "grid": np.logspace(0, -3, 4), "center": center}
    expected = SpectralRegressor(kernel, **options).fit(c.X, c.y)
    model = SpectralRegressor(given_function, **options).fit(c.X, c.y)
    assert_allclose(model.predict(c.Z), expected.predict(c.Z), atol=1e-8)


def test_a_matrix_that_a_function_keeps_is_not_overwritten():
    c = case("gaussian", 8)
    kept = {}

    def remembering(X, Z):
        return kept.setdefault((X.tobytes(), Z.tobytes()), matrices(X, Z))

    SpectralRegressor(remembering, lam="loo", center=True).fit(c.X, c.y, sample_weight=np.arange(1, len(c.y) + 1))
    assert_allclose(kept[(c.X.tobytes(), c.X.tobytes())], matrices(c.X, c.X), rtol=1e-12)


@pytest.mark.parametrize("filter", FILTERS)
def test_fitting_leaves_its_arguments_as_they_were(filter):
    c = case("gaussian", 9)
    for kernel, X in ((Gaussian(0.7), c.X), ("precomputed", c.K)):
        w = np.linspace(1, 2, len(c.y))
        before = X.copy(), c.y.copy(), w.copy()
        for lam in (0.01, "loo", "cv"):
            SpectralRegressor(kernel, filter, lam=lam, center=True, grid=[0.1, 0.01]).fit(X, c.y, w).predict(X)
        for array, copy in zip((X, c.y, w), before):
            assert_array_equal(array, copy)


def test_a_name_a_kernel_of_scikit_learn_and_our_own_are_one_kernel():
    c = case("gaussian", 10)
    ours = as_kernel(gp.ConstantKernel(2.0) * gp.Matern(0.9, nu=2.5))
    assert ours == 2.0 * Matern(0.9, nu=2.5)
    assert_allclose(as_kernel("poly")(c.X), Polynomial()(c.X))
    assert_allclose(as_kernel("rbf")(c.X), Gaussian(1.0)(c.X))  # gamma = 1/2 for two features
