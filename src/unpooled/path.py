"""The path of a spectral regression: what every λ of the grid scored, and what it predicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, like, namespace
from .filters import Floats
from .kernels.base import Kernel
from .predictors import KernelExpansion

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class Path:
    """The regularisation path. Arrays run along λ in the order of the grid.

    Attributes
    ----------
    lam : (L,) the grid
    criterion : (L,), or (L, T) for several targets: the score, a weighted mean squared error
    df : (L,) effective degrees of freedom, the trace of the hat matrix
    criterion_name : "loo", "gcv" or "cv"
    exact : False where leave-one-out is the shortcut that is exact for Tikhonov alone
    iterations : (L,) the number of iterations λ stands for, or None
    """

    lam: Floats
    criterion: Floats
    df: Floats
    criterion_name: str
    exact: bool
    iterations: np.ndarray | None
    index: np.ndarray  #: for every target the position of its λ
    kernel: Kernel | None = field(default=None, repr=False)
    points: Array = field(default=None, repr=False)
    coefs: Array | None = field(default=None, repr=False)
    intercepts: Array | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.lam)

    @property
    def at_edge(self) -> bool:
        """True if a chosen λ is the smallest or largest of the grid: a wider grid may do better."""
        chosen = self.lam[self.index]
        return bool(np.any((chosen == self.lam.min()) | (chosen == self.lam.max())) and len(self.lam) > 1)

    def predict(self, X: Array) -> Array:
        """Predictions for every λ: shape (L, n), or (L, n, T) for several targets."""
        if self.coefs is None or self.intercepts is None or self.kernel is None:
            raise ValueError(
                "the coefficients of the whole path were not kept (too large, or the model comes from a file): "
                "fit again with lam set to the values you want"
            )
        xp = namespace(self.coefs)
        L, n, T = self.coefs.shape
        flat = xp.reshape(xp.moveaxis(self.coefs, 0, 1), (n, L * T))  # one pass over the kernel for all
        expansion = KernelExpansion(self.kernel, self.points, flat, xp.reshape(self.intercepts, (L * T,)))
        X = X if hasattr(X, "dtype") and hasattr(X, "shape") else np.asarray(X, dtype=float)
        values = expansion.predict(like(X, X, dtype=self.points.dtype) if X.dtype != self.points.dtype else X)
        out = namespace(values).moveaxis(namespace(values).reshape(values, (values.shape[0], L, T)), 0, 1)
        return out[:, :, 0] if self.criterion.ndim == 1 else out

    def as_dict(self) -> dict[str, Any]:
        """Plain columns, for a data frame of your choice: ``pandas.DataFrame(model.path_.as_dict())``."""
        columns: dict[str, Any] = {"lam": self.lam, "df": self.df}
        if self.iterations is not None:
            columns["iterations"] = self.iterations
        if self.criterion.ndim == 1:
            columns[self.criterion_name] = self.criterion
        else:
            columns |= {f"{self.criterion_name}_{t}": self.criterion[:, t] for t in range(self.criterion.shape[1])}
        return columns

    def plot(self, ax: Axes | None = None, **line: Any) -> Axes:
        """The criterion against λ, the choice marked. Needs matplotlib (``pip install unpooled[plot]``)."""
        from .reports.plots import plot_path

        return plot_path(self, ax, **line)
