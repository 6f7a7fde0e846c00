"""Options that several commands have, and reading values that are words or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from .._base.text import shown
from .codes import USAGE, Problem

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
