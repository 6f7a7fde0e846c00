"""A whole path of λ and the choice on it, by the cheapest route that is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from .. import selection
from ..arrays import Array, is_numpy, namespace
from ..filters import Floats
from . import banded, refine
from .decomposition import Decomposition, eigh
from .fit import LARGE, Problem, Solution, coefficients, ridge_iterations, thin_decomposition
from .operator import Coordinates, dense

KEPT_NUMBERS = 1 << 25  # the coefficients of a whole path are kept up to 256 MiB
BANDED_FROM = 3000  # rows from which a reduction to banded form beats an eigendecomposition

Folds = Iterable[tuple[np.ndarray, np.ndarray]]
CoefficientsAt = Callable[[np.ndarray], Array]  # positions on the grid -> (len, N, T)


@dataclass
class PathSolution(Solution):
    """The chosen solution, and the path. ``coefs`` (L, N, T) is None where it was too large to keep."""

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
    M, coordinates = problem.dense()
    if solver == "mixed" or (solver == "auto" and problem.n >= LARGE and mixed_is_possible(problem)):
        found = _mixed(problem, M, coordinates, lams, criterion, per_target)
        if found is not None:
            return found
    if solver == "banded" or (solver == "auto" and problem.n >= BANDED_FROM and banded_is_possible(problem)):
        return _banded(problem, M, coordinates, lams, criterion, per_target)
    return _by_decomposition(
        problem, eigh(M, problem.n, problem.kappa_sq), coordinates, lams, criterion, per_target, "eigh"
    )


def mixed_is_possible(problem: Problem) -> bool:
    """A ridge filter on float64 NumPy arrays."""
    return bool(problem.ridge_times and is_numpy(problem.X) and problem.X.dtype == np.float64)


def banded_is_possible(problem: Problem) -> bool:
    """Plain Tikhonov on NumPy arrays."""
    return problem.ridge_times == 1 and is_numpy(problem.X)


def _by_folds(problem: Problem, lams: Floats, per_target: bool, folds: Folds) -> PathSolution:
    K = problem.kernel(problem.X)
    table = selection.fold_scores(
        K, problem.Y, problem.weights, problem.center, problem.filter, lams, problem.kappa_sq, folds
    )
    M, coordinates = dense(K, problem.weights, problem.center)
    return _by_decomposition(
        problem, eigh(M, problem.n, problem.kappa_sq), coordinates, lams, "gcv", per_target, "eigh", table
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
    v, b = coordinates.targets(problem.Y)
    scores = selection.score_path(
        criterion, decomposition, v, problem.filter, lams, problem.kappa_sq, coordinates.leverage_of_mean(v)
    )
    if table is not None:
        scores.criterion = table

    def at(wanted: np.ndarray) -> Array:
        return xp.stack([coefficients(problem, decomposition, coordinates, v, float(lams[i])) for i in wanted])

    index = selection.best_index(scores.criterion, lams, per_target)
    return _assemble(coordinates, b, scores, index, at, solver)


def _banded(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, lams: Floats, criterion: str, per_target: bool
) -> PathSolution:
    """Tikhonov from the reduction to banded form, in the precision of the data."""
    v, b = coordinates.targets(problem.Y)
    reduced = banded.reduce(M)
    scores = selection.score_ridge(criterion, reduced, v, lams, coordinates.leverage_of_mean(v))

    def at(wanted: np.ndarray) -> np.ndarray:
        def solution(lam: float) -> np.ndarray:
            return problem.n * reduced.solve(np.full(v.shape[1], problem.n * lam), v)

        return np.stack([coordinates.coefficients(solution(float(lams[i]))) for i in wanted])

    index = selection.best_index(scores.criterion, lams, per_target)
    return _assemble(coordinates, b, scores, index, at, "banded")


def _mixed(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, lams: Floats, criterion: str, per_target: bool
) -> PathSolution | None:
    """The ridge path with λ chosen in single precision and coefficients in double; None where that is not safe.

    Single precision scores the regression of a kernel matrix that differs by about eps·‖M‖. Below eps·‖A‖ that is no
    longer small against λ: a choice down there, or beside a λ that single precision cannot score, is left to double.
    """
    n = problem.n
    v, b = coordinates.targets(problem.Y)
    scores, rough = _scores_in_single(problem, M, coordinates, v, lams, criterion)
    index = selection.best_index(scores.criterion, lams, per_target)
    scored = np.all(np.isfinite(scores.criterion), axis=1)
    floor = float(lams[scored].min()) if np.any(scored) else np.inf
    limit = max(np.finfo(np.float32).eps * np.linalg.norm(M) / n, 0.0 if np.all(scored) else 1.001 * floor)
    if np.any(lams[index] < limit):
        return None
    n_targets = v.shape[1]

    def at(wanted: np.ndarray) -> np.ndarray:
        # One column for every λ and target, all solved by the same products.
        lam = np.repeat(lams[wanted], n_targets)
        reached = np.ones(len(lam), dtype=bool)

        def solve(V: np.ndarray) -> np.ndarray:
            solution, done = refine.solve_shifted(M, n * lam, V, rough, n * floor)
            reached[~done] = False
            return solution

        a = ridge_iterations(problem.ridge_times, solve, np.tile(v, (1, len(wanted))), lam, n)
        a[:, ~reached] = np.nan  # a λ that did not converge is not predicted with
        return np.moveaxis(coordinates.coefficients(a).reshape(n, len(wanted), n_targets), 1, 0)

    found = _assemble(coordinates, b, scores, index, at, "mixed")
    return found if np.all(np.isfinite(found.coef)) else None


def _scores_in_single(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, v: np.ndarray, lams: Floats, criterion: str
) -> tuple[selection.Scores, refine.Rough]:
    """The path's scores in float32, and the factorisation they came from."""
    size = max(float(np.abs(v).max()), float(np.finfo(np.float32).tiny))  # labels of any scale fit single precision
    v32 = (v / size).astype(np.float32)
    leverage = coordinates.leverage_of_mean(v32)
    leverage = leverage if isinstance(leverage, float) else leverage.astype(np.float32)
    M32 = M.astype(np.float32)
    rough: refine.Rough
    if problem.n >= BANDED_FROM and banded_is_possible(problem):
        reduced = banded.reduce(M32)
        scores, rough = selection.score_ridge(criterion, reduced, v32, lams, leverage), reduced
    else:
        decomposition = eigh(M32, problem.n, problem.kappa_sq)
        scores = selection.score_path(criterion, decomposition, v32, problem.filter, lams, problem.kappa_sq, leverage)
        rough = refine.SpectralInverse(decomposition)
    scores.criterion *= size**2
    return scores, rough


def _assemble(
    coordinates: Coordinates, b: Array, scores: selection.Scores, index: np.ndarray, at: CoefficientsAt, solver: str
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
