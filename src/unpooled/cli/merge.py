"""``unpooled merge``: many summaries, or scores, become one.

They are read from files and added up in an order that does not depend on the user's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .._base import files
from .._base.text import size
from ..engines.progress import Progress
from ..summaries import Scores, Summary
from .app import app, command
from .codes import FILE, Problem
from .inspect import of_scores
from .options import Output, check_output
from .out import Out

KINDS: dict[str, Any] = {"summary": Summary, "scores": Scores}


def kind_of(path: Path) -> str:
    """summary or scores."""
    kind = str(files.read_any(path)[0].get("kind"))
    if kind not in KINDS:
        raise Problem(f"{path} holds a {kind}, and only summaries, or scores, add up", FILE)
    return kind


def added(paths: Sequence[Path], kind: str) -> Any:
    """The sum of the files; an error names the two that do not go together."""
    total, first = None, None
    with Progress(len(paths), "adding", verbose=1) as progress:
        for path in _in_order(paths):
            one = KINDS[kind].load(path)
            if total is None:
                total, first = one, path
            else:
                try:
                    total = total + one
                except ValueError as error:
                    reason = str(error).partition("add up: ")[2] or str(error)
                    raise Problem(f"{first} and {path} do not add up: {reason}", FILE) from None
            progress.advance()
    return total


def _in_order(paths: Sequence[Path]) -> list[Path]:
    """By content: the sum is the same bits however the files are called and listed; a file counts once."""
    seen: dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist, or is not a file")
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest in seen:
            raise Problem(f"{seen[digest]} and {path} are the same: their rows would count twice", FILE)
        seen[digest] = path
    return [seen[digest] for digest in sorted(seen)]


@command(app)
def merge(
    out: Out,
    sources: Annotated[list[Path], typer.Argument(help="Summaries, or scores, in any order.", metavar="FILES")],
    output: Output,
) -> dict[str, Any]:
    """Add summaries up, or scores: the sum is what one site with all the rows would have sent."""
    check_output(output, sources)
    kind = kind_of(sources[0])
    total = added(sources, kind)
    total.save(output)
    out.say(total.describe() if kind == "summary" else of_scores(total))
    out.say()
    out.say(f"{len(sources)} files added up; {output}: {size(output.stat().st_size)}")
    return {"file": output, "kind": kind, "files": len(sources), "n_rows": total.n_rows}
