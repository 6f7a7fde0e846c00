"""Frame: the coordinates in which questions are asked, z = (1, Vᵀ(φ(x) - m)), uncorrelated on the public sample.

**Secants** (:func:`solve_rounds`) are the information in past rounds about the records' second moments, which the
public rows give only roughly. In units in which the public second moments are the identity, a round at a_t gives
g_t = (I + E)(a* - a_t) plus noise, where E is the difference between records and public rows. Its entries are of size
n_public^(-1/2), but not negligible together, and far larger if rows have long tails. Two rounds show E along the step
between them,

    E(a_s - a_t) = g_t - g_s + (a_t - a_s) plus the noise of both.

With the prior E_ij ~ N(0, τ²) and noise of known variance, the posterior mean Ê on the span of all steps is regularised
least squares; τ² is 1/n_public, or larger if the steps clearly show it. All rounds are then averaged with their
precisions as weights and solved for a*, (I + Ê) a* = Σ_t p_t (g_t + (I + Ê) a_t). In this way later rounds correct the
error that an early round, far from a*, made about E; without this correction rounds diverge if the records' second
moments are more than twice the public ones. If the noise is large, Ê is zero. Everything here is computed from answers
that already have their noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from ..._base import threads
from ..._base.arrays import Array, is_numpy, like
from ...bases.base import Basis

ROWS = 500  # the number of public rows whose lengths represent all
_DOUBT, _CAUTION = 0.02, 3.0  # ``doubt`` and ``caution`` for synthetic rows
_FRESH = 50.0  # a public row represents new rows, on which a coordinate may be larger by at most √FRESH


@dataclass
class Frame:
    """The features of a basis, rotated and shifted; it maps rows like a basis, and all of it is public.

    Attributes
    ----------
    basis : the features φ
    rotation, shift : V, and Vᵀm: coordinates are Vᵀφ - shift
    moments : (M+1,), q_i: an estimate of E z_i² at a new row, with the constant first
    rows : (rows, M+1), z of some rows, scaled to the size that they would have at new rows
    mismatch : the variance of an entry of the difference between the records' second moments and the public ones, in
        units of these; zero if it is unknown
    doubt : the variance of a gradient in each coordinate that comes from wrong moments, divided by q_i and the squared
        distance from the target; zero for public rows
    caution : the factor by which the records' moments are assumed to be larger at first
    """

    basis: Basis
    rotation: np.ndarray
    shift: np.ndarray
    moments: np.ndarray
    rows: np.ndarray
    mismatch: float = 0.0
    doubt: float = 0.0
    caution: float = 1.0

    def __post_init__(self) -> None:
        self.coefficients_ = self.basis.coefficients_ @ self.rotation
        self.squares = self.rows**2
        self.n_features_ = int(self.rotation.shape[1])
        self.digest = self.basis.digest
        self.rows_at_once = self.basis.rows_at_once
        self.to_safe_precision = self.basis.to_safe_precision
        self.compute_block = self.basis.compute_block

    def features(self, X: Array) -> Array:
        """Return Vᵀφ of rows that have been checked."""
        if not is_numpy(X):
            return self.basis.features(X) @ like(self.rotation, X)
        X = self.to_safe_precision(X)
        A, step = like(self.coefficients_, X), self.rows_at_once
        out = np.empty((len(X), self.n_features_), dtype=X.dtype)

        def fill(rows: slice) -> None:
            out[rows] = self.compute_block(X[rows], A)

        with threads.one_blas_thread:
            threads.for_each(fill, [slice(i, i + step) for i in range(0, len(X), step)])
        return out

    def coordinates(self, rotated: np.ndarray) -> np.ndarray:
        """Return z from Vᵀφ."""
        z = np.empty((len(rotated), self.n_features_ + 1))
        z[:, 0] = 1.0
        np.subtract(rotated, self.shift, out=z[:, 1:])
        return z

    def coefficients(self, a: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the function aᵀz as coefficients of φ and an intercept."""
        return self.rotation @ a[1:], float(a[0] - self.shift @ a[1:])


def build_public_frame(basis: Basis, phi: np.ndarray | None) -> Frame:
    """Build the frame of a basis; ``phi`` are features of some of its public rows, if available.

    The coordinates are fitted to the public rows, so their smallest second moments λ_i are smaller there than at other
    rows. The ratio of the basis's ``spread_`` to its ``eigenvalues_`` says by how much, as a function of λ.
    """
    lam, V = _decompose(np.diag(basis.eigenvalues_) - np.outer(basis.mean_, basis.mean_))
    eps = float(np.finfo(float).eps)
    # With a single row all second moments are rounding errors, so a floor keeps the logarithms finite.
    small = eps * max(float(lam[0]), eps * float(basis.eigenvalues_[0]), 1e-280)
    known = np.log(np.maximum(basis.eigenvalues_, small))[::-1]
    excess = np.log(np.maximum(basis.spread_, small))[::-1] - known
    q = np.maximum(lam, small)
    q = q * np.exp(np.maximum(np.interp(np.log(q), known, excess), 0.0))
    # Centring leaves almost nothing of one direction on these rows; at other rows it is like the smallest of the rest.
    q = np.maximum(np.maximum.accumulate(q[::-1])[::-1], max(float(basis.spread_[-1]), small))
    if phi is None:
        rows = _make_up_rows(q)
    else:
        rows = (phi[:ROWS] - basis.mean_) @ V * np.sqrt(np.minimum(q / np.maximum(lam, small), _FRESH))
    return Frame(basis, V, V.T @ basis.mean_, *_prepend_constant(q, rows), mismatch=1.0 / basis.n_public_)


