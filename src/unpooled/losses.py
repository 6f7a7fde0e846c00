"""Losses of a residual u = f(x) - y, scaled so that each is u²/2 near zero (Xie, Hu, Wang and Wang 2022, and others).

A loss gives its value, its derivative ψ, and sup|ψ|: how far one label can push. These are pure functions of arrays of
any array-API library. ``scale`` may be an array that broadcasts against u, so that many scales are tried in one pass.
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

    #: True where the residual is compared with a scale
    scaled = False

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

    def weight(self, u: Array) -> Array:
        """ω(u) = ψ(u)/u, and 1 at zero: the weight of a residual, were it squared."""
        xp = namespace(u)
        return xp.where(u != 0, self.derivative(u) / xp.where(u != 0, u, 1.0 + u), 1.0 + u)

    def at(self, scale: Any) -> Loss:
        """The same loss at another scale, a number or an array; itself where it has no scale."""
        return type(self)(scale) if self.scaled else self


class Squared(Loss):
    """u²/2, ψ(u) = u: least squares. One label can push without bound."""

    def value(self, u: Array) -> Array:
        return 0.5 * u * u

    def derivative(self, u: Array) -> Array:
        return u

    def weight(self, u: Array) -> Array:
        return 1.0 + 0.0 * u

    @property
    def bound(self) -> float:
        return math.inf


class _Scaled(Loss):
    """A loss that compares the residual with ``scale``; an infinite scale is least squares."""

    scaled = True

    def __init__(self, scale: float | Any = 1.0) -> None:
        self.scale = scale

    def _s(self) -> Any:
        """The scale, checked; an array of another library is taken as it is: looking at it may cost a transfer."""
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


class Correntropy(_Scaled):
    """φ_σ(u) = σ²(1 - exp(-u²/(2σ²))), ψ(u) = u·exp(-u²/(2σ²)): a gross outlier pushes not at all (paper 003, (2)).

    sup|ψ| = σ/√e, at |u| = σ, whatever the labels are. σ → ∞ is least squares. Also called the Welsch loss.

    Parameters
    ----------
    scale : σ, a positive number or an array of them; infinite is least squares
    """

    def value(self, u: Array) -> Array:
        xp, s = namespace(u), self._s()
        with np.errstate(over="ignore"):
            half = 0.5 * (u / s) ** 2
        # u²/2 · (1 - e^{-h})/h with h = u²/(2σ²): no σ² that overflows, and u²/2 where h vanishes.
        return 0.5 * u * u * xp.where(half > 0, -xp.expm1(-half) / xp.where(half > 0, half, 1.0 + half), 1.0 + half)

    def derivative(self, u: Array) -> Array:
        return u * self.weight(u)

    def weight(self, u: Array) -> Array:
        with np.errstate(over="ignore"):  # a label may be any number of scales off
            return namespace(u).exp(-0.5 * (u / self._s()) ** 2)

    @property
    def bound(self) -> float:
        return float(np.max(self._s())) / math.sqrt(math.e)


class Huber(_Scaled):
    """u²/2 for |u| ≤ c, then c|u| - c²/2; ψ(u) = u clipped to [-c, c]. Convex; sup|ψ| = c.

    Parameters
    ----------
    scale : c, a positive number or an array of them; infinite is least squares
    """

    def value(self, u: Array) -> Array:
        psi = self.derivative(u)
        return psi * u - 0.5 * psi * psi  # c|u| - c²/2 outside, u²/2 inside

    def derivative(self, u: Array) -> Array:
        xp = namespace(u)
        c = self._s()
        inside = xp.abs(u) <= c
        # An infinite scale has no sign to multiply: keep it out of the branch that is not taken.
        return xp.where(inside, u, xp.sign(u) * xp.where(inside, 0.0 * u, 0.0 * u + c))

    @property
    def bound(self) -> float:
        return float(np.max(self._s()))


_BY_NAME: dict[str, type[Loss]] = {"squared": Squared, "correntropy": Correntropy, "huber": Huber}


def as_loss(loss: Any, scale: Any = None) -> Loss:
    """A :class:`Loss` from itself or its name, with the given scale.

    Parameters
    ----------
    loss : a Loss, or "squared", "correntropy" or "huber"
    scale : of a loss given by its name, where it has one; None is 1
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _BY_NAME:
        cls = _BY_NAME[loss]
        return cls() if scale is None else cls().at(scale)
    names = ", ".join(repr(name) for name in _BY_NAME)
    raise ValueError(f"loss must be {names} or a Loss object, got {quote(loss)}")


def to_spec(loss: Loss) -> dict[str, Any]:
    """A JSON-ready description of a loss of this module; an infinite scale is null."""
    for name, cls in _BY_NAME.items():
        if type(loss) is cls:
            if not loss.scaled:
                return {"loss": name}
            scale = np.asarray(loss.scale, dtype=float)
            return {"loss": name, "scale": np.where(np.isfinite(scale), scale, -1.0).tolist()}
    raise ValueError(f"a model with the loss {type(loss).__name__} cannot be saved: only unpooled's own losses can")


def from_spec(spec: Any) -> Loss:
    """The loss that :func:`to_spec` described."""
    name = spec.get("loss") if isinstance(spec, dict) else None
    if not (isinstance(name, str) and name in _BY_NAME):
        raise ValueError(f"{quote(spec)} does not describe a loss of this version of unpooled")
    loss = _BY_NAME[name]()
    if not loss.scaled:
        return loss
    scale = np.asarray(spec.get("scale"), dtype=float)
    scale = np.where(scale < 0, math.inf, scale)
    return loss.at(scale if scale.ndim else float(scale))


class LossKind(Kind):
    """A loss or its name."""

    words = "the name of a loss, or a Loss object"

    def check(self, name: str, value: Any) -> None:
        if not as_loss(value).bound > 0:  # the bound looks at the scale, and refuses what is none
            raise ValueError(f"{name} must let labels push: {quote(value)} does not")

    def to_plain(self, value: Any) -> Any:
        return to_spec(value) if isinstance(value, Loss) else value

    def from_plain(self, written: Any) -> Any:
        return from_header(written, from_spec, to_spec) if isinstance(written, dict) else written
