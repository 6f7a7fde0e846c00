"""CSV files, read once in stretches: small ones stay in memory, large ones in a temporary Parquet file.

CSV has no index, so reading a stretch again would mean reading the file from its start. The used columns are therefore
kept as numbers: in memory up to ``IN_MEMORY`` bytes, beyond that in a file that only this user can read. The file is
removed with the last piece that refers to it, and at the latest when Python ends.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from .._base.checks import AdvisedError
from .._base.rows import MemoryPiece, Rows, Source
from .._base.text import quote
from .parquet import RowGroup, _name, _names

STRETCH = 2 * 2**20  #: bytes of CSV that are parsed at once; a row may not be longer
IN_MEMORY = 64 * 2**20  #: bytes of numbers above which they go to a temporary file
GROUP = 8 * 2**20  #: bytes of numbers in one of its row groups
LOOK = 100  #: rows from which a column of text is recognised

_UNREADABLE = (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError, EOFError, OSError, zlib.error)

_MISSING = pa.array(["", "na", "n/a", "#n/a", "nan", "-nan", "null", "none"])


@dataclass(frozen=True)
class Csv:
    """A CSV file with a line of column names, plain or gzipped, for ``fit``.

    ``features`` names the columns of X; None takes every column that is not the target, the weight or the site.

    Parameters
    ----------
    path : the file
    features : names of columns, or None
    delimiter : one character
    """

    path: str | Path
    features: Sequence[str] | None = None
    delimiter: str = ","


@dataclass(frozen=True)
class _SpilledRowGroup(RowGroup):
    """A row group of the temporary file, which exists as long as its pieces do; other processes get a plain one."""

    folder: Any = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowGroup, tuple(getattr(self, f.name) for f in fields(RowGroup))


def read_csv(given: Csv, y: Any, sample_weight: Any, sites: Any) -> Source:
    """Read the rows of one CSV file, in its order, as 64-bit numbers; site labels are text."""
    names = read_header(given)
    targets = _names("y", y, names, "CSV") if y is not None else ()
    weight = _name("sample_weight", sample_weight, names, "CSV")
    site = _name("sites", sites, names, "CSV")
    if given.features is None:
        if "" in names:
            wrong = f"column {names.index('') + 1} of {given.path} has no name (row numbers of a data frame?): name it"
            named = ", or name the columns of X with X=up.blocks.Csv(path, features=[...])"
            raise AdvisedError(wrong + named, wrong)
        features = tuple(name for name in names if name not in {*targets, weight, site})
    else:
        features = _names("features", given.features, names, "CSV")
    if not features:
        raise ValueError(f"{given.path} has no columns left for X")

    kept = _ColumnStore(features, targets, weight)
    labels: list[np.ndarray] = []
    start = 0
    used = list(dict.fromkeys([*kept.names, *([site] if site else [])]))
    for batch in read_batches(given, used, len(names) == 1):
        if not batch.num_rows:
            continue
        kept.add({name: parse_numbers(given, name, batch.column(name), start, name == weight) for name in kept.names})
        if site is not None:
            labels.append(_labels(given, site, batch.column(site), start))
        start += batch.num_rows
    if not start and targets:
        raise ValueError(f"{given.path} has no rows")
    return Source(
        kept.pieces(), len(features), features, np.concatenate(labels) if labels else None, target_names=targets,
        n_outputs=max(1, len(targets)), one_target=isinstance(y, str), streamed=kept.writer is not None,
        weighted=weight is not None,
    )  # fmt: skip


class _Folder:
    """A temporary folder that is removed once nobody in this process refers to it (a fork does not count)."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="unpooled-")
        weakref.finalize(self, _remove, self.name, os.getpid())


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


