"""The exact leave-one-out error of kernel ridge regression, and how it changes with the kernel matrix and λ.

In the coordinates of :mod:`.operator`, M = P R𝕂R P with R = diag(root), P = I - ssᵀ and v = P R y, the residuals of
the fit with an intercept are r = μAv with A = (M + μI)⁻¹ and μ = Nλ, and of its own residual row i leaves the share
q_i = 1 - h_i = μA_ii - w_i. The fit without row i would miss it by e_i = r_i/q_i (in units of 1/root_i), so

    L = (1/N) Σ_it e_it²

over rows and targets t is the weighted mean squared error of leaving out. Its differential is

    dL = Σ_it a_it dr_it - Σ_i c_i dq_i,      a_it = 2e_it/(N q_i),      c_i = Σ_t 2e_it²/(N q_i),

and dA = -A dM A for a change of the kernel, so that with u = Av and p = Aa

    dL = ⟨G, dM⟩,      G = μ(A diag(c) A - ½ Σ_t (p_t u_tᵀ + u_t p_tᵀ)).

The kernel matrix sees R P G P R, since M is linear in it. λ enters twice, through A as dM = I dμ and as a factor:

    dL/dlog μ = μ(tr G + Σ_it a_it u_it - Σ_i c_i A_ii).

That is a Cholesky factorisation, an inverse and one product of matrices, 2N³ operations, whatever the number of
parameters in the kernel: each of them then costs a sum over ⟨R P G P R, d𝕂⟩.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..arrays import add_to_diagonal, cholesky
from ..filters import Floats
from .operator import dense, project_out

SMALLEST = 64 * np.finfo(float).eps  # of 1 - h: below it a row is reproduced whatever its label


@dataclass
class LeaveOneOut:
    """L, summed over targets, and its derivatives by the kernel matrix (N, N) and by log λ."""

    value: float
    by_kernel: Floats
    by_log_lam: float


def leave_one_out(K: Floats, Y: Floats, weights: Floats | None, lam: float) -> LeaveOneOut | None:
    """L and its derivatives for labels Y (N, T); None where the matrix is not positive definite or L not finite.

    K is overwritten.
    """
    n = len(K)
    mu = n * lam
    M, coordinates = dense(K, weights, True)
    v, _ = coordinates.targets(Y, K.dtype)
    w = coordinates.weights(K)
    A = _inverse(M, mu)
    if A is None:
        return None
    u = A @ v
    left = mu * np.diagonal(A) - w
    if not np.min(left) > SMALLEST:
        return None
    e = mu * u / left[:, None]
    a = 2.0 * e / (n * left[:, None])
    c = np.sum(a * e, axis=1)
    by_mu = float(np.sum(a * u) - c @ np.diagonal(A))
    p = A @ a
    A *= np.sqrt(c)  # a column each
    G = _gram(A)
    G -= 0.5 * (np.hstack([p, u]) @ np.hstack([u, p]).T)
    by_mu += float(np.trace(G)) * mu
    G *= mu
    project_out(G, np.sqrt(w))
    if coordinates.root is not None:
        G *= coordinates.root[:, None] * coordinates.root[None, :]
    return LeaveOneOut(float(np.sum(e * e)) / n, G, mu * by_mu)


def _inverse(M: Floats, mu: float) -> Floats | None:
    """(M + μI)⁻¹ in the memory of M; None where that is not positive definite."""
    add_to_diagonal(M, mu)
    L = cholesky(M)
    if L is None:
        return None
    inverse, _ = scipy.linalg.lapack.dpotri(L.T, lower=0, overwrite_c=1)
    return _mirrored(inverse.T)


def _gram(B: Floats) -> Floats:
    """BBᵀ, half of it computed."""
    return _mirrored(scipy.linalg.blas.dsyrk(1.0, B.T, trans=1, lower=0).T)


def _mirrored(A: Floats, step: int = 256) -> Floats:
    """A symmetric matrix from its lower triangle, in place and in blocks that fit the cache."""
    n = len(A)
    for i in range(0, n, step):
        rows = slice(i, min(i + step, n))
        A[: rows.start, rows] = A[rows, : rows.start].T
        corner = A[rows, rows]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
    return A
