"""Finding what belongs to a file, bases and models by digest; and checks of where may be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .. import bases, models
from .._base import savable
from .._base.files import FileError
from ..bases import Basis
from ..data import tables
from .codes import DATA, FILE, USAGE, Problem


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
