"""Gaussian noise with a proof: OpenDP's exact discrete Gaussian on a grid, and its cost.

OpenDP comes with the extra ``privacy`` and is imported only when noise is drawn; everything else works without it.

Values are rounded to multiples of g, a public power of two, and so become whole numbers. Each then gets an exact sample
of the discrete Gaussian of scale s on the whole numbers, P(k) ∝ exp(-k²/(2s²)). No floating-point number is drawn, so
attacks on floating-point noise do not apply, and there is no seed. The cost is that of the continuous mechanism with

    μ = ((Δ + 2a)/g + √M) / √(s² - 9)

for M values of joint sensitivity Δ that are computed to within a. Rounding moves each value by at most half a unit,
both before and after a record is replaced, and the discrete Gaussian is a randomised rounding of a continuous Gaussian
whose variance is smaller by 9 (docs/privacy/gaussian.md, theorem 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from .._base.checks import check_positive, check_whole
from .gaussian import Gaussian


def load_opendp() -> Any:
    """Import ``opendp.prelude`` and enable the mechanisms, with proofs, that OpenDP calls "contrib"."""
    try:
        dp: Any = import_module("opendp.prelude")
    except ImportError:
        raise ImportError(
            "OpenDP, which draws the privacy noise, is not installed: pip install 'unpooled[privacy]'"
        ) from None
    dp.enable_features("contrib")  # OpenDP only has a switch for the whole process
    return dp


_SMOOTHING = 9.0  # r², where r = 3 is the width of the randomised rounding in theorem 5
_LEAST_SCALE = 2.0**10  # the smallest scale of one party's noise, in units of the grid
LARGEST_WHOLE = 2.0**61  # larger whole numbers with their noise would not fit into 64 bits
_GRID_SHARE = 2.0**-17  # the share of the sensitivity that rounding to the grid may add to it


@dataclass(frozen=True)
class GridGaussian:
    """The noise for a release of ``size`` numbers; all of it is public. Make one with :func:`calibrate_noise`.

    Attributes
    ----------
    size : the number of values
    sensitivity : Δ, the furthest that one record can move them, in ℓ2 norm and exact arithmetic
    grid : g, a power of two
    scale : s, in units of the grid: the scale of the noise of all parties except those that may be missing
    bound : values outside ±bound are clipped to it, which moves no two of them further apart
    inexact : a, the largest error of the computed values, in ℓ2 norm
    parties : the number of parties that each add a share of the noise
    missing : the number of shares that may be missing, or known to an attacker, while the cost still holds
    """

    size: int
    sensitivity: float
    grid: float
    scale: float
    bound: float
    inexact: float = 0.0
    parties: int = 1
    missing: int = 0

    def __post_init__(self) -> None:
        for name in ("sensitivity", "grid", "scale", "bound"):
            object.__setattr__(self, name, check_positive(name, getattr(self, name)))
        object.__setattr__(self, "inexact", check_positive("inexact", self.inexact, zero=True))
        for name, least in (("size", 1), ("parties", 1), ("missing", 0)):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), least))
        if self.missing >= self.parties:
            raise ValueError(f"missing must be less than the {self.parties} parties, got {self.missing}")
        if math.frexp(self.grid)[0] != 0.5:
            raise ValueError(f"grid must be a power of two, got {self.grid!r}")
        if self.own_scale < _LEAST_SCALE:
            raise ValueError(
                f"grid {self.grid:g} is too coarse for noise of {self.own_sigma:g} per party: "
                f"choose a grid at least {_LEAST_SCALE:.0f} times smaller than the noise"
            )
        if not self.bound / self.grid + 64 * self.scale < LARGEST_WHOLE:
            raise ValueError(
                f"numbers up to {self.bound:g} with noise of {self.sigma:g} on a grid of {self.grid:g} do not fit "
                "into 64 bits: give a smaller bound, or change the unit of the numbers"
            )

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise when all parties have added their shares, in units of the numbers."""
        return self.grid * self.scale * math.sqrt(self.parties / (self.parties - self.missing))

    @property
    def own_scale(self) -> float:
        """The scale of the noise of one party, in units of the grid."""
        return self.scale / math.sqrt(self.parties - self.missing)

    @property
    def own_sigma(self) -> float:
        """The standard deviation of the noise of one party, in units of the numbers."""
        return self.grid * self.own_scale

    @property
    def mu(self) -> float:
        """The cost of the release, as the μ of a Gaussian event."""
        units = (self.sensitivity + 2 * self.inexact) / self.grid + math.sqrt(self.size)
        return units / math.sqrt(self.scale**2 - _SMOOTHING)

    @property
    def event(self) -> Gaussian:
        """The cost of the release, as an event for a ledger."""
        return Gaussian(self.mu)

    def add(self, values: Any) -> np.ndarray:
        """Add this party's noise to the values; the result is an array of the same shape of multiples of the grid."""
        values = np.asarray(values, dtype=np.float64)
        if values.size != self.size:
            raise ValueError(
                f"values must be the {self.size} numbers that the noise was calibrated for, got an array of shape "
                f"{values.shape}"
            )
        if not np.all(np.isfinite(values)):
            raise ValueError("values must be finite: no sensitivity bound holds for infinite values or NaN")
        # Both steps are exact: a division by a power of two, and the rounding of numbers far below 2^53 or whole.
        units = np.rint(np.clip(values, -self.bound, self.bound) / self.grid).astype(np.int64)
        return (_add_discrete_gaussian(units.ravel(), self.own_scale).astype(np.float64) * self.grid).reshape(
            values.shape
        )

    def add_symmetric(self, matrix: Any) -> np.ndarray:
        """Add symmetric noise to a symmetric matrix: the noise of one triangle is mirrored.

        The sensitivity is in the Frobenius norm, and ``size`` is n(n+1)/2. The noise has standard deviation σ on the
        diagonal and σ/√2 off the diagonal, because the Frobenius norm counts those entries twice.
        """
        matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"matrix must be square, got shape {matrix.shape}")
        rows, columns = np.tril_indices(len(matrix))
        weights = triangle_weights(len(matrix))
        triangle = self.add(matrix[rows, columns] * weights) / weights
        noisy = np.empty_like(matrix)
        noisy[rows, columns] = noisy[columns, rows] = triangle
        return noisy


