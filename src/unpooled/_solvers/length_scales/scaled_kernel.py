"""The exact leave-one-out error of kernel ridge regression, its gradient, and its minimum over length scales and λ.

In the coordinates of :mod:`unpooled._linalg.operator`, M = P R𝕂R P with R = diag(root), P = I - ssᵀ and v = P R y, the
residuals of the fit with an intercept are r = μAv with A = (M + μI)⁻¹ and μ = Nλ, and of its own residual row i leaves
the share q_i = 1 - h_i = μA_ii - w_i. The fit without row i would miss it by e_i = r_i/q_i (in units of 1/root_i), so

    L = (1/N) Σ_it e_it²

over rows and targets t is the weighted mean squared error of leaving out. Its differential is

    dL = Σ_it a_it dr_it - Σ_i c_i dq_i,      a_it = 2e_it/(N q_i),      c_i = Σ_t 2e_it²/(N q_i),

and dA = -A dM A for a change of the kernel, so that with u = Av and p = Aa

    dL = ⟨G, dM⟩,      G = μ(A diag(c) A - ½ Σ_t (p_t u_tᵀ + u_t p_tᵀ)).

The gradient with respect to the kernel matrix is R P G P R, since M is linear in 𝕂. λ enters twice, through A as dM = I
dμ and as a factor:

    dL/dlog μ = μ(tr G + Σ_it a_it u_it - Σ_i c_i A_ii).

That is a Cholesky factorisation, an inverse and one product of matrices, 2N³ operations, whatever the number of
parameters in the kernel: each of them then costs a sum over ⟨R P G P R, d𝕂⟩.

:class:`ScaledKernel` minimises L on a few rows for a kernel whose length scales are free. The parameters θ are
log(ℓ_k/s_k) for every free part of the kernel and every feature k, s_k being the spread of the feature, and at last
log(λ/κ²). Scaling a column of X then changes no θ, and scaling y adds a constant to log L.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from ..._base.arrays import Floats, add_to_diagonal, cholesky
from ..._linalg.operator import NotPositiveDefinite, dense, project_out
from ...filters import Tikhonov
from ...kernels.base import Kernel
from ...kernels.parts import Path, gradients, with_length_scales
from ..spectral.problem import Problem
from ..spectral.routes import fit_one

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


Penalty = Callable[[Floats], tuple[float, Floats]]  #: θ ↦ a value to be added to log L, and its gradient

SHORTEST, LONGEST = 1e-2, 1e3  # ℓ/s: of a feature of which every value is a world of its own, and of one left out
LAMS = (1e-7, 10.0)  # λ/κ²; more rows than are searched on will want smaller ones
FAILED = 1e3  # in the place of log L where there is none
STEPS = 30  # of L-BFGS
ENOUGH = 1e-4  # log L must fall by that much for another step


@dataclass
class ScaledKernel:
    """The rows, labels that are centred and of variance one, and the kernel with its free parts.

    All but the free parts is numbers already.
    """

    kernel: Kernel
    parts: list[Path]
    spread: Floats  #: s, (d,)
    X: Floats
    Y: Floats
    weights: Floats | None
    evaluations: int = 0
    kappa_sq: float = field(init=False)

    def __post_init__(self) -> None:
        self.kappa_sq = float(np.mean(self.kernel.diag(self.X))) or 1.0

    def at(self, theta: Floats) -> Kernel:
        """The kernel with the length scales of θ."""
        lengths = np.exp(theta[:-1].reshape(len(self.parts), -1)) * self.spread
        return with_length_scales(self.kernel, self.parts, list(lengths))

    def lam(self, theta: Floats) -> float:
        """λ."""
        return float(np.exp(theta[-1])) * self.kappa_sq

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """log L and its gradient; a large number and no slope where there is no L."""
        self.evaluations += 1
        kernel = self.at(theta)
        found = leave_one_out(kernel(self.X), self.Y, self.weights, self.lam(theta))
        if found is None:
            return FAILED, np.zeros_like(theta)
        by_scale = gradients(kernel, self.parts, self.X, found.by_kernel)
        slope = np.append(np.concatenate(by_scale), found.by_log_lam)
        value = max(found.value, np.finfo(float).tiny)
        return float(np.log(value)), slope / value

    def minimum(self, start: Floats, groups: np.ndarray, penalty: Penalty | None = None) -> Floats:
        """θ of the lowest log L (plus penalty) that L-BFGS finds from a start.

        ``groups`` gives for each parameter the number of the group that it moves with, or -1 where it stays.
        """
        moving = groups >= 0
        size = int(np.max(groups)) + 1
        low, high = np.full(size, -np.inf), np.full(size, np.inf)
        limits = np.tile(np.log([SHORTEST, LONGEST]), (len(start), 1))
        limits[-1] = np.log(LAMS)
        start = np.where(moving, np.clip(start, limits[:, 0], limits[:, 1]), start)
        np.maximum.at(low, groups[moving], (limits[:, 0] - start)[moving])
        np.minimum.at(high, groups[moving], (limits[:, 1] - start)[moving])

        def moved(step: Floats) -> Floats:
            return np.where(moving, start + step[groups], start)

        def objective(step: Floats) -> tuple[float, Floats]:
            theta = moved(step)
            value, slope = self(theta)
            if penalty is not None:
                more, its_slope = penalty(theta)
                value, slope = value + more, slope + its_slope
            return value, np.bincount(groups[moving], weights=slope[moving], minlength=size).astype(float)

        options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": ENOUGH, "gtol": ENOUGH}
        bounds = np.column_stack([low, high])
        found = minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return moved(found.x)

    def squared_errors(self, theta: Floats, X: Floats, Y: Floats) -> Floats:
        """Σ_t (y_t - f_t(x))² for rows that the fit with θ has not seen; infinite where there is no fit."""
        kernel = self.at(theta)
        problem = Problem(kernel, self.X, self.Y, self.weights, True, Tikhonov(), self.kappa_sq)
        try:
            f = fit_one(problem, self.lam(theta), "cholesky")
        except NotPositiveDefinite:
            return np.full(len(X), np.inf)
        return np.sum((Y - kernel(X, self.X) @ f.coef - f.intercept) ** 2, axis=1)