def build_made_up_frame(basis: Basis, phi: np.ndarray) -> Frame:
    """Build the frame of synthetic rows, drawn column by column, which are less reliable."""
    return replace(build_public_frame(basis, phi), mismatch=0.0, doubt=_DOUBT, caution=_CAUTION)


def _decompose(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues in descending order, and the eigenvectors."""
    lam, V = scipy.linalg.eigh(covariance, check_finite=False, driver="evd")
    return lam[::-1], np.ascontiguousarray(V[:, ::-1])


def _make_up_rows(q: np.ndarray) -> np.ndarray:
    """Return random rows with second moments q; only rough quantiles are read off them."""
    rng = np.random.default_rng(0)
    sizes = np.sqrt(rng.chisquare(4.0, size=(ROWS, len(q))) / 4.0 * q)
    return np.asarray(sizes * rng.choice([-1.0, 1.0], size=sizes.shape))


def _prepend_constant(q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([[1.0], q]), np.column_stack([np.ones(len(rows)), rows])


CLEARLY = 6.0  # a step is evidence of a larger τ² if it differs by this many standard deviations of the noise
_LEAST_RATIO = 0.05  # the least ratio of the records' second moments to the public ones along the steps


def solve_rounds(
    points: np.ndarray, gradients: np.ndarray, noise: np.ndarray, variances: np.ndarray, tau_sq: float
) -> np.ndarray:
    """Return the estimate of a* from all rounds together.

    ``points`` are a_t, ``gradients`` g_t, ``noise`` the variance of the noise in each coordinate, and ``variances`` the
    variance that determines the weights of rounds, which has other sources too. All have the shape (T, M).
    """
    shares = 1.0 / variances
    shares = shares / shares.sum(axis=0)
    plain = np.asarray(np.sum(shares * (points + gradients), axis=0))
    if len(points) < 2 or tau_sq == 0.0:
        return plain
    steps = np.diff(points, axis=0)
    surplus = -np.diff(gradients, axis=0) - steps  # E s plus the noise of two rounds
    inner = steps @ steps.T
    tau_sq = max(tau_sq, _estimate_tau_sq(surplus, noise[:-1] + noise[1:], np.diagonal(inner)))
    G = _posterior(inner, surplus, noise, tau_sq)  # Ê = Gᵀ steps
    change = steps @ G.T
    if not np.all(np.isfinite(change)):  # no step was taken, or a number overflowed
        return plain
    G = _believable_share(inner, change) * G
    right = np.sum(shares * (gradients + points + points @ steps.T @ G), axis=0)
    # (I + Gᵀ steps)⁻¹ by the K × K matrix of Woodbury's identity. Repeated steps can make it singular. An error would
    # reveal something about records, so least squares gives a solution in any case.
    small = np.eye(len(steps)) + steps @ G.T
    return np.asarray(right - np.linalg.lstsq(small, steps @ right, rcond=None)[0] @ G)


def _estimate_tau_sq(surplus: np.ndarray, noise: np.ndarray, lengths: np.ndarray) -> float:
    """Estimate τ² from |E s|² = M τ²|s|² + noise, using only steps that clearly exceed the noise."""
    excess = np.sum(surplus**2 - noise, axis=1) - CLEARLY * np.sqrt(2.0 * np.sum(noise**2, axis=1))
    total = surplus.shape[1] * float(lengths.sum())
    return float(np.maximum(excess, 0.0).sum()) / total if total > 0 else 0.0


def _posterior(inner: np.ndarray, surplus: np.ndarray, noise: np.ndarray, tau_sq: float) -> np.ndarray:
    """Return each row of E as a combination of steps, shape (K, M); neighbouring steps share the noise of a round."""
    K = len(inner)
    covariance = np.repeat(tau_sq * inner[None], surplus.shape[1], axis=0)
    index = np.arange(K)
    covariance[:, index, index] += (noise[:-1] + noise[1:]).T
    covariance[:, index[:-1], index[1:]] -= noise[1:-1].T
    covariance[:, index[1:], index[:-1]] -= noise[1:-1].T
    # Steps may repeat, and answers may have no noise. A small ridge avoids errors, which could reveal a record.
    sizes = np.trace(covariance, axis1=1, axis2=2)
    covariance[:, index, index] += np.maximum(1e-12 * sizes, 1e-280)[:, None]
    return np.asarray(tau_sq * np.linalg.solve(covariance, surplus.T[:, :, None])[:, :, 0].T)


def _believable_share(inner: np.ndarray, change: np.ndarray) -> float:
    """Return the share of Ê that keeps sᵀ(I + Ê)s positive for every step s, as it is for any second moments."""
    size = max(float(np.trace(inner)), 1e-280)
    root = np.linalg.cholesky(inner + 1e-10 * size * np.eye(len(inner)))
    change = np.linalg.solve(root, np.linalg.solve(root, change @ inner).T)
    lowest = float(np.linalg.eigvalsh(0.5 * (change + change.T))[0])
    share = 1.0
    while 1.0 + share * lowest <= _LEAST_RATIO:
        share *= 0.5
    return share
