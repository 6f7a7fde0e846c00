"""Past rounds show second moments: exactly without noise, by their posterior mean with noise, not at all with a lot."""

from unittest import mock

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from unpooled._base.threads import silence_warnings
from unpooled.privacy.rounds import frame as secants
from unpooled.privacy.rounds.frame import solve_rounds


def rounds(seed, T=4, M=5, size=0.3):
    """A difference of second moments, the best coefficients, and T rounds without noise."""
    rng = np.random.default_rng(seed)
    E = size * rng.normal(size=(M, M))
    E = (E + E.T) / np.sqrt(2.0)
    E += max(0.3 - 1.0 - np.linalg.eigvalsh(E)[0], 0.0) * np.eye(M)  # second moments are positive
    best, points = rng.normal(size=M), rng.normal(size=(T, M))
    return rng, E, best, points, (best - points) @ (np.eye(M) + E)


def some(T, M, value):
    return np.full((T, M), value)


@given(seed=st.integers(0, 1000), T=st.integers(7, 9), size=st.floats(0.1, 5.0))
def test_without_noise_rounds_that_span_everything_tell_the_best_function(seed, T, size):
    _, _, best, points, gradients = rounds(seed, T, size=size)
    found = solve_rounds(points, gradients, some(T, 5, 1e-14), some(T, 5, 1.0), 1.0)
    np.testing.assert_allclose(found, best, atol=2e-3 * (1 + np.abs(points).max()))


@given(seed=st.integers(0, 1000), T=st.integers(2, 6), tau=st.floats(0.01, 0.3), noise=st.floats(0.5, 2.0))
def test_with_noise_it_solves_with_the_posterior_mean_of_the_difference(seed, T, tau, noise):
    rng, _, _, points, gradients = rounds(seed, T)
    noises = noise * rng.uniform(0.5, 2.0, size=(T, 1)) * np.ones((1, 5))
    gradients = gradients + np.sqrt(noises) * rng.normal(size=gradients.shape)
    variances = rng.uniform(0.5, 2.0, size=(T, 5))
    with mock.patch.object(secants, "CLEARLY", np.inf):  # τ as it is given
        found = solve_rounds(points, gradients, noises, variances, tau**2)
    # Row by row of E: g_t + a_t = constant - e_iᵀa_t + noise, with a flat prior on the constant.
    design = np.column_stack([-points, np.ones(T)])
    prior = np.diag([tau**2] * 5 + [1e7])
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + np.diag(noises[:, 0]))
    mean = (gain @ (gradients + points))[:5].T
    assume(np.linalg.eigvalsh(mean + mean.T)[0] > -1.5)  # else less of it is believed
    shares = (1 / variances) / (1 / variances).sum(axis=0)
    right = np.sum(shares * (gradients + points @ (np.eye(5) + mean).T), axis=0)
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(5) + mean, right), atol=1e-3 * (1 + np.abs(found).max()))


@given(seed=st.integers(0, 1000))
def test_much_noise_or_no_prior_averages_rounds_as_they_are(seed):
    _, _, _, points, gradients = rounds(seed)
    variances = some(4, 5, 1.0) * np.arange(1.0, 5.0)[:, None]
    plain = np.average(points + gradients, axis=0, weights=1 / variances[:, 0])
    np.testing.assert_allclose(solve_rounds(points, gradients, some(4, 5, 1.0), variances, 0.0), plain)
    np.testing.assert_allclose(solve_rounds(points, gradients, some(4, 5, 1e12), variances, 1e-3), plain, atol=1e-9)
    np.testing.assert_allclose(
        solve_rounds(points[:1], gradients[:1], some(1, 5, 1.0), variances[:1], 1.0), (points + gradients)[0]
    )


@given(seed=st.integers(0, 1000), shift=st.floats(-5, 5))
def test_where_zero_is_does_not_matter(seed, shift):
    _, _, _, points, gradients = rounds(seed)
    noise = some(4, 5, 0.1)
    moved = solve_rounds(points + shift, gradients, noise, noise, 0.2)
    np.testing.assert_allclose(moved, solve_rounds(points, gradients, noise, noise, 0.2) + shift, atol=1e-8)


@given(seed=st.integers(0, 200), noise=st.sampled_from([1e-12, 1e-4]))
def test_repeated_steps_come_to_the_best_function_where_plain_ones_run_away(seed, noise):
    """Second moments five times the public ones: a plain step goes four times as far beyond as it was short."""
    rng = np.random.default_rng(seed)
    curve = np.concatenate([[5.0, 4.0, 3.0], rng.uniform(0.5, 1.5, size=17)])
    best = rng.normal(size=20)
    points, gradients = [np.zeros(20)], []
    plain = np.zeros(20)
    for T in range(1, 17):
        gradients.append(curve * (best - points[-1]) + np.sqrt(noise) * rng.normal(size=20))
        level = some(T, 20, noise)
        points.append(solve_rounds(np.stack(points), np.stack(gradients), level, level, 1e-3))
        plain = plain + curve * (best - plain)
    assert np.abs(points[-1] - best).max() < 0.3
    assert np.abs(plain - best).max() > 1e3


def test_rounds_asked_at_one_point_are_no_trouble():
    _, _, _, points, gradients = rounds(0)
    points[:] = points[0]
    for level in (0.0, 1.0):
        found = solve_rounds(points, gradients, some(4, 5, level), some(4, 5, 1.0), 1e-3)
        assert np.all(np.isfinite(found))


@settings(max_examples=300)
@given(
    seed=st.integers(0, 10**6),
    T=st.integers(3, 10),
    M=st.integers(1, 12),
    scale=st.sampled_from([1e-60, 1.0, 1e60]),
    level=st.sampled_from([0.0, 1e-12, 1.0]),
    odd=st.sampled_from(["a point twice", "a coordinate that stays", "no gradient", "nothing"]),
)
def test_no_answers_whatever_make_it_fail(seed, T, M, scale, level, odd):
    """Questions and answers come from records, so an error here would reveal something about them."""
    rng = np.random.default_rng(seed)
    points, gradients = scale * rng.normal(size=(2, T, M))
    gradients *= 10.0 ** rng.integers(-4, 5)
    if odd == "a point twice":
        points[rng.integers(1, T)] = points[0]
    elif odd == "a coordinate that stays":
        points[:, rng.integers(M)] = 0.0
    elif odd == "no gradient":
        gradients[:] = 0.0
    noise = (level * scale) ** 2 * 10.0 ** rng.uniform(-4, 4, size=(T, M))
    with silence_warnings():  # as in a fit
        found = solve_rounds(points, gradients, noise, np.maximum(noise, 1e-280), 10.0 ** rng.uniform(-5, 0))
    assert np.all(np.isfinite(found))
