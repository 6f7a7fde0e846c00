"""The ledger of a data set, which records how its privacy budget was spent. It is charged before the data are read.

The file has one hash-chained line for each event. The first line states the budget, a line "charged" spends part of it,
and a line "released" says that the release it paid for was made. A charge counts from the moment it is written: if a
program crashes between the two lines, the budget is spent.

Every release of private rows goes through :class:`Spending`, which keeps the steps in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from .._base.chain import START, Chain, ChainError, ChainGrown, Entry, Verification
from .._base.checks import check_budget
from .._base.text import quote
from . import composition, gaussian
from .composition import NEIGHBOURS, Expense, Guarantee, is_within_budget
from .gaussian import Event

T = TypeVar("T")


class LedgerError(ChainError):
    """A ledger that was changed, that does not exist, or a file that is not a ledger."""


class Overspend(ValueError):
    """A charge that the budget does not allow; nothing was charged."""


class _LedgerChain(Chain):
    noun = "ledger"


@dataclass(frozen=True)
class Charge:
    """One charge of the ledger.

    Attributes
    ----------
    number : the number of its line in the ledger
    time : the time in UTC
    purpose : the purpose of the release
    events : its cost
    is_released : whether the release was made
    """

    number: int
    time: str
    purpose: str
    events: tuple[Event, ...]
    is_released: bool


class Reservation:
    """Budget that was spent on a release that is still to be made.

    As a context manager it commits at the end of the block; after an exception it stays charged and unreleased.

    Parameters
    ----------
    ledger : the ledger that was charged
    number : the number of the charge
    events : its cost
    purpose : the purpose of the release
    """

    def __init__(self, ledger: Ledger, number: int, events: tuple[Event, ...], purpose: str) -> None:
        self.ledger, self.number, self.events, self.purpose = ledger, number, events, purpose

    @property
    def expenses(self) -> tuple[Expense, ...]:
        """The charge as expenses of a :class:`Guarantee`."""
        return tuple(Expense(self.purpose, event) for event in self.events)

    def commit(self, **facts: Any) -> None:
        """Note in the ledger that the release was made, with public facts about it such as a file's SHA-256."""
        self.ledger._append({"what": "released", "charge": self.number, "facts": facts})

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is None:
            self.commit()


