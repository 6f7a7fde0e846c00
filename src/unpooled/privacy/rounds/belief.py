"""Beliefs about coefficients and residuals, from noisy messages alone, and the choice of the next question.

**Coefficients.** Each coefficient has a normal law, and the laws share hyper-parameters. In each coordinate, a round at
the function a gives γ q_i (a*_i - a_i) plus noise of known variance. Hence x_i = a_i + message/(γ q_i) is an
observation of a*_i, and rounds are averaged with their precisions as weights, so that every round counts. The prior is
a*_i ~ N(0, v q_i^β): a large β means a smooth target (with the regularity r of Wang and Guo 2024, β = 2r - 1 + 1/α for
eigenvalues like i^{-α}), and v is the size of the target. Both are averaged over according to how likely they make the
observations (empirical Bayes). Where noise exceeds the signal, this alone shrinks the coefficients towards zero.

**Residuals.** Noisy counts give the distribution of the residuals: their scale, and the effect of a loss on them.

**The next question.** The loss, the weights and the length of the next round are chosen to minimise the expected error.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from ...losses import Correntropy, Huber, Loss
from .frame import Frame

SMOOTHNESS = np.asarray([-1.25, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])  # β
SIZES = np.logspace(-3, 0.5, 15)  # candidate variances of the target, in units of the variance of the labels
_USUAL, _SPREAD = (-0.25, 0.6), (0.6, 0.7)  # the prior of β and log v: centres and standard deviations


class Belief:
    """A normal law for each coefficient; that of the constant is first and has a flat prior around its start.

    Parameters
    ----------
    moments : q, with 1 for the constant
    variance : an estimate of the variance of the labels
    constant : the prior variance of the constant's coefficient, whose prior mean is zero
    """

    def __init__(self, moments: np.ndarray, variance: float, constant: float) -> None:
        self.moments, self.variance = moments, variance
        q = moments[1:]
        shapes = (q / q[0]) ** SMOOTHNESS[:, None]
        shapes /= np.sum(q * shapes, axis=1, keepdims=True)
        self._priors = (variance * SIZES[None, :, None] * shapes[:, None, :]).reshape(-1, len(q))
        usual = -0.5 * (((SMOOTHNESS - _USUAL[0]) / _SPREAD[0]) ** 2)[:, None]
        self._before = (usual - 0.5 * ((np.log(SIZES / _USUAL[1]) / _SPREAD[1]) ** 2)[None, :]).ravel()
        self.precision = np.zeros(len(moments))
        self.precision[0] = 1.0 / constant
        self._weighted = np.zeros(len(moments))
        self._settle()

    def update(self, values: np.ndarray, variances: np.ndarray) -> Belief:
        """Return the belief after an observation of all coefficients."""
        new = copy.copy(self)  # arrays are replaced, never written to, so a shallow copy is enough
        new._weighted = self._weighted + values / variances
        new.precision = self.precision + 1.0 / variances
        new._settle()
        return new

    def _settle(self) -> None:
        precision, weighted = self.precision[1:], self._weighted[1:]
        # The likelihood of x̄ = weighted/precision ~ N(0, P + 1/precision), up to factors that do not depend on P.
        gain = self._priors * precision
        likelihood = self._before - 0.5 * np.sum(np.log1p(gain) - self._priors * weighted**2 / (1.0 + gain), axis=1)
        odds = np.exp(likelihood - likelihood.max())
        self._odds = odds / odds.sum()
        kept = self._priors / (1.0 + gain)
        means = kept * weighted
        mean = self._odds @ means
        variance = self._odds @ kept + np.maximum(self._odds @ means**2 - mean**2, 0.0)
        self.mean = np.concatenate([self._weighted[:1] / self.precision[:1], mean])
        self.spread = np.concatenate([1.0 / self.precision[:1], variance])
        self.prior = np.concatenate([[self.variance], self._odds @ self._priors])

    @property
    def degrees(self) -> float:
        """The effective number of known coefficients, Σ P/(P + 1/precision)."""
        gain = self._priors * self.precision[1:]
        return float(self._odds @ np.sum(gain / (1.0 + gain), axis=1))

    @property
    def error(self) -> float:
        """The expected squared error of the function, Σ q_i Var(a_i)."""
        return float(self.moments @ self.spread)


EDGES = np.asarray([0.33, 0.67, 1.0, 1.5, 2.0, 3.0, 5.0])  # bins of |u|, in units of the current scale
_LAST_EDGE = 8.0  # the assumed end of the unbounded bin
_POINTS_IN_BIN = 8
_NORMAL = norm.isf((np.arange(64) + 0.5) / 128)  # 64 quantiles of |u| for a standard normal u
_NORMAL_MISSED, _TAIL_MISSED = 0.003, 0.05  # the shares of the clipped part of residuals that count as signal
SURE = 4.0  # a bin is evidence of tails if it exceeds this many standard deviations of the noise
_DRIFT, _DENSITY = 0.15, 0.3  # the change of log scale from round to round, and the share of residuals per unit of it
_LEAST_SLOPE = 0.02
USABLE = 0.08  # noise on the share of a bin beyond which counts are of no use


@dataclass(frozen=True)
class ResidualLaw:
    """The distribution of |u| as a histogram, or a normal law before anything was counted.

    Attributes
    ----------
    scale : the size that 68 % of the residuals do not exceed (one standard deviation if they are normal)
    sizes, shares : values of |u| and their probabilities; empty before anything was counted
    noise : the standard deviation of the noise on the share of a bin
    largest : an upper limit of |u|
    """

    scale: float
    sizes: np.ndarray
    shares: np.ndarray
    noise: float
    largest: float

    @classmethod
    def normal(cls, scale: float, largest: float) -> ResidualLaw:
        """Return a normal law with the given scale."""
        return cls(scale, np.zeros(0), np.zeros(0), np.inf, largest)

    def update_from_counts(self, shares: np.ndarray, noise: float) -> ResidualLaw:
        """Return the law after counts in bins of ``EDGES`` times the scale; it is unchanged if noise dominates them."""
        if noise > USABLE:
            return self
        shares = np.where(shares > noise, shares, 0.0)
        if shares.sum() < 0.5:
            return self
        shares = shares / shares.sum()
        edges = np.concatenate([[0.0], EDGES, [_LAST_EDGE]]) * self.scale
        points = edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(_POINTS_IN_BIN) + 0.5) / _POINTS_IN_BIN
        cumulated = np.concatenate([[0.0], np.cumsum(shares)])
        scale = float(np.clip(np.interp(0.6827, cumulated, edges) / self.scale, 0.3, 1.5))
        trusted = _DRIFT**2 / (_DRIFT**2 + (noise / _DENSITY) ** 2)
        return replace(
            self,
            scale=self.scale * scale**trusted,
            sizes=np.minimum(points.ravel(), self.largest),
            shares=np.repeat(shares / _POINTS_IN_BIN, _POINTS_IN_BIN),
            noise=noise,
        )

    def slopes(self, loss: Loss, r: np.ndarray) -> np.ndarray:
        """Return E ψ'(ru) for every r: the share of a small change of the function that a message shows."""
        sizes, shares = self._points()
        return np.asarray(np.clip(derivative_slopes(loss, np.multiply.outer(r, sizes)) @ shares, _LEAST_SLOPE, 1.0))

    def cut(self, loss: Loss, r: np.ndarray, robust: bool) -> float:
        """Return the error that clipping may cause, from E (u - ψ(ru)/r)².

        Clipping normal noise on both sides costs little. The part of the residuals that lies beyond a normal law may be
        outliers or may be signal; with ``robust`` it counts as outliers, and otherwise partly as signal.
        """
        normal = float(np.mean(_missed_squares(loss, r, self.scale * _NORMAL)))
        if robust or not len(self.sizes):
            return _NORMAL_MISSED * normal
        clear = np.where(self.shares > SURE * self.noise / _POINTS_IN_BIN, self.shares, 0.0)
        counted = float(clear @ _missed_squares(loss, r, self.sizes))
        return _NORMAL_MISSED * normal + _TAIL_MISSED * max(counted - normal, 0.0)

    def _points(self) -> tuple[np.ndarray, np.ndarray]:
        if len(self.sizes):
            return self.sizes, self.shares
        return self.scale * _NORMAL, np.full(len(_NORMAL), 1.0 / len(_NORMAL))


