"""Checking what a private method is told, before data is read and before budget is charged."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from ..messages import shown


def positive(name: str, value: Any, *, zero: bool = False) -> float:
    """A finite number above zero (or zero too), as a float."""
    if not _is_real(value) or not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        kind = "a finite number that is not negative" if zero else "a positive, finite number"
        raise ValueError(f"{name} must be {kind}, got {shown(value)}")
    return float(value)


def count(name: str, value: Any, least: int = 1) -> int:
    """A whole number, as an int."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, got {shown(value)}")
    return int(value)


def probability(name: str, value: Any, *, zero: bool = False) -> float:
    """A number between zero and one, neither of them (or zero too)."""
    if not _is_real(value) or not 0 <= value < 1 or (value == 0 and not zero):
        raise ValueError(f"{name} must lie between 0 and 1, got {shown(value)}")
    return float(value)


def budget(epsilon: Any, delta: Any, n_rows: int | None = None) -> tuple[float, float]:
    """ε > 0 and 0 < δ < 1. A δ above 1/n is warned of: it would allow one record of n to be published as it is."""
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    if n_rows is not None and delta > 1.0 / n_rows:
        warnings.warn(
            f"delta = {delta:g} is above 1/n = {1.0 / n_rows:g}: that would allow a record to be published outright; "
            "take a delta well below 1/n",
            UserWarning,
            stacklevel=3,
        )
    return epsilon, delta


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
