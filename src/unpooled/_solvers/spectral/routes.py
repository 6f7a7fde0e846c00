"""The routes of a regression on one machine; solver="auto" takes the first that can do the job and is worth it.

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

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from ..._base import memory
from ..._base.arrays import Array, Floats, namespace
from ..._linalg import banded, cholesky, refine
from ..._linalg.banded import BLOCK, PANELS_PER_COPY
from ..._linalg.low_rank import decompose
from ..._linalg.operator import Coordinates, Decomposition, build_dense, eigh
from ...kernels.base import DEVICE_ELEMENTS
from .. import route
from ..route import OF_A_THREAD, SKINNY, Cost, Memory
from . import criteria
from .criteria import filter_path
from .problem import (
    Job,
    PathSolution,
    Problem,
    Solution,
    assemble,
    coefficients_at,
    iterate,
    ridge_iterations,
)

LARGE = 1000  # from this many rows on, the low-rank and mixed routes are worth it
PASSES_PER_ROW = 0.125  # a decomposition takes about as long as N/8 matrix products
OF_LOW_RANK = 4  # columns as long as 𝕂 that the low-rank route holds for each of its own at its peak
BANDED_FROM = 3000  # from this many rows on, a reduction to banded form is faster than an eigendecomposition
REDUCTION, ORTHOGONAL, DIAGONAL = 0.5, 0.75, 0.35  # speeds of the banded form relative to a matrix product
EIGH = 9.0  # N³ operations of an eigendecomposition, at the speed of a matrix product
EIGH_ON_DEVICE = {False: 45.0, True: 20.0}  # the same count on a GPU, in double and in single precision
CALL = 1e-5  # seconds of a small product in the banded form, whatever its size
OF_A_ROW = 2048  # bytes of vectors, and of the first columns of a pivoted factor

Folds = Iterable[tuple[np.ndarray, np.ndarray]]


@dataclass
class _Work:
    """A regression that is to be solved: one λ without a criterion, else a choice among many."""

    problem: Problem
    lams: Floats
    criterion: str | None = None
    per_target: bool = False
    folds: Folds = ()
    named: bool = False  #: whether the user named the route
    _matrix: tuple[Array, Coordinates] | None = None

    def matrix(self, needed: float) -> tuple[Array, Coordinates]:
        """Return M and its coordinates if there is room for so many bytes; made once for all routes that are tried."""
        if self._matrix is None:
            self._matrix = self.problem.dense(self.job, needed)
        return self._matrix

    @cached_property
    def job(self) -> Job:
        """Return the facts by which routes decide."""
        return self.problem.job(self.criterion, self.lams)


class _Route(route.Route[Job, _Work, Solution]):
    """A method from data to coefficients."""

    certain = True  #: whether it is known to succeed before it has seen the numbers


class LowRankRoute(_Route):
    """A route by a certified pivoted Cholesky factor; the kernel matrix is never formed."""

    name, certain = "low-rank", False

    def can_do(self, job: Job) -> bool:
        return job.criterion != "cv"

    def pays(self, job: Job) -> bool:
        return self._certifies(job) and job.n >= LARGE

    def memory(self, job: Job) -> Memory:
        """Return the memory for as many columns as are worth it; fewer are tried if there is no room for them."""
        columns = float(self._of_column(job) * self.columns(job))
        return Memory(columns, columns + _bytes_beside(job), columns + _bytes_beside(job))

    def seconds(self, job: Job, cost: Cost) -> float:
        """Return the seconds for as many columns as are worth it: values, factor, QR and one solution per λ."""
        columns = self.columns(job)
        values = float(job.n) * columns * cost.value(job.single)
        return values + (6.0 * columns + 4.0 * job.n_lams) * job.n * columns * cost.operation(job.single) / SKINNY

    def solve(self, work: _Work) -> Solution | None:
        problem = work.problem
        thin = self.decomposition(problem, float(work.lams.min()), work.named)
        if thin is None:
            if work.named:
                raise ValueError(
                    "solver='low-rank' cannot be certified for this kernel and lam: use solver='auto', which falls back"
                )
            return None
        return _solve_by_decomposition(work, *thin, self.name)

    def columns(self, job: Job) -> int:
        """Return the largest number of columns that is worth it."""
        return max(1, job.n // 8)

    def decomposition(
        self, problem: Problem, lam: float, named: bool = False
    ) -> tuple[Decomposition, Coordinates] | None:
        """Return a certified low-rank decomposition for every λ' ≥ λ if there is one and it is worth it, else None.

        If the user named the route it is tried however few rows there are, and with up to as many columns as rows.
        """
        job = problem.job()
        if not (self._certifies(job) if named else self.pays(job)):
            return None
        most = memory.affordable(job.n if named else self.columns(job), self._of_column(job), problem.X)
        return decompose(problem.kernel, problem.X, problem.weights, problem.center, lam, most)

    @staticmethod
    def _certifies(job: Job) -> bool:
        return job.library == "numpy" and job.by_columns and job.positive_definite

    @staticmethod
    def _of_column(job: Job) -> int:
        """Return the bytes that a column takes at its peak."""
        return OF_LOW_RANK * job.n * job.itemsize


class CholeskyRoute(_Route):
    """A route to one λ of (iterated) ridge regression, by a factor in the memory of the matrix."""

    name = "cholesky"

    def can_do(self, job: Job) -> bool:
        return job.criterion is None and job.ridge_times > 0

    def pays(self, job: Job) -> bool:
        return True

    def memory(self, job: Job) -> Memory:
        n, s = float(job.n), job.itemsize
        matrices = cholesky.count_matrices(job.library, job.n) * job.matrix
        if job.library == "numpy":
            peak = s * n * n + _bytes_beside(job)
        else:
            peak = matrices + s * (3.0 * cholesky.PANEL * n + 2.0 * min(n * n, DEVICE_ELEMENTS))
        return Memory(matrices, peak, peak)

    def seconds(self, job: Job, cost: Cost) -> float:
        return cost.ridge(job.n, job.single)

    def solve(self, work: _Work) -> Solution:
        problem, lam = work.problem, float(work.lams[0])
        M, coordinates = work.matrix(self.memory(work.job).matrices)
        v, b = coordinates.targets(problem.Y, problem.X.dtype)
        solve = cholesky.factor(M, problem.n * lam)
        c = coordinates.coefficients(ridge_iterations(problem.ridge_times, solve, v, lam, problem.n))
        return Solution(c, coordinates.intercept(c, b), b, self.name)


class _ProductsRoute(_Route):
    """A route to one λ of an iterative filter, by one product with the matrix per step."""

    name = "products"

    def can_do(self, job: Job) -> bool:
        return job.criterion is None and job.steps is not None

    def pays(self, job: Job) -> bool:
        # An iteration would diverge on a matrix that is not positive semi-definite; eigh reports it.
        return job.steps is not None and job.steps <= PASSES_PER_ROW * job.n and job.positive_definite

    def memory(self, job: Job) -> Memory:
        return Memory(job.matrix, job.matrix + _bytes_beside(job), job.matrix + _bytes_beside(job))

    def seconds(self, job: Job, cost: Cost) -> float:
        product = 2.0 * float(job.n) ** 2 * job.targets * cost.operation(job.single) / SKINNY
        return cost.matrix(job.n, job.single) + (job.steps or 0) * product

    def solve(self, work: _Work) -> Solution:
        problem = work.problem
        M, coordinates = work.matrix(self.memory(work.job).matrices)
        v, b = coordinates.targets(problem.Y, problem.X.dtype)
        c = coordinates.coefficients(iterate(problem.filter, M, v, float(work.lams[0]), problem.kappa_sq))
        return Solution(c, coordinates.intercept(c, b), b, self.name)


class _MixedRoute(_Route):
    """A route to the ridge path with λ chosen in single precision and coefficients in double, where that is safe.

    Single-precision scores belong to a kernel matrix that differs by about eps·‖M‖. Below eps·‖A‖ that is no longer
    small compared with λ. If the grid goes below, the choice is trusted only if the scores have clearly risen again
    before that limit; else it is left to double precision.
    """

    name = "mixed"

    def can_do(self, job: Job) -> bool:
        ridge = job.ridge_times == 1 and job.criterion in ("loo", "gcv")
        return ridge and job.library == "numpy" and not job.single

    def pays(self, job: Job) -> bool:
        return job.n >= LARGE

    def memory(self, job: Job) -> Memory:
        beside = _beside_reduction(job) if _uses_reduction(job) else _beside_eigenvectors(job)
        peak = job.matrix + 4.0 * (float(job.n) ** 2 + beside) + _bytes_beside(job)
        # If single precision cannot tell which λ is best, the whole is repeated in double.
        return Memory(job.decomposition, peak, max(peak, job.decomposition + _bytes_beside(job)))

    def seconds(self, job: Job, cost: Cost) -> float:
        refined = 10 * 8.0 * float(job.n) * job.n / cost.rates.bandwidth
        scores = (_seconds_by_reduction if _uses_reduction(job) else _seconds_by_eigenvectors)(
            job, cost.operation(True)
        )
        return cost.matrix(job.n, job.single) + scores + refined

    def solve(self, work: _Work) -> PathSolution | None:
        problem, lams, n = work.problem, work.lams, work.problem.n
        M, coordinates = work.matrix(self.memory(work.job).matrices)
        v, b = coordinates.targets(problem.Y, problem.X.dtype)
        size = max(float(np.abs(v).max()), float(np.finfo(float).tiny))  # labels of any scale fit single precision
        scores, rough = self._scores_in_single(work, M, coordinates, v / size)
        trusted = np.all(np.isfinite(scores.criterion), axis=1)
        trusted &= lams >= np.finfo(np.float32).eps * np.linalg.norm(M) / n
        if not np.any(trusted):
            return None
        index = criteria.best_index(scores.criterion, lams, work.per_target)
        if not np.all(trusted) and not criteria.has_risen(scores.criterion, lams, index, trusted):
            return None
        solution, reached = refine.solve_shifted(M, n * lams[index], v, rough)
        if not np.all(reached):
            return None
        c = coordinates.coefficients(n * solution)
        scores.criterion[~trusted], scores.df[~trusted] = np.nan, np.nan
        scores.criterion *= size**2
        return PathSolution(
            c, coordinates.intercept(c, b), b, self.name, index, scores.criterion, scores.df, None, None
        )

    def _scores_in_single(
        self, work: _Work, M: np.ndarray, coordinates: Coordinates, v: np.ndarray
    ) -> tuple[criteria.Scores, refine.ApproximateInverse]:
        """Return the path's scores in float32, and the factorisation from which they came."""
        problem, criterion, lams = work.problem, cast(str, work.criterion), work.lams
        v32 = v.astype(np.float32)
        leverage = coordinates.leverage_of_mean(v32)
        leverage = leverage if isinstance(leverage, float) else leverage.astype(np.float32)
        M32 = M.astype(np.float32)
        if _uses_reduction(work.job):
            reduced = banded.reduce(M32)
            return criteria.score_ridge(criterion, reduced, v32, lams, leverage), reduced
        full = eigh(M32, problem.n, problem.kappa_sq)
        filtered = filter_path(problem.filter, full, lams, problem.kappa_sq)
        scores = criteria.score_path(criterion, full, v32, filtered, leverage)
        return scores, refine.SpectralInverse(full)


