"""Refinement of ridge solutions from a single-precision factorisation to double precision.

Single precision takes half the time of double and makes an excellent preconditioner: conjugate gradients on
(M + μI) a = v, preconditioned by the same inverse in float32, reach double precision in a few products with M, and
every target, with a λ of its own, is a column of the same products.

Single precision may choose λ, but it never gives the coefficients. The route ``mixed`` takes λ from a float32
factorisation and gives up where float32 cannot tell one λ from another; the coefficients are always float64, with the
residual that a direct solver would leave.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .operator import Decomposition

MAX_STEPS = 60
COLUMNS = 256  # right-hand sides at a time: bounded memory however many targets


class ApproximateInverse(Protocol):
    """An approximate solver of systems with M + μI."""

    def solve(self, mus: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return (M + mus[j] I)⁻¹ V_j for every column j, approximately."""


class SpectralInverse:
    """The inverse (M + μI)⁻¹ = U (Nσ + μ)⁻¹ Uᵀ from a full decomposition of M/N."""

    def __init__(self, decomposition: Decomposition) -> None:
        self.U = decomposition.U
        self.values = (len(self.U) * decomposition.sigma).astype(self.U.dtype)

    def solve(self, mus: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return (M + mus[j] I)⁻¹ V_j for every column j."""
        projected = self.U.T @ V
        projected /= self.values[:, None] + mus.astype(V.dtype)[None, :]
        return self.U @ projected


def solve_shifted(
    M: np.ndarray, mus: np.ndarray, V: np.ndarray, rough: ApproximateInverse
) -> tuple[np.ndarray, np.ndarray]:
    """Return x with (M + mus[j] I) x_j = V_j for every column j, and which columns reached double precision."""
    solution, done = np.empty_like(V), np.empty(V.shape[1], dtype=bool)
    for start in range(0, V.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        solution[:, columns], done[columns] = _preconditioned_cg(M, mus[columns], V[:, columns], rough)
    return solution, done


def _preconditioned_cg(
    M: np.ndarray, mus: np.ndarray, V: np.ndarray, rough: ApproximateInverse
) -> tuple[np.ndarray, np.ndarray]:
    norm_of_M = float(np.linalg.norm(M))
    eps = float(np.finfo(V.dtype).eps)

    def precondition(R: np.ndarray, active: np.ndarray) -> np.ndarray:
        # Residuals fall below the range of single precision: scale each column to one and back.
        size = np.maximum(np.linalg.norm(R, axis=0), np.finfo(float).tiny)
        return rough.solve(mus[active], (R / size).astype(np.float32)).astype(V.dtype) * size

    X, R = np.zeros_like(V), V.copy()
    done = np.linalg.norm(V, axis=0) == 0.0
    active = np.flatnonzero(~done)
    if not len(active):
        return X, done
    Z = precondition(R[:, active], active)
    P, rz = Z, np.sum(R[:, active] * Z, axis=0)
    for _ in range(MAX_STEPS):
        MP = M @ P + mus[active] * P
        alpha = rz / np.sum(P * MP, axis=0)
        X[:, active] += alpha * P
        R[:, active] -= alpha * MP
        # As small as a backward-stable direct solver would leave it.
        small = np.linalg.norm(R[:, active], axis=0) <= 4 * eps * (
            (norm_of_M + mus[active]) * np.linalg.norm(X[:, active], axis=0) + np.linalg.norm(V[:, active], axis=0)
        )
        done[active[small]] = True
        keep = ~small
        active, P, rz = active[keep], P[:, keep], rz[keep]
        if not len(active):
            break
        Z = precondition(R[:, active], active)
        rz_new = np.sum(R[:, active] * Z, axis=0)
        P, rz = Z + (rz_new / rz) * P, rz_new
    return X, done
