"""Kernel, the contract of all kernels, and their algebra: sums, products, scalings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._base import threads
from .._base.arrays import Array, as_floating, is_numpy, namespace, set_diagonal
from .._base.text import quote
from .._linalg.operator import NotFinite

DEVICE_ELEMENTS = 1 << 26  # numbers of a tensor that are computed at once: 512 MiB of float64


class Kernel(BaseEstimator):
    """A Mercer kernel K: X × X → ℝ.

    A concrete kernel writes :meth:`block` (values K(x_i, z_j), pure array-API mathematics) and
    :meth:`diag`; blocking, threads and the algebra ``+``, ``*`` come from here. Parameters follow
    scikit-learn's conventions, so ``GridSearchCV`` reaches them as ``kernel__length_scale``.
    """

    #: K(x, z) ≥ 0 for all x, z; then the centred kernel's features have norm at most √2·κ, not 2κ.
    nonnegative = False
    #: a positive semi-definite function by construction; else only routes that see the whole matrix are taken
    positive_definite = True
    #: any column K(·, x_p) can be had by itself; the low-rank route never forms the matrix
    by_columns = True
    #: how length scales were chosen, where they were chosen with labels
    search_: Any = None

    def block(self, X: Array, Z: Array) -> Array:
        """The matrix K(x_i, z_j), computed as one block: a fresh array the caller may overwrite."""
        raise TypeError(f"{type(self).__name__} is not a complete kernel: it must define block(X, Z)")

    def diag(self, X: Array) -> Array:
        """The vector K(x_i, x_i)."""
        raise TypeError(f"{type(self).__name__} is not a complete kernel: it must define diag(X)")

    def kappa(self, X: Array | None = None) -> float:
        """κ = sup √K(x, x): over all x where the kernel is bounded, else over the rows of ``X``.

        An unbounded kernel without rows to look at has κ = ∞.
        """
        if X is None:
            return math.inf
        xp = namespace(X)
        return math.sqrt(max(float(xp.max(self.diag(X))), 0.0))

    def resolve(self, X: Array, weights: Array | None = None) -> Kernel:
        """This kernel with every data-driven parameter ("median") replaced by its number for ``X``."""
        return self

    def pull_back(self, X: Array, G: Array) -> dict[str, Array]:
        """How Σ_ij G_ij K(x_i, x_j) changes with the kernels that this one is made of, by their parameters' names.

        By Σ_ij (G_part)_ij (dK_part)_ij, to first order. A kernel that is made of none, or does not say, gives nothing:
        length scales inside it cannot be chosen.
        """
        return {}

    def anchors(self, X: Array) -> Array:
        """What a fitted expansion must keep of the training rows: the rows themselves."""
        return X

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """The matrix K(x_i, z_j); with ``Z`` left out K(x_i, x_j), its diagonal exact."""
        symmetric = Z is None
        X = as_floating(X)
        Z = X if Z is None else as_floating(Z)
        if X.shape[0] * Z.shape[0] <= (2 * threads.BLOCK_ELEMENTS if is_numpy(X) else DEVICE_ELEMENTS):
            K = self.block(X, Z)
        elif is_numpy(X):
            K = np.empty((X.shape[0], Z.shape[0]), dtype=X.dtype)

            def fill(rows: slice) -> None:
                K[rows] = self.block(X[rows], Z)

            threads.for_each(fill, threads.cut_row_blocks(X.shape[0], Z.shape[0]))
        else:  # in place too: what a block needs beside itself is not needed for the whole matrix at once
            K = namespace(X).empty((X.shape[0], Z.shape[0]), dtype=X.dtype, device=X.device)
            for rows in threads.cut_stretches(X.shape[0], max(1, DEVICE_ELEMENTS // Z.shape[0])):
                K[rows, :] = self.block(X[rows, :], Z)
        if symmetric:
            set_diagonal(K, self.diag(X))
        return K

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(other, self) if _is_number(other) else NotImplemented

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        """Equal kernels have the same class and the same parameters."""
        if type(other) is not type(self):
            return NotImplemented if not isinstance(other, Kernel) else False
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_same(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # parameters are mutable, as in scikit-learn


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (Kernel, str)) or isinstance(b, str):
        return bool(a == b)
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def kappa_squared(kernel: Kernel, X: Array) -> float:
    """κ² of a kernel on rows; see :func:`squared`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return squared(kernel.kappa(X))


