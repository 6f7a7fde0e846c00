"""Reading summaries or scores from files and adding them up, in an order that does not depend on the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import files
from ..engines.progress import Progress
from ..summaries import Scores, Summary
from .codes import FILE, Problem

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
