"""From data to coefficients by the cheapest route that is right.

========  =======================================================================  =====================
route     what it does                                                             when
========  =======================================================================  =====================
low-rank  certified pivoted Cholesky, thin decomposition; 𝕂 is never formed        fast-decaying spectra
cholesky  (M + NλI)⁻¹ in place                                                     ridge at one λ
products  t matrix products                                                        few iterations, one λ
mixed     float32 decomposition chooses λ, conjugate gradients finish in float64   ridge path, large N
eigh      full decomposition                                                       everything else
========  =======================================================================  =====================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from .. import selection
from ..arrays import Array, is_numpy, namespace
from ..filters import Filter, Floats, IteratedTikhonov, Tikhonov
from ..kernels.base import Kernel
from . import cholesky, lowrank, products, refine
from .decomposition import Decomposition, eigh, filter_path
from .operator import Coordinates, dense

SOLVERS = ("auto", "cholesky", "products", "low-rank", "mixed", "eigh")
LARGE = 1000  # rows from which the low-rank and mixed routes pay
KEPT_NUMBERS = 1 << 25  # the coefficients of a whole path are kept up to 256 MiB
PASSES_PER_ROW = 0.125  # a decomposition costs about as much as N/8 matrix products

Folds = Iterable[tuple[np.ndarray, np.ndarray]]


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
    def ridge_times(self) -> int:
        """How many ridge solves the filter is made of; 0 where it is not made of them."""
        if type(self.filter) is Tikhonov:
            return 1
        return int(self.filter.times) if type(self.filter) is IteratedTikhonov else 0

    def dense(self) -> tuple[Array, Coordinates]:
        return dense(self.kernel(self.X), self.weights, self.center)


@dataclass
class Solution:
    """f = Σ c_i K_{x_i} + intercept: coefficients c (N, T), intercepts (T,), and the route they came by.

    ``b`` is the intercept beside the centred kernel, the mean of y.
    """

    coef: Array
    intercept: Array
    b: Array
    solver: str


@dataclass
class PathSolution(Solution):
    """The chosen solution on a path of λ, and the path. ``coefs`` (L, N, T) is None where it was too large to keep."""

    index: np.ndarray
    criterion: Floats
    df: Floats
    coefs: Array | None = field(repr=False)
    intercepts: Array | None = field(repr=False)


def fit_one(problem: Problem, lam: float, solver: str = "auto") -> Solution:
    """The regression at one λ."""
    thin = _thin(problem, lam, solver)
    if thin is not None:
        decomposition, coordinates = thin
        v, b = coordinates.targets(problem.Y)
        c = _coefficients(problem, decomposition, coordinates, v, lam)
        return Solution(c, coordinates.intercept(c, b), b, "low-rank")
    M, coordinates = problem.dense()
    v, b = coordinates.targets(problem.Y)
    route = solver if solver != "auto" else _route_at_one(problem, lam)
    if route == "cholesky":
        solve = cholesky.factor(M, coordinates.n * lam)
        a = ridge_iterations(problem.ridge_times, solve, v, lam, coordinates.n)
        c = coordinates.coefficients(a)
    elif route == "products":
        c = coordinates.coefficients(products.iterate(problem.filter, M, v, lam, problem.kappa_sq))
    else:
        c = _coefficients(problem, eigh(M, coordinates.n), coordinates, v, lam)
    return Solution(c, coordinates.intercept(c, b), b, route)


def fit_path(
    problem: Problem,
    lams: Floats,
    criterion: str,
    per_target: bool = False,
    solver: str = "auto",
    folds: Folds = (),
) -> PathSolution:
    """Every λ of a grid, and the one (or one a target) with the lowest score."""
    if criterion == "cv":
        K = problem.kernel(problem.X)
        by_folds = selection.fold_scores(
            K, problem.Y, problem.weights, problem.center, problem.filter, lams, problem.kappa_sq, folds
        )
        M, coordinates = dense(K, problem.weights, problem.center)
        return _choose(problem, eigh(M, coordinates.n), coordinates, lams, "gcv", per_target, "eigh", by_folds)
    thin = _thin(problem, float(lams.min()), solver)
    if thin is not None:
        return _choose(problem, *thin, lams, criterion, per_target, "low-rank")
    M, coordinates = problem.dense()
    if solver == "mixed" or (solver == "auto" and problem.X.shape[0] >= LARGE and mixed_is_possible(problem)):
        found = _mixed(problem, M, coordinates, lams, criterion, per_target)
        if found is not None:
            return found
    return _choose(problem, eigh(M, coordinates.n), coordinates, lams, criterion, per_target, "eigh")


def ridge_iterations(times: int, solve: cholesky.Solve, v: Array, lam: float, n: int) -> Array:
    """g_λ(A)v for (iterated) Tikhonov from a solver of M + NλI: a ← N (M + NλI)⁻¹ (v + λa), ``times`` times from a = 0.

    That is ridge regression on the residual, a ← a + (A+λ)⁻¹(v - Aa), written without a product with A.
    """
    a = n * solve(v)
    for _ in range(times - 1):
        a = n * solve(v + lam * a)
    return a


def _coefficients(
    problem: Problem, decomposition: Decomposition, coordinates: Coordinates, v: Array, lam: float
) -> Array:
    (g, g0), _ = filter_path(problem.filter, decomposition, np.asarray([lam]), problem.kappa_sq)
    return coordinates.coefficients(decomposition.apply(g, g0, v)[0, :, :])


def _route_at_one(problem: Problem, lam: float) -> str:
    if problem.ridge_times:
        return "cholesky"
    steps = problem.filter.iterations(lam, problem.kappa_sq)
    few = steps is not None and steps <= PASSES_PER_ROW * problem.X.shape[0]
    return "products" if few and products.is_iteration(problem.filter) else "eigh"


def _thin(problem: Problem, lam: float, solver: str) -> tuple[Decomposition, Coordinates] | None:
    n = problem.X.shape[0]
    able = is_numpy(problem.X) and problem.kernel.by_columns and problem.kernel.positive_definite
    if solver == "low-rank":
        thin = None
        if able:
            thin = lowrank.decompose(problem.kernel, problem.X, problem.weights, problem.center, lam, n)
        if thin is None:
            raise ValueError(
                "solver='low-rank' cannot be certified for this kernel and lam: use solver='auto', which falls back"
            )
        return thin
    if solver != "auto" or n < LARGE or not able:
        return None
    return lowrank.decompose(problem.kernel, problem.X, problem.weights, problem.center, lam, n // 8)


def mixed_is_possible(problem: Problem) -> bool:
    """A ridge filter on float64 NumPy arrays."""
    return bool(problem.ridge_times and is_numpy(problem.X) and problem.X.dtype == np.float64)


def _choose(
    problem: Problem,
    decomposition: Decomposition,
    coordinates: Coordinates,
    lams: Floats,
    criterion: str,
    per_target: bool,
    solver: str,
    known_scores: Floats | None = None,
) -> PathSolution:
    """Score the path on a decomposition, choose, and keep the coefficients of every λ if they are few enough."""
    xp = namespace(problem.Y)
    v, b = coordinates.targets(problem.Y)
    scores = selection.score_path(
        criterion, decomposition, v, problem.filter, lams, problem.kappa_sq, coordinates.leverage_of_mean(v)
    )
    table = scores.criterion if known_scores is None else known_scores
    index = selection.best_index(table, lams, per_target)
    keep = len(lams) * v.shape[0] * v.shape[1] <= KEPT_NUMBERS
    wanted = range(len(lams)) if keep else np.unique(index)
    coefs = {i: _coefficients(problem, decomposition, coordinates, v, float(lams[i])) for i in wanted}
    intercepts = {i: coordinates.intercept(c, b) for i, c in coefs.items()}
    return PathSolution(
        coef=xp.stack([coefs[i][:, t] for t, i in enumerate(index)], axis=1),
        intercept=xp.stack([intercepts[i][t] for t, i in enumerate(index)]),
        b=b,
        solver=solver,
        index=index,
        criterion=table,
        df=scores.df,
        coefs=xp.stack(list(coefs.values())) if keep else None,
        intercepts=xp.stack(list(intercepts.values())) if keep else None,
    )


def _mixed(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, lams: Floats, criterion: str, per_target: bool
) -> PathSolution | None:
    """The ridge path with λ chosen in single precision and coefficients in double; None where that is not safe.

    Single precision scores the regression of a kernel matrix that differs by about eps·‖M‖. Below 2·eps·σ₁ that is no
    longer small against λ: a choice down there, or at the edge of it, is left to double precision.
    """
    n = coordinates.n
    v, b = coordinates.targets(problem.Y)
    rough = eigh(M.astype(np.float32), n)
    leverage = coordinates.leverage_of_mean(v)
    leverage32 = leverage if isinstance(leverage, float) else leverage.astype(np.float32)
    size = max(float(np.abs(v).max()), float(np.finfo(np.float32).tiny))  # labels of any scale fit single precision
    scores = selection.score_path(
        criterion, rough, (v / size).astype(np.float32), problem.filter, lams, problem.kappa_sq, leverage32
    )
    index = selection.best_index(scores.criterion, lams, per_target)
    trusted = lams >= 2 * float(np.finfo(np.float32).eps) * float(rough.sigma.max())
    trusted &= np.all(np.isfinite(scores.criterion), axis=1)
    edge = lams[trusted].min(initial=np.inf) if not np.all(trusted) else 0.0
    if np.any(lams[index] <= edge):
        return None
    keep = len(lams) * v.shape[0] * v.shape[1] <= KEPT_NUMBERS
    wanted = np.arange(len(lams)) if keep else np.unique(index)
    T = v.shape[1]
    mus = n * np.repeat(lams[wanted], T)
    columns = np.tile(v, (1, len(wanted)))
    reached = np.ones(len(mus), dtype=bool)

    def solve(V: np.ndarray) -> np.ndarray:
        nonlocal reached
        solution, done = refine.solve_shifted(M, mus, V, rough)
        reached &= done
        return solution

    a = ridge_iterations(problem.ridge_times, solve, columns, np.repeat(lams[wanted], T), n)  # type: ignore[arg-type]
    position = {int(i): j for j, i in enumerate(wanted)}
    if not all(reached[position[int(i)] * T + t] for t, i in enumerate(index)):
        return None
    coefs = np.moveaxis(coordinates.coefficients(a).reshape(n, len(wanted), T), 1, 0)
    intercepts = np.stack([coordinates.intercept(c, b) for c in coefs])
    picked = [position[int(i)] for i in index]
    targets = np.arange(T)
    return PathSolution(
        coef=np.ascontiguousarray(coefs[picked, :, targets].T),
        intercept=intercepts[picked, targets],
        b=b,
        solver="mixed",
        index=index,
        criterion=scores.criterion * size**2,
        df=scores.df,
        coefs=coefs if keep else None,
        intercepts=intercepts if keep else None,
    )
