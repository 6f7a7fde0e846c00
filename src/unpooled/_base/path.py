"""The protocol that every ``path_`` of a fitted model answers, and what all paths of λ share.

A path knows the candidates of a search, their scores, and which of them was taken for every target. It shows that as a
line of text, as a table in notebooks, as columns for a data frame and as a plot. A path that keeps the functions of its
candidates predicts with all of them. ``Tuning`` is the part that reports read: scores along one parameter, for one
target.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from . import html
from .arrays import Array, Floats, eps, is_foreign, namespace
from .drawing import Curve, Picture, draw
from .text import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: criteria by their names: at the axis of a plot, and in a sentence
CRITERIA = {
    "loo": ("leave-one-out", "leave-one-out"),
    "gcv": ("GCV", "generalised cross-validation"),
    "cv": ("k-fold", "k folds"),
    "risk": ("risk estimated from sums", "an estimate of the risk from the sums"),
    "halves": ("score on held-out halves", "rows held out of every block"),
    "robust": ("mean bounded loss of rows left out", "a bounded loss on rows left out"),
    "robust gcv": ("GCV of the loss", "generalised cross-validation of the loss"),
}


@dataclass(frozen=True)
class Tuning:
    """Scores along one parameter.

    Attributes
    ----------
    symbol : "λ", or "steps" of a descent
    values : (L,) rising
    score : (L,) root mean square error expected of a new row, or a mean bounded loss; NaN where there is none
    judged_by : a key of CRITERIA
    chosen : position of the choice
    df : (L,) degrees of freedom, or None
    others : names and scores of other curves: of other numbers of blocks, of other scales
    """

    symbol: str
    values: Floats
    score: Floats
    judged_by: str
    chosen: int
    df: Floats | None = None
    others: tuple[tuple[str, Floats], ...] = ()
    name: str = ""  #: of the main curve, where there are others

    @property
    def is_error(self) -> bool:
        """Whether scores are errors in the unit of the label."""
        return not self.judged_by.startswith("robust")

    @property
    def error(self) -> float | None:
        """The error of a new row that is expected at the choice."""
        expected = float(self.score[self.chosen])
        return expected if self.is_error and math.isfinite(expected) else None

    @property
    def noun(self) -> str:
        """The parameter, in a sentence."""
        return "λ" if self.symbol == "λ" else "number of steps"

    def value(self, place: int) -> str:
        """One value, as a sentence has it: "λ = 0.1", "64 steps"."""
        value = float(self.values[place])
        return f"λ = {format_number(value)}" if self.symbol == "λ" else f"{value:,.0f} steps"

    @property
    def order(self) -> str:
        """How the choice was judged, in words."""
        return CRITERIA.get(self.judged_by, ("", self.judged_by))[1]


class SearchPath(ABC):
    """The candidates of a search, their scores, and which were taken.

    Put before the fields of a dataclass that makes no ``repr`` of its own. A class adds its columns, its picture and
    its ``tuning``. One that keeps functions has ``predict``, which is an error where it comes from a file.

    Attributes
    ----------
    values : (L,) the candidates, and ``parameter`` what they are values of: "λ", "iterations", "blocks"
    criterion : their scores, the last axis the targets where there are several; None where nothing was scored
    criterion_name : a key of CRITERIA
    df : (L,) effective degrees of freedom, or None
    taken : for every target the position of its choice in ``values``; None where a file does not tell
    """

    parameter: str
    if TYPE_CHECKING:  # fields of some paths, properties of others

        @property
        def criterion_name(self) -> str: ...
        @property
        def criterion(self) -> Floats | None: ...
        @property
        def df(self) -> Floats | None: ...

    @property
    @abstractmethod
    def values(self) -> np.ndarray:
        """The candidates."""

    @property
    @abstractmethod
    def taken(self) -> np.ndarray | None:
        """For every target the position of its choice."""

    @abstractmethod
    def _line(self) -> str:
        """How much was tried, and what was taken."""

    @abstractmethod
    def _summary(self) -> Mapping[str, np.ndarray]:
        """The columns of the table in notebooks, of one length, without more work; NaN leaves a cell empty."""

    def _marked(self) -> Collection[int]:
        """The rows of that table that were taken."""
        return () if self.taken is None else set(self.taken.tolist())

    @abstractmethod
    def _picture(self) -> Picture:
        """The scores in plain numbers; a ValueError where there is nothing to draw."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Plain columns, for a data frame of your choice: ``pandas.DataFrame(model.path_.as_dict())``.

        Returns
        -------
        dict of arrays
        """

    def family(self, target: int, own_norms: bool = True) -> Any:
        """The functions of all candidates for one target as the outputs of one predictor; None where not kept."""
        return None

    def plot(self, ax: Axes | None = None, **line: Any) -> Axes:
        """The scores of the candidates, the choice marked. Needs matplotlib (``pip install unpooled[plot]``).

        Parameters
        ----------
        ax : axes to draw in; None makes them
        **line : of the lines, as matplotlib takes them

        Returns
        -------
        matplotlib axes
        """
        return draw(self._picture(), ax, **line)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._line()})"

    def _repr_html_(self) -> str:
        columns, marked = self._summary(), self._marked()
        cells = zip(*columns.values())
        rows = [[*map(_cell, row), "taken" if i in marked else ""] for i, row in enumerate(cells)]
        return html.paragraph(repr(self)) + html.table([*columns, ""], rows)


def _cell(value: Any) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def split_by_target(columns: Mapping[str, Floats], one_target: bool, between: str = "_") -> dict[str, Floats]:
    """Columns of shape (n, T) as columns of shape (n,), numbered by target where there are several."""
    n_targets = next(iter(columns.values())).shape[1]
    return {
        name + ("" if one_target else f"{between}{t}"): values[:, t]
        for t in range(n_targets)
        for name, values in columns.items()
    }


class Function(Protocol):
    """A fitted function: rows to values of shape (n, T)."""

    def predict(self, X: Array) -> Array: ...


class LamPath(SearchPath):
    """A grid of λ, the score of each, and which was taken; the functions are left to those who know the model."""

    parameter = "λ"
    lam: np.ndarray
    index: np.ndarray  #: (T,) for every target the position of its λ
    if TYPE_CHECKING:

        @property
        def criterion(self) -> Floats: ...
        @property
        def df(self) -> Floats: ...

    @abstractmethod
    def _known(self) -> tuple[Floats, Floats]:
        """Degrees of freedom (L,), and scores (L,) or (L, T), as far as they are known without more work."""

    @abstractmethod
    def _functions(self, X: Any) -> tuple[Array, Iterable[Function]]:
        """The rows, checked, and the function of every λ."""

    @property
    def values(self) -> Floats:
        """The grid of λ."""
        return self.lam

    @property
    def taken(self) -> np.ndarray:
        """For every target the position of its λ."""
        return self.index

    def predict(self, X: Any) -> Array:
        """Predictions for every λ: shape (L, n), or (L, n, T) for several targets.

        Where the fit did not need the coefficients of every λ they are computed now, from one decomposition.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        array of shape (L, n), or (L, n, T) for several targets
        """
        X, functions = self._functions(X)
        out = namespace(X).stack([function.predict(X) for function in functions])
        return out[:, :, 0] if self._known()[1].ndim == 1 else out

    @property
    def at_edge(self) -> bool:
        """True if a chosen λ is the smallest or largest of the grid: a wider grid may do better."""
        chosen = self.lam[self.index]
        return bool(np.any((chosen == self.lam.min()) | (chosen == self.lam.max())) and len(self.lam) > 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain columns, for a data frame of your choice: ``pandas.DataFrame(model.path_.as_dict())``.

        Returns
        -------
        dict of arrays
        """
        scores = {self.criterion_name: self.criterion.reshape(len(self), -1)}
        return {"lam": self.lam, "df": self.df, **self._beside()} | split_by_target(scores, self.criterion.ndim == 1)

    def _beside(self) -> dict[str, Any]:
        """Columns that stand between the degrees of freedom and the scores."""
        return {}

    def tuning(self, target: int, squared: bool = True) -> Tuning | None:
        """The scores along λ for one target: errors where the loss is squared; None where one λ was tried."""
        if len(self) < 2:
            return None
        order = np.argsort(self.lam)
        criterion = np.asarray(self.criterion, dtype=float).reshape(len(self), -1)[order, target]
        return Tuning(
            "λ",
            self.lam[order],
            square_roots(criterion) if squared else criterion,
            self.criterion_name if squared else f"robust {self.criterion_name}",
            int(np.flatnonzero(order == self.index[target])[0]),
            np.asarray(self.df, dtype=float)[order],
        )

    def _line(self) -> str:
        taken = ", ".join(f"{value:.3g}" for value in np.unique(self.lam[self.index]))
        ends = f"{self.lam.min():.3g} to {self.lam.max():.3g}"
        return f"{len(self.lam)} λ from {ends}, {self.criterion_name} takes {taken}"

    def _summary(self) -> Mapping[str, np.ndarray]:
        freedom, scores = self._known()
        named = split_by_target({self.criterion_name: scores.reshape(len(self), -1)}, scores.ndim == 1, " ")
        return {"λ": self.lam, "degrees of freedom": freedom} | named

    def _picture(self) -> Picture:
        """Root of the criterion against λ, a dot on the chosen λ, one line a target."""
        order = np.argsort(self.lam)
        squares = self.criterion.reshape(len(self), -1)
        scores = np.sqrt(np.where(squares >= 0, squares, np.nan))  # an estimate from noised sums may be negative
        several = scores.shape[1] > 1
        curves = [
            Curve(
                self.lam[order],
                scores[order, target],
                after=f", target {target}" if several else "",
                dot=int(np.flatnonzero(order == self.index[target])[0]),
            )
            for target in range(scores.shape[1])
        ]
        label = f"error of one label ({CRITERIA.get(self.criterion_name, (self.criterion_name,))[0]})"
        return Picture("λ", label, curves, xscale="log", yscale="log")


def square_roots(squares: Floats) -> Floats:
    """Square roots; NaN where a square is not finite."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(squares), np.sqrt(np.maximum(squares, 0.0)), np.nan)


def check_rows(X: Any, n_features: int, precision: float) -> Array:
    """Rows to predict: an array of any library with the right number of features, in the model's precision at least.

    ``precision`` is the distance from one to the next number in the model's own type.
    """
    X = X if is_foreign(X) else np.asarray(X, dtype=None if getattr(X, "dtype", None) == np.float32 else float)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} features, got an array of shape {tuple(X.shape)}")
    xp = namespace(X)
    if not bool(xp.all(xp.isfinite(xp.astype(X, xp.float64)))):
        raise ValueError("X contains NaN or infinity: drop or impute such rows first")
    if not xp.isdtype(X.dtype, "real floating") or precision < eps(X):
        return xp.astype(X, xp.float64)
    return X
