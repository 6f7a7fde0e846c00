"""Maps from a row x to a vector r(x): kernel functions at points, or waves of random frequencies.

A basis is a linear map of such a vector, and so is a fitted function: f(x) = cᵀr(x) + b. A map may first scale its
inputs to mean 0 and standard deviation 1 on the public sample, so that every site scales its rows alike.
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
from ..kernels.specs import check_described, from_fitted_spec, to_spec


@dataclass(frozen=True)
class Scaling:
    """The map x ↦ (x - shift)/scale, with one shift and one scale for each feature."""

    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, U: np.ndarray, weights: np.ndarray | None) -> Scaling:
        """Take mean and standard deviation of the public sample; a feature that is constant there is only shifted."""
        shift = np.average(U, axis=0, weights=weights)
        deviation = U - shift
        scale = np.sqrt(np.average(deviation * deviation, axis=0, weights=weights))
        # The standard deviation of a constant feature is zero up to rounding.
        constant = scale <= 8 * np.finfo(float).eps * np.max(np.abs(U), axis=0)
        return cls(shift, np.where(constant, 1.0, scale))

    def apply(self, X: Array) -> Array:
        """Scale rows."""
        return (X - like(self.shift, X)) / like(self.scale, X)


class RowMap(ABC):
    """A map r: ℝ^d → ℝ^m."""

    kernel: Kernel
    scaling: Scaling | None

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of functions, m."""

    @property
    @abstractmethod
    def n_features_in(self) -> int:
        """Number of inputs, d."""

    @abstractmethod
    def block(self, X: Array) -> Array:
        """Compute r(x_i) for the rows of X as one block: a fresh array that the caller may overwrite."""

    @abstractmethod
    def magnitude(self, kappa_sq: float) -> float:
        """Return a bound on |r_j(x)| over all x and j."""

    @abstractmethod
    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the header and the arrays of a file."""

    def scale_rows(self, X: Array) -> Array:
        """Scale rows to the inputs of the kernel."""
        return X if self.scaling is None else self.scaling.apply(X)

    def _scaling_parts(self) -> dict[str, np.ndarray]:
        return {} if self.scaling is None else {"shift": self.scaling.shift, "scale": self.scaling.scale}


@dataclass(frozen=True)
class KernelMap(RowMap):
    """The map r(x) = (K(x, z_1), …, K(x, z_m)); the points z_j have been scaled already."""

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
        X = self.scale_rows(X)
        return self.kernel.block(X, like(self.points, X))

    def magnitude(self, kappa_sq: float) -> float:
        return kappa_sq

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"map": "kernel", "kernel": to_spec(self.kernel)}, {"points": self.points, **self._scaling_parts()}


@dataclass(frozen=True)
class WaveMap(RowMap):
    """The map r(x) = κ/√h · (cos w_1ᵀx, …, cos w_hᵀx, sin w_1ᵀx, …) with |r(x)|² = κ² for every x.

    Cosine and sine in pairs need no random phase, approximate the kernel with less variance than one cosine with a
    phase, and have the norm of the kernel's own features. (The single cosine of Wang and Guo (2024), Example 2.1, can
    reach √2 times that norm.) An odd number of functions leaves the last sine out.
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
        X = self.scale_rows(X)
        xp, h = namespace(X), len(self.frequencies)
        angles = X @ like(self.frequencies, X).T
        waves = xp.concat([xp.cos(angles), xp.sin(angles[:, : h - self.odd])], axis=1)
        waves *= self.kernel.kappa() / math.sqrt(h)
        return waves

    @property
    def kappa_sq(self) -> float:
        """The bound on |r(x)|², which equals that of the kernel because cos² + sin² = 1."""
        return float(self.kernel.kappa()) ** 2

    def magnitude(self, kappa_sq: float) -> float:
        return math.sqrt(kappa_sq / len(self.frequencies))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header = {"map": "waves", "kernel": to_spec(self.kernel), "odd": self.odd}
        return header, {"frequencies": self.frequencies, **self._scaling_parts()}


@dataclass(frozen=True)
class CosineMap(RowMap):
    """The map r(x) = κ √(2/m) (cos(w_jᵀx + b_j))_j, where each wave has a phase in place of its sine.

    These are the features of Wang and Guo (2024), Example 2.1.
    """

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
        X = self.scale_rows(X)
        angles = X @ like(self.frequencies, X).T
        angles += like(self.phases, X)
        waves = namespace(X).cos(angles)
        waves *= math.sqrt(self.kappa_sq / self.size)
        return waves

    @property
    def kappa_sq(self) -> float:
        """The bound on |r(x)|²: twice that of the kernel, because all cosines may be one at once."""
        return 2.0 * float(self.kernel.kappa()) ** 2

    def magnitude(self, kappa_sq: float) -> float:
        return math.sqrt(kappa_sq / self.size)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header = {"map": "cosines", "kernel": to_spec(self.kernel)}
        return header, {"frequencies": self.frequencies, "phases": self.phases, **self._scaling_parts()}


def from_parts(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> RowMap:
    """Make the map that a file describes; a ValueError says which entries do not fit together."""
    kind = header.get("map")
    name = {"kernel": "points", "waves": "frequencies", "cosines": "frequencies"}.get(str(kind))
    if name is None:
        raise ValueError(f"its map is of the unknown kind {quote(kind)}")
    rows = read_array(name, arrays, ndim=2)
    if not rows.size:
        raise ValueError(f"the array {name} is empty")
    kernel = from_fitted_spec(header.get("kernel")).resolve(rows)
    check_described(kernel, header.get("kernel"))
    if isinstance(kernel, Precomputed) or not np.all(np.isfinite(kernel.block(rows[:1], rows[:1]))):
        raise ValueError("its kernel has no values at its own points")
    scaling = None
    if "shift" in arrays or "scale" in arrays:
        scaling = Scaling(read_array("shift", arrays, ndim=1), read_array("scale", arrays, ndim=1))
        if not (scaling.shift.shape == scaling.scale.shape == rows.shape[1:] and np.all(scaling.scale > 0)):
            raise ValueError(
                "the arrays shift and scale do not have one number for each feature, or scale is not positive"
            )
    if name == "points":
        return KernelMap(kernel, rows, scaling)
    if not math.isfinite(kernel.kappa()):
        raise ValueError("random waves need a stationary kernel, and the kernel in the file is not one")
    if kind == "cosines":
        phases = read_array("phases", arrays, ndim=1)
        if phases.shape != rows.shape[:1]:
            raise ValueError("the array phases does not have one number for each frequency")
        return CosineMap(kernel, rows, phases, scaling)
    if type(odd := header.get("odd")) is not bool:
        raise ValueError(f"its entry odd must be true or false, got {quote(odd)}")
    return WaveMap(kernel, rows, odd, scaling)


def read_array(name: str, arrays: dict[str, np.ndarray], ndim: int) -> np.ndarray:
    """Return an array of a file; raise a ValueError unless it has ``ndim`` dimensions of finite double numbers."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"the array {name} is missing")
    if array.dtype != np.float64 or array.ndim != ndim or not np.all(np.isfinite(array)):
        raise ValueError(f"the array {name} must hold finite numbers of double precision in {ndim} dimension(s)")
    return array
