"""A whole path of λ and the choice on it, by the cheapest route that is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..._base.arrays import Array, Floats, is_numpy, namespace
from ..._linalg import banded, refine
from ..._linalg.operator import Coordinates, Decomposition, dense, eigh
from . import criteria
from .criteria import FilteredSpectrum, filter_path
from .problem import LARGE, Problem, Solution, is_iteration, thin_decomposition

KEPT_NUMBERS = 1 << 25  # the coefficients of a whole path are kept up to 256 MiB
OF_FOLDS = 1.0  # matrices as large as 𝕂 that folds hold beside a decomposition: the rows of a fold, and the rest of 𝕂
BANDED_FROM = 3000  # rows from which a reduction to banded form beats an eigendecomposition

Folds = Iterable[tuple[np.ndarray, np.ndarray]]
CoefficientsAt = Callable[[np.ndarray], Array]  # positions on the grid -> (len, N, T)


@dataclass
class PathSolution(Solution):
    """The chosen solution, and the path. ``coefs`` (L, N, T) is None where it was not computed or too large to keep."""

    index: np.ndarray
    criterion: Floats
    df: Floats
    coefs: Array | None = field(repr=False)
    intercepts: Array | None = field(repr=False)


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
        return _by_folds(problem, lams, per_target, folds)
    thin = thin_decomposition(problem, float(lams.min()), solver)
    if thin is not None:
        return _by_decomposition(problem, *thin, lams, criterion, per_target, "low-rank")
    M, coordinates = problem.dense(problem.of_decomposition)
    if solver == "mixed" or (solver == "auto" and problem.n >= LARGE and mixed_is_possible(problem)):
        found = _mixed(problem, M, coordinates, lams, criterion, per_target)
        if found is not None:
            return found
    if solver == "banded" or (solver == "auto" and problem.n >= BANDED_FROM and banded_is_possible(problem)):
        return _banded(problem, M, coordinates, lams, criterion, per_target)
    return _by_decomposition(
        problem, eigh(M, problem.n, problem.kappa_sq), coordinates, lams, criterion, per_target, "eigh"
    )


def serves(solver: str, problem: Problem, criterion: str | None) -> bool:
    """Whether a solver of :data:`.problem.SOLVERS` can do the job; ``criterion`` None is one given λ."""
    on_a_path = criterion in ("loo", "gcv")
    able = {
        "low-rank": criterion != "cv",
        "cholesky": criterion is None and problem.ridge_times > 0,
        "products": criterion is None and is_iteration(problem.filter),
        "mixed": on_a_path and mixed_is_possible(problem),
        "banded": on_a_path and banded_is_possible(problem),
    }
    return able.get(solver, True)


def banded_is_possible(problem: Problem) -> bool:
    """Plain Tikhonov with a Mercer kernel on NumPy arrays."""
    return problem.ridge_times == 1 and is_numpy(problem.X) and problem.kernel.positive_definite


def mixed_is_possible(problem: Problem) -> bool:
    """Plain Tikhonov on float64 NumPy arrays."""
    return bool(problem.ridge_times == 1 and is_numpy(problem.X) and problem.X.dtype == np.float64)


def path_scores(problem: Problem, lams: Floats, criterion: str) -> criteria.Scores:
    """Leave-one-out or GCV of every λ in the precision of the data, from a decomposition made for the purpose."""
    thin = thin_decomposition(problem, float(lams.min()), "auto")
    decomposition, coordinates = thin or _full(problem)
    v, _ = coordinates.targets(problem.Y, problem.X.dtype)
    filtered = filter_path(problem.filter, decomposition, lams, problem.kappa_sq)
    return criteria.score_path(criterion, decomposition, v, filtered, coordinates.leverage_of_mean(v))


def path_coefficients(problem: Problem, lams: Floats) -> Iterator[tuple[Array, Array]]:
    """(coefficients, intercepts) for one λ after the other, from a decomposition made for the purpose."""
    return coefficients_along(problem, lams, thin_decomposition(problem, float(lams.min()), "auto"))


def coefficients_along(
    problem: Problem, lams: Floats, thin: tuple[Decomposition, Coordinates] | None
) -> Iterator[tuple[Array, Array]]:
    """The same from a thin decomposition, or a full one where there is none."""
    decomposition, coordinates = thin or _full(problem)
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    filtered = filter_path(problem.filter, decomposition, lams, problem.kappa_sq)
    projected = decomposition.project(v)
    for i in range(len(lams)):
        c = _at(decomposition, coordinates, projected, filtered, i)
        yield c, coordinates.intercept(c, b)


def _full(problem: Problem) -> tuple[Decomposition, Coordinates]:
    M, coordinates = problem.dense(problem.of_decomposition)
    return eigh(M, problem.n, problem.kappa_sq), coordinates


def _at(
    decomposition: Decomposition,
    coordinates: Coordinates,
    projected: tuple[Array, Array | None],
    filtered: FilteredSpectrum,
    i: int,
) -> Array:
    """The coefficients of the i-th λ."""
    (g, g0), _ = filtered
    return coordinates.coefficients(decomposition.apply(g[i], g0[i], projected))


def _by_folds(problem: Problem, lams: Floats, per_target: bool, folds: Folds) -> PathSolution:
    problem.require(problem.of_decomposition + OF_FOLDS)
    K = problem.kernel(problem.X)
    table = criteria.fold_scores(
        K, problem.Y, problem.weights, problem.center, problem.filter, lams, problem.kappa_sq, folds
    )
    M, coordinates = dense(K, problem.weights, problem.center)
    return _by_decomposition(
        problem, eigh(M, problem.n, problem.kappa_sq), coordinates, lams, "cv", per_target, "eigh", table
    )


def _by_decomposition(
    problem: Problem,
    decomposition: Decomposition,
    coordinates: Coordinates,
    lams: Floats,
    criterion: str,
    per_target: bool,
    solver: str,
    table: Floats | None = None,
) -> PathSolution:
    """Any filter from a full or thin decomposition; ``table`` holds scores that are known already."""
    xp = namespace(problem.Y)
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    filtered = filter_path(problem.filter, decomposition, lams, problem.kappa_sq)
    leverage = coordinates.leverage_of_mean(v)
    if table is None:
        scores = criteria.score_path(criterion, decomposition, v, filtered, leverage)
    else:
        scores = criteria.Scores(table, criteria.degrees_of_freedom(decomposition, filtered, leverage))

    def at(wanted: np.ndarray) -> Array:
        projected = decomposition.project(v)
        return xp.stack([_at(decomposition, coordinates, projected, filtered, int(i)) for i in wanted])

    index = criteria.best_index(scores.criterion, lams, per_target)
    return _assemble(coordinates, b, scores, index, at, solver)


def _banded(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, lams: Floats, criterion: str, per_target: bool
) -> PathSolution:
    """Tikhonov from the reduction to banded form, in the precision of the data."""
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    reduced = banded.reduce(M)
    scores = criteria.score_ridge(criterion, reduced, v, lams, coordinates.leverage_of_mean(v))

    def at(wanted: np.ndarray) -> np.ndarray:
        def solution(lam: float) -> np.ndarray:
            return problem.n * reduced.solve(np.full(v.shape[1], problem.n * lam), v)

        return np.stack([coordinates.coefficients(solution(float(lams[i]))) for i in wanted])

    index = criteria.best_index(scores.criterion, lams, per_target)
    return _assemble(coordinates, b, scores, index, at, "banded")


def _mixed(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, lams: Floats, criterion: str, per_target: bool
) -> PathSolution | None:
    """The ridge path with λ chosen in single precision and coefficients in double; None where that is not safe.

    Single precision scores the regression of a kernel matrix that differs by about eps·‖M‖. Below eps·‖A‖ that is no
    longer small against λ. If the grid goes below, the choice is trusted only where the scores have clearly risen
    again before that limit; else it is left to double precision.
    """
    n = problem.n
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    size = max(float(np.abs(v).max()), float(np.finfo(float).tiny))  # labels of any scale fit single precision
    scores, rough = _scores_in_single(problem, M, coordinates, v / size, lams, criterion)
    trusted = np.all(np.isfinite(scores.criterion), axis=1)
    trusted &= lams >= np.finfo(np.float32).eps * np.linalg.norm(M) / n
    if not np.any(trusted):
        return None
    index = criteria.best_index(scores.criterion, lams, per_target)
    if not np.all(trusted) and not risen(scores.criterion, lams, index, trusted):
        return None
    solution, reached = refine.solve_shifted(M, n * lams[index], v, rough)
    if not np.all(reached):
        return None
    c = coordinates.coefficients(n * solution)
    scores.criterion[~trusted], scores.df[~trusted] = np.nan, np.nan
    return PathSolution(
        coef=c,
        intercept=coordinates.intercept(c, b),
        b=b,
        solver="mixed",
        index=index,
        criterion=scores.criterion * size**2,
        df=scores.df,
        coefs=None,
        intercepts=None,
    )


def risen(criterion: Floats, lams: Floats, index: np.ndarray, trusted: np.ndarray) -> bool:
    """Whether every chosen score is trusted, and 5 % lower than that of the smallest λ that is."""
    if not np.all(trusted[index]):
        return False
    last = int(np.flatnonzero(trusted)[np.argmin(lams[trusted])])
    return all(criterion[last, t] >= 1.05 * criterion[i, t] for t, i in enumerate(index))


def _scores_in_single(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, v: np.ndarray, lams: Floats, criterion: str
) -> tuple[criteria.Scores, refine.Rough]:
    """The path's scores in float32, and the factorisation they came from."""
    v32 = v.astype(np.float32)
    leverage = coordinates.leverage_of_mean(v32)
    leverage = leverage if isinstance(leverage, float) else leverage.astype(np.float32)
    M32 = M.astype(np.float32)
    if problem.n >= BANDED_FROM and banded_is_possible(problem):
        reduced = banded.reduce(M32)
        return criteria.score_ridge(criterion, reduced, v32, lams, leverage), reduced
    full = eigh(M32, problem.n, problem.kappa_sq)
    filtered = filter_path(problem.filter, full, lams, problem.kappa_sq)
    scores = criteria.score_path(criterion, full, v32, filtered, leverage)
    return scores, refine.SpectralInverse(full)


def _assemble(
    coordinates: Coordinates, b: Array, scores: criteria.Scores, index: np.ndarray, at: CoefficientsAt, solver: str
) -> PathSolution:
    """The chosen coefficients, and those of the whole path if they are few enough to keep."""
    xp = namespace(b)
    keep = len(scores.df) * coordinates.n * len(index) <= KEPT_NUMBERS
    wanted = np.arange(len(scores.df)) if keep else np.unique(index)
    coefs = at(wanted)
    intercepts = xp.stack([coordinates.intercept(coefs[j, :, :], b) for j in range(len(wanted))])
    picked = np.searchsorted(wanted, index)
    return PathSolution(
        coef=xp.stack([coefs[int(j), :, t] for t, j in enumerate(picked)], axis=1),
        intercept=xp.stack([intercepts[int(j), t] for t, j in enumerate(picked)]),
        b=b,
        solver=solver,
        index=index,
        criterion=scores.criterion,
        df=scores.df,
        coefs=coefs if keep else None,
        intercepts=intercepts if keep else None,
    )
