"""The rows of a source on a machine, pass after pass: kept where they fit, read ahead where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from ..blocks.base import InMemory, Rows, Slice, Source
from .machine import Machine, Placed


class Chunks:
    """Passes over placed rows."""

    def __init__(self, source: Source, machine: Machine) -> None:
        self.source, self.machine = source, machine
        self._kept: list[Placed] | None = None

    def __iter__(self) -> Iterator[Placed]:
        if self._kept is not None:
            yield from self._kept
            return
        bytes_a_row = 8 * (self.source.n_features + self.source.n_outputs + 1)
        keep = self.source.n_rows * bytes_a_row <= self.machine.room
        kept: list[Placed] = []
        for placed in self._placed():
            if keep:
                kept.append(placed)
            yield placed
        if keep:
            self._kept = kept

    def _placed(self) -> Iterator[Placed]:
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
                    yield piece.data.part(slice(start, start + max(size, 1 << 21))).positive()
                continue
            for rows in Slice(piece).chunks(size):
                rows = rows.positive()
                if len(rows):
                    yield rows
