"""Where the labels lie and how far they spread, from noised counts: first over all they might be, then closer."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .questions import Counts

ZOOMS = 2  # times a closer look is taken
MOST_BINS, FEWEST_BINS = 64, 8
OCTAVES = range(-60, 61)  # labels without a bound are sought between 2^-60 and 2^60
NOISE = 2.0  # standard deviations of noise that a bin must have to count
PURPOSES = ("where the labels lie", "a closer look at the labels")
NEAR = 4.0  # standard deviations to either side that the closer look covers


@dataclass(frozen=True)
class LabelLaw:
    """Centre and variance, and the variance with which the best constant is known to be the centre."""

    centre: float
    variance: float
    unsure: float


def labels_asked(n: int, mu: float, label_bound: float) -> Generator[Any, tuple[np.ndarray, float], LabelLaw]:
    """Coroutine like the learner's: ask for counts where they can tell something at this price, else guess.

    With a bound c and too little budget the guess is 0 ± c/2. How many bins there are depends on n and μ alone.
    """
    looks = 1 + ZOOMS
    each = mu / math.sqrt(looks)
    noise = math.sqrt(2.0) / (n * each) if each > 0 else math.inf  # on the share of a bin
    bounded = math.isfinite(label_bound)
    bins = int(2 ** math.floor(math.log2(max(1.0 / (4.0 * noise), 1.0))))
    if bounded and bins < FEWEST_BINS:
        return LabelLaw(0.0, (label_bound / 2) ** 2, (label_bound / 2) ** 2)
    bins = max(min(bins, MOST_BINS), FEWEST_BINS)
    edges = np.linspace(-label_bound, label_bound, bins + 1) if bounded else _octaves()
    law = LabelLaw(0.0, label_bound**2 / 4, label_bound**2 / 4) if bounded else LabelLaw(0.0, 1.0, 1.0)
    for look in range(looks):
        values, sigma = yield Counts(edges), each, PURPOSES[look > 0]
        found = _read(values, sigma, edges)
        if found is None:
            break  # nothing but noise: that too was seen through noise
        law = found
        width = NEAR * math.sqrt(law.variance)
        edges = np.linspace(law.centre - width, law.centre + width, bins + 1)
    return law


def _read(shares: np.ndarray, noise: float, edges: np.ndarray) -> LabelLaw | None:
    """Centre and variance of the bins that stand out of the noise; labels beyond the edges are left aside."""
    inner = np.where(shares[1:-1] > NOISE * noise, shares[1:-1], 0.0)
    if inner.sum() < 0.2:
        return None
    inner = inner / inner.sum()
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    centre = float(inner @ middles)
    variance = float(inner @ ((middles - centre) ** 2 + widths**2 / 12))
    return LabelLaw(centre, variance, 0.25 * variance)


def _octaves() -> np.ndarray:
    """…, -4, -2, -1, …, 1, 2, 4, …"""
    sizes = np.exp2(np.asarray(list(OCTAVES), dtype=float))
    return np.concatenate([-sizes[::-1], sizes])
