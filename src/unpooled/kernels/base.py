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

DEVICE_ELEMENTS = 1 << 26  # elements of a tensor that are computed at once: 512 MiB of float64


class Kernel:
    """A Mercer kernel K: X × X → ℝ.

    A concrete kernel writes :meth:`block` (values K(x_i, z_j), pure array-API mathematics) and
    :meth:`diag`; blocking, threads and the algebra ``+``, ``*`` come from here. Parameters follow
    scikit-learn's conventions, so ``clone`` copies a kernel and ``GridSearchCV`` reaches its parameters as
    ``kernel__length_scale``. A kernel is not a ``BaseEstimator``: those leave parameters with default values out of
    their text, and the text of a kernel always shows the length scale.
    """

    get_params = BaseEstimator.get_params

    def set_params(self, **params: Any) -> Kernel:
        """Set parameters by name, ``left__length_scale`` for those of a part, and return the kernel."""
        BaseEstimator.set_params(self, **params)
        return self

    _get_param_names: Any = classmethod(BaseEstimator._get_param_names.__func__)

    #: True if K(x, z) ≥ 0 for all x and z; the centred kernel's features then have norm at most √2·κ instead of 2κ
    nonnegative = False
    #: True if the kernel is positive semi-definite by construction; otherwise solvers look at the whole matrix
    positive_definite = True
    #: True if a column K(·, x_p) can be computed by itself, so that the low-rank route need not form the matrix
    by_columns = True
    #: the report of the search for length scales, where they were chosen with labels
    search_: Any = None

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_to_text(value)}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({values})"

    def block(self, X: Array, Z: Array) -> Array:
        """Compute the matrix K(x_i, z_j) as one block: a fresh array that the caller may overwrite."""
        raise TypeError(f"{type(self).__name__} is not a complete kernel: it must define block(X, Z)")

    def diag(self, X: Array) -> Array:
        """Compute the vector K(x_i, x_i)."""
        raise TypeError(f"{type(self).__name__} is not a complete kernel: it must define diag(X)")

    def kappa(self, X: Array | None = None) -> float:
        """Return κ = sup √K(x, x), over all x if the kernel is bounded and over the rows of ``X`` otherwise.

        Without rows an unbounded kernel has κ = ∞.
        """
        if X is None:
            return math.inf
        xp = namespace(X)
        return math.sqrt(max(float(xp.max(self.diag(X))), 0.0))

    def resolve(self, X: Array, weights: Array | None = None) -> Kernel:
        """Return this kernel with a number for ``X`` in place of every length scale "median"."""
        return self

    def pull_back(self, X: Array, G: Array) -> dict[str, Array]:
        """Return, for each kernel that this one is made of, the matrix G_part by which it moves Σ_ij G_ij K(x_i, x_j).

        To first order the sum changes by Σ_ij (G_part)_ij (dK_part)_ij; the keys are the names of the parameters. A
        kernel that does not define this method returns an empty dictionary, and length scales inside it cannot be
        chosen.
        """
        return {}

    def anchors(self, X: Array) -> Array:
        """Return the part of the training rows that a fitted expansion must keep: the rows themselves."""
        return X

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Compute the matrix K(x_i, z_j); without ``Z`` the matrix K(x_i, x_j), with an exact diagonal."""
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
        else:  # block by block too, so that intermediate results never exist for the whole matrix at once
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
        """Say whether two kernels have the same class and the same parameters."""
        if type(other) is not type(self):
            return NotImplemented if not isinstance(other, Kernel) else False
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_are_same(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # parameters are mutable, as in scikit-learn


_MOST_SHOWN = 30  # numbers of an array that the text of a kernel lists


def _to_text(value: Any) -> str:
    """Return a parameter as Python would read it back; of a large array only the shape."""
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.ndarray):
        return (
            repr(value.tolist()) if value.ndim < 2 and value.size <= _MOST_SHOWN else f"<array of shape {value.shape}>"
        )
    return repr(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _are_same(a: Any, b: Any) -> bool:
    if isinstance(a, (Kernel, str)) or isinstance(b, (Kernel, str)):
        return isinstance(b, (Kernel, str)) and bool(a == b)
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def kappa_squared(kernel: Kernel, X: Array) -> float:
    """Return κ² of a kernel on the rows ``X``; see :func:`square_kappa`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return square_kappa(kernel.kappa(X))


def square_kappa(kappa: float) -> float:
    """Return κ², which bounds the spectrum, centred or not, and sets the step of the iterations.

    A kernel that is zero on all rows (linear with X = 0, for instance) fits the constant zero at any scale; its κ² is
    set to one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        kappa_sq = float(np.square(kappa))
    if not math.isfinite(kappa_sq):
        raise NotFinite
    return kappa_sq if kappa_sq > 0 else 1.0


class _Pair(Kernel):
    """A kernel that is made of two others."""

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
                raise ValueError(
                    f"a {type(self).__name__} combines two Kernel objects, and {quote(part)} is not one: "
                    "use unpooled.kernels.as_kernel"
                )
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
        """Draw from the spectral measure of a sum, which is the mixture of both with weights κ₁² and κ₂²."""
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
        """Draw from the spectral measure of a product, the convolution of both: add independent frequencies."""
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

    def _check_scale(self) -> float:
        if not (_is_number(self.scale) and math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number that multiplies the kernel, got {quote(self.scale)}")
        return float(self.scale)

    def block(self, X: Array, Z: Array) -> Array:
        K = self.kernel.block(X, Z)
        K *= self._check_scale()
        return K

    def diag(self, X: Array) -> Array:
        return self._check_scale() * self.kernel.diag(X)

    def kappa(self, X: Array | None = None) -> float:
        return math.sqrt(self._check_scale()) * self.kernel.kappa(X)

    def pull_back(self, X: Array, G: Array) -> dict[str, Array]:
        return {"kernel": self._check_scale() * G}

    def resolve(self, X: Array, weights: Array | None = None) -> Kernel:
        return Scaled(self.scale, self.kernel.resolve(X, weights))

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the frequencies of the kernel inside: scaling leaves them as they are, and κ² scales the features."""
        return sample_frequencies(self.kernel, n, d, rng)


def sample_frequencies(kernel: Kernel, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw n frequencies w ∈ ℝ^d with K(x, z) = κ² E cos(wᵀ(x - z)), for a stationary kernel (Bochner's theorem).

    Parameters
    ----------
    kernel : a stationary kernel, or sums, products and multiples of such kernels
    n : how many frequencies to draw
    d : the dimension of the rows
    rng : the random generator that draws them
    """
    sampler = getattr(kernel, "frequencies", None)
    if sampler is None:
        raise ValueError(
            f"{type(kernel).__name__} is not stationary, so it has no random frequencies: "
            "use Gaussian, Laplacian or Matern"
        )
    return np.asarray(sampler(n, d, rng))
