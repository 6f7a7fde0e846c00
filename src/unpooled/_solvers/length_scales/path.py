"""The search path from one length scale for all features to one for each, with a falling penalty.

It begins with one length scale for all features, each in units of its spread, ℓ_k = e^{θ_0} s_k, the minimum of

    log L(θ) + β(θ_0 - log m)²,

where m is the median distance in these units. The second term holds the search where L is flat: a rough kernel hardly
distinguishes a longer ℓ from a smaller λ, and any long ℓ serves a smooth function equally well. From there the path
minimises

    log L(θ) + α Σ_k φ(θ_k - θ_0),      φ(δ) = δ² for δ < 0,  log(1 + δ²) for δ > 0,

for falling α: more attention to a feature is penalised by its square, and leaving a feature out costs little. Rows that
L has not seen judge the points of the path, and end it where it gets worse.

L is the exact leave-one-out error of kernel ridge regression, and its gradient is exact too (:func:`leave_one_out`).
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

This takes a Cholesky factorisation, an inverse and one product of matrices, 2N³ operations, however many parameters the
kernel has: each of them only adds a sum over ⟨R P G P R, d𝕂⟩.

:class:`ScaledKernel` minimises L on a few rows for a kernel whose length scales are free. The parameters θ are
log(ℓ_k/s_k) for every free part of the kernel and every feature k, s_k being the spread of the feature, and finally
log(λ/κ²). Scaling a column of X then changes no θ, and scaling y adds a constant to log L.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from ..._base.arrays import Floats, add_to_diagonal, cholesky
from ..._linalg.operator import NotPositiveDefinite, build_dense, project_out
from ...filters import Tikhonov
from ...kernels.base import Kernel
from ...kernels.parts import PartPath, compute_gradients, replace_length_scales
from ..spectral.problem import Problem
from ..spectral.routes import fit_one

SMALLEST = 64 * np.finfo(float).eps  # of 1 - h: below it a row is reproduced whatever its label is


@dataclass
class LeaveOneOut:
    """The error L, summed over targets, and its derivatives by the kernel matrix (N, N) and by log λ."""

    value: float
    by_kernel: Floats
    by_log_lam: float


def leave_one_out(K: Floats, Y: Floats, weights: Floats | None, lam: float) -> LeaveOneOut | None:
    """Return L and its derivatives for labels Y (N, T); None if the matrix is not positive definite or L not finite.

    K is overwritten.
    """
    n = len(K)
    mu = n * lam
    M, coordinates = build_dense(K, weights, True)
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
    A *= np.sqrt(c)  # one factor per column
    G = _gram(A)
    G -= 0.5 * (np.hstack([p, u]) @ np.hstack([u, p]).T)
    by_mu += float(np.trace(G)) * mu
    G *= mu
    project_out(G, np.sqrt(w))
    if coordinates.root is not None:
        G *= coordinates.root[:, None] * coordinates.root[None, :]
    return LeaveOneOut(float(np.sum(e * e)) / n, G, mu * by_mu)


def _inverse(M: Floats, mu: float) -> Floats | None:
    """Return (M + μI)⁻¹ in the memory of M; None if that is not positive definite."""
    add_to_diagonal(M, mu)
    L = cholesky(M)
    if L is None:
        return None
    inverse, _ = scipy.linalg.lapack.dpotri(L.T, lower=0, overwrite_c=1)
    return _mirror(inverse.T)


def _gram(B: Floats) -> Floats:
    """Return BBᵀ, of which half is computed."""
    return _mirror(scipy.linalg.blas.dsyrk(1.0, B.T, trans=1, lower=0).T)


def _mirror(A: Floats) -> Floats:
    """Fill a symmetric matrix from its lower triangle, in place and in blocks of 256 rows, which fit the cache."""
    n = len(A)
    for i in range(0, n, 256):
        rows = slice(i, min(i + 256, n))
        A[: rows.start, rows] = A[rows, : rows.start].T
        corner = A[rows, rows]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
    return A


_Penalty = Callable[[Floats], tuple[float, Floats]]  #: θ ↦ a value to add to log L, and its gradient

SHORTEST, LONGEST = 1e-2, 1e3  # ℓ/s: with the first all values of a feature are far apart, the last ignores it
LAMS = (1e-7, 10.0)  # λ/κ²; a fit to more rows than the search uses will need smaller ones
FAILED = 1e3  # in place of log L if there is none
STEPS = 30  # of L-BFGS
ENOUGH = 1e-4  # log L must fall by that much for another step


@dataclass
class ScaledKernel:
    """A kernel with free parts, the rows, and labels that are centred and of variance one.

    All other parameters of the kernel are numbers already.
    """

    kernel: Kernel
    parts: list[PartPath]
    spread: Floats  #: s, (d,)
    X: Floats
    Y: Floats
    weights: Floats | None
    evaluations: int = 0
    kappa_sq: float = field(init=False)

    def __post_init__(self) -> None:
        self.kappa_sq = float(np.mean(self.kernel.diag(self.X))) or 1.0

    def kernel_at(self, theta: Floats) -> Kernel:
        """Return the kernel with the length scales of θ."""
        lengths = np.exp(theta[:-1].reshape(len(self.parts), -1)) * self.spread
        return replace_length_scales(self.kernel, self.parts, list(lengths))

    def lam(self, theta: Floats) -> float:
        """Return the λ of θ."""
        return float(np.exp(theta[-1])) * self.kappa_sq

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return log L and its gradient; a large number and no slope if there is no L."""
        self.evaluations += 1
        kernel = self.kernel_at(theta)
        error = leave_one_out(kernel(self.X), self.Y, self.weights, self.lam(theta))
        if error is None:
            return FAILED, np.zeros_like(theta)
        by_scale = compute_gradients(kernel, self.parts, self.X, error.by_kernel)
        slope = np.append(np.concatenate(by_scale), error.by_log_lam)
        value = max(error.value, np.finfo(float).tiny)
        return float(np.log(value)), slope / value

    def minimise(self, start: Floats, groups: np.ndarray, penalty: _Penalty | None = None) -> Floats:
        """Return the θ of the lowest log L (plus penalty) that L-BFGS reaches from a start.

        ``groups`` gives for each parameter the number of the group with which it moves, or -1 if it is fixed.
        """
        moving = groups >= 0
        size = int(np.max(groups)) + 1
        low, high = np.full(size, -np.inf), np.full(size, np.inf)
        limits = np.tile(np.log([SHORTEST, LONGEST]), (len(start), 1))
        limits[-1] = np.log(LAMS)
        start = np.where(moving, np.clip(start, limits[:, 0], limits[:, 1]), start)
        np.maximum.at(low, groups[moving], (limits[:, 0] - start)[moving])
        np.minimum.at(high, groups[moving], (limits[:, 1] - start)[moving])

        def move(step: Floats) -> Floats:
            return np.where(moving, start + step[groups], start)

        def objective(step: Floats) -> tuple[float, Floats]:
            theta = move(step)
            value, slope = self(theta)
            if penalty is not None:
                more, its_slope = penalty(theta)
                value, slope = value + more, slope + its_slope
            return value, np.bincount(groups[moving], weights=slope[moving], minlength=size).astype(float)

        options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": ENOUGH, "gtol": ENOUGH}
        bounds = np.column_stack([low, high])
        result = minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return move(result.x)

    def squared_errors(self, theta: Floats, X: Floats, Y: Floats) -> Floats:
        """Return Σ_t (y_t - f_t(x))² for rows that the fit with θ has not seen; infinite if there is no fit."""
        kernel = self.kernel_at(theta)
        problem = Problem(kernel, self.X, self.Y, self.weights, True, Tikhonov(), self.kappa_sq)
        try:
            f = fit_one(problem, self.lam(theta), "cholesky")
        except NotPositiveDefinite:
            return np.full(len(X), np.inf)
        return np.sum((Y - kernel(X, self.X) @ f.coef - f.intercept) ** 2, axis=1)


