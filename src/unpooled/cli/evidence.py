"""``unpooled audit`` and ``unpooled reproduce``: private mechanisms and the papers' claims, put to the test."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import app, command
from .console import AUDIT, DATA, USAGE, Out, Problem

if TYPE_CHECKING:
    from ..auditing import Audit


@command(app)
def audit(
    out: Out,
    name: Annotated[list[str] | None, typer.Argument(help="What to audit; all that there is without a name.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs: a minute and not several minutes.")] = False,
    runs: Annotated[int | None, typer.Option(min=30, help="Runs on each of two data sets.")] = None,
) -> dict[str, Any]:
    """Run every private mechanism many times on neighbouring data sets, and bound its ε from below.

    Planted faults have to be caught. The exit code is not 0 where one was not, where a mechanism exceeds its claim, or
    where the runs are too few to refute a claim.
    """
    from ..auditing import FAULTS, SHIPPED
    from ..auditing import audit as run
    from ..privacy.noise import load_opendp

    unknown = [one for one in name or [] if one not in SHIPPED | FAULTS]
    if unknown:
        raise Problem(f"there is no mechanism {unknown[0]}: the names are {', '.join(SHIPPED | FAULTS)}", USAGE)
    try:
        load_opendp()
    except ImportError as error:
        raise Problem.of(error, DATA) from None
    found = run(name or None, runs=runs, quick=quick, progress=not out.as_json)
    out.say(str(found))
    if not found.ok:
        raise NotKept(found)
    return found.to_dict()


class NotKept(Problem):
    """The audit went wrong, and why."""

    def __init__(self, found: Audit) -> None:
        reasons = [
            f"{row.name}: {row.verdict.lower()} (claimed ε = {row.epsilon:g} at δ = {row.delta:g}, found "
            f"ε ≥ {row.found:.2f} in {row.runs} runs, which can show {row.attainable:.2f} at most)"
            for row in found.rows
            if not row.ok
        ]
        super().__init__("; ".join(reasons), AUDIT, reasons)


if TYPE_CHECKING:
    from ..reproduce import Result


@command(app)
def reproduce(
    out: Out,
    name: Annotated[
        list[str] | None,
        typer.Argument(help="Papers (less, spectral, centring, correntropy, private) or experiments (spectral-rates)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short protocols: two minutes and not half an hour.")] = False,
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for results, plots and the page; made if it does not exist.")
    ] = Path("reproduce"),
    again: Annotated[bool, typer.Option("--again", help="Run also what has a result there already.")] = False,
    names: Annotated[bool, typer.Option("--list", help="Say what there is, and run nothing.")] = False,
) -> dict[str, Any]:
    """Run the papers' claims as experiments: tables and verdicts here, a page with plots in the folder.

    NAME is a paper (less, spectral, centring, correntropy, private) or an experiment (spectral-rates); without one all
    are run. A run that was stopped goes on where it stopped; a changed protocol is run again. A claim
    that does not hold is a result and not an error: the exit code is 0.
    """
    from ..reproduce import EXPERIMENTS, choose_experiments, page, run

    try:
        experiments = choose_experiments(EXPERIMENTS, name or [])
    except ValueError as error:
        raise Problem.of(error, USAGE) from None
    if names:
        out.table("Experiments", ["name", "question"], [[e.name, e.question] for e in experiments])
        return {"experiments": [{"name": e.name, "title": e.title, "question": e.question} for e in experiments]}
    if folder.exists() and not folder.is_dir():
        raise Problem(f"--output must be a folder, and {folder} is a file", USAGE)
    results = []
    for result in run(experiments, folder, quick=quick, again=again, progress=not out.as_json):
        _show(out, result)
        results.append(result)
    heads = ["experiment", "holds", "does not", "undecided", "seconds"]
    out.table("Verdicts", heads, page.summary(results))
    path, no_plots = page.write(results, folder, quick)
    if no_plots:
        out.warn(f"the page has no plots: {no_plots}")
    out.say(f"All of it, with plots: {path}")
    return {"folder": folder, "page": path, "quick": quick, "experiments": [_as_json(result) for result in results]}


def _show(out: Out, result: Result) -> None:
    from ..reproduce.page import said_of

    experiment = result.experiment
    out.say()
    out.say(_wrapped(f"{experiment.name}: {experiment.title}"))
    out.say(_wrapped(experiment.question))
    if result.outcome is None:
        out.warn(f"{experiment.name} was not run: {result.missing}")
        return
    for table in result.outcome.tables:
        out.table(table.title, table.heads, table.cells())
    for verdict in result.outcome.verdicts:
        out.say(_wrapped(said_of(verdict), "* "))
        out.say(_wrapped(verdict.evidence, "    "))
    for note in result.outcome.notes:
        out.say(_wrapped(note, "  "))
    out.say(f"  ({result.seconds:.1f} s{', stored' if result.stored else ''})")


def _wrapped(text: str, bullet: str = "") -> str:
    width = max(60, min(shutil.get_terminal_size().columns, 120))
    return textwrap.fill(text, width, initial_indent=bullet, subsequent_indent=" " * len(bullet))


def _as_json(result: Result) -> dict[str, Any]:
    found = {"name": result.experiment.name, "seconds": result.seconds, "stored": result.stored}
    if result.outcome is None:
        return found | {"missing": result.missing}
    return found | {"protocol": dict(result.protocol), **result.outcome.to_dict()}
