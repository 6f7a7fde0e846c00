"""How far one record can move a summary: weights for its sums, and their joint sensitivity (docs/privacy/summaries.md).

The released vector holds every sum times its weight. One number then says how far a record moves all of them, one noise
goes on all of them, and dividing by the weights gives the sums back. A larger weight makes its sum more accurate at the
cost of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._base.checks import check_positive, check_whole
from .noise import GridGaussian, plan, triangle_weights

# How far computed sums may be off, as a share of their largest size: within a block they are plain products, of at most
# 2^16 rows, each of which may lose 2^-53; blocks are added in twice that precision.
ROUNDING = 2.0**-36
ROOM = 1e-9  # what rounding may add to a length that rows were brought to, as a share of it


def bound_of(kernel: Any, moved: str, advice: str) -> float:
    """Return κ, beyond which no feature of a record reaches; a ValueError where the kernel has none.

    Parameters
    ----------
    kernel : a kernel whose parameters are numbers
    moved : whatever a record could move by any amount
    advice : a remedy, as the end of the sentence
    """
    kappa = float(kernel.kappa())
    if not 0 < kappa < math.inf:
        raise ValueError(
            f"the kernel {type(kernel).__name__} has no bound, so one record could move {moved} by any amount: {advice}"
        )
    return kappa


def first_order(kappa: float, label_bound: float) -> float:
    """Δ of Σyφ alone: 2cκ. With c = sup|ψ| it is that of a round of residuals, Σψ(y - f(x))φ.

    Parameters
    ----------
    kappa : κ, a bound on |φ(x)|
    label_bound : c, a bound on |y|
    """
    return 2.0 * check_positive("label_bound", label_bound) * check_positive("kappa", kappa)


def centered_kappa(kappa: float, nonnegative: bool) -> float:
    """A bound on the features of a centred kernel: 2κ, and √2·κ where K(x, z) ≥ 0 for all x and z.

    Parameters
    ----------
    kappa : κ of the kernel
    nonnegative : whether K(x, z) ≥ 0
    """
    return (math.sqrt(2.0) if nonnegative else 2.0) * check_positive("kappa", kappa)


@dataclass(frozen=True)
class Released:
    """The sums of a summary of n records that are released together, with |φ(x)| ≤ κ and |y| ≤ c.

    Σyφ has weight one at first order. The weight of means, τ, is that of Σφ and Σy: at first order they cost a factor
    √(1+τ²) in all the noise and get 1/τ times as much of it, in units of their own size. Σy² is free. At second order
    the weight of labels, ω, is how much of the noise is kept from Σyφ: ω = κ/c treats y like one more feature.

    Attributes
    ----------
    n_features : M
    kappa, label_bound : κ and c; c is sup|ψ| for a round of residuals
    order : 1, or 2 with Σφφᵀ
    means : τ ≥ 0, at most 1 at first order; 0 leaves Σφ and Σy out
    labels : ω·c/κ at second order
    squares : whether Σy² is released
    """

    n_features: int
    kappa: float
    label_bound: float
    order: int = 1
    means: float = 0.0
    labels: float = 1.0
    squares: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_features", check_whole("n_features", self.n_features))
        for name in ("kappa", "label_bound", "labels"):
            object.__setattr__(self, name, check_positive(name, getattr(self, name)))
        object.__setattr__(self, "means", check_positive("means", self.means, zero=True))
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {self.order!r}")
        if self.order == 1 and self.means > 1:
            raise ValueError(f"means must be at most 1 at first order, got {self.means:g}")

    @cached_property
    def _letters(self) -> tuple[float, float, float, float, float]:
        """(w, t, s, f, R²): the weights of Σyφ, Σφ, Σy, Σy², and R² = κ² + ω²c² + τ²κ² of theorem 3."""
        kappa, c, tau = self.kappa, self.label_bound, self.means
        if self.order == 1:
            return 1.0, tau * c, tau * kappa, math.sqrt(2.0) * kappa / c, math.nan
        omega, one = self.labels * kappa / c, tau * kappa
        R_sq = kappa**2 + (omega * c) ** 2 + one**2
        root2 = math.sqrt(2.0)
        return root2 * omega, root2 * one, root2 * omega * one, root2 * omega * math.sqrt(R_sq) / c, R_sq

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The weight of every number, by the name that the sum has in a summary, in the order in which they go."""
        w, t, s, f, _ = self._letters
        M = self.n_features
        found = {"phi_y": np.full(M, w)}
        if self.means:
            found |= {"phi": np.full(M, t), "y": np.full(1, s)}
        if self.squares:
            found["yy"] = np.full(1, f)
        if self.order == 2:
            found["gram"] = triangle_weights(M)
        return found

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return sum(len(weights) for weights in self.weights.values())

    @property
    def sensitivity(self) -> float:
        """Δ of the weighted sums together: theorem 2 at first order, theorem 3 at second."""
        if self.order == 1:
            return 2.0 * self.label_bound * self.kappa * math.hypot(1.0, self.means)
        return math.sqrt(2.0) * self._letters[4]

    @property
    def largest(self) -> float:
        """A bound on the ℓ2 norm of what one record adds."""
        w, t, s, f, _ = self._letters
        kappa, c = self.kappa, self.label_bound
        parts = [w * c * kappa]
        parts += [t * kappa, s * c] if self.means else []
        parts += [f * c**2] if self.squares else []
        parts += [kappa**2] if self.order == 2 else []
        return math.hypot(*parts)

    def plan(
        self, n: int, mu: float, *, inexact: float | None = None, parties: int = 1, missing: int = 0
    ) -> GridGaussian:
        """The noise with which the sums over n records cost μ; the rest as in :func:`unpooled.privacy.plan`.

        ``inexact`` None is right for sums of blocks of up to 2^16 rows that are added as those of a summary are.
        """
        total = check_whole("n", n) * self.largest
        inexact = ROUNDING * total if inexact is None else inexact
        return plan(self.size, self.sensitivity, mu, total, inexact=inexact, parties=parties, missing=missing)

    def pack(self, sums: dict[str, np.ndarray]) -> np.ndarray:
        """The weighted sums as one vector; ``gram`` is the lower triangle, row after row."""
        parts = []
        for name, weights in self.weights.items():
            values = np.asarray(sums[name], dtype=np.float64).ravel()
            if values.shape != weights.shape:
                raise ValueError(f"the sum {name} must be {len(weights)} numbers, got {len(values)}")
            parts.append(values * weights)
        return np.concatenate(parts)

    def unpack(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """The sums in a vector of :meth:`pack`, noise and all."""
        ends = np.cumsum([len(weights) for weights in self.weights.values()])
        parts = np.split(np.asarray(vector), ends[:-1])
        return {name: part / weights for (name, weights), part in zip(self.weights.items(), parts)}
