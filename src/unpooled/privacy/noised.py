"""Noised, the record of the noise in a summary: which guarantees hold, for which sums, and with how much noise.

``Private`` (:mod:`.release`) is a request, and ``Noised`` is a record of what was done. The record is added up as the
summaries are, and it is checked against its guarantees when it is read. ``Contents`` of a summary says nothing about
privacy, and a model asks the record and nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .._base.checks import check_positive, check_whole
from .._base.text import quote
from .composition import NEIGHBOURS, Guarantee, Spent
from .sensitivity import Released

MECHANISM = "discrete Gaussian noise on a grid"


@dataclass(frozen=True)
class Noised:
    """What is known of the noise in a summary. All of it is public.

    Attributes
    ----------
    guarantees : of the sites whose sums are in it, each with how many sites have just that one. A record is at one
        site, so its guarantee is that of its site, whatever was added
    sigma : the standard deviation of the noise in every field; of ``gram`` on its diagonal, beside it 1/√2 of that
    kappa, label_bound : κ and c, the bounds that features and labels were made to keep
    order, means, labels : which sums were released together, and their weights; see :class:`Released`
    parties, missing : in how many shares the noise was made, and how many of these the guarantee can do without
    shares : how many messages were added up
    grid : of the noise, in units of the weighted sums
    """

    guarantees: tuple[tuple[int, Guarantee], ...]
    sigma: Mapping[str, float]
    kappa: float
    label_bound: float
    order: int
    means: float
    labels: float
    parties: int
    missing: int
    shares: int
    grid: float

    @property
    def guarantee(self) -> Guarantee:
        """What holds for the records of every site: the largest ε and δ of all."""
        found = [one for _, one in self.guarantees]
        if len(found) == 1:
            return found[0]
        worst = max(found, key=cost)
        epsilon, delta = max(one.epsilon for one in found), max(one.delta for one in found)
        return Guarantee(epsilon, delta, MECHANISM, worst.spent_on, NEIGHBOURS, worst.public, worst.conditions)

    @property
    def wanted(self) -> int:
        """How many messages must have been added up for the guarantee to hold."""
        return self.parties - self.missing

    @property
    def complete(self) -> bool:
        """Whether they have been."""
        return self.shares >= self.wanted

    def check_complete(self) -> None:
        """An error where a model would be made of a sum that has too little noise in it."""
        if not self.complete:
            raise ValueError(
                f"the sum holds {self.shares} of {self.parties} shares of the noise, and the guarantee needs at least "
                f"{self.wanted}: with fewer there is too little noise in it for the records that are; add the others"
            )

    def difference(self, other: Noised) -> str:
        """Why two do not add up; empty where they do."""
        for name, words in _AGREED.items():
            a, b = getattr(self, name), getattr(other, name)
            if a != b:
                return f"{words} {_said(a)} in one and {_said(b)} in the other"
        if self.parties > 1:
            if self.grid != other.grid or _promise(self) != _promise(other):
                return "their shares of the noise were planned for different guarantees, or for too different sites"
            if self.shares + other.shares > self.parties:
                return f"together they would hold more than the {self.parties} shares that were planned"
        return ""

    def __add__(self, other: Noised) -> Noised:
        """Variances add; so do the sites."""
        counts: dict[str, tuple[int, Guarantee]] = {}
        for n, one in (*self.guarantees, *other.guarantees):
            key = json.dumps(one.to_dict(), sort_keys=True)
            counts[key] = (counts[key][0] + n if key in counts else n, one)
        sigma = {name: math.hypot(value, other.sigma[name]) for name, value in self.sigma.items()}
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        facts |= {"shares": self.shares + other.shares, "grid": min(self.grid, other.grid)}
        return Noised(**facts | {"guarantees": tuple(counts[key] for key in sorted(counts)), "sigma": sigma})

    def without(self, name: str) -> Noised:
        """The same where a field was dropped."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        return Noised(**facts | {"sigma": {field: value for field, value in self.sigma.items() if field != name}})

    def __str__(self) -> str:
        said = str(self.guarantee)
        sites = sum(n for n, _ in self.guarantees)
        if sites > 1 and self.parties == 1:
            said += f" It is the sum of {sites} sites, each with noise of its own"
            said += "." if len(self.guarantees) == 1 else "; the largest ε and δ are said."
        if self.parties > 1:
            said += f" It holds {self.shares} of {self.parties} shares of the noise"
            said += "." if self.complete else f", and the guarantee needs at least {self.wanted}."
        return said

    def to_dict(self) -> dict[str, Any]:
        """For the header of a file."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        guarantees = [{"sites": n, **one.to_dict()} for n, one in self.guarantees]
        return content | {"guarantees": guarantees, "sigma": dict(self.sigma)}

    @classmethod
    def from_dict(cls, content: Any, n_features: int) -> Noised:
        """The inverse; a ValueError where it does not say everything, or contradicts itself."""
        names = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise ValueError(f"what it says of its privacy must be the facts {', '.join(sorted(names))}")
        if not isinstance(content["guarantees"], list) or not content["guarantees"]:
            raise ValueError("it must have the guarantee of every site")
        guarantees = tuple(_counted(item) for item in content["guarantees"])
        sigma = content["sigma"]
        if not isinstance(sigma, dict) or not sigma:
            raise ValueError("it must say how much noise is in every field")
        found = cls(
            guarantees,
            {str(name): check_positive(f"the noise of {name}", value) for name, value in sigma.items()},
            check_positive("kappa", content["kappa"]),
            check_positive("label_bound", content["label_bound"]),
            check_whole("order", content["order"]),
            check_positive("means", content["means"], zero=True),
            check_positive("labels", content["labels"]),
            check_whole("parties", content["parties"]),
            check_whole("missing", content["missing"], 0),
            check_whole("shares", content["shares"]),
            check_positive("grid", content["grid"]),
        )
        found._check(n_features)
        return found

    def _check(self, n_features: int) -> None:
        """That the facts go together: sites with shares, shares with conditions, and noise with guarantees."""
        if self.missing >= self.parties or (self.parties > 1 and self.shares > self.parties):
            raise ValueError("the shares of its noise do not go with the number of parties")
        if sum(n for n, _ in self.guarantees) != self.shares:
            raise ValueError("it has not a guarantee for every site that was added")
        conditions = (condition(self.parties, self.missing),) if self.parties > 1 else ()
        for _, one in self.guarantees:
            if one.neighbours != NEIGHBOURS or one.mechanism != MECHANISM or one.conditions != conditions:
                raise ValueError("its guarantee is not one of this mechanism, these neighbours and these shares")
            if not one.spent_on:
                raise ValueError("its guarantee does not say what was spent")
        released = Released(n_features, self.kappa, self.label_bound, self.order, self.means, self.labels, True)
        weights = {name: float(values[0]) for name, values in released.weights.items()}
        if set(self.sigma) not in (set(weights), set(weights) - {"gram"}):
            raise ValueError("the fields it has noise for are not those that are released together")
        noise = [value * weights[name] for name, value in self.sigma.items()]
        # The variance that these guarantees need: a site's own is (Δ/μ)², or its share of that.
        needed = sum(n * (released.sensitivity / cost(one)) ** 2 for n, one in self.guarantees) / self.wanted
        if max(noise) > min(noise) * (1 + 1e-6) or min(noise) ** 2 < needed * (1 - 1e-6):
            raise ValueError("its noise is less than its guarantee needs")


def condition(parties: int, missing: int) -> str:
    """What a guarantee rests on where noise is made in shares."""
    return (
        f"nobody sees more than the sum over {parties} sites and all but {missing} of these add their share of the "
        "noise and keep it to themselves"
    )


def composed(guarantees: tuple[Guarantee, ...]) -> Guarantee:
    """Many releases of the same records, one after another: μ² adds up, and ε is told at the largest δ."""
    if len(guarantees) == 1:
        return guarantees[0]
    spent = tuple(item for one in guarantees for item in one.spent_on)
    public, conditions = (
        tuple(dict.fromkeys(item for one in guarantees for item in getattr(one, name)))
        for name in ("public", "conditions")
    )
    delta = max(one.delta for one in guarantees)
    return Guarantee.of(spent, delta, MECHANISM, public=public, conditions=conditions)


def cost(guarantee: Guarantee) -> float:
    """μ of all that was spent."""
    return math.hypot(*(_mu(item) for item in guarantee.spent_on))


def _mu(item: Spent) -> float:
    mu = getattr(item.event, "mu", None)
    if mu is None:
        raise ValueError("its guarantee is of something else than Gaussian noise")
    return float(mu)


def _counted(item: Any) -> tuple[int, Guarantee]:
    if not isinstance(item, dict):
        raise ValueError(f"a site's guarantee must be an object, got {quote(item)}")
    return check_whole("sites", item.get("sites")), Guarantee.from_dict({k: v for k, v in item.items() if k != "sites"})


def _promise(noised: Noised) -> set[tuple[float, float]]:
    return {(one.epsilon, one.delta) for _, one in noised.guarantees}


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


_AGREED = {
    "label_bound": "labels are bounded by",
    "kappa": "features are shrunk to norm",
    "order": "the noise is of sums of order",
    "means": "the weight of means is",
    "labels": "the weight of labels is",
    "parties": "the number of parties is",
    "missing": "the number of shares that may be missing is",
}
