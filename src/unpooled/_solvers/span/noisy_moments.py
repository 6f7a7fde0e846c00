"""Regression from means with privacy noise: the effect of the noise on C a = d, and the choice of λ despite it.

All of it is post-processing: it uses only noisy means and the noise's public standard deviations. The noise of C is E,
symmetric and the same in all directions (standard deviation s on the diagonal, s/√2 beside it), that of d is e.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from ..._base.arrays import Floats
from ..spectral import criteria


@dataclass(frozen=True)
class Noise:
    """The standard deviation of the noise in each number of the means; ``gram`` is on its diagonal."""

    phi_y: float
    phi: float
    y: float
    yy: float
    gram: float


def label_spread(yy: Floats, y: Floats, noise: Noise) -> Floats:
    """Return the mean square of y about its mean: the square of a noisy mean is too large by its variance."""
    return np.maximum(yy - np.maximum(y * y - noise.y**2, 0.0), 0.0)


def decompose(gram: Floats, shift: Floats, noise: Noise) -> tuple[Floats, Floats]:
    """Return the covariance's eigenvalues, descending, and V. Negative ones, which only noise can cause, remain.

    The square φ̄φ̄ᵀ of a noisy mean is too large by its variance in every direction, which is restored: at most |φ̄|².
    """
    C = gram - np.outer(shift, shift)
    if np.any(shift):
        C[np.diag_indices_from(C)] += min(noise.phi**2, float(shift @ shift) / len(shift))
    values, vectors = scipy.linalg.eigh(C, check_finite=False, driver="evd")
    return values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1])


def variance_of_d(
    shift: Floats, y_mean: Floats, vectors: Floats | None, r: int, centering: str, noise: Noise
) -> Floats:
    """Return the noise's variance in Vᵀd, (r, T): d is the mean of yφ, less the product of two means if centred."""
    T = len(y_mean)
    if centering == "none":
        return np.full((r, T), noise.phi_y**2)
    along = shift[:r] if vectors is None else vectors.T @ shift
    variance = noise.phi_y**2 + noise.y**2 * np.broadcast_to(along[:, None] ** 2, (r, T))
    if centering == "rows":  # the shift is noisy too
        variance = variance + noise.phi**2 * (np.maximum(y_mean**2 - noise.y**2, 0.0) + noise.y**2)
    return np.asarray(variance)


def cross_terms(t: Floats, v: Floats, y_square: Floats, q: Floats) -> Floats:
    """Estimate t_i·E t_i from t of variance v by t² - v, and no more than is possible.

    E t_i is the mean of yφ_i, so |E t_i| ≤ √(E y²·q_i), q_i = E φ_i² (Cauchy and Schwarz). Without that bound a small
    q_i, by which t_i is to be divided, would favour a λ for a lucky draw of the noise.
    """
    return np.minimum(t * t - v, np.abs(t) * np.sqrt(y_square * np.maximum(q, 0.0)))


def noisy_gcv(system: Any, solutions: Any, tikhonov: bool) -> Floats:
    """Return generalised cross-validation (L, T) of noisy sums of second order.

    The error on the rows is y² - 2aᵀd + aᵀCa with the sums *without* noise, d - e and C - E. But a was made from the
    noisy ones, a = g(C)d, so that in aᵀe and aᵀEa noise counts as signal. By Stein's lemma E aᵀe = Σ_i g_i Var e_i. For
    E, with Da[B] = V (Γ∘VᵀBV) t, t = Vᵀd, Γ_ij = (g_i - g_j)/(σ_i - σ_j), and with Σ_k (B_k)_ab (B_k)_cd = (δ_ac δ_bd +
    δ_ad δ_bc)/2 for an orthonormal system of symmetric matrices, in the coordinates of V

        E aᵀEa = s² E(Σ_j a_j t_j Σ_i Γ_ij + Σ_i Γ_ii a_i t_i).

    Negative eigenvalues count as zero in g. With Tikhonov's g = 1/(σ₊ + λ) then Γ_ij = -g_i g_j where both are
    positive, 0 if none is, and -g_i g_j σ_i/(σ_i - σ_j) where only σ_i is. -aᵀEa is never more than ‖E‖|a|², ‖E‖
    being about s√(2M) (Wigner), so the smaller of the two counts; for other filters the second. The noise of a centred
    C adds 2(aᵀφ̄)(aᵀe_φ), and the intercept ȳ - φ̄ᵀa has aᵀe_φ. In aᵀCa negative eigenvalues count as zero, which is on
    the safe side: at a small λ they would be multiplied by very large a_i². The division by (1 - df/n)² is the same as
    without noise; errors below zero, which noise can cause, stay as they are.
    """
    noise, t, g, raw = system.noise, system.projected, solutions.g[:, :, None], system.raw
    a = g * t[None]
    size = np.sum(a * a, axis=1)
    estimate = cross_terms(t, system.d_variance, system.y_square, system.sigma[:, None] + _edge(noise, len(t)))
    cross = np.sum(g * estimate, axis=1)
    inflated = _edge(noise, len(t)) * size
    if tikhonov:
        inflated = np.minimum(
            inflated, -(noise.gram**2) * np.stack([_stein(*pair, raw, t) for pair in zip(solutions.g, a)])
        )
    if system.centering == "rows":
        along = np.einsum("r,lrt->lt", system.vectors.T @ system.shift, a)
        inflated = inflated + 2.0 * np.abs(along) * np.sqrt(size) * noise.phi + of_intercept(system, a)
    error = system.y_square - 2.0 * cross + solutions.signal + inflated
    left = criteria.remaining_share(solutions.df, system.n)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(left > 0, error + np.maximum(error, 0.0) * (1.0 / left**2 - 1.0), np.inf)


def of_intercept(system: Any, a: Floats) -> Floats:
    """Return Var aᵀe_φ (L, T), the variance that noisy feature means add to the intercept if centred on them."""
    share = 0.0 if system.noise is None or system.centering != "rows" else system.noise.phi**2
    return np.asarray(share * np.sum(a * a, axis=1))


def _edge(noise: Noise, M: int) -> float:
    """Return about ‖E‖, the largest eigenvalue of M×M noise."""
    return float(noise.gram * np.sqrt(2.0 * M))


def _stein(g: Floats, a: Floats, raw: Floats, t: Floats) -> Floats:
    """Return Σ_j a_j t_j Σ_i Γ_ij + Σ_i Γ_ii a_i t_i for Tikhonov's filter, (T,)."""
    up = np.maximum(raw, 0.0)
    apart = np.abs(raw[:, None] - raw[None, :])
    # σ₊ differs by as much as σ where both are positive, and not at all where none is
    share = np.divide(np.abs(up[:, None] - up[None, :]), apart, out=np.ones_like(apart), where=apart > 0)
    share[np.diag_indices_from(share)] = raw > 0
    slopes = -share * np.outer(g, g)
    return np.asarray((slopes.sum(axis=0) + np.diagonal(slopes)) @ (a * t))


def mean_gap(public: Floats, rows: Floats, noise: Noise) -> float:
    """Return the distance of two mean features, one of them noisy."""
    return float(np.sqrt(max(float(np.sum((public - rows) ** 2)) - len(rows) * noise.phi**2, 0.0)))