ALPHAS = (0.1, 0.03, 0.01, 0.003, 0.001)
BETA = 0.01
RISES = 2  # the path ends after this many points in a row, each worse than the one before
STARTS = math.log(10.0) * np.arange(-7.0, 0.5, 2.0)  # starting values of log λ/κ²
APART = 3.0  # the ratio of the initial length scales of two free parts of one kernel
ALIKE = 2e-3  # differences below this share of the error do not matter

ALL, MEDIAN = "one for all", "median"


@dataclass
class Split:
    """A kernel on rows to learn from, and rows to judge it by."""

    model: ScaledKernel
    X: Floats
    Y: Floats
    weights: Floats


@dataclass
class Point:
    """A point on the path: its α, θ on every split, the squared errors at all held-out rows and their mean."""

    name: str
    alpha: float
    thetas: list[Floats]
    errors: Floats
    mean: float


def walk(splits: list[Split], start: Floats, at_median: Floats, advance: Callable[[], None]) -> list[Point]:
    """Walk from the median to one length scale for all, then along α until the held-out rows object."""
    weights = normalise(np.concatenate([split.weights for split in splits]))

    def point(name: str, alpha: float, thetas: list[Floats]) -> Point:
        each = [split.model.squared_errors(theta, split.X, split.Y) for split, theta in zip(splits, thetas)]
        errors = np.concatenate(each)
        advance()
        return Point(name, alpha, thetas, errors, float(weights @ errors))

    common = [fit_common_scale(split.model, _choose_lam(split.model, start), start) for split in splits]
    points = [
        point(MEDIAN, math.inf, [_choose_lam(split.model, at_median) for split in splits]),
        point(ALL, math.inf, common),
    ]
    thetas, rises = common, 0
    for alpha in ALPHAS:
        thetas = [
            split.model.minimise(theta, np.arange(len(theta)), make_penalty(alpha, one))
            for split, theta, one in zip(splits, thetas, common)
        ]
        points.append(point(f"α = {alpha:g}", alpha, thetas))
        rises = rises + 1 if points[-1].mean > points[-2].mean else 0
        if rises == RISES:
            break
    return points


