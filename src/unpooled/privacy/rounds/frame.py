"""Frame: the coordinates in which rounds are asked, z = (1, Vᵀ(φ(x) - m)), uncorrelated on the public sample.

**Secants** (:func:`solve_rounds`) are what past rounds tell of the records' second moments, which the public rows know only
roughly. In units in which the public second moments are the identity, a round asked at a_t tells g_t = (I + E)(a* -
a_t) plus noise, E the difference between records and public rows: about n_public^(-1/2) in every entry, not small all
together, and far larger where rows have long tails. Two rounds tell E along the step between them,

    E(a_s - a_t) = g_t - g_s + (a_t - a_s) plus the noise of both.

With the prior E_ij ~ N(0, τ²) and noise of known variance the posterior mean Ê on the span of all steps is regularised
least squares; τ² is 1/n_public, or what the steps themselves say where that is clearly more than noise. All rounds are
then averaged by their precisions and solved for a*, (I + Ê) a* = Σ_t p_t (g_t + (I + Ê) a_t). Later rounds so mend what
an early round, asked far from a*, got wrong about E; without it rounds run away where a record's second moments are
more than twice the public ones. Where noise is large Ê is nothing. All of it is made of answers that have their noise
already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from ..._base import threads
from ..._base.arrays import Array, is_numpy, like
from ...bases.base import Basis

ROWS = 500  # public rows whose lengths stand for all
DOUBT, CAREFUL = 0.02, 3.0  # of rows that were made up
FRESH = 50.0  # a public row stands for fresh ones, on which a coordinate may be larger by no more than √FRESH


@dataclass
class Frame:
    """The features of a basis, rotated and shifted. It maps rows as a basis does; all of it is public.

    Attributes
    ----------
    basis : the features φ
    rotation, shift : V, and Vᵀm: coordinates are Vᵀφ - shift
    moments : (M+1,), q_i: about E z_i² at a fresh row, the constant's first
    rows : (rows, M+1), z of some rows, as large as they would be at fresh ones
    mismatch : variance of an entry of the difference between the records' second moments and the public ones, in units
        of these; zero where nothing is known of it
    doubt : variance that a gradient has in each coordinate, over q_i and the squared distance from the target, because
        moments are not those of the records; none for public rows, which rounds do well with
    careful : how many times larger the records' moments are taken to be at first
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
        self.in_safe_precision = self.basis.in_safe_precision
        self.padded_block = self.basis.padded_block

    def features(self, X: Array) -> Array:
        """Vᵀφ of rows that have been checked."""
        if not is_numpy(X):
            return self.basis.features(X) @ like(self.rotation, X)
        X = self.in_safe_precision(X)
        A, step = like(self.coefficients_, X), self.rows_at_once
        out = np.empty((len(X), self.n_features_), dtype=X.dtype)

        def fill(rows: slice) -> None:
            out[rows] = self.padded_block(X[rows], A)

        with threads.one_blas_thread:
            threads.for_each(fill, [slice(i, i + step) for i in range(0, len(X), step)])
        return out

    def coordinates(self, rotated: np.ndarray) -> np.ndarray:
        """z from Vᵀφ."""
        z = np.empty((len(rotated), self.n_features_ + 1))
        z[:, 0] = 1.0
        np.subtract(rotated, self.shift, out=z[:, 1:])
        return z

    def coefficients(self, a: np.ndarray) -> tuple[np.ndarray, float]:
        """aᵀz as coefficients of φ and an intercept."""
        return self.rotation @ a[1:], float(a[0] - self.shift @ a[1:])


