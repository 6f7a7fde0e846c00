"""Losses of a residual u = f(x) - y, scaled so that each is u²/2 near zero (paper 003 and its peers).

A loss gives its value, its derivative ψ, and sup|ψ|: how far one label can push. Pure functions of arrays of any
array-API library; ``scale`` may be an array that broadcasts against u, so that many scales are tried in one pass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .arrays import Array, namespace
from .messages import shown


class Loss(BaseEstimator, ABC):
    """A loss with 0 ≤ ψ'(u) ≤ 1 near zero and ψ' ≤ 1 everywhere, so that a unit gradient step is stable."""

    @abstractmethod
    def value(self, u: Array) -> Array:
        """The loss of each residual."""

    @abstractmethod
    def derivative(self, u: Array) -> Array:
        """ψ(u)."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """sup |ψ|."""


class Squared(Loss):
    """u²/2, ψ(u) = u: least squares. One label can push without bound."""

    def value(self, u: Array) -> Array:
        return 0.5 * u * u

    def derivative(self, u: Array) -> Array:
        return u

    @property
    def bound(self) -> float:
        return math.inf


class _Scaled(Loss):
    def __init__(self, scale: float | Any = 1.0) -> None:
        self.scale = scale

    def _s(self) -> Any:
        values = np.asarray(self.scale, dtype=float)
        if not np.all(values > 0):
            raise ValueError(f"scale must be a positive number, got {shown(self.scale)}")
        return self.scale


class Correntropy(_Scaled):
    """φ_σ(u) = σ²(1 - exp(-u²/(2σ²))), ψ(u) = u·exp(-u²/(2σ²)): a gross outlier pushes not at all (paper 003).

    sup|ψ| = σ/√e, at |u| = σ, whatever the labels are. σ → ∞ is least squares. Also called the Welsch loss.
    """

    def value(self, u: Array) -> Array:
        s = self._s()
        return -(s**2) * namespace(u).expm1(-0.5 * (u / s) ** 2)

    def derivative(self, u: Array) -> Array:
        return u * namespace(u).exp(-0.5 * (u / self._s()) ** 2)

    @property
    def bound(self) -> float:
        return float(np.max(self._s())) / math.sqrt(math.e)


class Huber(_Scaled):
    """u²/2 for |u| ≤ c, then c|u| - c²/2; ψ(u) = u clipped to [-c, c]. Convex; sup|ψ| = c."""

    def value(self, u: Array) -> Array:
        psi = self.derivative(u)
        return psi * u - 0.5 * psi * psi  # c|u| - c²/2 outside, u²/2 inside

    def derivative(self, u: Array) -> Array:
        xp = namespace(u)
        c = self._s()
        return xp.where(xp.abs(u) > c, xp.sign(u) * c, u)

    @property
    def bound(self) -> float:
        return float(np.max(self._s()))


_BY_NAME: dict[str, type[Loss]] = {"squared": Squared, "correntropy": Correntropy, "huber": Huber}


def as_loss(loss: Any, scale: Any = None) -> Loss:
    """A :class:`Loss` from itself or its name, with the given scale."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _BY_NAME:
        cls = _BY_NAME[loss]
        return cls() if scale is None or cls is Squared else cls(scale)
    raise ValueError(f"loss must be {', '.join(repr(n) for n in _BY_NAME)} or a Loss object, got {loss!r}")
