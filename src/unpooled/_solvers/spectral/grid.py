"""Every λ of a grid at once, without a choice: coefficients or scores from a decomposition for this purpose.

A path that is used after the fit needs them, and so do averages, which score the candidates on other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ..._base.arrays import Array, Floats, is_numpy, namespace
from ..._linalg import banded
from ..._linalg.operator import Coordinates, Decomposition, NotPositiveDefinite, eigh
from . import criteria
from .criteria import filter_path
from .problem import Problem, coefficients_at, ridge_iterations
from .routes import LOW_RANK

REDUCED_FROM = 300  # from this many rows on, a reduction without scores is faster than an eigendecomposition


def _full_decomposition(problem: Problem) -> tuple[Decomposition, Coordinates]:
    """Return the eigendecomposition of the kernel matrix."""
    job = problem.job()
    M, coordinates = problem.dense(job, job.decomposition)
    return eigh(M, problem.n, problem.kappa_sq), coordinates


def _coefficients_along(
    problem: Problem, lams: Floats, thin: tuple[Decomposition, Coordinates] | None
) -> Iterator[tuple[Array, Array]]:
    """Give (coefficients, intercepts) for each λ, from a thin decomposition or, if there is none, a full one."""
    decomposition, coordinates = thin or _full_decomposition(problem)
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    filtered = filter_path(problem.filter, decomposition, lams, problem.kappa_sq)
    projected = decomposition.project(v)
    for i in range(len(lams)):
        c = coefficients_at(decomposition, coordinates, projected, filtered, i)
        yield c, coordinates.intercept(c, b)


def path_scores(problem: Problem, lams: Floats, criterion: str) -> criteria.Scores:
    """Return leave-one-out or GCV scores of every λ in the precision of the data, from a decomposition for them."""
    decomposition, coordinates = LOW_RANK.decomposition(problem, float(lams.min())) or _full_decomposition(problem)
    v, _ = coordinates.targets(problem.Y, problem.X.dtype)
    filtered = filter_path(problem.filter, decomposition, lams, problem.kappa_sq)
    return criteria.score_path(criterion, decomposition, v, filtered, coordinates.leverage_of_mean(v))


def path_coefficients(problem: Problem, lams: Floats) -> Iterator[tuple[Array, Array]]:
    """Give (coefficients, intercepts) for each λ, from a decomposition for them."""
    return _coefficients_along(problem, lams, LOW_RANK.decomposition(problem, float(lams.min())))


def coefficients_without_scores(problem: Problem, lams: Floats, single: bool = False) -> tuple[Array, Array]:
    """Return c (L, N, T) and intercepts (L, T). ``single`` factorises in float32; λ it cannot resolve become NaN.

    Validation on other rows needs the coefficients of every λ but no leave-one-out diagonal. Plain and iterated
    Tikhonov then never need the orthogonal matrix Q of the banded form (:mod:`unpooled._linalg.banded`), only its
    action on the labels, which saves half of the operations.
    """
    xp = namespace(problem.X)
    able = problem.ridge_times > 0 and is_numpy(problem.X) and problem.kernel.positive_definite
    thin = LOW_RANK.decomposition(problem, float(lams.min()))
    if thin is None and able and problem.n >= REDUCED_FROM:
        job = problem.job()
        M, coordinates = problem.dense(job, job.decomposition)
        return _by_reduction(problem, M.astype(np.float32) if single else M, coordinates, lams)
    pairs = list(_coefficients_along(problem, lams, thin))
    return xp.stack([c for c, _ in pairs]), xp.stack([b for _, b in pairs])


def _by_reduction(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, lams: Floats
) -> tuple[np.ndarray, np.ndarray]:
    n, dtype = problem.n, M.dtype
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    size = max(float(np.abs(v).max()), float(np.finfo(float).tiny))  # labels of any scale fit single precision
    reduced = banded.reduce_for_solving(M)
    w = reduced.Q.transposed_times((v / size).astype(dtype))
    solutions = np.full((n, len(lams), v.shape[1]), np.nan, dtype=dtype, order="F")
    for i, lam in enumerate(lams):
        mu = float(n * lam)
        try:
            solve = partial(reduced.solve_reduced, mu)  # W ↦ (B + μI)⁻¹ W
            solutions[:, i] = ridge_iterations(problem.ridge_times, solve, w, float(lam), n)
        except NotPositiveDefinite:
            if mu > 1e3 * np.finfo(dtype).eps * reduced.norm:
                raise
    a = reduced.Q.times(solutions.reshape((n, -1), order="F")).reshape((n, len(lams), -1), order="F")
    c = np.stack([coordinates.coefficients(a[:, i].astype(problem.X.dtype) * size) for i in range(len(lams))])
    return c, np.stack([coordinates.intercept(c[i], b) for i in range(len(lams))])
