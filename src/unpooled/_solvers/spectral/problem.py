"""From data to coefficients at one λ, by the cheapest route that is right. Paths of λ are in :mod:`.paths`.

========  =======================================================================  ========================
route     what it does                                                             when
========  =======================================================================  ========================
low-rank  certified pivoted Cholesky, thin decomposition; 𝕂 is never formed        fast-decaying spectra
cholesky  (M + NλI)⁻¹ in place                                                     ridge at one λ
products  t matrix products                                                        few iterations, one λ
mixed     float32 factorisation chooses λ, conjugate gradients finish in float64   ridge path, large N, float64
banded    reduction to block tridiagonal form                                      ridge path, larger N
eigh      full decomposition                                                       everything else
========  =======================================================================  ========================

**Products.** Iterative filters at one λ take t passes over the matrix instead of a decomposition. With x ↦ (1/κ²)·A x
the step operator, both iterations solve A a = v from a = 0:

    Landweber   a ← a + η (v - A a)
    ν-method    a ← a + μ_k (a - a_old) + ω_k η (v - A a)        (Engl, Hanke and Neubauer 1996, §6.3)

so that a = g_λ(A) v after the number of steps that λ stands for.

**Low rank.** A certified low-rank decomposition comes from a pivoted Cholesky factor, and the kernel matrix is never
formed. Greedy pivoting picks the row whose residual diagonal is largest and subtracts it: M = LLᵀ + E with E ⪰ 0, so
‖E‖₂ ≤ tr E, and tr E is known at every step. Replacing M by LLᵀ moves (M + μI)⁻¹ by at most tr E/μ² in norm, and ridge
predictions by at most κ·tr E·‖y‖/(2μ^{3/2}); with tr E ≤ tol·μ and μ = Nλ that is κ·tol·rms(y)/(2√λ), in practice far
less. Other filters see a spectrum that has moved by at most tol·λ (the cut-off may then count an eigenvalue at λ to the
other side). Smooth kernels in few dimensions need a few hundred columns where N is in the tens of thousands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..._base import memory
from ..._base.arrays import Array, eps, is_numpy
from ..._base.text import size
from ..._linalg import cholesky
from ..._linalg.operator import Coordinates, Decomposition, dense, eigh, root_of
from ...filters import Filter, IteratedTikhonov, Landweber, NuMethod, Tikhonov
from ...kernels.base import Kernel
from .criteria import filter_path


def momentum_steps(filter: Filter, t: int) -> Iterable[tuple[float, float]]:
    """The pairs (μ_k, ω_k) of an iterative filter, k = 1..t."""
    return filter.steps(t) if isinstance(filter, NuMethod) else ((0.0, 1.0) for _ in range(t))


def is_iteration(filter: Filter) -> bool:
    """True where :func:`iterate` knows the recursion (a filter of one's own goes through eigh)."""
    return type(filter) in (Landweber, NuMethod)


def iterate(filter: Filter, M: Array, v: Array, lam: float, kappa_sq: float) -> Array:
    """g_λ(A) v with A = M/N, by t matrix products."""
    t = filter.iterations(lam, kappa_sq)
    assert t is not None
    step = 1.0 / (kappa_sq * M.shape[0])
    a_old = a = 0.0 * v
    for mu, omega in momentum_steps(filter, t):
        gradient = kappa_sq**-1 * v - step * (M @ a)
        a, a_old = a + mu * (a - a_old) + omega * gradient, a
    return a


# tr E/μ, by the size of a number in bytes: what is aimed for, and what must at least be reached. Rounding keeps the
# trace from being known better than a few eps·tr M, which for the smallest λ is more than what is aimed for.
TOLERANCE = {8: (1e-8, 1e-5), 4: (1e-4, 1e-3)}
FIRST_CHECK = 32  # columns before the first guess at the rank


def decompose(
    kernel: Kernel, X: np.ndarray, weights: np.ndarray | None, center: bool, lam: float, max_rank: int
) -> tuple[Decomposition, Coordinates] | None:
    """The thin decomposition that serves every λ' ≥ λ, or None where ``max_rank`` columns do not suffice."""
    n = len(X)
    root = root_of(weights, n)
    aim, least = TOLERANCE[X.dtype.itemsize]
    L = pivoted_cholesky(kernel, X, root, aim * n * lam, least * n * lam, max_rank)
    if L is None:
        return None
    coordinates = Coordinates(n, root, center)
    if center:
        # 𝕂w from the factor too: L holds rows scaled by root, and w = root²/N.
        r = np.ones(n, dtype=X.dtype) if root is None else root
        coordinates.mean_row = (L @ (L.T @ r)) / (n * r)
        s = r / math.sqrt(n)
        L = L - np.outer(s, s @ L)
    # The SVD by QR keeps small singular values right, where LᵀL would square the condition number.
    Q, R = scipy.linalg.qr(L, mode="economic", check_finite=False, overwrite_a=True)
    W, singular, _ = scipy.linalg.svd(R, full_matrices=False, check_finite=False, overwrite_a=True)
    return Decomposition(singular.astype(float) ** 2 / n, Q @ W), coordinates


def pivoted_cholesky(
    kernel: Kernel, X: np.ndarray, root: np.ndarray | None, aim: float, least: float, max_rank: int
) -> np.ndarray | None:
    """L with tr(R𝕂R - LLᵀ) ≤ aim, R = diag(root), or as small as rounding can tell if that is below ``least``.

    None where it cannot be told, as soon as max_rank looks too small, or where 𝕂 turns out not positive semi-definite.
    """
    diag = np.asarray(kernel.diag(X), dtype=float)
    if root is not None:
        diag = diag * np.asarray(root, dtype=float) ** 2
    start = float(diag.sum())
    eps = float(np.finfo(X.dtype).eps)
    tol = max(aim, 16 * eps * start)
    if tol > least:
        return None
    L = np.empty((len(X), min(max_rank, 2 * FIRST_CHECK)), dtype=X.dtype, order="F")
    check = FIRST_CHECK
    for k in range(max_rank + 1):
        trace = float(diag.sum())
        if trace <= tol:
            return L[:, :k]
        if k == max_rank:
            break
        if k == check:
            # Exponential decay from here on would need this many columns; anything slower needs more.
            decay = math.log(start / trace)
            if decay <= 0 or k * math.log(start / tol) / decay > max_rank:
                break
            check = k + FIRST_CHECK
        if k == L.shape[1]:
            L = np.asfortranarray(np.hstack([L, np.empty((len(X), min(k, max_rank - k)), dtype=X.dtype)]))
        p = int(np.argmax(diag))
        column = kernel(X, X[p : p + 1])[:, 0]
        if root is not None:
            column = column * (root * root[p])
        L[:, k] = (column - L[:, :k] @ L[p, :k]) / math.sqrt(diag[p])
        diag = diag - np.asarray(L[:, k], dtype=float) ** 2
        diag[p] = 0.0
        if diag.min() < -1e3 * eps * start / len(X):
            break  # no Mercer kernel: the routes that see the whole matrix will say so
        diag = np.maximum(diag, 0.0)
    return None


SOLVERS = ("auto", "low-rank", "cholesky", "products", "mixed", "banded", "eigh")
LARGE = 1000  # rows from which the low-rank and mixed routes pay
PASSES_PER_ROW = 0.125  # a decomposition costs about as much as N/8 matrix products
OF_LOW_RANK = 4  # columns as long as 𝕂 that a column of the low-rank route takes at its peak


@dataclass
class Problem:
    """One regression: data, kernel and filter, all checked. ``weights`` None means equal."""

    kernel: Kernel
    X: Array
    Y: Array
    weights: Array | None
    center: bool
    filter: Filter
    kappa_sq: float

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def ridge_times(self) -> int:
        """How many ridge solves the filter is made of; 0 where it is not made of them."""
        return ridge_times(self.filter)

    @property
    def of_decomposition(self) -> float:
        """Matrices as large as 𝕂 that a decomposition or a reduction holds at its peak, 𝕂 included."""
        return 3.0 if is_numpy(self.X) else 6.0

    def dense(self, matrices: float) -> tuple[Array, Coordinates]:
        """M and its coordinates, where there is room for so many ``matrices`` of its size, which the route needs."""
        self.require(matrices)
        return dense(self.kernel(self.X), self.weights, self.center)

    def require(self, matrices: float) -> None:
        """Refuse now, and in a sentence, what would run out of memory later."""
        one = (8.0 if eps(self.X) < 1e-10 else 4.0) * self.n**2
        less = f"one given lam with filter='tikhonov' needs {size(one)}, " if matrices > 1 else ""
        memory.require(
            matrices * one,
            self.X,
            f"an exact fit to {self.n} rows",
            f"{less}NystromRegressor and AveragedRegressor need less; unpooled.plan(X, y) says how much",
        )


def ridge_times(filter: Filter) -> int:
    """How many ridge solves a filter is made of; 0 where it is not made of them."""
    if type(filter) is Tikhonov:
        return 1
    return int(filter.qualification) if type(filter) is IteratedTikhonov else 0


@dataclass
class Solution:
    """f = Σ c_i K_{x_i} + intercept: coefficients c (N, T), intercepts (T,), and the route they came by.

    ``b`` is the intercept beside the centred kernel, the mean of y.
    """

    coef: Array
    intercept: Array
    b: Array
    solver: str


def fit_one(problem: Problem, lam: float, solver: str = "auto") -> Solution:
    """The regression at one λ."""
    thin = thin_decomposition(problem, lam, solver)
    if thin is not None:
        decomposition, coordinates = thin
        v, b = coordinates.targets(problem.Y, problem.X.dtype)
        c = coefficients(problem, decomposition, coordinates, v, lam)
        return Solution(c, coordinates.intercept(c, b), b, "low-rank")
    route = solver if solver != "auto" else _route(problem, lam)
    matrices = {"cholesky": cholesky.matrices(problem.X), "products": 1.0}.get(route, problem.of_decomposition)
    M, coordinates = problem.dense(matrices)
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    if route == "cholesky":
        solve = cholesky.factor(M, problem.n * lam)
        c = coordinates.coefficients(ridge_iterations(problem.ridge_times, solve, v, lam, problem.n))
    elif route == "products":
        c = coordinates.coefficients(iterate(problem.filter, M, v, lam, problem.kappa_sq))
    else:
        c = coefficients(problem, eigh(M, problem.n, problem.kappa_sq), coordinates, v, lam)
    return Solution(c, coordinates.intercept(c, b), b, route)


def _route(problem: Problem, lam: float) -> str:
    if problem.ridge_times:
        return "cholesky"
    steps = problem.filter.iterations(lam, problem.kappa_sq)
    few = steps is not None and steps <= PASSES_PER_ROW * problem.n
    # An iteration would run away on a matrix that is not positive semi-definite; eigh says so.
    safe = is_iteration(problem.filter) and problem.kernel.positive_definite
    return "products" if few and safe else "eigh"


def ridge_iterations(times: int, solve: cholesky.Solve, v: Array, lam: float, n: int) -> Array:
    """g_λ(A)v for (iterated) Tikhonov from a solver of M + NλI: a ← N (M + NλI)⁻¹ (v + λa), ``times`` times from a = 0.

    That is ridge regression on the residual, a ← a + (A+λ)⁻¹(v - Aa), written without a product with A.
    """
    if times < 1:
        raise ValueError("the filter is not made of ridge solves")
    a = n * solve(v)
    for _ in range(times - 1):
        a = n * solve(v + lam * a)
    return a


def coefficients(
    problem: Problem, decomposition: Decomposition, coordinates: Coordinates, v: Array, lam: float
) -> Array:
    """c for one λ from a decomposition."""
    (g, g0), _ = filter_path(problem.filter, decomposition, np.asarray([lam]), problem.kappa_sq)
    return coordinates.coefficients(decomposition.apply(g[0], g0[0], decomposition.project(v)))


def thin_decomposition(problem: Problem, lam: float, solver: str) -> tuple[Decomposition, Coordinates] | None:
    """A certified low-rank decomposition for every λ' ≥ λ where there is one and it pays, else None."""
    able = is_numpy(problem.X) and problem.kernel.by_columns and problem.kernel.positive_definite
    if not able or not (solver == "low-rank" or (solver == "auto" and problem.n >= LARGE)):
        thin = None
    else:
        max_rank = problem.n if solver == "low-rank" else problem.n // 8
        max_rank = memory.affordable(max_rank, OF_LOW_RANK * problem.X.nbytes // problem.X.shape[1], problem.X)
        thin = decompose(problem.kernel, problem.X, problem.weights, problem.center, lam, max_rank)
    if thin is None and solver == "low-rank":
        raise ValueError(
            "solver='low-rank' cannot be certified for this kernel and lam: use solver='auto', which falls back"
        )
    return thin
