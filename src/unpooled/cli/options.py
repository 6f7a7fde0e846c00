"""Options that several commands have: their values, and the files that they name or leave to be found.

Bases and models are found by their digests, and a place is checked before anything is written there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import bases, models
from .._base import savable
from .._base.files import FileError
from .._base.text import shown
from ..bases import Basis
from ..data import tables
from .codes import DATA, FILE, USAGE, Problem

Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")]
Data = Annotated[Path, typer.Argument(help="Rows: a .csv or .csv.gz file, a .parquet file, or a folder of those.")]
BasisFile = Annotated[
    Path | None, typer.Option("--basis", help="The basis. Without it, the file of the right digest nearby is taken.")
]
Target = Annotated[list[str] | None, typer.Option("--target", "-t", help="The column to predict; several with commas.")]
Weight = Annotated[str | None, typer.Option("--weight", help="A column of weights, which count as repeated rows.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", help="The site's policy. Without it: unpooled-policy.toml beside the data, or here."),
]
LogFile = Annotated[
    Path | None,
    typer.Option("--log", help="The site's log. Without it: unpooled-log.jsonl beside the policy, or the data."),
]
Epsilon = Annotated[float | None, typer.Option(help="Add noise for differential privacy: ε of this one summary.")]
Delta = Annotated[float | None, typer.Option(help="δ, far below one in the number of records.")]
LabelBound = Annotated[
    float | None, typer.Option(help="c: labels are moved into [-c, c]. Not needed with huber and correntropy.")
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="The ledger of the data, charged before they are read.")
]
Parties = Annotated[int, typer.Option(min=1, help="How many sites make the noise together; 1: each its own.")]
Missing = Annotated[int, typer.Option(min=0, help="How many of their shares may be missing.")]
Yes = Annotated[bool, typer.Option("--yes", help='Say yes where the policy says approve = "ask".')]


def names(values: Sequence[str] | None, known: Sequence[str] = ()) -> list[str]:
    """Names from options given several times, or with commas; a known name may have a comma in it."""
    found: list[str] = []
    for value in values or []:
        found += [value] if value in known else [name.strip() for name in value.split(",") if name.strip()]
    return list(dict.fromkeys(found))


def number_or(word: str, option: str, value: str) -> float | str:
    """A positive number, or the one word that may stand in its place."""
    if value == word:
        return word
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise Problem(f"{option} must be {word} or a positive number, got {shown(value)}", USAGE)
    return number


def count_or(word: str, option: str, value: str) -> int | str:
    """A positive whole number, or the word."""
    if value == word:
        return word
    if not (value.isascii() and value.isdigit()) or int(value) < 1:
        raise Problem(f"{option} must be {word} or a positive whole number, got {shown(value)}", USAGE)
    return int(value)


def choice(option: str, value: str, choices: Sequence[str]) -> str:
    """One of a few words."""
    if value not in choices:
        raise Problem(f"{option} must be {', '.join(choices[:-1])} or {choices[-1]}, got {shown(value)}", USAGE)
    return value


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
        if (own := savable.digest_of(model)) != digest:
            raise Problem(f"{what} is of the residuals of model {digest[:12]}, and {given} is model {own[:12]}", FILE)
        return model, given
    places = unique(folders)
    for path in [path for folder in places for path in sorted(folder.glob("*.model"))]:
        try:
            model = models.load(path)
        except (FileError, OSError):
            continue
        if savable.digest_of(model) == digest:
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


def check_output(output: Path, inputs: Iterable[Path]) -> None:
    """What is written is none of what is read, and has a folder to be in."""
    if output.is_dir():
        raise Problem(f"--output {output} is a folder: name a file", USAGE)
    if not output.parent.is_dir():
        raise Problem(f"--output {output} cannot be written: there is no folder {output.parent}", DATA)
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise Problem(f"--output {output} is one of the files that are read: choose another name", USAGE)


def check_table(output: Path) -> None:
    """What is written is a table in a format that its name tells."""
    if not str(output).lower().endswith(tables.FORMATS):
        raise Problem(f"--output {output} must end in {' or '.join(tables.FORMATS)}", USAGE)


def check_new(output: Path, overwrite: bool) -> None:
    """Nothing is there that would be lost, unless that was asked for."""
    if output.exists() and not overwrite:
        raise Problem(f"--output {output} exists already: choose another name, or say --overwrite", USAGE)
