"""Small charts as SVG text: axes, lines, dots, and the figure around a chart. The style sheet has colours and sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from .._base import html
from .._base.text import format_number, format_power

WIDTH, HEIGHT = 440, 280  # letters of 12 stay readable where a phone shows this in 350 pixels
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 26, 42


@dataclass(frozen=True)
class Axis:
    """What one direction shows, and from where to where."""

    label: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, label: str, *values: Any, log: bool = False, zero: bool = False) -> Axis:
        """Around all finite values, with a little room; on a logarithmic axis those above zero."""
        flat = np.concatenate([np.asarray(v, dtype=float).reshape(-1) for v in values])
        flat = flat[np.isfinite(flat) & ((flat > 0) if log else True)]
        low, high = (float(flat.min()), float(flat.max())) if len(flat) else (1.0, 10.0) if log else (0.0, 1.0)
        if log:
            room = max((high / low) ** 0.04, 1.05)
            return cls(label, low / room, high * room, True)
        low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
        room = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05
        return cls(label, low if zero and low == 0 else low - room, high if zero and high == 0 else high + room)

    def share(self, values: Any) -> np.ndarray:
        """Where values lie between low (0) and high (1)."""
        values = np.asarray(values, dtype=float)
        if not self.log:
            return np.asarray((values - self.low) / (self.high - self.low))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(values / self.low) / math.log(self.high / self.low))

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Round values within the axis, and how they are written."""
        return self._log_ticks(most) if self.log else self._linear_ticks(most)

    def _linear_ticks(self, most: int) -> list[tuple[float, str]]:
        raw = (self.high - self.low) / most
        step = 10.0 ** math.floor(math.log10(raw))
        step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= raw * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(-math.floor(math.log10(step) + 1e-9), 0)
        if digits > 4 or step >= 1e7:
            return [(k * step, format_number(k * step)) for k in range(first, last + 1)]
        return [(k * step, f"{k * step:,.{digits}f}".replace("-", "−")) for k in range(first, last + 1)]

    def _log_ticks(self, most: int) -> list[tuple[float, str]]:
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        if last - first >= 2:
            every = -(-(last - first + 1) // most)
            return [(10.0**k, _written(10.0**k)) for k in range(first, last + 1) if k % every == 0]
        decades = range(math.floor(math.log10(self.low)), last + 1)
        fine = [m * 10.0**k for k in decades for m in (1, 2, 5) if self.low <= m * 10.0**k <= self.high]
        if len(fine) < 3:
            fine = [value for value, _ in Axis("", self.low, self.high)._linear_ticks(4) if value > 0]
        return [(value, f"{value:,g}" if 1e-4 < value < 1e5 else format_number(value, 2)) for value in fine]


def _written(value: float) -> str:
    exponent = round(math.log10(value))
    return f"{value:,g}" if -3 <= exponent <= 4 else format_power(exponent)


@dataclass
class Chart:
    """One chart under construction; ``svg`` gives its text. Marks carry words that show where a pointer is."""

    x: Axis
    y: Axis
    height: int = HEIGHT
    left: int = LEFT
    top: int = TOP
    names: Sequence[str] = ()  #: of rows, in the place of numbers at the left: y is then 0, 1, … from the top
    parts: list[str] = field(default_factory=list)

    def across(self, values: Any) -> np.ndarray:
        """Horizontal positions."""
        return np.asarray(self.left + self.x.share(values) * (WIDTH - RIGHT - self.left))

    def down(self, values: Any) -> np.ndarray:
        """Vertical positions."""
        room = self.height - self.top - BOTTOM
        if self.names:
            return np.asarray(self.top + (np.asarray(values, dtype=float) + 0.5) * room / len(self.names))
        return np.asarray(self.height - BOTTOM - self.y.share(values) * room)

    def points(self, x: Any, y: Any) -> str:
        """Pairs of positions, as a polyline has them; those that are no numbers are left out."""
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(self.across(x), self.down(y)) if np.isfinite(a + b))

    def line(self, x: Any, y: Any, kind: str = "main", **data: Any) -> Chart:
        """A line through points."""
        return self._add(f'<polyline class="line {kind}"{_attributes(data)} points="{self.points(x, y)}"/>')

    def band(self, x: Any, low: Any, high: Any) -> Chart:
        """What lies between two lines."""
        there, back = self.points(x, low), self.points(np.asarray(x)[::-1], np.asarray(high)[::-1])
        return self._add(f'<polygon class="band" points="{there} {back}"/>')

    def dots(self, x: Any, y: Any, words: Sequence[str], kind: str = "main", radius: float = 3.5) -> Chart:
        """Dots with words; of the kind "ghost" they are seen only under a pointer."""
        for a, b, said in zip(self.across(x), self.down(y), words):
            if np.isfinite(a + b):
                where = f'cx="{a:.1f}" cy="{b:.1f}" r="{radius:g}"'
                self._add(f'<circle class="mark {kind}" {where}><title>{escape(said)}</title></circle>')
        return self

    def spans(self, low: Any, high: Any, y: Any, kind: str = "span") -> Chart:
        """Horizontal stretches."""
        for a, b, c in zip(self.across(low), self.across(high), self.down(y)):
            if np.isfinite(a + b + c):
                self._add(f'<line class="{kind}" x1="{a:.1f}" x2="{b:.1f}" y1="{c:.1f}" y2="{c:.1f}"/>')
        return self

    def bars(self, x: Any, low: Any, high: Any) -> Chart:
        """Vertical bars between the edges ``x``, from low to high."""
        edges, tops, feet = self.across(x), self.down(high), self.down(low)
        for a, b, top, foot in zip(edges[:-1], edges[1:], tops, feet):
            shape = f'x="{a + 0.5:.1f}" width="{max(b - a - 1, 0.5):.1f}" y="{top:.1f}" height="{foot - top:.1f}"'
            self._add(f'<rect class="bar" {shape}/>')
        return self

    def upright(self, x: float, kind: str = "guide", words: str = "", **data: Any) -> Chart:
        """A line from top to bottom."""
        a = float(self.across(x))
        ends = f'x1="{a:.1f}" x2="{a:.1f}" y1="{self.top}" y2="{self.height - BOTTOM}"'
        self._add(f'<line class="{kind}"{_attributes(data)} {ends}/>')
        if words:
            end = a > WIDTH / 2
            height = self.top - 6 if self.names else self.top + 11
            self._write("note", a - 5 if end else a + 5, height, "end" if end else "start", words)
        return self

    def level(self, y: float, kind: str = "guide", words: str = "") -> Chart:
        """A line from left to right."""
        b = float(self.down(y))
        self._add(f'<line class="{kind}" x1="{self.left}" x2="{WIDTH - RIGHT}" y1="{b:.1f}" y2="{b:.1f}"/>')
        if words:
            self._write("note", WIDTH - RIGHT - 2, b - 5, "end", words)
        return self

    def _write(self, kind: str, x: float, y: float, anchor: str, words: str) -> None:
        self._add(_text(kind, x, y, anchor, words))

    def _add(self, part: str) -> Chart:
        self.parts.append(part)
        return self

    def svg(self, name: str) -> str:
        """The chart; ``name`` is its id in the page, and its description has the id ``name-words``."""
        bottom, right = self.height - BOTTOM, WIDTH - RIGHT
        # Notes may stand above the chart, nothing may leave it to the sides.
        room = f'x="{self.left}" y="{self.top - 20}" width="{right - self.left}" height="{bottom - self.top + 24}"'
        frame = [f'<clipPath id="{name}-room"><rect {room}/></clipPath>']
        for value, text in self.x.ticks():
            a = float(self.across(value))
            frame.append(f'<line class="grid" x1="{a:.1f}" x2="{a:.1f}" y1="{self.top}" y2="{bottom}"/>')
            frame.append(_text("tick", a, bottom + 15, "middle", text))
        for b, text in self._rows():
            frame.append(f'<line class="grid" x1="{self.left}" x2="{right}" y1="{b:.1f}" y2="{b:.1f}"/>')
            frame.append(_text("tick", self.left - 6, b + 4, "end", text))
        frame.append(_text("axis", (self.left + right) / 2, self.height - 7, "middle", self.x.label))
        frame.append(_text("axis", 4, 14, "start", self.y.label))
        return (
            f'<svg class="chart" id="{name}" viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-labelledby="{name}-words" tabindex="0">{"".join(frame)}'
            f'<g clip-path="url(#{name}-room)">{"".join(self.parts)}</g></svg>'
        )

    def _rows(self) -> list[tuple[float, str]]:
        if self.names:
            return [(float(self.down(i)), _cut(name)) for i, name in enumerate(self.names)]
        return [(float(self.down(value)), text) for value, text in self.y.ticks(5)]


