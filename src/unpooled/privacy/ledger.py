"""The ledger of a data set: what its privacy budget was spent on. Spending comes before looking at the data.

The file has one hash-chained line for each event. The first line says what the budget is, a line "charged" takes from
it, and a line "released" says that what was paid for has left. A charge counts from the moment it is written: if a
program crashes between the two lines, the budget is spent.

Whatever is released of private rows goes through :class:`Spending`, which keeps the order of its steps.
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
from .composition import NEIGHBOURS, Guarantee, Spent, fits
from .gaussian import Event

T = TypeVar("T")


class LedgerError(ChainError):
    """A ledger that was changed, does not exist, or is something else."""


class Overspend(ValueError):
    """The budget does not allow this; nothing was charged."""


class _LedgerChain(Chain):
    noun = "ledger"


@dataclass(frozen=True)
class Charge:
    """One charge of the ledger, and whether what it paid for has left.

    Attributes
    ----------
    number : that of its line in the ledger
    time : in UTC
    purpose : what it was for
    events : what it cost
    released : whether it has left
    """

    number: int
    time: str
    purpose: str
    events: tuple[Event, ...]
    released: bool


class Reservation:
    """Budget that is spent, for a release still to be made.

    As a context manager it is committed at the end of the block; after an exception it stays charged and unreleased.

    Parameters
    ----------
    ledger : whose budget it is
    number : of the charge
    events : what it cost
    purpose : what it is for
    """

    def __init__(self, ledger: Ledger, number: int, events: tuple[Event, ...], purpose: str) -> None:
        self.ledger, self.number, self.events, self.purpose = ledger, number, events, purpose

    @property
    def spent(self) -> tuple[Spent, ...]:
        """For a :class:`Guarantee`."""
        return tuple(Spent(self.purpose, event) for event in self.events)

    def commit(self, **facts: Any) -> None:
        """Note that the release was made, with public facts about it (a file's SHA-256, say)."""
        self.ledger._append({"what": "released", "charge": self.number, "facts": facts})

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is None:
            self.commit()


class Ledger:
    """The ledger in a file that :meth:`Ledger.create` made; processes may use one file at the same time.

    Two things cannot be seen in the file alone: that its last lines were cut off, and that all of it was written anew.
    Whoever wants to see these too notes the head elsewhere, and gives it to :meth:`verify`.

    Parameters
    ----------
    path : the file
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._chain = _LedgerChain(path)
        self.dataset, self.epsilon, self.delta = _opening(self._entries(), self._chain.path)

    @classmethod
    def create(cls, path: str | os.PathLike[str], epsilon: float, delta: float, dataset: str) -> Ledger:
        """A new ledger with this budget for all that will ever be released of the data set; it cannot be raised."""
        epsilon, delta = check_budget(epsilon, delta)
        if not isinstance(dataset, str) or not dataset:
            raise ValueError(f"dataset must be a name for the data set, got {quote(dataset)}")
        chain = _LedgerChain(path)
        opening = {"what": "opened", "dataset": dataset, "epsilon": epsilon, "delta": delta, "neighbours": NEIGHBOURS}
        try:
            chain.append(opening, after=START)
        except ChainGrown:
            raise LedgerError(
                f"{chain.path} is a ledger already: open it with Ledger(path), or choose another place"
            ) from None
        return cls(path)

    @property
    def path(self) -> Path:
        """The file."""
        return self._chain.path

    def charge(self, spending: Event | Iterable[Event], purpose: str) -> Reservation:
        """Spend budget for events that are about to happen, before the data are touched; an Overspend changes nothing.

        Events that may depend on the results of one another are fine: composition is adaptive.
        """
        new = (spending,) if isinstance(spending, Event) else tuple(spending)
        if not new or not all(isinstance(event, Event) for event in new):
            raise ValueError(f"a charge must be one event or several, got {quote(spending)}")
        if not isinstance(purpose, str) or not purpose:
            raise ValueError(f"purpose must say what is released, got {quote(purpose)}")
        event = {"what": "charged", "purpose": purpose, "events": [gaussian.to_dict(item) for item in new]}
        while True:
            entries = self._entries()
            before = [item for charge in _charges(entries, self.path) for item in charge.events]
            if not fits([*before, *new], self.epsilon, self.delta):
                raise Overspend(self._refusal(before, new, purpose))
            try:
                entry = self._append(event, after=entries[-1].sha256)
            except ChainGrown:  # somebody else has spent meanwhile: look again
                continue
            return Reservation(self, entry.sequence, new, purpose)

    def charges(self) -> list[Charge]:
        """What was charged so far, in order."""
        return _charges(self._entries(), self.path)

    def events(self) -> list[Event]:
        """The same for an accountant."""
        return [event for charge in self.charges() for event in charge.events]

    def spent(self) -> float:
        """ε of all charges together, at the budget's δ."""
        return composition.epsilon(self.events(), self.delta)

    def mu_left(self) -> float:
        """The largest μ of a Gaussian event that may still be charged; zero where the budget is spent."""
        return composition.mu_left(self.events(), self.epsilon, self.delta)

    def guarantee(self, mechanism: str, **others: Any) -> Guarantee:
        """The budget as a guarantee, with all that was charged."""
        spent_on = [Spent(charge.purpose, event) for charge in self.charges() for event in charge.events]
        return Guarantee(self.epsilon, self.delta, mechanism, tuple(spent_on), **others)

    def verify(self, expected_head: str | None = None, expected_count: int | None = None) -> Verification:
        """Check the chain, and that it still begins with what was noted of it earlier."""
        return self._chain.verify(expected_head, expected_count)

    def __repr__(self) -> str:
        return (
            f"<Ledger of {self.dataset!r} in {self.path}: ε = {self.spent():.4g} of {self.epsilon:g} spent "
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
            state = "released" if charge.released else "charged only"
            rows.append((str(charge.number), charge.time[:19].replace("T", " "), charge.purpose, price, total, state))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        spent = composition.epsilon(sofar, self.delta)
        return "\n".join(
            [
                f"{self.dataset}: a budget of ε = {self.epsilon:g} at δ = {self.delta:g} ({NEIGHBOURS})",
                *(table if charges else ["nothing was charged"]),
                f"spent: ε = {spent:.4g}; left: Gaussian noise of μ = {self.mu_left():.4g}",
            ]
        )

    def _refusal(self, before: list[Event], new: tuple[Event, ...], purpose: str) -> str:
        spent, would = composition.epsilon(before, self.delta), composition.epsilon([*before, *new], self.delta)
        left = composition.mu_left(before, self.epsilon, self.delta)
        return (
            f"{purpose} would bring {self.dataset} to ε = {would:.4g} at δ = {self.delta:g}, and its budget is "
            f"ε = {self.epsilon:g}, of which {spent:.4g} is spent: Gaussian noise of μ = {left:.4g} is what is left"
        )

    def _entries(self) -> list[Entry]:
        return self._chain.entries()

    def _append(self, event: Mapping[str, Any], after: str | None = None) -> Entry:
        return self._chain.append(event, after=after)


class Spending:
    """One release of private rows, in the only order there is: check, charge, read, add noise, note the release.

    Use it as a context manager. Whatever is checked in its block before the first :meth:`read` costs nothing. The first
    :meth:`read` charges the ledger and only then calls its reader. The end of the block, which adds the noise, notes in
    the ledger that the release was made. After any exception in the block, Ctrl-C included, the charge stays and
    nothing is noted: what may have been seen is never refunded.

    Parameters
    ----------
    ledger : a Ledger or the path of one, which is opened when it is charged; None keeps no books
    price : what all of the release costs
    purpose : what the release is for
    """

    def __init__(
        self, ledger: Ledger | str | os.PathLike[str] | None, price: Event | Iterable[Event], purpose: str
    ) -> None:
        self._ledger, self._price, self._purpose = ledger, price, purpose
        self._reservation: Reservation | None = None
        self._is_paid = self._is_over = False
        self._facts: dict[str, Any] = {}

    def charge(self) -> None:
        """Spend the budget, if that has not happened; needed alone for rows of which nothing can be told unread."""
        if self._is_paid:
            return
        if self._ledger is not None:
            ledger = self._ledger if isinstance(self._ledger, Ledger) else Ledger(self._ledger)
            self._reservation = ledger.charge(self._price, self._purpose)
        self._is_paid = True

    def read(self, reader: Callable[[], T]) -> T:
        """Call ``reader``, which looks at rows, after the ledger was charged."""
        self.charge()
        return reader()

    def note(self, **facts: Any) -> None:
        """Say public facts about the release, for the ledger's line on it (a file's SHA-256, say)."""
        self._facts |= facts

    def __enter__(self) -> Spending:
        if self._is_over:
            raise RuntimeError("this release was made already: another one needs a charge of its own")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._is_over = True
        if kind is None and self._reservation is not None:
            self._reservation.commit(**self._facts)


def check_ledger(given: Any) -> None:
    """A ledger, the path of one, or None."""
    if not (given is None or isinstance(given, (Ledger, str, os.PathLike))):
        raise ValueError(f"ledger must be a Ledger or the path of one, got {quote(given)}")


def _opening(entries: list[Entry], path: Path) -> tuple[str, float, float]:
    if not entries:
        raise LedgerError(f"there is no ledger {path}: make one with Ledger.create")
    event = entries[0].event
    try:
        if event["what"] != "opened" or event["neighbours"] != NEIGHBOURS or not isinstance(event["dataset"], str):
            raise ValueError
        return event["dataset"], *check_budget(event["epsilon"], event["delta"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise LedgerError(f"{path} is not a ledger that this version of unpooled can read") from None


def _charges(entries: list[Entry], path: Path) -> list[Charge]:
    charges = [entry.event.get("charge") for entry in entries if entry.event.get("what") == "released"]
    released = {charge for charge in charges if type(charge) is int}
    found = []
    for entry in entries[1:]:
        what = entry.event.get("what")
        try:
            if what == "charged":
                spent = tuple(gaussian.from_dict(item) for item in entry.event["events"])
                purpose = str(entry.event["purpose"])
                found.append(Charge(entry.sequence, entry.time, purpose, spent, entry.sequence in released))
            elif what != "released":
                raise ValueError(f"{quote(what)} is unknown")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise LedgerError(
                f"entry {entry.sequence} of {path} cannot be priced, so nothing more is spent: {error}"
            ) from None
    return found
