"""Checking N, r, s and the qualification, which every formula of the papers takes."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from ..filters import as_filter
from ..messages import shown


def is_number(value: Any) -> bool:
    """True for a real number that is not a truth value and not NaN."""
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)


def checked_rows(name: str, n: Any, least: int = 1) -> float:
    """A number of rows; 1e6 is as good as 1_000_000."""
    if not (is_number(n) and least <= n < math.inf and n == math.floor(n)):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {shown(n)}")
    return float(n)


def checked_r(r: Any) -> float:
    """The regularity: the papers' theorems begin where the target lies in the space of the kernel, r = 1/2."""
    if not (is_number(r) and 0.5 <= r < math.inf):
        raise ValueError(f"r, the regularity of the target, must be a number of at least 1/2, got {shown(r)}")
    return float(r)


def checked_s(s: Any) -> float:
    """The capacity exponent: 0 < s ≤ 1 in the papers; 0 is a kernel of finite rank."""
    if not (is_number(s) and 0 <= s <= 1):
        raise ValueError(f"s, the exponent of the effective dimension, must be a number from 0 to 1, got {shown(s)}")
    return float(s)


def checked_positive(name: str, value: Any) -> float:
    """A positive finite number."""
    if not (is_number(value) and 0 < value < math.inf):
        raise ValueError(f"{name} must be a positive number, got {shown(value)}")
    return float(value)


def checked_qualification(filter: Any, qualification: Any) -> float:
    """ν, from a filter or as a number; ∞ (no saturation) where neither is given."""
    if filter is not None and qualification is not None:
        raise ValueError("give filter or qualification, not both: a filter has its own qualification")
    if filter is not None:
        return as_filter(filter).qualification
    if qualification is None:
        return math.inf
    if not (is_number(qualification) and qualification >= 0.5):
        raise ValueError(f"qualification must be a number of at least 1/2 or infinity, got {shown(qualification)}")
    return float(qualification)
