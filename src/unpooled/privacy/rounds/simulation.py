"""Simulations of the learner with a random target, which forecast what a budget would buy before any of it is spent.

No rows are simulated, so their number may be as large as you like. The records are assumed to have exactly the second
moments q in the coordinates of the frame, which gives the message of a round in closed form up to noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from .frame import Frame
from .questions import Question

_NORMAL = norm.ppf((np.arange(256) + 0.5) / 256)  # the standard normal law, at equal probabilities


@dataclass
class SimulatedRecords:
    """Records with normal labels around a function whose coefficients are a*_i ~ N(0, v q_i^β).

    Parameters
    ----------
    frame : the coordinates
    n : the number of records
    smoothness : β; see :mod:`.belief`
    explained : the share of the variance of the labels that the function explains
    spread : the standard deviation of the labels
    sites : the number of sites that each add all of the noise
    rng : the generator of the target and of the noise, which is simulated and protects nobody
    """

    frame: Frame
    n: int
    smoothness: float
    explained: float
    spread: float
    sites: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        q = self.frame.moments[1:]
        size = (q / q[0]) ** (self.smoothness / 2) * self.rng.standard_normal(len(q))
        size *= self.spread * math.sqrt(self.explained / float(q @ size**2))
        self.target = np.concatenate([[0.0], size])
        self.residual_variance = self.spread**2 * (1.0 - self.explained)

    def error(self, coef: np.ndarray) -> float:
        """Return E (f - f*)²."""
        return float(self.frame.moments @ (coef - self.target) ** 2)

    def answer(self, question: Question, mu: float) -> tuple[np.ndarray, float]:
        """Return the noisy answer to a question, and the standard deviation of its noise."""
        sigma = math.sqrt(self.sites) * question.sensitivity / (self.n * mu)
        return question.simulate_mean(self) + sigma * self.rng.standard_normal(question.size), sigma

    @property
    def labels(self) -> np.ndarray:
        """Quantiles of the labels at equally spaced probabilities."""
        return self.spread * _NORMAL

    def residuals(self, coef: np.ndarray) -> np.ndarray:
        """Return quantiles of the residuals of a function at equally spaced probabilities."""
        return math.sqrt(self.error(coef) + self.residual_variance) * _NORMAL
