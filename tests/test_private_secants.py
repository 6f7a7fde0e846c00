"""What past rounds tell of second moments: the posterior mean of a Gaussian model, and nothing where noise is large."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unpooled.private_rounds.secants import mended


def rounds(seed, T=4, M=5, size=0.3):
    rng = np.random.default_rng(seed)
    E = rng.normal(size=(M, M)) * size
    best, points = rng.normal(size=M), rng.normal(size=(T, M))
    return rng, E, best, points, (best - points) @ (np.eye(M) + E).T


@given(seed=st.integers(0, 1000), T=st.integers(6, 9))
def test_without_noise_rounds_that_span_everything_tell_the_best_function(seed, T):
    _, _, best, points, gradients = rounds(seed, T)
    found = mended(points, gradients, np.full(T, 1e-12), best, 1.0)
    np.testing.assert_allclose(found, np.broadcast_to(best, found.shape), atol=1e-3)


@given(seed=st.integers(0, 1000), T=st.integers(2, 6), tau=st.floats(0.01, 1.0), noise=st.floats(0.01, 1.0))
def test_it_is_the_posterior_mean_of_the_difference(seed, T, tau, noise):
    rng, _, _, points, gradients = rounds(seed, T)
    noises, guess = noise * rng.uniform(0.5, 2.0, size=T), rng.normal(size=points.shape[1])
    gradients = gradients + np.sqrt(noises)[:, None] * rng.normal(size=gradients.shape)
    found = mended(points, gradients, noises, guess, tau**2)
    # Row by row of E: g_t,i + a_t,i = x_i - (a_t - ·)ᵀe_i + noise with a flat prior on the constant x_i.
    M = points.shape[1]
    for i in range(M):
        design = np.column_stack([-points, np.ones(T)])  # e_i, and a constant that takes a* with it
        prior = np.diag([tau**2] * M + [1e7])
        cross = prior @ design.T
        mean = cross @ np.linalg.solve(design @ cross + np.diag(noises), gradients[:, i] + points[:, i])
        expected = points[:, i] + gradients[:, i] - (guess - points) @ mean[:M]
        np.testing.assert_allclose(found[:, i], expected, atol=1e-4 * (1 + np.abs(expected).max()))


@given(seed=st.integers(0, 1000))
def test_much_noise_or_no_prior_leaves_rounds_as_they_are(seed):
    _, _, best, points, gradients = rounds(seed)
    plain = points + gradients
    np.testing.assert_array_equal(mended(points, gradients, np.ones(4), best, 0.0), plain)
    np.testing.assert_allclose(mended(points, gradients, np.full(4, 1e12), best, 1e-3), plain, atol=1e-9)
    np.testing.assert_array_equal(mended(points[:1], gradients[:1], np.ones(1), best, 1.0), plain[:1])


@given(seed=st.integers(0, 1000), shift=st.floats(-5, 5))
def test_where_zero_is_does_not_matter(seed, shift):
    _, _, best, points, gradients = rounds(seed)
    noise = np.full(4, 0.1)
    moved = mended(points + shift, gradients, noise, best + shift, 0.2)
    np.testing.assert_allclose(moved, mended(points, gradients, noise, best, 0.2) + shift, atol=1e-8)


def test_rounds_asked_at_one_point_are_no_trouble():
    _, _, best, points, gradients = rounds(0)
    points[:] = points[0]
    assert np.all(np.isfinite(mended(points, gradients, np.zeros(4), best, 1e-3)))
