"""``unpooled log``: what has left a site, and what was refused."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..gate import Log
from ..gate.gate import LOG_NAME
from .app import app, command
from .codes import DATA, LOG, Problem
from .out import Out

group = typer.Typer(help="The site's log: what left, and what was refused.", no_args_is_help=True)
app.add_typer(group, name="log")

LogPath = Annotated[Path, typer.Argument(help="The log, or its folder.")]


@command(group)
def verify(
    out: Out,
    path: LogPath = Path(LOG_NAME),
    head: Annotated[str | None, typer.Option(help="The head that was noted earlier.")] = None,
    count: Annotated[int | None, typer.Option(min=0, help="The number of entries that was noted with it.")] = None,
) -> dict[str, Any]:
    """Check that no entry was changed, removed or moved.

    That the end was cut off shows only against a head and a count that were noted elsewhere.
    """
    log = _log(path)
    found = log.verify(head, count)
    if not found.ok:
        raise Problem(str(found), LOG)
    out.say(str(found))
    out.say(f"Note both: unpooled log verify {log.path} --head {found.head} --count {found.count}")
    return {"log": log.path, "count": found.count, "head": found.head}


@command(group)
def show(out: Out, path: LogPath = Path(LOG_NAME)) -> dict[str, Any]:
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
