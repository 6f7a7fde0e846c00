"""Questions about private rows, with the sensitivity of each answer (docs/privacy/rounds.md has the proofs).

The answer to a question is a sum over records. A question knows the size of its answer, its sensitivity and a bound on
the contribution of one record, so its noise is calibrated without looking at the rows. It also knows how to sum over
rows, and its mean over simulated records (:mod:`.simulation`).

An answer is summed a block at a time, and these sums have no noise yet: a :class:`~.custodian.Custodian` adds it.

No bound relies on the good will of whoever asks: what a record adds is cut off by the question's own public numbers,
whatever the coefficients, the weights, the frame and the basis are. Rows whose length under W is not a number of
ordinary size count as zero, and so do residuals that are not numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..._base import threads
from ..._base.arrays import to_numpy
from ..._base.rows import Block, Rows
from ...losses import Loss
from ...summaries.passes import map_block
from ..sensitivity import ROOM
from .belief import derivative_slopes
from .frame import Frame

NoisyAnswer = tuple[np.ndarray, float]  # noisy means over the records, and the standard deviation of the noise

SLACK = 1.0 + ROOM
SHORTEST = 1e-150  # the length of the shortest row that counts, whose square is a normal number


class Records(Protocol):
    """Simulated records, known only through their distribution."""

    frame: Frame
    n: int
    rng: np.random.Generator
    target: np.ndarray  #: the coefficients of the true function

    @property
    def labels(self) -> np.ndarray: ...  #: quantiles at equally spaced probabilities
    def residuals(self, coef: np.ndarray) -> np.ndarray: ...  #: quantiles of the residuals of a function


class Question(ABC):
    """A question: the size and sensitivity of its answer, its sum over rows, and its mean over simulated records."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of values in the answer."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The sensitivity Δ in ℓ2 norm."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """A bound on the ℓ2 norm of the contribution of one record."""

    @abstractmethod
    def sums(self, block: Block, frame: Frame | None, features: Any, label_bound: float) -> Iterator[np.ndarray]:
        """Yield the sums over the rows of a block, a few rows at a time."""

    def simulate_mean(self, records: Records) -> np.ndarray:
        """Return the mean over simulated records, without noise."""
        raise NotImplementedError(f"{type(self).__name__} can be asked about real rows only")


class FunctionQuestion(Question):
    """A question about functions of the features, for which rows are mapped into the frame."""

    @abstractmethod
    def sum_mapped(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the sum over rows z = (1, centred features) with labels y."""

    def sums(self, block: Block, frame: Frame | None, features: Any, label_bound: float) -> Iterator[np.ndarray]:
        assert frame is not None
        for rows, phi in map_block(block, features):
            with threads.one_blas_thread:  # blocks are so small that several threads would only wait for each other
                total = self.sum_mapped(frame.coordinates(phi), _clipped_labels(rows, label_bound))
            yield total


class RowQuestion(Question):
    """A question about the rows themselves, without features."""

    @abstractmethod
    def sum_rows(self, rows: Rows, label_bound: float) -> np.ndarray:
        """Return the sum over rows."""

    def sums(self, block: Block, frame: Frame | None, features: Any, label_bound: float) -> Iterator[np.ndarray]:
        for stretch in block.labeled:
            for rows in stretch.chunks(32 * UnmappedRows.rows_at_once):
                yield self.sum_rows(rows, label_bound)


@dataclass(frozen=True)
class LabelCounts(RowQuestion):
    """The number of labels in each bin; a replaced record leaves one bin and enters another, so Δ = √2 (theorem 1)."""

    edges: np.ndarray

    @property
    def size(self) -> int:
        """The number of bins, including the two unbounded ones."""
        return len(self.edges) + 1

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2.0)

    @property
    def largest(self) -> float:
        return 1.0

    def sum_rows(self, rows: Rows, label_bound: float) -> np.ndarray:
        return _count_in_bins(_clipped_labels(rows, label_bound), self.edges)

    def simulate_mean(self, records: Records) -> np.ndarray:
        return _count_in_bins(records.labels, self.edges) / len(records.labels)


