"""Questions that may be asked of private rows, and how far one record moves each answer (docs/privacy/rounds.md).

Every question is a sum over records. It says how many numbers the answer has, its sensitivity, and a bound on what one
record adds, so that its noise is planned without a look at the rows. It also says how it is summed over rows, and what
its mean over made-up records is (:mod:`.simulation`).

An answer is summed a block at a time. The sums have no noise yet and must get it: :class:`Custodian` holds the rows,
answers the learner's questions and adds the noise to every answer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..._base import threads
from ..._base.arrays import to_numpy
from ..._base.compensated import Sum
from ..._base.rows import Block, Rows, Source
from ..._base.threads import silence_warnings
from ...losses import Loss
from ...summaries.passes import mapped, stretches
from ..composition import Spent
from ..gaussian import Gaussian
from ..noise import GridGaussian, opendp, plan
from ..sensitivity import ROOM, ROUNDING
from .belief import slopes
from .frame import Frame

SLACK = 1.0 + ROOM
SHORTEST = 1e-150  # of rows, and of what is divided by: numbers stay numbers then


class Records(Protocol):
    """Made-up records, of which no single one is known."""

    frame: Frame
    n: int
    rng: np.random.Generator
    target: np.ndarray  #: the coefficients of the function that they lie around

    @property
    def labels(self) -> np.ndarray: ...  #: at equal probabilities
    def residuals(self, coef: np.ndarray) -> np.ndarray: ...  #: of a function, at equal probabilities


class Question(ABC):
    """A question: how large its answer is, how far one record moves it, how it is summed and how it is simulated."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers the answer has."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Δ in ℓ2 norm."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """A bound on the ℓ2 norm of what one record adds."""

    @abstractmethod
    def sums(self, block: Block, frame: Frame | None, features: Any, label_bound: float) -> Iterator[np.ndarray]:
        """Yield the sums over the rows of a block, a few rows at a time."""

    def expected(self, records: Records) -> np.ndarray:
        """Return the mean over made-up records, without noise."""
        raise NotImplementedError(f"{type(self).__name__} is asked of real rows only")


class OfFunction(Question):
    """A question about functions of the features: rows are mapped into the frame."""

    @abstractmethod
    def of_mapped(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the sum over rows z = (1, centred features) with labels y."""

    def sums(self, block: Block, frame: Frame | None, features: Any, label_bound: float) -> Iterator[np.ndarray]:
        assert frame is not None
        for rows, phi in mapped(block, features):
            with threads.one_blas_thread:  # blocks are small: several threads would wait for one another
                found = self.of_mapped(frame.coordinates(phi), _labels(rows, label_bound))
            yield found


class OfRows(Question):
    """A question about the rows as they are."""

    @abstractmethod
    def of_rows(self, rows: Rows, label_bound: float) -> np.ndarray:
        """Return the sum over rows."""

    def sums(self, block: Block, frame: Frame | None, features: Any, label_bound: float) -> Iterator[np.ndarray]:
        for stretch in block.labeled:
            for rows in stretch.chunks(32 * Plain.rows_at_once):
                yield self.of_rows(rows, label_bound)


@dataclass(frozen=True)
class Counts(OfRows):
    """How many labels lie between edges: a replaced record leaves one bin and enters another, so Δ = √2 (theorem 1)."""

    edges: np.ndarray

    @property
    def size(self) -> int:
        """The bins, with the two that have no end."""
        return len(self.edges) + 1

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2.0)

    @property
    def largest(self) -> float:
        return 1.0

    def of_rows(self, rows: Rows, label_bound: float) -> np.ndarray:
        return counted(_labels(rows, label_bound), self.edges)

    def expected(self, records: Records) -> np.ndarray:
        return counted(records.labels, self.edges) / len(records.labels)


