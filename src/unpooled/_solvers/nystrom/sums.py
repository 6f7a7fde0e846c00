"""Sums over all rows in one pass: those from which every route starts, and the Gram matrix where one is needed.

The rows of a source are moved to a machine in chunks, pass after pass. They are kept if they fit into memory, and read
ahead if they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..._base.arrays import Array, namespace, to_numpy
from ..._base.rows import MemoryPiece, Rows, Slice, Source
from ..spectral.criteria import random_signs
from .machine import Machine, PlacedRows


class Chunks:
    """Repeated passes over the rows of a source, placed on a machine."""

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
        for placed in self._place_ahead():
            if keep:
                kept.append(placed)
            yield placed
        if keep:
            self._kept = kept

    def _place_ahead(self) -> Iterator[PlacedRows]:
        """Give placed rows; the next ones are read and moved while the caller works on these."""
        placed = (self.machine.place(rows) for rows in self._rows())
        with ThreadPoolExecutor(1) as ahead:
            waiting = ahead.submit(next, placed, None)
            while (rows := waiting.result()) is not None:
                waiting = ahead.submit(next, placed, None)
                yield rows

    def _rows(self) -> Iterator[Rows]:
        size = self.machine.rows_at_once
        for piece in self.source.pieces:
            if isinstance(piece, MemoryPiece):
                for start in range(0, piece.n_rows, max(size, 1 << 21)):
                    yield piece.data.cut(slice(start, start + max(size, 1 << 21))).drop_weightless()
                continue
            for rows in Slice(piece).chunks(size):
                rows = rows.drop_weightless()
                if len(rows):
                    yield rows


@dataclass
class Sums:
    """Sums over rows: their number, Σw, Σwy, Σwy², Σw(r - m), Σwy(r - m).

    m is zero, or the machine's means if a Gram matrix is needed; a guess at their mean is subtracted from the labels.
    Labels of random signs may follow those of the user.
    """

    n_rows: int
    weight: float
    y: np.ndarray  #: (T + probes,)
    yy: np.ndarray  #: (T + probes,)
    r: Array = field(repr=False)  #: (M,)
    ry: Array = field(repr=False)  #: (M, T + probes)
    gram: Array | None = field(default=None, repr=False)  #: (M, M), Σw(r - m)(r - m)ᵀ if it is needed

    def average(self, place: Callable[[Array], Array]) -> Sums:
        """Return the sums divided by the weight, moved to where systems are solved."""
        r, ry, gram = (None if part is None else place(part) / self.weight for part in (self.r, self.ry, self.gram))
        return Sums(self.n_rows, 1.0, self.y / self.weight, self.yy / self.weight, r, ry, gram)

    def shift_labels(self, by: np.ndarray) -> Sums:
        """Return the sums for labels to which numbers are added, one for each label of the user."""
        by = np.append(by, np.zeros(len(self.y) - len(by)))
        y, yy = self.y + by * self.weight, self.yy + by * (2.0 * self.y + by * self.weight)
        added = namespace(self.ry).asarray(by, dtype=self.ry.dtype, device=self.ry.device)
        return replace(self, y=y, yy=yy, ry=self.ry + self.r[:, None] * added[None, :])

    def __add__(self, other: Sums) -> Sums:
        """Return the sums over the rows of both; neither is changed."""
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
    """Return the sums over the rows of all chunks; ``guess`` is subtracted from the labels."""
    total: Sums | None = None
    products: Any = None  # in the machine's own form
    for rows in chunks:
        with np.errstate(over="ignore", invalid="ignore"):  # an error below reports it
            V, Y, w = _labels(machine, rows, probes, guess, 0 if total is None else total.n_rows)
            y, yy = _sums_of_labels(Y, V[:, 1:])
            cross, products = machine.add_gram(rows, V, products) if gram else (machine.cross(rows, V), None)
        new = Sums(len(rows), float(namespace(w).sum(w)), y, yy, cross[:, 0], cross[:, 1:])
        total = new if total is None else total + new
    if total is None or not total.n_rows:
        raise ValueError("there are no rows of positive weight to learn from")
    return replace(total, gram=machine.gram(products)) if gram else total


def _labels(
    machine: Machine, rows: PlacedRows, probes: int, guess: np.ndarray, n_before: int
) -> tuple[Array, Array, Array]:
    """Return [w, wY], Y followed by labels of random signs, and w."""
    xp = namespace(rows.Y)
    w = machine.array(np.ones(len(rows))) if rows.weights is None else rows.weights
    Y = rows.Y - machine.array(guess)
    if probes:  # the fit of such labels gives the degrees of freedom
        draws = np.random.default_rng([n_before, probes]).integers(0, 2, size=(len(rows), probes))
        Y = xp.concat([Y, machine.array(random_signs(draws, None)) / xp.sqrt(w)[:, None]], axis=1)
    return xp.concat([w[:, None], Y * w[:, None]], axis=1), Y, w


def _sums_of_labels(Y: Array, weighted: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return Σwy and Σwy²."""
    xp = namespace(Y)
    y, yy = to_numpy(xp.sum(weighted, axis=0)), to_numpy(xp.sum(weighted * Y, axis=0))
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(yy))):
        raise ValueError("sums of y overflow: bring y or the weights to a smaller scale")
    return y, yy
