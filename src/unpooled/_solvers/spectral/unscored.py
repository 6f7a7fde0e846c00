"""Coefficients for every λ of a grid without scores, and unlabeled rows in a regression by inflated labels.

Rows without labels enter by inflating the labels of the others (Wang 2018, (3.22)). With |D| labeled and |U| unlabeled
rows, D* = D ∪ U carries the labels

    y* = (|D*|/|D|) y on D,   0 on U,   so that   (1/|D*|) Σ_{D*} y* K_x = (1/|D|) Σ_D y K_x:

the operator L_{D*} learns from every row and the right-hand side from the labeled ones. With an intercept the labels
are centred before they are inflated: b = mean(y) over D, and (y - b)|D*|/|D| on D. Inflating y itself would make a
shift of y a spike at the labeled rows.

Validation on other rows needs the coefficients of every λ and no leave-one-out diagonal. Plain and iterated Tikhonov
then never need the orthogonal matrix Q of the banded form (:mod:`unpooled._linalg.banded`), only its action on the
labels, which saves half of the operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._base.arrays import Array, Floats, is_numpy, like, namespace
from ..._linalg import banded
from ..._linalg.operator import Coordinates, NotPositiveDefinite, root_of
from .paths import coefficients_along
from .problem import Problem, ridge_iterations, thin_decomposition


def inflate(
    X: Array, Y: Array, weights: np.ndarray | None, U: Array, center: bool
) -> tuple[Array, Array, np.ndarray | None, Array]:
    """X*, Y*, w* and the intercepts b. A labeled row of weight w counts as w rows, an unlabeled one as one."""
    xp: Any = namespace(X)
    n = int(X.shape[0])
    labeled = float(n) if weights is None else float(np.sum(weights))
    total = labeled + U.shape[0]
    root = None if weights is None else root_of(like(weights, Y), n)
    _, b = Coordinates(n, root, center).targets(Y, Y.dtype)
    zeros = xp.zeros((U.shape[0], Y.shape[1]), dtype=Y.dtype, device=Y.device)
    Y_star = xp.concat([(Y - b) * (total / labeled), zeros])
    w_star = None if weights is None else np.concatenate([weights, np.ones(U.shape[0])])
    return xp.concat([X, like(U, X)]), Y_star, w_star, b


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
