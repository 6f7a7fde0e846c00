"""``unpooled merge``: many summaries, or scores, become one; and finding what belongs to a file by its digest.

They are read from files and added up in an order that does not depend on the user's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import bases, models
from .._base import declared, files
from .._base.checks import NotAddable
from .._base.files import FileError
from .._base.progress import Progress
from .._base.text import format_size
from ..bases import Basis
from ..summaries import Scores, Summary
from .app import app, command
from .console import FILE, Out, Output, Problem, check_output
from .inspect import of_scores

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
                except NotAddable as error:
                    raise Problem(f"{first} and {path} do not add up: {error.reason}", FILE) from None
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
    out.say(f"{len(sources)} files added up; {output}: {format_size(output.stat().st_size)}")
    return {"file": output, "kind": kind, "files": len(sources), "n_rows": total.n_rows}


def basis_for(digest: str, given: Path | None, folders: Iterable[Path], what: str) -> Basis:
    """The basis of a digest: the one given, or the one in one of the folders."""
    if given is not None:
        basis = bases.load(given)
        if basis.digest != digest:
            raise Problem(f"{what} is of the basis {digest[:12]}, and {given} is the basis {basis.digest[:12]}", FILE)
        return basis
    places = unique(folders)
    found = bases.find(digest, places)
    if found is None:
        raise Problem(
            f"the basis {digest[:12]} of {what} was not found among the .basis files in {_listed(places)}: "
            "give it with --basis",
            FILE,
        )
    return found


def model_for(digest: str, given: Path | None, folders: Iterable[Path], what: str) -> tuple[Any, Path]:
    """The model of a digest, and its file."""
    if given is not None:
        model = models.load(given)
        if (own := declared.digest_of(model)) != digest:
            raise Problem(f"{what} is of the residuals of model {digest[:12]}, and {given} is model {own[:12]}", FILE)
        return model, given
    places = unique(folders)
    for path in [path for folder in places for path in sorted(folder.glob("*.model"))]:
        try:
            model = models.load(path)
        except (FileError, OSError):
            continue
        if declared.digest_of(model) == digest:
            return model, path
    raise Problem(
        f"the model {digest[:12]} whose residuals {what} is of was not found among the .model files in "
        f"{_listed(places)}: give it with --model",
        FILE,
    )


def unique(folders: Iterable[Path]) -> list[Path]:
    """Each folder once, and the one we are in."""
    found: dict[Path, Path] = {}
    for folder in [*folders, Path()]:
        found.setdefault(folder.absolute().resolve(), folder)
    return list(found.values())


def _listed(places: Sequence[Path]) -> str:
    return ", ".join("this folder" if place == Path() else str(place) for place in places)
