"""Sums over rows of products of kernel values: the contract of a machine, and the one that runs NumPy on all cores.

:class:`Span` has the orthonormal coordinates c = L⁻ᵀa, LLᵀ = 𝕂_zz + εI, of the functions at M points.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from ..._base import threads
from ..._base.arrays import Array, add_to_diagonal, cholesky, fill_lower, is_numpy, namespace, solve_lower, to_numpy
from ..._base.rows import Rows
from ..._linalg.operator import NotFinite, NotPositiveDefinite
from ...bases.maps import KernelMap
from ...kernels.stationary import Stationary

#: Rows a point that the preconditioner is made from, and the rounds that were then seen to be needed. With c > 1 rows a
#: point the preconditioned spectrum lies within (1 ± c^(-1/2))², whatever λ is; one row a point is the point itself.
ROUNDS = {1: 40, 2: 20, 4: 12, 8: 8, 16: 6}

GRAM_ROWS = 2048  # rows of a symmetric product: enough that adding it to the sum takes a twentieth of its time
CACHED = 1 << 20  # kernel values that are computed together
LOOKED_AT = 512  # points at which kernel values are looked at, or some more
SOLVING = {False: 5.5, True: 10.0}  # matrices of M × M numbers while all λ are solved for, on cores and on a GPU


EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Span:
    """Functions Σ_j c_j K(·, z_j) = aᵀφ with |a|² = cᵀ(𝕂_zz + εI)c."""

    L: Array = field(repr=False)  #: lower triangular, double precision, where sums are worked out
    jitter: float  #: ε

    @classmethod
    def of(cls, K: Array, jitter: float = 0.0) -> Span:
        """From 𝕂_zz, which is overwritten. ε is at least ``jitter``, and as small as rounding allows."""
        xp = namespace(K)
        size = float(xp.max(xp.linalg.diagonal(K)))
        if not np.isfinite(size) or not bool(xp.all(xp.isfinite(K))):
            raise NotFinite
        jitter, added = max(jitter, 8 * EPS * K.shape[0] * size, float(np.finfo(float).tiny)), 0.0
        while jitter <= 1e-3 * max(size, float(np.finfo(float).tiny)):
            add_to_diagonal(K, jitter - added)
            factor = cholesky(K.copy() if is_numpy(K) else K)  # LAPACK works in place, and another try may follow
            if factor is not None:
                return cls(factor, jitter)
            jitter, added = 8 * jitter, jitter
        raise NotPositiveDefinite("the kernel is not positive semi-definite on the points: use a Mercer kernel")

    @property
    def size(self) -> int:
        """M."""
        return int(self.L.shape[0])

    def whitened(self, sums: Array) -> Array:
        """L⁻¹s: sums over r as sums over φ."""
        return solve_lower(self.L, sums)

    def raw(self, a: Array) -> Array:
        """c = L⁻ᵀa."""
        return solve_lower(self.L, a, transposed=True)

    def own_covariance(self) -> Array:
        """(1/M) Σ_j φ(z_j)φ(z_j)ᵀ = LᵀL/M, that of the points themselves."""
        return self.L.T @ self.L / self.size

    def covariance(self, gram: Array) -> Array:
        """L⁻¹ G L⁻ᵀ, symmetric to the last bit; NumPy overwrites G."""
        if is_numpy(gram):
            # The upper triangle is all that LAPACK looks at and writes: half of the operations.
            reduced, _ = lapack.dsygst(gram.T, self.L.T, lower=0, overwrite_a=1)
            return fill_lower(reduced).T
        half = solve_lower(self.L, gram)
        whole = solve_lower(self.L, half.T)
        return 0.5 * (whole + whole.T)


@dataclass
class PlacedRows:
    """Rows where the machine works on them; labels and weights in double precision."""

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
    """Where kernel values are computed and summed; everything it gives is in double precision.

    Kernel values themselves may be single: their rounding is the same function of x and z wherever it is met, so the
    sums are those of a kernel matrix that is off by 10⁻⁷, which stays what it is (symmetric, positive semi-definite
    products). Sums of products are never single: in the coordinates of kernel functions they would cancel.
    """

    map: KernelMap
    on_gpu: bool = False

    @abstractmethod
    def place(self, rows: Rows) -> PlacedRows:
        """Bring rows to the machine."""

    @abstractmethod
    def array(self, values: Any) -> Array:
        """Numbers in double precision on the machine."""

    @abstractmethod
    def points_matrix(self) -> Array:
        """𝕂_zz in double precision."""

    @abstractmethod
    def values_at_points(self) -> Array:
        """r(z_i) for some of the points, (n, M): what is to be expected of rows."""

    @cached_property
    def means(self) -> Array:
        """m, about the means of r: taken out before products are summed, they do not round them."""
        values = self.values_at_points()
        return namespace(values).mean(values, axis=0)

    @cached_property
    def _varying(self) -> float:
        """The root mean square of r - m at the points; squares of large values stay numbers."""
        left = self.values_at_points() - self.means
        xp = namespace(left)
        size = float(xp.max(xp.abs(left))) or 1.0
        left = left / size
        return size * math.sqrt(float(xp.mean(left * left)))

    def spread(self, kappa_sq: float) -> float:
        """About (1/(nM)) Σ_i |r(x_i) - m|²/κ⁴, by the points."""
        return (self._varying / kappa_sq) ** 2

    def rounding(self, n: int) -> float:
        """δ: by which share of its trace the Gram matrix of n rows is off."""
        return rounding(n)

    @abstractmethod
    def cross(self, rows: PlacedRows, V: Array) -> Array:
        """Σ_i r(x_i) v_iᵀ, (M, R) for V of shape (n, R)."""

    @abstractmethod
    def twice(self, rows: PlacedRows, U: Array) -> Array:
        """Σ_i w_i r(x_i) r(x_i)ᵀU, (M, R) for U of shape (M, R)."""

    @abstractmethod
    def values(self, rows: PlacedRows, U: Array) -> Array:
        """r(x_i)ᵀU, (n, R) for U of shape (M, R)."""

    @abstractmethod
    def covariance(self, rows: PlacedRows, span: Span) -> Array:
        """(1/W) Σ_i w_i φ(x_i)φ(x_i)ᵀ in orthonormal coordinates φ = L⁻¹r, for few rows.

        Features are made before they are multiplied, so that what rounds is a feature and not a Gram matrix.
        """

    @abstractmethod
    def add_gram(self, rows: PlacedRows, V: Array, so_far: Any) -> tuple[Array, Any]:
        """Σ_i (r(x_i) - m) v_iᵀ, and ``so_far`` plus Σ_i w_i (r(x_i) - m)(r(x_i) - m)ᵀ in a form of the machine's own.

        ``so_far`` is None at first. Kernel values are computed once for both.
        """

    @abstractmethod
    def gram(self, so_far: Any) -> Array:
        """The symmetric matrix of what :meth:`add_gram` made, which is used up."""

    @property
    @abstractmethod
    def gram_matrices(self) -> float:
        """How many matrices of M × M numbers :meth:`add_gram` holds at once, its blocks of kernel values counted."""

    def for_lapack(self, values: Array) -> Array:
        """The numbers where systems of M equations are solved: in NumPy, unless that is far away."""
        return values

    #: seconds for one product of a Gram matrix, for one kernel value in a pass, and for one column of a pass beside it
    costs: tuple[float, float, float]

    def sampling(self, n: int, n_columns: int) -> tuple[int, float]:
        """How many rows a point the preconditioner of rounds is best made from, and the seconds rounds then take."""
        product, value, column = self.costs
        M = self.map.size
        a_round = n * M * (value + n_columns * column)
        making = {c: (1.5 if c == 1 else 3.0 * c) * M**3 * product for c in ROUNDS}
        costs = {c: rounds * a_round + making[c] for c, rounds in ROUNDS.items()}
        best = min(costs, key=costs.__getitem__)
        return best, costs[best]

    def prefers_gram(self, n: int, n_columns: int) -> bool:
        """Whether one pass with M² products a row is cheaper than rounds, each of M values with some columns."""
        return n * self.map.size**2 * self.costs[0] <= self.sampling(n, n_columns)[1]

    @property
    @abstractmethod
    def rows_at_once(self) -> int:
        """Rows of a stream that are placed together."""

    @property
    @abstractmethod
    def room(self) -> int:
        """Bytes of rows that may stay placed between passes."""


def rounding(n: int) -> float:
    """What sums of products over a million rows were seen to be off by, with room; errors of sums add up like √n."""
    return float(np.finfo(np.float64).eps) / 8.0 * math.sqrt(max(n / 1e6, 1.0))


class NumpyMachine(Machine):
    """NumPy on all cores: every thread has blocks of its own, and BLAS one thread meanwhile."""

    rows_at_once = 1 << 17
    room = 0  # rows in memory are views, and those of a file stay in it
    costs = (6e-12, 8e-10, 2.5e-11)

    def __init__(self, map_: KernelMap, single: bool) -> None:
        self.map = map_
        self.dtype = np.float32 if single else np.float64
        # What rows of double precision lose before they lose digits: distances stay what they are.
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
        """r(x_i) for placed rows, a fresh array; rows of double precision may be asked for values in single."""
        X = X if scaled else self.map.scaled(X)
        if X.dtype == self.dtype:  # digits that are lost already, or none
            return np.asarray(self.map.kernel.block(X, self.map.points.astype(self.dtype, copy=False)))
        return np.asarray(self.map.kernel.block(self._without_offset(X), self.points))

    def _without_offset(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # a sentence follows
            moved: np.ndarray = (X - self.middle).astype(self.dtype)
        if not np.all(np.isfinite(moved)):
            raise ValueError("X has values that are too large for single precision: take precision='double'")
        return moved

    def points_matrix(self) -> np.ndarray:
        return np.asarray(self.map.kernel(self.map.points))

    def values_at_points(self) -> np.ndarray:
        some = self.map.points[:: max(1, self.map.size // LOOKED_AT)]
        return self.block(some, scaled=True).astype(np.float64, copy=False)

    def cross(self, rows: PlacedRows, V: np.ndarray) -> np.ndarray:
        def of_block(K: np.ndarray, block: slice, total: np.ndarray) -> None:
            total += K.T @ V[block]

        return np.sum(self._stripes(rows, of_block, V.shape[1]), axis=0)

    def twice(self, rows: PlacedRows, U: np.ndarray) -> np.ndarray:
        def of_block(K: np.ndarray, block: slice, total: np.ndarray) -> None:
            values = K @ U
            if rows.weights is not None:
                values *= rows.weights[block, None]
            total += K.T @ values

        return np.sum(self._stripes(rows, of_block, U.shape[1]), axis=0)

    def values(self, rows: PlacedRows, U: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), U.shape[1]))

        def fill(block: slice) -> None:
            out[block] = self.block(rows.X[block]).astype(np.float64, copy=False) @ U

        threads.for_each(fill, threads.cut_row_blocks(len(rows), self.map.size))
        return out

    def covariance(self, rows: PlacedRows, span: Span) -> np.ndarray:
        total = np.zeros((self.map.size, self.map.size), order="F")
        for block in threads.cut_stretches(len(rows), max(self.map.size, 256)):
            phi = span.whitened(self.block(rows.X[block]).T.astype(np.float64))
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
                # NumPy takes AᵀA for a symmetric product and lets other threads run; SciPy's dsyrk holds them up.
                so_far[stripe.start] += np.matmul(K.T, K, out=product)

        threads.for_each(work, [slice(t, None, len(so_far)) for t in range(len(so_far))])
        return np.sum(crosses, axis=0), so_far

    def _fill(self, K: np.ndarray, X: np.ndarray, means: np.ndarray) -> None:
        """r - m in double precision, a piece that stays in cache at a time."""
        for piece in threads.cut_stretches(len(X), max(1, CACHED // self.map.size)):
            K[piece] = self.block(X[piece])
            K[piece] -= means

    def gram(self, so_far: list[np.ndarray]) -> np.ndarray:
        total = so_far[0]
        for other in so_far[1:]:
            total += other
        return total

    def _stripes(self, rows: PlacedRows, of_block: Any, width: int) -> list[np.ndarray]:
        """Sums of every thread over its own blocks: always the same ones, so that sums repeat to the bit."""
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
    """Matrices of M × M numbers: a sum, a product and a block of kernel values for every thread."""
    return n_threads * (2.0 + GRAM_ROWS / n_points)
