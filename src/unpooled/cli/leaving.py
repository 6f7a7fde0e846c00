"""Files that are about to leave, for summarize and validate: shown, and put through the site's gate."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from .._base.text import size
from ..bases import Basis
from ..gate import Entry, Gate, Log, Policy, Refused, Release, find_policy
from ..gate.gate import LOG_NAME, NothingSpent, check_policy
from ..privacy import Private
from ..privacy.release import Asked, asked
from .codes import REFUSED, USAGE, Problem
from .out import Out

Show = Callable[[Release], None]


def gate_for(out: Out, data: Path, policy: Path | None, log: Path | None, yes: bool) -> tuple[Gate, Path | None]:
    """The site's gate, and the file its policy is from; None is the default policy."""
    path = policy or find_policy(data)
    place = log or (data if path is None else path).parent / LOG_NAME
    rules = Policy.default() if path is None else Policy.read(path)
    return Gate(rules, Log(place), _asking(out, yes)), path


def leave(
    out: Out, gate: Gate, policy: Path | None, words: str, output: Path, write: Callable[[Show], Entry]
) -> dict[str, Any]:
    """Let ``write`` put the file through the gate, with the facts shown before they are judged; say what came of it."""
    rules = gate.policy

    def show(release: Release) -> None:
        out.say(words)
        out.say()
        out.facts(
            f"About to leave, judged by {policy or 'the default policy'}",
            [
                ("rows", f"{release.n_rows} (at least {rules.minimum_rows})"),
                ("numbers", f"{release.numbers} (at most {rules.max_numbers_per_row:g} a row)"),
                ("features", f"{release.n_features}{_features(release, rules)}"),
                ("largest record", _largest(release, rules)),
                ("basis", release.basis),
                ("size", size(release.bytes)),
            ],
        )

    try:
        entry = write(show)
    except Refused as error:
        out.table("Refused: nothing was written", ["why"], [[reason] for reason in error.reasons])
        raise
    out.say(f"{output} written; entry {entry.sequence} of {gate.log.path} says so")
    return {
        "file": output,
        "sha256": entry.event["sha256"],
        "policy": policy,
        "log": gate.log.path,
        "entry": entry.sequence,
        "head": entry.sha256,
        "release": entry.event["release"],
    }


def _features(release: Release, rules: Policy) -> str:
    return f" (at most {rules.max_features_per_row:g} a row)" if release.order >= 2 else ""


def _largest(release: Release, rules: Policy) -> str:
    if release.private is not None:
        return "not looked at: noise hides every record"
    return f"{release.largest_label_share:.1%} of all (at most {rules.max_label_share:.0%})"


def somebody_is_there() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def _asking(out: Out, yes: bool) -> Callable[[Release], bool] | None:
    if yes:
        return lambda _: True
    if not somebody_is_there():
        return None
    return lambda _: typer.confirm("Let it leave?", default=False, err=out.as_json)


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


def check_question(
    out: Out, policy: Policy, basis: Basis, y: Any, order: int, model: Any, loss: Any, privacy: Private
) -> Asked:
    """The private summary that is asked for, refused before it is paid for where the rows are not needed for that."""
    if not isinstance(y, str):
        raise Problem("a private summary is of one --target: make one for each, and pay for each", USAGE)
    question = asked(basis, order, model, loss, None, privacy)
    try:
        check_policy(policy, question)
    except NothingSpent as error:
        raise Problem(str(error), REFUSED) from None
    if privacy.ledger is None:
        out.warn(
            "without --ledger nobody keeps count of what is spent: two summaries of the same rows cost more than one"
        )
    return question
