"""Quantiles from counts alone: how many residuals lie in each of a few hundred intervals, then closer in."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.arrays import to_numpy
from .._base.rows import Block, Source
from ..engines import as_engine
from .passes import Functions, Target, mapped, stretches

BINS = 256
CLOSE = 1e-8  # an interval is narrow enough beside the numbers in it
PASSES = 20  # each narrows the interval by BINS; numbers beyond it are counted at its ends, and widen it


def median(source: Source, basis: Any, functions: Functions, absolute: bool, engine: Any = None) -> np.ndarray:
    """The weighted median of y - f(x), or of |y - f(x)|, for every function: only counts are exchanged."""
    n = functions.coef.shape[1]
    low = np.zeros(n) if absolute else np.full(n, -1.0)
    high = np.ones(n)
    share = as_engine(engine)
    parts = stretches(source, basis)
    passes = 0
    while passes < PASSES:
        counts = share.map_reduce(_count, parts, _plus, args=(basis, functions, absolute, low, high), label="counting")
        total = counts.sum(axis=1)
        before = np.cumsum(counts, axis=1)
        cell = np.asarray([int(np.searchsorted(b, 0.5 * t * (1 - 1e-12))) for b, t in zip(before, total)])
        outside = (cell == 0) | (cell == BINS + 1)
        if np.any(outside) and np.all(high - low < 1e30):
            # Not in sight yet: a hundred times wider, for those columns.
            middle, half = (high + low) / 2, (high - low) / 2
            low = np.where(outside, 0.0 if absolute else middle - 100 * half, low)
            high = np.where(outside, 100 * high if absolute else middle + 100 * half, high)
            continue
        width = (high - low) / BINS
        coarse = high - low > CLOSE * np.maximum(np.abs(low), np.abs(high))
        if not np.any(coarse):
            break
        low, high = np.where(coarse, [low + (cell - 1) * width, low + cell * width], [low, high])
        passes += 1
    return (low + high) / 2


def _count(
    block: Block, basis: Any, functions: Functions, absolute: bool, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Counts below, in BINS intervals from low to high, and above: (n, BINS + 2)."""
    from ..losses import Squared

    target = Target(Squared(), functions.coef, functions.intercept)
    counts = np.zeros((len(low), BINS + 2))
    for rows, phi in mapped(block, basis):
        u = target.residual(rows.X, phi, np.asarray(to_numpy(rows.Y), dtype=np.float64))
        u = np.abs(u) if absolute else u
        # |u| = 0 lies in the first interval and not below it.
        cells = np.clip(np.floor((u - low) / (high - low) * BINS) + 1, 0, BINS + 1).astype(int)
        for column in range(len(low)):
            counts[column] += np.bincount(cells[:, column], weights=rows.weights, minlength=BINS + 2)
    return counts


def _plus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b
