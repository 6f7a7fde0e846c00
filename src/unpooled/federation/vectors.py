"""Sums as one vector and back: the number of rows first, then the fields of the statistic one after the other."""

from __future__ import annotations

import numpy as np

from ..summaries.compensated import Sum
from .totals import Shapes


def flattened(n_rows: int, sums: dict[str, Sum], fields: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """The numbers as pairs high + low; a ValueError where the sums are not of these fields."""
    if {name: value.high.shape for name, value in sums.items()} != fields:
        raise ValueError("the sums that were made are not those that the statistic says")
    high = [np.asarray([float(n_rows)]), *(sums[name].high.ravel() for name in fields)]
    low = [np.zeros(1), *(sums[name].low.ravel() for name in fields)]
    return np.concatenate(high), np.concatenate(low)


def length(fields: Shapes) -> int:
    """How many numbers the vector has."""
    return 1 + sum(int(np.prod(shape)) for shape in fields.values())


def restored(high: np.ndarray, low: np.ndarray, fields: Shapes) -> tuple[int, dict[str, Sum]]:
    """The number of rows and the sums."""
    if len(high) != length(fields):
        raise ValueError(f"the vector has {len(high)} numbers, and the statistic {length(fields)}")
    n_rows, start, sums = int(high[0]), 1, {}
    if high[0] != n_rows or low[0] or n_rows < 1:
        raise ValueError("the number of rows in the sum is not a positive whole number")
    for name, shape in fields.items():
        end = start + int(np.prod(shape))
        sums[name] = Sum(high[start:end].reshape(shape), low[start:end].reshape(shape))
        start = end
    return n_rows, sums
