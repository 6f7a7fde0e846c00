"""The exact Gaussian mechanism: the cost of noise of standard deviation σ when one record moves the answer by Δ.

Only the ratio μ = Δ/σ matters. Proofs are in docs/privacy/gaussian.md; the formulas are those of Balle and Wang (2018).

This file also defines the events that the accountants price. Events are immutable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import bisect
from scipy.special import erfcx, ndtr

from .._base.checks import check_positive, check_probability
from .._base.text import quote

__all__ = ["compose", "delta_of", "epsilon_of", "log_delta_of", "log_deltas_of", "mu_for", "rho_of", "sigma_for"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def log_delta_of(epsilon: float, mu: float) -> float:
    """Return log δ for the smallest δ such that N(q, σ²I), with q of sensitivity μσ, is (ε, δ)-private.

    δ = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle and Wang 2018, Theorem 8).

    Parameters
    ----------
    epsilon, mu : any real ε, and μ > 0
    """
    return float(log_deltas_of(np.asarray([epsilon], dtype=float), mu)[0])


def delta_of(epsilon: float, mu: float) -> float:
    """Return δ(ε) of the Gaussian mechanism with Δ/σ = μ.

    Parameters
    ----------
    epsilon, mu : ε ≥ 0 and μ > 0
    """
    return math.exp(log_delta_of(epsilon, mu))


def log_deltas_of(epsilon: np.ndarray, mu: float) -> np.ndarray:
    """Return :func:`log_delta_of` for many ε at once.

    Parameters
    ----------
    epsilon, mu : an array of ε, and μ > 0
    """
    size = np.abs(epsilon)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        above = _log_deltas(size, mu) if mu > 0 else np.full(size.shape, -np.inf)
        # H_{1/a}(P, Q) = 1 - 1/a + H_a(Q, P)/a, and the two normal laws P and Q are symmetric to each other.
        below = np.log(-np.expm1(-size) + np.exp(above - size))
    return np.where(epsilon < 0, below, above)


def _log_deltas(epsilon: np.ndarray, mu: float) -> np.ndarray:
    """Return log δ for ε ≥ 0 and μ > 0 without cancellation.

    With Mills' ratio R(x) = Φ(-x)/φ(x) and e^ε φ(x+μ) = φ(x), where x = ε/μ - μ/2, δ = φ(x)·(R(x) - R(x+μ)).
    """
    x = epsilon / mu - mu / 2
    near_one = x < -10
    y = np.where(near_one, 0.0, x)
    if mu < 0.05:
        difference = mu / 2 * (_mills_slope(y[..., None] + mu / 2 * (_NODES + 1)) @ _WEIGHTS)
    else:
        difference = _mills(y) - _mills(y + mu)
    far = _log_density(y) + np.log(np.maximum(difference, 0.0))
    return np.where(near_one, np.log1p(-ndtr(x) - np.exp(_log_density(x)) * _mills(np.maximum(x + mu, 0.0))), far)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 for which the Gaussian mechanism with Δ/σ = μ is (ε, δ)-private.

    Parameters
    ----------
    mu, delta : μ > 0 and δ in (0, 1)
    """
    mu, log_delta = check_positive("mu", mu, zero=True), math.log(check_probability("delta", delta))
    if log_delta_of(0.0, mu) <= log_delta:
        return 0.0
    return smallest_that_holds(lambda epsilon: log_delta_of(epsilon, mu) <= log_delta, start=mu)


def mu_for(epsilon: float, delta: float) -> float:
    """Return the largest Δ/σ for which the Gaussian mechanism is (ε, δ)-private.

    Parameters
    ----------
    epsilon, delta : the budget
    """
    return 1.0 / sigma_for(epsilon, delta)


