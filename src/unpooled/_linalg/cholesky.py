"""Cholesky factors in the memory of M, to solve (M + μI)x = v where there is no room for a second matrix.

The factorisation works on panels of columns from left to right and updates each one with all finished columns to its
left:

    L_kk L_kkᵀ = M_kk - L_k: L_k:ᵀ,        L_ik = (M_ik - L_i: L_k:ᵀ) L_kk⁻ᵀ    for the rows i below,

where ":" are the columns before k. All but a share b/N of the N³/3 operations, b being the width of a panel, are in
these products, which are as long as the finished part and are subtracted in the memory of the panel; the workspace is a
panel or two. Only the lower triangle is read, and apart from it only the diagonal blocks are written. These panels are
used where a library's own factorisation will not do: torch's returns a new matrix, and OpenBLAS's crashes on 40,000
rows.

LAPACK overwrites arrays in Fortran order. A symmetric matrix in C order is, transposed, just such an array, so on NumPy
a factorisation needs no copy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from .._base.arrays import Array, add_to_diagonal, cholesky, is_numpy, is_torch, namespace, solve_lower
from .._base.threads import cut_stretches
from .operator import NotPositiveDefinite

PANEL = 2048  # columns: products run at full speed, and two panels of 100,000 rows are 3 GB


def factor_(M: Array, panel: int) -> None:
    """Write L with LLᵀ = M over the lower triangle of M, ``panel`` columns at a time."""
    n = M.shape[0]
    for start in range(0, n, panel):
        end = min(start + panel, n)
        columns = M[start:, start:end]
        if start:
            _subtract(columns, M[start:, :start], M[start:end, :start], panel)
        corner = cholesky(namespace(M).asarray(columns[: end - start, :], copy=True))
        if corner is None:
            raise NotPositiveDefinite
        columns[: end - start, :] = corner
        below = columns[end - start :, :]
        for rows in _cut_pieces(below, panel):
            below[rows, :] = solve_lower(corner, below[rows, :].T).T


def _subtract(columns: Array, A: Array, B: Array, panel: int) -> None:
    """Subtract ABᵀ from columns, in place."""
    if not is_numpy(columns):
        columns.addmm_(A, B.mT, alpha=-1.0)
        return
    for rows in _cut_pieces(columns, panel):
        columns[rows] -= A[rows] @ B.T


def _cut_pieces(columns: Array, panel: int) -> list[slice]:
    """Return all rows as one piece, except for NumPy, whose products need arrays of their own."""
    n = columns.shape[0]
    return cut_stretches(n, panel) if is_numpy(columns) else [slice(0, n)] if n else []


def solve(L: Array, v: Array, panel: int) -> Array:
    """Return (LLᵀ)⁻¹ v for L from :func:`factor_`, panel by panel, because a triangular solver may copy its matrix."""
    n = L.shape[0]
    x = namespace(v).asarray(v, copy=True)
    starts = range(0, n, panel)
    for start in starts:  # L z = v
        own = slice(start, min(start + panel, n))
        x[own, :] -= L[own, :start] @ x[:start, :]
        x[own, :] = solve_lower(L[own, own], x[own, :])
    for start in reversed(starts):  # Lᵀ x = z
        own, later = slice(start, min(start + panel, n)), slice(min(start + panel, n), n)
        x[own, :] -= L[later, own].T @ x[later, :]
        x[own, :] = solve_lower(L[own, own], x[own, :], transposed=True)
    return x


Solve = Callable[[Array], Array]  #: v ↦ (M + μI)⁻¹ v
IN_PLACE_FROM = 20_000  # rows from which panels are factorised: LAPACK's own would take a copy of a tensor, or crash


def count_matrices(library: str, n: int) -> float:
    """Return how many matrices of the size of M exist at the peak, for n rows in an array of that library."""
    return 1.0 if library == "numpy" or (library == "torch" and n >= IN_PLACE_FROM) else 2.0


def factor(M: Array, mu: float) -> Solve:
    """Return a function v ↦ (M + μI)⁻¹ v. Overwrites M: there is no second matrix, except for small tensors."""
    add_to_diagonal(M, mu)
    if M.shape[0] >= IN_PLACE_FROM and (is_numpy(M) or is_torch(M)):
        factor_(M, PANEL)
        return lambda v: solve(M, v, PANEL)
    if is_numpy(M):
        try:
            low = scipy.linalg.cho_factor(M.T, lower=False, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotPositiveDefinite from None
        return lambda v: scipy.linalg.cho_solve(low, v, check_finite=False)
    L = cholesky(M)
    if L is None:
        raise NotPositiveDefinite
    return lambda v: solve_lower(L, solve_lower(L, v), transposed=True)
