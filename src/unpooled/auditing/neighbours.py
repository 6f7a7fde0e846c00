"""Neighbouring data sets that are far apart: many random starts, then uphill from the best.

An audit is as good as the neighbours it looks at. The search is for outputs that are far apart before there is noise on
them, which takes no runs; the noise is then audited on the pair that was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Rows = tuple[np.ndarray, np.ndarray]  # X and y
RECORD = 0  # the one that is replaced


@dataclass(frozen=True)
class Neighbours:
    """Two data sets of the same size that differ in one record.

    Attributes
    ----------
    first, second : S and S'
    direction : how their outputs differ before there is noise, where that is known
    distance : how far, in ℓ2 norm
    """

    first: Rows
    second: Rows
    direction: np.ndarray | None = None
    distance: float | None = None


def worst_neighbours(
    noiseless: Callable[[np.ndarray, np.ndarray], np.ndarray],
    n_rows: int,
    n_inputs: int,
    label_bound: float,
    *,
    spread: float = 1.0,
    starts: int = 40,
    steps: int = 120,
    seed: int = 0,
) -> Neighbours:
    """The furthest pair that was found, of data sets (X, y) with labels in ±``label_bound``.

    Every second start replaces the label alone, by its opposite: that is the worst for most sums. Then all numbers of
    the best start, those of the other records too, are moved at random, and what is further apart is kept.

    Parameters
    ----------
    noiseless : X and y to the numbers that would get noise
    n_rows, n_inputs : the size of X
    label_bound : c
    spread : the standard deviation of inputs at the start
    starts, steps : how many pairs are tried at random, and then uphill
    seed : of the search
    """
    rng = np.random.default_rng(seed)
    scale = np.append(np.full(n_inputs, spread), label_bound)

    def pair(candidate: np.ndarray) -> tuple[Rows, Rows]:
        rows = np.concatenate([candidate[:, :-1], np.clip(candidate[:, -1:], -1.0, 1.0)], axis=1) * scale
        one, other = rows[:-1].copy(), rows[:-1].copy()
        other[RECORD] = rows[-1]
        return (one[:, :-1], one[:, -1]), (other[:, :-1], other[:, -1])

    def difference(candidate: np.ndarray) -> np.ndarray:
        first, second = pair(candidate)
        return np.asarray(noiseless(*first) - noiseless(*second), dtype=float).ravel()

    def drawn(flipped: bool) -> np.ndarray:
        candidate = rng.standard_normal((n_rows + 1, n_inputs + 1))
        candidate[:, -1] *= 3.0  # most labels at their bound
        if flipped:
            candidate[-1] = candidate[RECORD] * np.append(np.ones(n_inputs), -1.0)
        return candidate

    tried = [drawn(bool(i % 2)) for i in range(starts)]
    lengths = [float(np.linalg.norm(difference(candidate))) for candidate in tried]
    best, furthest, width = tried[int(np.argmax(lengths))], max(lengths), 1.0
    for _ in range(steps):
        near = best + width * rng.standard_normal(best.shape) * (rng.random(best.shape) < 0.4)
        length = float(np.linalg.norm(difference(near)))
        if length > furthest:
            best, furthest, width = near, length, min(1.5 * width, 3.0)
        else:
            width = max(0.93 * width, 1e-3)
    return Neighbours(*pair(best), difference(best), furthest)
