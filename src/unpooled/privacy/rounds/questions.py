"""Questions that may be asked of private rows, and how far one record moves each answer (docs/privacy/rounds.md).

Every question is a sum over records. It says how many numbers the answer has, its sensitivity, and a bound on what one
record adds, so that its noise is planned without a look at the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...losses import Loss
from ..noise import GridGaussian, opendp, plan
from ..sensitivity import ROOM, ROUNDING

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
