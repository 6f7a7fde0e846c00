"""Array functions that the array API leaves open: where an array lives, moving it, working in place.

Everything mathematical in the library is written against the Python array API, so NumPy arrays and
torch tensors (CPU or GPU) go through the same lines. This module is the only one that asks which
library an array belongs to.
"""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from . import threads

Floats = NDArray[np.float64]


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask array, data frame or series."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(value, "dask")


Array = Any  #: an array of any library that follows the Python array API
BOUNDS = 8192  # copies of a bound: they stay in the innermost cache, and a call for each row of them costs nothing


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace (``xp``) that the given arrays share."""
    return compat.array_namespace(*arrays)


def is_numpy(array: Array) -> bool:
    """Return whether an array is NumPy's."""
    return isinstance(array, np.ndarray)


def is_torch(array: Any) -> bool:
    """Return whether a value is a torch tensor."""
    return bool(compat.is_torch_array(array))


def is_foreign(array: Any) -> bool:
    """Return whether a value is an array-API array of another library than NumPy, such as a torch tensor."""
    return compat.is_array_api_obj(array) and not isinstance(array, (np.ndarray, np.generic))


def to_numpy(array: Array) -> np.ndarray:
    """Return an array as a NumPy array in host memory."""
    if is_numpy(array):
        return array
    if not is_foreign(array):
        return np.asarray(array)  # a list, a number
    if compat.is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if compat.is_array_api_strict_namespace(namespace(array)):
        # array-api-strict forbids NumPy's conversion protocol on purpose; DLPack is its way out.
        return np.from_dlpack(array)
    return np.asarray(array)


def like(array: Array, reference: Array, dtype: Any = None) -> Array:
    """Return ``array`` with the library, the device and (unless given) the floating dtype of ``reference``."""
    dtype = reference.dtype if dtype is None else dtype
    if is_numpy(reference):
        return np.asarray(to_numpy(array), dtype=dtype)
    xp = namespace(reference)
    if not is_foreign(array) or namespace(array) is not xp:
        host = to_numpy(array)
        if host.dtype.kind != "f" or not host.flags.writeable or not host.flags.c_contiguous:
            host = host.copy()  # torch refuses negative strides and warns of read-only memory
        array = xp.asarray(host)
    return xp.asarray(array, dtype=dtype, device=compat.device(reference))


def as_floating(array: Array) -> Array:
    """Return an array of whole numbers in double precision, and a floating array unchanged."""
    xp = namespace(array)
    return array if xp.isdtype(array.dtype, "real floating") else xp.astype(array, xp.float64)


def take_rows(array: Array, rows: np.ndarray) -> Array:
    """Return the rows with the given numbers."""
    xp = namespace(array)
    return xp.take(array, like(rows, array, dtype=xp.int64), axis=0)


def eps(array: Array) -> float:
    """Return the rounding unit of an array's floating dtype."""
    return float(namespace(array).finfo(array.dtype).eps)


def exp_(array: Array) -> Array:
    """Take exponentials, in place where the library can, so that a kernel block needs no second block of memory."""
    if is_numpy(array):
        return np.exp(array, out=array)
    if compat.is_torch_array(array):
        return array.exp_()
    return namespace(array).exp(array)


def sqrt_(array: Array) -> Array:
    """Take square roots, in place where the library can."""
    if is_numpy(array):
        return np.sqrt(array, out=array)
    if compat.is_torch_array(array):
        return array.sqrt_()
    return namespace(array).sqrt(array)


def clip_(array: Array, low: float | None, high: float | None) -> Array:
    """Clip to [low, high], in place where the library can; None leaves a side open."""
    if is_numpy(array):
        for extremum, bound in ((np.maximum, low), (np.minimum, high)):
            if bound is not None:
                _bound(extremum, array, bound)
        return array
    if compat.is_torch_array(array):
        return array.clamp_(low, high)
    return namespace(array).clip(array, low, high)


def _bound(extremum: np.ufunc, array: np.ndarray, bound: float) -> None:
    """Apply a bound to every number, in place: NumPy is four times as fast if the bound is an array."""
    value = array.dtype.type(bound)
    if array.size < BOUNDS or not array.flags.c_contiguous:
        extremum(array, value, out=array)
        return
    numbers = array.reshape(-1)
    end = len(numbers) - len(numbers) % BOUNDS
    whole = numbers[:end].reshape(-1, BOUNDS)
    extremum(whole, np.full(BOUNDS, value), out=whole)
    extremum(numbers[end:], value, out=numbers[end:])


def set_diagonal(matrix: Array, values: Array | float) -> None:
    """Write ``values`` on the diagonal of a square matrix, in place."""
    n = matrix.shape[0]
    if is_numpy(matrix):
        np.fill_diagonal(matrix, values)
    elif compat.is_torch_array(matrix):
        matrix.fill_diagonal_(values) if isinstance(values, float) else matrix.diagonal().copy_(values)
    else:
        for i in range(n):
            matrix[i, i] = values if isinstance(values, float) else values[i]


def add_to_diagonal(matrix: Array, value: float) -> None:
    """Add one number to the diagonal of a square matrix, in place."""
    if is_numpy(matrix):
        np.einsum("ii->i", matrix)[...] += value  # a view of the diagonal, whatever the memory order
    elif compat.is_torch_array(matrix):
        matrix.diagonal().add_(value)
    else:
        for i in range(matrix.shape[0]):
            matrix[i, i] = matrix[i, i] + value


def fill_lower(upper: np.ndarray) -> np.ndarray:
    """Copy the upper triangle of a symmetric matrix to its lower triangle, in place."""
    for rows in threads.cut_row_blocks(len(upper), len(upper)):
        upper[rows, : rows.start] = upper[: rows.start, rows].T
        corner = upper[rows, rows]
        upper[rows, rows] = np.triu(corner) + np.triu(corner, 1).T
    return upper


def cholesky(matrix: Array) -> Array | None:
    """Return the lower Cholesky factor, which NumPy writes over the matrix; None if it is not positive definite."""
    if is_numpy(matrix):
        # The transpose of a C-ordered matrix is the Fortran array that LAPACK overwrites: Uᵀ is the lower factor.
        potrf = scipy.linalg.get_lapack_funcs("potrf", (matrix,))
        factor, failed = potrf(matrix.T, lower=0, overwrite_a=1, clean=1)
        return None if failed else factor.T
    if compat.is_torch_array(matrix):
        import torch

        factor, failed = torch.linalg.cholesky_ex(matrix)
        return None if int(failed) else factor
    try:
        return namespace(matrix).linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None


def solve_lower(L: Array, B: Array, transposed: bool = False) -> Array:
    """Return L⁻¹B, or L⁻ᵀB, for a lower triangular L."""
    if is_numpy(L):
        # L as dpotrf left it is the transpose of a Fortran array: an upper factor, used transposed.
        return scipy.linalg.solve_triangular(L.T, B, lower=False, trans=0 if transposed else 1, check_finite=False)
    xp = namespace(L)
    triangular = getattr(xp.linalg, "solve_triangular", None)
    if triangular is None:
        return xp.linalg.solve(L.T if transposed else L, B)
    return triangular(L.T, B, upper=True) if transposed else triangular(L, B, upper=False)
