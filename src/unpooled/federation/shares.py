"""Sums with noise in shares, as the whole numbers that they are: what a secure sum adds must not round.

Each site's noised sums are multiples k·g/w of a public grid g by public weights w. As doubles they are rounded, each in
its own way, and in a sum to many digits these roundings would show how it came about; the proof that shares of noise
are enough is for Σk alone (docs/privacy/summaries.md). So sites add up k, and the server divides once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..privacy.summaries import Released

LARGEST = 2.0**51  # whole numbers up to this come back exactly from k·g/w in double precision


def whole(sums: Mapping[str, np.ndarray], released: Released, grid: float) -> np.ndarray:
    """The whole numbers k behind the noised sums of one site, as one vector."""
    found = np.rint(released.pack(dict(sums)) / grid)
    if not np.all(np.abs(found) < LARGEST):
        raise ValueError("the sums are too large for the grid of their noise: bring the labels to another unit")
    again = released.unpack(found * grid)
    if any(not np.array_equal(again[name], np.ravel(sums[name])) for name in again):
        raise ValueError("the sums are not multiples of the grid of their noise, so no share of it protects them")
    return found


def from_whole(total: np.ndarray, released: Released, grid: float) -> dict[str, np.ndarray]:
    """The noised sums over all sites, by name, from Σk."""
    return released.unpack(np.asarray(total, dtype=np.float64) * grid)
