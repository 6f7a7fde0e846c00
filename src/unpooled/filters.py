"""Spectral filters (Guo, Lin and Zhou 2017, Definition 1 and Examples 1 to 4).

A filter g_λ replaces 1/σ on the spectrum of L_D: f = g_λ(L_D) (1/N) Σ y_i K_{x_i}. It knows σ, λ and κ², and nothing of
kernels or data. With κ² = sup K(x, x) every filter obeys

    |g_λ(σ)| ≤ b/λ,   |σ g_λ(σ)| ≤ b                                     (4)
    |1 - σ g_λ(σ)| σ^q ≤ γ_q λ^q   for 0 < q ≤ qualification             (5)

on 0 < σ ≤ κ², 0 < λ ≤ κ², and is homogeneous: g(sσ, sλ, sκ²) = g(σ, λ, κ²)/s, so scaling the kernel with λ changes
nothing.

Filters are NumPy functions in double precision, whatever the data are. A spectrum is a short vector, and it comes to
the host once, whichever device the matrix lies on.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ._base.arrays import Floats
from ._base.kinds import Kind, from_header
from ._base.text import quote

__all__ = ["CutOff", "Filter", "IteratedTikhonov", "Landweber", "NuMethod", "Tikhonov", "as_filter"]

MOST_STEPS = 1_000_000  # of the ν-method's recursion, which has no closed form to jump ahead with


class Filter(BaseEstimator, ABC):
    """A spectral filter. A new one defines ``g`` and, if 1 - σ·g cancels, ``residual``.

    ``ridge_times`` and ``has_steps`` tell of faster ways to the same function. A class that defines ``g`` takes over
    neither from the class above it, whose g is another: it states its own.
    """

    #: the largest q for which (5) holds
    qualification: float = math.inf
    #: the constant b of (4)
    bound: float = 1.0
    #: how many ridge regressions with λ, each on the residuals of those before, the filter is made of; 0 for no such
    ridge_times: int = 0
    #: whether ``iterations`` and ``steps`` are a descent that gives the filter
    has_steps: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "g" in vars(cls):
            for name, none in (("ridge_times", 0), ("has_steps", False)):
                if name not in vars(cls):
                    setattr(cls, name, none)

    @abstractmethod
    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        """g_λ(σ), finite at σ = 0."""

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        """1 - σ g_λ(σ): what the filter leaves of an eigencomponent; written without cancellation."""
        return 1.0 - sigma * self.g(sigma, lam, kappa_sq)

    def path(self, sigma: Floats, lams: Floats, kappa_sq: float = 1.0) -> tuple[Floats, Floats]:
        """g and residual for every λ at once: two arrays of shape (len(lams), len(sigma))."""
        gs = [self.g(sigma, lam, kappa_sq) for lam in lams]
        return np.stack(gs), np.stack([self.residual(sigma, lam, kappa_sq) for lam in lams])

    def gamma(self, q: float) -> float:
        """The constant γ_q of (5)."""
        return 1.0

    def iterations(self, lam: float, kappa_sq: float = 1.0) -> int | None:
        """The number of iterations that λ stands for; None where the filter is not an iteration."""
        return None

    def steps(self, n: int) -> Iterable[tuple[float, float]]:
        """The pairs (μ_k, ω_k), k = 1..n, of the descent a ← a + μ_k (a - a_old) + ω_k η (v - A a), η = 1/κ²."""
        raise NotImplementedError(f"{type(self).__name__} does not define steps()")


class Tikhonov(Filter):
    """g(σ) = 1/(σ+λ): kernel ridge regression. Saturates at qualification 1 (Example 1)."""

    qualification = 1.0
    ridge_times = 1

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return 1.0 / (sigma + lam)

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return lam / (sigma + lam)


class IteratedTikhonov(Filter):
    """g(σ) = Σ_{k=1}^m λ^{k-1}/(σ+λ)^k = (1 - (λ/(σ+λ))^m)/σ: ridge regression on the residuals, m times.

    Parameters
    ----------
    times : int, default 2
        m, which is also the qualification; 1 is Tikhonov.
    """

    def __init__(self, times: int = 2) -> None:
        self.times = times

    def _m(self) -> int:
        if isinstance(self.times, bool) or not (isinstance(self.times, (int, np.integer)) and self.times >= 1):
            raise ValueError(f"times must be a whole number of at least 1, got {quote(self.times)}")
        return int(self.times)

    @property
    def qualification(self) -> float:  # type: ignore[override]
        return float(self._m())

    @property
    def bound(self) -> float:  # type: ignore[override]
        return float(self._m())

    @property
    def ridge_times(self) -> int:  # type: ignore[override]
        return self._m()

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        # Horner on the sum, so nothing is ever divided by σ.
        total = np.zeros_like(sigma)
        for _ in range(self._m()):
            total = (1.0 + lam * total) / (sigma + lam)
        return total

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return np.asarray((lam / (sigma + lam)) ** self._m())


class CutOff(Filter):
    """g(σ) = 1/σ on σ ≥ λ, else 0: principal-component regression in feature space (Example 2)."""

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return np.divide(1.0, sigma, out=np.zeros_like(sigma), where=sigma >= lam)

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return np.where(sigma >= lam, 0.0, 1.0)


def _whole_iterations(ratio: float) -> int:
    """⌈ratio⌉, forgiving rounding: 3/0.03 stands for 100 iterations and not 101."""
    if not ratio < 1e15:
        raise ValueError(f"lam is too small for an iterative filter: it stands for {ratio:.1g} iterations")
    whole = round(ratio)
    return max(1, whole if abs(ratio - whole) <= 1e-12 * ratio else math.ceil(ratio))


class Landweber(Filter):
    """g(σ) = η Σ_{i<t} (1-ησ)^i with η = 1/κ² and t = ⌈1/(ηλ)⌉: t steps of gradient descent (Example 3).

    b = 1 and γ_q = q^q (1 for q ≤ 1) where 1/(ηλ) is whole; rounding it up doubles b at most.
    """

    bound = 2.0
    has_steps = True

    def iterations(self, lam: float, kappa_sq: float = 1.0) -> int:
        return _whole_iterations(kappa_sq / lam)

    def steps(self, n: int) -> Iterable[tuple[float, float]]:
        return repeat((0.0, 1.0), n)

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        t, x = self.iterations(lam, kappa_sq), _unit(sigma, kappa_sq)
        # (1 - (1-x)^t)/x = -expm1(t·log1p(-x))/x keeps all digits for tiny x; its limit at 0 is t.
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            sums = -np.expm1(t * np.log1p(-x)) / x
        return np.asarray(np.where(x > np.finfo(float).tiny, sums, t) / kappa_sq)

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        t, x = self.iterations(lam, kappa_sq), _unit(sigma, kappa_sq)
        with np.errstate(divide="ignore", under="ignore"):
            return np.exp(t * np.log1p(-x))

    def gamma(self, q: float) -> float:
        return 1.0 if q <= 1 else q**q


class NuMethod(Filter):
    """The ν-method, Brakhage's accelerated Landweber iteration, t = ⌈1/√(ηλ)⌉ steps (Example 4).

    With η = 1/κ², x = ησ, r_0 = 1, μ_1 = 0, ω_1 = (4ν+2)/(4ν+1) and for k ≥ 2

        μ_k = (k-1)(2k-3)(2k+2ν-1) / ((k+2ν-1)(2k+4ν-1)(2k+2ν-3))
        ω_k = 4 (2k+2ν-1)(k+ν-1) / ((k+2ν-1)(2k+4ν-1))

    the residual polynomials obey r_k = r_{k-1} + μ_k (r_{k-1} - r_{k-2}) - ω_k x r_{k-1} (Engl, Hanke and Neubauer
    1996, §6.3). Qualification ν: as accurate as Landweber after the square root of its steps, while the target's
    regularity is within ν.

    Parameters
    ----------
    nu : float, default 1
    """

    bound = 8.0  # 2 where 1/√(ηλ) is whole (paper 001); rounding it up multiplies t² by at most 4
    has_steps = True

    def __init__(self, nu: float = 1.0) -> None:
        self.nu = nu

    def _nu(self) -> float:
        if isinstance(self.nu, bool) or not (
            isinstance(self.nu, (int, float, np.number)) and 0.5 <= self.nu < math.inf
        ):
            raise ValueError(f"nu must be a number of at least 1/2, got {quote(self.nu)}")
        return float(self.nu)

    @property
    def qualification(self) -> float:  # type: ignore[override]
        return self._nu()

    def iterations(self, lam: float, kappa_sq: float = 1.0) -> int:
        return _whole_iterations(math.sqrt(kappa_sq / lam))

    def steps(self, n: int) -> Iterator[tuple[float, float]]:
        v = self._nu()
        yield 0.0, (4 * v + 2) / (4 * v + 1)
        for k in range(2, n + 1):
            common = (k + 2 * v - 1) * (2 * k + 4 * v - 1)
            mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * v - 1) / (common * (2 * k + 2 * v - 3))
            yield mu, 4 * (2 * k + 2 * v - 1) * (k + v - 1) / common

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return self.path(sigma, np.asarray([lam]), kappa_sq)[0][0]

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return self.path(sigma, np.asarray([lam]), kappa_sq)[1][0]

    def path(self, sigma: Floats, lams: Floats, kappa_sq: float = 1.0) -> tuple[Floats, Floats]:
        # One run of the recursion passes through every λ of the path.
        stops = [self.iterations(lam, kappa_sq) for lam in lams]
        if max(stops) > MOST_STEPS:
            raise ValueError(
                f"lam is too small for the ν-method: it stands for {max(stops)} iterations, more than {MOST_STEPS}"
            )
        x = _unit(sigma, kappa_sq)
        g_old = g = np.zeros_like(x)
        r_old = r = np.ones_like(x)
        gs, rs = np.empty((len(stops), *x.shape)), np.empty((len(stops), *x.shape))
        for k, (mu, omega) in enumerate(self.steps(max(stops)), start=1):
            g, g_old = g + mu * (g - g_old) + omega * r, g
            r, r_old = r + mu * (r - r_old) - omega * x * r, r
            for i, stop in enumerate(stops):
                if stop == k:
                    gs[i], rs[i] = g / kappa_sq, r
        return gs, rs

    def gamma(self, q: float) -> float:
        """sup over t and x of |r_t(x)| x^q t^{2q}: measured, it stays below max(1, ν)^{2q}."""
        return max(1.0, self._nu()) ** (2 * q)


def _unit(sigma: Floats, kappa_sq: float) -> Floats:
    """ησ in [0, 1]: the spectrum lies in [0, κ²], and rounding must not push a polynomial outside it."""
    return np.clip(np.asarray(sigma, dtype=float) / kappa_sq, 0.0, 1.0)


_BY_NAME: dict[str, type[Filter]] = {
    "tikhonov": Tikhonov,
    "iterated-tikhonov": IteratedTikhonov,
    "cutoff": CutOff,
    "landweber": Landweber,
    "nu": NuMethod,
}


def as_filter(filter: Any) -> Filter:
    """A :class:`Filter` from itself or its name.

    Parameters
    ----------
    filter : a Filter, or "tikhonov", "iterated-tikhonov", "cutoff", "landweber" or "nu"
    """
    if isinstance(filter, Filter):
        return filter
    if isinstance(filter, str) and filter in _BY_NAME:
        return _BY_NAME[filter]()
    names = ", ".join(repr(name) for name in _BY_NAME)
    raise ValueError(f"filter must be {names} or a Filter object, got {quote(filter)}")


def to_spec(filter: Filter) -> dict[str, Any]:
    """A JSON-ready description of a filter of this module."""
    for name, cls in _BY_NAME.items():
        if type(filter) is cls:
            params = filter.get_params(deep=False).items()
            return {"filter": name, **{k: v.item() if isinstance(v, np.generic) else v for k, v in params}}
    raise ValueError(
        f"a model with the filter {type(filter).__name__} cannot be saved: only unpooled's own filters can"
    )


def from_spec(spec: Any) -> Filter:
    """The filter that :func:`to_spec` described."""
    name = spec.get("filter") if isinstance(spec, dict) else None
    if not (isinstance(name, str) and name in _BY_NAME):
        raise ValueError(f"{quote(spec)} does not describe a filter of this version of unpooled")
    try:
        return _BY_NAME[name](**{key: value for key, value in spec.items() if key != "filter"})
    except TypeError as error:
        raise ValueError(f"{quote(spec)} does not describe a filter: {error}") from None


class FilterKind(Kind):
    """A filter or its name."""

    words = "the name of a filter, or a Filter object"
    choices = tuple(_BY_NAME)

    def check(self, name: str, value: Any) -> None:
        filter = as_filter(value)
        if not (filter.qualification > 0 and filter.bound > 0):  # which look at the filter's own numbers, and are quick
            raise ValueError(f"{name} must have a qualification and a bound, and {quote(value)} has not")

    def to_plain(self, value: Any) -> Any:
        return to_spec(as_filter(value))

    def from_plain(self, written: Any) -> Any:
        return from_header(written, from_spec, to_spec)