def sigma_for(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest σ for which N(q, σ²I), with q of ℓ2 sensitivity Δ, is (ε, δ)-private.

    Parameters
    ----------
    epsilon, delta : the budget
    sensitivity : Δ, the furthest that replacing one record can move q
    """
    epsilon, log_delta = check_positive("epsilon", epsilon), math.log(check_probability("delta", delta))
    scale = smallest_that_holds(lambda scale: log_delta_of(epsilon, 1.0 / scale) <= log_delta, start=1.0)
    return check_positive("sensitivity", sensitivity) * scale


def rho_of(sensitivity: float, sigma: float) -> float:
    """Return ρ = Δ²/(2σ²) = μ²/2, with which the mechanism is ρ-zero-concentrated (Bun and Steinke 2016).

    Parameters
    ----------
    sensitivity, sigma : Δ and σ
    """
    return 0.5 * (check_positive("sensitivity", sensitivity) / check_positive("sigma", sigma)) ** 2


def compose(mus: Iterable[float]) -> float:
    """Return the exact μ of several Gaussian releases together, √Σμ²; each may depend on the ones before it.

    Parameters
    ----------
    mus : the μ of each release
    """
    return math.hypot(*(check_positive("mu", mu, zero=True) for mu in mus))


def smallest_that_holds(holds: Callable[[float], bool], start: float) -> float:
    """Return the smallest positive number for which a monotone condition holds, rounded up in the last few units."""
    high = start
    while not holds(high):
        high *= 2.0
        if high > 1e300:
            raise ValueError("no finite amount of noise gives this guarantee: choose a larger epsilon or delta")
    low = high / 2.0
    while holds(low):
        high, low = low, low / 2.0
        if low < 1e-300:
            return high
    solution = float(bisect(lambda x: -1.0 if holds(x) else 1.0, low, high, xtol=1e-300, rtol=1e-14))
    while not holds(solution):
        solution *= 1.0 + 1e-14
    return solution


def _log_density(x: np.ndarray) -> np.ndarray:
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi)


def _mills(x: np.ndarray) -> np.ndarray:
    return math.sqrt(math.pi / 2) * np.asarray(erfcx(x / math.sqrt(2)))


def _mills_slope(x: np.ndarray) -> np.ndarray:
    """Return -R'(x) = 1 - x R(x), from its asymptotic series where the difference would lose digits."""
    far = x > 30
    y = 1.0 / np.where(far, x, 30.0) ** 2
    return np.where(far, y * (1 - y * (3 - y * (15 - y * 105))), 1 - x * _mills(np.where(far, 0.0, x)))


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise on an answer that one record moves by at most μ standard deviations (ρ = μ²/2 in zCDP).

    Parameters
    ----------
    mu : μ = Δ/σ, positive
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", check_positive("mu", self.mu))

    @classmethod
    def of(cls, sensitivity: float, sigma: float) -> Gaussian:
        """Return the event of adding noise of standard deviation σ to an answer of sensitivity Δ."""
        return cls((2 * rho_of(sensitivity, sigma)) ** 0.5)

    def __str__(self) -> str:
        return f"Gaussian noise, μ = {self.mu:.4g}"


@dataclass(frozen=True)
class Approximate:
    """Any other mechanism that is (ε, δ)-private; δ = 0 for pure differential privacy.

    Parameters
    ----------
    epsilon, delta : ε ≥ 0 and δ in [0, 1)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon, zero=True))
        object.__setattr__(self, "delta", check_probability("delta", self.delta, zero=True))

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.4g}" + (f", δ = {self.delta:.3g}" if self.delta else "")


Event = Gaussian | Approximate


def to_dict(event: Event) -> dict[str, Any]:
    """Return an event as a dictionary for JSON.

    Parameters
    ----------
    event : the event
    """
    if isinstance(event, Gaussian):
        return {"kind": "gaussian", "mu": event.mu}
    return {"kind": "approximate", "epsilon": event.epsilon, "delta": event.delta}


def from_dict(content: Any) -> Event:
    """Return the event that :func:`to_dict` wrote; raise a ValueError if the content does not describe an event.

    Parameters
    ----------
    content : the dictionary read from JSON
    """
    kinds: dict[str, tuple[type[Event], set[str]]] = {
        "gaussian": (Gaussian, {"mu"}),
        "approximate": (Approximate, {"epsilon", "delta"}),
    }
    values = dict(content) if isinstance(content, dict) else {}
    cls, names = kinds.get(str(values.pop("kind", None)), (None, set()))
    if cls is None or set(values) != names:
        raise ValueError(f"{quote(content)} is not an event that this version of unpooled can price")
    return cls(**values)
