"""Spectral filters (Guo, Lin and Zhou 2017, Definition 1 and Examples 1 to 4).

A filter g_λ replaces 1/σ on the spectrum of L_D: f = g_λ(L_D) (1/N) Σ y_i K_{x_i}. It knows σ, λ and κ², and nothing of
kernels or data. With κ² = sup K(x, x) every filter obeys

    |g_λ(σ)| ≤ b/λ,   |σ g_λ(σ)| ≤ b                                     (4)
    |1 - σ g_λ(σ)| σ^q ≤ γ_q λ^q   for 0 < q ≤ qualification             (5)

on 0 < σ ≤ κ², 0 < λ ≤ κ², and is homogeneous: g(sσ, sλ, sκ²) = g(σ, λ, κ²)/s, so that multiplying the kernel and λ by
the same number changes nothing.

Filters are NumPy functions in double precision, whatever the data are. A spectrum is a short vector, and it is copied
to the host once, whichever device the matrix is on.
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

_MOST_STEPS = 1_000_000  # of the ν-method's recursion, which has no closed form


class Filter(BaseEstimator, ABC):
    """A spectral filter. A new one defines ``g`` and, if 1 - σ·g cancels, ``residual``.

    ``ridge_times`` and ``has_steps`` announce faster ways to the same function. A subclass that defines ``g`` inherits
    neither of them, because its g is a different function, and states its own.
    """

    #: the largest q for which (5) holds
    qualification: float = math.inf
    #: the constant b of (4)
    bound: float = 1.0
    #: the number of ridge regressions with λ, each on the residuals of those before, that give the filter; 0 for none
    ridge_times: int = 0
    #: True if ``iterations`` and ``steps`` describe a descent that gives the filter
    has_steps: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "g" in vars(cls):
            for name, none in (("ridge_times", 0), ("has_steps", False)):
                if name not in vars(cls):
                    setattr(cls, name, none)

    @abstractmethod
    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        """Compute g_λ(σ), which must be finite at σ = 0."""

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        """Compute 1 - σ g_λ(σ), the share of an eigencomponent that the fit misses, without cancellation."""
        return 1.0 - sigma * self.g(sigma, lam, kappa_sq)

    def path(self, sigma: Floats, lams: Floats, kappa_sq: float = 1.0) -> tuple[Floats, Floats]:
        """Compute g and the residual for every λ at once: two arrays of shape (len(lams), len(sigma))."""
        gs = [self.g(sigma, lam, kappa_sq) for lam in lams]
        return np.stack(gs), np.stack([self.residual(sigma, lam, kappa_sq) for lam in lams])

    def gamma(self, q: float) -> float:
        """Return the constant γ_q of (5)."""
        return 1.0

    def iterations(self, lam: float, kappa_sq: float = 1.0) -> int | None:
        """Return the number of iterations that corresponds to λ, or None if the filter is not an iteration."""
        return None

    def steps(self, n: int) -> Iterable[tuple[float, float]]:
        """Return the pairs (μ_k, ω_k), k = 1..n, of the descent a ← a + μ_k (a - a_old) + ω_k η (v - A a), η = 1/κ²."""
        raise NotImplementedError(f"{type(self).__name__} does not define steps()")


class Tikhonov(Filter):
    """The filter g(σ) = 1/(σ+λ) of kernel ridge regression, with qualification 1 (Example 1)."""

    qualification = 1.0
    ridge_times = 1

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return 1.0 / (sigma + lam)

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return lam / (sigma + lam)


class IteratedTikhonov(Filter):
    """The filter g(σ) = Σ_{k=1}^m λ^{k-1}/(σ+λ)^k = (1 - (λ/(σ+λ))^m)/σ: ridge regression on the residuals, m times.

    Parameters
    ----------
    times : int, default 2
        The number m of regressions, which is also the qualification; 1 is Tikhonov.
    """

    def __init__(self, times: int = 2) -> None:
        self.times = times

    def _check_times(self) -> int:
        if isinstance(self.times, bool) or not (isinstance(self.times, (int, np.integer)) and self.times >= 1):
            raise ValueError(f"times must be a whole number of at least 1, got {quote(self.times)}")
        return int(self.times)

    @property
    def qualification(self) -> float:  # type: ignore[override]
        return float(self._check_times())

    @property
    def bound(self) -> float:  # type: ignore[override]
        return float(self._check_times())

    @property
    def ridge_times(self) -> int:  # type: ignore[override]
        return self._check_times()

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        # Horner's scheme for the sum, which never divides by σ.
        total = np.zeros_like(sigma)
        for _ in range(self._check_times()):
            total = (1.0 + lam * total) / (sigma + lam)
        return total

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return np.asarray((lam / (sigma + lam)) ** self._check_times())


class CutOff(Filter):
    """The filter g(σ) = 1/σ on σ ≥ λ and 0 below: principal-component regression in feature space (Example 2)."""

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return np.divide(1.0, sigma, out=np.zeros_like(sigma), where=sigma >= lam)

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        return np.where(sigma >= lam, 0.0, 1.0)


def _count_iterations(ratio: float) -> int:
    """Return ⌈ratio⌉ and tolerate rounding, so that 3/0.03 gives 100 iterations and not 101."""
    if not ratio < 1e15:
        raise ValueError(f"lam is too small for an iterative filter: it would take {ratio:.1g} iterations")
    whole = round(ratio)
    return max(1, whole if abs(ratio - whole) <= 1e-12 * ratio else math.ceil(ratio))


class Landweber(Filter):
    """The filter g(σ) = η Σ_{i<t} (1-ησ)^i, η = 1/κ², t = ⌈1/(ηλ)⌉, of t steps of gradient descent (Example 3).

    If 1/(ηλ) is a whole number, then b = 1 and γ_q = q^q (1 for q ≤ 1); rounding it up at most doubles b.
    """

    bound = 2.0
    has_steps = True

    def iterations(self, lam: float, kappa_sq: float = 1.0) -> int:
        return _count_iterations(kappa_sq / lam)

    def steps(self, n: int) -> Iterable[tuple[float, float]]:
        return repeat((0.0, 1.0), n)

    def g(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        t, x = self.iterations(lam, kappa_sq), _scale_to_unit(sigma, kappa_sq)
        # (1 - (1-x)^t)/x = -expm1(t·log1p(-x))/x keeps all digits for tiny x; its limit at 0 is t.
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            sums = -np.expm1(t * np.log1p(-x)) / x
        return np.asarray(np.where(x > np.finfo(float).tiny, sums, t) / kappa_sq)

    def residual(self, sigma: Floats, lam: float, kappa_sq: float = 1.0) -> Floats:
        t, x = self.iterations(lam, kappa_sq), _scale_to_unit(sigma, kappa_sq)
        with np.errstate(divide="ignore", under="ignore"):
            return np.exp(t * np.log1p(-x))

    def gamma(self, q: float) -> float:
        return 1.0 if q <= 1 else q**q


class NuMethod(Filter):
    """The filter of the ν-method, Brakhage's accelerated Landweber iteration with t = ⌈1/√(ηλ)⌉ steps (Example 4).

    With η = 1/κ², x = ησ, r_0 = 1, μ_1 = 0, ω_1 = (4ν+2)/(4ν+1) and for k ≥ 2

        μ_k = (k-1)(2k-3)(2k+2ν-1) / ((k+2ν-1)(2k+4ν-1)(2k+2ν-3))
        ω_k = 4 (2k+2ν-1)(k+ν-1) / ((k+2ν-1)(2k+4ν-1))

    the residual polynomials obey r_k = r_{k-1} + μ_k (r_{k-1} - r_{k-2}) - ω_k x r_{k-1} (Engl, Hanke and Neubauer
    1996, §6.3). The qualification is ν: as long as the regularity of the target is at most ν, the method is as accurate
    as Landweber's after the square root of the number of steps.

    Parameters
    ----------
    nu : float, default 1
    """

    bound = 8.0  # 2 if 1/√(ηλ) is a whole number (Guo, Lin and Zhou 2017); rounding it up multiplies t² by at most 4
    has_steps = True

    def __init__(self, nu: float = 1.0) -> None:
        self.nu = nu

    def _check_nu(self) -> float:
        if isinstance(self.nu, bool) or not (
            isinstance(self.nu, (int, float, np.number)) and 0.5 <= self.nu < math.inf
        ):
            raise ValueError(f"nu must be a number of at least 1/2, got {quote(self.nu)}")
        return float(self.nu)

    @property
    def qualification(self) -> float:  # type: ignore[override]
        return self._check_nu()

    def iterations(self, lam: float, kappa_sq: float = 1.0) -> int:
        return _count_iterations(math.sqrt(kappa_sq / lam))

    def steps(self, n: int) -> Iterator[tuple[float, float]]:
        v = self._check_nu()
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
        if max(stops) > _MOST_STEPS:
            raise ValueError(
                f"lam is too small for the ν-method: it would take {max(stops)} iterations, and at most {_MOST_STEPS} "
                "are possible"
            )
        x = _scale_to_unit(sigma, kappa_sq)
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
        """Return a bound on |r_t(x)| x^q t^{2q} over t and x, which stays below max(1, ν)^{2q} in measurements."""
        return max(1.0, self._check_nu()) ** (2 * q)


def _scale_to_unit(sigma: Floats, kappa_sq: float) -> Floats:
    """Return ησ, clipped to [0, 1], because the polynomials grow fast where rounding leaves this interval."""
    return np.clip(np.asarray(sigma, dtype=float) / kappa_sq, 0.0, 1.0)


_BY_NAME: dict[str, type[Filter]] = {
    "tikhonov": Tikhonov,
    "iterated-tikhonov": IteratedTikhonov,
    "cutoff": CutOff,
    "landweber": Landweber,
    "nu": NuMethod,
}


def as_filter(filter: Any) -> Filter:
    """Return the :class:`Filter` of a name, or a filter itself.

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
    """Describe a filter of this module by a JSON-ready dictionary."""
    for name, cls in _BY_NAME.items():
        if type(filter) is cls:
            params = filter.get_params(deep=False).items()
            return {"filter": name, **{k: v.item() if isinstance(v, np.generic) else v for k, v in params}}
    raise ValueError(
        f"a model with the filter {type(filter).__name__} cannot be saved: use one of unpooled's own filters"
    )


def from_spec(spec: Any) -> Filter:
    """Make the filter that :func:`to_spec` described."""
    name = spec.get("filter") if isinstance(spec, dict) else None
    if not (isinstance(name, str) and name in _BY_NAME):
        raise ValueError(f"{quote(spec)} does not describe a filter of this version of unpooled")
    try:
        return _BY_NAME[name](**{key: value for key, value in spec.items() if key != "filter"})
    except TypeError as error:
        raise ValueError(f"{quote(spec)} does not describe a filter: {error}") from None


class FilterKind(Kind):
    """The kind of a parameter that is a filter or its name."""

    words = "the name of a filter, or a Filter object"
    choices = tuple(_BY_NAME)

    def check(self, name: str, value: Any) -> None:
        filter = as_filter(value)
        if not (filter.qualification > 0 and filter.bound > 0):  # both properties check the filter's parameters
            raise ValueError(f"{name} must have a positive qualification and bound, got {quote(value)}")

    def to_plain(self, value: Any) -> Any:
        return to_spec(as_filter(value))

    def from_plain(self, written: Any) -> Any:
        return from_header(written, from_spec, to_spec)