def derivative_slopes(loss: Loss, u: np.ndarray) -> np.ndarray:
    """Return ψ'(u) by central differences, whose width is negligible in the averages taken later."""
    h = np.maximum(1e-3 * np.max(np.abs(u), axis=-1, keepdims=True), 1e-300)
    return np.asarray((loss.derivative(u + h) - loss.derivative(u - h)) / (2.0 * h))


def _missed_squares(loss: Loss, r: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the mean of (u - ψ(ru)/r)² over all r, for every u."""
    clipped = np.asarray(loss.derivative(np.multiply.outer(r, u))) / r[:, None]
    return np.asarray(np.mean((u - clipped) ** 2, axis=0))


LOSSES: dict[str, type[Huber] | type[Correntropy]] = {"huber": Huber, "correntropy": Correntropy}
MULTIPLES = {
    "huber": (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
    "correntropy": (1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
}
_FOR_TAILS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # multiples for labels with long tails, which a mean must keep
_LONGER, _LONGER_FOR_TAILS = 0.3, 0.8  # the quantile of |Wz| that serves as B
# The quantile of |Wz| that serves as L, by the least n·μ from which it applies. With little noise the main error is the
# difference between records and public rows, which is largest in long rows.
_LONGEST = {0: 0.9, 15_000: 0.5}
_WEIGHT_STEPS = 5  # iterations towards the fixed point of the weights
_QUANTILES = (np.arange(20) + 0.5) / 20  # the probabilities of the quantiles of |Wz| that stand for all rows
PRIOR_SHARE = 1.0  # the weight of the mean over coordinates, since public rows are few


@dataclass(frozen=True)
class Style:
    """The choices that all rounds share."""

    loss: str
    multiples: tuple[float, ...]  #: candidate clipping points, in units of the residuals' scale
    quantiles: tuple[float, float]  #: the quantiles of |Wz| over public rows that serve as B and L

    @classmethod
    def of(cls, loss: str, tails: bool, known: float) -> Style:
        """Return the style for labels with or without long tails, and for n·μ of all rounds together."""
        longest = next(share for least, share in reversed(_LONGEST.items()) if known >= least)
        if tails:
            return cls(loss, _FOR_TAILS, (_LONGER_FOR_TAILS, max(_LONGER_FOR_TAILS, longest)))
        return cls(loss, MULTIPLES[loss], (_LONGER, longest))

    @property
    def ignores_outliers(self) -> bool:
        """Whether large residuals count as outliers."""
        return self.loss == "correntropy"

    def candidate_losses(self, law: ResidualLaw) -> Iterator[Loss]:
        """Yield the losses to choose from."""
        for multiple in self.multiples:
            yield LOSSES[self.loss](min(multiple * law.scale, law.largest))

    def lengths(self, lengths: np.ndarray) -> tuple[float, float]:
        """Return B and L."""
        length, longest = np.quantile(lengths, self.quantiles)
        return float(length), float(longest)


@dataclass
class RoundChoice:
    """The choices for one round."""

    loss: Loss
    weights: np.ndarray
    length: float
    longest: float
    unseen: float  #: the variance that clipping may add to a coordinate, divided by q_i
    score: float


def choose_round(
    frame: Frame, belief: Belief, law: ResidualLaw, style: Style, *, apart: float, n: float, mu: float, counting: float
) -> RoundChoice:
    """Return the loss and the weights that minimise the expected error for the remaining budget μ."""
    best: RoundChoice | None = None
    q = frame.moments
    signal = q * belief.prior
    weights_sq = signal / (belief.variance + signal) / q  # a start that does not depend on units
    active = max(belief.degrees, 10.0)
    for loss in style.candidate_losses(law):
        for step in range(
            _WEIGHT_STEPS if best is None else 2
        ):  # later losses start near the weights of the one before
            lengths = np.sqrt(frame.squares @ weights_sq)
            length, longest = style.lengths(lengths)
            r = np.minimum(lengths, longest) / length
            missed = law.cut(loss, np.quantile(r, _QUANTILES), style.ignores_outliers)
            extra = q * (law.scale**2 / n + apart * frame.doubt + missed / active)
            sigma = math.hypot(2.0, math.sqrt(2.0) * counting) * loss.bound * length / (n * mu)
            slope = _visible_shares(frame, law, loss, lengths, length, longest)
            precision = belief.precision + (slope * q) ** 2 / (sigma**2 / weights_sq + extra)
            kept = belief.prior * precision / (1.0 + belief.prior * precision)
            if step < _WEIGHT_STEPS - 1:
                weights_sq = np.sqrt(weights_sq) * np.sqrt(np.maximum(kept, 1e-6) / q)
        length, longest = style.lengths(np.sqrt(frame.squares @ weights_sq))
        score = float(np.sum(q * belief.prior / (1.0 + belief.prior * precision))) + missed
        if best is None or score < best.score:
            best = RoundChoice(loss, np.sqrt(weights_sq), length, longest, missed / active, score)
    assert best is not None
    return best


def visible_shares(frame: Frame, law: ResidualLaw, choice: RoundChoice) -> np.ndarray:
    """Return γ_i = E ωψ'(ru) z_i² / E z_i², the share of q_i(a*_i - a_i) that a message shows in each coordinate."""
    lengths = np.sqrt(frame.squares @ choice.weights**2)
    return _visible_shares(frame, law, choice.loss, lengths, choice.length, choice.longest)


def _visible_shares(
    frame: Frame, law: ResidualLaw, loss: Loss, lengths: np.ndarray, length: float, longest: float
) -> np.ndarray:
    omega = np.minimum(1.0, longest / lengths)
    r = omega * lengths / length
    grid = np.quantile(r, _QUANTILES)
    slopes = omega * np.interp(r, grid, law.slopes(loss, grid))
    usual = PRIOR_SHARE * len(r) * frame.moments
    return np.asarray((slopes @ frame.squares + usual * np.mean(slopes)) / (frame.squares.sum(axis=0) + usual))
