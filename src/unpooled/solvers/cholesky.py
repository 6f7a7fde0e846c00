"""(M + μI)⁻¹ v by Cholesky, in the memory of M."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from ..arrays import Array, add_to_diagonal, is_numpy, is_torch, namespace
from . import blocked
from .decomposition import NotPositiveDefinite

Solve = Callable[[Array], Array]  #: v ↦ (M + μI)⁻¹ v
IN_PLACE_FROM = 20_000  # rows from which panels are factorised: LAPACK's own would take a copy of a tensor, or crash


def matrices(X: Array) -> float:
    """How many matrices of the size of M there are at the peak, for n rows X."""
    return 1.0 if is_numpy(X) or (is_torch(X) and X.shape[0] >= IN_PLACE_FROM) else 2.0


def factor(M: Array, mu: float) -> Solve:
    """A function v ↦ (M + μI)⁻¹ v. Overwrites M: no second matrix is held, of small tensors excepted."""
    add_to_diagonal(M, mu)
    try:
        if M.shape[0] >= IN_PLACE_FROM and (is_numpy(M) or is_torch(M)):
            blocked.factor_(M, blocked.PANEL)
            return lambda v: blocked.solve(M, v, blocked.PANEL)
        return _numpy_factor(M) if is_numpy(M) else _array_api_factor(M)
    except (np.linalg.LinAlgError, RuntimeError) as error:
        # torch's LinAlgError is a RuntimeError; an out-of-memory error is one too and must pass through.
        if "memory" in str(error).lower():
            raise
        raise NotPositiveDefinite from None


def _numpy_factor(M: np.ndarray) -> Solve:
    low = scipy.linalg.cho_factor(M.T, lower=False, overwrite_a=True, check_finite=False)
    return lambda v: scipy.linalg.cho_solve(low, v, check_finite=False)


def _array_api_factor(M: Array) -> Solve:
    xp = namespace(M)
    L = xp.linalg.cholesky(M)
    solve = getattr(xp.linalg, "solve_triangular", None)
    if solve is not None:  # torch
        return lambda v: solve(L.T, solve(L, v, upper=False), upper=True)
    return lambda v: xp.linalg.solve(L.T, xp.linalg.solve(L, v))
