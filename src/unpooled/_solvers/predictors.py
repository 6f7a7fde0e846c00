"""Fitted functions, independent of the method that found them: they predict, and files keep them.

**Fewer points for an expansion:** the orthogonal projection of f onto the span of M kernel functions.

With f = Σ_i c_i K_{x_i} and points z_1, …, z_M the projection in H_K is g = Σ_j a_j K_{z_j} with K_zz a = K_zx
c = f(z), and

    ‖f - g‖² = ‖f‖² - ‖g‖²,    |f(x) - g(x)| ≤ √K(x,x) ‖f - g‖    for every x.

The points are chosen among the x_i by a pivoted Cholesky factorisation of their kernel matrix (each next point is the
one that the earlier points explain least), on a random sample of the candidates if there are many.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from .._base import threads
from .._base.arrays import Array, as_floating, is_numpy, like, namespace, to_numpy
from ..bases.maps import KernelMap, RowMap, Scaling, read_array
from ..bases.maps import from_parts as map_from_parts
from ..kernels.base import Kernel
from ..kernels.specs import from_fitted_spec, to_spec

TILE = 1 << 14  # points at a time: a tile of 64 rows is then 8 MiB


@dataclass
class KernelExpansion:
    """The function f(x) = Σ_i c_i K(x, x_i) + b, for one or more targets.

    ``coef`` has shape (N, T), ``intercept`` (T,). Prediction goes through rows in blocks and through points in tiles,
    so memory stays at a few tiles however many rows and points there are.

    Attributes
    ----------
    kernel : the kernel K, with numbers for its parameters
    points : (N, d) the x_i
    coef : (N, T) the c_i
    intercept : (T,) b
    """

    kernel: Kernel
    points: Array = field(repr=False)
    coef: Array = field(repr=False)
    intercept: Array = field(repr=False)

    def __post_init__(self) -> None:
        # One memory order, so that products round alike before and after a trip through a file.
        for name in ("points", "coef", "intercept"):
            array = getattr(self, name)
            if is_numpy(array):
                setattr(self, name, np.ascontiguousarray(array))

    @property
    def n_points(self) -> int:
        """Number of points x_i."""
        return int(self.points.shape[0])

    @property
    def n_functions(self) -> int:
        """The number of kernel functions in one prediction."""
        return self.n_points

    @property
    def expansion(self) -> tuple[Kernel, Array] | None:
        """The kernel and its points; None if the points have no coordinates, as with a precomputed kernel."""
        return (self.kernel, self.points) if self.points.shape[1] else None

    @property
    def scaling(self) -> Scaling | None:
        """The change of scale between inputs and kernel: there is none here."""
        return None

    def predict(self, X: Array) -> Array:
        """Return the values f(x_i), shape (n, T), in the array library, on the device and in the dtype of ``X``.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        array of shape (n, T)
        """
        X = as_floating(X)
        if X.ndim != 2 or (self.points.shape[1] and X.shape[1] != self.points.shape[1]):
            raise ValueError(f"X must have {self.points.shape[1]} features, got an array of shape {tuple(X.shape)}")
        points, coef, intercept = (like(a, X) for a in (self.points, self.coef, self.intercept))
        tiles = threads.cut_stretches(self.n_points, TILE)
        blocks = threads.cut_row_blocks(X.shape[0], min(max(1, self.n_points), TILE))

        def values(rows: slice) -> Array:
            first, *others = (self.kernel.block(X[rows, :], points[t, :]) @ coef[t, :] for t in tiles)
            for other in others:
                first += other
            first += intercept
            return first

        if not is_numpy(X):
            xp = namespace(X)
            parts = [values(rows) for rows in blocks]
            return xp.concat(parts) if parts else xp.zeros((0, coef.shape[1]), dtype=X.dtype, device=X.device)
        out = np.empty((X.shape[0], coef.shape[1]), dtype=X.dtype)

        def fill(rows: slice) -> None:
            out[rows] = values(rows)

        with threads.limit_blas_for(max(X.shape[0], self.n_points)):
            threads.for_each(fill, blocks)
        return out

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the header and the arrays of a file."""
        arrays = {"points": self.points, "coef": self.coef, "intercept": self.intercept}
        return {"kernel": to_spec(self.kernel)}, {name: to_numpy(a) for name, a in arrays.items()}

    @classmethod
    def from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> KernelExpansion:
        """Return the function that :meth:`to_parts` gave; a ValueError says what is inconsistent."""
        missing = {"points", "coef", "intercept"} - arrays.keys()
        if missing:
            raise ValueError(f"the file lacks the arrays {', '.join(sorted(missing))}")
        points, coef, intercept = arrays["points"], arrays["coef"], arrays["intercept"]
        shapes_agree = (
            points.ndim == 2
            and coef.ndim == 2
            and coef.shape[0] == points.shape[0]
            and intercept.shape == (coef.shape[1],)
        )
        if not shapes_agree:
            raise ValueError(
                f"the shapes do not match: points {points.shape}, coef {coef.shape}, intercept {intercept.shape}"
            )
        if not all(np.issubdtype(a.dtype, np.floating) and np.all(np.isfinite(a)) for a in (points, coef, intercept)):
            raise ValueError("the arrays must hold finite floating-point numbers")
        if not len(points):
            raise ValueError("the function has no points")
        kernel = from_fitted_spec(header.get("kernel"))
        if points.shape[1]:
            kernel = kernel.resolve(points)
            if not np.all(np.isfinite(kernel.block(points[:1], points[:1]))):
                raise ValueError("its kernel cannot be evaluated at its own points")
        return cls(kernel, points, coef, intercept)