class _BandedRoute(_Route):
    """A route to the ridge path by the reduction to banded form, in the precision of the data."""

    name = "banded"

    def can_do(self, job: Job) -> bool:
        ridge = job.ridge_times == 1 and job.criterion in ("loo", "gcv")
        return ridge and job.library == "numpy" and job.positive_definite

    def pays(self, job: Job) -> bool:
        return job.n >= BANDED_FROM

    def memory(self, job: Job) -> Memory:
        peak = job.matrix + job.itemsize * _beside_reduction(job) + _bytes_beside(job)
        return Memory(job.decomposition, peak, max(peak, job.decomposition + _bytes_beside(job)))

    def seconds(self, job: Job, cost: Cost) -> float:
        return cost.matrix(job.n, job.single) + _seconds_by_reduction(job, cost.operation(job.single))

    def solve(self, work: _Work) -> Solution:
        problem, lams = work.problem, work.lams
        M, coordinates = work.matrix(self.memory(work.job).matrices)
        v, b = coordinates.targets(problem.Y, problem.X.dtype)
        reduced = banded.reduce(M)
        scores = criteria.score_ridge(cast(str, work.criterion), reduced, v, lams, coordinates.leverage_of_mean(v))

        def at(wanted: np.ndarray) -> np.ndarray:
            def solution(lam: float) -> np.ndarray:
                return problem.n * reduced.solve(np.full(v.shape[1], problem.n * lam), v)

            return np.stack([coordinates.coefficients(solution(float(lams[i]))) for i in wanted])

        index = criteria.best_index(scores.criterion, lams, work.per_target)
        return assemble(coordinates, b, scores, index, at, self.name)


