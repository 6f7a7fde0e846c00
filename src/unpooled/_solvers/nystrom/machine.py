"""Machines that sum products of kernel values over rows: their interface, and the one that runs NumPy on all cores.

:class:`Span` has the orthonormal coordinates c = L⁻ᵀa, LLᵀ = 𝕂_zz + εI, of the functions at M points.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from ..._base import threads
from ..._base.arrays import Array, add_to_diagonal, cholesky, fill_lower, is_numpy, namespace, solve_lower, to_numpy
from ..._base.rows import Rows
from ..._linalg.operator import NotFinite, NotPositiveDefinite
from ...bases.maps import KernelMap
from ...kernels.stationary import Stationary

#: Rows per point for the preconditioner, and the rounds that it was then seen to need. With c > 1 rows per point the
#: preconditioned spectrum lies within (1 ± c^(-1/2))², whatever λ is; with one, the rows are the points themselves.
ROUNDS = {1: 40, 2: 20, 4: 12, 8: 8, 16: 6}

GRAM_ROWS = 2048  # rows of a symmetric product: with so many, adding it to the sum takes a twentieth of its time
CACHED = 1 << 20  # kernel values that are computed together
LOOKED_AT = 512  # at this many points, or some more, kernel values are sampled
SOLVING = {False: 5.5, True: 10.0}  # matrices of M × M numbers while all λ are solved for, on cores and on a GPU


EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Span:
    """The space of functions Σ_j c_j K(·, z_j) = aᵀφ with |a|² = cᵀ(𝕂_zz + εI)c."""

    L: Array = field(repr=False)  #: lower triangular, in double precision, on the machine where sums are used
    jitter: float  #: ε

    @classmethod
    def of(cls, K: Array, jitter: float = 0.0) -> Span:
        """Make the span from 𝕂_zz, which is overwritten. ε is at least ``jitter``, and as small as rounding allows."""
        xp = namespace(K)
        size = float(xp.max(xp.linalg.diagonal(K)))
        if not np.isfinite(size) or not bool(xp.all(xp.isfinite(K))):
            raise NotFinite
        jitter, added = max(jitter, 8 * EPS * K.shape[0] * size, float(np.finfo(float).tiny)), 0.0
        while jitter <= 1e-3 * max(size, float(np.finfo(float).tiny)):
            add_to_diagonal(K, jitter - added)
            factor = cholesky(K.copy() if is_numpy(K) else K)  # LAPACK works in place, and another attempt may follow
            if factor is not None:
                return cls(factor, jitter)
            jitter, added = 8 * jitter, jitter
        raise NotPositiveDefinite("the kernel is not positive semi-definite on the points: use a Mercer kernel")

    @property
    def size(self) -> int:
        """The number M of points."""
        return int(self.L.shape[0])

    def whiten(self, sums: Array) -> Array:
        """Return L⁻¹s: sums over r as sums over φ."""
        return solve_lower(self.L, sums)

    def to_coefficients(self, a: Array) -> Array:
        """Return c = L⁻ᵀa."""
        return solve_lower(self.L, a, transposed=True)

    def covariance_of_points(self) -> Array:
        """Return (1/M) Σ_j φ(z_j)φ(z_j)ᵀ = LᵀL/M."""
        return self.L.T @ self.L / self.size

    def covariance(self, gram: Array) -> Array:
        """Return L⁻¹ G L⁻ᵀ, symmetric to the last bit; NumPy overwrites G."""
        if is_numpy(gram):
            # LAPACK reads and writes only the upper triangle, which saves half of the operations.
            reduced, _ = lapack.dsygst(gram.T, self.L.T, lower=0, overwrite_a=1)
            return fill_lower(reduced).T
        half = solve_lower(self.L, gram)
        whole = solve_lower(self.L, half.T)
        return 0.5 * (whole + whole.T)


class Costs(NamedTuple):
    """The seconds that a machine needs for the steps of a regression."""

    product: float  #: for one product of a Gram matrix
    value: float  #: for one kernel value in a pass over the rows
    column: float  #: for one column that is multiplied in a pass


@dataclass
class PlacedRows:
    """Rows on a machine that is to work on them; labels and weights in double precision."""

    X: Array
    Y: Array | None
    weights: Array | None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def mass(self) -> float:
        """W = Σ w_i; without weights the number of rows."""
        return float(len(self)) if self.weights is None else float(self.weights.sum())


class Machine(ABC):
    """A machine on which kernel values are computed and summed; all its results are in double precision.

    Kernel values themselves may be single: their rounding is the same function of x and z in every sum, so the sums
    belong to a kernel matrix that is off by 10⁻⁷ and keeps its properties (symmetry, positive semi-definite products).
    Sums of products are never single: in the coordinates of kernel functions they would cancel.
    """

    map: KernelMap
    on_gpu: bool = False

    @abstractmethod
    def place(self, rows: Rows) -> PlacedRows:
        """Move rows to the machine."""

    @abstractmethod
    def array(self, values: Any) -> Array:
        """Return numbers in double precision on the machine."""

    @abstractmethod
    def points_matrix(self) -> Array:
        """Return 𝕂_zz in double precision."""

    @abstractmethod
    def values_at_points(self) -> Array:
        """Return r(z_i) for some of the points, (n, M), as a preview of what rows will give."""

    @cached_property
    def means(self) -> Array:
        """m, about the means of r, which are subtracted before products are summed, so that rounding is smaller."""
        values = self.values_at_points()
        return namespace(values).mean(values, axis=0)

    @cached_property
    def _spread_at_points(self) -> float:
        """The root mean square of r - m at the points, computed so that large values do not overflow."""
        left = self.values_at_points() - self.means
        xp = namespace(left)
        size = float(xp.max(xp.abs(left))) or 1.0
        left = left / size
        return size * math.sqrt(float(xp.mean(left * left)))

    def spread(self, kappa_sq: float) -> float:
        """Estimate (1/(nM)) Σ_i |r(x_i) - m|²/κ⁴ from the points."""
        return (self._spread_at_points / kappa_sq) ** 2

    def rounding(self, n: int) -> float:
        """Return δ, the error of the Gram matrix of n rows as a share of its trace."""
        return rounding(n)

    @abstractmethod
    def cross(self, rows: PlacedRows, V: Array) -> Array:
        """Return Σ_i r(x_i) v_iᵀ, (M, R) for V of shape (n, R)."""

    @abstractmethod
    def gram_times(self, rows: PlacedRows, U: Array) -> Array:
        """Return Σ_i w_i r(x_i) r(x_i)ᵀU, (M, R) for U of shape (M, R)."""

    @abstractmethod
    def values(self, rows: PlacedRows, U: Array) -> Array:
        """Return r(x_i)ᵀU, (n, R) for U of shape (M, R)."""

    @abstractmethod
    def covariance(self, rows: PlacedRows, span: Span) -> Array:
        """Return (1/W) Σ_i w_i φ(x_i)φ(x_i)ᵀ in orthonormal coordinates φ = L⁻¹r, for few rows.

        Features are computed before they are multiplied, so that rounding affects features and not a Gram matrix.
        """

    @abstractmethod
    def add_gram(self, rows: PlacedRows, V: Array, so_far: Any) -> tuple[Array, Any]:
        """Return Σ_i (r(x_i) - m) v_iᵀ, and ``so_far`` plus Σ_i w_i (r(x_i) - m)(r(x_i) - m)ᵀ in the machine's form.

        ``so_far`` is None at first. Kernel values are computed once for both.
        """

    @abstractmethod
    def gram(self, so_far: Any) -> Array:
        """Return the symmetric matrix that :meth:`add_gram` has summed; ``so_far`` must not be used again."""

    @property
    @abstractmethod
    def gram_matrices(self) -> float:
        """The number of M × M matrices that :meth:`add_gram` holds at once, blocks of kernel values included."""

    def for_lapack(self, values: Array) -> Array:
        """Return numbers where systems of M equations are solved: in NumPy, unless they are on a GPU."""
        return values

    costs: Costs

    def sampling(self, n: int, n_columns: int) -> tuple[int, float]:
        """Return the best number of rows per point for the preconditioner of rounds, and the seconds of the rounds."""
        product, value, column = self.costs
        M = self.map.size
        a_round = n * M * (value + n_columns * column)
        making = {c: (1.5 if c == 1 else 3.0 * c) * M**3 * product for c in ROUNDS}
        costs = {c: rounds * a_round + making[c] for c, rounds in ROUNDS.items()}
        best = min(costs, key=costs.__getitem__)
        return best, costs[best]

    def prefers_gram(self, n: int, n_columns: int) -> bool:
        """Return whether one pass with M² products per row is cheaper than rounds of M values with some columns."""
        return n * self.map.size**2 * self.costs.product <= self.sampling(n, n_columns)[1]

    @property
    @abstractmethod
    def rows_at_once(self) -> int:
        """The rows of a stream that are placed together."""

    @property
    @abstractmethod
    def room(self) -> int:
        """The bytes of rows that may stay placed between passes."""


def rounding(n: int) -> float:
    """Return the error seen in sums of products over a million rows, with a margin; errors of sums grow like √n."""
    return float(np.finfo(np.float64).eps) / 8.0 * math.sqrt(max(n / 1e6, 1.0))


class NumpyMachine(Machine):
    """A machine that runs NumPy on all cores: every thread has its own blocks, and BLAS one thread meanwhile."""

    rows_at_once = 1 << 17
    room = 0  # rows in memory are views, and those of a file stay in it
    costs = Costs(product=6e-12, value=8e-10, column=2.5e-11)

    def __init__(self, map_: KernelMap, single: bool) -> None:
        self.map = map_
        self.dtype = np.float32 if single else np.float64
        # Subtracted from rows before they are rounded to single: distances do not change, and digits are saved.
        self.middle = np.median(map_.points, axis=0) if isinstance(map_.kernel, Stationary) else 0.0
        self.points = self._without_offset(map_.points) if single else map_.points

    @property
    def gram_matrices(self) -> float:
        return matrices_of_threads(threads.count_threads(), self.map.size)

    def place(self, rows: Rows) -> PlacedRows:
        X = to_numpy(rows.X)
        if X.dtype != np.float32 or self.dtype == np.float64:
            X = np.asarray(X, dtype=np.float64)
        return PlacedRows(X, None if rows.Y is None else self.array(rows.Y), rows.weights)

    def array(self, values: Any) -> np.ndarray:
        return np.asarray(to_numpy(values), dtype=np.float64)

    def block(self, X: np.ndarray, scaled: bool = False) -> np.ndarray:
        """Return r(x_i) for placed rows as a fresh array; double-precision rows may be given values in single."""
        X = X if scaled else self.map.scale_rows(X)
        if X.dtype == self.dtype:  # either the digits are lost already, or none will be
            return np.asarray(self.map.kernel.block(X, self.map.points.astype(self.dtype, copy=False)))
        return np.asarray(self.map.kernel.block(self._without_offset(X), self.points))

    def _without_offset(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # the error below reports it
            moved: np.ndarray = (X - self.middle).astype(self.dtype)
        if not np.all(np.isfinite(moved)):
            raise ValueError("X has values that are too large for single precision: use precision='double'")
        return moved

    def points_matrix(self) -> np.ndarray:
        return np.asarray(self.map.kernel(self.map.points))

    def values_at_points(self) -> np.ndarray:
        some = self.map.points[:: max(1, self.map.size // LOOKED_AT)]
        return self.block(some, scaled=True).astype(np.float64, copy=False)

    def cross(self, rows: PlacedRows, V: np.ndarray) -> np.ndarray:
        def of_block(K: np.ndarray, block: slice, total: np.ndarray) -> None:
            total += K.T @ V[block]

        return np.sum(self._sum_stripes(rows, of_block, V.shape[1]), axis=0)

    def gram_times(self, rows: PlacedRows, U: np.ndarray) -> np.ndarray:
        def of_block(K: np.ndarray, block: slice, total: np.ndarray) -> None:
            values = K @ U
            if rows.weights is not None:
                values *= rows.weights[block, None]
            total += K.T @ values

        return np.sum(self._sum_stripes(rows, of_block, U.shape[1]), axis=0)

    def values(self, rows: PlacedRows, U: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), U.shape[1]))

        def fill(block: slice) -> None:
            out[block] = self.block(rows.X[block]).astype(np.float64, copy=False) @ U

        threads.for_each(fill, threads.cut_row_blocks(len(rows), self.map.size))
        return out

    def covariance(self, rows: PlacedRows, span: Span) -> np.ndarray:
        total = np.zeros((self.map.size, self.map.size), order="F")
        for block in threads.cut_stretches(len(rows), max(self.map.size, 256)):
            phi = span.whiten(self.block(rows.X[block]).T.astype(np.float64))
            if rows.weights is not None:
                phi *= np.sqrt(rows.weights[block])
            total = blas.dsyrk(1.0 / rows.mass, phi, beta=1.0, c=total, overwrite_c=1, lower=1)
        return fill_lower(total.T)

    def add_gram(
        self, rows: PlacedRows, V: np.ndarray, so_far: list[np.ndarray] | None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        M, blocks = self.map.size, threads.cut_stretches(len(rows), GRAM_ROWS)
        means = self.means
        if so_far is None:
            so_far = [np.zeros((M, M)) for _ in range(max(1, min(threads.count_threads(), len(blocks))))]
        crosses = [np.zeros((M, V.shape[1])) for _ in so_far]

        def work(stripe: slice) -> None:
            values, product = np.empty((min(GRAM_ROWS, len(rows)), M)), np.empty((M, M))
            for block in blocks[stripe]:
                K = values[: block.stop - block.start]
                self._fill(K, rows.X[block], means)
                crosses[stripe.start] += K.T @ V[block]
                if rows.weights is not None:
                    K *= np.sqrt(rows.weights[block, None])
                # NumPy recognises AᵀA as a symmetric product and lets other threads run; SciPy's dsyrk blocks them.
                so_far[stripe.start] += np.matmul(K.T, K, out=product)

        threads.for_each(work, [slice(t, None, len(so_far)) for t in range(len(so_far))])
        return np.sum(crosses, axis=0), so_far

    def _fill(self, K: np.ndarray, X: np.ndarray, means: np.ndarray) -> None:
        """Write r - m in double precision, piece by piece so that each piece stays in cache."""
        for piece in threads.cut_stretches(len(X), max(1, CACHED // self.map.size)):
            K[piece] = self.block(X[piece])
            K[piece] -= means

    def gram(self, so_far: list[np.ndarray]) -> np.ndarray:
        total = so_far[0]
        for other in so_far[1:]:
            total += other
        return total

    def _sum_stripes(self, rows: PlacedRows, of_block: Any, width: int) -> list[np.ndarray]:
        """Return each thread's sum over its own blocks, which are always the same, so that sums repeat to the bit."""
        blocks = threads.cut_row_blocks(len(rows), self.map.size)
        n_threads = max(1, min(threads.count_threads(), len(blocks)))
        totals = [np.zeros((self.map.size, width), order="F") for _ in range(n_threads)]

        def work(stripe: slice) -> None:
            for block in blocks[stripe]:
                K = self.block(rows.X[block]).astype(np.float64, copy=False)
                of_block(K, block, totals[stripe.start])

        threads.for_each(work, [slice(t, None, len(totals)) for t in range(len(totals))])
        return totals


def matrices_of_threads(n_threads: int, n_points: int) -> float:
    """Count the M × M matrices that threads hold: for each a sum, a product and a block of kernel values."""
    return n_threads * (2.0 + GRAM_ROWS / n_points)
