"""The cost of many releases together, where each may depend on the ones before it.

The proofs are theorems 3 and 4 of docs/privacy/gaussian.md. Gaussian events compose exactly to one Gaussian event. Any
other event is (ε_i, δ_i)-private, and no such event is worse than one that reveals the record itself with probability
δ_i and otherwise answers a yes-or-no question truthfully with odds e^{ε_i}. The hockey-stick divergence of all events
together is therefore a finite sum of Gaussian divergences.

A :class:`Guarantee` states what was released and at what price. It is stored in the header of a file.
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
from .gaussian import Approximate, Event, Gaussian, compose, delta_of, log_deltas_of, smallest_that_holds

__all__ = ["delta", "epsilon", "mu_left", "split"]  # Guarantee and Expense are public in unpooled.privacy

_MOST_ATOMS = 2**14  # the most distinct sums of ±ε_i that are kept before neighbouring ones are merged


def delta(events: Iterable[Event], epsilon: float) -> float:
    """Return the δ for which all events together are (ε, δ)-private.

    Parameters
    ----------
    events, epsilon : the events, and ε
    """
    return _Composition.of(events).delta(epsilon)


def epsilon(events: Iterable[Event], delta_allowed: float) -> float:
    """Return the smallest ε ≥ 0 for which all events together are (ε, δ)-private; infinite if δ is used up.

    Parameters
    ----------
    events, delta_allowed : the events, and δ
    """
    total = _Composition.of(events)
    if total.delta(0.0) <= delta_allowed:
        return 0.0
    if total.failure >= delta_allowed:
        return math.inf
    return smallest_that_holds(lambda candidate: total.delta(candidate) <= delta_allowed, start=1.0)


def mu_left(events: Iterable[Event], epsilon: float, delta_allowed: float) -> float:
    """Return the largest μ of a further Gaussian event that still fits into (ε, δ); zero if none does.

    Parameters
    ----------
    events : the events so far
    epsilon, delta_allowed : the budget
    """
    epsilon, delta_allowed = check_budget(epsilon, delta_allowed)
    total = _Composition.of(events)
    if total.delta(epsilon) >= delta_allowed:
        return 0.0
    fits = smallest_that_holds(
        lambda sigma: total.with_gaussian(1.0 / sigma).delta(epsilon) <= delta_allowed, start=1.0
    )
    return 1.0 / fits


def split(mu: float, shares: Sequence[float]) -> list[float]:
    """Split μ into parts that compose to it, with μ² divided in the given proportions.

    Parameters
    ----------
    mu, shares : μ, and positive numbers
    """
    total = math.fsum(check_positive("a share", share) for share in shares)
    return [mu * math.sqrt(share / total) for share in shares]


@dataclass(frozen=True)
class _Composition:
    """Several events as one Gaussian event, the distribution of Σ±ε_i over the other events, and their δ_i."""

    mu: float
    log_ratios: np.ndarray  #: the values of Σ±ε_i
    weights: np.ndarray  #: their probabilities
    epsilon_sum: float  #: Σ ε_i
    failure: float  #: 1 - Π (1 - δ_i)

    @classmethod
    def of(cls, events: Iterable[Event]) -> _Composition:
        events = list(events)
        others = [event for event in events if isinstance(event, Approximate)]
        log_ratios, weights = _sums_of_log_ratios([event.epsilon for event in others])
        return cls(
            compose(event.mu for event in events if isinstance(event, Gaussian)),
            log_ratios,
            weights,
            math.fsum(event.epsilon for event in others),
            -math.expm1(math.fsum(math.log1p(-event.delta) for event in others)),
        )

    def with_gaussian(self, mu: float) -> _Composition:
        return replace(self, mu=math.hypot(self.mu, mu))

    def delta(self, epsilon: float) -> float:
        spread = float(self.weights @ np.exp(log_deltas_of(epsilon - self.log_ratios, self.mu)))
        # Basic composition (every answer is truthful) is also a bound, and the smaller one where sums were merged.
        if epsilon >= self.epsilon_sum:
            spread = min(spread, delta_of(epsilon - self.epsilon_sum, self.mu))
        return self.failure + (1.0 - self.failure) * min(spread, 1.0)


def _sums_of_log_ratios(epsilons: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of Σ±ε_i, where each sign is + with odds e^{ε_i}, and their probabilities.

    Values are never rounded down.
    """
    values: np.ndarray = np.zeros(1)
    weights: np.ndarray = np.ones(1)
    for one in sorted(epsilons):
        up = 1.0 / (1.0 + math.exp(-one))
        values, place = np.unique(np.concatenate([values + one, values - one]), return_inverse=True)
        weights = np.bincount(place, np.concatenate([weights * up, weights * (1.0 - up)]))
        if len(values) > _MOST_ATOMS:  # move each value up to a grid point, which can only raise the price
            width = (values[-1] - values[0]) / (_MOST_ATOMS // 2)
            steps = np.ceil((values - values[0]) / width)
            points, place = np.unique(steps, return_inverse=True)
            values, weights = values[0] + (points + 1e-9) * width, np.bincount(place, weights)
    return values, weights


NEIGHBOURS = "replace one record, n public"


@dataclass(frozen=True)
class Expense:
    """One release that was paid for.

    Attributes
    ----------
    purpose : the purpose of the release
    event : its cost
    """

    purpose: str
    event: Event

    def __str__(self) -> str:
        return f"{self.purpose} ({self.event})"


@dataclass(frozen=True)
class Guarantee:
    """A complete statement of the (ε, δ)-differential privacy of everything that was released.

    Attributes
    ----------
    epsilon, delta : the promise: for neighbouring data S and S' and any event E, P(E | S) ≤ e^ε P(E | S') + δ
    mechanism : the mechanism that made the noise
    spent_on : the releases with their costs, checked to cost no more than (ε, δ) together
    neighbours : the pairs of data sets that are hard to tell apart
    public : the facts that the guarantee assumes to be public
    conditions : further assumptions; empty if the guarantee holds whatever other parties do
    """

    epsilon: float
    delta: float
    mechanism: str
    spent_on: tuple[Expense, ...] = ()
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
                raise ValueError(f"{name} must be a text that is not empty, got {quote(getattr(self, name))}")
        for name in ("public", "conditions"):
            if not all(isinstance(item, str) for item in getattr(self, name)):
                raise ValueError(f"{name} must contain only texts, got {quote(getattr(self, name))}")
        if not all(isinstance(item, Expense) for item in self.spent_on):
            raise ValueError(f"spent_on must contain only Expense objects, got {quote(self.spent_on)}")
        events = [item.event for item in self.spent_on]
        if not is_within_budget(events, self.epsilon, self.delta):
            raise ValueError(
                f"the releases in spent_on cost ε = {epsilon(events, self.delta):g} at δ = {self.delta:g}, which is "
                f"more than the promised ε = {self.epsilon:g}"
            )

    @classmethod
    def of(cls, spent_on: Iterable[Expense], delta: float, mechanism: str, **others: Any) -> Guarantee:
        """Return the guarantee that these releases give together at this δ."""
        spent_on = tuple(spent_on)
        return cls(epsilon([item.event for item in spent_on], delta), delta, mechanism, spent_on, **others)

    def __str__(self) -> str:
        text = (
            f"Differentially private with ε = {self.epsilon:.4g} and δ = {self.delta:.3g} "
            f"(neighbours: {self.neighbours}) by {self.mechanism}"
        )
        if self.public:
            text += f"; public: {_join_with_and(self.public)}"
        if self.spent_on:
            text += f"; spent on: {_join_with_and(_count_repeats(self.spent_on))}"
        if self.conditions:
            text += f"; provided that {_join_with_and(self.conditions)}"
        return text + "."

    def __repr__(self) -> str:
        text = f"epsilon={self.epsilon:.6g}, delta={self.delta:.6g}, mechanism={self.mechanism!r}"
        return f"Guarantee({text}, releases={len(self.spent_on)}, conditions={len(self.conditions)})"

    def _repr_html_(self) -> str:
        from .._base import html

        rows = [[item.purpose, str(item.event)] for item in self.spent_on]
        spent = html.fold("What it was spent on", [html.table(["release", "price"], rows)]) if rows else ""
        return html.paragraph(str(replace(self, spent_on=()))) + spent

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as a dictionary for the JSON header of a file."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        spent_on = [{"purpose": item.purpose, **gaussian.to_dict(item.event)} for item in self.spent_on]
        return content | {"spent_on": spent_on, "public": list(self.public), "conditions": list(self.conditions)}

    @classmethod
    def from_dict(cls, content: Any) -> Guarantee:
        """Return the guarantee that :meth:`to_dict` wrote; raise a ValueError if its facts are not consistent."""
        names = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise ValueError(f"a guarantee must have the entries {', '.join(sorted(names))}, got {quote(content)}")
        for name in ("spent_on", "public", "conditions"):
            if not isinstance(content[name], list):
                raise ValueError(f"{name} of a guarantee must be a list, got {quote(content[name])}")
        return cls(**content | {"spent_on": tuple(_read_expense(item) for item in content["spent_on"])})


def is_within_budget(events: Iterable[Event], epsilon: float, delta: float) -> bool:
    """Return whether events together are (ε, δ)-private, with a relative tolerance of 10⁻⁹ on δ for rounding.

    Parameters
    ----------
    events : the events
    epsilon, delta : the budget
    """
    return _Composition.of(events).delta(epsilon) <= delta * (1 + 1e-9)


def _read_expense(content: Any) -> Expense:
    if not isinstance(content, dict) or not isinstance(content.get("purpose"), str):
        raise ValueError(f"each entry of spent_on must have a purpose, got {quote(content)}")
    return Expense(content["purpose"], gaussian.from_dict({k: v for k, v in content.items() if k != "purpose"}))


def _count_repeats(spent_on: Iterable[Expense]) -> list[str]:
    """Return one text for each run of equal releases."""
    runs = [(item, len(list(equal))) for item, equal in groupby(spent_on)]
    return [str(item) if n == 1 else f"{item.purpose} ({n} times {item.event})" for item, n in runs]


def _join_with_and(items: Iterable[str]) -> str:
    *rest, last = items
    return f"{', '.join(rest)} and {last}" if rest else last
