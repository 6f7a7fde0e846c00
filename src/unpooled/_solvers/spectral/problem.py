"""One regression with checked arguments, the facts about it for the routes, and the steps that routes share.

**Products.** Iterative filters at one λ take t passes over the matrix instead of a decomposition. With x ↦ (1/κ²)·A x
the step operator, both iterations solve A a = v from a = 0:

    Landweber   a ← a + η (v - A a)
    ν-method    a ← a + μ_k (a - a_old) + ω_k η (v - A a)        (Engl, Hanke and Neubauer 1996, §6.3)

so that a = g_λ(A) v after the number of steps that belongs to λ.
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

_CoefficientsAt = Callable[[np.ndarray], Array]  # positions on the grid -> (len, N, T)


@dataclass(frozen=True)
class Job:
    """The facts about a regression that decide its route; a plan and a fit describe it in the same way.

    ``criterion`` is None if one λ is given; else λ is chosen among ``n_lams``.
    """

    n: int
    d: int
    itemsize: int = 8
    library: str = "numpy"  #: "numpy", "torch" or "other"
    criterion: str | None = None
    n_lams: int = 1
    targets: int = 1
    ridge_times: int = 1  #: the number of ridge solves in the filter, or 0 if it has none
    steps: int | None = None  #: of the iteration that equals the filter at the given λ, if there is one
    positive_definite: bool = True
    by_columns: bool = False  #: whether columns of the kernel matrix can be computed one by one
    cores: int = 1

    @property
    def single(self) -> bool:
        """Return whether the rows are of single precision."""
        return self.itemsize == 4

    @property
    def matrix(self) -> float:
        """The bytes of the kernel matrix."""
        return self.itemsize * float(self.n) ** 2

    @property
    def decomposition(self) -> float:
        """The bytes that a decomposition or a reduction holds at its peak, the kernel matrix included."""
        return (3.0 if self.library == "numpy" else 6.0) * self.matrix


@dataclass
class Problem:
    """One regression: data, kernel and filter, all checked. ``weights`` None means equal weights."""

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
        """The number of ridge solves in the filter; 0 if it does not consist of them."""
        return self.filter.ridge_times

    def job(self, criterion: str | None = None, lams: Floats | None = None) -> Job:
        """Return the facts by which routes decide."""
        steps: int | None = None
        if self.filter.has_steps:
            one_lam = criterion is None and lams is not None
            steps = self.filter.iterations(float(lams[0]), self.kappa_sq) if one_lam and lams is not None else 0
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
        """Return M and its coordinates, if there is room for the bytes that the route needs."""
        self.require(job, needed)
        return build_dense(self.kernel(self.X), self.weights, self.center)

    def require(self, job: Job, needed: float) -> None:
        """Raise a MemoryError of one sentence now for work that would run out of memory later."""
        less = f"one given lam with filter='tikhonov' needs {format_size(job.matrix)}, " if needed > job.matrix else ""
        memory.require(
            needed,
            self.X,
            f"an exact fit to {self.n} rows",
            f"{less}NystromRegressor and AveragedRegressor need less; unpooled.plan(X, y) says how much",
        )


@dataclass
class Solution:
    """The function f = Σ c_i K_{x_i} + intercept: coefficients c (N, T), intercepts (T,), and its route.

    ``b`` is the intercept beside the centred kernel, the mean of y.
    """

    coef: Array
    intercept: Array
    b: Array
    solver: str


@dataclass
class PathSolution(Solution):
    """The chosen solution and its path. ``coefs`` (L, N, T) is None if it was not computed or is too large to keep."""

    index: np.ndarray
    criterion: Floats
    df: Floats
    coefs: Array | None = field(repr=False)
    intercepts: Array | None = field(repr=False)


def assemble(
    coordinates: Coordinates, b: Array, scores: criteria.Scores, index: np.ndarray, at: _CoefficientsAt, solver: str
) -> PathSolution:
    """Return the chosen coefficients, with those of the whole path if they are few enough to keep."""
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
    """Return g_λ(A) v with A = M/N, by t matrix products."""
    t = filter.iterations(lam, kappa_sq)
    assert t is not None
    step = 1.0 / (kappa_sq * M.shape[0])
    a_old = a = 0.0 * v
    for mu, omega in filter.steps(t):
        gradient = kappa_sq**-1 * v - step * (M @ a)
        a, a_old = a + mu * (a - a_old) + omega * gradient, a
    return a


def ridge_iterations(times: int, solve: cholesky.Solve, v: Array, lam: float, n: int) -> Array:
    """Return g_λ(A)v for (iterated) Tikhonov from a solver of M + NλI: a ← N (M + NλI)⁻¹ (v + λa) from a = 0.

    Each of the ``times`` steps is ridge regression on the residual, a ← a + (A+λ)⁻¹(v - Aa), without a product with A.
    """
    if times < 1:
        raise ValueError("the filter does not consist of ridge solves")
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
    """Return the coefficients of the i-th λ."""
    (g, g0), _ = filtered
    return coordinates.coefficients(decomposition.apply(g[i], g0[i], projected))
