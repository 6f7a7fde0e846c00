"""Beliefs about coefficients and residuals, from noised messages alone, and the choice of the next round's question.

**Coefficients.** Each coefficient has a normal law, and the laws have common hyper-parameters. A round tells, in each
coordinate, γ q_i (a*_i - a_i) plus noise of known variance, a the function it was asked at. So x_i = a_i + message/(γ
q_i) is an observation of a*_i, and rounds are averaged by their precisions: no round is lost. The prior is a*_i ~ N(0,
v q_i^β): large β is a smooth target (with the regularity r of Wang and Guo 2024, β = 2r - 1 + 1/α for eigenvalues like
i^{-α}), and v is its size. Both are averaged over by how likely they make the observations (empirical Bayes). Where
there is more noise than signal that shrinks the coefficients to nothing by itself.

**Residuals.** Noised counts tell the size of residuals: their scale, and what a loss makes of them.

**The next question.** The loss, the weights and the length of the next round are those that make the expected error
least.
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
SIZES = np.logspace(-3, 0.5, 15)  # of the target's variance, in units of the labels'; more would be noise
USUAL, SPREAD = (-0.25, 0.6), (0.6, 0.7)  # before anything is seen: β and v, and how far both may well be from it


class Belief:
    """A normal law for each coefficient; the constant's is first and has a flat prior around where it starts.

    Parameters
    ----------
    moments : q, with 1 for the constant
    variance : about the variance of the labels
    constant : the variance with which the constant's coefficient is known at first, to be zero
    """

    def __init__(self, moments: np.ndarray, variance: float, constant: float) -> None:
        self.moments, self.variance = moments, variance
        q = moments[1:]
        shapes = (q / q[0]) ** SMOOTHNESS[:, None]
        shapes /= np.sum(q * shapes, axis=1, keepdims=True)
        self._priors = (variance * SIZES[None, :, None] * shapes[:, None, :]).reshape(-1, len(q))
        usual = -0.5 * (((SMOOTHNESS - USUAL[0]) / SPREAD[0]) ** 2)[:, None]
        self._before = (usual - 0.5 * ((np.log(SIZES / USUAL[1]) / SPREAD[1]) ** 2)[None, :]).ravel()
        self.precision = np.zeros(len(moments))
        self.precision[0] = 1.0 / constant
        self._weighted = np.zeros(len(moments))
        self._settle()

    def update(self, values: np.ndarray, variances: np.ndarray) -> Belief:
        """What is believed after an observation of all coefficients."""
        found = copy.copy(self)  # arrays are replaced, never written to
        found._weighted = self._weighted + values / variances
        found.precision = self.precision + 1.0 / variances
        found._settle()
        return found

    def _settle(self) -> None:
        precision, weighted = self.precision[1:], self._weighted[1:]
        # With x̄ = weighted/precision ~ N(0, P + 1/precision): the likelihood, up to what does not depend on P.
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
        """Σ P/(P + 1/precision): how many coefficients are known."""
        gain = self._priors * self.precision[1:]
        return float(self._odds @ np.sum(gain / (1.0 + gain), axis=1))

    @property
    def error(self) -> float:
        """Σ q_i Var(a_i): about the squared error of the function."""
        return float(self.moments @ self.spread)


EDGES = np.asarray([0.33, 0.67, 1.0, 1.5, 2.0, 3.0, 5.0])  # of |u|, in units of the scale so far
LAST_EDGE = 8.0  # where the bin without an end is taken to end
POINTS_IN_BIN = 8  # in a bin
_NORMAL = norm.isf((np.arange(64) + 0.5) / 128)  # |u| of the standard normal law, at 64 equal probabilities
NORMAL_MISSED, TAIL_MISSED = 0.003, 0.05  # shares of what is cut off that are taken to be signal
SURE = 4.0  # standard deviations of noise by which a bin must stand out to speak of tails
DRIFT, DENSITY = 0.15, 0.3  # how far a scale moves from round to round, and the share of residuals in a unit of its log
LEAST_SLOPE = 0.02
USABLE = 0.08  # noise on the share of a bin beyond which counts say nothing


@dataclass(frozen=True)
class ResidualLaw:
    """|u| as a histogram, or normal where there is none.

    Attributes
    ----------
    scale : the size that 68 % of the residuals do not exceed: a standard deviation if they are normal
    sizes, shares : points |u| with their probabilities; empty where nothing was counted
    noise : standard deviation of the noise on a bin's share
    largest : no residual counts as larger
    """

    scale: float
    sizes: np.ndarray
    shares: np.ndarray
    noise: float
    largest: float

    @classmethod
    def normal(cls, scale: float, largest: float) -> ResidualLaw:
        """Nothing but a scale."""
        return cls(scale, np.zeros(0), np.zeros(0), np.inf, largest)

    def update_from_counts(self, shares: np.ndarray, noise: float) -> ResidualLaw:
        """The law after counts between ``EDGES`` times the scale; as it was where they are mostly noise."""
        if noise > USABLE:
            return self
        shares = np.where(shares > noise, shares, 0.0)
        if shares.sum() < 0.5:
            return self
        shares = shares / shares.sum()
        edges = np.concatenate([[0.0], EDGES, [LAST_EDGE]]) * self.scale
        points = edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(POINTS_IN_BIN) + 0.5) / POINTS_IN_BIN
        cumulated = np.concatenate([[0.0], np.cumsum(shares)])
        scale = float(np.clip(np.interp(0.6827, cumulated, edges) / self.scale, 0.3, 1.5))
        trusted = DRIFT**2 / (DRIFT**2 + (noise / DENSITY) ** 2)
        return replace(
            self,
            scale=self.scale * scale**trusted,
            sizes=np.minimum(points.ravel(), self.largest),
            shares=np.repeat(shares / POINTS_IN_BIN, POINTS_IN_BIN),
            noise=noise,
        )

    def slopes(self, loss: Loss, r: np.ndarray) -> np.ndarray:
        """E ψ'(ru) for every r: how much of a small change of the function a message shows of rows of that length."""
        sizes, shares = self._points()
        return np.asarray(np.clip(derivative_slopes(loss, np.multiply.outer(r, sizes)) @ shares, LEAST_SLOPE, 1.0))

    def cut(self, loss: Loss, r: np.ndarray, robust: bool) -> float:
        """What a loss may miss, from E (u - ψ(ru)/r)²: a little if residuals are normal, more of what is beyond that.

        Noise that is cut off on both sides is not missed. Where residuals are far from normal what is cut off may be
        outliers, or it may be what matters; ``robust`` takes it for outliers.
        """
        found = float(np.mean(_missed_squares(loss, r, self.scale * _NORMAL)))
        if robust or not len(self.sizes):
            return NORMAL_MISSED * found
        seen = np.where(self.shares > SURE * self.noise / POINTS_IN_BIN, self.shares, 0.0)
        all_of_it = float(seen @ _missed_squares(loss, r, self.sizes))
        return NORMAL_MISSED * found + TAIL_MISSED * max(all_of_it - found, 0.0)

    def _points(self) -> tuple[np.ndarray, np.ndarray]:
        if len(self.sizes):
            return self.sizes, self.shares
        return self.scale * _NORMAL, np.full(len(_NORMAL), 1.0 / len(_NORMAL))


