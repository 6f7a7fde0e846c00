"""A site's private sums: refuse what can be refused, charge the ledger, read the rows, add noise; in that order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..blocks.base import Source
from ..privacy import Reservation
from ..privacy.checks import budget
from ..summaries import Summary
from ..summaries.private import Asked
from . import facts
from .policy import Policy


class NothingSpent(ValueError):
    """Refused by the policy before budget was charged and before a row was looked at."""


def check_policy(policy: Policy, question: Asked) -> None:
    """Refuse what the policy would refuse of the noise in any case."""
    if policy.approve == "never":
        raise NothingSpent('this may not leave: the policy says approve = "never", so nothing was spent')
    promised = question.privacy.record(question.bounds, question.noise, question.purpose).guarantee
    if reasons := policy.about_privacy(facts.of_guarantee(promised)):
        raise NothingSpent(f"this may not leave, and nothing was spent: {'; '.join(reasons)}")


def spend(
    question: Asked,
    rows: Any,
    y: Any,
    reading: Callable[[], AbstractContextManager[Any]] = nullcontext,
    verbose: int = 0,
) -> tuple[Summary, Source, Reservation | None]:
    """The private summary, the rows it is of, and its charge; ``reading`` is around what may take a while."""
    unread = question.checked(rows, y)
    reservation = question.charge()
    with reading():
        source = question.opened(rows, y) if unread is None else unread
    budget(question.privacy.epsilon, question.privacy.delta, source.n_rows)
    return question.release(source, None, verbose), source, reservation
