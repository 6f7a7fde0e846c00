"""What was released of private data, as accountants see it: a small vocabulary that never changes once written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._base.checks import positive, probability
from .._base.text import shown
from .gaussian import rho_of


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise on an answer that one record moves by at most μ standard deviations; ρ = μ²/2 in zCDP.

    Parameters
    ----------
    mu : μ = Δ/σ, positive
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive("mu", self.mu))

    @classmethod
    def of(cls, sensitivity: float, sigma: float) -> Gaussian:
        """Noise of standard deviation σ on an answer of sensitivity Δ."""
        return cls((2 * rho_of(sensitivity, sigma)) ** 0.5)

    def __str__(self) -> str:
        return f"Gaussian noise, μ = {self.mu:.4g}"


@dataclass(frozen=True)
class Approximate:
    """Any mechanism that is (ε, δ)-private; δ = 0 where it is pure.

    Parameters
    ----------
    epsilon, delta : ε ≥ 0 and δ in [0, 1)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon, zero=True))
        object.__setattr__(self, "delta", probability("delta", self.delta, zero=True))

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.4g}" + (f", δ = {self.delta:.3g}" if self.delta else "")


Event = Gaussian | Approximate


def to_dict(event: Event) -> dict[str, Any]:
    """For JSON."""
    if isinstance(event, Gaussian):
        return {"kind": "gaussian", "mu": event.mu}
    return {"kind": "approximate", "epsilon": event.epsilon, "delta": event.delta}


def from_dict(content: Any) -> Event:
    """The inverse; a ValueError where it is no event."""
    kinds: dict[str, tuple[type[Event], set[str]]] = {
        "gaussian": (Gaussian, {"mu"}),
        "approximate": (Approximate, {"epsilon", "delta"}),
    }
    values = dict(content) if isinstance(content, dict) else {}
    cls, names = kinds.get(str(values.pop("kind", None)), (None, set()))
    if cls is None or set(values) != names:
        raise ValueError(f"{shown(content)} is not an event that this version of unpooled can price")
    return cls(**values)
