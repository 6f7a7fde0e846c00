"""Gaussian noise that can be proved: OpenDP's exact discrete Gaussian on a grid, and what it costs.

OpenDP comes with the extra ``privacy`` and is imported where it is needed: without it everything but noise still works.

Values are rounded to multiples of g, a public power of two, and become whole numbers; each gets an exact sample of the
discrete Gaussian of scale s on the whole numbers, P(k) ∝ exp(-k²/(2s²)). No floating-point number is drawn, so there is
none to attack, and no seed. The price is that of the continuous mechanism with

    μ = ((Δ + 2a)/g + √M) / √(s² - 9)

for M values of joint sensitivity Δ, computed to within a: rounding moves each by at most half a unit, before and after
a record is replaced, and the discrete Gaussian is a randomised rounding of a continuous one whose variance is smaller
by 9 (docs/privacy/gaussian.md, theorem 5). Nothing is taken over from the continuous mechanism without that proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from .._base.checks import check_positive, check_whole
from .gaussian import Gaussian


def opendp() -> Any:
    """``opendp.prelude``, with the proved mechanisms that it calls "contrib" switched on."""
    try:
        dp: Any = import_module("opendp.prelude")
    except ImportError:
        raise ImportError(
            "privacy noise is drawn by OpenDP, which is not installed: pip install 'unpooled[privacy]'"
        ) from None
    dp.enable_features("contrib")  # OpenDP has this switch for the whole process, and no other way to use a mechanism
    return dp


SMOOTHING = 9.0  # r², r = 3 the width of the randomised rounding of theorem 5
LEAST_SCALE = 2.0**10  # of the noise that one party adds, in units of the grid
MOST = 2.0**61  # whole numbers beyond have no room, with the noise, in 64 bits
FINE = 2.0**-17  # what rounding may add to the sensitivity, as a share of it


@dataclass(frozen=True)
class GridGaussian:
    """A planned release of ``size`` numbers: everything in it is public. Make one with :func:`plan`.

    Attributes
    ----------
    size : how many numbers
    sensitivity : Δ, how far one record moves them, in ℓ2 norm, in exact arithmetic
    grid : g, a power of two
    scale : s, in units of the grid, of the noise that the price counts on: of all parties but the missing
    bound : numbers beyond ±bound are moved there; that moves no two further apart
    inexact : a, how far the numbers that are computed may be from the exact ones, in ℓ2 norm
    parties : how many parties add a share of the noise, so that it takes all of them
    missing : how many of these shares may be missing, or known, and the price still holds
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
        if self.own_scale < LEAST_SCALE:
            raise ValueError(
                f"grid {self.grid:g} is too coarse for noise of {self.own_sigma:g} a party: "
                f"take one at least {LEAST_SCALE:.0f} times smaller than the noise"
            )
        if not self.bound / self.grid + 64 * self.scale < MOST:
            raise ValueError(
                f"numbers up to {self.bound:g} with noise of {self.sigma:g} do not fit a grid of {self.grid:g} in "
                "64 bits: give a smaller bound, or bring the numbers to another unit"
            )

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in units of the numbers, where all parties have added theirs."""
        return self.grid * self.scale * math.sqrt(self.parties / (self.parties - self.missing))

    @property
    def own_scale(self) -> float:
        """The scale of the noise of one party, in units of the grid."""
        return self.scale / math.sqrt(self.parties - self.missing)

    @property
    def own_sigma(self) -> float:
        """The same in units of the numbers."""
        return self.grid * self.own_scale

    @property
    def mu(self) -> float:
        """What it costs, as the μ of a Gaussian event."""
        units = (self.sensitivity + 2 * self.inexact) / self.grid + math.sqrt(self.size)
        return units / math.sqrt(self.scale**2 - SMOOTHING)

    @property
    def event(self) -> Gaussian:
        """The same, for a ledger."""
        return Gaussian(self.mu)

    def add(self, values: Any) -> np.ndarray:
        """The values with this party's noise: multiples of the grid, in an array of the same shape."""
        values = np.asarray(values, dtype=np.float64)
        if values.size != self.size:
            raise ValueError(f"values must be {self.size} numbers, as planned, got an array of shape {values.shape}")
        if not np.all(np.isfinite(values)):
            raise ValueError("values must be finite: no sensitivity holds for what is not a number")
        # Exact: division by a power of two, and rounding of what is far below 2^53 or whole already.
        units = np.rint(np.clip(values, -self.bound, self.bound) / self.grid).astype(np.int64)
        return (_with_noise(units.ravel(), self.own_scale).astype(np.float64) * self.grid).reshape(values.shape)

    def add_symmetric(self, matrix: Any) -> np.ndarray:
        """A symmetric matrix with symmetric noise: one triangle is sampled, and mirrored.

        The sensitivity is in Frobenius norm, and ``size`` is n(n+1)/2. The noise has standard deviation σ on the
        diagonal and σ/√2 beside it: the Frobenius norm counts these entries twice.
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
    """What to multiply the lower triangle (row after row) of a symmetric matrix by: its ℓ2 norm is then Frobenius'."""
    rows, columns = np.tril_indices(n)
    return np.where(rows == columns, 1.0, math.sqrt(2.0))


def plan(
    size: int,
    sensitivity: float,
    mu: float,
    bound: float,
    *,
    inexact: float = 0.0,
    parties: int = 1,
    missing: int = 0,
) -> GridGaussian:
    """The least noise with which ``size`` numbers of joint sensitivity Δ cost μ, on a grid that costs next to nothing.

    ``bound`` is a public bound on the numbers; ``inexact``, ``parties`` and ``missing`` are those of
    :class:`GridGaussian`. The grid adds less than two parts in 10⁵ to the noise.

    Parameters
    ----------
    size : how many numbers
    sensitivity : Δ, in ℓ2 norm over all of them
    mu : what they may cost
    bound : on the size of each
    inexact, parties, missing : as in :class:`GridGaussian`
    """
    size, sensitivity, mu = (
        check_whole("size", size),
        check_positive("sensitivity", sensitivity),
        check_positive("mu", mu),
    )
    parties, missing = check_whole("parties", parties), check_whole("missing", missing, 0)
    inexact = check_positive("inexact", inexact, zero=True)
    moved = sensitivity + 2 * inexact
    coarsest = min(
        FINE * moved / math.sqrt(size),
        moved / mu / LEAST_SCALE / math.sqrt(max(parties - missing, 1)) / 2,  # so that every party's noise is wide
    )
    exponent = math.frexp(coarsest)[1] - 1
    if not -900 < exponent < 900:
        raise ValueError(f"sensitivity {sensitivity:g} is out of range: bring the numbers to another unit")
    grid = math.ldexp(1.0, exponent)
    scale = math.hypot((moved / grid + math.sqrt(size)) / mu, math.sqrt(SMOOTHING)) * (1 + 1e-12)
    return GridGaussian(size, sensitivity, grid, scale, check_positive("bound", bound), inexact, parties, missing)


def draw(size: int, scale: float) -> np.ndarray:
    """Exact samples of the discrete Gaussian on the whole numbers, P(k) ∝ exp(-k²/(2·scale²)).

    Parameters
    ----------
    size : how many
    scale : in steps of the grid
    """
    return _with_noise(np.zeros(check_whole("size", size), dtype=np.int64), check_positive("scale", scale))


def _with_noise(units: np.ndarray, scale: float) -> np.ndarray:
    """Whole numbers with noise, all in one call of OpenDP: about 10⁵ a second, whatever the scale."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return np.asarray(dp.m.make_gaussian(*space, scale=float(scale))(units), dtype=np.int64)
