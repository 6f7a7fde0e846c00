"""The terms that all commands share: exit codes, errors as one sentence, output, options, and checks of files."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from .._base import plain_json
from .._base.checks import AdvisedError
from .._base.files import FileError
from .._base.text import join_lines, quote
from ..data import tables
from ..engines import BlockError
from ..federation import StudyError
from ..gate import LogError, PolicyError, Refused
from ..privacy import Overspend

UNEXPECTED, USAGE, DATA, FILE, REFUSED, LOG, AUDIT, STUDY, STOPPED = 1, 2, 3, 4, 5, 6, 7, 8, 130

EXIT_CODES = {
    0: "done",
    UNEXPECTED: "something unexpected, perhaps a bug",
    USAGE: "the command was called with arguments it cannot use",
    DATA: "data cannot be read or used (a file, a column, a value), or a result cannot be written",
    FILE: "a file of unpooled is damaged or does not belong to the others",
    REFUSED: "the site's policy does not let it leave or cannot be read, or the privacy budget is spent",
    LOG: "the site's log or privacy ledger was changed or cannot be written",
    AUDIT: "an audit found that a private mechanism exceeds its claim, or missed a planted fault",
    STUDY: "a study over a network failed: there is no model",
    STOPPED: "stopped from the keyboard",
}


class Problem(Exception):
    """An error that a user can correct: a sentence, its exit code, and for scripts the reasons if there are several."""

    def __init__(self, sentence: str, code: int = DATA, reasons: list[str] | None = None) -> None:
        super().__init__(sentence)
        self.code, self.reasons = code, reasons

    @staticmethod
    def of(error: BaseException, code: int | None = None) -> Problem:
        """Return an error as one line with its exit code, which follows from its type if none is given."""
        if isinstance(error, BlockError) and isinstance(error.__cause__, (ValueError, OSError)):
            return Problem.of(error.__cause__, code)
        sentence = _sentence(error)
        if isinstance(error, Problem):
            return Problem(sentence, error.code, error.reasons)
        for kind, usual in _KINDS:
            if isinstance(error, kind):
                return Problem(sentence, code or usual, error.reasons if isinstance(error, Refused) else None)
        if isinstance(error, MemoryError):
            return Problem(str(error) or "not enough memory: use fewer features or points", DATA)
        return Problem(f"unexpected {type(error).__name__}: {sentence}", code or UNEXPECTED)


_KINDS: list[tuple[type[BaseException], int]] = [
    (FileError, FILE),
    (LogError, LOG),
    (PolicyError, REFUSED),
    (Refused, REFUSED),
    (Overspend, REFUSED),
    (StudyError, STUDY),
    (np.linalg.LinAlgError, UNEXPECTED),
    (ValueError, DATA),
    (OSError, DATA),
]


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = error.at_command_line if isinstance(error, AdvisedError) else str(error)
    return join_lines(text) or "no further details are known"


class Out:
    """Output of a command: results on standard output, everything else on standard error."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = Console(highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)
        self.warnings: list[str] = []

    def say(self, text: str = "") -> None:
        """Print a line, or several, for people."""
        if not self.as_json:
            self.out.print(text, markup=False)

    def facts(self, title: str, rows: Sequence[tuple[str, Any]]) -> None:
        """Print a table of names and values."""
        self.table(title, ["", ""], [[name, str(value)] for name, value in rows], headed=False)

    def table(self, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], headed: bool = True) -> None:
        """Print a table; a narrow terminal folds it."""
        if self.as_json:
            return
        table = Table(title=title, title_justify="left", show_header=headed)
        for head in heads:
            table.add_column(head, overflow="fold")
        for row in rows:
            table.add_row(*row)
        self.out.print(table, markup=False)

    def warn(self, sentence: str) -> None:
        """Print a warning on one line."""
        sentence = join_lines(sentence)
        self.warnings.append(sentence)
        self.err.print(f"warning: {sentence}", markup=False)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show at a terminal that work is in progress."""
        if self.err.is_terminal:
            with self.err.status(what):
                yield
        else:
            yield

    def finish(self, result: dict[str, Any]) -> None:
        """Print the result as JSON if a script asked for it."""
        if self.as_json:
            self._print({"ok": True, **result, "warnings": self.warnings})

    def fail(self, sentence: str, code: int, **more: Any) -> None:
        """Print the sentence for people and the object for scripts."""
        self.err.print(f"error: {sentence}", markup=False)
        if self.as_json:
            self._print({"ok": False, "error": sentence, "exit_code": code, **more, "warnings": self.warnings})

    def _print(self, content: dict[str, Any]) -> None:
        print(plain_json.encode_readable(to_plain(content), indent=2), file=sys.stdout)


def to_plain(value: Any) -> Any:
    """Convert a result for JSON: arrays become lists, numbers that are not finite null, and paths text."""
    return plain_json.make_plain(
        value, lambda other: to_plain(other.tolist()) if isinstance(other, np.ndarray) else str(other)
    )


Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]
Data = Annotated[Path, typer.Argument(help="Rows: a .csv or .csv.gz file, a .parquet file, or a folder of those.")]
BasisFile = Annotated[
    Path | None,
    typer.Option("--basis", help="The basis. Without it, a .basis file nearby with the right digest is used."),
]
Target = Annotated[
    list[str] | None, typer.Option("--target", "-t", help="The column to predict, or several, separated by commas.")
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="Columns that are not inputs, such as the site, separated by commas.")
]
SampleWeight = Annotated[
    str | None, typer.Option("--sample-weight", help="A column of weights: a row of weight 2 counts as two rows.")
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy", help="The site's policy. Default: unpooled-policy.toml beside the data or in this folder."
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option("--log", help="The site's log. Default: unpooled-log.jsonl beside the policy, or beside the data."),
]
Epsilon = Annotated[float | None, typer.Option(help="Add noise for differential privacy: the ε of this summary alone.")]
Delta = Annotated[float | None, typer.Option(help="δ, far below one divided by the number of records.")]
LabelBound = Annotated[
    float | None, typer.Option(help="c: labels are clipped to [-c, c]. Not needed with huber and correntropy.")
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="The ledger of the data, which is charged before the data are read.")
]
Parties = Annotated[int, typer.Option(min=1, help="The number of sites that make the noise together; 1: each its own.")]
Missing = Annotated[int, typer.Option(min=0, help="The number of their shares that may be missing.")]
Yes = Annotated[bool, typer.Option("--yes", help='Say yes where the policy says approve = "ask".')]


def split_names(values: Sequence[str] | None, known: Sequence[str] = ()) -> list[str]:
    """Split options into names, at commas; a known name may have a comma in it."""
    split: list[str] = []
    for value in values or []:
        split += [value] if value in known else [name.strip() for name in value.split(",") if name.strip()]
    return list(dict.fromkeys(split))


def parse_number(word: str, option: str, value: str) -> float | str:
    """Parse a positive number, or the one word that may stand in its place."""
    if value == word:
        return word
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise Problem(f"{option} must be {word} or a positive number, got {quote(value)}", USAGE)
    return number


def parse_count(word: str, option: str, value: str) -> int | str:
    """Parse a positive whole number, or the one word that may stand in its place."""
    if value == word:
        return word
    if not (value.isascii() and value.isdigit()) or int(value) < 1:
        raise Problem(f"{option} must be {word} or a positive whole number, got {quote(value)}", USAGE)
    return int(value)


def check_choice(option: str, value: str, choices: Sequence[str]) -> str:
    """Check that a value is one of a few words."""
    if value not in choices:
        raise Problem(f"{option} must be {', '.join(choices[:-1])} or {choices[-1]}, got {quote(value)}", USAGE)
    return value


def check_output(output: Path, inputs: Iterable[Path]) -> None:
    """Check that the output has a folder and is none of the files that are read."""
    if output.is_dir():
        raise Problem(f"--output {output} is a folder: name a file", USAGE)
    if not output.parent.is_dir():
        raise Problem(f"--output {output} cannot be written: there is no folder {output.parent}", DATA)
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise Problem(f"--output {output} is one of the files that are read: choose another name", USAGE)


def check_table(output: Path) -> None:
    """Check that the name of the output says in which format the table is written."""
    if not str(output).lower().endswith(tables.FORMATS):
        raise Problem(f"--output {output} must end in {' or '.join(tables.FORMATS)}", USAGE)


def check_new(output: Path, overwrite: bool) -> None:
    """Check that no file would be lost unless --overwrite was given."""
    if output.exists() and not overwrite:
        raise Problem(f"--output {output} exists already: choose another name, or add --overwrite", USAGE)


def is_interactive() -> bool:
    """Whether a person at a terminal can be asked."""
    return sys.stdin.isatty()


def user_name() -> str:
    """Return the name of the user; an empty text if the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
