"""Fewer points for an expansion: the orthogonal projection of f onto the span of M kernel functions.

With f = Σ_i c_i K_{x_i} and points z_1, …, z_M the projection in H_K is g = Σ_j a_j K_{z_j} with K_zz a = K_zx
c = f(z), and

    ‖f - g‖² = ‖f‖² - ‖g‖²,    |f(x) - g(x)| ≤ √K(x,x) ‖f - g‖    for every x.

The points are chosen among the x_i by a pivoted Cholesky factorisation of their kernel matrix (each next point is the
one that those before it explain least), on a random sample of the candidates where there are many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..._base.arrays import to_numpy
from ...kernels import Kernel
from ..predictors import KernelExpansion

CANDIDATES_PER_POINT = 10
CHECKED_ROWS = 5000


@dataclass
class Compression:
    """How much a projection onto fewer points has changed the function.

    ``norm_error`` is ‖f - g‖/‖f‖ in H_K (the largest over targets); ``rms_change`` the root mean square of f - g over
    (a sample of) the points of f, ``relative_change`` the same divided by the standard deviation of f there.
    """

    n_points: int
    n_points_before: int
    norm_error: float
    rms_change: float
    relative_change: float


def compress(f: KernelExpansion, n_points: int, random_state: int | None = 0) -> tuple[KernelExpansion, Compression]:
    """The projection onto at most ``n_points`` points, and what it changed."""
    rng = np.random.default_rng(random_state)
    X, c = to_numpy(f.points).astype(float), to_numpy(f.coef).astype(float)
    n_points = min(n_points, len(X))
    pool = np.sort(rng.permutation(len(X))[: max(CANDIDATES_PER_POINT * n_points, CHECKED_ROWS)])
    chosen, L = pivoted_cholesky(f.kernel, X[pool], n_points)
    Z = X[pool[chosen]]
    without = KernelExpansion(f.kernel, X, c, np.zeros(c.shape[1]))
    at_z = without.predict(Z)
    half = scipy.linalg.solve_triangular(L, at_z, lower=True)  # ‖g‖² = aᵀK_zz a = |L⁻¹ f(z)|²
    a = scipy.linalg.solve_triangular(L, half, lower=True, trans=1)
    # In the precision of the model, float32 or float64.
    dtype = to_numpy(f.coef).dtype
    g = KernelExpansion(f.kernel, Z.astype(dtype), a.astype(dtype), to_numpy(f.intercept))
    checked = X[rng.permutation(len(X))[:CHECKED_ROWS]]
    before, after = KernelExpansion(f.kernel, X, c, to_numpy(f.intercept)).predict(checked), g.predict(checked)
    rms = float(np.sqrt(np.mean((before - after) ** 2)))
    spread = float(np.sqrt(np.mean((before - before.mean(axis=0)) ** 2)))
    norm_sq = np.einsum("nt,nt->t", c, without.predict(X))
    lost = np.sqrt(np.maximum(norm_sq - np.sum(half**2, axis=0), 0.0) / np.maximum(norm_sq, np.finfo(float).tiny))
    return g, Compression(len(Z), len(X), float(lost.max()), rms, rms / spread if spread else 0.0)


def pivoted_cholesky(kernel: Kernel, X: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The pivots and the factor L of K(X[pivots], X[pivots]) = LLᵀ; fewer than ``rank`` where rounding is reached."""
    left = np.asarray(kernel.diag(X), dtype=float).copy()
    stop = 1e-12 * float(left.max())
    rows = np.empty((rank, len(X)))  # row k holds the k-th column of the factor of K(X, X)
    pivots: list[int] = []
    for k in range(rank):
        pivot = int(np.argmax(left))
        if left[pivot] <= stop and pivots:
            break
        column = kernel.block(X, X[pivot : pivot + 1])[:, 0] - rows[:k].T @ rows[:k, pivot]
        if left[pivot] <= 0.0:  # a kernel that is zero everywhere: one point, with a coefficient of zero
            left[pivot] = column[pivot] = 1.0
        rows[k] = column / np.sqrt(left[pivot])
        left -= rows[k] ** 2
        left[pivot] = 0.0
        pivots.append(pivot)
    return np.asarray(pivots, dtype=int), np.tril(rows[: len(pivots), pivots].T)
