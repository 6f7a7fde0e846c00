"""The leave-one-out error that chooses length scales is what leaving rows out gives, and its gradient is its slope."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.cases.kernels import SEEDS, STATIONARY, cases, few, named
from tests.made_up import pure_noise
from unpooled._solvers.length_scales.path import ScaledKernel, leave_one_out, make_penalty
from unpooled.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from unpooled.kernels.parts import free_parts

TREES = [
    Gaussian("auto"),
    Laplacian("auto"),
    Matern("auto", 1.5),
    Matern("auto", 2.5),
    3.0 * Gaussian("auto"),
    Gaussian("auto") + Linear(),
    Matern("auto") * (Polynomial(2) + 0.5 * Laplacian("auto")),
    2.0 * (Gaussian("auto") + Gaussian(0.7) * Matern("auto", 2.5)),
]


def error_of_leaving_out(K, y, weights, mu):
    """Σ w_i (y_i - f_{-i}(x_i))², each f the minimum of Σ_j N w_j (y_j - f(x_j) - b)² + μ|f|² over the other rows."""
    n = len(K)
    w = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    total = 0.0
    for i in range(n):
        j = np.delete(np.arange(n), i)
        a = n * w[j]
        # a(Kc + b - y) + μc = 0 and aᵀ(Kc + b - y) = 0
        system = np.block(
            [[a[:, None] * K[np.ix_(j, j)] + mu * np.eye(n - 1), a[:, None]], [a @ K[np.ix_(j, j)], a.sum()]]
        )
        c = np.linalg.solve(system, np.append(a * y[j], a @ y[j]))
        total += w[i] * (y[i] - K[i, j] @ c[:-1] - c[-1]) ** 2
    return total


@few
@given(seed=SEEDS, n=st.integers(4, 12), n_targets=st.integers(1, 2), weighted=st.booleans(), lam=st.floats(1e-4, 1.0))
def test_the_error_is_that_of_fits_without_the_row(seed, n, n_targets, weighted, lam):
    X, Y, weights = pure_noise(seed, n, 2, n_targets, weighted)
    K = Gaussian(1.3)(X)
    expected = sum(error_of_leaving_out(K, y, weights, n * lam) for y in Y.T)
    assert leave_one_out(K.copy(), Y, weights, lam).value == pytest.approx(expected, rel=1e-8)


@few
@given(seed=SEEDS, n=st.integers(4, 15), weighted=st.booleans(), lam=st.floats(1e-3, 1.0))
def test_the_derivative_by_the_kernel_matrix_is_the_slope_in_any_direction(seed, n, weighted, lam):
    rng = np.random.default_rng(seed)
    X, Y, weights = pure_noise(rng, n, 2, 2, weighted)
    K = Gaussian(1.3)(X)
    direction = rng.normal(size=(n, n))
    direction = direction + direction.T
    h = 1e-6
    up, down = (leave_one_out(K + sign * h * direction, Y, weights, lam).value for sign in (1, -1))
    G = leave_one_out(K.copy(), Y, weights, lam).by_kernel
    assert_allclose(G, G.T, atol=1e-12 * np.abs(G).max())
    assert np.sum(G * direction) == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-6 * np.abs(G).sum())


@cases(STATIONARY)
@few
@given(seed=SEEDS, n=st.integers(2, 8), d=st.integers(1, 3), offset=st.sampled_from([0.0, 1e4]))
def test_the_derivative_by_a_length_scale_is_the_slope_of_the_kernel(case, seed, n, d, offset):
    kernel_of, formula = case
    rng = np.random.default_rng(seed)
    X, G = rng.normal(size=(n, d)) + offset, rng.normal(size=(n, n))
    X[-1] = X[0]
    G = G + G.T
    log_scale = rng.uniform(-0.5, 1.0, d)
    h = 1e-5
    slopes = [
        np.sum(G * (formula(X, X, np.exp(log_scale + step)) - formula(X, X, np.exp(log_scale - step)))) / (2 * h)
        for step in h * np.eye(d)
    ]
    found = kernel_of(np.exp(log_scale)).length_scale_gradient(X, G)
    assert_allclose(found, slopes, rtol=1e-5, atol=1e-6 * np.abs(G).sum())


@pytest.mark.parametrize("kernel", TREES, ids=named)
@few
@given(
    seed=SEEDS, n=st.integers(5, 15), d=st.integers(1, 4), weighted=st.booleans(), log_lam=st.floats(np.log(1e-4), 0.0)
)
def test_the_gradient_is_the_slope_in_every_parameter(kernel, seed, n, d, weighted, log_lam):
    rng = np.random.default_rng(seed)
    X, Y, weights = pure_noise(rng, n, d, 2, weighted)
    X[n // 2] += 1.0  # differences of a rounded distance of zero would be no slope
    parts = free_parts(kernel)
    model = ScaledKernel(kernel, parts, rng.uniform(0.5, 2.0, d), X, Y, weights)
    theta = np.append(rng.uniform(-0.5, 1.0, len(parts) * d), log_lam)
    _, gradient = model(theta)
    h = 1e-4  # smaller ones lose more to rounding than they gain, where λ is small
    slopes = [(model(theta + step)[0] - model(theta - step)[0]) / (2 * h) for step in h * np.eye(len(theta))]
    assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-5)


@few
@given(seed=SEEDS, n=st.integers(2, 6), alpha=st.floats(1e-3, 1.0))
def test_the_gradient_of_shrinking_is_its_slope_and_the_common_length_scale_costs_nothing(seed, n, alpha):
    rng = np.random.default_rng(seed)
    centre, theta = rng.normal(size=(2, n))
    penalty = make_penalty(alpha, centre)
    h = 1e-6
    slopes = [(penalty(theta + step)[0] - penalty(theta - step)[0]) / (2 * h) for step in h * np.eye(n)]
    assert_allclose(penalty(theta)[1], slopes, atol=1e-8)
    assert penalty(centre)[0] == 0.0
    assert penalty(np.append(centre[:-1], 5.0))[0] == 0.0  # λ is free


def test_a_matrix_that_is_no_kernel_has_no_error():
    assert leave_one_out(-np.eye(4), np.arange(4.0)[:, None], None, 1e-3) is None


def test_the_minimum_is_one_and_stays_within_the_parameters_that_may_move():
    X, Y, _ = pure_noise(0, 30, 2, 1, False)
    Y = np.sin(2 * X[:, :1])
    model = ScaledKernel(Gaussian("auto"), [()], np.ones(2), X, Y - Y.mean(), None)
    start = np.asarray([0.3, 0.5, -5.0])
    together = model.minimise(start, np.asarray([0, 0, 1]))
    assert together[1] - together[0] == pytest.approx(0.2)
    only_lam = model.minimise(start, np.asarray([-1, -1, 0]))
    assert list(only_lam[:2]) == [0.3, 0.5]
    free = model.minimise(together, np.arange(3))
    assert model(free)[0] < model(together)[0] < model(start)[0]
    for step in 0.05 * np.eye(2, 3):
        assert model(free)[0] < min(model(free + step)[0], model(free - step)[0]) + 1e-3
