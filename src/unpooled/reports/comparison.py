"""Ways of learning side by side: the error at every site, and what it cost to send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .plots import new_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00")  # Okabe-Ito: for the colour-blind too
MARKERS = "osv^DP"


def plot_comparison(
    names: Sequence[str],
    groups: Sequence[str],
    overall: Sequence[float],
    by_site: Mapping[str, Sequence[float]],
    sent: Sequence[float],
    unit: str,
) -> Figure:
    """A line for each method, with a dot for each site on the left and the bytes that a site sends on the right."""
    figure, (left, right) = new_panels(10.0, 0.34 * len(names) + 1.4, (2.2, 1.0))
    rows = list(range(len(names)))
    left.hlines(rows, *_ends(by_site), color="0.85", linewidth=2, zorder=1)
    for (site, errors), colour, marker in zip(by_site.items(), COLOURS, MARKERS):
        left.scatter(errors, rows, color=colour, marker=marker, s=34, label=site, zorder=2)
    left.scatter(overall, rows, color="black", marker="|", s=180, linewidth=2.5, label="all", zorder=3)
    left.set(yticks=rows, yticklabels=list(names), xlabel=f"error on test rows (RMSE, {unit})")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=6, frameon=False, fontsize=9)
    senders = [row for row in rows if sent[row] > 0]
    right.hlines(senders, 100, [sent[row] for row in senders], color="0.5", linewidth=6)
    for row in rows:
        right.annotate(
            _kilobytes(sent[row]), (max(sent[row], 100), row), (5, 0), textcoords="offset points", va="center"
        )
    right.set(yticks=[], xscale="log", xlim=(100, 20 * max([100, *sent])), xlabel="bytes that a site sends")
    for ax in (left, right):
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="x", color="0.93")
        ax.set_axisbelow(True)
        for row in rows[1:]:
            if groups[row] != groups[row - 1]:
                ax.axhline(row - 0.5, color="0.6", linewidth=0.8)
    return figure


def _kilobytes(size: float) -> str:
    return "nothing" if size == 0 else f"{size / 1000:.1f} kB"


def _ends(by_site: Mapping[str, Sequence[float]]) -> tuple[list[float], list[float]]:
    columns = list(zip(*by_site.values()))
    return [min(column) for column in columns], [max(column) for column in columns]