def find_start(model: ScaledKernel, middle: float) -> Floats:
    """Return θ at the median distance, in units of spread, for the first free part; the others lie around it."""
    steps = [0, *(sign * (i + 1) for i in range(len(model.parts)) for sign in (-1, 1))][: len(model.parts)]
    lengths = math.log(middle) + math.log(APART) * np.repeat(np.asarray(steps, dtype=float), model.X.shape[1])
    return np.append(lengths, 0.0)


def _choose_lam(model: ScaledKernel, theta: Floats) -> Floats:
    """Return θ with the λ of the lowest L."""
    tried = [np.append(theta[:-1], lam) for lam in STARTS]
    best = min(tried, key=lambda point: model(point)[0])
    return model.minimise(best, np.append(np.full(len(theta) - 1, -1), 0))


def fit_common_scale(model: ScaledKernel, start: Floats, middle: Floats) -> Floats:
    """Fit one length scale for the features of every free part, and λ."""
    n_parts, d = len(model.parts), model.X.shape[1]

    def hold(theta: Floats) -> tuple[float, Floats]:
        delta = theta - middle
        delta[-1] = 0.0
        return BETA / d * float(delta @ delta), 2.0 * BETA / d * delta

    return model.minimise(start, np.append(np.repeat(np.arange(n_parts), d), n_parts), hold)


def make_penalty(alpha: float, centre: Floats) -> _Penalty:
    """Return α Σ_k φ(θ_k - θ_0) as a function of θ, with its gradient; λ is free."""

    def penalty(theta: Floats) -> tuple[float, Floats]:
        delta = theta - centre
        delta[-1] = 0.0
        square = delta * delta
        longer = delta > 0
        value = np.where(longer, np.log1p(square), square)
        return alpha * float(np.sum(value)), alpha * np.where(longer, 2.0 * delta / (1.0 + square), 2.0 * delta)

    return penalty


def choose_point(points: list[Point], weights: Floats) -> Point:
    """Return the first point, with the strongest penalty, that is as good as the best: later ones may be far worse."""
    best = min(points, key=lambda point: point.mean)
    return next(point for point in points if point is best or not is_worse(point.errors, best.errors, weights, 0.5))


def is_worse(errors: Floats, others: Floats, weights: Floats, times: float = 1.0) -> bool:
    """Return whether errors exceed others by ``times`` standard deviations of the difference, and noticeably."""
    weights = normalise(weights)
    with np.errstate(invalid="ignore"):
        difference = errors - others
        gap = float(weights @ difference)
        noise = math.sqrt(float(weights**2 @ (difference - gap) ** 2))
        return not gap <= max(times * noise, ALIKE * float(weights @ others))


def normalise(weights: Floats) -> Floats:
    """Return the weights, scaled to sum to one."""
    return np.asarray(weights / np.sum(weights))
