"""Problems of which everything is known: the experiments' kernels, eigenfunctions and targets are what they say."""

import numpy as np
import pytest

import unpooled as up
from unpooled.reproduce.claims import correntropy as mee
from unpooled.reproduce.problems import EDGE, PROBLEMS, grid

FEW = 12  # eigenfunctions that are looked at
NAMES = list(PROBLEMS)


def quadrature(n=4000):
    """Midpoints, fine enough for a kernel with a kink."""
    return (np.arange(n) + 0.5) / n


@pytest.mark.parametrize("name", NAMES)
def test_eigenfunctions_are_orthonormal_and_belong_to_the_kernel(name):
    known, z = PROBLEMS[name](), quadrature()
    E = known.eigenfunctions(z)[:, :FEW]
    np.testing.assert_allclose(E.T @ E / len(z), np.eye(FEW), atol=1e-5)
    x = np.linspace(0.03, 0.97, 7)
    applied = known.kernel(x[:, None], z[:, None]) @ E / len(z)
    np.testing.assert_allclose(applied, known.eigenfunctions(x)[:, :FEW] * known.eigenvalues[:FEW], atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_trace_and_the_capacity_are_those_of_the_kernel(name):
    known, x = PROBLEMS[name](), quadrature()
    assert known.kernel.diag(x[:, None]).mean() == pytest.approx(known.eigenvalues.sum(), rel=2e-3)
    assert known.kernel.kappa(x[:, None]) ** 2 == pytest.approx(known.kappa_sq, rel=1e-3)
    tail = np.arange(200, 900)
    slope = np.polyfit(np.log(tail), np.log(known.eigenvalues[tail]), 1)[0]
    assert -1 / slope == pytest.approx(known.beta, rel=0.02)


@pytest.mark.parametrize("order", [1, 2])
def test_the_sobolev_kernel_is_its_series(order):
    kernel = PROBLEMS[f"Sobolev {order}"]().kernel
    x, z, k = np.random.default_rng(0).random((5, 1)), np.random.default_rng(1).random((4, 1)), np.arange(1, 20_000)
    series = 1 + 2 * np.cos(2 * np.pi * k * (x - z.T)[..., None]) @ k ** (-2.0 * order)
    np.testing.assert_allclose(kernel(x, z), series, atol=2e-4)
    np.testing.assert_allclose(np.diagonal(kernel(x)), kernel.diag(x), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("r", [0.5, 2.0])
def test_targets_have_norm_one_and_lie_at_the_boundary_of_their_class(name, r):
    target = PROBLEMS[name]().target(r)
    assert np.mean(target.on_grid**2) == pytest.approx(1.0, abs=1e-3)
    h = np.abs(target.coefficients / target.known.eigenvalues**r)  # f = L^r h
    k = np.arange(1, len(h) + 1)
    np.testing.assert_allclose(h / h[0], k ** (-0.5 - EDGE), rtol=1e-9)


def test_errors_are_integrals_against_the_target():
    target = PROBLEMS["Sobolev 1"]().target(1.0)
    off = target.on_grid + 0.3 * target.known.eigenfunctions(grid())[:, 4]
    assert target.squared_error(off) == pytest.approx(0.09)
    assert target.squared_error(np.stack([off, target.on_grid], axis=1)) == pytest.approx(0.045)
    np.testing.assert_allclose(target.squared_error(np.stack([off, target.on_grid])[:, :, None]), [0.09, 0], atol=1e-12)


@pytest.mark.parametrize("filter", ["tikhonov", "landweber", "cutoff"])
def test_the_best_lam_of_the_population_is_near_the_best_of_many_samples(filter):
    target, n, noise = PROBLEMS["Sobolev 1"]().target(1.0), 400, 0.3
    best = target.best_lam(filter, n, noise)

    def error(lam):
        model = up.SpectralRegressor(target.known.kernel, filter, lam, fit_intercept=False)
        samples = (target.draw(np.random.default_rng(seed), n, noise, 4) for seed in range(4))
        return np.mean([target.error_of(model.fit(X, Y)) for X, Y in samples])

    chosen = error(best)
    assert chosen < 1.1 * min(error(best * factor) for factor in (0.1, 0.3, 3, 10))


def test_labels_are_bounded_and_have_the_noise_they_say():
    target = PROBLEMS["Brownian"]().target(1.0)
    X, Y = target.draw(np.random.default_rng(0), 4000, 0.5, 3)
    noise = Y - target(X[:, 0])[:, None]
    assert noise.std() == pytest.approx(0.5, rel=0.02)
    assert np.abs(noise).max() <= 0.5 * np.sqrt(3)
    assert np.corrcoef(noise.T)[0, 1] == pytest.approx(0, abs=0.05)


def test_waves_are_eigenfunctions():
    target = PROBLEMS["Brownian"]().waves(1.0, 1, 4)
    assert np.count_nonzero(target.coefficients) == 4
    assert np.mean(target.on_grid**2) == pytest.approx(1.0, abs=1e-4)


def test_minimum_error_entropy_descends_the_pairwise_loss():
    rng = np.random.default_rng(0)
    X, y, h = rng.random((9, 1)), rng.normal(size=9), 0.7
    K, kappa_sq = up.kernels.Gaussian(0.3)(X), 1.0

    def loss(c):
        gaps = np.subtract.outer(y - K @ c, y - K @ c)
        return -(h**2) * np.mean(np.exp(-0.5 * (gaps / h) ** 2))

    one_step = np.linalg.solve(
        K, mee._descend(K, y, K, h, [1], kappa_sq)[0] - mee._densest(y - K @ step_of(K, y, h), h)
    )
    np.testing.assert_allclose(one_step, step_of(K, y, h), atol=1e-6)
    slopes = [(loss(1e-6 * e) - loss(-1e-6 * e)) / 2e-6 for e in np.eye(9)]
    np.testing.assert_allclose(K @ step_of(K, y, h), -np.asarray(slopes) / 2, atol=1e-6)  # η = 1/(2κ²)


def step_of(K, y, h):
    """The first step from zero, summed as it is written."""
    c = np.zeros(len(y))
    for i in range(len(y)):
        for j in range(len(y)):
            pull = np.exp(-((y[i] - y[j]) ** 2) / (2 * h**2)) * (y[i] - y[j])
            c[i] += pull / (2 * len(y) ** 2)
            c[j] -= pull / (2 * len(y) ** 2)
    return c


def test_the_densest_place_of_residuals_does_not_give_way_to_outliers_on_one_side():
    e = np.concatenate([np.random.default_rng(0).normal(0.2, 0.1, 70), np.full(30, 9.0)])
    assert mee._densest(e, 0.3) == pytest.approx(0.2, abs=0.05)
    assert mee._densest(e, 1e6) == pytest.approx(e.mean())
