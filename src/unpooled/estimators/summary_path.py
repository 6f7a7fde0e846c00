"""The path of λ in the span of a basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..bases.maps import RowMap
from ..filters import Floats
from ..notebooks import TriedLam
from ..path import check_rows
from ..predictors import BasisPredictor

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(repr=False)
class SummaryPath(TriedLam):
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

    def __len__(self) -> int:
        return len(self.lam)

    @property
    def at_edge(self) -> bool:
        """True if the chosen λ is the smallest or largest of the grid: a wider grid may do better."""
        chosen = self.lam[self.index]
        return bool(np.any((chosen == self.lam.min()) | (chosen == self.lam.max())) and len(self.lam) > 1)

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

    def as_dict(self) -> dict[str, Any]:
        """Plain columns, for a data frame of your choice: ``pandas.DataFrame(model.path_.as_dict())``.

        Returns
        -------
        dict of arrays
        """
        columns: dict[str, Any] = {"lam": self.lam, "df": self.df}
        scores = self.criterion.reshape(len(self.lam), -1)
        if self.criterion.ndim == 1:
            return columns | {self.criterion_name: self.criterion}
        return columns | {f"{self.criterion_name}_{t}": scores[:, t] for t in range(scores.shape[1])}

    def plot(self, ax: Axes | None = None, **line: Any) -> Axes:
        """The criterion against λ, the choice marked. Needs matplotlib (``pip install unpooled[plot]``).

        Parameters
        ----------
        ax : axes to draw in; None makes them
        **line : of the line, as matplotlib takes them

        Returns
        -------
        matplotlib axes
        """
        from ..reports.plots import plot_path

        return plot_path(self, ax, **line)