def triangle_weights(n: int) -> np.ndarray:
    """Return the weights of a lower triangle, row by row, that make its ℓ2 norm the Frobenius norm of the matrix."""
    rows, columns = np.tril_indices(n)
    return np.where(rows == columns, 1.0, math.sqrt(2.0))


def calibrate_noise(
    size: int,
    sensitivity: float,
    mu: float,
    bound: float,
    *,
    inexact: float = 0.0,
    parties: int = 1,
    missing: int = 0,
) -> GridGaussian:
    """Return the smallest noise with which ``size`` numbers of joint sensitivity Δ cost at most μ.

    The grid is chosen so fine that it adds less than two parts in 10⁵ to the noise.

    Parameters
    ----------
    size : the number of values
    sensitivity : Δ, in ℓ2 norm over all of them
    mu : the cost of the release, as the μ of a Gaussian event
    bound : a public bound on the size of each value
    inexact, parties, missing : as in :class:`GridGaussian`
    """
    size, sensitivity, mu = (
        check_whole("size", size),
        check_positive("sensitivity", sensitivity),
        check_positive("mu", mu),
    )
    parties, missing = check_whole("parties", parties), check_whole("missing", missing, 0)
    inexact = check_positive("inexact", inexact, zero=True)
    reach = sensitivity + 2 * inexact
    coarsest = min(
        _GRID_SHARE * reach / math.sqrt(size),
        reach / mu / _LEAST_SCALE / math.sqrt(max(parties - missing, 1)) / 2,  # so that every party's noise is wide
    )
    exponent = math.frexp(coarsest)[1] - 1
    if not -900 < exponent < 900:
        raise ValueError(f"sensitivity {sensitivity:g} is out of range: change the unit of the numbers")
    grid = math.ldexp(1.0, exponent)
    scale = math.hypot((reach / grid + math.sqrt(size)) / mu, math.sqrt(_SMOOTHING)) * (1 + 1e-12)
    return GridGaussian(size, sensitivity, grid, scale, check_positive("bound", bound), inexact, parties, missing)


def draw(size: int, scale: float) -> np.ndarray:
    """Draw exact samples of the discrete Gaussian on the whole numbers, P(k) ∝ exp(-k²/(2·scale²)).

    Parameters
    ----------
    size : the number of samples
    scale : in steps of the grid
    """
    return _add_discrete_gaussian(np.zeros(check_whole("size", size), dtype=np.int64), check_positive("scale", scale))


def _add_discrete_gaussian(units: np.ndarray, scale: float) -> np.ndarray:
    """Add noise to whole numbers in one call to OpenDP, which draws about 10⁵ samples a second at any scale."""
    dp = load_opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return np.asarray(dp.m.make_gaussian(*space, scale=float(scale))(units), dtype=np.int64)
