"""Adapters for kernels that users have: scikit-learn's metrics and Gaussian-process kernels, functions, matrices.

A name means here what it means in scikit-learn, although one of the names is used otherwise in this library: the string
"laplacian" is scikit-learn's kernel of the Manhattan distance, and our kernel of the Euclidean distance is the class
:class:`~unpooled.kernels.Laplacian`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from .._base.arrays import Array, is_numpy, like, namespace
from .._base.text import quote
from .base import Kernel, Product, Scaled, Sum
from .pointwise import Linear, Polynomial
from .stationary import Gaussian, Matern


def as_kernel(kernel: Any) -> Kernel:
    """A :class:`Kernel` from whatever a user calls one.

    - a Kernel: itself; None: ``Gaussian("median")``;
    - the name of a scikit-learn pairwise kernel ("rbf", "poly", "laplacian", ...) with scikit-learn's
      meaning and defaults, or "precomputed";
    - a kernel of ``sklearn.gaussian_process.kernels``;
    - a function of two matrices that returns a matrix, or of two rows that returns a number.

    Parameters
    ----------
    kernel : any of these
    """
    if kernel is None:
        return Gaussian("median")
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return _from_name(kernel)
    if isinstance(kernel, gp.Kernel):
        return _from_gaussian_process(kernel)
    if isinstance(kernel, type):
        raise ValueError(f"kernel must be an object, not the class {kernel.__name__}: write {kernel.__name__}()")
    if callable(kernel):
        return FromFunction(kernel)
    raise ValueError(
        f"kernel must be a Kernel, a scikit-learn kernel or its name, a function, or None; got {quote(kernel)}"
    )


def _from_name(name: str) -> Kernel:
    if name == "precomputed":
        return Precomputed()
    if name in ("polynomial", "poly"):
        return Polynomial()
    if name == "linear":
        return Linear()
    if name in PAIRWISE_KERNEL_FUNCTIONS:
        return Pairwise(name)
    known = ", ".join(sorted({*PAIRWISE_KERNEL_FUNCTIONS, "precomputed"}))
    raise ValueError(f"kernel {quote(name)} is not known: use one of {known}, or an object of unpooled.kernels")


def _from_gaussian_process(kernel: gp.Kernel) -> Kernel:
    """Our own kernel where there is an equal one (faster, saves to a file), else a thin wrapper."""
    if isinstance(kernel, gp.Sum):
        return Sum(_from_gaussian_process(kernel.k1), _from_gaussian_process(kernel.k2))
    if isinstance(kernel, gp.Product):
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(constant) is gp.ConstantKernel:
                return Scaled(float(constant.constant_value), _from_gaussian_process(other))
        return Product(_from_gaussian_process(kernel.k1), _from_gaussian_process(kernel.k2))
    if type(kernel) is gp.RBF or (type(kernel) is gp.Matern and kernel.nu == math.inf):
        return Gaussian(_one_number(kernel.length_scale))
    if type(kernel) is gp.Matern and kernel.nu in (0.5, 1.5, 2.5):
        return Matern(_one_number(kernel.length_scale), kernel.nu)
    return GaussianProcessKernel(kernel)


def _one_number(length_scale: Any) -> Any:
    """A list of one number is that number in scikit-learn, for any number of features."""
    return float(np.squeeze(length_scale)) if np.size(length_scale) == 1 else length_scale


def _numpy_only(kernel: Kernel, X: Array) -> None:
    if not is_numpy(X):
        raise ValueError(
            f"{type(kernel).__name__} works on NumPy arrays only: give X as one, or use Gaussian or Matern"
        )


def _diagonal_in_blocks(kernel: Kernel, X: Array, rows: int = 64) -> Array:
    """K(x_i, x_i) from small square blocks: one call a row costs a third of a millisecond each in scikit-learn."""
    parts = [np.diagonal(kernel.block(X[i : i + rows], X[i : i + rows])) for i in range(0, X.shape[0], rows)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=X.dtype)


class Pairwise(Kernel):
    """A kernel of scikit-learn by name, with scikit-learn's defaults: ``sklearn.metrics.pairwise``.

    Parameters
    ----------
    metric : "rbf", "poly", "laplacian", "linear", "cosine", "chi2", "sigmoid", ...
    gamma : positive number, or None for scikit-learn's default
    """

    def __init__(self, metric: str, gamma: float | None = None) -> None:
        self.metric = metric
        self.gamma = gamma

    @property
    def positive_definite(self) -> bool:  # type: ignore[override]
        return self.metric not in ("sigmoid", "additive_chi2")

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return self.metric in ("rbf", "laplacian", "chi2")

    def block(self, X: Array, Z: Array) -> Array:
        gamma = self.gamma
        if gamma is not None and not (isinstance(gamma, (int, float, np.number)) and 0 < gamma < math.inf):
            raise ValueError(f"gamma must be a positive number or None, got {quote(gamma)}")
        if self.metric == "rbf":  # the same function, on any array library and several times faster
            gamma = 1.0 / X.shape[1] if gamma is None else gamma
            return Gaussian(math.sqrt(0.5 / gamma)).block(X, Z)
        _numpy_only(self, X)
        given = {} if gamma is None else {"gamma": gamma}  # None is no value to chi2
        K = pairwise_kernels(X, Z, metric=self.metric, filter_params=True, **given)
        return np.asarray(K, dtype=X.dtype)

    def diag(self, X: Array) -> Array:
        if self.nonnegative:
            return Gaussian().diag(X)
        return _diagonal_in_blocks(self, X)

    def kappa(self, X: Array | None = None) -> float:
        return 1.0 if self.nonnegative or self.metric == "cosine" else super().kappa(X)


class GaussianProcessKernel(Kernel):
    """A kernel object of ``sklearn.gaussian_process.kernels``, used as it is.

    Parameters
    ----------
    kernel : the kernel object, its parameters as they are: they are not learned
    """

    by_columns = False  # white noise is on the diagonal of K(X) and in no column K(X, x_p)

    def __init__(self, kernel: gp.Kernel) -> None:
        self.kernel = kernel

    def block(self, X: Array, Z: Array) -> Array:
        _numpy_only(self, X)
        return np.asarray(self.kernel(X, Z), dtype=X.dtype)

    def diag(self, X: Array) -> Array:
        _numpy_only(self, X)
        return np.asarray(self.kernel.diag(X), dtype=X.dtype)


class FromFunction(Kernel):
    """A kernel from a function.

    ``function(X, Z)`` may take two matrices and return the matrix of values, as in ``SVC``, or two rows and
    return a number, as in ``KernelRidge`` (slower: a Python call for every pair). Which of the two it is, is
    found out by trying it on two and three copies of a row. It must be positive semi-definite.

    Parameters
    ----------
    function : of two matrices, or of two rows
    """

    positive_definite = False  # nobody knows: the solvers look at the matrix

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def _takes_matrices(self, row: Array) -> bool:
        m = row.shape[1] + 1  # not the number of features: x @ z must not pass for a product of matrices
        n = m + 1
        try:
            values = self.function(np.repeat(row, n, axis=0), np.repeat(row, m, axis=0))
        except Exception:  # a function of rows may fail in any way on matrices
            return False
        return getattr(values, "shape", None) == (n, m)

    def block(self, X: Array, Z: Array) -> Array:
        if X.shape[0] == 0 or Z.shape[0] == 0:
            return np.empty((X.shape[0], Z.shape[0]), dtype=X.dtype)
        if not is_numpy(X):
            return self.function(X, Z)
        if self._takes_matrices(X[:1]):
            return np.array(self.function(X, Z), dtype=X.dtype, order="C")
        return np.asarray([[float(self.function(x, z)) for z in Z] for x in X], dtype=X.dtype)

    def diag(self, X: Array) -> Array:
        if not is_numpy(X):
            return namespace(X).linalg.diagonal(self.block(X, X))
        if X.shape[0] and not self._takes_matrices(X[:1]):
            return np.asarray([float(self.function(x, x)) for x in X], dtype=X.dtype)
        return _diagonal_in_blocks(self, X)


class Precomputed(Kernel):
    """The kernel matrix itself in place of X: N×N to fit, n×N (new rows against training rows) to predict.

    ``columns`` picks those of the N that take part; an estimator sets it where some rows have no weight.

    Parameters
    ----------
    columns : numbers of columns, or None for all
    """

    by_columns = False
    positive_definite = False  # nobody knows

    def __init__(self, columns: Any = None) -> None:
        self.columns = columns

    def block(self, X: Array, Z: Array) -> Array:
        K = X + 0.0  # a fresh array, which the caller may overwrite
        if self.columns is not None:
            xp = namespace(X)
            K = xp.take(X, like(np.asarray(self.columns), X, dtype=xp.int64), axis=1)
        if K.shape[1] != Z.shape[0]:
            raise ValueError(
                f"with a precomputed kernel X must have one column per training row: expected {Z.shape[0]}, "
                f"got {X.shape[1]}"
            )
        return K

    def diag(self, X: Array) -> Array:
        return namespace(X).linalg.diagonal(self.block(X, X))

    def anchors(self, X: Array) -> Array:
        return X[:, :0]  # only the number of training rows matters