@dataclass(frozen=True)
class Residuals(OfFunction):
    """Σ ψ(ru)/r ωWz and, times v, counts of |u| between edges: u = y - aᵀz, ω = min(1, L/|Wz|), r = ω|Wz|/B.

    z = (1, centred features). Rows longer than L are shrunk to it. The residual of a long row is cut off earlier and
    that of a short one later, so that what a record adds is cut off as a whole: |ψ(ru)/r ωWz| ≤ B sup|ψ|, whatever the
    kernel and however large labels and features are, and Δ² = 4 B² sup|ψ|² + 2v² (theorem 2).
    """

    coef: np.ndarray  #: a, with the constant's coefficient first
    loss: Loss
    weights: np.ndarray  #: the diagonal of W
    length: float  #: B
    longest: float  #: L
    edges: np.ndarray  #: of |u|
    counts_weight: float  #: v

    @property
    def size(self) -> int:
        """A number a coordinate, and a bin more than there are edges."""
        return len(self.coef) + len(self.edges) + 1

    @property
    def sensitivity(self) -> float:
        return math.hypot(2.0 * self.loss.bound * self.length * SLACK, math.sqrt(2.0) * self.counts_weight)

    @property
    def largest(self) -> float:
        return math.hypot(self.loss.bound * self.length * SLACK, self.counts_weight)

    def of_mapped(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        lengths = np.sqrt((z * z) @ (self.weights**2))
        z = _finite(z, lengths)
        # ψ of what is beyond all numbers is that of the largest one: every record must add something finite.
        u = np.nan_to_num(y - z @ self.coef)
        lengths = np.where(np.isfinite(lengths), np.maximum(lengths, SHORTEST), SHORTEST)
        omega = np.minimum(1.0, self.longest / lengths)
        # ψ(ru)/r: a larger r than it should be only makes it smaller; a smaller one would break the bound.
        r = np.maximum(omega * lengths / self.length, SHORTEST)
        push = omega * np.asarray(self.loss.derivative(np.nan_to_num(u * r))) / r
        bins = counted(np.abs(u), self.edges)
        return np.concatenate([(push @ z) * self.weights, self.counts_weight * bins])

    def expected(self, records: Records) -> np.ndarray:
        frame = records.frame
        q, u = frame.moments, records.residuals(self.coef)
        lengths = np.sqrt(frame.squares @ self.weights**2)
        omega = np.minimum(1.0, self.longest / lengths)
        each = np.mean(slopes(self.loss, np.multiply.outer(omega * lengths / self.length, u)), axis=1)
        seen = float(np.mean(omega * each))
        missing = records.target - self.coef
        # Public second moments differ from those of the records, and a mean over records from its expectation.
        spread = float(q @ missing**2) / frame.basis.n_public_ + float(np.mean(u**2)) / records.n
        gradient = q * missing + np.sqrt(q * spread) * records.rng.standard_normal(len(q))
        bins = counted(np.abs(u), self.edges) / len(u)
        return np.concatenate([self.weights * seen * gradient, self.counts_weight * bins])


@dataclass(frozen=True)
class Calibration(OfFunction):
    """Σ ψ(ru)/r (1, g) of one function f: u = y - f(x), g = (f(x) - m)/s, r = |(1, g)|/B; Δ = 2B sup|ψ| (theorem 5)."""

    coef: np.ndarray  #: f = aᵀz
    middle: float  #: m
    spread: float  #: s
    loss: Loss
    length: float  #: B

    @property
    def size(self) -> int:
        """One number for where the function lies and one for how far it reaches."""
        return 2

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.largest

    @property
    def largest(self) -> float:
        return self.loss.bound * self.length * SLACK

    def of_mapped(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        f = np.nan_to_num(_finite(z, np.sum(z * z, axis=1)) @ self.coef)
        g = np.nan_to_num((f - self.middle) / self.spread)
        h = np.hypot(1.0, g)
        # With (1, g)/h made first no rounding of a tiny number is multiplied by a huge one.
        push = self.length * np.asarray(self.loss.derivative(np.nan_to_num((y - f) * (h / self.length))))
        return np.asarray([push @ (1.0 / h), push @ (g / h)])

    def expected(self, records: Records) -> np.ndarray:
        direction = records.frame.moments * self.coef / self.spread
        missing = records.target - self.coef
        g = records.frame.rows[:, 1:] @ self.coef[1:] / self.spread
        r = np.hypot(1.0, g) / self.length
        each = np.mean(slopes(self.loss, np.multiply.outer(r, records.residuals(self.coef))), axis=1)
        return np.asarray([np.mean(each) * missing[0], np.mean(each * g**2) * float(direction[1:] @ missing[1:])])


@dataclass(frozen=True)
class Losses(OfFunction):
    """Σ min(u², L²)/L² for each of K functions: a record moves each by at most one, so Δ = √K (theorem 4)."""

    coefs: np.ndarray  #: (M+1, K)
    limit: float  #: L

    @property
    def size(self) -> int:
        """A number a function."""
        return int(self.coefs.shape[1])

    @property
    def sensitivity(self) -> float:
        return math.sqrt(self.size)

    @property
    def largest(self) -> float:
        return math.sqrt(self.size)

    def of_mapped(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        u = np.nan_to_num(y[:, None] - _finite(z, np.sum(z * z, axis=1)) @ self.coefs)
        return np.asarray(np.sum(np.minimum(np.abs(u) / self.limit, 1.0) ** 2, axis=0))

    def expected(self, records: Records) -> np.ndarray:
        found = [np.mean(np.minimum(np.abs(records.residuals(coef)) / self.limit, 1.0) ** 2) for coef in self.coefs.T]
        return np.asarray(found)


@dataclass(frozen=True)
class Marginals(OfRows):
    """How many values of each input lie between edges: d histograms of the same records, Δ = √(2d) (theorem 3)."""

    edges: np.ndarray  #: (d, k)

    @property
    def size(self) -> int:
        """The bins of all columns."""
        return int(self.edges.shape[0] * (self.edges.shape[1] + 1))

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2.0 * self.edges.shape[0])

    @property
    def largest(self) -> float:
        return math.sqrt(self.edges.shape[0])

    def of_rows(self, rows: Rows, label_bound: float) -> np.ndarray:
        X = np.asarray(to_numpy(rows.X), dtype=np.float64)
        return np.concatenate([counted(X[:, j], edges) for j, edges in enumerate(self.edges)])


def noise_for(question: Question, n: int, mu: float) -> GridGaussian:
    """The noise with which the answer over n records costs μ."""
    total = n * question.largest
    return plan(question.size, question.sensitivity, mu, total, inexact=ROUNDING * total)


def check_can_be_drawn(n: int, n_features: int, prices: Sequence[float]) -> None:
    """Refuse what :func:`noise_for` or the sampler would refuse later, when it has been paid for.

    A grid must hold n·largest, which is hardest at the highest price, and the noise, which is hardest at the lowest;
    both in units of Δ hardly differ among questions.
    """
    opendp()
    for mu in (max(prices), min(prices)):
        noise_for(Counts(np.zeros(n_features + 64)), n, mu)


def answer(
    question: Question, source: Source, frame: Frame | None, features: Any, label_bound: float, engine: Any
) -> np.ndarray:
    """The sums over all rows of a source; ``features`` maps them into the frame, or knows what they are there already.

    Counts of labels and of inputs need neither.
    """
    found: Sum = engine.map_reduce(
        part, stretches(source, features or Plain), _plus, args=(question, frame, features, label_bound), label="asking"
    )
    return found.high


class Plain:
    """Rows that are not mapped."""

    rows_at_once = 1024


def part(block: Block, question: Question, frame: Frame | None, features: Any, label_bound: float) -> Sum:
    """The sums over one block. Rows and labels may be of any size, and a warning about one would tell of it."""
    found = Sum.of(np.zeros(question.size))
    with silence_warnings():
        for sums in question.sums(block, frame, features, label_bound):
            found = found + Sum.of(sums)
    return found


def _labels(rows: Rows, label_bound: float) -> np.ndarray:
    return np.clip(np.asarray(to_numpy(rows.Y), dtype=np.float64)[:, 0], -label_bound, label_bound)


def _plus(a: Sum, b: Sum) -> Sum:
    return a + b


def _finite(z: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Rows whose length is no number, as that of features of an unbounded kernel far away, count as zero."""
    endless = ~np.isfinite(lengths)
    return np.where(endless[:, None], 0.0, z) if endless.any() else z


def counted(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values lie in (-∞, e_1), [e_1, e_2), …, [e_k, ∞)."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1).astype(np.float64)


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
