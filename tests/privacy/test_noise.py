"""Privacy noise: exact samples on a grid, of the scale that was claimed, that no seed can repeat."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from unpooled.privacy import GridGaussian, calibrate_noise, gaussian
from unpooled.privacy.noise import draw

pytest.importorskip("opendp", reason="OpenDP is not installed: pip install 'unpooled[privacy]'")

FALSE_ALARM = 1e-9


def test_the_noise_has_the_claimed_scale():
    planned = calibrate_noise(20_000, sensitivity=2.0, mu=0.5, bound=100.0)
    noise = planned.add(np.zeros(20_000))
    assert stats.kstest(noise, "norm", args=(0.0, planned.sigma)).pvalue > FALSE_ALARM
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 20_000)
    assert low < np.sum((noise / planned.sigma) ** 2) < high
    assert planned.sigma == pytest.approx(4.0, rel=2e-5)


@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_small_scales_show_the_discrete_gaussian_itself(scale):
    k = np.arange(-math.ceil(3 * scale), math.ceil(3 * scale) + 1)
    weights = np.exp(-(np.arange(-60, 61) ** 2) / (2 * scale**2))
    expected = np.exp(-(k**2) / (2 * scale**2)) / weights.sum()
    found = draw(20_000, scale)
    counts = np.array([*(np.sum(found == i) for i in k), np.sum(np.abs(found) > k[-1])])
    expected = 20_000 * np.array([*expected, 1 - expected.sum()])
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM


def test_values_come_back_on_the_grid_around_what_they_were():
    planned = calibrate_noise(50, sensitivity=1.0, mu=1000.0, bound=10.0)
    values = np.linspace(-9, 9, 50).reshape(5, 10)
    noisy = planned.add(values)
    assert noisy.shape == (5, 10)
    assert np.all(noisy / planned.grid == np.rint(noisy / planned.grid))
    assert np.max(np.abs(noisy - values)) < 0.01
    assert planned.grid == 2.0 ** round(math.log2(planned.grid))


def test_values_beyond_the_bound_are_moved_there_and_nothing_tells():
    planned = calibrate_noise(3, sensitivity=1.0, mu=1000.0, bound=2.0)
    assert np.allclose(planned.add([-1e300, 5.0, 2.0]), [-2.0, 2.0, 2.0], atol=0.02)


def test_a_matrix_gets_symmetric_noise_of_the_claimed_scale():
    n = 120
    planned = calibrate_noise(n * (n + 1) // 2, sensitivity=1.0, mu=0.1, bound=100.0)
    matrix = np.add.outer(np.arange(n), np.arange(n)) / n
    noise = planned.add_symmetric(matrix) - matrix
    assert np.array_equal(noise, noise.T)
    beside = noise[np.tril_indices(n, -1)] * math.sqrt(2) / planned.sigma
    on = np.diag(noise) / planned.sigma
    for standard in (beside, on):
        assert stats.kstest(standard, "norm").pvalue > FALSE_ALARM


def test_no_seed_has_any_effect():
    drawn = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        drawn.append(tuple(draw(8, 2.0**20)))
    assert drawn[0] != drawn[1]


def test_shares_of_all_parties_make_up_the_noise_even_without_the_missing():
    planned = calibrate_noise(4_000, sensitivity=1.0, mu=0.2, bound=1.0, parties=5, missing=2)
    alone = calibrate_noise(4_000, sensitivity=1.0, mu=0.2, bound=1.0)
    assert planned.mu == pytest.approx(0.2)
    assert planned.own_sigma * math.sqrt(3) == pytest.approx(alone.sigma, rel=1e-5)
    total = sum(planned.add(np.zeros(4_000)) for _ in range(3))
    assert stats.kstest(total, "norm", args=(0.0, alone.sigma)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("size", [1, 1000, 10**7])
@pytest.mark.parametrize("sensitivity", [1e-30, 1e-3, 1.0, 1e30])
@pytest.mark.parametrize("mu", [1e-4, 0.2, 12.0])
def test_the_grid_costs_next_to_nothing_and_is_paid_for(size, sensitivity, mu):
    planned = calibrate_noise(size, sensitivity, mu, bound=1e6 * sensitivity)
    assert planned.mu <= mu
    assert sensitivity / mu < planned.sigma < sensitivity / mu * (1 + 1e-5)


def discrete(scale, length):
    k = np.arange(-length, length + 1)
    weights = np.exp(-(k**2) / (2 * scale**2))
    return k, weights / weights.sum()


@pytest.mark.parametrize("scale", [4.0, 8.0, 25.0])
@pytest.mark.parametrize("shift", [(1,), (3,), (2, 1), (3, 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3, 1.0, 3.0])
def test_the_discrete_gaussian_costs_no_more_than_the_continuous_one_of_less_variance(scale, shift, epsilon):
    """Theorem 5 of docs/privacy/gaussian.md, by summing the hockey-stick divergence over all whole numbers."""
    length = int(12 * scale) + 5
    _, p = discrete(scale, length)
    joint, moved = np.ones(()), np.ones(())
    for step in shift:
        padded = np.concatenate([np.zeros(step), p])[: len(p)]
        joint, moved = np.multiply.outer(joint, p), np.multiply.outer(moved, padded)
    found = np.maximum(moved - math.exp(epsilon) * joint, 0).sum()
    mu = math.hypot(*shift) / math.sqrt(scale**2 - 9)
    assert found <= gaussian.delta_of(epsilon, mu) * (1 + 1e-9) + 1e-13


def test_dp_accounting_prices_the_discrete_gaussian_below_the_claim():
    reason = "dp_accounting is not installed: pip install 'unpooled[privacy]'"
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution", reason=reason)
    scale, shift = 60.0, 20
    found = pld.from_discrete_gaussian_mechanism(scale, shift, value_discretization_interval=1e-5)
    for delta in (1e-3, 1e-6, 1e-9):
        claimed = gaussian.epsilon_of(shift / math.sqrt(scale**2 - 9), delta)
        # It rounds to whole multiples of its interval, upwards; this is what theirs may be above the truth by.
        assert found.get_epsilon_for_delta(delta) <= claimed + 2e-5
        assert found.get_epsilon_for_delta(delta) >= 0.99 * claimed


def test_a_sum_of_discrete_gaussians_is_a_discrete_gaussian():
    """Theorem 6, for shares that are not even equal."""
    k, a = discrete(5.0, 80)
    _, b = discrete(6.0, 80)
    summed = np.convolve(a, b, mode="same")
    _, expected = discrete(math.hypot(5.0, 6.0), 80)
    near = np.abs(k) < 40
    assert np.allclose(summed[near] / expected[near], 1.0, atol=1e-9)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"grid": 0.1}, "grid must be a power of two"),
        ({"scale": 1000.0}, "too coarse for noise"),
        ({"bound": 1e20}, "do not fit into 64 bits"),
        ({"missing": 1}, "missing must be less than the 1 parties"),
        ({"sensitivity": 0.0}, "sensitivity must be a positive, finite number"),
        ({"size": 0}, "size must be a whole number, at least 1"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_anything_is_drawn(changed, says):
    fine = {"size": 3, "sensitivity": 1.0, "grid": 2.0**-20, "scale": 2.0**20, "bound": 10.0}
    with pytest.raises(ValueError, match=says):
        GridGaussian(**fine | changed)


def test_values_that_were_not_planned_are_refused():
    planned = calibrate_noise(3, sensitivity=1.0, mu=1.0, bound=2.0)
    with pytest.raises(ValueError, match="values must be the 3 numbers"):
        planned.add([1.0, 2.0])
    with pytest.raises(ValueError, match="values must be finite"):
        planned.add([1.0, 2.0, math.nan])
    with pytest.raises(ValueError, match="matrix must be square"):
        planned.add_symmetric([1.0, 2.0, 3.0])
