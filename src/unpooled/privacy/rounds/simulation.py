"""A simulation of the learner against a made-up target: what a budget would buy, before any of it is spent.

No rows are simulated, so that there may be any number of them: in the coordinates of the frame the records are taken to
have the second moments q and no others, and then a round's message is known in closed form up to noise.
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
    """Records of a normal law around a function with coefficients a*_i ~ N(0, v q_i^β).

    Parameters
    ----------
    frame : the coordinates
    n : records
    smoothness : β; see :mod:`.belief`
    explained : the share of the labels' variance that the function is
    spread : standard deviation of the labels
    sites : how many add all of the noise
    rng : draws the target and the noise, which is a stand-in and protects nobody
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
        """E (f - f*)²."""
        return float(self.frame.moments @ (coef - self.target) ** 2)

    def answer(self, question: Question, mu: float) -> tuple[np.ndarray, float]:
        """What the learner would be told, and the standard deviation of the noise on it."""
        sigma = math.sqrt(self.sites) * question.sensitivity / (self.n * mu)
        return question.simulate_mean(self) + sigma * self.rng.standard_normal(question.size), sigma

    @property
    def labels(self) -> np.ndarray:
        """At equal probabilities."""
        return self.spread * _NORMAL

    def residuals(self, coef: np.ndarray) -> np.ndarray:
        """Those of a function, at equal probabilities."""
        return math.sqrt(self.error(coef) + self.residual_variance) * _NORMAL