def figure(
    name: str,
    chart: Chart,
    words: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    key: Sequence[str] = (),
    place: int | None = None,
) -> str:
    """A chart, what it shows in a sentence, and its numbers as a table.

    ``key`` says what the first and the second colour are, ``place`` numbers figures of which one is shown at a time.
    """
    kinds = zip(("", ' class="second"'), key)
    colours = "".join(f"<li{kind}>{escape(said)}</li>" for kind, said in kinds)
    numbers = html.fold("Numbers", [html.table(header, rows)])
    legend = f'<ul class="key">{colours}</ul>' if key else ""
    below = f'<div class="below">{legend}{numbers}</div>'
    number = "" if place is None else f' data-input="{place}"'
    caption = f'<figcaption id="{name}-words">{escape(words)}</figcaption>'
    return f"<figure{number}>{caption}{chart.svg(name)}{below}</figure>"


def row_chart(x: Axis, names: Sequence[str]) -> Chart:
    """A chart with a row for each name."""
    longest = max(len(_cut(name)) for name in names)
    top = 18
    height = top + BOTTOM + 22 * len(names)
    return Chart(x, Axis("", 0, 1), height, left=12 + round(7.5 * longest), top=top, names=names)


def _cut(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"


def _text(kind: str, x: float, y: float, anchor: str, words: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(words)}</text>' if words else ""


def _attributes(data: dict[str, Any]) -> str:
    return "".join(f' data-{key}="{escape(str(value))}"' for key, value in data.items())