class _EigenRoute(_Route):
    """A route to any filter and any criterion, by a full decomposition."""

    name = "eigh"

    def can_do(self, job: Job) -> bool:
        return True

    def pays(self, job: Job) -> bool:
        return True

    def memory(self, job: Job) -> Memory:
        """Return the memory of a decomposition; folds also hold their own rows and the rest of the kernel matrix."""
        matrices = job.decomposition + (job.matrix if job.criterion == "cv" else 0.0)
        peak = (
            matrices
            if job.library != "numpy"
            else job.matrix + job.itemsize * _beside_eigenvectors(job) + _bytes_beside(job)
        )
        return Memory(matrices, peak, max(peak, matrices + (_bytes_beside(job) if job.library == "numpy" else 0.0)))

    def seconds(self, job: Job, cost: Cost) -> float:
        operation = cost.operation(job.single)
        if cost.device:
            return cost.matrix(job.n, job.single) + EIGH_ON_DEVICE[job.single] * float(job.n) ** 3 * operation
        return cost.matrix(job.n, job.single) + _seconds_by_eigenvectors(job, operation)

    def solve(self, work: _Work) -> Solution:
        problem, needed, table = work.problem, self.memory(work.job).matrices, None
        if work.criterion == "cv":
            problem.require(work.job, needed)
            K = problem.kernel(problem.X)
            table = criteria.fold_scores(
                K, problem.Y, problem.weights, problem.center, problem.filter, work.lams, problem.kappa_sq, work.folds
            )
            M, coordinates = build_dense(K, problem.weights, problem.center)
        else:
            M, coordinates = work.matrix(needed)
        decomposition = eigh(M, problem.n, problem.kappa_sq)
        return _solve_by_decomposition(work, decomposition, coordinates, self.name, table)


