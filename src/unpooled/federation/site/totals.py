"""Sums of what a statistic asks for that is no summary and no scores: named by the statistic, adding up like them.

Sums as one vector and back: the number of rows first, then the fields of the statistic one after the other.

Sums with noise in shares, as the whole numbers that they are: what a secure sum adds must not round.

Each site's noised sums are multiples k·g/w of a public grid g by public weights w. As doubles they are rounded, each in
its own way, and in a sum to many digits these roundings would show how it came about; the proof that shares of noise
are enough is for Σk alone (docs/privacy/summaries.md). So sites add up k, and the server divides once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..._base import files
from ..._base.compensated import Sum
from ...privacy.sensitivity import Released
from ...summaries.contents import from_arrays, is_digest, to_arrays

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Totals:
    """Sums over the rows of one site or several, of the same statistic."""

    statistic: str  #: its digest
    n_rows: int
    sums: dict[str, Sum] = field(repr=False)

    def __add__(self, other: object) -> Totals:
        if not isinstance(other, Totals):
            return NotImplemented
        if self.statistic != other.statistic:
            names = f"{self.statistic[:12]} and the other of {other.statistic[:12]}"
            raise ValueError(f"these totals do not add up: one is of the statistic {names}")
        sums = {name: value + other.sums[name] for name, value in self.sums.items()}
        return replace(self, n_rows=self.n_rows + other.n_rows, sums=sums)

    def save(self, path: files.PathLike) -> None:
        """Write them to one file."""
        files.write(path, "totals", {"statistic": self.statistic, "n_rows": self.n_rows}, to_arrays(self.sums))

    @classmethod
    def load(cls, path: files.PathLike, fields: Shapes) -> Totals:
        """The totals in a file, which must have these fields."""
        header, arrays = files.read(path, "totals")
        try:
            if not is_digest(header.get("statistic")) or type(header.get("n_rows")) is not int or header["n_rows"] < 1:
                raise ValueError("its header does not say what it is of")
            return cls(header["statistic"], header["n_rows"], from_arrays(arrays, fields))
        except ValueError as error:
            raise files.FileError(f"{path} does not hold complete totals: {error}") from None


def flattened(n_rows: int, sums: dict[str, Sum], fields: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """The numbers as pairs high + low; a ValueError where the sums are not of these fields."""
    if {name: value.high.shape for name, value in sums.items()} != fields:
        raise ValueError("the sums that were made are not those that the statistic says")
    high = [np.asarray([float(n_rows)]), *(sums[name].high.ravel() for name in fields)]
    low = [np.zeros(1), *(sums[name].low.ravel() for name in fields)]
    return np.concatenate(high), np.concatenate(low)


def length(fields: Shapes) -> int:
    """How many numbers the vector has."""
    return 1 + sum(int(np.prod(shape)) for shape in fields.values())


def restored(high: np.ndarray, low: np.ndarray, fields: Shapes) -> tuple[int, dict[str, Sum]]:
    """The number of rows and the sums."""
    if len(high) != length(fields):
        raise ValueError(f"the vector has {len(high)} numbers, and the statistic {length(fields)}")
    n_rows, start, sums = int(high[0]), 1, {}
    if high[0] != n_rows or low[0] or n_rows < 1:
        raise ValueError("the number of rows in the sum is not a positive whole number")
    for name, shape in fields.items():
        end = start + int(np.prod(shape))
        sums[name] = Sum(high[start:end].reshape(shape), low[start:end].reshape(shape))
        start = end
    return n_rows, sums


LARGEST = 2.0**51  # whole numbers up to this come back exactly from k·g/w in double precision


def whole(sums: Mapping[str, np.ndarray], released: Released, grid: float) -> np.ndarray:
    """The whole numbers k behind the noised sums of one site, as one vector."""
    found = np.rint(released.pack(dict(sums)) / grid)
    if not np.all(np.abs(found) < LARGEST):
        raise ValueError("the sums are too large for the grid of their noise: bring the labels to another unit")
    again = released.unpack(found * grid)
    if any(not np.array_equal(again[name], np.ravel(sums[name])) for name in again):
        raise ValueError("the sums are not multiples of the grid of their noise, so no share of it protects them")
    return found


def from_whole(total: np.ndarray, released: Released, grid: float) -> dict[str, np.ndarray]:
    """The noised sums over all sites, by name, from Σk."""
    return released.unpack(np.asarray(total, dtype=np.float64) * grid)