class _ColumnStore:
    """Columns of numbers, in memory while they are few and in a temporary Parquet file once they are many."""

    def __init__(self, features: tuple[str, ...], targets: tuple[str, ...], weight: str | None) -> None:
        self.features, self.targets, self.weight = features, targets, weight
        self.names = list(dict.fromkeys([*features, *targets, *([weight] if weight else [])]))
        self.stretches: list[dict[str, np.ndarray]] = []
        self.bytes = 0
        self.writer: Any = None

    def add(self, columns: dict[str, np.ndarray]) -> None:
        """Add one more stretch of rows."""
        self.stretches.append(columns)
        self.bytes += sum(column.nbytes for column in columns.values())
        if self.writer is None and self.bytes > IN_MEMORY:
            self.folder = _Folder()
            self.path = str(Path(self.folder.name) / "rows.parquet")
            schema = pa.schema([(name, pa.float64()) for name in self.names])
            self.writer = pq.ParquetWriter(self.path, schema, compression="none", use_dictionary=False)
        if self.writer is not None and self.bytes > GROUP:
            self._spill()

    def pieces(self) -> list[Any]:
        """Return the rows that were added, as pieces."""
        if self.writer is None:
            return [MemoryPiece(self._rows(stretch)) for stretch in self.stretches]
        self._spill()
        self.writer.close()
        with pq.ParquetFile(self.path) as file:
            counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        return [
            _SpilledRowGroup(self.path, group, n, self.features, self.targets, self.weight, False, self.folder)
            for group, n in enumerate(counts)
        ]

    def _spill(self) -> None:
        if self.stretches:
            table = pa.concat_tables([pa.table(stretch) for stretch in self.stretches])
            self.writer.write_table(table, row_group_size=max(1, GROUP // (8 * len(self.names))))
        self.stretches, self.bytes = [], 0

    def _rows(self, stretch: dict[str, np.ndarray]) -> Rows:
        X = np.column_stack([stretch[name] for name in self.features])
        Y = np.column_stack([stretch[name] for name in self.targets]) if self.targets else None
        return Rows(X, Y, stretch[self.weight] if self.weight else None)


class _Bytes(io.RawIOBase):
    """The bytes of a file, decompressed if it is gzipped; their quotation marks are counted."""

    def __init__(self, path: Path) -> None:
        self.raw = open(path, "rb")  # noqa: SIM115
        gzipped = self.raw.peek(2)[:2] == b"\x1f\x8b"
        self.file: Any = gzip.GzipFile(fileobj=self.raw) if gzipped else self.raw
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.file.read(size)
        self.quotes += data.count(b'"')
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.file.close()
        self.raw.close()
        super().close()


def read_header(given: Csv) -> list[str]:
    """Return the names of the columns; raise a ValueError if one occurs twice."""
    if not isinstance(given.delimiter, str) or len(given.delimiter) != 1 or given.delimiter in '"\r\n':
        raise ValueError(f"delimiter must be one character, got {quote(given.delimiter)}")
    path = Path(given.path)
    if not path.is_file():
        raise ValueError(f"{path} is a folder: give one CSV file" if path.is_dir() else f"there is no file {path}")
    try:
        with _Bytes(path) as file, io.TextIOWrapper(io.BufferedReader(file), "utf-8-sig", newline="") as lines:
            names = next((row for row in csv.reader(lines, delimiter=given.delimiter) if row), [])
    except (*_UNREADABLE, csv.Error) as error:
        raise _unreadable(given, error) from None
    if not names:
        raise ValueError(f"{path} is empty: a line of column names and rows are expected")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{path} has {', '.join(repr(name) for name in twice)} more than once among its column names: "
            "give every column its own name"
        )
    if len(names) == 1:
        for other, called in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
            if other in names[0]:
                raise ValueError(
                    f"{path} has one column, {quote(names[0])}, which looks like several separated by {called}: "
                    f"give X=up.blocks.Csv(path, delimiter={other!r})"
                )
    return names


def read_batches(given: Csv, used: list[str], single: bool) -> Iterator[Any]:
    """Give stretches of rows, the used columns as text. ``single``: an empty line is then a missing value."""
    wrong: list[Any] = []

    def refuse(row: Any) -> str:
        wrong.append(row)
        return "error"

    parse = pa_csv.ParseOptions(
        delimiter=given.delimiter,
        newlines_in_values=True,
        ignore_empty_lines=not single,
        invalid_row_handler=refuse,
    )
    text = pa_csv.ConvertOptions(include_columns=used, column_types={name: pa.string() for name in used})
    try:
        with _Bytes(Path(given.path)) as file:
            yield from pa_csv.open_csv(file, pa_csv.ReadOptions(use_threads=False, block_size=STRETCH), parse, text)
            if file.quotes % 2:
                raise ValueError(f"{given.path} has a quotation mark that is never closed: correct that cell")
    except _UNREADABLE as error:
        if "Empty CSV file" in str(error):  # the column names and not even the end of their line
            return
        if wrong:
            raise ValueError(
                f"line {wrong[0].number} of {given.path} has {wrong[0].actual_columns} values and the line of column "
                f"names has {wrong[0].expected_columns}: correct that line"
            ) from None
        raise _unreadable(given, error) from None


def _unreadable(given: Csv, error: Exception) -> ValueError:
    if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
        return ValueError(f"{given.path} is not text in UTF-8: save it as CSV in UTF-8")
    return ValueError(f"{given.path} cannot be read as CSV ({' '.join(str(error).split())})")


def parse_numbers(given: Csv, name: str, column: Any, start: int, weight: bool) -> np.ndarray:
    """Convert a column of text to numbers, true and false to 1 and 0. An error names the first cell that is not one."""
    try:
        values = pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        words = pc.if_else(pc.equal(words, "true"), "1", pc.if_else(pc.equal(words, "false"), "0", words))
        words = pc.if_else(pc.is_in(words, value_set=_MISSING), "nan", words)
        try:
            values = pc.cast(words, pa.float64())
        except pa.ArrowInvalid:
            row = _first_bad(words)
            wrong = f"{_where(given, name, start + row)} holds {quote(column[row].as_py(), 30)}, which is not a number"
            advice = f"{wrong}: correct the cell"
            left_out = ", or leave the column out with X=up.blocks.Csv(path, features=[...])"
            raise AdvisedError(advice + left_out, advice) from None
    numbers = values.to_numpy(zero_copy_only=False)
    if not np.all(np.isfinite(numbers)):
        row = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(
            f"{_where(given, name, start + row)} has a missing or infinite value: drop or impute such rows first"
        )
    if weight and np.any(numbers < 0):
        raise ValueError(f"{_where(given, name, start + int(np.argmax(numbers < 0)))} holds a negative weight")
    return numbers


def _first_bad(words: Any) -> int:
    """Return the position of the first text that is not a number, by bisection."""
    low, high = 0, len(words)  # words[:low] are numbers, words[:high] are not all
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(words[low:middle], pa.float64())
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _labels(given: Csv, name: str, column: Any, start: int) -> np.ndarray:
    labels = np.asarray(column.to_pylist(), dtype=object)
    if "" in labels:
        row = int(np.argmax(labels == ""))
        raise ValueError(f"{_where(given, name, start + row)} has no label: give every row its site")
    return labels


def _where(given: Csv, name: str, row: int) -> str:
    return f"column {name!r} of {given.path} (row {row + 1} after the column names)"


def find_delimiter(path: Path) -> str:
    """Return the comma; if the first line has none, a semicolon or a tab, if it has one."""
    try:
        with _Bytes(path) as file:
            line = file.read(1 << 16).splitlines()[:1]
    except OSError:
        return ","  # reading it will say why
    for delimiter in (",", ";", "\t"):
        if line and delimiter.encode() in line[0]:
            return delimiter
    return ","


def text_columns(given: Csv) -> list[str]:
    """Return the columns that have no number in the first rows."""
    names = read_header(given)
    batch = next(iter(read_batches(given, names, len(names) == 1)), None)
    if batch is None or not batch.num_rows:
        return []
    cells = {name: batch.column(name).slice(0, LOOK).to_pylist() for name in names}
    return [name for name, values in cells.items() if not any(_looks_like_number(value) for value in values)]


def _looks_like_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in ("true", "false", "")
    return True
