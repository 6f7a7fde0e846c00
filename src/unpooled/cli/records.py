"""``unpooled policy``, ``log`` and ``ledger``: a site's rules, what has left it, and what its privacy was spent on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..gate import POLICY_NAME, Log, Policy
from ..gate.gate import LOG_NAME, Verification
from ..privacy import Ledger
from .app import app, command
from .console import DATA, LOG, Out, Overwrite, Problem

Head = Annotated[str | None, typer.Option(help="The head that was noted earlier.")]
Count = Annotated[int | None, typer.Option(min=0, help="The number of entries that was noted with it.")]

policy_group = typer.Typer(help="The site's policy: what may leave.", no_args_is_help=True)
app.add_typer(policy_group, name="policy")


@command(policy_group)
def init(
    out: Out,
    path: Annotated[Path, typer.Argument(help="The file to write, or a folder for it.")] = Path(POLICY_NAME),
    overwrite: Overwrite = False,
) -> dict[str, Any]:
    """Write the default policy with every rule explained, for the site to edit."""
    path = path / POLICY_NAME if path.is_dir() else path
    Policy.write_template(path, overwrite)
    out.say(f"{path} written: read it and edit it; it is applied to data in its folder")
    return {"policy": path}


@command(policy_group)
def check(
    out: Out, path: Annotated[Path, typer.Argument(help="A policy, or its folder.")] = Path(POLICY_NAME)
) -> dict[str, Any]:
    """Read a policy and show its rules; an error where it cannot be kept."""
    path = path / POLICY_NAME if path.is_dir() else path
    rules = asdict(Policy.read(path))
    out.facts(f"{path} can be kept", [(name, _shown(value)) for name, value in rules.items()])
    return {"policy": path, "rules": rules}


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) or "any" if isinstance(value, tuple) else str(value).lower()


log_group = typer.Typer(help="The site's log: what left, and what was refused.", no_args_is_help=True)
app.add_typer(log_group, name="log")

LogPath = Annotated[Path, typer.Argument(help="The log, or its folder.")]


@command(log_group, "verify")
def verify_log(
    out: Out,
    path: LogPath = Path(LOG_NAME),
    head: Head = None,
    count: Count = None,
) -> dict[str, Any]:
    """Check that no entry was changed, removed or moved.

    That the end was cut off shows only against a head and a count that were noted elsewhere.
    """
    log = _log(path)
    return _say_verified(out, "log", log.path, log.verify(head, count))


@command(log_group, "show")
def show_log(out: Out, path: LogPath = Path(LOG_NAME)) -> dict[str, Any]:
    """Show the entries, oldest first."""
    log = _log(path)
    entries = log.entries()
    out.table(
        f"{log.path}: {len(entries)} entries",
        ["", "time", "what", "kind", "rows", "order", "target", "file, or why not"],
        [_row(entry.sequence, entry.time, entry.event) for entry in entries],
    )
    return {"log": log.path, "entries": [vars(entry) for entry in entries]}


def _row(sequence: int, time: str, event: dict[str, Any]) -> list[str]:
    release = event.get("release")
    facts = release if isinstance(release, dict) else {}
    targets = facts.get("targets")
    return [
        str(sequence),
        time[:19].replace("T", " "),
        str(event.get("what", "")),
        *(str(facts.get(name, "")) for name in ("kind", "n_rows", "order")),
        ", ".join(map(str, targets)) if isinstance(targets, list) else "",
        _words(event),
    ]


def _words(event: dict[str, Any]) -> str:
    """The file that left, the sum that was opened, or why not."""
    said = [str(event[name]) for name in ("file", "attempt", "reason") if event.get(name)]
    return said[0] if said else "; ".join(map(str, event.get("reasons", [])))


def _log(path: Path) -> Log:
    path = path / LOG_NAME if path.is_dir() else path
    if not path.is_file():
        raise Problem(f"there is no log {path}", DATA)
    return Log(path)


ledger_group = typer.Typer(
    help="The privacy budget of a data set: what it is, and what it was spent on.", no_args_is_help=True
)
app.add_typer(ledger_group, name="ledger")

LedgerPath = Annotated[Path, typer.Argument(help="The ledger.", metavar="LEDGER")]


@command(ledger_group)
def create(
    out: Out,
    path: LedgerPath,
    epsilon: Annotated[float, typer.Option(help="ε of everything that will ever be released of the data.")],
    delta: Annotated[float, typer.Option(help="δ, far below one in the number of records.")],
    dataset: Annotated[str, typer.Option(help="A name for the data.")],
) -> dict[str, Any]:
    """Open a ledger with a budget, which cannot be raised later."""
    ledger = Ledger.create(path, epsilon, delta, dataset)
    out.say(str(ledger))
    return _ledger_facts(ledger)


@command(ledger_group, "show")
def show_ledger(out: Out, path: LedgerPath) -> dict[str, Any]:
    """Show what was charged, and what is left."""
    ledger = Ledger(path)
    out.say(str(ledger))
    return _ledger_facts(ledger)


@command(ledger_group, "verify")
def verify_ledger(
    out: Out,
    path: LedgerPath,
    head: Head = None,
    count: Count = None,
) -> dict[str, Any]:
    """Check that no entry was changed, removed or moved."""
    return _say_verified(out, "ledger", path, Ledger(path).verify(head, count))


def _say_verified(out: Out, kind: str, path: Path, found: Verification) -> dict[str, Any]:
    if not found.ok:
        raise Problem(str(found), LOG)
    out.say(str(found))
    out.say(f"Note both: unpooled {kind} verify {path} --head {found.head} --count {found.count}")
    return {kind: path, "count": found.count, "head": found.head}


def _ledger_facts(ledger: Ledger) -> dict[str, Any]:
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
