"""Rows of one site, wherever they are stored: pieces and slices of them, blocks, and sources.

A block is a reference, and ``read`` brings its rows into memory. A source is a list of pieces, which are one array, the
row groups of Parquet files, or the partitions of a Dask collection. Its rows are numbered across all pieces, so a
partition is a set of row numbers whatever the source is. The source for arrays in memory is here, and so is the hash of
a row's content; the sources for files and for Dask are in :mod:`unpooled.data`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from .arrays import Array, eps, is_dask, namespace, take_rows, to_numpy
from .text import quote

#: Bytes of rows that are kept in memory if some are read before the pass over all of them.
KEPT = 1 << 28


@dataclass
class Rows:
    """Labeled rows in memory: X (n, d), Y (n, T), weights (n,) or None. Unlabeled rows have no Y.

    Attributes
    ----------
    X : (n, d)
    Y : (n, T), or None
    weights : (n,), or None
    """

    X: Array
    Y: Array | None = None
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def mass(self) -> float:
        """Σ w_i, or without weights the number of rows."""
        return float(len(self)) if self.weights is None else float(self.weights.sum())

    def take(self, rows: np.ndarray) -> Rows:
        """Return the rows with the given numbers."""
        return Rows(
            take_rows(self.X, rows),
            None if self.Y is None else take_rows(self.Y, rows),
            None if self.weights is None else self.weights[rows],
        )

    def cut(self, stretch: slice) -> Rows:
        """Return a stretch of the rows, as views."""
        return Rows(
            self.X[stretch, :],
            None if self.Y is None else self.Y[stretch, :],
            None if self.weights is None else self.weights[stretch],
        )

    def drop_weightless(self) -> Rows:
        """Return the rows without those of weight zero, which count as absent."""
        if self.weights is None or np.all(self.weights > 0):
            return self
        return self.take(np.flatnonzero(self.weights > 0))


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Return rows of several parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    xp = namespace(parts[0].X)
    weights = None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([np.ones(len(p)) if p.weights is None else p.weights for p in parts])
    Y = None if parts[0].Y is None else xp.concat([part.Y for part in parts])
    return Rows(xp.concat([part.X for part in parts]), Y, weights)


class _Piece(Protocol):
    """A stretch of rows that is read at once."""

    @property
    def n_rows(self) -> int: ...
    @property
    def single(self) -> bool: ...  #: whether the rows are known, before they are read, to be of single precision
    @property
    def lazy(self) -> Any: ...  #: the Dask value that the piece refers to, or None

    def read(self, rows: np.ndarray | None = None) -> Rows:
        """Return the rows with the given numbers within the piece, in that order; None for all."""

    def chunks(self, size: int) -> Iterator[Rows]:
        """Give all rows, at most ``size`` at a time if the piece can be read in parts."""


@dataclass
class _RowsInMemory:
    """The common part of pieces whose rows are in memory."""

    data: Rows
    lazy = None

    @property
    def n_rows(self) -> int:
        return len(self.data)

    @property
    def single(self) -> bool:
        return eps(self.data.X) > 1e-10

    def read(self, rows: np.ndarray | None = None) -> Rows:
        return self.data if rows is None else self.data.take(rows)


@dataclass
class MemoryPiece(_RowsInMemory):
    """A piece that was given in memory."""

    def chunks(self, size: int) -> Iterator[Rows]:
        yield self.data


@dataclass
class KeptPiece(_RowsInMemory):
    """A piece that was read and is kept. It gives the same chunks as when read, so sums over it do not change."""

    in_parts: bool  #: whether the piece could be read in parts

    def chunks(self, size: int) -> Iterator[Rows]:
        step = size if self.in_parts else max(1, self.n_rows)
        for start in range(0, self.n_rows, step):
            yield self.data.cut(slice(start, start + step))


@dataclass
class Slice:
    """Some rows of a piece, or all of them (None)."""

    piece: Any
    rows: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.piece.n_rows) if self.rows is None else len(self.rows)

    def read(self) -> Rows:
        """Return the rows."""
        return self.piece.read(self.rows)

    def chunks(self, size: int) -> Iterator[Rows]:
        """Give the rows, about ``size`` at a time if the piece can be read in parts."""
        if self.rows is None:
            yield from self.piece.chunks(size)
        else:
            yield self.read()


@dataclass
class Block:
    """The labeled rows of one site, D_j, and its unlabeled rows: a reference to the data.

    Attributes
    ----------
    name : the name of the site
    labeled : slices of pieces
    unlabeled : slices of pieces without labels
    """

    name: str
    labeled: list[Slice]
    unlabeled: list[Slice]

    @property
    def n_rows(self) -> int:
        """Number of labeled rows."""
        return sum(len(s) for s in self.labeled)

    @property
    def n_unlabeled(self) -> int:
        """Number of rows without labels."""
        return sum(len(s) for s in self.unlabeled)

    def read(self) -> tuple[Rows, Array | None]:
        """Return the labeled rows, and X of the unlabeled ones or None."""
        rows = concatenate([s.read() for s in self.labeled]).drop_weightless()
        return rows, concatenate([s.read() for s in self.unlabeled]).X if self.n_unlabeled else None

    def load(self) -> Block:
        """Return the same block with its rows, and no others, in memory."""
        return Block(self.name, _load(self.labeled), _load(self.unlabeled))

    def pack(self) -> Block:
        """Return the block for another process: rows in memory are cut out of the larger arrays that hold them."""
        in_memory = any(isinstance(s.piece, MemoryPiece) for s in (*self.labeled, *self.unlabeled))
        return self.load() if in_memory else self

    def lazy(self) -> list[Any] | None:
        """Return the Dask values that the pieces refer to, if the block consists of those."""
        values = [s.piece.lazy for s in (*self.labeled, *self.unlabeled)]
        return values if values and all(value is not None for value in values) else None

    def without_data(self) -> Block:
        """Return the block with empty pieces, which :meth:`with_data` fills where the data are."""
        empty = [[Slice(s.piece.without_data(), s.rows) for s in slices] for slices in (self.labeled, self.unlabeled)]
        return Block(self.name, *empty)

    def with_data(self, values: Sequence[Any]) -> Block:
        """Return the block with the given values in its empty pieces, the labeled ones first."""
        filled = [Slice(s.piece.with_data(value), s.rows) for s, value in zip([*self.labeled, *self.unlabeled], values)]
        return Block(self.name, filled[: len(self.labeled)], filled[len(self.labeled) :])


def _load(slices: list[Slice]) -> list[Slice]:
    return [Slice(MemoryPiece(concatenate([s.read() for s in slices])))] if slices else []


@dataclass(frozen=True, eq=False)
class Source:
    """Pieces with rows numbered across them, and what is known about the rows without reading them.

    Parameters
    ----------
    pieces : read one at a time; each has ``n_rows``, ``read(rows)`` and ``chunks(size)``
    n_features : columns of X
    names : the names of the features, or None
    site_labels : the site of every row, or None
    target_names : the names of the labels; empty if they have none
    n_outputs : columns of labels
    one_target : whether labels are a vector
    streamed : whether reading a row means reading its whole piece
    weighted : whether a stream has weights, which are known only once they are read
    """

    pieces: list[Any] = field(repr=False)
    n_features: int
    names: Sequence[str] | None = None
    site_labels: np.ndarray | None = field(default=None, repr=False)
    _: KW_ONLY
    target_names: tuple[str, ...] = ()
    n_outputs: int = 1
    one_target: bool = True
    streamed: bool = False
    weighted: bool = False

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of rows of every piece."""
        return np.asarray([piece.n_rows for piece in self.pieces], dtype=np.int64)

    @cached_property
    def starts(self) -> np.ndarray:
        """The number of the first row of every piece, followed by the number of all rows."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def n_rows(self) -> int:
        """Number of rows of all pieces."""
        return int(self.starts[-1])

    def slices(self, rows: np.ndarray) -> list[Slice]:
        """Return slices for sorted row numbers of the whole, each with the row numbers of its own piece."""
        cuts = np.searchsorted(rows, self.starts)
        slices = []
        for piece, start, a, b in zip(self.pieces, self.starts, cuts[:-1], cuts[1:]):
            if b > a:
                within = rows[a:b] - start
                slices.append(Slice(piece, None if len(within) == piece.n_rows else within))
        return slices

    def draw_order(self, rng: np.random.Generator) -> np.ndarray:
        """Return all rows in a random order; rows that are streamed stay together with those of their piece."""
        if not self.streamed:
            return rng.permutation(self.n_rows)
        pieces = rng.permutation(len(self.pieces))
        return np.concatenate([self.starts[p] + rng.permutation(int(self.counts[p])) for p in pieces])


class ArraySource(Source):
    """Rows of arrays that have been checked already."""

    def __init__(
        self,
        rows: Rows,
        names: Sequence[str] | None = None,
        site_labels: np.ndarray | None = None,
        *,
        target_names: tuple[str, ...] = (),
        one_target: bool = True,
    ) -> None:
        T = 1 if rows.Y is None else int(rows.Y.shape[1])
        about: dict[str, Any] = {"target_names": target_names, "n_outputs": T, "one_target": one_target}
        super().__init__([MemoryPiece(rows)], int(rows.X.shape[1]), names, site_labels, **about)

    @property
    def rows(self) -> Rows:
        """All rows."""
        rows: Rows = self.pieces[0].data
        return rows


class RemoteSource(Source, ABC):
    """Rows that stay where they are. A fit asks for those rows it needs, and for sums over the others."""

    @abstractmethod
    def open_labeled(self, owner: Any, y: Any, sample_weight: Any) -> RemoteSource:
        """Return these rows for one fit; raise a ValueError if they do not serve it."""


def find_label_names(y: Any) -> tuple[str, ...]:
    """Return the names of labels, from their columns or from the frame that holds them; nothing if they have none."""
    if isinstance(y, (str, list, tuple)):
        named = [y] if isinstance(y, str) else list(y)
    elif is_dask(y):  # whose arrays have names that Dask made up
        named = []
    else:
        named = list(y.columns) if hasattr(y, "columns") else [getattr(y, "name", None)]
    return tuple(named) if all(isinstance(name, str) and name for name in named) else ()


def read_site_labels(name: str, sites: Any, n: int) -> np.ndarray | None:
    """Return a label for every row; raise a ValueError if one is missing."""
    if sites is None:
        return None
    labels = np.asarray(to_numpy(sites))
    if labels.shape != (n,):
        raise ValueError(f"{name} must hold one label per row: there are {n} rows, got {quote(sites, 40)}")
    unlabeled = (
        any(_is_missing(label) for label in labels)
        if labels.dtype == object
        else labels.dtype.kind in "fmM" and bool(np.any(labels != labels))
    )
    if unlabeled:
        raise ValueError(f"{name} has rows without a label: give every row its site")
    return np.asarray([str(label) for label in labels]) if labels.dtype == object else labels


def _is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, NaT or pandas' NA."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # NA has no truth value
        return True


def hash_rows(X: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Return a 64-bit number per row: equal for equal rows, else as good as random. ``constants``: one per column."""
    total = np.zeros(len(X), dtype=np.uint64)
    for column, constant in zip(np.asarray(X, dtype=np.float64).T, constants):
        bits = np.ascontiguousarray(column + 0.0).view(np.uint64)  # -0.0 and 0.0 are the same row
        total = _mix(total + _mix(bits ^ constant))
    return total


def _mix(bits: np.ndarray) -> np.ndarray:
    """Return the finaliser of splitmix64, in which every input bit changes half the output bits on average."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
