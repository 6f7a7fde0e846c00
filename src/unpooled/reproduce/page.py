"""The page of all experiments, with the panels of each drawn as a figure and kept as files."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._base import files, html
from .._base.drawing import COLOURS, MARKERS, make_panels
from .experiment import PAPERS, Result
from .outcome import FAILS, HOLDS, UNDECIDED, Curve, Outcome, Panel, Verdict

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
    figure, _ = make_panels(WIDTH * columns, (HEIGHT + LEGEND_LINE * most) * rows, (1,))
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
    """Describe the figure for those who cannot see it."""
    parts = [
        f"{p.title}: {p.y_label} against {p.x_label} for {', '.join(c.label for c in p.curves)}" for p in outcome.panels
    ]
    return "; ".join(parts)


TITLE = "The papers' claims, run again"


def write(results: Sequence[Result], folder: Path, quick: bool) -> tuple[Path, str]:
    """``folder/index.html`` and ``folder/plots``: the path of the page, and why it has no plots, where it has none."""
    parts = [f"<h1>{TITLE}</h1>", html.paragraph(_beginning(results, quick)), html.bullets(reading())]
    parts.append(html.table(("experiment", "holds", "does not", "undecided", "seconds"), summary(results)))
    no_plots = ""
    for paper, title in PAPERS.items():
        own = [result for result in results if result.experiment.paper == paper]
        if own:
            parts.append(f"<h2>{paper}: {title}</h2>")
        for result in own:
            found, why = _section(result, folder)
            parts += found
            no_plots = no_plots or why
    path = folder / "index.html"
    with files.open_atomic(path) as file:
        file.write(html.page(TITLE, parts).encode())
    return path, no_plots


def reading() -> tuple[str, ...]:
    """Sentences that explain the verdicts."""
    return (
        "Theorems are upper bounds, so verdicts are one-sided: a rate does not hold where its whole 95 % interval is "
        "slower than the theory's exponent. It is undecided where the interval is too wide to tell.",
        "A claim that is known to be misprinted is tested as printed too, marked, and should not hold.",
        "Errors are against the true function, integrated over the whole of [0, 1]; only with five inputs over rows.",
    )


def summary(results: Sequence[Result]) -> list[list[str]]:
    """A line for each experiment, and one for all."""
    rows = []
    for result in results:
        verdicts = () if result.outcome is None else result.outcome.verdicts
        time = "not run" if result.outcome is None else f"{result.seconds:.1f}" + (" (stored)" if result.stored else "")
        rows.append([result.experiment.name, *counts(verdicts), time])
    everything = [v for result in results if result.outcome is not None for v in result.outcome.verdicts]
    return [*rows, ["all", *counts(everything), f"{sum(result.seconds for result in results):.1f}"]]


def counts(verdicts: Sequence[Verdict]) -> list[str]:
    """How many hold, do not, are undecided; misprints that do not hold are told apart."""
    number = {status: sum(v.status == status for v in verdicts) for status in (HOLDS, FAILS, UNDECIDED)}
    known = sum(v.status == FAILS and v.known_wrong for v in verdicts)
    fails = f"{number[FAILS]} ({known} known)" if known else str(number[FAILS])
    return [str(number[HOLDS]), fails, str(number[UNDECIDED])]


def said_of(verdict: Verdict) -> str:
    """A verdict and its claim, as a line of text; the evidence is another."""
    known = " (known to be wrong)" if verdict.known_wrong else ""
    return f"{verdict.status.upper()}{known}: {verdict.claim}"


def _beginning(results: Sequence[Result], quick: bool) -> str:
    protocols = "the quick protocols: small samples, wide intervals" if quick else "the full protocols"
    return f"{len(results)} experiments with {protocols}. Seeds and sizes are in the protocols at the end of each."


def _section(result: Result, folder: Path) -> tuple[list[str], str]:
    """The parts of one experiment, and why it has no plot."""
    experiment = result.experiment
    parts = [
        f'<h3 id="{experiment.name}">{experiment.name}: {experiment.title}</h3>',
        html.paragraph(experiment.question),
    ]
    if result.outcome is None:
        return [*parts, html.paragraph(f"Not run: {result.missing}.")], ""
    parts.append(html.bullets(f"{said_of(verdict)}. Found: {verdict.evidence}." for verdict in result.outcome.verdicts))
    why = ""
    try:
        figure = drawn(result.outcome.panels)
    except ImportError as error:
        why = str(error)
        parts.append(html.paragraph(f"There is no plot here: {why}."))
    else:
        plots = folder / "plots"
        plots.mkdir(exist_ok=True)
        with files.open_atomic(plots / f"{experiment.name}.png") as file:
            figure.savefig(file, format="png", dpi=110)
        parts.append(html.drawing(figure, words_for(result.outcome)))
    for table in result.outcome.tables:
        parts += [html.paragraph(table.title), html.table(table.heads, table.cells())]
    parts += [html.bullets(result.outcome.notes)] if result.outcome.notes else []
    protocol = json.dumps(dict(result.protocol), indent=1, ensure_ascii=False)
    parts.append(html.fold("Protocol", [html.literal(protocol)]))
    return parts, why
