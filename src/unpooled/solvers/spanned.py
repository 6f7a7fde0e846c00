"""How well a kernel does on many rows: ridge regression in the span of a few points, judged on other rows, every λ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..bases.empirical import independent
from ..filters import Floats
from ..kernels.base import Kernel
from .decomposition import NotPositiveDefinite

LAMS = np.logspace(0, -7, 15)  # λ/κ²; sums over very many rows can tell no smaller ones


@dataclass
class Rows:
    """Inputs, labels and weights."""

    X: Floats
    Y: Floats
    weights: Floats


def squared_errors(kernel: Kernel, n_points: int, seen: Rows, held: Rows) -> Floats:
    """Σ_t (y_t - f_t(x))² at the rows held out, with the λ that is best there; infinite where there is no fit.

    f = aᵀψ + b with ψ = L⁻¹K(p, ·), 𝕂_pp = LLᵀ for the first rows p: orthonormal functions, so that the ridge is λ|a|².
    """
    try:
        points, L = independent(kernel(seen.X[:n_points]), seen.X[:n_points])
    except (NotPositiveDefinite, ValueError):
        return np.full(len(held.X), np.inf)

    def psi(X: Floats) -> Floats:
        return scipy.linalg.solve_triangular(L, kernel(points, X), lower=True, overwrite_b=True, check_finite=False)

    w = seen.weights / np.sum(seen.weights)
    known = psi(seen.X)
    mean, b = known @ w, w @ seen.Y
    known -= mean[:, None]
    d = known @ (w[:, None] * (seen.Y - b))
    known *= np.sqrt(w)
    sigma, V = scipy.linalg.eigh(known @ known.T, check_finite=False, overwrite_a=True, driver="evd")
    beside, turned = V.T @ (psi(held.X) - mean[:, None]), V.T @ d
    kappa_sq = float(np.mean(kernel.diag(points))) or 1.0
    fits = [beside.T @ (turned / (np.maximum(sigma, 0.0) + lam * kappa_sq)[:, None]) + b for lam in LAMS]
    errors = [np.sum((held.Y - f) ** 2, axis=1) for f in fits]
    return min(errors, key=lambda error: float(held.weights @ error))
