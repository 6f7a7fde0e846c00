"""The paths that fitted models show: of a spectral regression, of a descent, and of λ in the span of a basis.

A path of λ holds what every λ of the grid scored, and what it predicts. The path of a descent holds the iterations that
were kept, and the scores of what was tried to choose one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._base import threads
from .._base.arrays import Array, Floats, eps, is_foreign, namespace
from .._base.notebooks import Tried
from .._base.path import LamPath
from .._solvers.predictors import BasisPredictor, KernelExpansion
from .._solvers.spectral.problem import Problem, path_coefficients, path_scores
from ..bases.maps import RowMap
from ..kernels.base import Kernel


@dataclass(repr=False)
class Path(LamPath):
    """The regularisation path. Arrays run along λ in the order of the grid.

    Attributes
    ----------
    lam : (L,) the grid
    criterion : (L,), or (L, T) for several targets: the score, a weighted mean squared error
    df : (L,) effective degrees of freedom, the trace of the hat matrix
        Where single precision made the choice (``solver_`` is "mixed") and could not score every λ, the first look
        at either computes the whole path in double precision; in a model from a file such λ have NaN.
    criterion_name : "loo", "gcv" or "cv"
    exact : False where leave-one-out is the shortcut that is exact for Tikhonov alone
    iterations : (L,) the number of iterations λ stands for, or None
    index : (T,) for every target the position of its λ
    scored, freedom : ``criterion`` and ``df`` as the fit left them, NaN where they were not computed
    problem, coefs, intercepts : what was fitted, and the coefficients of every λ where the fit needed them
    """

    lam: Floats
    scored: Floats  #: the criterion as the fit left it, NaN where it was not computed
    freedom: Floats  #: the degrees of freedom likewise
    criterion_name: str
    exact: bool
    iterations: np.ndarray | None
    index: np.ndarray  #: for every target the position of its λ
    problem: Problem | None = None  #: what was fitted; a model from a file has none
    coefs: Array | None = None
    intercepts: Array | None = None

    @property
    def criterion(self) -> Floats:
        """The score of every λ."""
        self._complete()
        return self.scored

    @property
    def df(self) -> Floats:
        """The effective degrees of freedom of every λ."""
        self._complete()
        return self.freedom

    def _complete(self) -> None:
        if self.problem is None or not np.any(np.isnan(self.freedom)):
            return
        with threads.suited_to(self.problem.n):
            scores = path_scores(self.problem, self.lam, self.criterion_name)
        self.scored = scores.criterion[:, 0] if self.scored.ndim == 1 else scores.criterion
        self.freedom = scores.df

    def _known(self) -> tuple[Floats, Floats]:
        return self.freedom, self.scored

    def _beside(self) -> dict[str, Any]:
        return {} if self.iterations is None else {"iterations": self.iterations}

    def predict(self, X: Array) -> Array:
        """Predictions for every λ: shape (L, n), or (L, n, T) for several targets.

        Where the fit did not need the coefficients of every λ they are computed now, from one decomposition.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        array of shape (L, n), or (L, n, T) for several targets
        """
        if self.problem is None:
            raise ValueError("a model from a file predicts at its chosen lam only: fit again to have the whole path")
        X = check_rows(X, self.problem.X)
        stored = None
        if self.coefs is not None and self.intercepts is not None:
            stored = [(self.coefs[i, :, :], self.intercepts[i, :]) for i in range(len(self.lam))]
        kernel, points = self.problem.kernel, self.problem.kernel.anchors(self.problem.X)
        predictions = [
            KernelExpansion(kernel, points, c, b).predict(X)
            for c, b in stored or path_coefficients(self.problem, self.lam)
        ]
        out = namespace(X).stack(predictions)
        return out[:, :, 0] if self.scored.ndim == 1 else out


def check_rows(X: Any, fitted: Array) -> Array:
    """Rows to predict: an array of any library with the right number of features, in the model's precision at least."""
    X = X if is_foreign(X) else np.asarray(X, dtype=None if getattr(X, "dtype", None) == np.float32 else float)
    if X.ndim != 2 or X.shape[1] != fitted.shape[1]:
        raise ValueError(f"X must have {fitted.shape[1]} features, got an array of shape {tuple(X.shape)}")
    xp = namespace(X)
    if not bool(xp.all(xp.isfinite(xp.astype(X, xp.float64)))):
        raise ValueError("X contains NaN or infinity: drop or impute such rows first")
    if not xp.isdtype(X.dtype, "real floating") or eps(fitted) < eps(X):
        return xp.astype(X, xp.float64)
    return X


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
