"""Inputs brought to one scale, as on the public sample: every site maps alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, like


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
