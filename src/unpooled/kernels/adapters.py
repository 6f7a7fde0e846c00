"""Adapters for kernels that users have: names, functions, matrices, and kernels of scikit-learn.

A name that is a kernel of this library means that kernel with its defaults, in Python and at the command line alike.
Every other name is scikit-learn's. One name means something else there: scikit-learn's "laplacian" takes the Manhattan
distance, and is ``Pairwise("laplacian")`` here. "linear" and "polynomial" are the same functions in both libraries.
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
from .pointwise import Brownian, Linear, Polynomial
from .stationary import Gaussian, Laplacian, Matern

#: the names of our own kernels; "poly" is scikit-learn's word for the same function
_OURS: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
    "linear": Linear,
    "polynomial": Polynomial,
    "poly": Polynomial,
    "brownian": Brownian,
}
#: all names of kernels that have values at new points: ours first, then scikit-learn's
NAMES = (*_OURS, *sorted(PAIRWISE_KERNEL_FUNCTIONS.keys() - _OURS.keys()))


def as_kernel(kernel: Any) -> Kernel:
    """Return the :class:`Kernel` for anything that describes a kernel.

    - A Kernel is returned itself. None is ``Gaussian()``, with the median distance as its length scale.
    - "gaussian", "laplacian", "matern", "linear", "polynomial" and "brownian" are the kernels of this library with
      their defaults.
    - "precomputed" is the kernel matrix in place of the rows.
    - Other names are scikit-learn's pairwise kernels with its defaults: "rbf", "chi2", "additive_chi2", "sigmoid",
      "cosine", "poly" (which is our "polynomial"). scikit-learn's "laplacian", of the Manhattan distance, is
      ``Pairwise("laplacian")``.
    - A kernel of ``sklearn.gaussian_process.kernels``.
    - A function of two matrices that returns a matrix, or of two rows that returns a number.

    Parameters
    ----------
    kernel : any of these
    """
    if kernel is None:
        return Gaussian()
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
        f"kernel must be a Kernel, the name of one, a scikit-learn kernel, a function, or None; got {quote(kernel)}"
    )


def _from_name(name: str) -> Kernel:
    if name == "precomputed":
        return Precomputed()
    if name in _OURS:
        return _OURS[name]()
    if name in NAMES:
        return Pairwise(name)
    names = ", ".join((*NAMES, "precomputed"))
    raise ValueError(f"kernel {quote(name)} is not known: use one of {names}, or an object of unpooled.kernels")


def _from_gaussian_process(kernel: gp.Kernel) -> Kernel:
    """Return our own kernel where there is an equal one, which is faster and can be saved, or a thin wrapper."""
    if isinstance(kernel, gp.Sum):
        return Sum(_from_gaussian_process(kernel.k1), _from_gaussian_process(kernel.k2))
    if isinstance(kernel, gp.Product):
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(constant) is gp.ConstantKernel:
                return Scaled(float(constant.constant_value), _from_gaussian_process(other))
        return Product(_from_gaussian_process(kernel.k1), _from_gaussian_process(kernel.k2))
    if type(kernel) is gp.RBF or (type(kernel) is gp.Matern and kernel.nu == math.inf):
        return Gaussian(_unwrap_number(kernel.length_scale))
    if type(kernel) is gp.Matern and kernel.nu in (0.5, 1.5, 2.5):
        return Matern(_unwrap_number(kernel.length_scale), kernel.nu)
    return GaussianProcessKernel(kernel)


def _unwrap_number(length_scale: Any) -> Any:
    """Return the number in a list of one: to scikit-learn that is one length scale for any number of features."""
    return float(np.squeeze(length_scale)) if np.size(length_scale) == 1 else length_scale


def _require_numpy(kernel: Kernel, X: Array) -> None:
    if not is_numpy(X):
        raise ValueError(
            f"{type(kernel).__name__} works on NumPy arrays only: give X as one, or use Gaussian or Matern"
        )


def _compute_diagonal(kernel: Kernel, X: Array, rows: int = 64) -> Array:
    """Compute K(x_i, x_i) from small square blocks, because scikit-learn takes a third of a millisecond per call."""
    parts = [np.diagonal(kernel.block(X[i : i + rows], X[i : i + rows])) for i in range(0, X.shape[0], rows)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=X.dtype)


class Pairwise(Kernel):
    """A kernel of ``sklearn.metrics.pairwise`` by scikit-learn's name, with scikit-learn's meaning and defaults.

    Parameters
    ----------
    metric : "rbf", "chi2", "additive_chi2", "sigmoid", "cosine", "poly", "linear", or "laplacian" (Manhattan distance)
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
        if self.metric == "rbf":  # our Gaussian is the same function on any array library, and several times faster
            gamma = 1.0 / X.shape[1] if gamma is None else gamma
            return Gaussian(math.sqrt(0.5 / gamma)).block(X, Z)
        _require_numpy(self, X)
        options = {} if gamma is None else {"gamma": gamma}  # chi2 does not accept None
        K = pairwise_kernels(X, Z, metric=self.metric, filter_params=True, **options)
        return np.asarray(K, dtype=X.dtype)

    def diag(self, X: Array) -> Array:
        if self.nonnegative:
            return Gaussian().diag(X)
        return _compute_diagonal(self, X)

    def kappa(self, X: Array | None = None) -> float:
        return 1.0 if self.nonnegative or self.metric == "cosine" else super().kappa(X)


class GaussianProcessKernel(Kernel):
    """A kernel object of ``sklearn.gaussian_process.kernels``.

    Parameters
    ----------
    kernel : the kernel object; its parameters are used as they are and not learned
    """

    by_columns = False  # white noise is on the diagonal of K(X), but not in a column K(X, x_p)

    def __init__(self, kernel: gp.Kernel) -> None:
        self.kernel = kernel

    def block(self, X: Array, Z: Array) -> Array:
        _require_numpy(self, X)
        return np.asarray(self.kernel(X, Z), dtype=X.dtype)

    def diag(self, X: Array) -> Array:
        _require_numpy(self, X)
        return np.asarray(self.kernel.diag(X), dtype=X.dtype)


class FromFunction(Kernel):
    """A kernel that a function computes.

    ``function(X, Z)`` may take two matrices and return the matrix of values, as in ``SVC``, or two rows and return a
    number, as in ``KernelRidge``, which is slower because it costs a Python call for every pair. The class calls it
    with copies of one row to see which of the two it is. The function must be positive semi-definite.

    Parameters
    ----------
    function : of two matrices, or of two rows
    """

    positive_definite = False  # unknown, so the solvers look at the matrix

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
        return _compute_diagonal(self, X)


class Precomputed(Kernel):
    """A kernel matrix given in place of X: N×N to fit, n×N (new rows against training rows) to predict.

    Parameters
    ----------
    columns : array of int or None
        The training rows that take part, as column numbers; None is all. An estimator sets it if some rows have weight
        zero.
    """

    by_columns = False
    positive_definite = False  # unknown

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
