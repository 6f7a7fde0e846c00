"""The path of a spectral regression: what every λ of the grid scored, and what it predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import threads
from .arrays import Array, eps, is_foreign, namespace
from .filters import Floats
from .lam_path import LamPath
from .predictors import KernelExpansion
from .solvers.fit import Problem
from .solvers.paths import path_coefficients, path_scores


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
