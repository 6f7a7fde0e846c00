"""Losses of a residual u = f(x) - y, scaled so that each is u²/2 near zero (Xie, Hu, Wang and Wang 2022, and others).

A loss computes its value, its derivative ψ, and sup|ψ|, which bounds the influence of one label. These are pure
functions of arrays of any array-API library. ``scale`` may be an array that broadcasts against u, so that many scales
are tried in one pass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ._base.arrays import Array, is_foreign, namespace
from ._base.kinds import Kind, from_header
from ._base.text import quote

__all__ = ["Correntropy", "Huber", "Loss", "Squared", "as_loss"]


class Loss(BaseEstimator, ABC):
    """A loss with ψ(0) = 0 and ψ' ≤ 1 everywhere, so that a unit gradient step is stable."""

    #: True if the loss compares the residual with a scale
    has_scale = False

    @abstractmethod
    def value(self, u: Array) -> Array:
        """Compute the loss of each residual."""

    @abstractmethod
    def derivative(self, u: Array) -> Array:
        """Compute ψ(u)."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """The largest |ψ|."""

    def weight(self, u: Array) -> Array:
        """Compute ω(u) = ψ(u)/u, and 1 at zero: the weight with which least squares would give the same derivative."""
        xp = namespace(u)
        return xp.where(u != 0, self.derivative(u) / xp.where(u != 0, u, 1.0 + u), 1.0 + u)

    def at(self, scale: Any) -> Loss:
        """Return this loss with another scale, a number or an array; a loss without a scale returns itself."""
        return type(self)(scale) if self.has_scale else self


class Squared(Loss):
    """Least squares, u²/2 with ψ(u) = u. The influence of one label is unbounded."""

    def value(self, u: Array) -> Array:
        return 0.5 * u * u

    def derivative(self, u: Array) -> Array:
        return u

    def weight(self, u: Array) -> Array:
        return 1.0 + 0.0 * u

    @property
    def bound(self) -> float:
        return math.inf


class _ScaledLoss(Loss):
    """A loss that compares the residual with ``scale``; an infinite scale is least squares."""

    has_scale = True

    def __init__(self, scale: float | Any = 1.0) -> None:
        self.scale = scale

    def _check_scale(self) -> Any:
        """Check and return the scale; an array of another library is not checked, since that may cost a transfer."""
        if is_foreign(self.scale):
            return self.scale
        try:
            values = np.asarray(self.scale)
            usable = values.dtype.kind in "iuf" and values.size > 0 and bool(np.all(values > 0))
        except (TypeError, ValueError):
            usable = False
        if not usable:
            raise ValueError(f"scale must be a positive number, got {quote(self.scale)}")
        return values if values.ndim else float(values)


class Correntropy(_ScaledLoss):
    """The correntropy loss σ²(1 - exp(-u²/(2σ²))), ψ(u) = u·exp(-u²/(2σ²)), gives gross outliers almost no influence.

    It is (2) of Xie, Hu, Wang and Wang (2022), and also known as the Welsch loss. sup|ψ| = σ/√e is attained at |u| = σ,
    whatever the labels are. σ → ∞ is least squares.

    Parameters
    ----------
    scale : float or array of floats
        σ > 0; infinity is least squares.
    """

    def value(self, u: Array) -> Array:
        xp, s = namespace(u), self._check_scale()
        with np.errstate(over="ignore"):
            half = 0.5 * (u / s) ** 2
        # u²/2 · (1 - e^{-h})/h with h = u²/(2σ²), so that no σ² overflows and the value is u²/2 where h vanishes.
        return 0.5 * u * u * xp.where(half > 0, -xp.expm1(-half) / xp.where(half > 0, half, 1.0 + half), 1.0 + half)

    def derivative(self, u: Array) -> Array:
        return u * self.weight(u)

    def weight(self, u: Array) -> Array:
        with np.errstate(over="ignore"):  # a residual may be any number of scales
            return namespace(u).exp(-0.5 * (u / self._check_scale()) ** 2)

    @property
    def bound(self) -> float:
        return float(np.max(self._check_scale())) / math.sqrt(math.e)


class Huber(_ScaledLoss):
    """The Huber loss u²/2 for |u| ≤ c and c|u| - c²/2 beyond; ψ clips u to [-c, c]. It is convex, and sup|ψ| = c.

    Parameters
    ----------
    scale : float or array of floats
        c > 0; infinity is least squares.
    """

    def value(self, u: Array) -> Array:
        psi = self.derivative(u)
        return psi * u - 0.5 * psi * psi  # c|u| - c²/2 outside, u²/2 inside

    def derivative(self, u: Array) -> Array:
        xp = namespace(u)
        c = self._check_scale()
        inside = xp.abs(u) <= c
        # ∞·sign(0) would be NaN: keep an infinite scale out of the branch that is not used.
        return xp.where(inside, u, xp.sign(u) * xp.where(inside, 0.0 * u, 0.0 * u + c))

    @property
    def bound(self) -> float:
        return float(np.max(self._check_scale()))


_BY_NAME: dict[str, type[Loss]] = {"squared": Squared, "correntropy": Correntropy, "huber": Huber}


def as_loss(loss: Any, scale: Any = None) -> Loss:
    """Return the :class:`Loss` of a name with the given scale, or a loss itself.

    Parameters
    ----------
    loss : a Loss, or "squared", "correntropy" or "huber"
    scale : the scale of a loss that is given by its name and has one; None is 1
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _BY_NAME:
        cls = _BY_NAME[loss]
        return cls() if scale is None else cls().at(scale)
    names = ", ".join(repr(name) for name in _BY_NAME)
    raise ValueError(f"loss must be {names} or a Loss object, got {quote(loss)}")


def to_spec(loss: Loss) -> dict[str, Any]:
    """Describe a loss of this module by a JSON-ready dictionary; an infinite scale is written as -1."""
    for name, cls in _BY_NAME.items():
        if type(loss) is cls:
            if not loss.has_scale:
                return {"loss": name}
            scale = np.asarray(loss.scale, dtype=float)
            return {"loss": name, "scale": np.where(np.isfinite(scale), scale, -1.0).tolist()}
    raise ValueError(f"a model with the loss {type(loss).__name__} cannot be saved: use one of unpooled's own losses")


def from_spec(spec: Any) -> Loss:
    """Make the loss that :func:`to_spec` described."""
    name = spec.get("loss") if isinstance(spec, dict) else None
    if not (isinstance(name, str) and name in _BY_NAME):
        raise ValueError(f"{quote(spec)} does not describe a loss of this version of unpooled")
    loss = _BY_NAME[name]()
    if not loss.has_scale:
        return loss
    scale = np.asarray(spec.get("scale"), dtype=float)
    scale = np.where(scale < 0, math.inf, scale)
    return loss.at(scale if scale.ndim else float(scale))


class LossKind(Kind):
    """The kind of a parameter that is a loss or its name."""

    words = "the name of a loss, or a Loss object"

    def check(self, name: str, value: Any) -> None:
        if not as_loss(value).bound > 0:  # computing the bound also checks the scale
            raise ValueError(f"{name} must have a positive bound, got {quote(value)}")

    def to_plain(self, value: Any) -> Any:
        return to_spec(value) if isinstance(value, Loss) else value

    def from_plain(self, written: Any) -> Any:
        return from_header(written, from_spec, to_spec) if isinstance(written, dict) else written
