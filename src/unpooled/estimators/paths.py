"""The paths that fitted models show: of a spectral regression, of λ in the span of a basis, and of a descent.

A path of λ keeps what every λ of the grid scored, and what it predicts. The path of a descent keeps the iterations that
were passed, and the scores of what was tried to choose one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._base import threads
from .._base.arrays import Array, Floats, eps, namespace, to_numpy
from .._base.drawing import Curve, Picture
from .._base.path import CRITERIA, LamPath, SearchPath, Tuning, check_rows, split_by_target
from .._base.text import format_number
from .._solvers.predictors import BasisPredictor, KernelExpansion
from .._solvers.spectral.grid import path_coefficients, path_scores
from .._solvers.spectral.problem import Problem
from ..bases.maps import CosineMap, RowMap, WaveMap
from ..kernels.base import Kernel

NO_FUNCTIONS = "a model from a file predicts at its chosen lam only: fit again to have the whole path"
MOST_POINTS = 2000  # of a kernel expansion whose whole path becomes one function


@dataclass(frozen=True)
class Family:
    """The functions of all values of a path, rising, as the outputs of one predictor, and their norms in H_K."""

    predictor: BasisPredictor | KernelExpansion
    norms: Floats | None


@dataclass(repr=False)
class RegularizationPath(LamPath):
    """The regularisation path. Arrays run along λ in the order of the grid.

    Attributes
    ----------
    lam : (L,) the grid
    criterion : (L,), or (L, T) for several targets: the score, a weighted mean squared error
    df : (L,) effective degrees of freedom, the trace of the hat matrix
        If single precision made the choice (``solver_`` is "mixed") and could not score every λ, reading either
        computes the whole path in double precision; in a model from a file such λ have NaN.
    criterion_name : "loo", "gcv" or "cv"
    exact : False if leave-one-out is the shortcut that is exact for Tikhonov alone
    iterations : (L,) the number of iterations λ stands for, or None
    index : (T,) for every target the position of its λ
    scored, freedom : ``criterion`` and ``df`` as the fit left them, NaN where they were not computed
    problem, coefs, intercepts : what was fitted, and the coefficients of every λ if the fit needed them
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
        with threads.limit_blas_for(self.problem.n):
            scores = path_scores(self.problem, self.lam, self.criterion_name)
        self.scored = scores.criterion[:, 0] if self.scored.ndim == 1 else scores.criterion
        self.freedom = scores.df

    def _known_scores(self) -> tuple[Floats, Floats]:
        return self.freedom, self.scored

    def _beside(self) -> dict[str, Any]:
        return {} if self.iterations is None else {"iterations": self.iterations}

    def coefficients(self) -> Iterable[tuple[Array, Array]]:
        """Return coefficients (N, T) and intercepts (T,) of every λ, computed now if the fit did not need them."""
        if self.problem is None:
            raise ValueError(NO_FUNCTIONS)
        if self.coefs is None or self.intercepts is None:
            return path_coefficients(self.problem, self.lam)
        return [(self.coefs[i, :, :], self.intercepts[i, :]) for i in range(len(self))]

    def _functions(self, X: Any) -> tuple[Array, Iterable[KernelExpansion]]:
        if self.problem is None:
            raise ValueError(NO_FUNCTIONS)
        kernel, points = self.problem.kernel, self.problem.kernel.anchors(self.problem.X)
        X = check_rows(X, int(self.problem.X.shape[1]), eps(self.problem.X))
        return X, (KernelExpansion(kernel, points, coef, b) for coef, b in self.coefficients())

    def family(self, target: int, own_norms: bool = True) -> Family | None:
        """Return the functions of every λ for one target; None if they are not kept, or have too many points."""
        if self.problem is None:
            return None
        kernel, points = self.problem.kernel, self.problem.kernel.anchors(self.problem.X)
        if points.shape[0] > MOST_POINTS or points.shape[1] == 0:
            return None
        order, every = np.argsort(self.lam), list(self.coefficients())
        coef = np.column_stack([to_numpy(every[i][0])[:, target] for i in order])
        b = np.asarray([float(every[i][1][target]) for i in order])
        points = to_numpy(points)
        squares = np.einsum("il,il->l", coef, np.asarray(kernel(points)) @ coef)
        return Family(KernelExpansion(kernel, points, coef, b), np.sqrt(np.maximum(squares, 0.0)))


@dataclass(repr=False)
class SummaryPath(LamPath):
    """The path of λ in the span of a basis.

    Attributes
    ----------
    lam : (L,) the grid
    criterion : (L,), or (L, T) for several labels: an estimate of the mean squared error of a new label
    df : (L,) effective degrees of freedom
    criterion_name : "gcv", "risk" (LESS, from the summary alone) or "loo" (sums of leave-one-out errors)
    index : (T,) the position of the chosen λ
    map, coef, intercept : the functions of every λ; a model from a file has none of them
    norms : (L, T) the norms of these functions in the space of the kernel, where they are known
    """

    lam: Floats
    criterion: Floats
    df: Floats
    criterion_name: str
    index: np.ndarray
    map: RowMap | None = None
    coef: Floats | None = None  #: (L, m, T), of the map
    intercept: Floats | None = None
    norms: Floats | None = None

    def _known_scores(self) -> tuple[Floats, Floats]:
        return self.df, self.criterion

    def _functions(self, X: Any) -> tuple[Array, Iterable[BasisPredictor]]:
        if self.map is None or self.coef is None or self.intercept is None:
            raise ValueError(NO_FUNCTIONS)
        map_, every = self.map, zip(self.coef, self.intercept)
        X = check_rows(X, map_.n_features_in, float(np.finfo(float).eps))
        return X, (BasisPredictor(map_, coef, b) for coef, b in every)

    def family(self, target: int, own_norms: bool = True) -> Family | None:
        """Return the functions of every λ for one target; None if they are not kept.

        Their norms are those that the fit has left, unless ``own_norms`` is False: later rounds have moved the model.
        """
        if self.map is None or self.coef is None or self.intercept is None:
            return None
        order = np.argsort(self.lam)
        coef, b, norms = self.coef[order, :, target].T, self.intercept[order, target], None
        if own_norms and self.norms is not None:
            norms = self.norms[order, target]
        elif isinstance(self.map, (WaveMap, CosineMap)):  # rotated, so norms are those of the coefficients
            norms = np.linalg.norm(coef, axis=0)
        return Family(BasisPredictor(self.map, coef, b), norms)


