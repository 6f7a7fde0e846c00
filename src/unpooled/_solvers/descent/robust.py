"""The choice of a scale and an iteration from data with outliers: candidate grids, and a criterion that is robust.

The criterion gets the residuals r of held-out rows for every candidate. A plain mean of squares would be dominated by
the outliers that the loss is there to ignore, so the choice is made in five steps:

1. a reference scale s: the smallest normalised median |r| over the candidates, then, for the best candidate so far, the
   spread of the residuals within a window of 2s (a median alone is off by a factor of 2 if 40 % are outliers);
2. the score of a candidate is mean(1 - exp(-r²/(2(2s)²))), bounded, and about squared for |r| < 2s;
3. a scale is admissible if its best iteration scores worse than the best of all by at most Z standard errors of the
   paired difference. Scores alone hardly distinguish scales: they differ by less than their noise while the errors
   differ by per cents;
4. of the admissible scales, the one with the smallest asymptotic variance V = E ψ²/(E ψ')² of the M-estimate (Huber
   1964) on the best candidate's residuals is taken; but σ = ∞, least squares, if that is within TIE of it, as it is on
   clean normal noise;
5. of the iterations at that scale, the one with the best score is taken, the window now as wide as the scale, 2s to 8s:
   a wide window wastes less of clean data.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._base.arrays import Array, eps, like, namespace, to_numpy
from ...losses import Correntropy, Loss

NORMAL = 0.6744897501960817  # the median of |u| for a standard normal u
MOST = 2**23  # iterations that are tried
FACTORS = 1.5 ** np.arange(-6.0, 7.0)  # scales over the spread of the labels; infinity is added
WINDOW, WIDEST = 2.0, 8.0  # of the score, in units of s
Z = 2.0
TIE = 0.05
RISEN, STOPS = 1.05, 4  # a search ends once errors have risen by this factor, at this many stops in a row


class Candidates(NamedTuple):
    """Pairs (scale, iteration) to choose from: ``scale`` (C, T), one for each target, and ``n_iter`` (C,)."""

    scale: np.ndarray
    n_iter: np.ndarray


def stops_up_to(most: int, per_octave: int = 2) -> list[int]:
    """Return 1, 2, 3, 4, 6, 8, 11, 16, ...: powers of √2 (or of another root of 2), rounded, and ``most``."""
    exponents = np.arange(0, math.log2(most) + 1e-9, 1.0 / per_octave)
    powers = np.round(2.0**exponents).astype(int)
    return sorted({*powers[powers < most].tolist(), most})


def most_iterations(n_rows: int, single: bool = False) -> int:
    """Return the largest iteration to try: 1000 per row, a power of two, at most MOST (2¹⁷ in single precision)."""
    return int(min(2**17 if single else MOST, 2 ** math.ceil(math.log2(1000 * max(1, n_rows)))))


def _spread(Y: np.ndarray, weights: np.ndarray | None, center: bool) -> np.ndarray:
    """Return the median of |y| (|y - median| if centred) for each column of (n, T): (T,), positive."""
    Y = Y - weighted_median(Y, weights) if center else Y
    medians = weighted_median(np.abs(Y), weights)
    # If more than half the labels are equal: the mean of |y|, and 1 if all are.
    medians = np.where(medians > 0, medians, np.mean(np.abs(Y), axis=0))
    return np.where(medians > 0, medians, 1.0)


def clip_labels(Y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Clip labels (n, T) to within three robust standard deviations of their median, for methods that square them."""
    middle, reach = weighted_median(Y, weights), 3.0 * _spread(Y, weights, True) / NORMAL
    return np.clip(Y, middle - reach, middle + reach)


def scale_grid(Y: np.ndarray, weights: np.ndarray | None, center: bool, loss: Loss) -> np.ndarray:
    """Return the scales to try, (S, T), rising; the last is infinite, and the only one for a loss without a scale."""
    factors = np.append(FACTORS, math.inf) if loss.has_scale else np.asarray([math.inf])
    return factors[:, None] * _spread(Y, weights, center)[None, :]


