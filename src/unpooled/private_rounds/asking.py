"""The learner and the rows brought together: every answer gets its noise before the learner sees it."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..privacy.events import Gaussian
from ..privacy.guarantee import Spent
from .answers import answer
from .frame import Frame
from .questions import Question, noise_for


@dataclass
class Custodian:
    """Who holds the rows: answers questions, with noise.

    ``sites`` is how many sites add noise of their own, each as much as the whole sum would need: one where noise
    is shared or there is one place only.
    """

    source: Any
    n: int
    label_bound: float
    engine: Any
    sites: int = 1

    def ask(
        self, question: Question, mu: float, frame: Frame | None = None, features: Any = None
    ) -> tuple[np.ndarray, float]:
        """Means over the records with noise that makes them cost μ, and the standard deviation of that noise."""
        noise = noise_for(question, self.n, mu)
        values = noise.add(answer(question, self.source, frame, features, self.label_bound, self.engine))
        for _ in range(self.sites - 1):
            values = values + noise.add(np.zeros(question.size))
        return values / self.n, math.sqrt(self.sites) * noise.sigma / self.n


def held(
    learner: Generator[Any, Any, Any], told: Callable[[Question, float], tuple[np.ndarray, float]]
) -> tuple[Any, list[Spent]]:
    """Run a learner to its end; returns what it learned and what that cost."""
    spent: list[Spent] = []
    try:
        question, mu, purpose = next(learner)
        while True:
            spent.append(Spent(purpose, Gaussian(mu)))
            question, mu, purpose = learner.send(told(question, mu))
    except StopIteration as end:
        return end.value, spent