@dataclass(frozen=True)
class Residuals(FunctionQuestion):
    """Σ ψ(ru)/r ωWz, and v times the counts of |u| in bins: u = y - aᵀz, ω = min(1, L/|Wz|), r = ω|Wz|/B.

    z = (1, centred features), and rows longer than L are shrunk to length L. The residual of a long row is clipped
    earlier and that of a short row later, so that the contribution of a record is clipped as a whole:
    |ψ(ru)/r ωWz| ≤ B sup|ψ| for every kernel and for labels and features of any size. Hence Δ² = 4 B² sup|ψ|² + 2v²
    (theorem 2).
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
        """One number per coordinate, and one bin more than there are edges."""
        return len(self.coef) + len(self.edges) + 1

    @property
    def sensitivity(self) -> float:
        return math.hypot(2.0 * self.loss.bound * self.length * SLACK, math.sqrt(2.0) * self.counts_weight)

    @property
    def largest(self) -> float:
        return math.hypot(self.loss.bound * self.length * SLACK, self.counts_weight)

    def sum_mapped(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        # ωWz/r is B·Wz/|Wz|. Dividing by |Wz| itself bounds every contribution, whatever z, W, B and L are.
        directions = z * self.weights
        lengths = np.sqrt(np.einsum("ij,ij->i", directions, directions))
        lost = ~(np.isfinite(lengths) & (lengths >= SHORTEST))
        z, directions = _zero_rows(z, lost), _zero_rows(directions, lost)
        lengths = np.where(lost, 1.0, lengths)
        # An infinite residual counts as the largest finite one, so that every contribution is finite.
        u = np.nan_to_num(y - z @ self.coef)
        r = np.minimum(lengths, self.longest) / self.length
        push = self.length * _bounded_derivative(self.loss, u * r) / lengths
        bins = _count_in_bins(np.abs(u), self.edges)
        return np.concatenate([push @ directions, self.counts_weight * bins])

    def simulate_mean(self, records: Records) -> np.ndarray:
        frame = records.frame
        q, u = frame.moments, records.residuals(self.coef)
        lengths = np.sqrt(frame.squares @ self.weights**2)
        omega = np.minimum(1.0, self.longest / lengths)
        each = np.mean(derivative_slopes(self.loss, np.multiply.outer(omega * lengths / self.length, u)), axis=1)
        seen = float(np.mean(omega * each))
        missing = records.target - self.coef
        # Public second moments differ from those of the records, and a mean over records differs from its expectation.
        spread = float(q @ missing**2) / frame.basis.n_public_ + float(np.mean(u**2)) / records.n
        gradient = q * missing + np.sqrt(q * spread) * records.rng.standard_normal(len(q))
        bins = _count_in_bins(np.abs(u), self.edges) / len(u)
        return np.concatenate([self.weights * seen * gradient, self.counts_weight * bins])


@dataclass(frozen=True)
class Calibration(FunctionQuestion):
    """Σ ψ(ru)/r (1, g) of one function f: u = y - f(x), g = (f(x) - m)/s, r = |(1, g)|/B; Δ = 2B sup|ψ| (theorem 5)."""

    coef: np.ndarray  #: f = aᵀz
    middle: float  #: m
    spread: float  #: s
    loss: Loss
    length: float  #: B

    @property
    def size(self) -> int:
        """One number for the level of the function and one for its scale."""
        return 2

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.largest

    @property
    def largest(self) -> float:
        return self.loss.bound * self.length * SLACK

    def sum_mapped(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        f = np.nan_to_num(_zero_endless_rows(z) @ self.coef)
        g = np.nan_to_num((f - self.middle) / self.spread)
        h = np.hypot(1.0, g)
        # Dividing (1, g) by h first avoids multiplying the rounding error of a tiny number by a huge one.
        push = self.length * _bounded_derivative(self.loss, (y - f) * (h / self.length))
        return np.asarray([push @ (1.0 / h), push @ (g / h)])

    def simulate_mean(self, records: Records) -> np.ndarray:
        direction = records.frame.moments * self.coef / self.spread
        missing = records.target - self.coef
        g = records.frame.rows[:, 1:] @ self.coef[1:] / self.spread
        r = np.hypot(1.0, g) / self.length
        each = np.mean(derivative_slopes(self.loss, np.multiply.outer(r, records.residuals(self.coef))), axis=1)
        return np.asarray([np.mean(each) * missing[0], np.mean(each * g**2) * float(direction[1:] @ missing[1:])])


@dataclass(frozen=True)
class ClippedErrors(FunctionQuestion):
    """Σ min(u², L²)/L² for each of K functions: a record moves each by at most one, so Δ = √K (theorem 4)."""

    coefs: np.ndarray  #: (M+1, K)
    limit: float  #: L

    @property
    def size(self) -> int:
        """One number per function."""
        return int(self.coefs.shape[1])

    @property
    def sensitivity(self) -> float:
        return math.sqrt(self.size)

    @property
    def largest(self) -> float:
        return math.sqrt(self.size)

    def sum_mapped(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        u = np.nan_to_num(y[:, None] - _zero_endless_rows(z) @ self.coefs)
        return np.asarray(np.sum(np.minimum(np.abs(u) / self.limit, 1.0) ** 2, axis=0))

    def simulate_mean(self, records: Records) -> np.ndarray:
        means = [np.mean(np.minimum(np.abs(records.residuals(coef)) / self.limit, 1.0) ** 2) for coef in self.coefs.T]
        return np.asarray(means)


@dataclass(frozen=True)
class InputCounts(RowQuestion):
    """The number of values of each input in each bin: d histograms of the same records, so Δ = √(2d) (theorem 3)."""

    edges: np.ndarray  #: (d, k)

    @property
    def size(self) -> int:
        """The number of bins of all inputs together."""
        return int(self.edges.shape[0] * (self.edges.shape[1] + 1))

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2.0 * self.edges.shape[0])

    @property
    def largest(self) -> float:
        return math.sqrt(self.edges.shape[0])

    def sum_rows(self, rows: Rows, label_bound: float) -> np.ndarray:
        X = np.asarray(to_numpy(rows.X), dtype=np.float64)
        return np.concatenate([_count_in_bins(X[:, j], edges) for j, edges in enumerate(self.edges)])


class UnmappedRows:
    """A stand-in for a basis, for questions that need no features."""

    rows_at_once = 1024


def _clipped_labels(rows: Rows, label_bound: float) -> np.ndarray:
    return np.clip(np.asarray(to_numpy(rows.Y), dtype=np.float64)[:, 0], -label_bound, label_bound)


def _zero_endless_rows(z: np.ndarray) -> np.ndarray:
    """Replace rows of infinite length, which an unbounded kernel can give far away, by zeros."""
    return _zero_rows(z, ~np.isfinite(np.sum(z * z, axis=1)))


def _zero_rows(rows: np.ndarray, lost: np.ndarray) -> np.ndarray:
    return np.where(lost[:, None], 0.0, rows) if lost.any() else rows


def _bounded_derivative(loss: Loss, u: np.ndarray) -> np.ndarray:
    """Return ψ(u), at most sup|ψ|; it is zero where u is not a number."""
    return np.clip(np.nan_to_num(loss.derivative(np.nan_to_num(u))), -loss.bound, loss.bound)


def _count_in_bins(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the number of values in each of (-∞, e_1), [e_1, e_2), …, [e_k, ∞)."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1).astype(np.float64)
