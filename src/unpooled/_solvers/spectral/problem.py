"""One regression, all checked: what every route works on, and what all of them are made of.

**Products.** Iterative filters at one λ take t passes over the matrix instead of a decomposition. With x ↦ (1/κ²)·A x
the step operator, both iterations solve A a = v from a = 0:

    Landweber   a ← a + η (v - A a)
    ν-method    a ← a + μ_k (a - a_old) + ω_k η (v - A a)        (Engl, Hanke and Neubauer 1996, §6.3)

so that a = g_λ(A) v after the number of steps that λ stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..._base import memory, threads
from ..._base.arrays import Array, Floats, eps, is_numpy, is_torch, namespace
from ..._base.text import format_size
from ..._linalg import cholesky
from ..._linalg.operator import Coordinates, Decomposition, build_dense
from ...filters import Filter
from ...kernels.base import Kernel
from . import criteria
from .criteria import FilteredSpectrum

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
        return self.filter.ridge_times

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
            threads.count_threads(),
        )

    def dense(self, job: Job, needed: float) -> tuple[Array, Coordinates]:
        """M and its coordinates, where there is room for so many bytes, which the route needs."""
        self.require(job, needed)
        return build_dense(self.kernel(self.X), self.weights, self.center)

    def require(self, job: Job, needed: float) -> None:
        """Refuse now, and in a sentence, what would run out of memory later."""
        less = f"one given lam with filter='tikhonov' needs {format_size(job.matrix)}, " if needed > job.matrix else ""
        memory.require(
            needed,
            self.X,
            f"an exact fit to {self.n} rows",
            f"{less}NystromRegressor and AveragedRegressor need less; unpooled.plan(X, y) says how much",
        )


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