LOW_RANK, CHOLESKY, PRODUCTS, MIXED, BANDED, EIGEN = (
    LowRankRoute(),
    CholeskyRoute(),
    _ProductsRoute(),
    _MixedRoute(),
    _BandedRoute(),
    _EigenRoute(),
)
ROUTES: tuple[_Route, ...] = (LOW_RANK, CHOLESKY, PRODUCTS, MIXED, BANDED, EIGEN)
SOLVERS = ("auto", *(way.name for way in ROUTES))


def routes_for(job: Job) -> list[_Route]:
    """Return the routes that solver="auto" tries, one after another until one succeeds."""
    return [way for way in ROUTES if way.can_do(job) and way.pays(job)]


def can_serve(solver: str, problem: Problem, criterion: str | None) -> bool:
    """Return whether a solver of SOLVERS can do the job; ``criterion`` None is one given λ."""
    return all(way.can_do(problem.job(criterion)) for way in ROUTES if way.name == solver)


def fit_one(problem: Problem, lam: float, solver: str = "auto") -> Solution:
    """Solve the regression at one λ."""
    return _solve(_Work(problem, np.asarray([lam]), named=solver != "auto"), solver)


def fit_path(
    problem: Problem,
    lams: Floats,
    criterion: str,
    per_target: bool = False,
    solver: str = "auto",
    folds: Folds = (),
) -> PathSolution:
    """Solve for every λ of a grid, and choose the one (or one per target) with the lowest score."""
    work = _Work(problem, lams, criterion, per_target, folds, solver != "auto")
    return cast(PathSolution, _solve(work, solver))


