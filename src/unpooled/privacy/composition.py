"""What many releases cost together, each free to depend on those before (docs/privacy/gaussian.md, theorems 3 and 4).

Gaussian events compose to one Gaussian event exactly. Any other event is (ε_i, δ_i)-private, and no such event can be
worse than one bit that tells the truth with odds e^{ε_i}, or with probability δ_i the record itself. Together with the
Gaussian event the hockey-stick divergence is then a finite sum of the Gaussian's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._base.checks import budget, positive
from .events import Approximate, Event, Gaussian
from .gaussian import compose, delta_of, least, log_deltas_of

MOST_ATOMS = 2**14  # different sums of ±ε_i that are kept apart


def delta(events: Iterable[Event], epsilon: float) -> float:
    """The δ for which all events together are (ε, δ)-private.

    Parameters
    ----------
    events, epsilon : what was released, and ε
    """
    return _Total.of(events).delta(epsilon)


def epsilon(events: Iterable[Event], delta_allowed: float) -> float:
    """The least ε ≥ 0 for which all events together are (ε, δ)-private; infinite where δ is spent already.

    Parameters
    ----------
    events, delta_allowed : what was released, and δ
    """
    total = _Total.of(events)
    if total.delta(0.0) <= delta_allowed:
        return 0.0
    if total.outright >= delta_allowed:
        return math.inf
    return least(lambda candidate: total.delta(candidate) <= delta_allowed, start=1.0)


def mu_left(events: Iterable[Event], epsilon: float, delta_allowed: float) -> float:
    """The largest μ of a Gaussian event that still fits into (ε, δ) beside these events; zero where none does.

    Parameters
    ----------
    events : what was released
    epsilon, delta_allowed : the budget
    """
    epsilon, delta_allowed = budget(epsilon, delta_allowed)
    total = _Total.of(events)
    if total.delta(epsilon) >= delta_allowed:
        return 0.0
    fits = least(lambda sigma: total.with_gaussian(1.0 / sigma).delta(epsilon) <= delta_allowed, start=1.0)
    return 1.0 / fits


def split(mu: float, shares: Sequence[float]) -> list[float]:
    """The μ of parts that compose to μ, with μ² split in these proportions.

    Parameters
    ----------
    mu, shares : μ, and positive numbers
    """
    total = math.fsum(positive("a share", share) for share in shares)
    return [mu * math.sqrt(share / total) for share in shares]


@dataclass(frozen=True)
class _Total:
    """Events together: one Gaussian, the values Σ±ε_i of the other losses with their probabilities, and all δ_i."""

    mu: float
    losses: np.ndarray
    weights: np.ndarray
    basic: float  #: Σ ε_i
    outright: float  #: 1 - Π (1 - δ_i)

    @classmethod
    def of(cls, events: Iterable[Event]) -> _Total:
        events = list(events)
        others = [event for event in events if isinstance(event, Approximate)]
        losses, weights = _sums_of_losses([event.epsilon for event in others])
        return cls(
            compose(event.mu for event in events if isinstance(event, Gaussian)),
            losses,
            weights,
            math.fsum(event.epsilon for event in others),
            -math.expm1(math.fsum(math.log1p(-event.delta) for event in others)),
        )

    def with_gaussian(self, mu: float) -> _Total:
        return replace(self, mu=math.hypot(self.mu, mu))

    def delta(self, epsilon: float) -> float:
        spread = float(self.weights @ np.exp(log_deltas_of(epsilon - self.losses, self.mu)))
        # No worse than if every bit told the truth: that is basic composition, the better one where sums were merged.
        if epsilon >= self.basic:
            spread = min(spread, delta_of(epsilon - self.basic, self.mu))
        return self.outright + (1.0 - self.outright) * min(spread, 1.0)


def _sums_of_losses(epsilons: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The values of Σ±ε_i with their probabilities, each sign + with odds e^{ε_i}; a value is never rounded down."""
    losses: np.ndarray = np.zeros(1)
    weights: np.ndarray = np.ones(1)
    for value in sorted(epsilons):
        up = 1.0 / (1.0 + math.exp(-value))
        losses, place = np.unique(np.concatenate([losses + value, losses - value]), return_inverse=True)
        weights = np.bincount(place, np.concatenate([weights * up, weights * (1.0 - up)]))
        if len(losses) > MOST_ATOMS:  # move each up to a point of a grid, which can only make the price higher
            width = (losses[-1] - losses[0]) / (MOST_ATOMS // 2)
            steps = np.ceil((losses - losses[0]) / width)
            points, place = np.unique(steps, return_inverse=True)
            losses, weights = losses[0] + (points + 1e-9) * width, np.bincount(place, weights)
    return losses, weights
