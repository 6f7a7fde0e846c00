"""The page of all experiments, and their plots as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from .. import files
from ..reports import html
from .drawing import drawn, words_for
from .experiment import PAPERS
from .outcome import FAILS, HOLDS, UNDECIDED, Verdict
from .running import Result

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
    with files.atomic(path) as file:
        file.write(html.page(TITLE, parts).encode())
    return path, no_plots


def reading() -> tuple[str, ...]:
    """What the words mean."""
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
        with files.atomic(plots / f"{experiment.name}.png") as file:
            figure.savefig(file, format="png", dpi=110)
        parts.append(html.drawing(figure, words_for(result.outcome)))
    for table in result.outcome.tables:
        parts += [html.paragraph(table.title), html.table(table.heads, table.cells())]
    parts += [html.bullets(result.outcome.notes)] if result.outcome.notes else []
    protocol = json.dumps(dict(result.protocol), indent=1, ensure_ascii=False)
    parts.append(html.folded("Protocol", [html.literal(protocol)]))
    return parts, why
