"""Tables in CSV and Parquet files: their columns, stretches of rows with other columns beside, and writing them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .._base.files import PathLike, atomic
from . import csv, parquet
from .csv import Csv
from .parquet import Parquet, ParquetSource

FORMATS = (".parquet", ".csv")
SHOWN = 30  # columns that an error lists
LINES = 1 << 16  # of a CSV file that are written at once
LOOK = 100  # rows of a CSV file that show whether a column is text


def table(path: PathLike, features: Sequence[str] | None = None) -> Parquet | Csv:
    """A file by its name: .csv and .csv.gz are CSV, with commas, semicolons or tabs, everything else Parquet."""
    path = Path(path)
    if not str(path).lower().endswith((".csv", ".csv.gz")):
        return Parquet(path, features)
    return Csv(path, features, _delimiter(path))


def columns(given: Parquet | Csv) -> dict[str, Any]:
    """The names of the columns, and their types where the file says them; an index of a data frame is not one."""
    if isinstance(given, Csv):
        return dict.fromkeys(csv._header(given))
    schema = parquet._schema(parquet._files(given.path)[0])
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name: schema.field(name).type for name in schema.names if name not in index}


def rows_for(path: Path, features: Sequence[str], others: Mapping[str, Sequence[str]]) -> Parquet | Csv:
    """The data with these columns as X. ``others``: what asks for further columns, and their names."""
    given = table(path, list(features) or None)
    found = columns(given)
    for asker, wanted in [("the basis", features), *others.items()]:
        check_columns(path, found, wanted, asker)
    return given


def check_columns(path: Path, found: dict[str, Any], wanted: Iterable[str], asker: str) -> None:
    """All columns that are asked for are there, and hold numbers."""
    wanted = list(wanted)
    missing = [name for name in wanted if name not in found]
    if missing:
        listed = ", ".join(list(found)[:SHOWN]) + (", …" if len(found) > SHOWN else "")
        raise ValueError(
            f"{path} lacks what {asker} asks for: {', '.join(_with_guess(name, found) for name in missing)}; "
            f"its columns are {listed}"
        )
    for name in wanted:
        if not is_number(found[name]):
            raise ValueError(
                f"column {name!r} of {path}, which {asker} asks for, holds {found[name]} and not numbers: "
                "turn it into numbers first"
            )


def _with_guess(name: str, found: Iterable[str]) -> str:
    folded = {column.casefold().strip(): column for column in found}
    close = difflib.get_close_matches(name.casefold().strip(), folded, n=1)
    return f"{name!r}" + (f" (did you mean {folded[close[0]]!r}?)" if close else "")


def columns_of(owner: Any) -> list[str]:
    """The names of the inputs that a basis or a model knows."""
    return [str(name) for name in getattr(owner, "feature_names_in_", [])]


def is_number(kind: Any) -> bool:
    """Whether a column of that type can be used; what a CSV file holds is seen when it is read."""
    return kind is None or pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def text_columns(given: Parquet | Csv) -> list[str]:
    """The columns of a CSV file that have no number in its first rows."""
    if not isinstance(given, Csv):
        return []
    names = csv._header(given)
    batch = next(iter(csv._batches(given, names, len(names) == 1)), None)
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


def stretches(given: Parquet | Csv, keep: Sequence[str]) -> Iterator[tuple[np.ndarray, Any]]:
    """X in double precision and the columns to ``keep`` as they are, a stretch of rows at a time, in their order.

    At least one stretch comes, if need be without rows: then the types of the columns are known.
    """
    if isinstance(given, Csv):
        yield from _from_csv(given, list(keep))
    else:
        yield from _from_parquet(given, list(keep))


def _from_parquet(given: Parquet, keep: list[str]) -> Iterator[tuple[np.ndarray, Any]]:
    schema = pa.schema([parquet._schema(parquet._files(given.path)[0]).field(name) for name in keep]).remove_metadata()
    source = ParquetSource(given, None, None, None)
    yield np.empty((0, source.n_features)), schema.empty_table()
    for piece in source.pieces:
        X = np.asarray(piece.read().X, dtype=np.float64)
        with pq.ParquetFile(piece.path) as file:
            beside = file.read_row_group(piece.group, columns=keep) if keep else None
        yield X, schema.empty_table() if beside is None else beside.select(keep).cast(schema)


def _from_csv(given: Csv, keep: list[str]) -> Iterator[tuple[np.ndarray, Any]]:
    names = csv._header(given)
    features = list(given.features) if given.features is not None else [name for name in names if name not in keep]
    schema = pa.schema([(name, pa.string()) for name in keep])
    yield np.empty((0, len(features))), schema.empty_table()
    start = 0
    for batch in csv._batches(given, list(dict.fromkeys([*features, *keep])), len(names) == 1):
        numbers = [csv._numbers(given, name, batch.column(name), start, False) for name in features]
        X = np.column_stack(numbers) if batch.num_rows else np.empty((0, len(features)))
        start += batch.num_rows
        yield X, pa.table([batch.column(name) for name in keep], schema=schema)


def _delimiter(path: Path) -> str:
    """Where the first line has no comma: a semicolon or a tab, if it has one."""
    try:
        with csv._Bytes(path) as file:
            line = file.read(1 << 16).splitlines()[:1]
    except OSError:
        return ","  # reading it will say why
    for delimiter in (",", ";", "\t"):
        if line and delimiter.encode() in line[0]:
            return delimiter
    return ","


class Writer(Protocol):
    """What tables are written to, one after the other."""

    def write_table(self, table: Any) -> None: ...


@contextmanager
def writer(path: PathLike, schema: Any) -> Iterator[Writer]:
    """A Parquet or CSV file by its name, which appears once all of it is written."""
    if not str(path).lower().endswith(FORMATS):
        raise ValueError(f"{path} must end in {' or '.join(FORMATS)}, which says how it is written")
    with atomic(path) as file:
        if str(path).lower().endswith(".csv"):
            yield _CsvWriter(file, schema)
        else:
            with pq.ParquetWriter(file, schema) as inner:
                yield inner


class _CsvWriter:
    """Lines of CSV, with quotation marks only around what would be read as something else without them.

    pyarrow's own writer has them around all text, and a column kept from a CSV file is text: numbers would be quoted.
    """

    def __init__(self, file: BinaryIO, schema: Any) -> None:
        for field in schema:
            if pa.types.is_nested(field.type):
                raise ValueError(f"column {field.name!r} holds {field.type}, which CSV cannot: write a .parquet file")
        self.file, self.alone = file, len(schema) == 1
        self._write([pa.array([name], pa.string()) for name in schema.names])

    def write_table(self, table: Any) -> None:
        for batch in table.to_batches(max_chunksize=LINES):
            self._write([_text(column) for column in batch.columns])

    def _write(self, columns: list[Any]) -> None:
        cells = [_quoted(column, self.alone) for column in columns]
        lines = pc.binary_join_element_wise(*cells, ",", null_handling="replace", null_replacement="")
        self.file.write("".join(f"{line}\n" for line in lines.to_pylist()).encode())


def _text(column: Any) -> Any:
    """As text; CSV has no categories, so their values are written."""
    values = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.cast(values, pa.string())


def _quoted(cells: Any, alone: bool) -> Any:
    """Text as it stands in a line; an empty cell that is ``alone`` there is quoted, for readers skip empty lines."""
    cells = pc.fill_null(cells, "") if alone else cells
    needed = pc.match_substring_regex(cells, '[",\r\n]' + ("|^$" if alone else ""))
    doubled = pc.replace_substring(cells, '"', '""')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), cells)
