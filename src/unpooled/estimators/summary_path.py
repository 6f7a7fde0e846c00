"""The path of λ in the span of a basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..bases.maps import RowMap
from ..filters import Floats
from ..lam_path import LamPath
from ..path import check_rows
from ..predictors import BasisPredictor


@dataclass(repr=False)
class SummaryPath(LamPath):
    """What every λ of the grid scored, and what it predicts.

    Attributes
    ----------
    lam : (L,) the grid
    criterion : (L,), or (L, T) for several labels: an estimate of the mean squared error of a new label
    df : (L,) effective degrees of freedom
    criterion_name : "gcv", "risk" (LESS, from the summary alone) or "loo" (sums of leave-one-out errors)
    index : (T,) the position of the chosen λ
    """

    lam: Floats
    criterion: Floats
    df: Floats
    criterion_name: str
    index: np.ndarray
    map: RowMap | None = None
    coef: Floats | None = None  #: (L, m, T), of the map
    intercept: Floats | None = None

    def _known(self) -> tuple[Floats, Floats]:
        return self.df, self.criterion

    def predict(self, X: Any) -> Array:
        """Predictions for every λ: shape (L, n), or (L, n, T) for several labels.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        array of shape (L, n), or (L, n, T) for several targets
        """
        if self.map is None or self.coef is None or self.intercept is None:
            raise ValueError("a model from a file predicts at its chosen lam only: fit again to have the whole path")
        X = check_rows(X, np.empty((0, self.map.n_features_in)))
        out = np.stack([BasisPredictor(self.map, c, b).predict(X) for c, b in zip(self.coef, self.intercept)])
        return out[:, :, 0] if self.criterion.ndim == 1 else out
