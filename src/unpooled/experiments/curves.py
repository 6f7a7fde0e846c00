"""Curves from measurements, from theory, and levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
