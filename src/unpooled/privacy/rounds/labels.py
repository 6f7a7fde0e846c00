"""The centre and spread of labels, and the range of inputs, from noised counts.

Labels are counted first over all the values they might have, then over a closer range.

Where no public rows tell what inputs look like, noised counts of each column do, and rows are made up from these
counts. Columns are taken as independent, which they are not. The rows only have to be roughly where the records are, so
that features and their moments are not far off; the rounds correct the rest.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from .questions import InputCounts, LabelCounts

LOOKS = 3
MOST_BINS, FEWEST_BINS = 64, 8
GOOD_NOISE, USABLE_NOISE = (
    0.06,
    0.2,
)  # noise on the share of a bin: what the looks are given budget for, and what still tells
LEAST_SHARE, MOST_SHARE = 0.01, 0.06  # of μ²
DECADES = np.concatenate([-(8.0 ** np.arange(20, -21, -1.0)), 8.0 ** np.arange(-20.0, 21.0)])  # without a bound
CLEAR = 0.02  # noise on the share of a bin up to which bins speak for themselves
NOISE = 2.0  # standard deviations of noise that a bin must have to count
NEAR = 3.0  # standard deviations to either side that a closer look covers
LABEL_PURPOSES = ("where the labels lie", "a closer look at the labels")


@dataclass(frozen=True)
class LabelLaw:
    """Centre and variance, and the variance with which the best constant is known to be the centre."""

    centre: float
    variance: float
    uncertainty: float


def labels_share(n: float, mu: float, label_bound: float) -> float:
    """The share of μ² for the looks: what makes them tell something, and nothing where that is out of reach.

    Without a bound there is no guess to fall back on, and they are taken all the same.
    """
    share = float(np.clip((look_noise(n, mu) / GOOD_NOISE) ** 2, LEAST_SHARE, MOST_SHARE))
    return share if math.isinf(label_bound) or look_noise(n, mu * math.sqrt(share)) <= USABLE_NOISE else 0.0


def ask_about_labels(n: float, mu: float, label_bound: float) -> Generator[Any, tuple[np.ndarray, float], LabelLaw]:
    """Coroutine like the learner's, with its μ; without budget the guess is 0 ± c/2.

    How many bins there are depends on n and μ alone.
    """
    if mu == 0:
        return LabelLaw(0.0, (label_bound / 2) ** 2, (label_bound / 2) ** 2)
    bins = choose_bin_count(look_noise(n, mu))
    bounded = math.isfinite(label_bound)
    edges = np.linspace(-label_bound, label_bound, bins + 1) if bounded else DECADES
    law = None
    seen: list[tuple[np.ndarray, float, np.ndarray]] = []
    for look in range(LOOKS):
        values, sigma = yield LabelCounts(edges), mu / math.sqrt(LOOKS), LABEL_PURPOSES[look > 0]
        seen.append((values, sigma, edges))
        if sigma > CLEAR and (bounded or look > 0):
            found: LabelLaw | None = fit_label_law(seen if bounded else seen[1:])
        else:
            found = read_label_law(values, sigma, edges, sure=look > 0 or bounded, robust=not bounded)
        if found is None:
            break  # nothing but noise: that too was seen through noise
        law = found
        edges = closer_edges(law, bins)
    spread = label_bound / 2 if bounded else 1.0
    return law or LabelLaw(0.0, spread**2, spread**2)


def fit_label_law(looks: list[tuple[np.ndarray, float, np.ndarray]]) -> LabelLaw:
    """The normal law that fits noised shares best, of all looks together: least squares, which is most likely.

    Single bins would be lost in such noise, and all of them together are not.
    """
    low, high = looks[0][2][0], looks[0][2][-1]
    centres, spreads = np.linspace(low, high, 41), (high - low) * np.geomspace(1 / 256, 1 / 2, 29)
    for _ in range(2):
        misfit = np.zeros((len(centres), len(spreads)))
        for shares, sigma, edges in looks:
            below = ndtr((edges - centres[:, None, None]) / spreads[:, None])
            expected = np.diff(below, axis=-1, prepend=0.0, append=1.0)
            misfit += np.sum((shares - expected) ** 2, axis=-1) / sigma**2
        i, j = np.unravel_index(np.argmin(misfit), misfit.shape)
        centre, spread = float(centres[i]), float(spreads[j])
        step, ratio = centres[1] - centres[0], spreads[1] / spreads[0]
        centres, spreads = np.linspace(centre - step, centre + step, 21), spread * np.geomspace(1 / ratio, ratio, 9)
    return LabelLaw(centre, spread**2, 0.25 * spread**2)


def look_noise(n: float, mu: float, columns: int = 1) -> float:
    """The noise on the share of a bin in one of the looks, at which so many columns are counted together."""
    return math.sqrt(2.0 * columns * LOOKS) / (n * mu)


def choose_bin_count(noise: float) -> int:
    """As many bins as still stand out of the noise: a power of two."""
    return int(np.clip(2 ** math.floor(math.log2(0.5 / noise)), FEWEST_BINS, MOST_BINS))


def closer_edges(law: LabelLaw, bins: int) -> np.ndarray:
    """The edges of a closer look."""
    width = NEAR * math.sqrt(law.variance)
    return np.linspace(law.centre - width, law.centre + width, bins + 1)


def read_label_law(shares: np.ndarray, noise: float, edges: np.ndarray, sure: bool, robust: bool) -> LabelLaw | None:
    """Centre and variance of the bins that stand out of the noise; labels beyond the edges are left aside.

    Of many bins some stand out by noise alone, and one that is far away would spoil everything; where none stands out
    enough, the largest is taken unless it is better to be ``sure``. Labels without a bound may have gross outliers, of
    which a mean knows no end: ``robust`` reads the median, and half the way from the 16th to the 84th percentile.
    """
    inner = shares[1:-1]
    enough = max(NOISE, math.sqrt(2.0 * math.log(len(edges))) + 1.0) if len(edges) > MOST_BINS + 1 else NOISE
    found = np.where(inner > enough * noise, inner, 0.0)
    if found.sum() < 0.2:
        if sure:
            return None
        found = np.where(inner == np.max(inner), 1.0, 0.0)
    found = found / found.sum()
    if robust:
        low, centre, high = np.interp([0.16, 0.5, 0.84], np.concatenate([[0.0], np.cumsum(found)]), edges).tolist()
        variance = max(0.5 * (high - low), 1e-3 * float(np.min(np.diff(edges)))) ** 2
        return LabelLaw(centre, variance, 0.25 * variance)
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    centre = float(found @ middles)
    variance = float(found @ ((middles - centre) ** 2 + widths**2 / 12))
    return LabelLaw(centre, variance, 0.25 * variance)


INPUTS_LEAST_SHARE, INPUTS_MOST_SHARE = 0.02, 0.25  # of μ²
INPUTS_USABLE = 0.1  # noise on the share of a bin beyond which rows are better made up without looking
N_MADE_UP_ROWS = 1000  # rows
INPUT_PURPOSE = "where the inputs lie"


def inputs_share(n: float, mu: float, d: int) -> float:
    """The share of μ² for the looks at d columns; nothing where they would tell nothing but noise."""
    share = float(np.clip((look_noise(n, mu, d) / GOOD_NOISE) ** 2, INPUTS_LEAST_SHARE, INPUTS_MOST_SHARE))
    return share if look_noise(n, mu * math.sqrt(share), d) <= INPUTS_USABLE else 0.0


def ask_about_inputs(n: float, mu: float, d: int) -> Generator[Any, tuple[np.ndarray, float], np.ndarray]:
    """Coroutine like the learner's: returns made-up rows, of the standard normal law where nothing may be asked."""
    rng = np.random.default_rng(0)  # the same always: what is drawn hides nothing
    if mu == 0:
        return rng.standard_normal((N_MADE_UP_ROWS, d))
    bins, edges = choose_bin_count(look_noise(n, mu, d)), np.tile(DECADES, (d, 1))
    shares, sigma = yield InputCounts(edges), mu / math.sqrt(LOOKS), INPUT_PURPOSE
    for _ in range(LOOKS - 1):
        edges = np.stack([_closer_edges(*column, sigma, bins) for column in zip(shares.reshape(d, -1), edges)])
        shares, sigma = yield InputCounts(edges), mu / math.sqrt(LOOKS), INPUT_PURPOSE
    shares = shares.reshape(d, -1)
    return np.column_stack([_draw_column(rng, shares[j], sigma, edges[j]) for j in range(d)])


def _draw_column(rng: np.random.Generator, shares: np.ndarray, noise: float, edges: np.ndarray) -> np.ndarray:
    """Values from a histogram; a bin counts if it is more than noise, and one at least does."""
    inner = np.where(shares[1:-1] > noise, shares[1:-1], 0.0)
    inner = inner if inner.sum() > 0 else np.where(shares[1:-1] == np.max(shares[1:-1]), 1.0, 0.0)
    chosen = rng.choice(len(inner), size=N_MADE_UP_ROWS, p=inner / inner.sum())
    return edges[chosen] + np.diff(edges)[chosen] * rng.uniform(size=N_MADE_UP_ROWS)


def _closer_edges(shares: np.ndarray, edges: np.ndarray, noise: float, bins: int) -> np.ndarray:
    law = read_label_law(shares, noise, edges, sure=False, robust=True)
    assert law is not None  # the largest bin is taken where none stands out
    return closer_edges(law, bins)
