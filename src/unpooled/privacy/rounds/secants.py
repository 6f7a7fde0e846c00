"""Secants: the records' second moments as past rounds tell them, where the public rows know them only roughly.

In units in which the public second moments are the identity, a round asked at a_t tells g_t = (I + E)(a* - a_t) plus
noise, E the difference between records and public rows: about n_public^(-1/2) in every entry, not small all together,
and far larger where rows have long tails. Two rounds tell E along the step between them,

    E(a_s - a_t) = g_t - g_s + (a_t - a_s) plus the noise of both.

With the prior E_ij ~ N(0, τ²) and noise of known variance the posterior mean Ê on the span of all steps is regularised
least squares; τ² is 1/n_public, or what the steps themselves say where that is clearly more than noise. All rounds are
then averaged by their precisions and solved for a*, (I + Ê) a* = Σ_t p_t (g_t + (I + Ê) a_t). Later rounds so mend what
an early round, asked far from a*, got wrong about E; without it rounds run away where a record's second moments are
more than twice the public ones. Where noise is large Ê is nothing. All of it is made of answers that have their noise
already.
"""

from __future__ import annotations

import numpy as np

CLEARLY = 6.0  # standard deviations of noise that a step must differ by to speak for a larger τ²
LEAST = 0.05  # of the public second moments: along the steps the records' are taken to be no smaller


def solved(
    points: np.ndarray, gradients: np.ndarray, noise: np.ndarray, variances: np.ndarray, tau_sq: float
) -> np.ndarray:
    """The observation of a* that all rounds together make.

    From a_t and g_t, the variance of the noise in each coordinate, and the variance that rounds are weighed by, which
    may have other causes too: all (T, M).
    """
    shares = 1.0 / variances
    shares = shares / shares.sum(axis=0)
    plain = np.asarray(np.sum(shares * (points + gradients), axis=0))
    if len(points) < 2 or tau_sq == 0.0:
        return plain
    steps = np.diff(points, axis=0)
    surplus = -np.diff(gradients, axis=0) - steps  # E s, with the noise of two rounds in it
    inner = steps @ steps.T
    tau_sq = max(tau_sq, _spread(surplus, noise[:-1] + noise[1:], np.diagonal(inner)))
    told = _posterior(inner, surplus, noise, tau_sq)  # Ê = toldᵀ steps
    change = steps @ told.T
    if not np.all(np.isfinite(change)):  # no step was taken, or sizes are beyond what a number can be
        return plain
    told = _believable(inner, change) * told
    right = np.sum(shares * (gradients + points + points @ steps.T @ told), axis=0)
    # (I + toldᵀ steps)⁻¹ by the K × K matrix of Woodbury. Repeated steps can make it singular; an error would tell of
    # records, so a solution is found all the same.
    small = np.eye(len(steps)) + steps @ told.T
    return np.asarray(right - np.linalg.lstsq(small, steps @ right, rcond=None)[0] @ told)


def _spread(surplus: np.ndarray, noise: np.ndarray, lengths: np.ndarray) -> float:
    """τ² from |E s|² = M τ²|s|² + noise, of what is clearly none; zero where all of it might be."""
    found = np.sum(surplus**2 - noise, axis=1) - CLEARLY * np.sqrt(2.0 * np.sum(noise**2, axis=1))
    total = surplus.shape[1] * float(lengths.sum())
    return float(np.maximum(found, 0.0).sum()) / total if total > 0 else 0.0


def _posterior(inner: np.ndarray, surplus: np.ndarray, noise: np.ndarray, tau_sq: float) -> np.ndarray:
    """(K, M): what each row of E is in steps, each with its own noise; neighbouring steps have a round in common."""
    K = len(inner)
    covariance = np.repeat(tau_sq * inner[None], surplus.shape[1], axis=0)
    index = np.arange(K)
    covariance[:, index, index] += (noise[:-1] + noise[1:]).T
    covariance[:, index[:-1], index[1:]] -= noise[1:-1].T
    covariance[:, index[1:], index[:-1]] -= noise[1:-1].T
    # Steps may repeat, and answers be without noise: nothing may go wrong here that a record could be the cause of.
    sizes = np.trace(covariance, axis1=1, axis2=2)
    covariance[:, index, index] += np.maximum(1e-12 * sizes, 1e-280)[:, None]
    return np.asarray(tau_sq * np.linalg.solve(covariance, surplus.T[:, :, None])[:, :, 0].T)


def _believable(inner: np.ndarray, change: np.ndarray) -> float:
    """The share of Ê that leaves sᵀ(I + Ê)s positive for every step: second moments are, and noise may not be."""
    size = max(float(np.trace(inner)), 1e-280)
    root = np.linalg.cholesky(inner + 1e-10 * size * np.eye(len(inner)))
    change = np.linalg.solve(root, np.linalg.solve(root, change @ inner).T)
    lowest = float(np.linalg.eigvalsh(0.5 * (change + change.T))[0])
    share = 1.0
    while 1.0 + share * lowest <= LEAST:
        share *= 0.5
    return share
