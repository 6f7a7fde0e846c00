"""Partial dependence: what the prediction does when one input moves and the others stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...estimators.scoring import values_by_name
from ...filters import Floats
from .spectrum import points_of
from .tuning import Family

STEPS = 21
BACKGROUND = 120  # rows over which the other inputs are averaged
WORK = 3e8  # values of the kernel that all curves may take: a few seconds
MOST = 24  # inputs that are drawn: those that move the prediction furthest
FEW = 12  # different values up to which an input counts as discrete
ENDS = (0.02, 0.98)  # the quantiles between which an input moves


@dataclass(frozen=True)
class Curve:
    """The mean prediction along one input.

    ``curves`` are those of every λ of the path, (L, n), or None. ``moves`` is the distance from the lowest to the
    highest point of ``mean``.
    """

    name: str
    values: Floats
    mean: Floats
    curves: Floats | None = None

    @property
    def moves(self) -> float:
        """How far the prediction moves with this input."""
        return float(np.ptp(self.mean))


@dataclass(frozen=True)
class Background:
    """The rows whose other inputs are held, and whose they are."""

    rows: Floats
    source: str
    middle: bool = False  #: only the middle one is held; the others say how far inputs move


def background_of(model: Any, given: Floats | None) -> Background | None:
    """Rows that were given with labels, else points that the model holds, else the middle of the public sample."""
    if given is not None and len(given):
        return Background(given[:BACKGROUND], "rows of the data that were given")
    found, scaling = points_of(model), getattr(getattr(model.predictor_, "map", None), "scaling", None)
    if found is not None:
        points = found[1] if scaling is None else found[1] * scaling.scale + scaling.shift
        whose = "points that the model holds"
        drawn = np.random.default_rng(0).permutation(len(points))[:BACKGROUND]
        return Background(points[drawn], whose)
    if scaling is None:
        return None
    # Waves hold no rows; of the public sample the mean and spread of every input are known.
    steps = np.linspace(-2.0, 2.0, STEPS)[:, None]
    middle = scaling.shift + steps * scaling.scale
    return Background(middle, "the public sample's means, two standard deviations to either side", True)


def names_of(model: Any) -> list[str]:
    """The names of the inputs, or their numbers."""
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    return names or [f"input {j + 1}" for j in range(int(model.n_features_in_))]


def curves_of(model: Any, background: Background, family: Family | None = None, target: int = 0) -> list[Curve]:
    """A curve for each input, the one that moves the prediction furthest first."""
    names, rows = names_of(model), background.rows
    size = getattr(getattr(model.predictor_, "map", None), "size", getattr(model.predictor_, "n_points", 1))
    held = rows[: max(int(WORK / (STEPS * len(names) * size)), 8)]
    held = held if not background.middle else rows[len(rows) // 2][None]
    found = []
    for j, name in enumerate(names):
        values = grid_of(rows[:, j])
        if len(values) < 2:
            continue
        moved = np.repeat(held[None], len(values), axis=0)
        moved[:, :, j] = values[:, None]
        flat = moved.reshape(-1, rows.shape[1])
        mean = predictor(model, target)(flat).reshape(len(values), -1).mean(axis=1)
        curves = None
        if family is not None:
            every = np.asarray(family.predictor.predict(flat))
            curves = every.reshape(len(values), len(held), -1).mean(axis=1).T
        found.append(Curve(name, values, mean, curves))
    return sorted(found, key=lambda curve: -curve.moves)


def grid_of(values: Floats) -> Floats:
    """Where an input is looked at: its own values where they are few, else evenly between two quantiles."""
    different = np.unique(values)
    if len(different) <= FEW:
        return different
    low, high = np.quantile(values, ENDS)
    return np.linspace(low, high, STEPS) if high > low else different[[0, -1]]


def predictor(model: Any, target: int = 0) -> Callable[[Floats], Floats]:
    """``predict`` for rows without names, one label."""

    def predict(X: Floats) -> Floats:
        return values_by_name(model, X)[:, target]

    return predict
