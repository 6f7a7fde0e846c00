"""Custodians, which answer questions about private rows: they sum over rows, pay, and add the noise.

A learner meets records nowhere else. A :class:`RowHolder` is the custodian of the rows of one process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..._base.compensated import Sum
from ..._base.rows import Block, Source
from ..._base.threads import silence_warnings
from ...summaries.passes import map_once, split_source
from ..composition import Expense
from ..gaussian import GaussianEvent
from ..noise import GridGaussian, calibrate_noise, load_opendp
from ..sensitivity import PLANNED_ROWS, ROUNDING
from .frame import Frame
from .questions import LabelCounts, NoisyAnswer, Question, UnmappedRows


class Custodian(Protocol):
    """The keeper of the records: all that a learner ever meets of them, in one process and over sites alike.

    It bounds what each record adds, pays μ before it reads, and adds the noise before it answers.
    """

    def ask(self, question: Question, mu: float) -> NoisyAnswer:
        """Return the noisy mean over the records, at a cost of μ, and the standard deviation of its noise."""
        ...


def noise_for(question: Question, n: int, mu: float, parties: int = 1, missing: int = 0) -> GridGaussian:
    """Return the noise with which the answer costs μ, alone or in shares (see :class:`..noise.GridGaussian`).

    It is planned for 2²² rows, or for the next power of two if there are more. So it does not depend on n below that,
    and all sites make their shares alike, on one grid.
    """
    total = max(PLANNED_ROWS, 1 << (n - 1).bit_length()) * question.largest
    size, sensitivity = question.size, question.sensitivity
    return calibrate_noise(size, sensitivity, mu, total, inexact=ROUNDING * total, parties=parties, missing=missing)


def check_noise_can_be_drawn(n: int, n_features: int, prices: Sequence[float]) -> None:
    """Raise now any error that :func:`noise_for` or the sampler would raise later, after the ledger was charged.

    The grid must represent n·largest, which is hardest for the largest μ, and the noise, which is hardest for the
    smallest μ. In units of Δ both are nearly the same for all questions.
    """
    load_opendp()
    for mu in (max(prices), min(prices)):
        noise_for(LabelCounts(np.zeros(n_features + 64)), n, mu)


def sum_answer(
    question: Question, source: Source, frame: Frame | None, features: Any, label_bound: float, engine: Any
) -> np.ndarray:
    """Return the sums over all rows of a source.

    ``features`` maps rows into the frame, or holds their features already; counts of labels and inputs need neither.
    """
    total: Sum = engine.map_reduce(
        _sum_block,
        split_source(source, features or UnmappedRows),
        _add,
        args=(question, frame, features, label_bound),
        label="asking",
    )
    return total.high


def _sum_block(block: Block, question: Question, frame: Frame | None, features: Any, label_bound: float) -> Sum:
    """Return the sums over one block, without warnings, because a warning could reveal something about a record."""
    total = Sum.of(np.zeros(question.size))
    with silence_warnings():
        for sums in question.sums(block, frame, features, label_bound):
            total = total + Sum.of(sums)
    return total


def _add(a: Sum, b: Sum) -> Sum:
    return a + b


@dataclass
class RowHolder(Custodian):
    """The holder of the rows of one or several sites, who answers questions with noise (a :class:`Custodian`).

    Attributes
    ----------
    sources : the rows of each site, or all rows in one source
    n : the number of rows of all of them
    label_bound : c; labels beyond it are clipped
    engine : does the sums
    sites : how many noises are added, one by each site
    parties, missing : of so many shares a noise is one, and so many may be missing; 1 and 0 is all of the noise
    frame, features : the coordinates of questions about functions, and what maps each source's rows into them: see
        :meth:`map_rows`
    """

    sources: Sequence[Source]
    n: int
    label_bound: float
    engine: Any
    sites: int = 1
    parties: int = 1
    missing: int = 0
    frame: Frame | None = None
    features: Sequence[Any] = ()

    def map_rows(self, frame: Frame) -> None:
        """Map all rows into the frame, once if there are few enough."""
        self.frame = frame
        pairs = [map_once(source, frame) for source in self.sources]
        self.sources, self.features = [source for source, _ in pairs], [features for _, features in pairs]

    def noisy_sums(self, question: Question, mu: float) -> np.ndarray:
        """Return the sums, to which every site has added its noise; each of them is on the grid of the noise."""
        noise = noise_for(question, self.n, mu, self.parties, self.missing)
        total = np.zeros(question.size)
        for source, features in zip(self.sources, self.features or [None] * len(self.sources)):
            total += noise.add(sum_answer(question, source, self.frame, features, self.label_bound, self.engine))
        for _ in range(self.sites - len(self.sources)):
            total += noise.add(np.zeros(question.size))
        return total

    def ask(self, question: Question, mu: float) -> NoisyAnswer:
        """Return the noisy mean over the records, at a cost of μ, and the standard deviation of its noise."""
        sigma = noise_for(question, self.n, mu, self.parties, self.missing).own_sigma
        return self.noisy_sums(question, mu) / self.n, math.sqrt(self.sites) * sigma / self.n


def run_learner(
    learner: Generator[Any, Any, Any], ask: Callable[[Question, float], NoisyAnswer]
) -> tuple[Any, list[Expense]]:
    """Run a learner to its end, and return its result and the cost of each question."""
    expenses: list[Expense] = []
    try:
        question, mu, purpose = next(learner)
        while True:
            expenses.append(Expense(purpose, GaussianEvent(mu)))
            question, mu, purpose = learner.send(ask(question, mu))
    except StopIteration as end:
        return end.value, expenses
