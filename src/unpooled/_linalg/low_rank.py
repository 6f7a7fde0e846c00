"""A certified low-rank decomposition from a pivoted Cholesky factor; the kernel matrix is never formed.

Greedy pivoting picks the row whose residual diagonal is largest and subtracts it: M = LLᵀ + E with E ⪰ 0, so
‖E‖₂ ≤ tr E, and tr E is known at every step. Replacing M by LLᵀ moves (M + μI)⁻¹ by at most tr E/μ² in norm, and ridge
predictions by at most κ·tr E·‖y‖/(2μ^{3/2}); with tr E ≤ tol·μ and μ = Nλ that is κ·tol·rms(y)/(2√λ), in practice far
less. Other filters see a spectrum that has moved by at most tol·λ (the cut-off may then count an eigenvalue at λ to the
other side). Smooth kernels in few dimensions need a few hundred columns where N is in the tens of thousands.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import scipy.linalg

from .operator import Coordinates, Decomposition, root_of


class _Columns(Protocol):
    """A kernel whose columns can be computed one by one."""

    def __call__(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray: ...

    def diag(self, X: np.ndarray) -> np.ndarray: ...


# tr E/μ, by the size of a number in bytes: the aim, and the least that must be reached. Rounding keeps the trace from
# being known better than to a few eps·tr M, which for the smallest λ is more than the aim.
TOLERANCE = {8: (1e-8, 1e-5), 4: (1e-4, 1e-3)}
FIRST_CHECK = 32  # columns before the first guess at the rank


def decompose(
    kernel: _Columns, X: np.ndarray, weights: np.ndarray | None, center: bool, lam: float, max_rank: int
) -> tuple[Decomposition, Coordinates] | None:
    """Return the thin decomposition for every λ' ≥ λ, or None if it takes more than ``max_rank`` columns."""
    n = len(X)
    root = root_of(weights, n)
    aim, least = TOLERANCE[X.dtype.itemsize]
    L = _pivoted_cholesky(kernel, X, root, aim * n * lam, least * n * lam, max_rank)
    if L is None:
        return None
    coordinates = Coordinates(n, root, center)
    if center:
        # 𝕂w from the factor too: L holds rows scaled by root, and w = root²/N.
        r = np.ones(n, dtype=X.dtype) if root is None else root
        coordinates.mean_row = (L @ (L.T @ r)) / (n * r)
        s = r / math.sqrt(n)
        L = L - np.outer(s, s @ L)
    # The SVD by QR keeps small singular values right, where LᵀL would square the condition number.
    Q, R = scipy.linalg.qr(L, mode="economic", check_finite=False, overwrite_a=True)
    W, singular, _ = scipy.linalg.svd(R, full_matrices=False, check_finite=False, overwrite_a=True)
    return Decomposition(singular.astype(float) ** 2 / n, Q @ W), coordinates


def _pivoted_cholesky(
    kernel: _Columns, X: np.ndarray, root: np.ndarray | None, aim: float, least: float, max_rank: int
) -> np.ndarray | None:
    """Return L with tr(R𝕂R - LLᵀ) ≤ aim, R = diag(root), or as small as rounding can tell if that is below ``least``.

    Return None if rounding hides it, as soon as max_rank looks too small, or if 𝕂 is not positive semi-definite.
    """
    diag = np.asarray(kernel.diag(X), dtype=float)
    if root is not None:
        diag = diag * np.asarray(root, dtype=float) ** 2
    start = float(diag.sum())
    eps = float(np.finfo(X.dtype).eps)
    tol = max(aim, 16 * eps * start)
    if tol > least:
        return None
    L = np.empty((len(X), min(max_rank, 2 * FIRST_CHECK)), dtype=X.dtype, order="F")
    check = FIRST_CHECK
    for k in range(max_rank + 1):
        trace = float(diag.sum())
        if trace <= tol:
            return L[:, :k]
        if k == max_rank:
            break
        if k == check:
            # Exponential decay from here on would need this many columns; anything slower needs more.
            decay = math.log(start / trace)
            if decay <= 0 or k * math.log(start / tol) / decay > max_rank:
                break
            check = k + FIRST_CHECK
        if k == L.shape[1]:
            L = np.asfortranarray(np.hstack([L, np.empty((len(X), min(k, max_rank - k)), dtype=X.dtype)]))
        p = int(np.argmax(diag))
        column = kernel(X, X[p : p + 1])[:, 0]
        if root is not None:
            column = column * (root * root[p])
        L[:, k] = (column - L[:, :k] @ L[p, :k]) / math.sqrt(diag[p])
        diag = diag - np.asarray(L[:, k], dtype=float) ** 2
        diag[p] = 0.0
        if diag.min() < -1e3 * eps * start / len(X):
            break  # not a Mercer kernel: the routes that see the whole matrix report it
        diag = np.maximum(diag, 0.0)
    return None