class Ledger:
    """The ledger in a file that :meth:`Ledger.create` made; several processes may use one file at the same time.

    Two changes cannot be detected from the file alone: that its last lines were cut off, and that the whole file was
    rewritten. To detect these too, keep the head of the ledger elsewhere and give it to :meth:`verify`.

    Parameters
    ----------
    path : the file
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._chain = _LedgerChain(path)
        self.dataset, self.epsilon, self.delta = _read_opening(self._entries(), self._chain.path)

    @classmethod
    def create(cls, path: str | os.PathLike[str], epsilon: float, delta: float, dataset: str) -> Ledger:
        """Create a ledger with the budget for everything that will ever be released; it cannot be raised later."""
        epsilon, delta = check_budget(epsilon, delta)
        if not isinstance(dataset, str) or not dataset:
            raise ValueError(f"dataset must be a name for the data set, got {quote(dataset)}")
        chain = _LedgerChain(path)
        opening = {"what": "opened", "dataset": dataset, "epsilon": epsilon, "delta": delta, "neighbours": NEIGHBOURS}
        try:
            chain.append(opening, after=START)
        except ChainGrown:
            raise LedgerError(
                f"{chain.path} is a ledger already: open it with Ledger(path), or choose another file"
            ) from None
        return cls(path)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._chain.path

    def charge(self, spending: Event | Iterable[Event], purpose: str) -> Reservation:
        """Spend budget on events that are about to happen, before the data are read.

        An Overspend error leaves the ledger unchanged. Composition is adaptive: events may depend on earlier results.
        """
        new = (spending,) if isinstance(spending, Event) else tuple(spending)
        if not new or not all(isinstance(event, Event) for event in new):
            raise ValueError(f"spending must be one event or several, got {quote(spending)}")
        if not isinstance(purpose, str) or not purpose:
            raise ValueError(f"purpose must say what is released, got {quote(purpose)}")
        event = {"what": "charged", "purpose": purpose, "events": [gaussian.to_dict(item) for item in new]}
        while True:
            entries = self._entries()
            before = [item for charge in _read_charges(entries, self.path) for item in charge.events]
            if not is_within_budget([*before, *new], self.epsilon, self.delta):
                raise Overspend(self._refusal(before, new, purpose))
            try:
                entry = self._append(event, after=entries[-1].sha256)
            except ChainGrown:  # another process has charged the ledger meanwhile: read it again
                continue
            return Reservation(self, entry.sequence, new, purpose)

    def charges(self) -> list[Charge]:
        """Return all charges so far, in order."""
        return _read_charges(self._entries(), self.path)

    def events(self) -> list[Event]:
        """Return the events of all charges, in order."""
        return [event for charge in self.charges() for event in charge.events]

    def epsilon_spent(self) -> float:
        """Return ε of all charges together, at the δ of the budget."""
        return composition.epsilon(self.events(), self.delta)

    def mu_left(self) -> float:
        """Return the largest μ of a Gaussian event that may still be charged; zero if the budget is spent."""
        return composition.mu_left(self.events(), self.epsilon, self.delta)

    def guarantee(self, mechanism: str, **others: Any) -> Guarantee:
        """Return the guarantee of the whole budget, with everything that was charged."""
        spent_on = [Expense(charge.purpose, event) for charge in self.charges() for event in charge.events]
        return Guarantee(self.epsilon, self.delta, mechanism, tuple(spent_on), **others)

    def verify(self, expected_head: str | None = None, expected_count: int | None = None) -> Verification:
        """Check the chain, and that it still contains the head and the number of entries noted earlier."""
        return self._chain.verify(expected_head, expected_count)

    def __repr__(self) -> str:
        return (
            f"<Ledger of {self.dataset!r} in {self.path}: ε = {self.epsilon_spent():.4g} of {self.epsilon:g} spent "
            f"at δ = {self.delta:g}, in {len(self.charges())} charges>"
        )

    def _repr_html_(self) -> str:
        from .._base import html

        return html.literal(str(self))

    def __str__(self) -> str:
        charges = self.charges()
        rows = [("", "time (UTC)", "for", "price", "ε so far", "")]
        sofar: list[Event] = []
        for charge in charges:
            sofar.extend(charge.events)
            price = "; ".join(str(event) for event in charge.events[:2])
            price += f"; and {len(charge.events) - 2} more" if len(charge.events) > 2 else ""
            total = f"{composition.epsilon(sofar, self.delta):.4g}"
            state = "released" if charge.is_released else "charged, not released"
            rows.append((str(charge.number), charge.time[:19].replace("T", " "), charge.purpose, price, total, state))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        spent = composition.epsilon(sofar, self.delta)
        return "\n".join(
            [
                f"{self.dataset}: a budget of ε = {self.epsilon:g} at δ = {self.delta:g} ({NEIGHBOURS})",
                *(table if charges else ["nothing was charged yet"]),
                f"spent: ε = {spent:.4g}; left: Gaussian noise of μ = {self.mu_left():.4g}",
            ]
        )

    def _refusal(self, before: list[Event], new: tuple[Event, ...], purpose: str) -> str:
        spent, would = composition.epsilon(before, self.delta), composition.epsilon([*before, *new], self.delta)
        left = composition.mu_left(before, self.epsilon, self.delta)
        return (
            f"{purpose} would bring {self.dataset} to ε = {would:.4g} at δ = {self.delta:g}, but its budget is "
            f"ε = {self.epsilon:g}, of which {spent:.4g} is spent: the rest pays for Gaussian noise of μ = {left:.4g}"
        )

    def _entries(self) -> list[Entry]:
        return self._chain.entries()

    def _append(self, event: Mapping[str, Any], after: str | None = None) -> Entry:
        return self._chain.append(event, after=after)


class Spending:
    """One release of private rows, always in the same order: check, charge, read, add noise, note the release.

    Use it as a context manager. Checks in its block before the first :meth:`read` cost nothing. The first :meth:`read`
    charges the ledger and only then calls its reader. At the end of the block, after the noise was added, the ledger
    gets a line that the release was made. After any exception in the block, Ctrl-C included, the charge stays and no
    such line is written: budget is never refunded once rows may have been seen.

    Parameters
    ----------
    ledger : a Ledger or the path of one, which is opened when it is charged; None charges no ledger
    price : the cost of the whole release
    purpose : the purpose of the release
    """

    def __init__(
        self, ledger: Ledger | str | os.PathLike[str] | None, price: Event | Iterable[Event], purpose: str
    ) -> None:
        self._ledger, self._price, self._purpose = ledger, price, purpose
        self._reservation: Reservation | None = None
        self._is_paid = self._is_over = False
        self._facts: dict[str, Any] = {}

    def charge(self) -> None:
        """Charge the ledger, unless that has been done.

        Lists and CSV must be read to learn their size, so for them the ledger is charged first.
        """
        if self._is_paid:
            return
        if self._ledger is not None:
            ledger = self._ledger if isinstance(self._ledger, Ledger) else Ledger(self._ledger)
            self._reservation = ledger.charge(self._price, self._purpose)
        self._is_paid = True

    def read(self, reader: Callable[[], T]) -> T:
        """Charge the ledger, then call ``reader``, which reads rows, and return its result."""
        self.charge()
        return reader()

    def note(self, **facts: Any) -> None:
        """Add public facts about the release, such as a file's SHA-256, to the ledger's line about it."""
        self._facts |= facts

    def __enter__(self) -> Spending:
        if self._is_over:
            raise RuntimeError("this release was made already: start a new one, which is charged separately")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._is_over = True
        if kind is None and self._reservation is not None:
            self._reservation.commit(**self._facts)


def check_ledger(given: Any) -> None:
    """Raise a ValueError unless the argument is a ledger, the path of one, or None."""
    if not (given is None or isinstance(given, (Ledger, str, os.PathLike))):
        raise ValueError(f"ledger must be a Ledger or the path of one, got {quote(given)}")


def _read_opening(entries: list[Entry], path: Path) -> tuple[str, float, float]:
    if not entries:
        raise LedgerError(f"there is no ledger {path}: create one with Ledger.create, or `unpooled ledger create`")
    event = entries[0].event
    try:
        if event["what"] != "opened" or event["neighbours"] != NEIGHBOURS or not isinstance(event["dataset"], str):
            raise ValueError
        return event["dataset"], *check_budget(event["epsilon"], event["delta"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise LedgerError(f"{path} is not a ledger that this version of unpooled can read") from None


def _read_charges(entries: list[Entry], path: Path) -> list[Charge]:
    numbers = [entry.event.get("charge") for entry in entries if entry.event.get("what") == "released"]
    released = {number for number in numbers if type(number) is int}
    charges = []
    for entry in entries[1:]:
        what = entry.event.get("what")
        try:
            if what == "charged":
                events = tuple(gaussian.from_dict(item) for item in entry.event["events"])
                purpose = str(entry.event["purpose"])
                charges.append(Charge(entry.sequence, entry.time, purpose, events, entry.sequence in released))
            elif what != "released":
                raise ValueError(f"{quote(what)} is unknown")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise LedgerError(
                f"entry {entry.sequence} of {path} cannot be priced, so nothing more can be charged: {error}"
            ) from None
    return charges