def candidates(
    Y: np.ndarray,
    weights: np.ndarray | None,
    n_rows: int,
    *,
    center: bool = False,
    loss: Loss | None = None,
    single: bool = False,
    per_octave: int = 1,
) -> Candidates:
    """Combine every scale of :func:`scale_grid` with every iteration; ``Y`` (n, T) may be a sample of the labels.

    ``weights`` is (n,) or None; ``n_rows`` is the number of rows that one descent will use. The C = S·L candidates have
    all iterations of the first scale first.
    """
    scales = scale_grid(np.asarray(Y, dtype=float), weights, center, loss or Correntropy())
    return product(scales, stops_up_to(most_iterations(n_rows, single), per_octave))


def product(scales: np.ndarray, stops: list[int]) -> Candidates:
    """Combine scales (S, T) with L stops into S·L candidates, the stops running fastest."""
    return Candidates(np.repeat(scales, len(stops), axis=0), np.tile(np.asarray(stops), len(scales)))


def choose(
    residuals: np.ndarray, weights: np.ndarray | None, candidates: Candidates, loss: Loss | None = None
) -> np.ndarray:
    """Return the index of the chosen candidate for each target, from residuals (n, C, T) of held-out rows."""
    return score_candidates(residuals, weights, candidates, loss)[0]


