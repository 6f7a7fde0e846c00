"""The statistics of a private study: the number of rows, and the questions of private rounds, answered with noise.

A site keeps its own account. It takes the price of a question from its noise, not from what the message says of it, and
checks the whole study's price against its ledger: all different questions of a study together cost what its people
agreed to, whatever order they come in and whatever they ask. The theorems of docs/privacy/rounds.md hold for every
question that :func:`unpooled.privacy.rounds.messages.from_parts` lets pass, whoever made it.

A question that is asked again, because a site dropped out, gets fresh noise and is charged again. All answers together
may cost √2 times the study's price, so no server can go on asking until the ledger is empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..._base.compensated import Sum
from ..._base.text import quote
from ...data.sources import UnreadRows
from ...engines import as_engine
from ...gate import Release, facts
from ...gate.gate import NothingSpent
from ...privacy import Guarantee, Ledger, Overspend
from ...privacy.composition import Expense
from ...privacy.gaussian import GaussianEvent, mu_for
from ...privacy.ledger import Spending
from ...privacy.noise import GridGaussian
from ...privacy.rounds import messages
from ...privacy.rounds.custodian import RowHolder, noise_for
from ...privacy.rounds.questions import Question, RowQuestion
from ...privacy.sensitivity import PLANNED_ROWS
from ..secure.fixed_point import LARGEST_WHOLE, Shapes, vector_length
from ..study.privacy import REPEATS
from ..study.study import Study
from .config import SiteData
from .statistics import Parts, SiteAnswer, Totals, TotalsStatistic

_SPENT = 1 + 1e-9  # rounding of sums of prices


class _RoundStatistic(TotalsStatistic):
    """The common part of the two: sums over sites, with the number of sites in them."""

    def __post_init__(self) -> None:
        if self.study.kind != "private":
            raise ValueError("questions of private rounds do not belong to the study")

    def from_sums(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Totals:
        """Return the totals over all sites."""
        if float(sums["sites"].high[0]) != n_sites:
            raise ValueError("the sum is not over the sites that were asked")
        return Totals(self.digest, n_rows, sums)

    def _unread(self, data: SiteData) -> UnreadRows:
        """Return the rows, unread, after refusing everything that can be refused before anything is spent."""
        if data.weight is not None:
            raise NothingSpent("this site has weights, which private rounds cannot use, so nothing was spent")
        rows = UnreadRows.of(self.study.basis, *data.locate_rows(self.study))
        n_rows = PLANNED_ROWS if rows.n_rows is None else rows.n_rows  # n is public, and so are these reasons
        if n_rows > PLANNED_ROWS:
            raise NothingSpent(f"this site has more rows than the {PLANNED_ROWS} that the noise allows for")
        release = expected_release(self.study, n_rows, vector_length(self.shapes()), self._is_residual)
        if reasons := data.policy.refusals(release):
            raise NothingSpent(f"this may not leave, and nothing was spent: {'; '.join(reasons)}")
        return rows

    @property
    def _is_residual(self) -> bool:
        """Whether the sums are of a model's errors."""
        return False

    def _answer(self, n_rows: int, spending: Spending | None, **sums: np.ndarray) -> SiteAnswer:
        study, numbers = self.study, vector_length(self.shapes())
        totals = {"sites": Sum.of(np.ones(1))} | {name: Sum.of(value) for name, value in sums.items()}
        release = expected_release(study, n_rows, numbers, self._is_residual)
        return SiteAnswer(Totals(self.digest, n_rows, totals), release, spending)


@dataclass(frozen=True)
class RowCount(_RoundStatistic):
    """The number of rows, which is public: neighbours replace a record. A ledger must have room for the whole study."""

    study: Study

    name: ClassVar[str] = "count"

    def to_parts(self) -> Parts:
        """See :class:`Statistic`."""
        return {}, {}

    def shapes(self) -> Shapes:
        """See :class:`Statistic`."""
        return {"sites": (1,)}

    def compute(self, data: SiteData) -> SiteAnswer:
        """See :class:`Statistic`."""
        rows = self._unread(data)
        left = _open_ledger(data).mu_left()
        if left * _SPENT < self.study.mu:
            raise Overspend(f"{self.study.name} needs μ = {self.study.mu:.4g}, and the ledger has {left:.4g} left")
        return self._answer(rows.count(), None)


