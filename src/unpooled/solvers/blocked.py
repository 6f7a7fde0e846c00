"""A Cholesky factor of a tensor in the memory of the tensor, for matrices that leave no room for a second one.

Panels of columns from left to right, each brought up to date with all that is finished to its left:

    L_kk L_kkᵀ = M_kk - L_k: L_k:ᵀ,        L_ik = (M_ik - L_i: L_k:ᵀ) L_kk⁻ᵀ    for the rows i below,

where ":" are the columns before k. All but a share b/N of the N³/3 operations are in these products, which are as long
as what is finished and are subtracted where the panel lies; workspace is a panel or two. Only the lower triangle is
read and written. torch's own factorisation returns a new matrix.
"""

from __future__ import annotations

from ..arrays import Array, namespace
from .decomposition import NotPositiveDefinite

PANEL = 2048  # columns: products run at full speed, and two panels of 100,000 rows are 3 GB


def factor_(M: Array, panel: int) -> None:
    """L with LLᵀ = M, written over the lower triangle of M, so many columns at a time."""
    import torch

    n = M.shape[0]
    for start in range(0, n, panel):
        end = min(start + panel, n)
        columns = M[start:, start:end]
        if start:
            columns.addmm_(M[start:, :start], M[start:end, :start].mT, alpha=-1.0)
        corner, failed = torch.linalg.cholesky_ex(columns[: end - start, :])
        if int(failed):
            raise NotPositiveDefinite
        columns[: end - start, :] = corner
        if end < n:
            below = columns[end - start :, :]
            below.copy_(torch.linalg.solve_triangular(corner.mT, below, upper=True, left=False))


def solve(L: Array, v: Array, panel: int) -> Array:
    """(LLᵀ)⁻¹ v for what :func:`factor_` made: a panel at a time, because a triangular solver may copy its matrix."""
    triangular = namespace(L).linalg.solve_triangular
    n = L.shape[0]
    x = namespace(v).asarray(v, copy=True)
    starts = range(0, n, panel)
    for start in starts:  # L z = v
        own = slice(start, min(start + panel, n))
        x[own, :] -= L[own, :start] @ x[:start, :]
        x[own, :] = triangular(L[own, own], x[own, :], upper=False)
    for start in reversed(starts):  # Lᵀ x = z
        own, later = slice(start, min(start + panel, n)), slice(min(start + panel, n), n)
        x[own, :] -= L[later, own].mT @ x[later, :]
        x[own, :] = triangular(L[own, own].mT, x[own, :], upper=True)
    return x
