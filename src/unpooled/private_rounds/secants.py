"""What past rounds tell of the records' second moments, which the public rows know only about.

In units in which the public second moments are the identity, a round asked at a_t tells g_t = (I + E)(a* - a_t) plus
noise, E the difference between records and public rows: about n_public^(-1/2) in every entry, not small all together.
Two rounds tell E along the step between them, E(a_s - a_t) = g_t - g_s + (a_t - a_s) plus the noise of both. With the
prior E_ij ~ N(0, τ²), τ² = 1/n_public, and noise of known variance its posterior mean Ê on the span of all steps is
regularised least squares, and a round becomes the observation

    x_t = a_t + g_t - Ê(a - a_t)

of a*, a being the best guess so far: what an early round, asked far from a*, got wrong about E is mended by later ones.
Where noise is large, Ê is nothing. All of it is made of answers that have their noise already.
"""

from __future__ import annotations

import numpy as np


def mended(
    points: np.ndarray, gradients: np.ndarray, noise: np.ndarray, guess: np.ndarray, tau_sq: float
) -> np.ndarray:
    """x_t for all rounds from a_t and g_t, all (T, M), the variance of noise in a coordinate of each (T,), and a."""
    if len(points) < 2 or tau_sq == 0.0:
        return points + gradients
    steps = np.diff(points, axis=0)
    surplus = -np.diff(gradients, axis=0) - steps  # E s, with the noise of two rounds in it
    shared = np.diag(noise[1:-1], 1)  # neighbouring steps have a round in common
    covariance = tau_sq * steps @ steps.T + np.diag(noise[:-1] + noise[1:]) - shared - shared.T
    # Steps may repeat, and answers be without noise: nothing may go wrong here that a record could be the cause of.
    covariance[np.diag_indices_from(covariance)] += max(1e-12 * float(np.trace(covariance)), 1e-280)
    along = np.linalg.solve(covariance, tau_sq * steps @ (guess - points).T)
    return np.asarray(points + gradients - along.T @ surplus)
