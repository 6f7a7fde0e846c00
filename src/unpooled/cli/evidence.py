"""``unpooled forecast``, ``audit``, ``reproduce`` and ``demo``: what to expect, and claims put to the test."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import app, command
from .basis import read_inputs
from .console import AUDIT, DATA, USAGE, Delta, Drop, Out, Problem, split_names

if TYPE_CHECKING:
    from ..auditing import Audit
    from ..reproduce import Result

DELTA = 1e-6


@command(app)
def forecast(
    out: Out,
    n: Annotated[int, typer.Argument(help="The number of records.")],
    public: Annotated[
        Path | None, typer.Argument(help="Public rows without labels, or a .basis file. Without it: --n-inputs.")
    ] = None,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Values of ε, separated by commas. Default: 0.1 to 10.")
    ] = None,
    delta: Delta = DELTA,
    label_bound: Annotated[float, typer.Option(help="c: labels will be clipped to [-c, c].")] = 1.0,
    explained: Annotated[
        float, typer.Option(help="The share of the labels' variance that the inputs could explain.")
    ] = 0.9,
    sites: Annotated[int, typer.Option(min=1, help="The number of sites that each add all of the noise.")] = 1,
    n_inputs: Annotated[int | None, typer.Option(min=1, help="The number of inputs, in place of PUBLIC.")] = None,
    drop: Drop = None,
) -> dict[str, Any]:
    """Predict what a privacy budget would buy: the R² of a private regression against ε.

    Only public rows are read, and nothing is spent. `unpooled plan` predicts the memory and time of a fit.
    """
    from .. import bases
    from ..privacy import forecast as predict

    source: dict[str, Any] = {"n_inputs": n_inputs}
    if public is not None and public.suffix == ".basis":
        if drop:
            raise Problem("a basis has its inputs already: leave --drop out", USAGE)
        with out.working(f"reading {public}"):
            source["basis"] = bases.load(public)
    elif public is not None:
        with out.working(f"reading {public}"):
            source["public"] = read_inputs(public, None, drop)
    if (public is None) == (n_inputs is None):
        raise Problem("give either PUBLIC (public rows, or a .basis file) or --n-inputs", USAGE)
    delta = DELTA if delta is None else delta
    with out.working("simulating"):
        outlook = predict(
            n,
            epsilon=_parse_numbers(epsilon) or None,
            delta=delta,
            label_bound=label_bound,
            explained=explained,
            sites=sites,
            **source,
        )
    out.say(str(outlook))
    return outlook.to_dict()


def _parse_numbers(values: list[str] | None) -> list[float]:
    try:
        return [float(value) for value in split_names(values)]
    except ValueError:
        raise Problem(f"--epsilon must be numbers, got {', '.join(values or [])}", USAGE) from None


@command(app)
def audit(
    out: Out,
    name: Annotated[list[str] | None, typer.Argument(help="The parts to audit. Default: all of them.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs: one minute instead of several.")] = False,
    runs: Annotated[int | None, typer.Option(min=30, help="The number of runs on each of two data sets.")] = None,
) -> dict[str, Any]:
    """Run every private mechanism many times on neighbouring data sets, and bound its ε from below.

    Planted faults have to be caught. The exit code is 7 if one was missed, if a mechanism exceeds its claim, or if the
    runs are too few to refute a claim.
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
    result = run(name or None, runs=runs, quick=quick, progress=not out.as_json)
    out.say(str(result))
    if not result.ok:
        raise _AuditFailure(result)
    return result.to_dict()


class _AuditFailure(Problem):
    """An audit that failed, with the reasons."""

    def __init__(self, audit: Audit) -> None:
        reasons = [
            f"{row.name}: {row.verdict.lower()} (claimed ε = {row.epsilon:g} at δ = {row.delta:g}, found "
            f"ε ≥ {row.found:.2f} in {row.runs} runs, which can show {row.attainable:.2f} at most)"
            for row in audit.rows
            if not row.ok
        ]
        super().__init__("; ".join(reasons), AUDIT, reasons)


@command(app)
def reproduce(
    out: Out,
    name: Annotated[
        list[str] | None,
        typer.Argument(help="Papers (less, spectral, centring, correntropy, private) or experiments (spectral-rates)."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short protocols: two minutes instead of half an hour.")
    ] = False,
    folder: Annotated[Path, typer.Option("--output", "-o", help="The folder for results, plots and the page.")] = Path(
        "reproduce"
    ),
    again: Annotated[bool, typer.Option("--again", help="Also rerun experiments that have a result there.")] = False,
    names: Annotated[bool, typer.Option("--list", help="List the experiments and run none.")] = False,
) -> dict[str, Any]:
    """Run the papers' claims as experiments: tables and verdicts here, a page with plots in the folder.

    A run that was stopped continues where it stopped, and an experiment whose protocol changed is run again. A claim
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
    out.say(_wrap(f"{experiment.name}: {experiment.title}"))
    out.say(_wrap(experiment.question))
    if result.outcome is None:
        out.warn(f"{experiment.name} was not run: {result.missing}")
        return
    for table in result.outcome.tables:
        out.table(table.title, table.heads, table.cells())
    for verdict in result.outcome.verdicts:
        out.say(_wrap(said_of(verdict), "* "))
        out.say(_wrap(verdict.evidence, "    "))
    for note in result.outcome.notes:
        out.say(_wrap(note, "  "))
    out.say(f"  ({result.seconds:.1f} s{', stored' if result.stored else ''})")


def _wrap(text: str, bullet: str = "") -> str:
    width = max(60, min(shutil.get_terminal_size().columns, 120))
    return textwrap.fill(text, width, initial_indent=bullet, subsequent_indent=" " * len(bullet))


def _as_json(result: Result) -> dict[str, Any]:
    facts = {"name": result.experiment.name, "seconds": result.seconds, "stored": result.stored}
    if result.outcome is None:
        return facts | {"missing": result.missing}
    return facts | {"protocol": dict(result.protocol), **result.outcome.to_dict()}


@command(app)
def demo(
    out: Out,
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for the report; made if it does not exist.")
    ] = Path("demo"),
) -> dict[str, Any]:
    """Compare methods on real data of four hospitals: a table here, and a page to open in the folder."""
    from ..demo import run

    rows = run(folder, out.err) if out.as_json else run(folder)
    return {"folder": folder, "rows": rows}
