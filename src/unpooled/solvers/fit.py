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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, eps, is_numpy
from ..filters import Filter, IteratedTikhonov, Tikhonov
from ..kernels.base import Kernel
from ..messages import size
from ..resources import memory
from . import cholesky, lowrank, products
from .decomposition import Decomposition, eigh, filter_path
from .operator import Coordinates, dense

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
        c = coordinates.coefficients(products.iterate(problem.filter, M, v, lam, problem.kappa_sq))
    else:
        c = coefficients(problem, eigh(M, problem.n, problem.kappa_sq), coordinates, v, lam)
    return Solution(c, coordinates.intercept(c, b), b, route)


def _route(problem: Problem, lam: float) -> str:
    if problem.ridge_times:
        return "cholesky"
    steps = problem.filter.iterations(lam, problem.kappa_sq)
    few = steps is not None and steps <= PASSES_PER_ROW * problem.n
    # An iteration would run away on a matrix that is not positive semi-definite; eigh says so.
    safe = products.is_iteration(problem.filter) and problem.kernel.positive_definite
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
        thin = lowrank.decompose(problem.kernel, problem.X, problem.weights, problem.center, lam, max_rank)
    if thin is None and solver == "low-rank":
        raise ValueError(
            "solver='low-rank' cannot be certified for this kernel and lam: use solver='auto', which falls back"
        )
    return thin
