"""Panels as a figure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..reports.comparison import COLOURS, MARKERS
from ..reports.plots import new_panels
from .outcome import Curve, Outcome, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, LEGEND_LINE = 4.6, 3.6, 0.19  # inches, of a panel and of a line of its legend
A_ROW = 3  # panels beside each other at most
FEWEST_TICKS, MOST_DECADES = 3, 7  # of an axis: with more decades not every power of ten has a tick
DIGITS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7))


def drawn(panels: tuple[Panel, ...]) -> Figure:
    """Panels beside each other, each with its legend below it."""
    most = max(len(labels_of(panel)) for panel in panels)
    columns = min(len(panels), A_ROW)
    rows = -(-len(panels) // columns)
    figure, _ = new_panels(WIDTH * columns, (HEIGHT + LEGEND_LINE * most) * rows, (1,))
    figure.clear()
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, panel in zip(axes, panels):
        _draw(ax, panel)
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    return figure


def _draw(ax: Axes, panel: Panel) -> None:
    number = 0
    for curve in panel.curves:
        if curve.style == "measured":
            _measured(ax, curve, number)
            number += 1
        else:
            dashes = "--" if curve.style == "theory" else ":"
            ax.plot(curve.x, curve.y, color="0.35", linestyle=dashes, linewidth=1.2, label=curve.label)
    for place, (label, x) in enumerate(panel.marks):
        ax.axvline(x, color="0.55", linestyle=("-.", (0, (1, 1)), (0, (5, 1)))[place % 3], linewidth=1.0, label=label)
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.x_log:
        ax.set_xscale("log")
        _ticks(ax, "x")
    if panel.y_log:
        ax.set_yscale("log")
        _ticks(ax, "y")
    ax.set_title(panel.title, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.93")
    ax.set_axisbelow(True)
    handles, labels = ax.get_legend_handles_labels()
    by_label = dict(zip(labels, handles))
    entries = [by_label[label] for label in labels_of(panel)], labels_of(panel)
    ax.legend(*entries, loc="upper center", bbox_to_anchor=(0.5, -0.17), frameon=False, fontsize=8)


def labels_of(panel: Panel) -> list[str]:
    """The entries of the legend: lines that are called alike, such as two of one slope, have one."""
    return list(dict.fromkeys([*(curve.label for curve in panel.curves), *(label for label, _ in panel.marks)]))


def _measured(ax: Axes, curve: Curve, number: int) -> None:
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    dashes = "-" if number < len(COLOURS) else "--"
    ax.plot(
        curve.x, curve.y, color=colour, linestyle=dashes, marker=marker, markersize=4, linewidth=1.3, label=curve.label
    )
    if curve.low is not None and curve.high is not None:
        ax.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)


def _ticks(ax: Axes, axis: str) -> None:
    """Plain numbers, as many of every decade as make a handful of ticks; on wide axes not every power of ten."""
    low, high = getattr(ax, f"get_{axis}lim")()
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = -(-(last - first) // MOST_DECADES)
    powers = [power for power in range(first, last + 1) if power % every == 0]
    for digits in DIGITS:
        ticks = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= FEWEST_TICKS or every > 1:
            break
    getattr(ax, f"set_{axis}ticks")(ticks, [plain(tick) for tick in ticks])
    getattr(ax, f"set_{axis}ticks")([], minor=True)
    getattr(ax, f"set_{axis}lim")(low, high)


def plain(value: float) -> str:
    """0.002, 5, 2,000; powers of ten for what would be longer."""
    if 1e-3 <= value < 1e5:
        return f"{value:,.0f}" if value >= 10 else f"{value:.4g}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")


def words_for(outcome: Outcome) -> str:
    """What the figure shows, for those who cannot see it."""
    parts = [
        f"{p.title}: {p.y_label} against {p.x_label} for {', '.join(c.label for c in p.curves)}" for p in outcome.panels
    ]
    return "; ".join(parts)
