"""NoiseRecord, the record of the noise in a summary: the guarantees that hold, for which sums, and the noise levels.

A ``PrivacyRequest`` (:mod:`.release`) asks for noise, and a ``NoiseRecord`` says what was added. Records add up as the
summaries do, and are checked against their guarantees when they are read from a file. Everything that a model needs to
know about the noise in a summary is in its record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .._base.checks import check_positive, check_whole
from .._base.text import quote
from .composition import NEIGHBOURS, Expense, Guarantee
from .sensitivity import WeightedSums

MECHANISM = "discrete Gaussian noise on a grid"


@dataclass(frozen=True)
class NoiseRecord:
    """The public facts about the noise in a summary.

    Attributes
    ----------
    guarantees : the guarantees of the sites whose sums are included, each with the number of sites that have it. Every
        row belongs to one site, and the guarantee of that site holds for it whatever else is added
    sigma : the standard deviation of the noise in every field; for ``gram`` that of the diagonal, which is √2 times
        that of the other entries
    kappa, label_bound : κ and c, the bounds to which features were shrunk and labels clipped
    order, means, labels : the sums that were released together, and their weights; see :class:`WeightedSums`
    parties, missing : the number of shares in which the noise was made, and how many of them may be missing
    shares : the number of shares that have been added up
    grid : the grid of the noise, in units of the weighted sums
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
        """The guarantee that holds at every site: the largest ε and δ over all of them."""
        each = [one for _, one in self.guarantees]
        if len(each) == 1:
            return each[0]
        worst = max(each, key=_mu_of_guarantee)
        epsilon, delta = max(one.epsilon for one in each), max(one.delta for one in each)
        return Guarantee(epsilon, delta, MECHANISM, worst.spent_on, NEIGHBOURS, worst.public, worst.conditions)

    @property
    def shares_needed(self) -> int:
        """The number of shares that must have been added up for the guarantee to hold."""
        return self.parties - self.missing

    @property
    def is_complete(self) -> bool:
        """Whether enough shares have been added up for the guarantee to hold."""
        return self.shares >= self.shares_needed

    def check_complete(self) -> None:
        """Raise a ValueError if shares are missing that the guarantee needs."""
        if not self.is_complete:
            raise ValueError(
                f"the sum holds {self.shares} of {self.parties} shares of the noise, and the guarantee needs at least "
                f"{self.shares_needed}; add the missing shares: the records included are not yet protected as promised"
            )

    def difference(self, other: NoiseRecord) -> str:
        """Return the reason why two records cannot be combined, or an empty text if they can."""
        for name, words in _SAME_IN_BOTH.items():
            a, b = getattr(self, name), getattr(other, name)
            if a != b:
                return f"{words} {_as_text(a)} in one summary and {_as_text(b)} in the other"
        if self.parties > 1:
            if self.grid != other.grid or _promises(self) != _promises(other):
                return "their shares of the noise belong to different guarantees, or to sites of too different sizes"
            if self.shares + other.shares > self.parties:
                return f"together they would hold more than the {self.parties} shares that the noise was split into"
        return ""

    def __add__(self, other: NoiseRecord) -> NoiseRecord:
        """Return the record of the sum of two summaries: variances add, and so do the numbers of sites."""
        counts: dict[str, tuple[int, Guarantee]] = {}
        for n, one in (*self.guarantees, *other.guarantees):
            key = json.dumps(one.to_dict(), sort_keys=True)
            counts[key] = (counts[key][0] + n if key in counts else n, one)
        sigma = {name: math.hypot(value, other.sigma[name]) for name, value in self.sigma.items()}
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        facts |= {"shares": self.shares + other.shares, "grid": min(self.grid, other.grid)}
        return NoiseRecord(**facts | {"guarantees": tuple(counts[key] for key in sorted(counts)), "sigma": sigma})

    def without_field(self, name: str) -> NoiseRecord:
        """Return the record of the summary without one of its fields."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        return NoiseRecord(**facts | {"sigma": {field: value for field, value in self.sigma.items() if field != name}})

    def __str__(self) -> str:
        text = str(self.guarantee)
        sites = sum(n for n, _ in self.guarantees)
        if sites > 1 and self.parties == 1:
            text += f" This is the sum over {sites} sites, each of which added its own noise"
            text += "." if len(self.guarantees) == 1 else "; ε and δ are the largest of all sites."
        if self.parties > 1:
            text += f" The sum holds {self.shares} of {self.parties} shares of the noise"
            text += "." if self.is_complete else f", and the guarantee needs at least {self.shares_needed}."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the record as a dictionary for the header of a file."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        guarantees = [{"sites": n, **one.to_dict()} for n, one in self.guarantees]
        return content | {"guarantees": guarantees, "sigma": dict(self.sigma)}

    @classmethod
    def from_dict(cls, content: Any, n_features: int) -> NoiseRecord:
        """Return the record that :meth:`to_dict` wrote; raise a ValueError if it is incomplete or inconsistent."""
        names = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise ValueError(f"its record of the noise must have the entries {', '.join(sorted(names))}")
        if not isinstance(content["guarantees"], list) or not content["guarantees"]:
            raise ValueError("its record of the noise must list the guarantee of every site")
        guarantees = tuple(_read_guarantee(item) for item in content["guarantees"])
        sigma = content["sigma"]
        if not isinstance(sigma, dict) or not sigma:
            raise ValueError("its record of the noise must give the standard deviation for every field")
        record = cls(
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
        record._check(n_features)
        return record

    def _check(self, n_features: int) -> None:
        """Check sites against shares, conditions against shares, and the noise against the guarantees."""
        if self.missing >= self.parties or (self.parties > 1 and self.shares > self.parties):
            raise ValueError("the number of shares of its noise does not agree with the number of parties")
        if sum(n for n, _ in self.guarantees) != self.shares:
            raise ValueError("its number of guarantees is not the number of sites that were added")
        conditions = (share_condition(self.parties, self.missing),) if self.parties > 1 else ()
        for _, one in self.guarantees:
            if one.neighbours != NEIGHBOURS or one.mechanism != MECHANISM or one.conditions != conditions:
                raise ValueError("its guarantee is not one of this mechanism, these neighbours and these shares")
            if not one.spent_on:
                raise ValueError("its guarantee does not say what was spent")
        released = WeightedSums(n_features, self.kappa, self.label_bound, self.order, self.means, self.labels, True)
        weights = {name: float(values[0]) for name, values in released.weights.items()}
        if set(self.sigma) not in (set(weights), set(weights) - {"gram"}):
            raise ValueError("the fields with noise are not those that are released together")
        noise = [value * weights[name] for name, value in self.sigma.items()]
        # The variance that these guarantees need: (Δ/μ)² at every site, divided by the number of shares needed.
        needed = (
            sum(n * (released.sensitivity / _mu_of_guarantee(one)) ** 2 for n, one in self.guarantees)
            / self.shares_needed
        )
        if max(noise) > min(noise) * (1 + 1e-6) or min(noise) ** 2 < needed * (1 - 1e-6):
            raise ValueError("its noise is less than its guarantee needs")


def share_condition(parties: int, missing: int) -> str:
    """Return the condition of a guarantee whose noise is made in shares."""
    # Files store this sentence and are compared with it, so its words cannot change.
    return (
        f"nobody sees more than the sum over {parties} sites and all but {missing} of these add their share of the "
        "noise and keep it to themselves"
    )


def compose_guarantees(guarantees: tuple[Guarantee, ...]) -> Guarantee:
    """Return the guarantee of several releases of the same records: μ² adds up, and ε is given at the largest δ."""
    if len(guarantees) == 1:
        return guarantees[0]
    expenses = tuple(item for one in guarantees for item in one.spent_on)
    public, conditions = (
        tuple(dict.fromkeys(item for one in guarantees for item in getattr(one, name)))
        for name in ("public", "conditions")
    )
    delta = max(one.delta for one in guarantees)
    return Guarantee.of(expenses, delta, MECHANISM, public=public, conditions=conditions)


def _mu_of_guarantee(guarantee: Guarantee) -> float:
    """Return μ of all releases of a guarantee together."""
    return math.hypot(*(_mu_of_expense(item) for item in guarantee.spent_on))


def _mu_of_expense(item: Expense) -> float:
    mu = getattr(item.event, "mu", None)
    if mu is None:
        raise ValueError("its guarantee is not one of Gaussian noise")
    return float(mu)


def _read_guarantee(item: Any) -> tuple[int, Guarantee]:
    if not isinstance(item, dict):
        raise ValueError(f"a site's guarantee must be an object, got {quote(item)}")
    return check_whole("sites", item.get("sites")), Guarantee.from_dict({k: v for k, v in item.items() if k != "sites"})


def _promises(record: NoiseRecord) -> set[tuple[float, float]]:
    return {(one.epsilon, one.delta) for _, one in record.guarantees}


def _as_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


_SAME_IN_BOTH = {
    "label_bound": "labels are bounded by",
    "kappa": "features are shrunk to norm",
    "order": "the noise is of sums of order",
    "means": "the weight of means is",
    "labels": "the weight of labels is",
    "parties": "the number of parties is",
    "missing": "the number of shares that may be missing is",
}
