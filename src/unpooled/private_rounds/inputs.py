"""What inputs look like where no public rows tell it: noised counts of each column, and rows made up from them.

Columns are taken as independent, which they are not; the rows only have to be roughly where the records are, so that
features and their moments are not far off. Rounds correct what is.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from .labels import DECADES, LOOKS, WANTED, bins_for, closer, look_noise, read
from .questions import Marginals

LEAST_SHARE, MOST_SHARE = 0.02, 0.25  # of μ²
USABLE = 0.1  # noise on the share of a bin beyond which rows are better made up without looking
MADE_UP = 1000  # rows
PURPOSE = "where the inputs lie"


def inputs_share(n: float, mu: float, d: int) -> float:
    """The share of μ² for the looks at d columns; nothing where they would tell nothing but noise."""
    share = float(np.clip((look_noise(n, mu, d) / WANTED) ** 2, LEAST_SHARE, MOST_SHARE))
    return share if look_noise(n, mu * math.sqrt(share), d) <= USABLE else 0.0


def inputs_asked(n: float, mu: float, d: int) -> Generator[Any, tuple[np.ndarray, float], np.ndarray]:
    """Coroutine like the learner's: returns made-up rows, of the standard normal law where nothing may be asked."""
    rng = np.random.default_rng(0)  # the same always: what is drawn hides nothing
    if mu == 0:
        return rng.standard_normal((MADE_UP, d))
    bins, edges = bins_for(look_noise(n, mu, d)), np.tile(DECADES, (d, 1))
    shares, sigma = yield Marginals(edges), mu / math.sqrt(LOOKS), PURPOSE
    for _ in range(LOOKS - 1):
        edges = np.stack([_closer(*column, sigma, bins) for column in zip(shares.reshape(d, -1), edges)])
        shares, sigma = yield Marginals(edges), mu / math.sqrt(LOOKS), PURPOSE
    shares = shares.reshape(d, -1)
    return np.column_stack([_drawn(rng, shares[j], sigma, edges[j]) for j in range(d)])


def _drawn(rng: np.random.Generator, shares: np.ndarray, noise: float, edges: np.ndarray) -> np.ndarray:
    """Values from a histogram; a bin counts if it is more than noise, and one at least does."""
    inner = np.where(shares[1:-1] > noise, shares[1:-1], 0.0)
    inner = inner if inner.sum() > 0 else np.where(shares[1:-1] == np.max(shares[1:-1]), 1.0, 0.0)
    chosen = rng.choice(len(inner), size=MADE_UP, p=inner / inner.sum())
    return edges[chosen] + np.diff(edges)[chosen] * rng.uniform(size=MADE_UP)


def _closer(shares: np.ndarray, edges: np.ndarray, noise: float, bins: int) -> np.ndarray:
    law = read(shares, noise, edges, sure=False, robust=True)
    assert law is not None  # the largest bin is taken where none stands out
    return closer(law, bins)