def squared(kappa: float) -> float:
    """κ², which bounds the spectrum, centred or not, and sets the step of the iterations.

    A kernel that is zero on all the data (linear, X = 0) fits the constant zero at any scale: its κ² is one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        kappa_sq = float(np.square(kappa))
    if not math.isfinite(kappa_sq):
        raise NotFinite
    return kappa_sq if kappa_sq > 0 else 1.0


class _Pair(Kernel):
    """Two kernels of which a third is made."""

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return self.left.nonnegative and self.right.nonnegative

    @property
    def positive_definite(self) -> bool:  # type: ignore[override]
        return self.left.positive_definite and self.right.positive_definite

    @property
    def by_columns(self) -> bool:  # type: ignore[override]
        return self.left.by_columns and self.right.by_columns

    def resolve(self, X: Array, weights: Array | None = None) -> Kernel:
        for part in (self.left, self.right):
            if not isinstance(part, Kernel):
                raise ValueError(f"a {type(self).__name__} is made of Kernel objects, and {quote(part)} is none")
        return type(self)(self.left.resolve(X, weights), self.right.resolve(X, weights))


class Sum(_Pair):
    """K = K₁ + K₂; written ``k1 + k2``.

    Parameters
    ----------
    left, right : kernels
    """

    def pull_back(self, X: Array, G: Array) -> dict[str, Array]:
        return {"left": G, "right": G}

    def block(self, X: Array, Z: Array) -> Array:
        K = self.left.block(X, Z)
        K += self.right.block(X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return self.left.diag(X) + self.right.diag(X)

    def kappa(self, X: Array | None = None) -> float:
        return math.hypot(self.left.kappa(X), self.right.kappa(X))

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """The spectral measure of a sum is the mixture, weighted by κ₁² and κ₂²."""
        share = self.left.kappa() ** 2 / self.kappa() ** 2
        from_left = rng.random(n) < share
        left = sample_frequencies(self.left, n, d, rng)
        return np.where(from_left[:, None], left, sample_frequencies(self.right, n, d, rng))


class Product(_Pair):
    """K = K₁ · K₂; written ``k1 * k2``.

    Parameters
    ----------
    left, right : kernels
    """

    def pull_back(self, X: Array, G: Array) -> dict[str, Array]:
        return {"left": G * self.right(X), "right": G * self.left(X)}

    def block(self, X: Array, Z: Array) -> Array:
        K = self.left.block(X, Z)
        K *= self.right.block(X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return self.left.diag(X) * self.right.diag(X)

    def kappa(self, X: Array | None = None) -> float:
        return self.left.kappa(X) * self.right.kappa(X)

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """The spectral measure of a product is the convolution: add independent frequencies."""
        left = sample_frequencies(self.left, n, d, rng)
        return left + sample_frequencies(self.right, n, d, rng)


class Scaled(Kernel):
    """s·K for a number s > 0; written ``s * k``.

    Parameters
    ----------
    scale : s, a positive number
    kernel : K
    """

    def __init__(self, scale: float, kernel: Kernel) -> None:
        self.scale = scale
        self.kernel = kernel

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return self.kernel.nonnegative

    @property
    def positive_definite(self) -> bool:  # type: ignore[override]
        return self.kernel.positive_definite

    @property
    def by_columns(self) -> bool:  # type: ignore[override]
        return self.kernel.by_columns

    def _checked_scale(self) -> float:
        if not (_is_number(self.scale) and math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"a kernel can be scaled by a positive number only, got {quote(self.scale)}")
        return float(self.scale)

    def block(self, X: Array, Z: Array) -> Array:
        K = self.kernel.block(X, Z)
        K *= self._checked_scale()
        return K

    def diag(self, X: Array) -> Array:
        return self._checked_scale() * self.kernel.diag(X)

    def kappa(self, X: Array | None = None) -> float:
        return math.sqrt(self._checked_scale()) * self.kernel.kappa(X)

    def pull_back(self, X: Array, G: Array) -> dict[str, Array]:
        return {"kernel": self._checked_scale() * G}

    def resolve(self, X: Array, weights: Array | None = None) -> Kernel:
        return Scaled(self.scale, self.kernel.resolve(X, weights))

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """Scaling does not move the frequencies of a stationary kernel; κ² scales the features."""
        return sample_frequencies(self.kernel, n, d, rng)


def sample_frequencies(kernel: Kernel, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """n frequencies w ∈ ℝ^d with K(x, z) = κ² E cos(wᵀ(x - z)), for a stationary kernel (Bochner).

    Parameters
    ----------
    kernel : a stationary kernel, or sums, products and scalings of such
    n : how many
    d : the dimension of the rows
    rng : draws them
    """
    sampler = getattr(kernel, "frequencies", None)
    if sampler is None:
        raise ValueError(
            f"{type(kernel).__name__} is not stationary, so it has no random frequencies: "
            "use Gaussian, Laplacian or Matern"
        )
    return np.asarray(sampler(n, d, rng))
