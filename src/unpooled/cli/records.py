"""``unpooled policy``, ``log`` and ``ledger``: a site's rules, what has left it, and what its privacy was spent on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..gate import POLICY_NAME, Log, Policy
from ..gate.gate import LOG_NAME, Verification
from ..privacy import Ledger
from .app import add_group, command
from .console import DATA, LOG, Out, Overwrite, Problem

_Head = Annotated[str | None, typer.Option(help="The head that was noted earlier.")]
_Count = Annotated[int | None, typer.Option(min=0, help="The number of entries that was noted with it.")]

_policy_group = add_group("policy", "The site's rules: what may leave.")


@command(_policy_group)
def init(
    out: Out,
    path: Annotated[Path, typer.Argument(help="The file to write, or a folder for it.")] = Path(POLICY_NAME),
    overwrite: Overwrite = False,
) -> dict[str, Any]:
    """Write the default policy with every rule explained, for the site to edit."""
    path = path / POLICY_NAME if path.is_dir() else path
    Policy.write_template(path, overwrite)
    out.say(f"{path} written: read it and edit it; it applies to the data in its folder")
    return {"policy": path}


@command(_policy_group)
def check(
    out: Out, path: Annotated[Path, typer.Argument(help="A policy, or its folder.")] = Path(POLICY_NAME)
) -> dict[str, Any]:
    """Read a policy and show its rules, or say what is wrong with it."""
    path = path / POLICY_NAME if path.is_dir() else path
    rules = asdict(Policy.read(path))
    out.facts(f"{path} can be applied", [(name, _show_value(value)) for name, value in rules.items()])
    return {"policy": path, "rules": rules}


def _show_value(value: Any) -> str:
    return ", ".join(map(str, value)) or "any" if isinstance(value, tuple) else str(value).lower()


_log_group = add_group("log", "The site's log: what left, and what was refused.")

_LogPath = Annotated[Path, typer.Argument(help="The log, or its folder.")]


@command(_log_group, "verify")
def verify_log(
    out: Out,
    path: _LogPath = Path(LOG_NAME),
    head: _Head = None,
    count: _Count = None,
) -> dict[str, Any]:
    """Check that no entry was changed, removed or moved.

    A log whose end was cut off is only found out by a head and a count that were noted elsewhere.
    """
    log = _open_log(path)
    return _report_check(out, "log", log.path, log.verify(head, count))


@command(_log_group, "show")
def show_log(out: Out, path: _LogPath = Path(LOG_NAME)) -> dict[str, Any]:
    """Show the entries, oldest first."""
    log = _open_log(path)
    entries = log.entries()
    out.table(
        f"{log.path}: {len(entries)} entries",
        ["", "time", "what", "kind", "rows", "order", "target", "file or reasons"],
        [_make_row(entry.sequence, entry.time, entry.event) for entry in entries],
    )
    return {"log": log.path, "entries": [vars(entry) for entry in entries]}


def _make_row(sequence: int, time: str, event: dict[str, Any]) -> list[str]:
    release = event.get("release")
    facts = release if isinstance(release, dict) else {}
    targets = facts.get("targets")
    return [
        str(sequence),
        time[:19].replace("T", " "),
        str(event.get("what", "")),
        *(str(facts.get(name, "")) for name in ("kind", "n_rows", "order")),
        ", ".join(map(str, targets)) if isinstance(targets, list) else "",
        _describe(event),
    ]


def _describe(event: dict[str, Any]) -> str:
    """Name the file that left or the sum that was opened, or give the reasons for a refusal."""
    said = [str(event[name]) for name in ("file", "attempt", "reason") if event.get(name)]
    return said[0] if said else "; ".join(map(str, event.get("reasons", [])))


def _open_log(path: Path) -> Log:
    path = path / LOG_NAME if path.is_dir() else path
    if not path.is_file():
        raise Problem(f"there is no log at {path}", DATA)
    return Log(path)


_ledger_group = add_group("ledger", "The privacy budget of a data set, and what it was spent on.")

_LedgerPath = Annotated[Path, typer.Argument(help="The ledger.", metavar="LEDGER")]


@command(_ledger_group)
def create(
    out: Out,
    path: _LedgerPath,
    epsilon: Annotated[float, typer.Option(help="ε of everything that will ever be released from the data.")],
    delta: Annotated[float, typer.Option(help="δ, far below one divided by the number of records.")],
    dataset: Annotated[str, typer.Option(help="A name for the data.")],
) -> dict[str, Any]:
    """Open a ledger with a budget, which cannot be raised later."""
    ledger = Ledger.create(path, epsilon, delta, dataset)
    out.say(str(ledger))
    return _describe_ledger(ledger)


@command(_ledger_group, "show")
def show_ledger(out: Out, path: _LedgerPath) -> dict[str, Any]:
    """Show what was charged, and what is left."""
    ledger = Ledger(path)
    out.say(str(ledger))
    return _describe_ledger(ledger)


@command(_ledger_group, "verify")
def verify_ledger(
    out: Out,
    path: _LedgerPath,
    head: _Head = None,
    count: _Count = None,
) -> dict[str, Any]:
    """Check that no entry was changed, removed or moved."""
    return _report_check(out, "ledger", path, Ledger(path).verify(head, count))


def _report_check(out: Out, kind: str, path: Path, check: Verification) -> dict[str, Any]:
    if not check.ok:
        raise Problem(str(check), LOG)
    out.say(str(check))
    out.say(f"Note both: unpooled {kind} verify {path} --head {check.head} --count {check.count}")
    return {kind: path, "count": check.count, "head": check.head}


def _describe_ledger(ledger: Ledger) -> dict[str, Any]:
    return {
        "ledger": ledger.path,
        "dataset": ledger.dataset,
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "spent": ledger.epsilon_spent(),
        "mu_left": ledger.mu_left(),
        "charges": [
            {"number": c.number, "time": c.time, "purpose": c.purpose, "released": c.is_released}
            for c in ledger.charges()
        ],
    }
