"""What summarize and validate share: show what is about to leave, and put it through the site's gate."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from ..site import Gate, Log, Policy, Refused, Release, find_policy
from ..site.gate import content_of
from ..site.log import LOG_NAME
from .out import Out, size


def gate_for(out: Out, data: Path, policy: Path | None, log: Path | None, yes: bool) -> tuple[Gate, Path | None]:
    """The site's gate, and the file its policy is from; None is the default policy."""
    path = policy or find_policy(data)
    place = log or (data if path is None else path).parent / LOG_NAME
    rules = Policy.default() if path is None else Policy.read(path)
    return Gate(rules, Log(place), _asking(out, yes)), path


def leave(
    out: Out, gate: Gate, policy: Path | None, release: Release, words: str, output: Path, save: Callable[[Path], None]
) -> dict[str, Any]:
    """Write the file if it may leave; say what is in it either way."""
    content = content_of(save)
    out.say(words)
    out.say()
    rules = gate.policy
    out.facts(
        f"About to leave, judged by {policy or 'the default policy'}",
        [
            ("rows", f"{release.n_rows} (at least {rules.minimum_rows})"),
            ("numbers", f"{release.numbers} (at most {rules.max_numbers_per_row:g} a row)"),
            ("features", f"{release.n_features}{_features(release, rules)}"),
            ("largest record", _largest(release, rules)),
            ("basis", release.basis),
            ("size", size(len(content))),
        ],
    )
    try:
        entry = gate.write(output, content, release)
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
