"""Questions that may be asked of private rows, and how far one record moves each answer (docs/privacy/rounds.md).

Every question is a sum over records. It says how many numbers the answer has, its sensitivity, and a bound on what one
record adds, so that its noise is planned without a look at the rows.

An answer is summed a block at a time. The sums have no noise yet and must get it: :class:`Custodian` holds the rows,
answers the learner's questions and adds the noise to every answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base import threads
from ..._base.arrays import to_numpy
from ..._base.compensated import Sum
from ..._base.rows import Block, Rows, Source
from ..._base.threads import quietly
from ...losses import Loss
from ...summaries.passes import mapped, stretches
from ..composition import Spent
from ..gaussian import Gaussian
from ..noise import GridGaussian, opendp, plan
from ..sensitivity import ROOM, ROUNDING
from .frame import Frame

SLACK = 1.0 + ROOM


@dataclass(frozen=True)
class Counts:
    """How many labels lie between edges: a replaced record leaves one bin and enters another, so Δ = √2 (theorem 1)."""

    edges: np.ndarray

    @property
    def size(self) -> int:
        """The bins, with the two that have no end."""
        return len(self.edges) + 1

    @property
    def sensitivity(self) -> float:
        """Δ in ℓ2 norm."""
        return math.sqrt(2.0)

    @property
    def largest(self) -> float:
        """A bound on the ℓ2 norm of what one record adds."""
        return 1.0


@dataclass(frozen=True)
class Residuals:
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
        """Δ in ℓ2 norm."""
        return math.hypot(2.0 * self.loss.bound * self.length * SLACK, math.sqrt(2.0) * self.counts_weight)

    @property
    def largest(self) -> float:
        """A bound on the ℓ2 norm of what one record adds."""
        return math.hypot(self.loss.bound * self.length * SLACK, self.counts_weight)


@dataclass(frozen=True)
class Calibration:
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
        """Δ in ℓ2 norm."""
        return 2.0 * self.largest

    @property
    def largest(self) -> float:
        """A bound on the ℓ2 norm of what one record adds."""
        return self.loss.bound * self.length * SLACK


@dataclass(frozen=True)
class Losses:
    """Σ min(u², L²)/L² for each of K functions: a record moves each by at most one, so Δ = √K (theorem 4)."""

    coefs: np.ndarray  #: (M+1, K)
    limit: float  #: L

    @property
    def size(self) -> int:
        """A number a function."""
        return int(self.coefs.shape[1])

    @property
    def sensitivity(self) -> float:
        """Δ in ℓ2 norm."""
        return math.sqrt(self.size)

    @property
    def largest(self) -> float:
        """A bound on the ℓ2 norm of what one record adds."""
        return math.sqrt(self.size)


@dataclass(frozen=True)
class Marginals:
    """How many values of each input lie between edges: d histograms of the same records, Δ = √(2d) (theorem 3)."""

    edges: np.ndarray  #: (d, k)

    @property
    def size(self) -> int:
        """The bins of all columns."""
        return int(self.edges.shape[0] * (self.edges.shape[1] + 1))

    @property
    def sensitivity(self) -> float:
        """Δ in ℓ2 norm."""
        return math.sqrt(2.0 * self.edges.shape[0])

    @property
    def largest(self) -> float:
        """A bound on the ℓ2 norm of what one record adds."""
        return math.sqrt(self.edges.shape[0])


Question = Counts | Residuals | Calibration | Losses | Marginals


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


SHORTEST = 1e-150  # of rows, and of what is divided by: numbers stay numbers then


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
    with quietly():
        return _part(block, question, frame, features, label_bound)


def _part(block: Block, question: Question, frame: Frame | None, features: Any, label_bound: float) -> Sum:
    found = Sum.of(np.zeros(question.size))
    if isinstance(question, (Residuals, Calibration, Losses)):
        assert frame is not None
        asked = ASKED[type(question)]
        for rows, phi in mapped(block, features):
            with threads.one_blas_thread:  # blocks are small: several threads would wait for one another
                found = found + Sum.of(asked(question, frame.coordinates(phi), _labels(rows, label_bound)))
        return found
    for stretch in block.labeled:
        for rows in stretch.chunks(32 * Plain.rows_at_once):
            if isinstance(question, Counts):
                counts = counted(_labels(rows, label_bound), question.edges)
            else:
                X = np.asarray(to_numpy(rows.X), dtype=np.float64)
                counts = np.concatenate([counted(X[:, j], edges) for j, edges in enumerate(question.edges)])
            found = found + Sum.of(counts)
    return found


def _labels(rows: Rows, label_bound: float) -> np.ndarray:
    return np.clip(np.asarray(to_numpy(rows.Y), dtype=np.float64)[:, 0], -label_bound, label_bound)


def _plus(a: Sum, b: Sum) -> Sum:
    return a + b


def _residuals(question: Residuals, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    lengths = np.sqrt((z * z) @ (question.weights**2))
    z = _finite(z, lengths)
    # ψ of what is beyond all numbers is that of the largest one: every record must add something finite.
    u = np.nan_to_num(y - z @ question.coef)
    lengths = np.where(np.isfinite(lengths), np.maximum(lengths, SHORTEST), SHORTEST)
    omega = np.minimum(1.0, question.longest / lengths)
    # ψ(ru)/r: a larger r than it should be only makes it smaller; a smaller one would break the bound.
    r = np.maximum(omega * lengths / question.length, SHORTEST)
    push = omega * np.asarray(question.loss.derivative(np.nan_to_num(u * r))) / r
    bins = counted(np.abs(u), question.edges)
    return np.concatenate([(push @ z) * question.weights, question.counts_weight * bins])


def _calibration(question: Calibration, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    f = np.nan_to_num(_finite(z, np.sum(z * z, axis=1)) @ question.coef)
    g = np.nan_to_num((f - question.middle) / question.spread)
    h = np.hypot(1.0, g)
    # With (1, g)/h made first no rounding of a tiny number is multiplied by a huge one.
    push = question.length * np.asarray(question.loss.derivative(np.nan_to_num((y - f) * (h / question.length))))
    return np.asarray([push @ (1.0 / h), push @ (g / h)])


def _losses(question: Losses, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    u = np.nan_to_num(y[:, None] - _finite(z, np.sum(z * z, axis=1)) @ question.coefs)
    return np.asarray(np.sum(np.minimum(np.abs(u) / question.limit, 1.0) ** 2, axis=0))


def _finite(z: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Rows whose length is no number, as that of features of an unbounded kernel far away, count as zero."""
    endless = ~np.isfinite(lengths)
    return np.where(endless[:, None], 0.0, z) if endless.any() else z


def counted(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values lie in (-∞, e_1), [e_1, e_2), …, [e_k, ∞)."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1).astype(np.float64)


ASKED: dict[type, Any] = {Residuals: _residuals, Calibration: _calibration, Losses: _losses}


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
