"""Tables in CSV and Parquet files: reading them in stretches with additional columns, and writing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .._base.files import PathLike, open_atomic
from . import csv, parquet
from .csv import Csv
from .parquet import Parquet, open_parquet

FORMATS = (".parquet", ".csv")
LINES = 1 << 16  # lines of a CSV file that are written at once


def read_stretches(given: Parquet | Csv, keep: Sequence[str]) -> Iterator[tuple[np.ndarray, Any]]:
    """Give X in double precision and the columns to ``keep`` unchanged, one stretch of rows after another.

    There is at least one stretch, even without rows, so that the types of the columns are known.
    """
    if isinstance(given, Csv):
        yield from _from_csv(given, list(keep))
    else:
        yield from _from_parquet(given, list(keep))


def _from_parquet(given: Parquet, keep: list[str]) -> Iterator[tuple[np.ndarray, Any]]:
    schema = pa.schema(
        [parquet.read_schema(parquet.files_of(given.path)[0]).field(name) for name in keep]
    ).remove_metadata()
    source = open_parquet(given, None, None, None)
    yield np.empty((0, source.n_features)), schema.empty_table()
    for piece in source.pieces:
        X = np.asarray(piece.read().X, dtype=np.float64)
        with pq.ParquetFile(piece.path) as file:
            beside = file.read_row_group(piece.group, columns=keep) if keep else None
        yield X, schema.empty_table() if beside is None else beside.select(keep).cast(schema)


def _from_csv(given: Csv, keep: list[str]) -> Iterator[tuple[np.ndarray, Any]]:
    names = csv.read_header(given)
    features = list(given.features) if given.features is not None else [name for name in names if name not in keep]
    schema = pa.schema([(name, pa.string()) for name in keep])
    yield np.empty((0, len(features))), schema.empty_table()
    start = 0
    for batch in csv.read_batches(given, list(dict.fromkeys([*features, *keep])), len(names) == 1):
        numbers = [csv.parse_numbers(given, name, batch.column(name), start, False) for name in features]
        X = np.column_stack(numbers) if batch.num_rows else np.empty((0, len(features)))
        start += batch.num_rows
        yield X, pa.table([batch.column(name) for name in keep], schema=schema)


class _Writer(Protocol):
    """A file to which tables are written, one after another."""

    def write_table(self, table: Any) -> None: ...


@contextmanager
def open_writer(path: PathLike, schema: Any) -> Iterator[_Writer]:
    """Open a Parquet or CSV file by its name; the file appears once all of it is written."""
    if not str(path).lower().endswith(FORMATS):
        raise ValueError(f"{path} must end in {' or '.join(FORMATS)}, which decides its format")
    with open_atomic(path) as file:
        if str(path).lower().endswith(".csv"):
            yield _CsvWriter(file, schema)
        else:
            with pq.ParquetWriter(file, schema) as inner:
                yield inner


class _CsvWriter:
    """A writer of CSV lines, with quotation marks only where they are needed.

    pyarrow's own writer quotes all text, and a column kept from a CSV file is text: numbers would be quoted.
    """

    def __init__(self, file: BinaryIO, schema: Any) -> None:
        for field in schema:
            if pa.types.is_nested(field.type):
                raise ValueError(
                    f"column {field.name!r} holds {field.type}, which CSV cannot store: write a .parquet file"
                )
        self.file, self.alone = file, len(schema) == 1
        self._write([pa.array([name], pa.string()) for name in schema.names])

    def write_table(self, table: Any) -> None:
        for batch in table.to_batches(max_chunksize=LINES):
            self._write([_to_text(column) for column in batch.columns])

    def _write(self, columns: list[Any]) -> None:
        cells = [_quote(column, self.alone) for column in columns]
        lines = pc.binary_join_element_wise(*cells, ",", null_handling="replace", null_replacement="")
        self.file.write("".join(f"{line}\n" for line in lines.to_pylist()).encode())


def _to_text(column: Any) -> Any:
    """Return a column as text; CSV has no categories, so their values are written."""
    values = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.cast(values, pa.string())


def _quote(cells: Any, alone: bool) -> Any:
    """Return text as a CSV line has it; an empty cell ``alone`` in its line is quoted, as readers skip empty lines."""
    cells = pc.fill_null(cells, "") if alone else cells
    needed = pc.match_substring_regex(cells, '[",\r\n]' + ("|^$" if alone else ""))
    doubled = pc.replace_substring(cells, '"', '""')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), cells)
