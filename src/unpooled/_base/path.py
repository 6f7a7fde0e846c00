"""The interface of every ``path_`` of a fitted model, and the common part of all paths of λ.

A path knows the candidates of a search, their scores, and the choice for every target. It shows them as a line of text,
as a table in notebooks, as columns for a data frame and as a plot. A path that keeps the functions of its candidates
predicts with all of them. ``Tuning`` is the part that reports read: scores along one parameter, for one target.
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


#: names of the criteria: on the axis of a plot, and in a sentence
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
    score : (L,) root mean square error expected for a new row, or a mean bounded loss; NaN if there is none
    judged_by : a key of CRITERIA
    chosen : position of the choice
    df : (L,) degrees of freedom, or None
    others : names and scores of other curves: for other numbers of blocks, or for other scales
    """

    symbol: str
    values: Floats
    score: Floats
    judged_by: str
    chosen: int
    df: Floats | None = None
    others: tuple[tuple[str, Floats], ...] = ()
    name: str = ""  #: of the main curve, if there are others

    @property
    def is_error(self) -> bool:
        """Return whether scores are errors in the unit of the label."""
        return not self.judged_by.startswith("robust")

    @property
    def error(self) -> float | None:
        """The error that the choice is expected to have on a new row."""
        expected = float(self.score[self.chosen])
        return expected if self.is_error and math.isfinite(expected) else None

    @property
    def noun(self) -> str:
        """The parameter's name in a sentence."""
        return "λ" if self.symbol == "λ" else "number of steps"

    def value(self, place: int) -> str:
        """Return one value as a sentence gives it: "λ = 0.1", "64 steps"."""
        value = float(self.values[place])
        return f"λ = {format_number(value)}" if self.symbol == "λ" else f"{value:,.0f} steps"

    @property
    def order(self) -> str:
        """The criterion of the choice, in words."""
        return CRITERIA.get(self.judged_by, ("", self.judged_by))[1]


