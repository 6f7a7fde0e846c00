"""The path of a descent: the iterations kept, and what was tried to choose one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array, namespace
from ..kernels.base import Kernel
from ..notebooks import Tried
from ..path import check_rows
from ..predictors import KernelExpansion


@dataclass(repr=False)
class DescentPath(Tried):
    """The descent at its chosen scale, at powers of √2 up to the last iteration, and the scores of what was tried.

    Attributes
    ----------
    n_iter : (L,) the iterations kept, rising
    scales : (S, T) the scales tried, or None where nothing was chosen
    tried : (I,) the iterations tried
    score : (S, I), or (S, I, T) for several targets: the mean bounded loss of rows left out, smaller is better
    one_target : whether labels came as a vector
    kernel, points, coefs, intercepts : the functions after every iteration kept; a model from a file has none of them
    """

    n_iter: np.ndarray
    one_target: bool
    scales: np.ndarray | None = None
    tried: np.ndarray | None = None
    score: np.ndarray | None = None
    kernel: Kernel | None = None  #: a model from a file has none, and none of what follows
    points: Array | None = None
    coefs: list[Array] = field(default_factory=list)  #: (N, T) for every iteration kept
    intercepts: list[Array] = field(default_factory=list)  #: (T,) likewise

    def _line(self) -> str:
        kept = f"{len(self.n_iter)} iterations kept, up to {self.n_iter[-1]:,}"
        tried = "nothing tried" if self.tried is None or self.scales is None else f"{len(self.scales)} scales tried"
        return f"{kept}; {tried}"

    def _columns(self) -> dict[str, np.ndarray]:
        """The best iteration of every scale."""
        if self.score is None or self.scales is None or self.tried is None:
            return {"iterations": self.n_iter}
        columns: dict[str, np.ndarray] = {}
        for t, scores in enumerate(np.moveaxis(self.score.reshape(len(self.scales), len(self.tried), -1), 2, 0)):
            end = "" if self.one_target else f" {t}"
            best = {"scale": self.scales[:, t], "best iteration": self.tried[scores.argmin(1)], "score": scores.min(1)}
            columns |= {name + end: values for name, values in best.items()}
        return columns

    def __len__(self) -> int:
        return len(self.n_iter)

    def predict(self, X: Array) -> Array:
        """Predictions after every iteration kept: shape (L, n), or (L, n, T) for several targets.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        array of shape (L, n), or (L, n, T) for several targets
        """
        if self.kernel is None or self.points is None:
            raise ValueError("a model from a file predicts after its last iteration only: fit again to have the path")
        X = X if self.points.shape[1] == 0 else check_rows(X, self.points)
        xp = namespace(X)
        # All iterations in one product: they are columns beside each other.
        together = KernelExpansion(
            self.kernel, self.points, xp.concat(self.coefs, axis=1), xp.concat(self.intercepts)
        ).predict(X)
        out = xp.permute_dims(xp.reshape(together, (X.shape[0], len(self), -1)), (1, 0, 2))
        return out[:, :, 0] if self.one_target else out

    def as_dict(self) -> dict[str, Any]:
        """Plain columns, for a data frame of your choice: every scale and iteration tried, or the iterations kept.

        Returns
        -------
        dict of arrays
        """
        if self.score is None or self.scales is None or self.tried is None:
            return {"n_iter": self.n_iter}
        n_scales, n_tried = len(self.scales), len(self.tried)
        columns: dict[str, Any] = {"n_iter": np.tile(self.tried, n_scales)}
        for t in range(self.scales.shape[1]):
            end = "" if self.one_target else f"_{t}"
            columns["scale" + end] = np.repeat(self.scales[:, t], n_tried)
            columns["score" + end] = (self.score if self.one_target else self.score[:, :, t]).reshape(-1)
        return columns
