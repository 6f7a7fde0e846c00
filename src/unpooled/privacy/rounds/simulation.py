"""A simulation of the learner against a made-up target: what a budget would buy, before any of it is spent.

No rows are simulated, so that there may be any number of them: in the coordinates of the frame the records are taken to
have the second moments q and no others, and then a round's message is known in closed form up to noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from .belief import slopes
from .frame import Frame
from .questions import Calibration, Counts, Losses, Question, Residuals, counted

_NORMAL = norm.ppf((np.arange(256) + 0.5) / 256)  # the standard normal law, at equal probabilities


@dataclass
class MadeUp:
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
        self.left = self.spread**2 * (1.0 - self.explained)

    def error(self, coef: np.ndarray) -> float:
        """E (f - f*)²."""
        return float(self.frame.moments @ (coef - self.target) ** 2)

    def told(self, question: Question, mu: float) -> tuple[np.ndarray, float]:
        """What the learner would be told, and the standard deviation of the noise on it."""
        sigma = math.sqrt(self.sites) * question.sensitivity / (self.n * mu)
        return self._mean(question) + sigma * self.rng.standard_normal(question.size), sigma

    def _mean(self, question: Question) -> np.ndarray:
        if isinstance(question, Counts):
            return counted(self.spread * _NORMAL, question.edges) / len(_NORMAL)
        if isinstance(question, Losses):
            found = [
                np.mean(np.minimum(np.abs(self._residuals(coef)) / question.limit, 1.0) ** 2)
                for coef in question.coefs.T
            ]
            return np.asarray(found)
        if isinstance(question, Calibration):
            return self._calibration(question)
        assert isinstance(question, Residuals)
        q, u = self.frame.moments, self._residuals(question.coef)
        lengths = np.sqrt(self.frame.squares @ question.weights**2)
        omega = np.minimum(1.0, question.longest / lengths)
        each = np.mean(slopes(question.loss, np.multiply.outer(omega * lengths / question.length, u)), axis=1)
        seen = float(np.mean(omega * each))
        missing = self.target - question.coef
        # Public second moments differ from those of the records, and a mean over records from its expectation.
        spread = float(q @ missing**2) / self.frame.basis.n_public_ + float(np.mean(u**2)) / self.n
        gradient = q * missing + np.sqrt(q * spread) * self.rng.standard_normal(len(q))
        bins = counted(np.abs(u), question.edges) / len(u)
        return np.concatenate([question.weights * seen * gradient, question.counts_weight * bins])

    def _calibration(self, question: Calibration) -> np.ndarray:
        direction = self.frame.moments * question.coef / question.spread
        missing = self.target - question.coef
        g = self.frame.rows[:, 1:] @ question.coef[1:] / question.spread
        r = np.hypot(1.0, g) / question.length
        each = np.mean(slopes(question.loss, np.multiply.outer(r, self._residuals(question.coef))), axis=1)
        return np.asarray([np.mean(each) * missing[0], np.mean(each * g**2) * float(direction[1:] @ missing[1:])])

    def _residuals(self, coef: np.ndarray) -> np.ndarray:
        return math.sqrt(self.error(coef) + self.left) * _NORMAL
