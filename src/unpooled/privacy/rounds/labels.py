"""The centre and spread of labels, and the range of inputs, from noisy counts.

Labels are counted first over their whole possible range, then over a narrower one.

Without public rows, synthetic rows are drawn from noisy counts of each input. This treats the inputs as independent,
which they are not, but the rows only have to lie roughly where the records are, so that the features and their moments
are about right. The rounds correct the rest.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from .questions import InputCounts, LabelCounts

LOOKS = 3  # the number of times that labels or inputs are counted
_MOST_BINS, _FEWEST_BINS = 64, 8
_GOOD_NOISE, _USABLE_NOISE = 0.06, 0.2  # noise on the share of a bin: the level to aim for, and the largest of any use
_LEAST_SHARE, _MOST_SHARE = 0.01, 0.06  # limits of the share of μ² for the labels
_DECADES = np.concatenate([-(8.0 ** np.arange(20, -21, -1.0)), 8.0 ** np.arange(-20.0, 21.0)])  # edges without a bound
_CLEAR = 0.02  # noise on the share of a bin up to which single bins are reliable
_CLEAR_SIGMAS = 2.0  # a bin counts if it exceeds this many standard deviations of the noise
_NEAR = 3.0  # a closer look covers this many standard deviations on either side
LABEL_PURPOSES = ("where the labels lie", "a closer look at the labels")


@dataclass(frozen=True)
class LabelLaw:
    """The centre and the variance of the labels.

    Attributes
    ----------
    centre, variance : the estimates
    uncertainty : the variance of the centre as an estimate of the best constant
    """

    centre: float
    variance: float
    uncertainty: float


def labels_share(n: float, mu: float, label_bound: float) -> float:
    """Return the share of μ² for counting labels, or zero if the counts would be mostly noise.

    Without a label bound there is no default to fall back on, so labels are counted in any case.
    """
    share = float(np.clip((_look_noise(n, mu) / _GOOD_NOISE) ** 2, _LEAST_SHARE, _MOST_SHARE))
    return share if math.isinf(label_bound) or _look_noise(n, mu * math.sqrt(share)) <= _USABLE_NOISE else 0.0


def ask_about_labels(n: float, mu: float, label_bound: float) -> Generator[Any, tuple[np.ndarray, float], LabelLaw]:
    """Ask where the labels lie, as a coroutine like the learner; without budget the answer is 0 ± c/2.

    The number of bins depends only on n and μ.
    """
    if mu == 0:
        return LabelLaw(0.0, (label_bound / 2) ** 2, (label_bound / 2) ** 2)
    bins = _choose_bin_count(_look_noise(n, mu))
    bounded = math.isfinite(label_bound)
    edges = np.linspace(-label_bound, label_bound, bins + 1) if bounded else _DECADES
    law = None
    looks: list[tuple[np.ndarray, float, np.ndarray]] = []
    for look in range(LOOKS):
        values, sigma = yield LabelCounts(edges), mu / math.sqrt(LOOKS), LABEL_PURPOSES[look > 0]
        looks.append((values, sigma, edges))
        if sigma > _CLEAR and (bounded or look > 0):
            new_law: LabelLaw | None = _fit_label_law(looks if bounded else looks[1:])
        else:
            new_law = _read_label_law(values, sigma, edges, sure=look > 0 or bounded, robust=not bounded)
        if new_law is None:
            break  # nothing stands out of the noise; this decision too uses only noisy counts
        law = new_law
        edges = _closer_edges(law, bins)
    spread = label_bound / 2 if bounded else 1.0
    return law or LabelLaw(0.0, spread**2, spread**2)


def _fit_label_law(looks: list[tuple[np.ndarray, float, np.ndarray]]) -> LabelLaw:
    """Fit a normal law to the noisy shares of all looks by least squares, which is maximum likelihood here.

    The noise may hide every single bin and still leave all bins together informative.
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


def _look_noise(n: float, mu: float, columns: int = 1) -> float:
    """Return the noise on the share of a bin in one look at which this many columns are counted together."""
    return math.sqrt(2.0 * columns * LOOKS) / (n * mu)


def _choose_bin_count(noise: float) -> int:
    """Return the largest power of two of bins that still stand out of the noise."""
    return int(np.clip(2 ** math.floor(math.log2(0.5 / noise)), _FEWEST_BINS, _MOST_BINS))


def _closer_edges(law: LabelLaw, bins: int) -> np.ndarray:
    """Return the edges of the bins for a closer look."""
    width = _NEAR * math.sqrt(law.variance)
    return np.linspace(law.centre - width, law.centre + width, bins + 1)


