"""Maps of a row to a vector r(x) of functions of it: kernel functions at points, or waves of random frequencies.

A basis is a linear map of such a vector, and so is a fitted function: f(x) = cᵀr(x) + b. A map may first bring its
inputs to the scale that they have on the public sample, so that every site scales its rows alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._base.arrays import Array, like, namespace
from .._base.text import quote
from ..kernels.adapters import Precomputed
from ..kernels.base import Kernel
from ..kernels.specs import check_described, fitted_from_spec, to_spec


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x - shift)/scale, a number of each for a feature."""

    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, U: np.ndarray, weights: np.ndarray | None) -> Scaling:
        """Mean and standard deviation of the public sample; a feature that is constant there is only shifted."""
        shift = np.average(U, axis=0, weights=weights)
        deviation = U - shift
        scale = np.sqrt(np.average(deviation * deviation, axis=0, weights=weights))
        # What rounding leaves of a constant is no spread.
        constant = scale <= 8 * np.finfo(float).eps * np.max(np.abs(U), axis=0)
        return cls(shift, np.where(constant, 1.0, scale))

    def apply(self, X: Array) -> Array:
        """The rows on that scale."""
        return (X - like(self.shift, X)) / like(self.scale, X)


class RowMap(ABC):
    """r: ℝ^d → ℝ^m."""

    kernel: Kernel
    scaling: Scaling | None

    @property
    @abstractmethod
    def size(self) -> int:
        """m."""

    @property
    @abstractmethod
    def n_features_in(self) -> int:
        """d."""

    @abstractmethod
    def block(self, X: Array) -> Array:
        """r(x_i) for the rows of X, as one block: a fresh array the caller may overwrite."""

    @abstractmethod
    def magnitude(self, kappa_sq: float) -> float:
        """sup |r_j(x)|."""

    @abstractmethod
    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays of a file."""

    def scaled(self, X: Array) -> Array:
        """The rows as the kernel sees them."""
        return X if self.scaling is None else self.scaling.apply(X)

    def _scaling_parts(self) -> dict[str, np.ndarray]:
        return {} if self.scaling is None else {"shift": self.scaling.shift, "scale": self.scaling.scale}


@dataclass(frozen=True)
class KernelMap(RowMap):
    """r(x) = (K(x, z_1), …, K(x, z_m)); the points are on the scale that the kernel sees."""

    kernel: Kernel
    points: np.ndarray = field(repr=False)
    scaling: Scaling | None = field(repr=False, default=None)

    @property
    def size(self) -> int:
        return len(self.points)

    @property
    def n_features_in(self) -> int:
        return int(self.points.shape[1])

    def block(self, X: Array) -> Array:
        X = self.scaled(X)
        return self.kernel.block(X, like(self.points, X))

    def magnitude(self, kappa_sq: float) -> float:
        return kappa_sq

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"map": "kernel", "kernel": to_spec(self.kernel)}, {"points": self.points, **self._scaling_parts()}


@dataclass(frozen=True)
class WaveMap(RowMap):
    """r(x) = κ/√h · (cos w_1ᵀx, …, cos w_hᵀx, sin w_1ᵀx, …): |r(x)|² = κ² for every x.

    Cosine and sine in pairs need no random phase, approximate the kernel with less variance than one cosine with a
    phase, and have the norm of the kernel's own features (the single cosine of paper 004 can reach √2 times that).
    An odd number of functions leaves the last sine out.
    """

    kernel: Kernel
    frequencies: np.ndarray = field(repr=False)  #: (h, d)
    odd: bool = False
    scaling: Scaling | None = field(repr=False, default=None)

    @property
    def size(self) -> int:
        return 2 * len(self.frequencies) - self.odd

    @property
    def n_features_in(self) -> int:
        return int(self.frequencies.shape[1])

    def block(self, X: Array) -> Array:
        X = self.scaled(X)
        xp, h = namespace(X), len(self.frequencies)
        angles = X @ like(self.frequencies, X).T
        waves = xp.concat([xp.cos(angles), xp.sin(angles[:, : h - self.odd])], axis=1)
        waves *= self.kernel.kappa() / math.sqrt(h)
        return waves

    @property
    def kappa_sq(self) -> float:
        """sup |r(x)|²: that of the kernel, since cos² + sin² = 1."""
        return float(self.kernel.kappa()) ** 2

    def magnitude(self, kappa_sq: float) -> float:
        return math.sqrt(kappa_sq / len(self.frequencies))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header = {"map": "waves", "kernel": to_spec(self.kernel), "odd": self.odd}
        return header, {"frequencies": self.frequencies, **self._scaling_parts()}


@dataclass(frozen=True)
class CosineMap(RowMap):
    """r(x) = κ √(2/m) (cos(w_jᵀx + b_j))_j, with a phase for each wave in the place of its sine (paper 004)."""

    kernel: Kernel
    frequencies: np.ndarray = field(repr=False)  #: (m, d)
    phases: np.ndarray = field(repr=False)  #: (m,)
    scaling: Scaling | None = field(repr=False, default=None)

    @property
    def size(self) -> int:
        return len(self.frequencies)

    @property
    def n_features_in(self) -> int:
        return int(self.frequencies.shape[1])

    def block(self, X: Array) -> Array:
        X = self.scaled(X)
        angles = X @ like(self.frequencies, X).T
        angles += like(self.phases, X)
        waves = namespace(X).cos(angles)
        waves *= math.sqrt(self.kappa_sq / self.size)
        return waves

    @property
    def kappa_sq(self) -> float:
        """sup |r(x)|²: twice that of the kernel, for all cosines may be one at once."""
        return 2.0 * float(self.kernel.kappa()) ** 2

    def magnitude(self, kappa_sq: float) -> float:
        return math.sqrt(kappa_sq / self.size)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header = {"map": "cosines", "kernel": to_spec(self.kernel)}
        return header, {"frequencies": self.frequencies, "phases": self.phases, **self._scaling_parts()}


def from_parts(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> RowMap:
    """The map in a file; a ValueError says what does not fit together."""
    kind = header.get("map")
    name = {"kernel": "points", "waves": "frequencies", "cosines": "frequencies"}.get(str(kind))
    if name is None:
        raise ValueError(f"it has a map of the unknown kind {quote(kind)}")
    rows = finite(name, arrays, ndim=2)
    if not rows.size:
        raise ValueError(f"the array {name} is empty")
    kernel = fitted_from_spec(header.get("kernel")).resolve(rows)
    check_described(kernel, header.get("kernel"))
    if isinstance(kernel, Precomputed) or not np.all(np.isfinite(kernel.block(rows[:1], rows[:1]))):
        raise ValueError("its kernel has no values at its own points")
    scaling = None
    if "shift" in arrays or "scale" in arrays:
        scaling = Scaling(finite("shift", arrays, ndim=1), finite("scale", arrays, ndim=1))
        if not (scaling.shift.shape == scaling.scale.shape == rows.shape[1:] and np.all(scaling.scale > 0)):
            raise ValueError("the arrays shift and scale do not go with the features")
    if name == "points":
        return KernelMap(kernel, rows, scaling)
    if not math.isfinite(kernel.kappa()):
        raise ValueError("random waves stand for a stationary kernel, and the file names another")
    if kind == "cosines":
        phases = finite("phases", arrays, ndim=1)
        if phases.shape != rows.shape[:1]:
            raise ValueError("the array phases does not go with the frequencies")
        return CosineMap(kernel, rows, phases, scaling)
    if type(odd := header.get("odd")) is not bool:
        raise ValueError(f"it must say whether the last sine is left out, got {quote(odd)}")
    return WaveMap(kernel, rows, odd, scaling)


def finite(name: str, arrays: dict[str, np.ndarray], ndim: int) -> np.ndarray:
    """An array of a file: there, of double precision, of that many dimensions, all finite."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"the array {name} is missing")
    if array.dtype != np.float64 or array.ndim != ndim or not np.all(np.isfinite(array)):
        raise ValueError(f"the array {name} must hold finite numbers of double precision in {ndim} dimension(s)")
    return array
