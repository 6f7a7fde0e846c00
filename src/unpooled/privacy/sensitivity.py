"""The influence of one record on a summary: weights for its sums, and the joint sensitivity of the weighted sums.

The proofs are in docs/privacy/summaries.md. The released vector holds every sum times its weight, so that one
sensitivity bounds the influence of a record on all sums together and noise of one standard deviation is added to every
entry. Dividing by the weights gives the sums back. A larger weight makes its sum more accurate at the cost of the
others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._base.checks import check_positive, check_whole
from .noise import GridGaussian, calibrate_noise, triangle_weights

# The largest relative error of computed sums. Within a block they are plain products of at most 2^16 rows, each of
# which may lose 2^-53; blocks are added in twice that precision.
ROUNDING = 2.0**-36
PLANNED_ROWS = 2**22  # noise is planned for at least so many rows: it says nothing about n, and all sites agree on it
ROOM = 1e-9  # the largest relative error of a norm to which features were shrunk


def require_kernel_bound(kernel: Any, moved: str, advice: str) -> float:
    """Return κ, the bound of a kernel on the features of any record; raise a ValueError if it has none.

    Parameters
    ----------
    kernel : a kernel whose parameters are numbers
    moved : the object of the error message, which one record could move by any amount
    advice : the end of the error message, which says what to do
    """
    kappa = float(kernel.kappa())
    if not 0 < kappa < math.inf:
        raise ValueError(
            f"the kernel {type(kernel).__name__} has no bound, so one record could move {moved} by any amount: {advice}"
        )
    return kappa


def first_order_sensitivity(kappa: float, label_bound: float) -> float:
    """Return 2cκ, the sensitivity Δ of Σyφ alone; with c = sup|ψ|, that of a round of residuals Σψ(y - f(x))φ.

    Parameters
    ----------
    kappa : κ, a bound on |φ(x)|
    label_bound : c, a bound on |y|
    """
    return 2.0 * check_positive("label_bound", label_bound) * check_positive("kappa", kappa)


def centered_kappa(kappa: float, nonnegative: bool) -> float:
    """Return a bound on the features of a centred kernel: 2κ, or √2·κ if K(x, z) ≥ 0 for all x and z.

    Parameters
    ----------
    kappa : κ of the kernel
    nonnegative : whether K(x, z) ≥ 0
    """
    return (math.sqrt(2.0) if nonnegative else 2.0) * check_positive("kappa", kappa)


@dataclass(frozen=True)
class WeightedSums:
    """The sums of a summary that are released together, each with its weight; |φ(x)| ≤ κ and |y| ≤ c.

    Σyφ has weight one at first order. The weight τ of the means is that of Σφ and Σy. At first order, including them
    raises all the noise by a factor √(1+τ²), and their own noise is 1/τ times as large, in units of their own size.
    Σy² is free. At second order the weight ω of the labels says how far Σyφ is spared from the noise: ω = κ/c treats y
    like one more feature.

    Attributes
    ----------
    n_features : M
    kappa, label_bound : κ and c (for a round of residuals c is sup|ψ|)
    order : 1, or 2 with Σφφᵀ
    means : τ ≥ 0, at most 1 at first order; with 0, Σφ and Σy are not released
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
        """The weights (w, t, s, f) of Σyφ, Σφ, Σy, Σy², and R² = κ² + ω²c² + τ²κ² of theorem 3."""
        kappa, c, tau = self.kappa, self.label_bound, self.means
        if self.order == 1:
            return 1.0, tau * c, tau * kappa, math.sqrt(2.0) * kappa / c, math.nan
        omega, one = self.labels * kappa / c, tau * kappa
        R_sq = kappa**2 + (omega * c) ** 2 + one**2
        root2 = math.sqrt(2.0)
        return root2 * omega, root2 * one, root2 * omega * one, root2 * omega * math.sqrt(R_sq) / c, R_sq

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The weight of every number, by the name of its sum in a summary, in the order of release."""
        w, t, s, f, _ = self._letters
        M = self.n_features
        weights = {"phi_y": np.full(M, w)}
        if self.means:
            weights |= {"phi": np.full(M, t), "y": np.full(1, s)}
        if self.squares:
            weights["yy"] = np.full(1, f)
        if self.order == 2:
            weights["gram"] = triangle_weights(M)
        return weights

    @property
    def size(self) -> int:
        """The number of values that are released."""
        return sum(len(weights) for weights in self.weights.values())

    @property
    def sensitivity(self) -> float:
        """The sensitivity Δ of all weighted sums together: theorem 2 at first order, theorem 3 at second order."""
        if self.order == 1:
            return 2.0 * self.label_bound * self.kappa * math.hypot(1.0, self.means)
        return math.sqrt(2.0) * self._letters[4]

    @property
    def largest(self) -> float:
        """A bound on the ℓ2 norm of the contribution of one record."""
        w, t, s, f, _ = self._letters
        kappa, c = self.kappa, self.label_bound
        parts = [w * c * kappa]
        parts += [t * kappa, s * c] if self.means else []
        parts += [f * c**2] if self.squares else []
        parts += [kappa**2] if self.order == 2 else []
        return math.hypot(*parts)

    def calibrate_noise(
        self, n: int, mu: float, *, inexact: float | None = None, parties: int = 1, missing: int = 0
    ) -> GridGaussian:
        """Return the noise with which the sums over n records cost μ.

        The keyword arguments are those of :func:`unpooled.privacy.calibrate_noise`. The default of ``inexact`` holds
        for sums over blocks of up to 2^16 rows that are added as in a summary.
        """
        total = check_whole("n", n) * self.largest
        inexact = ROUNDING * total if inexact is None else inexact
        return calibrate_noise(
            self.size, self.sensitivity, mu, total, inexact=inexact, parties=parties, missing=missing
        )

    def pack(self, sums: dict[str, np.ndarray]) -> np.ndarray:
        """Return the weighted sums as one vector; ``gram`` is the lower triangle, row by row."""
        parts = []
        for name, weights in self.weights.items():
            values = np.asarray(sums[name], dtype=np.float64).ravel()
            if values.shape != weights.shape:
                raise ValueError(f"the sum {name} must have {len(weights)} numbers, got {len(values)}")
            parts.append(values * weights)
        return np.concatenate(parts)

    def unpack(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """Return the sums in a vector that :meth:`pack` made, including any noise in it."""
        ends = np.cumsum([len(weights) for weights in self.weights.values()])
        parts = np.split(np.asarray(vector), ends[:-1])
        return {name: part / weights for (name, weights), part in zip(self.weights.items(), parts)}
