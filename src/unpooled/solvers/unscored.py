"""The coefficients of every λ of a grid, without scores: what validation on other rows needs.

Plain and iterated Tikhonov need no orthogonal matrix then, only its action on the labels (:mod:`.banded`).
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, is_numpy, namespace
from ..filters import Floats
from . import banded
from .decomposition import NotPositiveDefinite
from .fit import Problem, ridge_iterations, thin_decomposition
from .operator import Coordinates
from .paths import coefficients_along

BANDED_FROM = 300  # rows from which the reduction beats an eigendecomposition


def coefficients(problem: Problem, lams: Floats, single: bool = False) -> tuple[Array, Array]:
    """c (L, N, T) and intercepts (L, T). ``single`` factorises in float32; λ it cannot resolve come out as NaN."""
    xp = namespace(problem.X)
    able = problem.ridge_times > 0 and is_numpy(problem.X) and problem.kernel.positive_definite
    thin = thin_decomposition(problem, float(lams.min()), "auto")
    if thin is None and able and problem.n >= BANDED_FROM:
        M, coordinates = problem.dense(problem.of_decomposition)
        return _by_reduction(problem, M.astype(np.float32) if single else M, coordinates, lams)
    found = list(coefficients_along(problem, lams, thin))
    return xp.stack([c for c, _ in found]), xp.stack([b for _, b in found])


def _by_reduction(
    problem: Problem, M: np.ndarray, coordinates: Coordinates, lams: Floats
) -> tuple[np.ndarray, np.ndarray]:
    n, dtype = problem.n, M.dtype
    v, b = coordinates.targets(problem.Y, problem.X.dtype)
    size = max(float(np.abs(v).max()), float(np.finfo(float).tiny))  # labels of any scale fit single precision
    reduced = banded.reduce_for_solving(M)
    w = reduced.Q.transposed_times((v / size).astype(dtype))
    solutions = np.full((n, len(lams), v.shape[1]), np.nan, dtype=dtype, order="F")
    for i, lam in enumerate(lams):
        mu = float(n * lam)
        try:
            solve = _Shifted(reduced, mu)
            solutions[:, i] = ridge_iterations(problem.ridge_times, solve, w, float(lam), n)
        except NotPositiveDefinite:
            if mu > 1e3 * np.finfo(dtype).eps * reduced.norm:
                raise
    a = reduced.Q.times(solutions.reshape((n, -1), order="F")).reshape((n, len(lams), -1), order="F")
    c = np.stack([coordinates.coefficients(a[:, i].astype(problem.X.dtype) * size) for i in range(len(lams))])
    return c, np.stack([coordinates.intercept(c[i], b) for i in range(len(lams))])


class _Shifted:
    """W ↦ (B + μI)⁻¹ W."""

    def __init__(self, reduced: banded.Banded, mu: float) -> None:
        self.reduced, self.mu = reduced, mu

    def __call__(self, W: np.ndarray) -> np.ndarray:
        return self.reduced.solve_reduced(self.mu, W)
