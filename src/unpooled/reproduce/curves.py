"""Curves of a picture: from measurements, from theory, and levels; and fits without the warnings that they are about.

An experiment may be about many blocks or few public rows on purpose. Its fits then run without the warning that says
so.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..estimators import AveragedRegressor, SummaryRegressor
from ..summaries import Summary
from .inference import root_mean_squares
from .outcome import Curve


def measured(label: str, x: Sequence[float], squares: np.ndarray) -> Curve:
    """Root mean squared errors with their intervals; ``squares`` is (repetitions, len(x))."""
    middle, low, high = (tuple(values.tolist()) for values in root_mean_squares(squares))
    return Curve(label, tuple(map(float, x)), middle, low, high)


def power_law(x: Sequence[float], start: float, exponent: float, letter: str = "N") -> Curve:
    """start·(x/x₁)^{-exponent}: what theory says of the slope, from a first point on."""
    y = tuple(float(start * (value / x[0]) ** -exponent) for value in x)
    return Curve(f"{letter}^-{exponent:.3f}", tuple(map(float, x)), y, style="theory")


def level(label: str, x: Sequence[float], value: float) -> Curve:
    """One value for all x."""
    return Curve(label, (float(x[0]), float(x[-1])), (float(value), float(value)), style="level")


def root(squares: np.ndarray) -> float:
    """The root of the mean, for a table."""
    return float(np.sqrt(np.mean(squares)))


MEANT = (".*blocks are far more than", ".*public rows stand for")  # more blocks than theory supports; LESS has a floor


@contextmanager
def on_purpose() -> Iterator[None]:
    """Many blocks and few public rows are no news meanwhile."""
    with warnings.catch_warnings():
        for message in MEANT:
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def averaged(model: AveragedRegressor, X: np.ndarray, Y: np.ndarray, **more: Any) -> AveragedRegressor:
    """``model.fit(X, Y)``."""
    with on_purpose():
        return model.fit(X, Y, **more)


def less(summary: Summary, lam: Any, n_features: Any = "all", center: Any = False) -> SummaryRegressor:
    """LESS from a summary."""
    with on_purpose():
        return SummaryRegressor(lam=lam, n_features=n_features, center=center).fit_summary(summary)
