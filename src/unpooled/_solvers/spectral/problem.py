"""One regression, all checked: what every route works on, and what all of them are made of.

**Products.** Iterative filters at one λ take t passes over the matrix instead of a decomposition. With x ↦ (1/κ²)·A x
the step operator, both iterations solve A a = v from a = 0:

    Landweber   a ← a + η (v - A a)
    ν-method    a ← a + μ_k (a - a_old) + ω_k η (v - A a)        (Engl, Hanke and Neubauer 1996, §6.3)

so that a = g_λ(A) v after the number of steps that λ stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..._base import memory, threads
from ..._base.arrays import Array, Floats, eps, is_numpy, is_torch, namespace
from ..._base.text import size
from ..._linalg import banded, cholesky
from ..._linalg.low_rank import decompose
from ..._linalg.operator import Coordinates, Decomposition, NotPositiveDefinite, dense, eigh
from ...filters import Filter
from ...kernels.base import Kernel
from . import criteria
from .criteria import FilteredSpectrum, filter_path

LARGE = 1000  # rows from which the low-rank and mixed routes pay
PASSES_PER_ROW = 0.125  # a decomposition costs about as much as N/8 matrix products
REDUCED_FROM = 300  # rows from which a reduction without scores beats an eigendecomposition
OF_LOW_RANK = 4  # columns as long as 𝕂 that a column of the low-rank route takes at its peak


KEPT_NUMBERS = 1 << 25  # the coefficients of a whole path are kept up to 256 MiB

CoefficientsAt = Callable[[np.ndarray], Array]  # positions on the grid -> (len, N, T)


@dataclass(frozen=True)
class Job:
    """A regression as far as a choice of the route needs to know it: a plan and a fit describe it alike.

    ``criterion`` is None where one λ is given; else λ is chosen among ``n_lams``.
    """

    n: int
    d: int
    itemsize: int = 8
    library: str = "numpy"  #: "numpy", "torch" or "other"
    criterion: str | None = None
    n_lams: int = 1
    targets: int = 1
    ridge_times: int = 1  #: how many ridge solves the filter is made of, or 0
    steps: int | None = None  #: of an iteration that is known to be the filter at the λ that is given
    positive_definite: bool = True
    by_columns: bool = False  #: whether a column of the kernel matrix can be had by itself
    cores: int = 1

    @property
    def single(self) -> bool:
        """Whether the rows are of single precision."""
        return self.itemsize == 4

    @property
    def matrix(self) -> float:
        """Bytes of the kernel matrix."""
        return self.itemsize * float(self.n) ** 2

    @property
    def decomposition(self) -> float:
        """Bytes that a decomposition or a reduction holds at its peak, the kernel matrix included."""
        return (3.0 if self.library == "numpy" else 6.0) * self.matrix


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

    def job(self, criterion: str | None = None, lams: Floats | None = None) -> Job:
        """What the routes are asked about."""
        steps: int | None = None
        if self.filter.has_steps:
            given = criterion is None and lams is not None
            steps = self.filter.iterations(float(lams[0]), self.kappa_sq) if given and lams is not None else 0
        return Job(
            self.n,
            int(self.X.shape[1]),
            8 if eps(self.X) < 1e-10 else 4,
            "numpy" if is_numpy(self.X) else "torch" if is_torch(self.X) else "other",
            criterion,
            1 if lams is None else len(lams),
            int(self.Y.shape[1]),
            self.ridge_times,
            steps,
            self.kernel.positive_definite,
            self.kernel.by_columns,
            threads.allowed_threads(),
        )

    def dense(self, job: Job, needed: float) -> tuple[Array, Coordinates]:
        """M and its coordinates, where there is room for so many bytes, which the route needs."""
        self.require(job, needed)
        return dense(self.kernel(self.X), self.weights, self.center)

    def require(self, job: Job, needed: float) -> None:
        """Refuse now, and in a sentence, what would run out of memory later."""
        less = f"one given lam with filter='tikhonov' needs {size(job.matrix)}, " if needed > job.matrix else ""
        memory.require(
            needed,
            self.X,
            f"an exact fit to {self.n} rows",
            f"{less}NystromRegressor and AveragedRegressor need less; unpooled.plan(X, y) says how much",
        )


def ridge_times(filter: Filter) -> int:
    """How many ridge solves a filter is made of; 0 where it is not made of them."""
    return filter.ridge_times


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
    """The chosen solution, and the path. ``coefs`` (L, N, T) is None where it was not computed or too large to keep."""

    index: np.ndarray
    criterion: Floats
    df: Floats
    coefs: Array | None = field(repr=False)
    intercepts: Array | None = field(repr=False)


def assemble(
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


def iterate(filter: Filter, M: Array, v: Array, lam: float, kappa_sq: float) -> Array:
    """g_λ(A) v with A = M/N, by t matrix products."""
    t = filter.iterations(lam, kappa_sq)
    assert t is not None
    step = 1.0 / (kappa_sq * M.shape[0])
    a_old = a = 0.0 * v
    for mu, omega in filter.steps(t):
        gradient = kappa_sq**-1 * v - step * (M @ a)
        a, a_old = a + mu * (a - a_old) + omega * gradient, a
    return a


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


def thin_decomposition(
    problem: Problem, lam: float, max_rank: int | None = None
) -> tuple[Decomposition, Coordinates] | None:
    """A certified low-rank decomposition for every λ' ≥ λ where there is one and it pays, else None.

    With a ``max_rank`` it is looked for however few rows there are.
    """
    if not (is_numpy(problem.X) and problem.kernel.by_columns and problem.kernel.positive_definite):
        return None
    if max_rank is None:
        if problem.n < LARGE:
            return None
        max_rank = problem.n // 8
    max_rank = memory.affordable(max_rank, low_rank_column(problem.job()), problem.X)
    return decompose(problem.kernel, problem.X, problem.weights, problem.center, lam, max_rank)


def low_rank_column(job: Job) -> int:
    """Bytes that a column of the low-rank route takes at its peak."""
    return OF_LOW_RANK * job.n * job.itemsize


def full_decomposition(problem: Problem) -> tuple[Decomposition, Coordinates]:
    """The eigendecomposition of the kernel matrix."""
    job = problem.job()
    M, coordinates = problem.dense(job, job.decomposition)
    return eigh(M, problem.n, problem.kappa_sq), coordinates


def coefficients_along(
    problem: Problem, lams: Floats, thin: tuple[Decomposition, Coordinates] | None
) -> Iterator[tuple[Array, Array]]:
    """(coefficients, intercepts) for one λ after the other, from a thin decomposition or, where there is none, a full
    one."""
    decomposition, coordinates = thin or full_decomposition(problem)
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    filtered = filter_path(problem.filter, decomposition, lams, problem.kappa_sq)
    projected = decomposition.project(v)
    for i in range(len(lams)):
        c = coefficients_at(decomposition, coordinates, projected, filtered, i)
        yield c, coordinates.intercept(c, b)


def coefficients_at(
    decomposition: Decomposition,
    coordinates: Coordinates,
    projected: tuple[Array, Array | None],
    filtered: FilteredSpectrum,
    i: int,
) -> Array:
    """The coefficients of the i-th λ."""
    (g, g0), _ = filtered
    return coordinates.coefficients(decomposition.apply(g[i], g0[i], projected))


def path_scores(problem: Problem, lams: Floats, criterion: str) -> criteria.Scores:
    """Leave-one-out or GCV of every λ in the precision of the data, from a decomposition made for the purpose."""
    decomposition, coordinates = thin_decomposition(problem, float(lams.min())) or full_decomposition(problem)
    v, _ = coordinates.targets(problem.Y, problem.X.dtype)
    filtered = filter_path(problem.filter, decomposition, lams, problem.kappa_sq)
    return criteria.score_path(criterion, decomposition, v, filtered, coordinates.leverage_of_mean(v))


def path_coefficients(problem: Problem, lams: Floats) -> Iterator[tuple[Array, Array]]:
    """(coefficients, intercepts) for one λ after the other, from a decomposition made for the purpose."""
    return coefficients_along(problem, lams, thin_decomposition(problem, float(lams.min())))


def coefficients_without_scores(problem: Problem, lams: Floats, single: bool = False) -> tuple[Array, Array]:
    """c (L, N, T) and intercepts (L, T). ``single`` factorises in float32; λ it cannot resolve come out as NaN.

    Validation on other rows needs the coefficients of every λ and no leave-one-out diagonal. Plain and iterated
    Tikhonov then never need the orthogonal matrix Q of the banded form (:mod:`unpooled._linalg.banded`), only its
    action on the labels, which saves half of the operations.
    """
    xp = namespace(problem.X)
    able = problem.ridge_times > 0 and is_numpy(problem.X) and problem.kernel.positive_definite
    thin = thin_decomposition(problem, float(lams.min()))
    if thin is None and able and problem.n >= REDUCED_FROM:
        job = problem.job()
        M, coordinates = problem.dense(job, job.decomposition)
        return _by_reduction(problem, M.astype(np.float32) if single else M, coordinates, lams)
    found = list(coefficients_along(problem, lams, thin))
    return xp.stack([c for c, _ in found]), xp.stack([b for _, b in found])


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