def derivative_slopes(loss: Loss, u: np.ndarray) -> np.ndarray:
    """ψ'(u) by differences, over a width that does not matter to what is averaged."""
    h = np.maximum(1e-3 * np.max(np.abs(u), axis=-1, keepdims=True), 1e-300)
    return np.asarray((loss.derivative(u + h) - loss.derivative(u - h)) / (2.0 * h))


def _missed_squares(loss: Loss, r: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The mean of (u - ψ(ru)/r)² over all r, for every u."""
    kept = np.asarray(loss.derivative(np.multiply.outer(r, u))) / r[:, None]
    return np.asarray(np.mean((u - kept) ** 2, axis=0))


LOSSES: dict[str, type[Huber] | type[Correntropy]] = {"huber": Huber, "correntropy": Correntropy}
MULTIPLES = {
    "huber": (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
    "correntropy": (1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
}
FOR_TAILS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # where labels have long tails, which a mean must not lose
LONGER, LONGER_FOR_TAILS = 0.3, 0.8  # the quantile of |Wz| that is B
# The quantile that is L, from so large an n·μ: with little noise what is left is how records differ from public rows,
# and they do so most in long ones.
LONGEST = {0: 0.9, 15_000: 0.5}
WEIGHT_STEPS = 5  # towards the fixed point of the weights
QUANTILES = (np.arange(20) + 0.5) / 20  # quantiles of |Wz| that stand for all
PRIOR_SHARE = 1.0  # the share to which a coordinate is taken to be seen as all are: public rows are few


@dataclass(frozen=True)
class Style:
    """What all rounds have in common."""

    loss: str
    multiples: tuple[float, ...]  #: of the residuals' scale: where they may be cut off
    quantiles: tuple[float, float]  #: of |Wz| over public rows: B and L

    @classmethod
    def of(cls, loss: str, tails: bool, known: float) -> Style:
        """For labels with or without long tails, and n·μ of all rounds."""
        longest = next(share for least, share in reversed(LONGEST.items()) if known >= least)
        if tails:
            return cls(loss, FOR_TAILS, (LONGER_FOR_TAILS, max(LONGER_FOR_TAILS, longest)))
        return cls(loss, MULTIPLES[loss], (LONGER, longest))

    @property
    def ignores_outliers(self) -> bool:
        """Whether what is far off is taken for an outlier."""
        return self.loss == "correntropy"

    def candidate_losses(self, law: ResidualLaw) -> Iterator[Loss]:
        """The losses to choose from."""
        for multiple in self.multiples:
            yield LOSSES[self.loss](min(multiple * law.scale, law.largest))

    def lengths(self, lengths: np.ndarray) -> tuple[float, float]:
        """B and L."""
        length, longest = np.quantile(lengths, self.quantiles)
        return float(length), float(longest)


@dataclass
class RoundChoice:
    """A choice for one round."""

    loss: Loss
    weights: np.ndarray
    length: float
    longest: float
    unseen: float  #: variance that what is cut off may add to a coordinate, over q_i
    score: float


def choose_round(
    frame: Frame, belief: Belief, law: ResidualLaw, style: Style, *, apart: float, n: float, mu: float, counting: float
) -> RoundChoice:
    """The loss and the weights with which the budget that is left, μ, makes the expected error least."""
    best: RoundChoice | None = None
    q = frame.moments
    signal = q * belief.prior
    weights_sq = signal / (belief.variance + signal) / q  # a start that knows no units
    active = max(belief.degrees, 10.0)
    for loss in style.candidate_losses(law):
        for step in range(WEIGHT_STEPS if best is None else 2):  # near the last one's weights already
            lengths = np.sqrt(frame.squares @ weights_sq)
            length, longest = style.lengths(lengths)
            r = np.minimum(lengths, longest) / length
            missed = law.cut(loss, np.quantile(r, QUANTILES), style.ignores_outliers)
            extra = q * (law.scale**2 / n + apart * frame.doubt + missed / active)
            sigma = math.hypot(2.0, math.sqrt(2.0) * counting) * loss.bound * length / (n * mu)
            slope = _visible_shares(frame, law, loss, lengths, length, longest)
            precision = belief.precision + (slope * q) ** 2 / (sigma**2 / weights_sq + extra)
            kept = belief.prior * precision / (1.0 + belief.prior * precision)
            if step < WEIGHT_STEPS - 1:
                weights_sq = np.sqrt(weights_sq) * np.sqrt(np.maximum(kept, 1e-6) / q)
        length, longest = style.lengths(np.sqrt(frame.squares @ weights_sq))
        score = float(np.sum(q * belief.prior / (1.0 + belief.prior * precision))) + missed
        if best is None or score < best.score:
            best = RoundChoice(loss, np.sqrt(weights_sq), length, longest, missed / active, score)
    assert best is not None
    return best


def visible_shares(frame: Frame, law: ResidualLaw, asked: RoundChoice) -> np.ndarray:
    """γ_i = E ωψ'(ru) z_i² over E z_i²: how much of q_i(a*_i - a_i) a message shows, coordinate by coordinate."""
    lengths = np.sqrt(frame.squares @ asked.weights**2)
    return _visible_shares(frame, law, asked.loss, lengths, asked.length, asked.longest)


def _visible_shares(
    frame: Frame, law: ResidualLaw, loss: Loss, lengths: np.ndarray, length: float, longest: float
) -> np.ndarray:
    omega = np.minimum(1.0, longest / lengths)
    r = omega * lengths / length
    grid = np.quantile(r, QUANTILES)
    slopes = omega * np.interp(r, grid, law.slopes(loss, grid))
    usual = PRIOR_SHARE * len(r) * frame.moments
    return np.asarray((slopes @ frame.squares + usual * np.mean(slopes)) / (frame.squares.sum(axis=0) + usual))
