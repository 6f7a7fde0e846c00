"""Rows of one site wherever they lie: the pieces and slices they are read from, blocks of them, and sources.

A block is a reference, and ``read`` brings its rows into memory. A source is a list of pieces, which are one array, the
row groups of Parquet files, or the partitions of a Dask collection. Its rows are numbered through all pieces, so a
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

#: Bytes of rows that are kept in memory where some are read before the pass over all of them.
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
    @property
    def single(self) -> bool: ...  #: whether the rows are known to be of single precision before they are read
    @property
    def lazy(self) -> Any: ...  #: the Dask value that the piece stands for, or None

    def read(self, rows: np.ndarray | None = None) -> Rows:
        """The rows of the given numbers within the piece, in that order; None for all."""

    def chunks(self, size: int) -> Iterator[Rows]:
        """All rows, at most ``size`` at a time where the piece can be read in parts."""


@dataclass
class _Loaded:
    """Rows in memory."""

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
class InMemory(_Loaded):
    """A piece that is here already."""

    def chunks(self, size: int) -> Iterator[Rows]:
        yield self.data


@dataclass
class Kept(_Loaded):
    """A piece that was read and is kept in memory. It gives the chunks that the piece gave, so sums over it stay."""

    in_parts: bool  #: the piece could be read in parts

    def chunks(self, size: int) -> Iterator[Rows]:
        step = size if self.in_parts else max(1, self.n_rows)
        for start in range(0, self.n_rows, step):
            yield self.data.part(slice(start, start + step))


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
        if self.rows is None:
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
        found = [s.piece.lazy for s in (*self.labeled, *self.unlabeled)]
        return found if found and all(value is not None for value in found) else None

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


@dataclass(frozen=True, eq=False)
class Source:
    """Pieces with rows numbered through, and what is known of them unread. It is complete when it is made.

    Parameters
    ----------
    pieces : what is read at once: ``n_rows`` each, ``read(rows)`` and ``chunks(size)``
    n_features : columns of X
    names : of the features, or None
    site_labels : the site of every row, or None
    target_names : of the labels, or nothing
    n_outputs : columns of labels
    one_target : labels are a vector
    streamed : reading a row costs reading its piece
    weighted : a stream has weights, which only reading tells
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
        """The rows of every piece."""
        return np.asarray([piece.n_rows for piece in self.pieces], dtype=np.int64)

    @cached_property
    def starts(self) -> np.ndarray:
        """The number of the first row of every piece, and behind them the number of all rows."""
        return np.concatenate([[0], np.cumsum(self.counts)])

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
        super().__init__([InMemory(rows)], int(rows.X.shape[1]), names, site_labels, **about)

    @property
    def rows(self) -> Rows:
        """All of them."""
        found: Rows = self.pieces[0].data
        return found


class RemoteSource(Source, ABC):
    """Rows that stay where they are. A fit that is given them asks for those of one fit, and for sums over them."""

    @abstractmethod
    def open_labeled(self, owner: Any, y: Any, sample_weight: Any) -> RemoteSource:
        """These rows for one fit; a ValueError where that is not what they are for."""


def label_names(y: Any) -> tuple[str, ...]:
    """The names of labels, by the columns they are named as or by the frame that holds them; else nothing."""
    if isinstance(y, (str, list, tuple)):
        named = [y] if isinstance(y, str) else list(y)
    elif is_dask(y):  # whose arrays have names that Dask made up
        named = []
    else:
        named = list(y.columns) if hasattr(y, "columns") else [getattr(y, "name", None)]
    return tuple(named) if all(isinstance(name, str) and name for name in named) else ()


def site_labels(name: str, sites: Any, n: int) -> np.ndarray | None:
    """A label for every row, none missing."""
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
    """None, NaN, NaT, pandas' NA."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # NA has no truth value
        return True


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