class SearchPath(ABC):
    """The candidates of a search, their scores, and which were taken.

    A mixin in front of a dataclass that makes no ``repr`` of its own. A subclass adds its columns, its picture and its
    ``tuning``. One that keeps functions has ``predict``, which is an error if the model comes from a file.

    Attributes
    ----------
    values : (L,) the candidates, which are values of ``parameter``: "λ", "iterations", "blocks"
    criterion : their scores, the last axis being the targets if there are several; None if nothing was scored
    criterion_name : a key of CRITERIA
    df : (L,) effective degrees of freedom, or None
    taken : for every target the position of its choice in ``values``; None if a file does not say
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
        """The position of every target's choice."""

    @abstractmethod
    def _line(self) -> str:
        """Return a line that says how many candidates were tried, and which were taken."""

    @abstractmethod
    def _summary(self) -> Mapping[str, np.ndarray]:
        """Return equally long columns for the table in notebooks, without further work; NaN leaves a cell empty."""

    def _chosen_rows(self) -> Collection[int]:
        """Return the rows of that table that were taken."""
        return () if self.taken is None else set(self.taken.tolist())

    @abstractmethod
    def _picture(self) -> Picture:
        """Return the scores in plain numbers; raise a ValueError if there is nothing to draw."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return plain columns, for a data frame of your choice: ``pandas.DataFrame(model.path_.as_dict())``.

        Returns
        -------
        dict of arrays
        """

    def family(self, target: int, own_norms: bool = True) -> Any:
        """Return all candidates' functions for one target as the outputs of one predictor; None if not kept."""
        return None

    def plot(self, ax: Axes | None = None, **line: Any) -> Axes:
        """Draw the scores of the candidates, the choice marked. Needs matplotlib (``pip install unpooled[plot]``).

        Parameters
        ----------
        ax : axes to draw in; None makes them
        **line : options of the lines, as matplotlib takes them

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
        columns, marked = self._summary(), self._chosen_rows()
        cells = zip(*columns.values())
        rows = [[*map(_cell, row), "taken" if i in marked else ""] for i, row in enumerate(cells)]
        return html.paragraph(repr(self)) + html.table([*columns, ""], rows)


def _cell(value: Any) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def split_by_target(columns: Mapping[str, Floats], one_target: bool, between: str = "_") -> dict[str, Floats]:
    """Split columns of shape (n, T) into columns of shape (n,), numbered by target if there are several."""
    n_targets = next(iter(columns.values())).shape[1]
    return {
        name + ("" if one_target else f"{between}{t}"): values[:, t]
        for t in range(n_targets)
        for name, values in columns.items()
    }


class _Function(Protocol):
    """A fitted function, which takes rows to values of shape (n, T)."""

    def predict(self, X: Array) -> Array: ...


class LamPath(SearchPath):
    """A grid of λ, the score of each, and which was taken; subclasses add the functions."""

    parameter = "λ"
    lam: np.ndarray
    index: np.ndarray  #: (T,) the position of every target's λ
    if TYPE_CHECKING:

        @property
        def criterion(self) -> Floats: ...
        @property
        def df(self) -> Floats: ...

    @abstractmethod
    def _known_scores(self) -> tuple[Floats, Floats]:
        """Return degrees of freedom (L,) and scores (L,) or (L, T), as far as they are known without further work."""

    @abstractmethod
    def _functions(self, X: Any) -> tuple[Array, Iterable[_Function]]:
        """Return the rows, checked, and the function of every λ."""

    @property
    def values(self) -> Floats:
        """The grid of λ."""
        return self.lam

    @property
    def taken(self) -> np.ndarray:
        """The position of every target's λ."""
        return self.index

    def predict(self, X: Any) -> Array:
        """Predict with every λ: shape (L, n), or (L, n, T) for several targets.

        If the fit did not need the coefficients of every λ, they are computed now, from one decomposition.

        Parameters
        ----------
        X : (n, d)

        Returns
        -------
        array of shape (L, n), or (L, n, T) for several targets
        """
        X, functions = self._functions(X)
        out = namespace(X).stack([function.predict(X) for function in functions])
        return out[:, :, 0] if self._known_scores()[1].ndim == 1 else out

    @property
    def at_edge(self) -> bool:
        """Return whether a chosen λ is the smallest or largest of the grid: a wider grid may do better."""
        chosen = self.lam[self.index]
        return bool(np.any((chosen == self.lam.min()) | (chosen == self.lam.max())) and len(self.lam) > 1)

    def as_dict(self) -> dict[str, Any]:
        """Return plain columns, for a data frame of your choice: ``pandas.DataFrame(model.path_.as_dict())``.

        Returns
        -------
        dict of arrays
        """
        scores = {self.criterion_name: self.criterion.reshape(len(self), -1)}
        return {"lam": self.lam, "df": self.df, **self._beside()} | split_by_target(scores, self.criterion.ndim == 1)

    def _beside(self) -> dict[str, Any]:
        """Return the columns between the degrees of freedom and the scores."""
        return {}

    def tuning(self, target: int, squared: bool = True) -> Tuning | None:
        """Return the scores along λ for one target: errors if the loss is squared; None if only one λ was tried."""
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
        freedom, scores = self._known_scores()
        named = split_by_target({self.criterion_name: scores.reshape(len(self), -1)}, scores.ndim == 1, " ")
        return {"λ": self.lam, "degrees of freedom": freedom} | named

    def _picture(self) -> Picture:
        """Return the root of the criterion against λ, with a dot on the chosen λ and one line per target."""
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
    """Return square roots; NaN where a square is not finite."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(squares), np.sqrt(np.maximum(squares, 0.0)), np.nan)


def check_rows(X: Any, n_features: int, precision: float) -> Array:
    """Return rows to predict: an array of any library with the right number of features, at least in model precision.

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