def build_public_frame(basis: Basis, phi: np.ndarray | None) -> Frame:
    """The frame of a basis; ``phi`` are features of some of its public rows if they are at hand.

    The coordinates are fitted to the public rows, and their smallest second moments λ_i are smaller there than at
    others. The basis knows by how much, as a function of λ: its ``spread_`` over its ``eigenvalues_``.
    """
    lam, V = _decompose(np.diag(basis.eigenvalues_) - np.outer(basis.mean_, basis.mean_))
    eps = float(np.finfo(float).eps)
    small = eps * max(float(lam[0]), eps * float(basis.eigenvalues_[0]), 1e-280)  # all of a single row's is rounding
    known = np.log(np.maximum(basis.eigenvalues_, small))[::-1]
    excess = np.log(np.maximum(basis.spread_, small))[::-1] - known
    q = np.maximum(lam, small)
    q = q * np.exp(np.maximum(np.interp(np.log(q), known, excess), 0.0))
    # Centring leaves one direction next to nothing on these rows; at others it is like the last of the rest.
    q = np.maximum(np.maximum.accumulate(q[::-1])[::-1], max(float(basis.spread_[-1]), small))
    if phi is None:
        rows = _make_up_rows(q)
    else:
        rows = (phi[:ROWS] - basis.mean_) @ V * np.sqrt(np.minimum(q / np.maximum(lam, small), FRESH))
    return Frame(basis, V, V.T @ basis.mean_, *_prepend_constant(q, rows), mismatch=1.0 / basis.n_public_)


def build_made_up_frame(basis: Basis, phi: np.ndarray) -> Frame:
    """The frame of rows that were made up column by column, and are trusted less."""
    return replace(build_public_frame(basis, phi), mismatch=0.0, doubt=DOUBT, caution=CAREFUL)


def _decompose(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, descending, and eigenvectors."""
    lam, V = scipy.linalg.eigh(covariance, check_finite=False, driver="evd")
    return lam[::-1], np.ascontiguousarray(V[:, ::-1])


def _make_up_rows(q: np.ndarray) -> np.ndarray:
    """Rows with second moments q that spread as such rows do: what is read off them need not be exact."""
    rng = np.random.default_rng(0)
    sizes = np.sqrt(rng.chisquare(4.0, size=(ROWS, len(q))) / 4.0 * q)
    return np.asarray(sizes * rng.choice([-1.0, 1.0], size=sizes.shape))


def _prepend_constant(q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([[1.0], q]), np.column_stack([np.ones(len(rows)), rows])


CLEARLY = 6.0  # standard deviations of noise that a step must differ by to speak for a larger τ²
LEAST = 0.05  # of the public second moments: along the steps the records' are taken to be no smaller


def solve_rounds(
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
    tau_sq = max(tau_sq, _estimate_tau_sq(surplus, noise[:-1] + noise[1:], np.diagonal(inner)))
    told = _posterior(inner, surplus, noise, tau_sq)  # Ê = toldᵀ steps
    change = steps @ told.T
    if not np.all(np.isfinite(change)):  # no step was taken, or sizes are beyond what a number can be
        return plain
    told = _believable_share(inner, change) * told
    right = np.sum(shares * (gradients + points + points @ steps.T @ told), axis=0)
    # (I + toldᵀ steps)⁻¹ by the K × K matrix of Woodbury. Repeated steps can make it singular; an error would tell of
    # records, so a solution is found all the same.
    small = np.eye(len(steps)) + steps @ told.T
    return np.asarray(right - np.linalg.lstsq(small, steps @ right, rcond=None)[0] @ told)


def _estimate_tau_sq(surplus: np.ndarray, noise: np.ndarray, lengths: np.ndarray) -> float:
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


def _believable_share(inner: np.ndarray, change: np.ndarray) -> float:
    """The share of Ê that leaves sᵀ(I + Ê)s positive for every step: second moments are, and noise may not be."""
    size = max(float(np.trace(inner)), 1e-280)
    root = np.linalg.cholesky(inner + 1e-10 * size * np.eye(len(inner)))
    change = np.linalg.solve(root, np.linalg.solve(root, change @ inner).T)
    lowest = float(np.linalg.eigvalsh(0.5 * (change + change.T))[0])
    share = 1.0
    while 1.0 + share * lowest <= LEAST:
        share *= 0.5
    return share
