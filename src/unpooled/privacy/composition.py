"""What many releases cost together, each free to depend on those before (docs/privacy/gaussian.md, theorems 3 and 4).

Gaussian events compose to one Gaussian event exactly. Any other event is (ε_i, δ_i)-private, and no such event can be
worse than one bit that tells the truth with odds e^{ε_i}, or with probability δ_i the record itself. Together with the
Gaussian event the hockey-stick divergence is then a finite sum of the Gaussian's own.

A :class:`Guarantee` says what was released and at which price, to be read, compared and put into a file's header.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

import numpy as np

from .._base.checks import check_budget, check_positive
from .._base.text import quote
from . import gaussian
from .gaussian import Approximate, Event, Gaussian, compose, delta_of, least, log_deltas_of

__all__ = ["delta", "epsilon", "mu_left", "split"]  # Guarantee and Spent are names of unpooled.privacy

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
    epsilon, delta_allowed = check_budget(epsilon, delta_allowed)
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
    total = math.fsum(check_positive("a share", share) for share in shares)
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


NEIGHBOURS = "replace one record, n public"


@dataclass(frozen=True)
class Spent:
    """One release: what it was for, and what it cost.

    Attributes
    ----------
    purpose : what it was for
    event : what it cost
    """

    purpose: str
    event: Event

    def __str__(self) -> str:
        return f"{self.purpose} ({self.event})"


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy of all that was released, said in full.

    Attributes
    ----------
    epsilon, delta : the promise: for neighbouring data S and S' and any event E, P(E | S) ≤ e^ε P(E | S') + δ
    mechanism : how the noise was made
    spent_on : what was released, and what each release cost; together no more than (ε, δ), which is checked
    neighbours : which data sets are hard to tell apart
    public : what the guarantee takes as known to all
    conditions : what else it rests on; empty where it holds whatever others do
    """

    epsilon: float
    delta: float
    mechanism: str
    spent_on: tuple[Spent, ...] = ()
    neighbours: str = NEIGHBOURS
    public: tuple[str, ...] = ("the number of records",)
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in zip(("epsilon", "delta"), check_budget(self.epsilon, self.delta)):
            object.__setattr__(self, name, value)
        for name in ("spent_on", "public", "conditions"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("mechanism", "neighbours"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"{name} must say something, got {quote(getattr(self, name))}")
        for name in ("public", "conditions"):
            if not all(isinstance(item, str) for item in getattr(self, name)):
                raise ValueError(f"{name} must be made of text, got {quote(getattr(self, name))}")
        if not all(isinstance(item, Spent) for item in self.spent_on):
            raise ValueError(f"spent_on must be made of Spent objects, got {quote(self.spent_on)}")
        events = [item.event for item in self.spent_on]
        if not fits(events, self.epsilon, self.delta):
            raise ValueError(
                f"what was spent costs more than ε = {self.epsilon:g} at δ = {self.delta:g}: "
                f"ε = {epsilon(events, self.delta):g}"
            )

    @classmethod
    def of(cls, spent_on: Iterable[Spent], delta: float, mechanism: str, **others: Any) -> Guarantee:
        """The guarantee that these releases add up to, at this δ."""
        spent_on = tuple(spent_on)
        return cls(epsilon([item.event for item in spent_on], delta), delta, mechanism, spent_on, **others)

    def __str__(self) -> str:
        said = (
            f"Differentially private with ε = {self.epsilon:.4g} and δ = {self.delta:.3g} "
            f"(neighbours: {self.neighbours}) by {self.mechanism}"
        )
        if self.public:
            said += f"; public: {_listed(self.public)}"
        if self.spent_on:
            said += f"; spent on: {_listed(_counted(self.spent_on))}"
        if self.conditions:
            said += f"; provided that {_listed(self.conditions)}"
        return said + "."

    def __repr__(self) -> str:
        said = f"epsilon={self.epsilon:.6g}, delta={self.delta:.6g}, mechanism={self.mechanism!r}"
        return f"Guarantee({said}, releases={len(self.spent_on)}, conditions={len(self.conditions)})"

    def _repr_html_(self) -> str:
        from .._base import html

        rows = [[item.purpose, str(item.event)] for item in self.spent_on]
        spent = html.fold("What it was spent on", [html.table(["release", "price"], rows)]) if rows else ""
        return html.paragraph(str(replace(self, spent_on=()))) + spent

    def to_dict(self) -> dict[str, Any]:
        """For the JSON header of a file."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        spent_on = [{"purpose": item.purpose, **gaussian.to_dict(item.event)} for item in self.spent_on]
        return content | {"spent_on": spent_on, "public": list(self.public), "conditions": list(self.conditions)}

    @classmethod
    def from_dict(cls, content: Any) -> Guarantee:
        """The inverse; a ValueError where something is missing, unknown, or does not add up."""
        names = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise ValueError(f"a guarantee must have the facts {', '.join(sorted(names))}, got {quote(content)}")
        for name in ("spent_on", "public", "conditions"):
            if not isinstance(content[name], list):
                raise ValueError(f"{name} of a guarantee must be a list, got {quote(content[name])}")
        return cls(**content | {"spent_on": tuple(_spent(item) for item in content["spent_on"])})


def fits(spent: Iterable[Event], epsilon: float, delta: float) -> bool:
    """Whether events together are (ε, δ)-private; to nine digits of δ, which sums in floating point need.

    Parameters
    ----------
    spent : what was released
    epsilon, delta : the budget
    """
    return _Total.of(spent).delta(epsilon) <= delta * (1 + 1e-9)


def _spent(content: Any) -> Spent:
    if not isinstance(content, dict) or not isinstance(content.get("purpose"), str):
        raise ValueError(f"what was spent must say what for, got {quote(content)}")
    return Spent(content["purpose"], gaussian.from_dict({k: v for k, v in content.items() if k != "purpose"}))


def _counted(spent_on: Iterable[Spent]) -> list[str]:
    """One text for equal releases in a row."""
    runs = [(item, len(list(equal))) for item, equal in groupby(spent_on)]
    return [str(item) if n == 1 else f"{item.purpose} ({n} times {item.event})" for item, n in runs]


def _listed(items: Iterable[str]) -> str:
    *rest, last = items
    return f"{', '.join(rest)} and {last}" if rest else last
