"""What ``unpooled summarize`` does where noise is asked for: check, charge, read, add noise; in that order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..bases import Basis
from ..privacy import Private, Reservation
from ..site import Policy, facts, private
from ..summaries import Summary
from ..summaries.private import asked
from .codes import REFUSED, USAGE, Problem
from .out import Out


def asked_for(
    epsilon: float | None,
    delta: float | None,
    label_bound: float | None,
    ledger: Path | None,
    parties: int,
    missing: int,
    weight: str | None,
) -> Private | None:
    """The options as what is asked for; None where no noise is."""
    if epsilon is None or delta is None:
        given = {"--label-bound": label_bound, "--ledger": ledger, "--epsilon": epsilon, "--delta": delta}
        given |= {"--parties": parties if parties > 1 else None, "--missing": missing or None}
        for option, value in given.items():
            if value is not None:
                raise Problem(f"{option} asks for noise, which needs --epsilon and --delta both", USAGE)
        return None
    if weight is not None:
        raise Problem("--weight counts as repeated rows, and noise hides one row: leave one of the two out", USAGE)
    try:
        return Private(epsilon, delta, label_bound, ledger=ledger, parties=parties, missing=missing)
    except ValueError as error:
        raise Problem(str(error), USAGE) from None


def summarized(
    out: Out, policy: Policy, basis: Basis, rows: Any, y: Any, order: int, model: Any, loss: Any, privacy: Private
) -> tuple[Summary, Reservation | None]:
    """The private summary, and its charge; what can be refused without the rows is refused before anything is spent."""
    if not isinstance(y, str):
        raise Problem("a private summary is of one --target: make one for each, and pay for each", USAGE)
    question = asked(basis, order, model, loss, None, privacy)
    try:
        private.check_policy(policy, question)
    except private.NothingSpent as error:
        raise Problem(str(error), REFUSED) from None
    if privacy.ledger is None:
        out.warn(
            "without --ledger nobody keeps count of what is spent: two summaries of the same rows cost more than one"
        )
    summary, source, reservation = private.spend(question, rows, y, lambda: out.working("reading"), verbose=1)
    if not question.contents.residual:
        outside = facts.clipped_labels(source, question.bounds.label_bound)
        out.say(f"For this site only: {outside} of {summary.n_rows} labels were moved to the label bound.")
    return summary, reservation
