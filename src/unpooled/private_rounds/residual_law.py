"""What is known of the size of residuals, from noised counts: their scale, and what a loss makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from ..losses import Loss

EDGES = np.asarray([0.33, 0.67, 1.0, 1.5, 2.0, 3.0, 5.0])  # of |u|, in units of the scale so far
LAST = 8.0  # where the bin without an end is taken to end
POINTS = 8  # in a bin
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

    def counted(self, shares: np.ndarray, noise: float) -> ResidualLaw:
        """The law after counts between ``EDGES`` times the scale; as it was where they are mostly noise."""
        if noise > USABLE:
            return self
        shares = np.where(shares > noise, shares, 0.0)
        if shares.sum() < 0.5:
            return self
        shares = shares / shares.sum()
        edges = np.concatenate([[0.0], EDGES, [LAST]]) * self.scale
        points = edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(POINTS) + 0.5) / POINTS
        cumulated = np.concatenate([[0.0], np.cumsum(shares)])
        scale = float(np.clip(np.interp(0.6827, cumulated, edges) / self.scale, 0.3, 1.5))
        trusted = DRIFT**2 / (DRIFT**2 + (noise / DENSITY) ** 2)
        return replace(
            self,
            scale=self.scale * scale**trusted,
            sizes=np.minimum(points.ravel(), self.largest),
            shares=np.repeat(shares / POINTS, POINTS),
            noise=noise,
        )

    def slopes(self, loss: Loss, r: np.ndarray) -> np.ndarray:
        """E ψ'(ru) for every r: how much of a small change of the function a message shows of rows of that length."""
        sizes, shares = self._points()
        return np.asarray(np.clip(slopes(loss, np.multiply.outer(r, sizes)) @ shares, LEAST_SLOPE, 1.0))

    def cut(self, loss: Loss, r: np.ndarray, robust: bool) -> float:
        """What a loss may miss, from E (u - ψ(ru)/r)²: a little if residuals are normal, more of what is beyond that.

        Noise that is cut off on both sides is not missed. Where residuals are far from normal what is cut off may be
        outliers, or it may be what matters; ``robust`` takes it for outliers.
        """
        found = float(np.mean(_cut_off(loss, r, self.scale * _NORMAL)))
        if robust or not len(self.sizes):
            return NORMAL_MISSED * found
        seen = np.where(self.shares > SURE * self.noise / POINTS, self.shares, 0.0)
        all_of_it = float(seen @ _cut_off(loss, r, self.sizes))
        return NORMAL_MISSED * found + TAIL_MISSED * max(all_of_it - found, 0.0)

    def _points(self) -> tuple[np.ndarray, np.ndarray]:
        if len(self.sizes):
            return self.sizes, self.shares
        return self.scale * _NORMAL, np.full(len(_NORMAL), 1.0 / len(_NORMAL))


def slopes(loss: Loss, u: np.ndarray) -> np.ndarray:
    """ψ'(u) by differences, over a width that does not matter to what is averaged."""
    h = np.maximum(1e-3 * np.max(np.abs(u), axis=-1, keepdims=True), 1e-300)
    return np.asarray((loss.derivative(u + h) - loss.derivative(u - h)) / (2.0 * h))


def _cut_off(loss: Loss, r: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The mean of (u - ψ(ru)/r)² over all r, for every u."""
    kept = np.asarray(loss.derivative(np.multiply.outer(r, u))) / r[:, None]
    return np.asarray(np.mean((u - kept) ** 2, axis=0))
