"""Rows of one site wherever they lie: the pieces and slices they are read from, blocks of them, and sources.

A block is a reference, and ``read`` brings its rows into memory. A source is a list of pieces, which are one array, the
row groups of Parquet files, or the partitions of a Dask collection. Its rows are numbered through all pieces, so a
partition is a set of row numbers whatever the source is. The source for arrays in memory is here, and so is the hash of
a row's content; the sources for files and for Dask are in :mod:`unpooled.data`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .arrays import Array, namespace, take_rows


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
        """Σ w_i; without weights the number of rows."""
        return float(len(self)) if self.weights is None else float(self.weights.sum())

    def take(self, rows: np.ndarray) -> Rows:
        """The rows of the given numbers."""
        return Rows(
            take_rows(self.X, rows),
            None if self.Y is None else take_rows(self.Y, rows),
            None if self.weights is None else self.weights[rows],
        )

    def part(self, stretch: slice) -> Rows:
        """A stretch of the rows, as views."""
        return Rows(
            self.X[stretch, :],
            None if self.Y is None else self.Y[stretch, :],
            None if self.weights is None else self.weights[stretch],
        )

    def positive(self) -> Rows:
        """Without the rows of weight zero, which are as if they were not there."""
        if self.weights is None or np.all(self.weights > 0):
            return self
        return self.take(np.flatnonzero(self.weights > 0))


def concatenate(parts: Sequence[Rows]) -> Rows:
    """One after the other."""
    if len(parts) == 1:
        return parts[0]
    xp = namespace(parts[0].X)
    weights = None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([np.ones(len(p)) if p.weights is None else p.weights for p in parts])
    Y = None if parts[0].Y is None else xp.concat([part.Y for part in parts])
    return Rows(xp.concat([part.X for part in parts]), Y, weights)


class Piece(Protocol):
    """A stretch of rows that is read at once."""

    @property
    def n_rows(self) -> int: ...

    def read(self, rows: np.ndarray | None = None) -> Rows:
        """The rows of the given numbers within the piece, in that order; None for all."""


@dataclass
class InMemory:
    """A piece that is here already."""

    data: Rows

    @property
    def n_rows(self) -> int:
        return len(self.data)

    def read(self, rows: np.ndarray | None = None) -> Rows:
        return self.data if rows is None else self.data.take(rows)


@dataclass
class Slice:
    """Some rows of a piece, or all of them (None)."""

    piece: Any
    rows: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.piece.n_rows) if self.rows is None else len(self.rows)

    def read(self) -> Rows:
        """The rows."""
        return self.piece.read(self.rows)

    def chunks(self, size: int) -> Iterator[Rows]:
        """The rows, about ``size`` at a time where the piece can be read in parts."""
        if self.rows is None and hasattr(self.piece, "chunks"):
            yield from self.piece.chunks(size)
        else:
            yield self.read()


@dataclass
class Block:
    """The labeled rows of one site, D_j, and its unlabeled rows.

    Attributes
    ----------
    name : of the site
    labeled : slices of pieces
    unlabeled : the same of rows without labels
    """

    name: str
    labeled: list[Slice]
    unlabeled: list[Slice]

    @property
    def n_rows(self) -> int:
        return sum(len(s) for s in self.labeled)

    @property
    def n_unlabeled(self) -> int:
        return sum(len(s) for s in self.unlabeled)

    def read(self) -> tuple[Rows, Array | None]:
        """The labeled rows, and X of the unlabeled ones or None."""
        rows = concatenate([s.read() for s in self.labeled]).positive()
        return rows, concatenate([s.read() for s in self.unlabeled]).X if self.n_unlabeled else None

    def loaded(self) -> Block:
        """The same block with its rows, and no others, in memory."""
        return Block(self.name, _loaded(self.labeled), _loaded(self.unlabeled))

    def shipped(self) -> Block:
        """What travels to another process: rows in memory are cut out of the arrays that hold more."""
        in_memory = any(isinstance(s.piece, InMemory) for s in (*self.labeled, *self.unlabeled))
        return self.loaded() if in_memory else self

    def lazy(self) -> list[Any] | None:
        """The Dask values that the pieces stand for, where the block is made of those."""
        slices = [*self.labeled, *self.unlabeled]
        return [s.piece.lazy for s in slices] if slices and all(hasattr(s.piece, "lazy") for s in slices) else None

    def without_data(self) -> Block:
        """The block with empty pieces, to be filled by :meth:`with_data` where the data are."""
        empty = [[Slice(s.piece.emptied(), s.rows) for s in slices] for slices in (self.labeled, self.unlabeled)]
        return Block(self.name, *empty)

    def with_data(self, values: Sequence[Any]) -> Block:
        """The inverse: the values of the pieces, labeled ones first."""
        filled = [Slice(s.piece.filled(value), s.rows) for s, value in zip([*self.labeled, *self.unlabeled], values)]
        return Block(self.name, filled[: len(self.labeled)], filled[len(self.labeled) :])


def _loaded(slices: list[Slice]) -> list[Slice]:
    return [Slice(InMemory(concatenate([s.read() for s in slices])))] if slices else []


class Source:
    """Pieces with rows numbered through, labels of sites where there are any, and names of the features.

    Parameters
    ----------
    pieces : what is read at once: ``n_rows`` each, and ``read(rows)``
    n_features : columns of X
    names : of the features, or None
    site_labels : the site of every row, or None
    """

    streamed = False  #: True where reading a row costs reading its piece
    weighted = False  #: True where a stream has weights, which only reading tells
    one_target = True  #: labels are a vector
    n_outputs = 1  #: columns of labels
    target_names: tuple[str, ...] = ()

    def __init__(
        self, pieces: Sequence[Any], n_features: int, names: Sequence[str] | None, site_labels: np.ndarray | None
    ) -> None:
        self.pieces = list(pieces)
        self.counts = np.asarray([piece.n_rows for piece in self.pieces], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])
        self.n_features = n_features
        self.names = names
        self.site_labels = site_labels

    @property
    def n_rows(self) -> int:
        return int(self.starts[-1])

    def slices(self, rows: np.ndarray) -> list[Slice]:
        """The pieces' own row numbers for sorted row numbers of the whole."""
        cuts = np.searchsorted(rows, self.starts)
        found = []
        for piece, start, a, b in zip(self.pieces, self.starts, cuts[:-1], cuts[1:]):
            if b > a:
                own = rows[a:b] - start
                found.append(Slice(piece, None if len(own) == piece.n_rows else own))
        return found

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """All rows in a random order; where rows are streamed those of a piece stay together, shuffled."""
        if not self.streamed:
            return rng.permutation(self.n_rows)
        pieces = rng.permutation(len(self.pieces))
        return np.concatenate([self.starts[p] + rng.permutation(int(self.counts[p])) for p in pieces])


class ArraySource(Source):
    """Arrays that have been checked already."""

    def __init__(self, rows: Rows, names: Sequence[str] | None = None, site_labels: np.ndarray | None = None) -> None:
        super().__init__([InMemory(rows)], int(rows.X.shape[1]), names, site_labels)
        self.rows = rows


def row_hash(X: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """A 64-bit number for every row: equal for equal rows, else as good as random. ``constants``: one a column."""
    total = np.zeros(len(X), dtype=np.uint64)
    for column, constant in zip(np.asarray(X, dtype=np.float64).T, constants):
        bits = np.ascontiguousarray(column + 0.0).view(np.uint64)  # -0.0 and 0.0 are the same row
        total = _mixed(total + _mixed(bits ^ constant))
    return total


def _mixed(bits: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input moves half the bits of the output."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
