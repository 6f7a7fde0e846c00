"""The functions of all values of a path, as the outputs of one predictor, alike for every kind of model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.arrays import Floats, to_numpy
from .._solvers.predictors import BasisPredictor, KernelExpansion
from .._solvers.spectral.problem import path_coefficients
from ..bases.maps import CosineMap, WaveMap

MOST_POINTS = 2000  # of a kernel expansion whose whole path is worked out


@dataclass(frozen=True)
class Family:
    """The functions of all values of a path, as the outputs of one predictor, and their norms in H_K."""

    predictor: BasisPredictor | KernelExpansion
    norms: Floats | None


def family_of(model: Any, basis: Any, target: int = 0) -> Family | None:
    """The functions along λ, rising, where the model holds them or its sums and basis give them again."""
    path = getattr(model, "path_", None)
    if path is None or not hasattr(path, "df"):
        return None
    order = np.argsort(path.lam)
    again = getattr(model, "_solutions", None)
    if again is not None and basis is not None and model.n_rounds_ == 1:
        _, found = again(model.summary_, basis, own=False)
        coef, b = found.coef[order, :, target].T, found.intercept[order, target]
        return Family(BasisPredictor(basis.map_, basis.coefficients_ @ coef, b), np.linalg.norm(coef, axis=0))
    if getattr(path, "map", None) is not None:
        coef, b = path.coef[order, :, target].T, path.intercept[order, target]
        waves = isinstance(path.map, (WaveMap, CosineMap))  # rotated, so norms are those of the coefficients
        return Family(BasisPredictor(path.map, coef, b), np.linalg.norm(coef, axis=0) if waves else None)
    return _expansions(path, order, target) if getattr(path, "problem", None) is not None else None


def _expansions(path: Any, order: np.ndarray, target: int) -> Family | None:
    problem = path.problem
    points = problem.kernel.anchors(problem.X)
    if points.shape[0] > MOST_POINTS or points.shape[1] == 0:
        return None
    found = (
        list(path_coefficients(problem, path.lam))
        if path.coefs is None
        else list(zip(path.coefs, path.intercepts, strict=True))
    )
    coef = np.column_stack([to_numpy(found[i][0])[:, target] for i in order])
    b = np.asarray([float(found[i][1][target]) for i in order])
    points = to_numpy(points)
    squares = np.einsum("il,il->l", coef, np.asarray(problem.kernel(points)) @ coef)
    return Family(KernelExpansion(problem.kernel, points, coef, b), np.sqrt(np.maximum(squares, 0.0)))
