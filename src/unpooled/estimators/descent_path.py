"""The path of a descent: the iterations kept, and what was tried to choose one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array, namespace
from ..kernels.base import Kernel
from ..path import check_rows
from ..predictors import KernelExpansion


@dataclass
class DescentPath:
    """The descent at its chosen scale, at powers of √2 up to the last iteration, and the scores of what was tried.

    Attributes
    ----------
    n_iter : (L,) the iterations kept, rising
    scales : (S, T) the scales tried, or None where nothing was chosen
    tried : (I,) the iterations tried
    score : (S, I), or (S, I, T) for several targets: the mean bounded loss of rows left out, smaller is better
    """

    n_iter: np.ndarray
    one_target: bool = field(repr=False)
    scales: np.ndarray | None = field(default=None, repr=False)
    tried: np.ndarray | None = field(default=None, repr=False)
    score: np.ndarray | None = field(default=None, repr=False)
    kernel: Kernel | None = field(default=None, repr=False)  #: a model from a file has none, and none of what follows
    points: Array | None = field(default=None, repr=False)
    coefs: list[Array] = field(default_factory=list, repr=False)  #: (N, T) for every iteration kept
    intercepts: list[Array] = field(default_factory=list, repr=False)  #: (T,) likewise

    def __len__(self) -> int:
        return len(self.n_iter)

    def predict(self, X: Array) -> Array:
        """Predictions after every iteration kept: shape (L, n), or (L, n, T) for several targets."""
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
        """Plain columns, for a data frame of your choice: every scale and iteration tried, or the iterations kept."""
        if self.score is None or self.scales is None or self.tried is None:
            return {"n_iter": self.n_iter}
        n_scales, n_tried = len(self.scales), len(self.tried)
        columns: dict[str, Any] = {"n_iter": np.tile(self.tried, n_scales)}
        for t in range(self.scales.shape[1]):
            end = "" if self.one_target else f"_{t}"
            columns["scale" + end] = np.repeat(self.scales[:, t], n_tried)
            columns["score" + end] = (self.score if self.one_target else self.score[:, :, t]).reshape(-1)
        return columns
