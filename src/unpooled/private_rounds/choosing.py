"""What the next round asks: the loss, the weights and the length that make the expected error least."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..losses import Correntropy, Huber, Loss
from .belief import Belief
from .frame import Frame
from .residual_law import ResidualLaw

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
STEPS = 5  # towards the fixed point of the weights
FEW = (np.arange(20) + 0.5) / 20  # quantiles of |Wz| that stand for all
ALIKE = 1.0  # the share to which a coordinate is taken to be seen as all are: public rows are few


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
    def robust(self) -> bool:
        """Whether what is far off is taken for an outlier."""
        return self.loss == "correntropy"

    def cuts(self, law: ResidualLaw) -> Iterator[Loss]:
        """The losses to choose from."""
        for multiple in self.multiples:
            yield LOSSES[self.loss](min(multiple * law.scale, law.largest))

    def lengths(self, lengths: np.ndarray) -> tuple[float, float]:
        """B and L."""
        length, longest = np.quantile(lengths, self.quantiles)
        return float(length), float(longest)


@dataclass
class Asked:
    """A choice for one round."""

    loss: Loss
    weights: np.ndarray
    length: float
    longest: float
    unseen: float  #: variance that what is cut off may add to a coordinate, over q_i
    score: float


def chosen(
    frame: Frame, belief: Belief, law: ResidualLaw, style: Style, *, apart: float, n: float, mu: float, counting: float
) -> Asked:
    """The loss and the weights with which the budget that is left, μ, makes the expected error least."""
    best: Asked | None = None
    q = frame.moments
    signal = q * belief.prior
    weights_sq = signal / (belief.variance + signal) / q  # a start that knows no units
    active = max(belief.degrees, 10.0)
    for loss in style.cuts(law):
        for step in range(STEPS if best is None else 2):  # near the last one's weights already
            lengths = np.sqrt(frame.squares @ weights_sq)
            length, longest = style.lengths(lengths)
            r = np.minimum(lengths, longest) / length
            missed = law.cut(loss, np.quantile(r, FEW), style.robust)
            extra = q * (law.scale**2 / n + apart * frame.doubt + missed / active)
            sigma = math.hypot(2.0, math.sqrt(2.0) * counting) * loss.bound * length / (n * mu)
            slope = _seen(frame, law, loss, lengths, length, longest)
            precision = belief.precision + (slope * q) ** 2 / (sigma**2 / weights_sq + extra)
            kept = belief.prior * precision / (1.0 + belief.prior * precision)
            if step < STEPS - 1:
                weights_sq = np.sqrt(weights_sq) * np.sqrt(np.maximum(kept, 1e-6) / q)
        length, longest = style.lengths(np.sqrt(frame.squares @ weights_sq))
        score = float(np.sum(q * belief.prior / (1.0 + belief.prior * precision))) + missed
        if best is None or score < best.score:
            best = Asked(loss, np.sqrt(weights_sq), length, longest, missed / active, score)
    assert best is not None
    return best


def seen(frame: Frame, law: ResidualLaw, asked: Asked) -> np.ndarray:
    """γ_i = E ωψ'(ru) z_i² over E z_i²: how much of q_i(a*_i - a_i) a message shows, coordinate by coordinate."""
    lengths = np.sqrt(frame.squares @ asked.weights**2)
    return _seen(frame, law, asked.loss, lengths, asked.length, asked.longest)


def _seen(frame: Frame, law: ResidualLaw, loss: Loss, lengths: np.ndarray, length: float, longest: float) -> np.ndarray:
    omega = np.minimum(1.0, longest / lengths)
    r = omega * lengths / length
    grid = np.quantile(r, FEW)
    slopes = omega * np.interp(r, grid, law.slopes(loss, grid))
    usual = ALIKE * len(r) * frame.moments
    return np.asarray((slopes @ frame.squares + usual * np.mean(slopes)) / (frame.squares.sum(axis=0) + usual))