@dataclass
class BasisPredictor:
    """The function f(x) = cᵀr(x) + b with the map r of a basis: kernel functions at its points, or its waves.

    A function aᵀφ + b in the span of φ = Aᵀr has c = A a, so predicting needs no product with A.

    Attributes
    ----------
    map : the map r of a basis
    coef : (m, T)
    intercept : (T,)
    """

    map: RowMap
    coef: np.ndarray = field(repr=False)  #: (m, T)
    intercept: np.ndarray = field(repr=False)  #: (T,)

    @property
    def n_functions(self) -> int:
        """The number of kernel functions or waves in one prediction."""
        return self.map.size

    @property
    def expansion(self) -> tuple[Kernel, Array] | None:
        """The kernel and its points, on the scale of the kernel; None for waves."""
        return (self.map.kernel, self.map.points) if isinstance(self.map, KernelMap) else None

    @property
    def scaling(self) -> Scaling | None:
        """The change of scale between inputs and kernel."""
        return self.map.scaling

    def predict(self, X: Array) -> Array:
        """Return the values f(x_i), shape (n, T), in the array library, on the device and in the dtype of ``X``.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        array of shape (n, T)
        """
        X = as_floating(X)
        if X.ndim != 2 or X.shape[1] != self.map.n_features_in:
            raise ValueError(f"X must have {self.map.n_features_in} features, got an array of shape {tuple(X.shape)}")
        coef, intercept = like(self.coef, X), like(self.intercept, X)
        blocks = threads.cut_row_blocks(X.shape[0], self.map.size)
        if not is_numpy(X):
            parts = [self.map.block(X[rows, :]) @ coef + intercept for rows in blocks]
            return namespace(X).concat(parts) if parts else X[:, :0] @ coef[:0, :] + intercept
        out = np.empty((X.shape[0], coef.shape[1]), dtype=X.dtype)

        def fill(rows: slice) -> None:
            out[rows] = self.map.block(X[rows]) @ coef + intercept

        with threads.limit_blas_for(max(X.shape[0], self.map.size)):
            threads.for_each(fill, blocks)
        return out

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the header and the arrays of a file."""
        header, arrays = self.map.to_parts()
        return header, arrays | {"predictor.coef": self.coef, "predictor.intercept": self.intercept}

    @classmethod
    def from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> BasisPredictor:
        """Return the function that :meth:`to_parts` gave; a ValueError says what is inconsistent."""
        map_ = map_from_parts(header, arrays)
        coef, intercept = (
            read_array("predictor.coef", arrays, ndim=2),
            read_array("predictor.intercept", arrays, ndim=1),
        )
        if coef.shape != (map_.size, len(intercept)):
            raise ValueError(f"its coefficients have shape {coef.shape}, and its map has {map_.size} functions")
        return cls(map_, coef, intercept)


@dataclass
class Average:
    """The function f̄(x) = Σ_j w_j f_j(x) of functions that do not merge into one expansion."""

    functions: list[Any] = field(repr=False)
    weights: np.ndarray

    n_functions = 1  #: at least
    expansion = None  #: each function has its own, and the whole has none
    scaling = None

    def predict(self, X: Array) -> Array:
        """Return the values f̄(x_i), shape (n, T)."""
        total = float(self.weights[0]) * self.functions[0].predict(X)
        for weight, function in zip(self.weights[1:], self.functions[1:]):
            total = total + float(weight) * function.predict(X)
        return total


def average(functions: list[Any], weights: np.ndarray, kernel: Kernel | None) -> KernelExpansion | Average:
    """Average to Σ_j w_j f_j with Σ w_j = 1; expansions in one ``kernel`` merge into one over all their points."""
    if kernel is None or not all(isinstance(f, KernelExpansion) for f in functions):
        return Average(functions, weights)
    if len(functions) == 1:
        return functions[0]
    xp = namespace(functions[0].coef)
    coef = xp.concat([float(w) * f.coef for w, f in zip(weights, functions)])
    intercept = float(weights[0]) * functions[0].intercept
    for w, f in zip(weights[1:], functions[1:]):
        intercept = intercept + float(w) * f.intercept
    return KernelExpansion(kernel, xp.concat([f.points for f in functions]), coef, intercept)


CANDIDATES_PER_POINT = 10
CHECKED_ROWS = 5000


@dataclass
class Compression:
    """The change of a function by a projection onto fewer points.

    ``norm_error`` is ‖f - g‖/‖f‖ in H_K (the largest over targets); ``rms_change`` the root mean square of f - g over
    (a sample of) the points of f, ``relative_change`` the same divided by the standard deviation of f there.
    """

    n_points: int
    n_points_before: int
    norm_error: float
    rms_change: float
    relative_change: float


def compress(f: KernelExpansion, n_points: int, random_state: int | None = 0) -> tuple[KernelExpansion, Compression]:
    """Project onto at most ``n_points`` points; return the projection and what it changed."""
    rng = np.random.default_rng(random_state)
    X, c = to_numpy(f.points).astype(float), to_numpy(f.coef).astype(float)
    n_points = min(n_points, len(X))
    pool = np.sort(rng.permutation(len(X))[: max(CANDIDATES_PER_POINT * n_points, CHECKED_ROWS)])
    chosen, L = _pivoted_cholesky(f.kernel, X[pool], n_points)
    Z = X[pool[chosen]]
    without = KernelExpansion(f.kernel, X, c, np.zeros(c.shape[1]))
    at_z = without.predict(Z)
    half = scipy.linalg.solve_triangular(L, at_z, lower=True)  # ‖g‖² = aᵀK_zz a = |L⁻¹ f(z)|²
    a = scipy.linalg.solve_triangular(L, half, lower=True, trans=1)
    # In the precision of the model, float32 or float64.
    dtype = to_numpy(f.coef).dtype
    g = KernelExpansion(f.kernel, Z.astype(dtype), a.astype(dtype), to_numpy(f.intercept))
    checked = X[rng.permutation(len(X))[:CHECKED_ROWS]]
    before, after = KernelExpansion(f.kernel, X, c, to_numpy(f.intercept)).predict(checked), g.predict(checked)
    rms = float(np.sqrt(np.mean((before - after) ** 2)))
    spread = float(np.sqrt(np.mean((before - before.mean(axis=0)) ** 2)))
    norm_sq = np.einsum("nt,nt->t", c, without.predict(X))
    lost = np.sqrt(np.maximum(norm_sq - np.sum(half**2, axis=0), 0.0) / np.maximum(norm_sq, np.finfo(float).tiny))
    return g, Compression(len(Z), len(X), float(lost.max()), rms, rms / spread if spread else 0.0)


def _pivoted_cholesky(kernel: Kernel, X: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pivots and the factor L of K(X[pivots], X[pivots]) = LLᵀ; fewer than ``rank`` if rounding is reached."""
    left = np.asarray(kernel.diag(X), dtype=float).copy()
    stop = 1e-12 * float(left.max())
    rows = np.empty((rank, len(X)))  # row k holds the k-th column of the factor of K(X, X)
    pivots: list[int] = []
    for k in range(rank):
        pivot = int(np.argmax(left))
        if left[pivot] <= stop and pivots:
            break
        column = kernel.block(X, X[pivot : pivot + 1])[:, 0] - rows[:k].T @ rows[:k, pivot]
        if left[pivot] <= 0.0:  # a kernel that is zero everywhere: one point with a zero coefficient
            left[pivot] = column[pivot] = 1.0
        rows[k] = column / np.sqrt(left[pivot])
        left -= rows[k] ** 2
        left[pivot] = 0.0
        pivots.append(pivot)
    return np.asarray(pivots, dtype=int), np.tril(rows[: len(pivots), pivots].T)