def _read_label_law(shares: np.ndarray, noise: float, edges: np.ndarray, sure: bool, robust: bool) -> LabelLaw | None:
    """Return the centre and variance of the bins that stand out of the noise; labels beyond the edges are ignored.

    With many bins some stand out by noise alone, and a single one far away would spoil the result, so the threshold
    grows with their number. If none stands out, the largest bin is taken, or None is returned if ``sure``. Labels
    without a bound may have gross outliers, which a mean would follow: with ``robust`` the centre is the median, and
    the standard deviation half the distance from the 16th to the 84th percentile.
    """
    inner = shares[1:-1]
    enough = (
        max(_CLEAR_SIGMAS, math.sqrt(2.0 * math.log(len(edges))) + 1.0)
        if len(edges) > _MOST_BINS + 1
        else _CLEAR_SIGMAS
    )
    clear = np.where(inner > enough * noise, inner, 0.0)
    if clear.sum() < 0.2:
        if sure:
            return None
        clear = np.where(inner == np.max(inner), 1.0, 0.0)
    clear = clear / clear.sum()
    if robust:
        low, centre, high = np.interp([0.16, 0.5, 0.84], np.concatenate([[0.0], np.cumsum(clear)]), edges).tolist()
        variance = max(0.5 * (high - low), 1e-3 * float(np.min(np.diff(edges)))) ** 2
        return LabelLaw(centre, variance, 0.25 * variance)
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    centre = float(clear @ middles)
    variance = float(clear @ ((middles - centre) ** 2 + widths**2 / 12))
    return LabelLaw(centre, variance, 0.25 * variance)


_INPUTS_LEAST_SHARE, _INPUTS_MOST_SHARE = 0.02, 0.25  # limits of the share of μ² for the inputs
_INPUTS_USABLE = 0.1  # noise on the share of a bin beyond which the counts are not worth their budget
N_MADE_UP_ROWS = 1000
INPUT_PURPOSE = "where the inputs lie"


def inputs_share(n: float, mu: float, d: int) -> float:
    """Return the share of μ² for counting d inputs, or zero if the counts would be mostly noise."""
    share = float(np.clip((_look_noise(n, mu, d) / _GOOD_NOISE) ** 2, _INPUTS_LEAST_SHARE, _INPUTS_MOST_SHARE))
    return share if _look_noise(n, mu * math.sqrt(share), d) <= _INPUTS_USABLE else 0.0


def ask_about_inputs(n: float, mu: float, d: int) -> Generator[Any, tuple[np.ndarray, float], np.ndarray]:
    """Ask where the inputs lie, as a coroutine like the learner, and return synthetic rows.

    Without budget the rows are standard normal.
    """
    rng = np.random.default_rng(0)  # a fixed seed is fine: these draws protect nothing
    if mu == 0:
        return rng.standard_normal((N_MADE_UP_ROWS, d))
    bins, edges = _choose_bin_count(_look_noise(n, mu, d)), np.tile(_DECADES, (d, 1))
    shares, sigma = yield InputCounts(edges), mu / math.sqrt(LOOKS), INPUT_PURPOSE
    for _ in range(LOOKS - 1):
        edges = np.stack([_closer_column_edges(*column, sigma, bins) for column in zip(shares.reshape(d, -1), edges)])
        shares, sigma = yield InputCounts(edges), mu / math.sqrt(LOOKS), INPUT_PURPOSE
    shares = shares.reshape(d, -1)
    return np.column_stack([_draw_column(rng, shares[j], sigma, edges[j]) for j in range(d)])


def _draw_column(rng: np.random.Generator, shares: np.ndarray, noise: float, edges: np.ndarray) -> np.ndarray:
    """Draw values from a noisy histogram, of which only the bins above the noise count, or else the largest."""
    inner = np.where(shares[1:-1] > noise, shares[1:-1], 0.0)
    inner = inner if inner.sum() > 0 else np.where(shares[1:-1] == np.max(shares[1:-1]), 1.0, 0.0)
    bins = rng.choice(len(inner), size=N_MADE_UP_ROWS, p=inner / inner.sum())
    return edges[bins] + np.diff(edges)[bins] * rng.uniform(size=N_MADE_UP_ROWS)


def _closer_column_edges(shares: np.ndarray, edges: np.ndarray, noise: float, bins: int) -> np.ndarray:
    law = _read_label_law(shares, noise, edges, sure=False, robust=True)
    assert law is not None  # without ``sure`` there always is one
    return _closer_edges(law, bins)
