"""Rows in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import InMemory, Rows, Source


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