def _solve(work: _Work, solver: str) -> Solution:
    """Solve by the named route, or the first that succeeds; an eigendecomposition always does."""
    named = [way for way in ROUTES if way.name == solver]
    for way in [*named, EIGEN] if named else routes_for(work.job):
        solution = way.solve(work)
        if solution is not None:
            return solution
    raise AssertionError("an eigendecomposition can do every job")


def _solve_by_decomposition(
    work: _Work, decomposition: Decomposition, coordinates: Coordinates, solver: str, table: Floats | None = None
) -> Solution:
    """Solve with any filter from a full or thin decomposition; ``table`` holds scores that are known already."""
    problem, lams = work.problem, work.lams
    xp = namespace(problem.Y)
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    filtered = filter_path(problem.filter, decomposition, lams, problem.kappa_sq)
    if work.criterion is None:
        c = coefficients_at(decomposition, coordinates, decomposition.project(v), filtered, 0)
        return Solution(c, coordinates.intercept(c, b), b, solver)
    leverage = coordinates.leverage_of_mean(v)
    if table is None:
        scores = criteria.score_path(work.criterion, decomposition, v, filtered, leverage)
    else:
        scores = criteria.Scores(table, criteria.degrees_of_freedom(decomposition, filtered, leverage))

    def at(wanted: np.ndarray) -> Array:
        projected = decomposition.project(v)
        return xp.stack([coefficients_at(decomposition, coordinates, projected, filtered, int(i)) for i in wanted])

    index = criteria.best_index(scores.criterion, lams, work.per_target)
    return assemble(coordinates, b, scores, index, at, solver)


def _bytes_beside(job: Job) -> float:
    """Return the bytes of all threads and of vectors with an entry per row."""
    return float(job.cores * OF_A_THREAD) + job.n * float(OF_A_ROW + job.d * job.itemsize)


def _uses_reduction(job: Job) -> bool:
    """Return whether single precision takes the banded form for its scores; else it takes an eigendecomposition."""
    return BANDED.can_do(job) and BANDED.pays(job)


def _beside_eigenvectors(job: Job) -> float:
    """Count the numbers that an eigendecomposition holds beside the matrix."""
    return 2.0 * float(job.n) ** 2


def _beside_reduction(job: Job) -> float:
    """Count the numbers beside the matrix: a reduction holds two trailing copies, or a second one and reflectors."""
    n, copied = float(job.n), BLOCK * PANELS_PER_COPY
    return max(max(n - copied, 0.0) ** 2 + max(n - 2 * copied, 0.0) ** 2, 1.5 * n * n)


def _seconds_by_eigenvectors(job: Job, operation: float) -> float:
    """Return the seconds for every λ with its leave-one-out error, by an eigendecomposition."""
    n = float(job.n)
    return (EIGH * n**3 + 4 * job.n_lams * n * n) * operation


def _seconds_by_reduction(job: Job, operation: float) -> float:
    """Return the seconds for every λ with its leave-one-out error, by a reduction to a band."""
    n = float(job.n)
    seconds = 4 / 3 * n**3 * operation * (1 / REDUCTION + 1 / ORTHOGONAL)
    return seconds + job.n_lams * (3 * BLOCK * n * n * operation / DIAGONAL + 10 * n / BLOCK * CALL)