@dataclass(repr=False)
class DescentPath(SearchPath):
    """The descent at its chosen scale, at powers of √2 up to the last iteration, and the scores of what was tried.

    Attributes
    ----------
    n_iter : (L,) the iterations kept, rising
    scales : (S, T) the scales tried, or None if nothing was chosen
    tried : (I,) the iterations tried
    score : (S, I), or (S, I, T) for several targets: the mean bounded loss of rows left out, smaller is better
    one_target : whether labels came as a vector
    kernel, points, coefs, intercepts : the functions after every iteration kept; a model from a file has none of them
    index : (T,) the positions in ``n_iter`` of the last iterations; a model from a file has none
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
    index: np.ndarray | None = None

    parameter = "iterations"
    criterion_name = "robust"
    df = None

    @property
    def values(self) -> np.ndarray:
        """The iterations kept."""
        return self.n_iter

    @property
    def criterion(self) -> Floats | None:
        """The scores of every scale and iteration tried."""
        return self.score

    @property
    def taken(self) -> np.ndarray | None:
        """For every target the position of its last iteration."""
        return self.index

    def _tried(self) -> tuple[Floats, np.ndarray, Floats] | None:
        """Scales (S, T), iterations (I,) and scores (S, I, T); None if nothing was tried."""
        if self.score is None or self.scales is None or self.tried is None:
            return None
        return self.scales, self.tried, self.score.reshape(len(self.scales), len(self.tried), -1)

    def _line(self) -> str:
        kept = f"{len(self.n_iter)} iterations kept, up to {self.n_iter[-1]:,}"
        return f"{kept}; {'nothing tried' if self.scales is None else f'{len(self.scales)} scales tried'}"

    def _summary(self) -> dict[str, np.ndarray]:
        """The best iteration of every scale."""
        if (trials := self._tried()) is None:
            return {"iterations": self.n_iter}
        scales, tried, scores = trials
        best = {"scale": scales, "best iteration": tried[scores.argmin(1)], "score": scores.min(1)}
        return split_by_target(best, self.one_target, " ")

    def _chosen_rows(self) -> tuple[int, ...]:
        return ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain columns, for a data frame of your choice: all scales and iterations tried, or those kept.

        Returns
        -------
        dict of arrays
        """
        if (trials := self._tried()) is None:
            return {"n_iter": self.n_iter}
        scales, tried, scores = trials
        every = {"scale": np.repeat(scales, len(tried), axis=0), "score": scores.reshape(-1, scales.shape[1])}
        return {"n_iter": np.tile(tried, len(scales))} | split_by_target(every, self.one_target)

    def predict(self, X: Any) -> Array:
        """Predict after every iteration kept: shape (L, n), or (L, n, T) for several targets.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        array of shape (L, n), or (L, n, T) for several targets
        """
        if self.kernel is None or self.points is None:
            raise ValueError("a model from a file predicts after its last iteration only: fit again to have the path")
        X = X if self.points.shape[1] == 0 else check_rows(X, int(self.points.shape[1]), eps(self.points))
        xp = namespace(X)
        # All iterations in one product: they are columns beside each other.
        together = KernelExpansion(
            self.kernel, self.points, xp.concat(self.coefs, axis=1), xp.concat(self.intercepts)
        ).predict(X)
        out = xp.permute_dims(xp.reshape(together, (X.shape[0], len(self), -1)), (1, 0, 2))
        return out[:, :, 0] if self.one_target else out

    def tuning(self, target: int, scale: float, n_iter: int) -> Tuning | None:
        """Return the scores along the steps at the chosen scale, for one target; None if fewer than two were tried."""
        if (trials := self._tried()) is None or len(trials[1]) < 2:
            return None
        scales, tried, scores = trials[0][:, target], trials[1], np.asarray(trials[2], dtype=float)[:, :, target]
        here = int(np.flatnonzero(scales == scale)[0])
        return Tuning(
            "steps",
            np.asarray(tried, dtype=float),
            scores[here],
            self.criterion_name,
            int(np.flatnonzero(tried == n_iter)[0]),
            others=tuple((_scale(s), row) for i, (s, row) in enumerate(zip(scales, scores)) if i != here),
            name=_scale(scale),
        )

    def _picture(self) -> Picture:
        """The loss of rows left out against the number of steps, a curve for each scale."""
        if (trials := self._tried()) is None:
            raise ValueError("there is nothing to draw: scale and n_iter were given, and nothing was tried")
        scales, tried, scores = trials
        curves = [
            Curve(tried, row, "least squares" if np.isinf(scale) else f"scale {scale:.3g}")
            for target in range(scores.shape[2])
            for scale, row in zip(scales[:, target], scores[:, :, target])
        ]
        return Picture("steps", CRITERIA[self.criterion_name][0], curves, xscale="log", legend="small")


def _scale(sigma: float) -> str:
    return "least squares" if math.isinf(sigma) else f"scale {format_number(sigma)}"
