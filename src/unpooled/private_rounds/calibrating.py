"""The last question: whether the function that was learned lies too high, and whether it reaches far enough.

Rounds cut residuals off so that little noise is needed, and what they learn of skewed labels is nearer to a median than
to a mean: the function is too flat where labels have a long tail, by a third and more. Along one direction, the
function itself, noise is cheap, so residuals can be cut off late there: with g = (f - m)/s of mean zero and variance
one on public rows,

    E ψ(ru)/r (1, g)  ≈  (κ_0 δ_0, κ_1 δ_1),    κ_0 = E ψ'(ru), κ_1 = E ψ'(ru) g²,

tells by which δ_0 + δ_1 g to correct it. Both are shrunk by what noise there is on them.
"""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from .choosing import ALIKE, LOSSES
from .frame import Frame
from .questions import SLACK, Calibration
from .residual_law import ResidualLaw

SHARE, FROM = 0.03, 200.0  # of μ², and the n·μ from which on it is spent
MULTIPLES = {"huber": (2.0, 4.0, 8.0, 16.0, 32.0), "correntropy": (2.0, 4.0)}  # of the scale; outliers stay outliers
LATER = 0.5  # of s: noise times the multiple may come to this
STRETCH = (1 / 3, 3.0)  # how far the function is stretched at most: what asks for more is noise
PRIOR = 0.5  # of s: how far the function may well be off, before it is asked
CALIBRATING = "how high the function lies and how far it reaches"


def share(known: float) -> float:
    """The share of μ² for it, from n·μ."""
    return SHARE if known >= FROM else 0.0


def calibrated(
    frame: Frame, coef: np.ndarray, law: ResidualLaw, n: float, mu: float, name: str
) -> Generator[tuple[Calibration, float, str], tuple[np.ndarray, float], np.ndarray]:
    """Coroutine like the learner's: the coefficients after the answer."""
    spread = math.sqrt(float(frame.moments[1:] @ coef[1:] ** 2))
    if spread <= 1e-3 * law.scale:  # a constant: nothing to stretch
        return coef
    g = frame.rows[:, 1:] @ coef[1:] / spread
    lengths = np.hypot(1.0, g)
    length = float(np.median(lengths))
    for multiple in MULTIPLES[name]:
        tried = LOSSES[name](min(multiple * law.scale, law.largest))
        slopes = law.slopes(tried, lengths / length)
        mean = float(np.mean(slopes))
        shown = np.asarray([mean, (np.mean(slopes * g**2) + ALIKE * mean) / (np.mean(g**2) + ALIKE)])
        noise = 2.0 * tried.bound * length * SLACK / (n * mu) / shown
        if multiple == MULTIPLES[name][0] or multiple * float(np.max(noise)) <= LATER * spread:
            loss, seen = tried, shown
    message, sigma = yield Calibration(coef, float(coef[0]), spread, loss, length), mu, CALIBRATING
    found, noise = message / seen, sigma / seen
    # As much of it as is not noise: nothing where noise alone would be as large (the non-negative garrote), all of what
    # is clear, and little where noise is larger than the function can be off.
    found *= np.maximum(1.0 - noise**2 / np.maximum(found**2, 1e-300), 0.0) / (1.0 + (noise / (PRIOR * spread)) ** 2)
    corrected = coef * np.clip(1.0 + found[1] / spread, *STRETCH)
    corrected[0] = coef[0] + found[0]
    return corrected
