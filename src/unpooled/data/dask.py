"""Dask arrays and data frames: a piece is a partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._base.arrays import is_dask
from .._base.rows import Rows, Source, find_label_names


@dataclass(frozen=True)
class _Partition:
    """One partition of a collection: ``lazy`` computes to its (X, Y, weights)."""

    lazy: Any
    n_rows: int
    value: tuple[Any, Any, Any] | None = None
    single = False  #: unknown until it is computed

    def read(self, rows: np.ndarray | None = None) -> Rows:
        value = self.lazy.compute(scheduler="synchronous") if self.value is None else self.value
        whole = _as_rows(*value)
        if len(whole) != self.n_rows:
            raise ValueError(f"a partition has {len(whole)} rows now, but had {self.n_rows} when it was first read")
        return whole if rows is None else whole.take(rows)

    def chunks(self, size: int) -> Iterator[Rows]:
        """Give all rows at once: a partition cannot be computed in parts."""
        yield self.read()

    def without_data(self) -> _Partition:
        """Return the partition without its graph."""
        return replace(self, lazy=None)

    def with_data(self, value: tuple[Any, Any, Any]) -> _Partition:
        """Return the partition with the value that its graph gives."""
        return replace(self, value=value)


def _as_rows(X: Any, Y: Any, weights: Any) -> Rows:
    """Return the arrays of one partition, checked."""
    X = np.asarray(X)
    X = np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)
    if Y is not None:
        Y = np.asarray(Y, dtype=np.float64)
        Y = Y[:, None] if Y.ndim == 1 else Y
    weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    for name, values in (("X", X), ("y", Y), ("sample_weight", weights)):
        if values is not None and not np.all(np.isfinite(values)):
            raise ValueError(f"{name} has missing or infinite values: drop or impute such rows first")
    if weights is not None and np.any(weights < 0):
        raise ValueError("sample_weight must hold numbers that are not negative")
    return Rows(X, Y, weights)


def open_dask(X: Any, y: Any, sample_weight: Any, sites: Any) -> Source:
    """Open the partitions of a collection; y, weights and sites are columns of a frame, or arrays as long as X."""
    from dask.delayed import delayed

    targets, names = find_label_names(y), None
    if hasattr(X, "partitions") and hasattr(X, "columns"):
        given = [(argument, v) for argument, v in (("y", y), ("sample_weight", sample_weight), ("sites", sites))]
        named = {name for argument, v in given for name in _column_names(argument, v, X)}
        y, sample_weight, sites = (X[v] if _column_names(argument, v, X) else v for argument, v in given)
        X = X[[c for c in X.columns if c not in named]]
        strange = [str(c) for c, kind in X.dtypes.items() if getattr(kind, "kind", "O") not in "fiub"]
        if strange:
            raise ValueError(f"X must hold numbers, but the columns {', '.join(strange)} do not: leave them out")
        names = [str(c) for c in X.columns]
        X = X.to_dask_array(lengths=True)
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, rows by features; got a Dask array of shape {X.shape}")
    if any(np.isnan(size) for size in X.shape):
        X = X.compute_chunk_sizes()
    X = X.rechunk({1: -1})
    n, rows = X.shape[0], X.chunks[0]
    labels_of, n_columns = _split("y", y, n, rows)
    blocks = [labels_of, _split("sample_weight", sample_weight, n, rows)[0]]
    lazy_X = list(X.to_delayed()[:, 0])
    triple = delayed(_triple, pure=True)
    pieces = [
        _Partition(triple(x, *(block[i] for block in blocks)), int(k))
        for i, (x, k) in enumerate(zip(lazy_X, rows))
        if k
    ]
    if not pieces and y is not None:
        raise ValueError("X has no rows")
    labels = None if sites is None else sites.compute() if is_dask(sites) else sites
    return Source(
        pieces, int(X.shape[1]), names, labels, target_names=targets, n_outputs=n_columns or 1,
        one_target=n_columns is None, streamed=True, weighted=sample_weight is not None,
    )  # fmt: skip


def _triple(X: Any, Y: Any, weights: Any) -> tuple[Any, Any, Any]:
    return X, Y, weights


def _column_names(argument: str, value: Any, frame: Any) -> list[str]:
    """Return the columns of X that an argument names; none if it is data."""
    several = isinstance(value, list) and argument == "y"  # a list of sites or weights is data
    names = [value] if isinstance(value, str) else value if several else []
    if not names or not all(isinstance(name, str) for name in names):
        return []
    for name in names:
        if name not in frame.columns:
            raise ValueError(
                f"{argument} names the column {name!r}, but X has only: {', '.join(map(str, frame.columns))}"
            )
    return names


def _split(name: str, value: Any, n: int, rows: tuple[int, ...]) -> tuple[list[Any], int | None]:
    """Return the parts of y or the weights for the partitions of X, and their number of columns; None: a vector."""
    import dask.array as da

    if value is None:
        return [None] * len(rows), None
    if isinstance(value, str):
        raise ValueError(f"{name} names a column, but X is a Dask array: give {name} as an array")
    if is_dask(value) and not isinstance(value, da.Array):
        value = value.to_dask_array(lengths=True)
    value = value if isinstance(value, da.Array) else da.from_array(np.asarray(value), chunks=-1)
    if any(np.isnan(size) for size in value.shape):
        value = value.compute_chunk_sizes()
    if value.shape[0] != n:
        raise ValueError(f"X has {n} rows and {name} has {value.shape[0]}: they must have the same number")
    value = value.rechunk({0: rows, **({1: -1} if value.ndim == 2 else {})})
    return list(value.to_delayed().reshape(len(rows))), int(value.shape[1]) if value.ndim == 2 else None
