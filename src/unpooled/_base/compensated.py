"""Sums kept to twice the precision of a double: an unevaluated pair high + low.

Adding ten thousand of these pairs in any order and grouping gives the same double, except where numbers cancel by a
factor of more than 10³⁰. A summary keeps such a pair for every number. This is one of two reasons why a model from the
summaries of several sites is the same, to the bit, as the model from all rows in one place. The other is that a basis
computes features in blocks of one shape (:mod:`unpooled.bases.base`), so that the features of a row do not depend on
the rows beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_Floats = np.ndarray


def two_sum(a: _Floats, b: _Floats) -> tuple[_Floats, _Floats]:
    """Return s = fl(a + b) and the error e with s + e = a + b exactly (Knuth)."""
    s = a + b
    back = s - a
    return s, (a - (s - back)) + (b - back)


@dataclass(frozen=True)
class Sum:
    """The pair high + low; |low| is at most half a unit in the last place of high, the sum rounded to a double."""

    high: _Floats
    low: _Floats

    @classmethod
    def of(cls, values: _Floats) -> Sum:
        """Return numbers as sums whose low part is zero."""
        values = np.asarray(values, dtype=np.float64)
        return cls(values, np.zeros_like(values))

    def __add__(self, other: Sum) -> Sum:
        s, e = two_sum(self.high, other.high)
        t, f = two_sum(self.low, other.low)
        s, e = _renormalise(s, e + t)
        return Sum(*_renormalise(s, e + f))

    @property
    def is_double(self) -> bool:
        """Return whether the low part is zero."""
        return not np.any(self.low)


def _renormalise(s: _Floats, e: _Floats) -> tuple[_Floats, _Floats]:
    """Return high + low = s + e, with low no larger than the rounding of high."""
    high = s + e
    return high, e - (high - s)
