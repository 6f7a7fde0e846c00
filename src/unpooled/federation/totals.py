"""Sums of what a statistic asks for that is no summary and no scores: named by the statistic, adding up like them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .. import files
from ..summaries.compensated import Sum
from ..summaries.summary import from_arrays, is_digest, to_arrays

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
