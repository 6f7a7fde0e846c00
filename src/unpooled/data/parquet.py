"""Parquet files: a piece is a row group, and never more than a block and a row group are in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .._base.rows import Rows, Source


@dataclass(frozen=True)
class Parquet:
    """A Parquet file or a folder of them, for ``fit``.

    ``features`` names the columns of X; None takes every column that is not the target, the weight or the site.

    Parameters
    ----------
    path : the file or the folder
    features : names of columns, or None
    """

    path: str | Path
    features: Sequence[str] | None = None


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file."""

    path: str
    group: int
    n_rows: int
    features: tuple[str, ...]
    targets: tuple[str, ...]
    weight: str | None
    single: bool  #: whether all features are float32
    lazy = None

    def read(self, rows: np.ndarray | None = None) -> Rows:
        with pq.ParquetFile(self.path) as file:
            table = file.read_row_group(self.group, columns=self._columns())
        return self._rows(table if rows is None else table.take(pa.array(rows)))

    def chunks(self, size: int) -> Iterator[Rows]:
        """Give the rows, at most ``size`` at a time: a row group may be larger than memory allows."""
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(size, row_groups=[self.group], columns=self._columns()):
                yield self._rows(pa.Table.from_batches([batch]))

    def _columns(self) -> list[str]:
        return list(dict.fromkeys([*self.features, *self.targets, *([self.weight] if self.weight else [])]))

    def _rows(self, table: Any) -> Rows:
        X = self._matrix(table, self.features, np.float32 if self.single else np.float64)
        Y = self._matrix(table, self.targets, np.float64) if self.targets else None
        weights = self._matrix(table, (self.weight,), np.float64)[:, 0] if self.weight else None
        if weights is not None and np.any(weights < 0):
            raise ValueError(f"{self._where(self.weight)} holds negative weights")
        return Rows(X, Y, weights)

    def _matrix(self, table: Any, names: tuple[str, ...], dtype: type) -> np.ndarray:
        out = np.empty((table.num_rows, len(names)), dtype=dtype)
        for j, name in enumerate(names):
            column = table.column(name)
            # A missing truth value would be read as None, which is not a number.
            column = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
            out[:, j] = column.to_numpy()
            if not np.all(np.isfinite(out[:, j])):
                raise ValueError(f"{self._where(name)} has missing or infinite values: drop or impute such rows first")
        return out

    def _where(self, name: str | None) -> str:
        return f"column {name!r} of {self.path} (row group {self.group})"


def open_parquet(given: Parquet, y: Any, sample_weight: Any, sites: Any) -> Source:
    """Open the row groups of a file or folder, in the order of file names. Of their values only sites are read."""
    files = files_of(given.path)
    schema = read_schema(files[0])
    targets = _names("y", y, schema.names) if y is not None else ()
    weight = _name("sample_weight", sample_weight, schema.names)
    site = _name("sites", sites, schema.names)
    index = [name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
    kept = {*targets, weight, site, *index}
    features = (
        tuple(name for name in schema.names if name not in kept)
        if given.features is None
        else _names("features", given.features, schema.names)
    )
    if not features:
        raise ValueError(f"{given.path} has no columns left for X")
    for name in (*features, *targets, *([weight] if weight else [])):
        kind = schema.field(name).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise ValueError(
                f"column {name!r} of {given.path} holds {kind} and not numbers: leave it out with "
                "X=up.blocks.Parquet(path, features=[...])"
            )
    used = [*features, *targets, *(name for name in (weight, site) if name is not None)]
    schemas = [read_schema(path) for path in files]
    for path, own in zip(files, schemas):
        missing = [name for name in used if name not in own.names]
        if missing:
            raise ValueError(f"{path} lacks the columns {', '.join(missing)} that {files[0]} has")
    single = all(own.field(name).type == pa.float32() for own in schemas for name in features)
    pieces, labels = [], []
    for path in files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                n = file.metadata.row_group(group).num_rows
                if n:
                    pieces.append(RowGroup(str(path), group, n, features, targets, weight, single))
                    if site is not None:
                        labels.append(file.read_row_group(group, columns=[site]).column(site).to_numpy())
    if not pieces and targets:
        raise ValueError(f"{given.path} has no rows")
    return Source(
        pieces, len(features), features, np.concatenate(labels) if labels else None, target_names=targets,
        n_outputs=max(1, len(targets)), one_target=isinstance(y, str), streamed=True, weighted=weight is not None,
    )  # fmt: skip


def read_schema(path: Path) -> Any:
    """Return the columns of a file with their types; raise a ValueError if it cannot be read."""
    try:
        return pq.read_schema(path)
    except pa.ArrowInvalid:
        raise ValueError(f"{path} is not a Parquet file") from None


def _name(argument: str, value: Any, columns: Sequence[str], kind: str = "Parquet") -> str | None:
    names = () if value is None else _names(argument, value, columns, kind)
    if len(names) > 1:
        raise ValueError(f"{argument} must name one column, got {', '.join(names)}")
    return names[0] if names else None


def files_of(path: str | Path) -> list[Path]:
    """Return the file, or all files of a folder, in the order of their names."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
        if not files:
            raise ValueError(f"the folder {path} holds no .parquet file")
        return files
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    return [path]


def _names(argument: str, value: Any, columns: Sequence[str], kind: str = "Parquet") -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else None
    if names is None or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"with a {kind} file {argument} must be the name of a column (or a list of names)")
    for name in names:
        if name not in columns:
            raise ValueError(f"{argument} names the column {name!r}, but the file has only: {', '.join(columns)}")
    return names