def score_candidates(
    residuals: np.ndarray, weights: np.ndarray | None, candidates: Candidates, loss: Loss | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the chosen index for each target (T,), and every candidate's score (C, T) at the last window."""
    w = np.full(len(residuals), 1.0) if weights is None else np.asarray(weights, dtype=float)
    w = w / w.sum()
    loss = Correntropy() if loss is None else loss
    results = [_score_one(residuals[:, :, t], w, candidates.scale[:, t], loss) for t in range(residuals.shape[2])]
    return np.asarray([index for index, _ in results]), np.stack([scores for _, scores in results], axis=1)


def _score_one(R: np.ndarray, w: np.ndarray, scale: np.ndarray, loss: Loss) -> tuple[int, np.ndarray]:
    first = float(np.min(weighted_median(np.abs(R), w))) / NORMAL
    if first == 0.0:  # some candidate predicts half the rows exactly
        first = float(np.sqrt(np.min(w @ (R * R)))) or 1.0
    s = first
    for _ in range(3):
        score = w @ _window(R, WINDOW * s)
        best = int(np.argmin(score))
        s = _inner_spread(R[:, best], w, first)
    # For each scale the candidate with its best iteration, and whether it is admissible.
    losses_of_best = _window(R[:, best], WINDOW * s)
    rows = 1.0 / float(np.sum(w * w))
    scales = np.unique(scale)
    variance = np.full(len(scales), math.inf)
    for k, sigma in enumerate(scales):
        members = np.flatnonzero(scale == sigma)
        j = members[np.argmin(score[members])]
        gap = _window(R[:, j], WINDOW * s) - losses_of_best
        mean = float(w @ gap)
        error = math.sqrt(float(w @ (gap - mean) ** 2) / rows)
        if mean <= Z * error + 1e-12:
            variance[k] = _asymptotic_variance(R[:, best], w, loss.at(float(sigma)), s)
    least = float(np.min(variance))
    sigma = scales[np.argmin(variance)] if math.isfinite(least) else scale[best]
    if math.isinf(scales[-1]) and variance[-1] <= (1.0 + TIE) * least < math.inf:
        sigma = scales[-1]
    score = w @ _window(R, min(max(sigma, WINDOW * s), WIDEST * s))
    members = np.flatnonzero(scale == sigma)
    return int(members[np.argmin(score[members])]), score


def _window(r: np.ndarray, width: float) -> np.ndarray:
    """Return the bounded score 1 - exp(-r²/(2·width²))."""
    with np.errstate(over="ignore"):
        return -np.expm1(-0.5 * (r / width) ** 2)


def residual_spread(r: np.ndarray, w: np.ndarray) -> float:
    """Return the spread of residuals (n,) with outliers, on the scale of a standard deviation; Σ w = 1."""
    start = float(weighted_median(np.abs(r), w)) / NORMAL
    return _inner_spread(r, w, start) if start > 0 else 0.0


def _inner_spread(r: np.ndarray, w: np.ndarray, start: float) -> float:
    """Return s with s² = (1 + 1/4) Σ ω r²/Σ ω, ω = w·exp(-r²/(2(2s)²)), from ``start`` down; exact for normal r."""
    s = start
    for _ in range(30):
        omega = w * np.exp(-0.5 * (r / (WINDOW * s)) ** 2)
        s = min(start, math.sqrt((1.0 + WINDOW**-2) * float(omega @ (r * r)) / float(np.sum(omega)))) or start
    return s


def _asymptotic_variance(r: np.ndarray, w: np.ndarray, loss: Loss, s: float) -> float:
    """Return E ψ²/(E ψ')², with ψ' as a difference over a thousandth of the residuals' spread."""
    h = 1e-3 * s
    slope = float(w @ (loss.derivative(r + h) - loss.derivative(r - h))) / (2 * h)
    return float(w @ loss.derivative(r) ** 2) / slope**2 if slope > 1e-3 else math.inf


class RiseDetector:
    """A test for the end of a search, called with the residuals (n, S, T) of every stop: have all errors risen?"""

    def __init__(self, weights: np.ndarray | None) -> None:
        self.weights = weights
        self.history: list[np.ndarray] = []

    def __call__(self, residuals: np.ndarray) -> bool:
        is_known = ~np.isnan(residuals[:, 0, 0])
        weights = None if self.weights is None else self.weights[is_known]
        self.history.append(np.min(weighted_median(np.abs(residuals[is_known]), weights), axis=0))
        if len(self.history) <= STOPS:
            return False
        return bool(np.all(np.min(self.history[-STOPS:], axis=0) > RISEN * np.min(self.history, axis=0)))


def weighted_median(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the median of each column of (n, ...): its midpoint where the median is an interval."""
    if weights is None or np.all(weights == weights[0]):
        return np.median(values, axis=0)
    flat = values.reshape(len(values), -1)
    order = np.argsort(flat, axis=0, kind="stable")
    sorted_ = np.take_along_axis(flat, order, axis=0)
    mass = np.cumsum(weights[order], axis=0) / np.sum(weights)
    # A half reached up to rounding counts as reached, so that weights agree with repeated rows.
    low = np.argmax(mass >= 0.5 - 1e-12, axis=0)
    high = np.argmax(mass > 0.5 + 1e-12, axis=0)
    columns = np.arange(flat.shape[1])
    return (0.5 * (sorted_[low, columns] + sorted_[high, columns])).reshape(values.shape[1:])


def location(Y: Array, w: Array, loss: Loss, start: Array | None = None) -> Array:
    """Return the M-estimate of location of each column by b ← Σ w_i ω_i y_i/Σ w_i ω_i, ω_i = ψ(b-y_i)/(b-y_i).

    It begins at ``start``, or at the median if that is None. For least squares one step gives the mean.
    """
    xp = namespace(Y)
    start = like(weighted_median(to_numpy(Y), to_numpy(w)), Y) if start is None else start
    Y = Y - start
    b = 0.0 * start
    size = 4 * eps(Y) * xp.max(xp.abs(Y), axis=0)
    for _ in range(1000):  # normally it ends sooner, when a step changes nothing
        u = b - Y
        change = (w @ loss.derivative(u)) / xp.clip(w @ loss.weight(u), 1e-30, None)
        b = b - change
        if bool(xp.all(xp.abs(change) <= size)):
            break
    return start + b
