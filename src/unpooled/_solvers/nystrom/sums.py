"""One pass over all rows: the sums that every route starts from, and the Gram matrix where one is wanted.

The rows of a source are brought to a machine in chunks, pass after pass. They are kept where they fit into memory, and
read ahead where they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..._base.arrays import Array, namespace, to_numpy
from ..._base.rows import InMemory, Rows, Slice, Source
from ..spectral.criteria import random_signs
from .machine import Machine, PlacedRows


class Chunks:
    """Passes over placed rows."""

    def __init__(self, source: Source, machine: Machine) -> None:
        self.source, self.machine = source, machine
        self._kept: list[PlacedRows] | None = None

    def __iter__(self) -> Iterator[PlacedRows]:
        if self._kept is not None:
            yield from self._kept
            return
        bytes_a_row = 8 * (self.source.n_features + self.source.n_outputs + 1)
        keep = self.source.n_rows * bytes_a_row <= self.machine.room
        kept: list[PlacedRows] = []
        for placed in self._placed():
            if keep:
                kept.append(placed)
            yield placed
        if keep:
            self._kept = kept

    def _placed(self) -> Iterator[PlacedRows]:
        """The next rows are read and moved while the last ones are worked on."""
        placed = (self.machine.place(rows) for rows in self._rows())
        with ThreadPoolExecutor(1) as ahead:
            waiting = ahead.submit(next, placed, None)
            while (found := waiting.result()) is not None:
                waiting = ahead.submit(next, placed, None)
                yield found

    def _rows(self) -> Iterator[Rows]:
        size = self.machine.rows_at_once
        for piece in self.source.pieces:
            if isinstance(piece, InMemory):
                for start in range(0, piece.n_rows, max(size, 1 << 21)):
                    yield piece.data.cut(slice(start, start + max(size, 1 << 21))).drop_weightless()
                continue
            for rows in Slice(piece).chunks(size):
                rows = rows.drop_weightless()
                if len(rows):
                    yield rows


@dataclass
class Sums:
    """Over rows: their number, Σw, Σwy, Σwy², Σw(r - m), Σwy(r - m).

    m is zero, or the machine's means where a Gram matrix is wanted; the labels are less a guess at their mean. Labels
    of random signs may follow those of the user.
    """

    n_rows: int
    weight: float
    y: np.ndarray  #: (T + probes,)
    yy: np.ndarray  #: (T + probes,)
    r: Array = field(repr=False)  #: (M,)
    ry: Array = field(repr=False)  #: (M, T + probes)
    gram: Array | None = field(default=None, repr=False)  #: (M, M), Σw(r - m)(r - m)ᵀ where it is wanted

    def averages(self, place: Callable[[Array], Array]) -> Sums:
        """The same of weight one, moved to where systems are solved."""
        r, ry, gram = (None if part is None else place(part) / self.weight for part in (self.r, self.ry, self.gram))
        return Sums(self.n_rows, 1.0, self.y / self.weight, self.yy / self.weight, r, ry, gram)

    def moved(self, by: np.ndarray) -> Sums:
        """Of labels to which numbers are added, one for each label of the user."""
        by = np.append(by, np.zeros(len(self.y) - len(by)))
        y, yy = self.y + by * self.weight, self.yy + by * (2.0 * self.y + by * self.weight)
        added = namespace(self.ry).asarray(by, dtype=self.ry.dtype, device=self.ry.device)
        return replace(self, y=y, yy=yy, ry=self.ry + self.r[:, None] * added[None, :])

    def __add__(self, other: Sums) -> Sums:
        """Of the rows of both; neither is changed."""
        return Sums(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.y + other.y,
            self.yy + other.yy,
            self.r + other.r,
            self.ry + other.ry,
            None if self.gram is None or other.gram is None else self.gram + other.gram,
        )


def sum_rows(machine: Machine, chunks: Iterable[PlacedRows], probes: int, gram: bool, guess: np.ndarray) -> Sums:
    """All sums over the rows of all chunks; ``guess`` is taken from the labels."""
    total: Sums | None = None
    products: Any = None  # in the machine's own form
    for rows in chunks:
        with np.errstate(over="ignore", invalid="ignore"):  # a sentence follows
            V, Y, w = _labels(machine, rows, probes, guess, 0 if total is None else total.n_rows)
            y, yy = _sums_of_labels(Y, V[:, 1:])
            found, products = machine.add_gram(rows, V, products) if gram else (machine.cross(rows, V), None)
        new = Sums(len(rows), float(namespace(w).sum(w)), y, yy, found[:, 0], found[:, 1:])
        total = new if total is None else total + new
    if total is None or not total.n_rows:
        raise ValueError("there is no row of positive weight to learn from")
    return replace(total, gram=machine.gram(products)) if gram else total


def _labels(
    machine: Machine, rows: PlacedRows, probes: int, guess: np.ndarray, n_before: int
) -> tuple[Array, Array, Array]:
    """[w, wY], Y with labels of random signs behind it, and w."""
    xp = namespace(rows.Y)
    w = machine.array(np.ones(len(rows))) if rows.weights is None else rows.weights
    Y = rows.Y - machine.array(guess)
    if probes:  # from the fit of such labels the degrees of freedom can be told
        draws = np.random.default_rng([n_before, probes]).integers(0, 2, size=(len(rows), probes))
        Y = xp.concat([Y, machine.array(random_signs(draws, None)) / xp.sqrt(w)[:, None]], axis=1)
    return xp.concat([w[:, None], Y * w[:, None]], axis=1), Y, w


def _sums_of_labels(Y: Array, weighted: Array) -> tuple[np.ndarray, np.ndarray]:
    """Σwy and Σwy²."""
    xp = namespace(Y)
    y, yy = to_numpy(xp.sum(weighted, axis=0)), to_numpy(xp.sum(weighted * Y, axis=0))
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(yy))):
        raise ValueError("a sum is too large for a number: bring y or the weights to a smaller scale")
    return y, yy