@dataclass(frozen=True)
class RoundQuestion(_RoundStatistic):
    """One question of private rounds at its price: clipped sums, to which the site adds its noise."""

    study: Study
    question: Question
    mu: float  #: the price that the noise is made for

    name: ClassVar[str] = "question"

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.mu) is not float or not 0 < self.mu <= self.study.mu * _SPENT:
            raise ValueError(f"mu must be at most the price of the study, {self.study.mu:.4g}, got {quote(self.mu)}")

    @property
    def price(self) -> float:
        """See :class:`Statistic`."""
        return self.mu

    @classmethod
    def read(cls, study: Study, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> RoundQuestion:
        """Return the question in a message; a ValueError if it is none that belongs to the study."""
        if study.kind != "private":
            raise ValueError("questions of private rounds do not belong to the study")
        if set(header) != {"mu", "frame", "about"} or header["frame"] != study.frame_digest:
            raise ValueError("the question does not name its price and the coordinates that came with the study")
        question = messages.from_parts(header["about"], arrays, study.frame, study.basis.n_features_in_)
        return cls(study, question, header["mu"])

    def to_parts(self) -> Parts:
        """See :class:`Statistic`."""
        about, arrays = messages.to_parts(self.question)
        return {"mu": self.mu, "frame": self.study.frame_digest, "about": about}, arrays

    @property
    def _is_residual(self) -> bool:
        return not isinstance(self.question, RowQuestion)

    @cached_property
    def noise(self) -> GridGaussian:
        """The noise, of which each site adds one share or all; no row is needed to know it."""
        return noise_for(self.question, 1, self.mu, *self.study.shares)

    def shapes(self) -> Shapes:
        """See :class:`Statistic`."""
        return {"sites": (1,), "answer": (self.question.size,)}

    def compute(self, data: SiteData) -> SiteAnswer:
        """See :class:`Statistic`; the policy is checked, the ledger charged, and only then a row is read."""
        study, rows = self.study, self._unread(data)
        _check_price(_open_ledger(data), self)
        spending = Spending(data.ledger, GaussianEvent(self.noise.mu), _purpose_of(self))
        spending.charge()
        _check_price(_open_ledger(data), self, is_paid=True)  # another process may have charged meanwhile
        source, features = spending.read(lambda: data.open_private(study, rows))
        if source.n_rows > PLANNED_ROWS or source.n_outputs != 1:
            raise ValueError(f"private rounds need one label and at most {PLANNED_ROWS} rows")
        bound = math.inf if study.promise.label_bound is None else float(study.promise.label_bound)
        holder = RowHolder([source], source.n_rows, bound, as_engine(None), 1, *study.shares, study.frame, [features])
        return self._answer(source.n_rows, spending, answer=holder.noisy_sums(self.question, self.mu))

    def to_vector(self, part: Totals) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`Statistic`; the sums are whole numbers on the grid of the noise, which are never rounded."""
        k = part.sums["answer"].high / self.noise.grid
        if not np.all((k == np.rint(k)) & (np.abs(k) < LARGEST_WHOLE)):
            raise ValueError("the sums are too large for the grid of their noise: measure the labels in a larger unit")
        high = np.concatenate([[part.n_rows], part.sums["sites"].high, k])
        return high, np.zeros_like(high)

    def from_vector(self, high: np.ndarray, low: np.ndarray) -> tuple[int, dict[str, Sum]]:
        """See :class:`Statistic`."""
        high = np.concatenate([high[:2], high[2:] * self.noise.grid])
        return super().from_vector(high, np.zeros_like(high))


def _purpose_of(statistic: RoundQuestion) -> str:
    """Return the purpose that the ledger names, by which the site knows the question again."""
    about = messages.NAMES[type(statistic.question)]
    return f"{_mark(statistic.study)} {statistic.digest[:16]}: {about}"


def _mark(study: Study) -> str:
    return f"{study.name}, private rounds {study.digest[:16]}, question"


def _check_price(ledger: Ledger, statistic: RoundQuestion, *, is_paid: bool = False) -> None:
    """Refuse a question with which a study would cost more than its people agreed to.

    Its different questions may cost μ together, and all answers √2·μ, those to questions that were asked again among
    them. ``is_paid`` says that the ledger was charged for the question already.
    """
    study, most = statistic.study, statistic.study.mu**2 * _SPENT
    spent: dict[str, float] = {} if is_paid else {_purpose_of(statistic): statistic.noise.mu**2}
    total = list(spent.values())
    for charge in ledger.charges():
        if charge.purpose.startswith(_mark(study)):
            price = math.fsum(event.mu**2 for event in charge.events if isinstance(event, GaussianEvent))
            spent[charge.purpose] = max(price, spent.get(charge.purpose, 0.0))
            total.append(price)
    again = math.fsum(total) > REPEATS * most
    if again or math.fsum(spent.values()) > most:
        what = "has asked again as often as it may" if again else "has asked for all that it was to cost"
        raise NothingSpent(f"the study {what}, so nothing {'leaves' if is_paid else 'was spent'}")


def _open_ledger(data: SiteData) -> Ledger:
    if data.ledger is None:
        raise NothingSpent("the study is private, but this site has no ledger")
    return Ledger(data.ledger)


def _guarantee_of(study: Study) -> Guarantee:
    """Return the guarantee of the whole study, as sites are told it."""
    p = study.promise
    spent = (Expense(study.name, GaussianEvent(mu_for(p.epsilon, p.delta))),)
    return Guarantee(
        p.epsilon, p.delta, study.mechanism, spent, public=("the number of records",), conditions=study.conditions
    )


def expected_release(study: Study, n_rows: int, numbers: int, is_residual: bool) -> Release:
    """Return the facts of an answer; its promise is that of the whole study."""
    basis, private = study.basis, facts.of_guarantee(_guarantee_of(study))
    return Release(
        "summary", basis.digest, study.targets, 1, n_rows, basis.n_features_, 1, 0.0, is_residual, private, numbers, 0
    )  # fmt: skip
