"""A privacy guarantee as something to read, to compare and to put into a file's header."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

from .._base.checks import budget
from .._base.text import shown
from . import composition, events
from .events import Event

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
        epsilon, delta = budget(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        for name in ("spent_on", "public", "conditions"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("mechanism", "neighbours"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"{name} must say something, got {shown(getattr(self, name))}")
        for name in ("public", "conditions"):
            if not all(isinstance(item, str) for item in getattr(self, name)):
                raise ValueError(f"{name} must be made of text, got {shown(getattr(self, name))}")
        if not all(isinstance(item, Spent) for item in self.spent_on):
            raise ValueError(f"spent_on must be made of Spent objects, got {shown(self.spent_on)}")
        if not fits([item.event for item in self.spent_on], epsilon, delta):
            raise ValueError(
                f"what was spent costs more than ε = {epsilon:g} at δ = {delta:g}: "
                f"ε = {composition.epsilon([item.event for item in self.spent_on], delta):g}"
            )

    @classmethod
    def of(cls, spent_on: Iterable[Spent], delta: float, mechanism: str, **others: Any) -> Guarantee:
        """The guarantee that these releases add up to, at this δ."""
        spent_on = tuple(spent_on)
        epsilon = composition.epsilon([item.event for item in spent_on], delta)
        return cls(epsilon, delta, mechanism, spent_on, **others)

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
        spent = html.folded("What it was spent on", [html.table(["release", "price"], rows)]) if rows else ""
        return html.paragraph(str(replace(self, spent_on=()))) + spent

    def to_dict(self) -> dict[str, Any]:
        """For the JSON header of a file."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        spent_on = [{"purpose": item.purpose, **events.to_dict(item.event)} for item in self.spent_on]
        return content | {"spent_on": spent_on, "public": list(self.public), "conditions": list(self.conditions)}

    @classmethod
    def from_dict(cls, content: Any) -> Guarantee:
        """The inverse; a ValueError where something is missing, unknown, or does not add up."""
        names = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise ValueError(f"a guarantee must have the facts {', '.join(sorted(names))}, got {shown(content)}")
        for name in ("spent_on", "public", "conditions"):
            if not isinstance(content[name], list):
                raise ValueError(f"{name} of a guarantee must be a list, got {shown(content[name])}")
        return cls(**content | {"spent_on": tuple(_spent(item) for item in content["spent_on"])})


def fits(spent: Iterable[Event], epsilon: float, delta: float) -> bool:
    """Whether events together are (ε, δ)-private; to nine digits of δ, which sums in floating point need."""
    return composition.delta(spent, epsilon) <= delta * (1 + 1e-9)


def _spent(content: Any) -> Spent:
    if not isinstance(content, dict) or not isinstance(content.get("purpose"), str):
        raise ValueError(f"what was spent must say what for, got {shown(content)}")
    return Spent(content["purpose"], events.from_dict({k: v for k, v in content.items() if k != "purpose"}))


def _counted(spent_on: Iterable[Spent]) -> list[str]:
    """One text for equal releases in a row."""
    runs = [(item, len(list(equal))) for item, equal in groupby(spent_on)]
    return [str(item) if n == 1 else f"{item.purpose} ({n} times {item.event})" for item, n in runs]


def _listed(items: Iterable[str]) -> str:
    *rest, last = items
    return f"{', '.join(rest)} and {last}" if rest else last
