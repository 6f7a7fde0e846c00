"""The outcome of an experiment: tables, panels to draw and verdicts, all plain data that goes to a file and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Cell = str | int | float | None

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


@dataclass(frozen=True)
class Table:
    """Rows of cells; a number is shown with three significant digits, and None as an empty cell."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def cells(self) -> list[list[str]]:
        """Return every cell as text."""
        return [[_format_cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Curve:
    """Points with, where they were measured often, an interval each; ``style`` is "measured", "theory" or "level"."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    style: str = "measured"


def line(label: str, x: Iterable[float], y: Iterable[float], style: str = "theory") -> Curve:
    """Make a curve of points without intervals."""
    return Curve(label, tuple(map(float, x)), tuple(map(float, y)), style=style)


def power_law(x: Sequence[float], start: float, exponent: float, letter: str = "N") -> Curve:
    """start·(x/x₁)^{-exponent}: the slope of the theory, from a first point on."""
    return line(f"{letter}^-{exponent:.3f}", x, (start * (value / x[0]) ** -exponent for value in x))


def level(label: str, x: Sequence[float], value: float) -> Curve:
    """Make a horizontal line."""
    return line(label, (x[0], x[-1]), (value, value), "level")


@dataclass(frozen=True)
class Panel:
    """One pair of axes. ``marks`` are vertical lines: a label and where it stands."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    marks: tuple[tuple[str, float], ...] = ()
    x_log: bool = True
    y_log: bool = True


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it held (HOLDS, FAILS or UNDECIDED), and the figures that say so.

    ``known_wrong`` marks a claim that is known to be misprinted, or empty: FAILS is then the expected status.
    ``chance`` is the probability of figures as bad for the claim, or worse, if it only just holds; None if chance plays
    no part.
    """

    claim: str
    status: str
    evidence: str
    known_wrong: bool = False
    chance: float | None = None


@dataclass(frozen=True)
class Outcome:
    """The findings of an experiment; ``notes`` are sentences that explain the figures."""

    tables: tuple[Table, ...]
    panels: tuple[Panel, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Any) -> Outcome:
        """Make an outcome from the content of a file whose checksum was right."""
        return cls(
            tuple(Table(t["title"], tuple(t["heads"]), tuple(map(tuple, t["rows"]))) for t in content["tables"]),
            tuple(_panel(p) for p in content["panels"]),
            tuple(Verdict(**v) for v in content["verdicts"]),
            tuple(content["notes"]),
        )


def _panel(content: dict[str, Any]) -> Panel:
    curves = tuple(_curve(curve) for curve in content["curves"])
    marks = tuple((str(label), float(x)) for label, x in content["marks"])
    return Panel(**{**content, "curves": curves, "marks": marks})


def _curve(content: dict[str, Any]) -> Curve:
    points = {key: None if content[key] is None else tuple(content[key]) for key in ("x", "y", "low", "high")}
    return Curve(content["label"], **points, style=content["style"])  # type: ignore[arg-type]


def _format_cell(cell: Cell) -> str:
    """Write a cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if abs(cell) >= 1e6:
        return f"{cell:.3g}".replace("e+0", "e").replace("e+", "e")
    return f"{cell:,.0f}" if isinstance(cell, int) or abs(cell) >= 1000 else f"{cell:.3g}"
