"""``unpooled inspect`` and ``unpooled report``: a file described in words, and a model as one page to open."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from .. import bases, models
from .._base import declared, files
from .._base.text import format_size, quote, quote_unless_name
from .._solvers.span.moments import Mismatch
from ..data import sources, tables
from ..estimators.facts import FittedModel
from ..federation.by_file import Answer, OneTimeKey, Question
from ..filters import as_filter, to_spec
from ..summaries import Candidates, Scores, Summary
from .app import app, command
from .console import DATA, FILE, USAGE, BasisFile, Out, Output, Problem, check_output


def describe_model(model: FittedModel) -> str:
    """Describe a model and what it was learned from, in words."""
    facts = model.facts()
    columns = ", ".join(facts.inputs)
    lines = [
        f"A {facts.name} with the inputs {columns}."
        if columns
        else f"A {facts.name} with {facts.n_inputs} unnamed inputs."
    ]
    if facts.targets:
        lines.append(f"It predicts {', '.join(facts.targets)}.")
    if facts.basis_digest is not None:
        basis = f"In the basis {facts.basis_digest[:12]}"
        if facts.schedule is not None:
            lines += [f"{basis}.", *str(facts.schedule).splitlines()]
        elif facts.n_sites is not None:
            average = f"the average of {facts.n_sites} functions, which the sites fitted to their own rows"
            lines.append(f"{basis}, with λ = {facts.lam:.3g}: {average}.")
        else:
            rounds = "" if facts.rounds == 1 else f" and {facts.rounds} rounds"
            filter_ = to_spec(as_filter(facts.filter))["filter"]
            lines.append(f"{basis}, with λ = {facts.lam:.3g}, the filter {filter_}, the loss {facts.loss}{rounds}.")
    summary = facts.summary
    if summary is not None:
        lines.append(
            f"It also holds the sum it was learned from (order {summary.order}, {summary.n_rows} rows), so whoever has "
            "the model has that sum."
        )
    if facts.privacy is not None:
        lines.append(str(facts.privacy))
    if facts.floor is not None:
        lines.append(describe_floor(facts.floor, 1 if summary is None else summary.order, facts.rounds or 1))
    return "\n".join(lines)


def describe_floor(floor: Mismatch, order: int, rounds: int = 1) -> str:
    """Describe the cost of a small public sample in a sentence."""
    public = f"{floor.n_public} public rows for {floor.n:.0f}"
    if order == 2:
        return f"{public}: at order 1 this would add an error of about {floor.error:.3g}; at order 2 it adds none."
    later = "" if rounds == 1 else ", which rounds of residuals remove"
    return f"{public}: this alone adds an error of about {floor.error:.3g} to predictions of one round{later}."


def describe_candidates(candidates: Candidates) -> str:
    """Describe candidate models, which go out to sites to be scored."""
    n_lam, n_features, n_targets = candidates.coef.shape
    label = ", ".join(candidates.targets) or ("the label" if n_targets == 1 else f"{n_targets} labels")
    order = "2" if candidates.same_sample else "1"
    return "\n".join(
        [
            f"{n_lam} candidate models for {label}, one for each λ from {candidates.lam.max():.2g} to "
            f"{candidates.lam.min():.2g}.",
            f"In the basis {candidates.basis[:12]} with {n_features} features, from summaries of order {order}.",
            "A site answers with the sum of the squared errors of each. No row is in the model that predicts it.",
        ]
    )


def describe_scores(scores: Scores) -> str:
    """Describe the scores with which a site answers candidates."""
    n_lam, n_targets = scores.sums["square"].high.shape
    labels = "" if n_targets == 1 else f" and each of {n_targets} labels"
    return "\n".join(
        [
            f"Scores of the candidates {scores.candidates[:12]} on {scores.n_rows} rows. They hold no individual row.",
            "",
            f"{'rows':>12}  {1:>9}  the number of rows: {scores.n_rows}",
            f"{'weight':>12}  {1:>9}  the sum of the weights: {float(scores.sums['weight'].high[0]):g}",
            f"{'square':>12}  {n_lam * n_targets:>9}  for each λ{labels}: the sum over the rows of the squared error",
            "",
            f"{2 + n_lam * n_targets} numbers in all. No noise was added, so they are not differentially private.",
        ]
    )


_Described = tuple[str, str]  # words and digest


def _summary(path: Path) -> _Described:
    summary = Summary.load(path)
    return summary.describe(), ""


def _basis(path: Path) -> _Described:
    basis = bases.load(path)
    return basis.describe(), basis.digest


def _model(path: Path) -> _Described:
    model = models.load(path)
    return describe_model(model), declared.digest_of(model)


def _candidates(path: Path) -> _Described:
    candidates = Candidates.load(path)
    return describe_candidates(candidates), candidates.digest


def _scores(path: Path) -> _Described:
    return describe_scores(Scores.load(path)), ""


def _totals(path: Path) -> _Described:
    header, _ = files.read(path, "totals")
    words = f"Sums over {header.get('n_rows', 'some')} rows of all sites of a study. They contain no individual row."
    return words, str(header.get("statistic"))


def _question(path: Path) -> _Described:
    question = Question.load(path)
    return question.describe(), question.digest


def _answer(path: Path) -> _Described:
    return Answer.load(path).describe(), ""


def _enrolment(path: Path) -> _Described:
    key = OneTimeKey.load(path)
    return f"The one-time key of {key.site} for one question, signed with its long-term key {key.identity}.", ""


KINDS: dict[str, Callable[[Path], _Described]] = {
    "summary": _summary,
    "basis": _basis,
    "model": _model,
    "candidates": _candidates,
    "scores": _scores,
    "totals": _totals,
    "question": _question,
    "answer": _answer,
    "enrolment": _enrolment,
}


@command(app)
def inspect(
    out: Out, file: Annotated[Path, typer.Argument(help="Any file of unpooled, such as a summary, a basis or a model.")]
) -> dict[str, Any]:
    """Describe a file in words, then show its header and its arrays."""
    header, arrays = files.read_any(file)
    kind = str(header.get("kind"))
    if kind not in KINDS:
        raise Problem(f"{file} holds a {quote_unless_name(kind)}, which this version of unpooled does not know", FILE)
    words, digest = KINDS[kind](file)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    out.say(words)
    out.say()
    facts = [("file", f"{file}, {format_size(file.stat().st_size)}"), ("SHA-256 of the file", sha256)]
    facts += [("digest", digest)] if digest else []
    out.facts(
        f"Header of this {kind}" if kind not in ("candidates", "scores", "totals") else f"Header of these {kind}",
        facts
        + [(name, _shorten(value)) for name, value in header.items() if name not in ("params", "kernel", "digest")],
    )
    out.table(
        "Arrays",
        ["name", "shape", "type"],
        [[name, " × ".join(map(str, a.shape)) or "1", str(a.dtype)] for name, a in sorted(arrays.items())],
    )
    return {
        "file": file,
        "kind": kind,
        "digest": digest or None,
        "sha256": sha256,
        "bytes": file.stat().st_size,
        "description": words,
        "header": header,
        "arrays": {name: {"shape": list(a.shape), "dtype": a.dtype.str} for name, a in sorted(arrays.items())},
    }


def _shorten(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    text = "none" if value is None else str(value)
    return text if len(text) <= 200 else text[:199] + "…"


@command(app)
def report(
    out: Out,
    model: Annotated[Path, typer.Argument(help="A .model file.")],
    output: Output,
    more: Annotated[
        list[Path] | None, typer.Argument(help="Summaries, as with --summaries.", metavar="[SUMMARIES]...")
    ] = None,
    summaries: Annotated[
        list[Path] | None, typer.Option(help="The sites' summaries, one or more: --summaries *.summary.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Rows with labels, preferably rows that the model has not seen.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="The column of the label.")] = None,
    sites: Annotated[str | None, typer.Option(help="The column that names the site, for the error at each.")] = None,
    basis: BasisFile = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
) -> dict[str, Any]:
    """Write one self-contained page about a model: sites, errors, λ and its path, inputs, what left, how to predict.

    Where a section needs data or summaries that are not given, the page says so.
    """
    from ..reports.sites import open_summaries
    from ..reports.writing import ReportMaterial, write_page

    files = [*(summaries or []), *(more or [])]
    check_output(output, [model, *files, *(path for path in (data, basis) if path is not None)])
    fitted = models.load(model)
    place, column = _find_label(fitted, target, data)
    if sites is not None and data is None:
        raise Problem("--sites names a column of --data: give the rows as well", USAGE)
    sent: tuple[Any, ...] = ()
    if files:
        try:
            sent = tuple(open_summaries(files))
        except ValueError as error:
            raise Problem.of(error, FILE) from None
    shared = None if basis is None else bases.load(basis)
    rows = None if data is None else _read_errors(out, fitted, place, data, column, sites)
    known = ReportMaterial(fitted, model.name, place, rows, sent, shared, folders=(model.parent,))
    with out.working("writing the page"):
        try:
            page = write_page(known, title)
        except ValueError as error:
            raise Problem.of(error, FILE) from None
    page.save(output)
    out.say(f"{output}: {format_size(output.stat().st_size)}, one page to open in a browser")
    for sentence in page.missing:
        out.say(f"not shown: {sentence}")
    return {"file": output, "bytes": output.stat().st_size, "missing": list(page.missing)}


def _find_label(model: Any, target: str | None, data: Path | None) -> tuple[int, str]:
    """Find the position of the label, and the column that holds it."""
    facts = model.facts()
    if known := facts.targets:
        if target is not None and target not in known:
            numbers = f"a number from 0 to {facts.n_targets - 1}"
            raise Problem(f"--target must be one of {', '.join(known)}, or {numbers}, got {quote(target)}", USAGE)
        place = 0 if target is None else known.index(target)
        return place, known[place]
    if data is None:
        if target is not None:
            raise Problem("--target names a column of --data: give the rows as well", USAGE)
        return 0, ""
    if target is None:
        raise Problem("--target must name the column of the label, which this model does not know", USAGE)
    if model.facts().n_targets > 1:
        raise Problem("the model predicts several labels without names: use up.report in Python, with target=", USAGE)
    return 0, target


def _read_errors(out: Out, model: Any, place: int, data: Path, target: str, site: str | None) -> Any:
    """Read labels and predictions of a table, a stretch at a time; of the inputs only a few rows are kept."""
    from ..reports.errors import KEPT, LabeledRows

    features = sources.columns_of(model)
    beside = [target] + ([site] if site is not None else [])
    known = sources.read_columns(sources.open_table(data))
    sources.check_columns(data, known, [*features, target], "the report")
    sources.check_columns(data, dict.fromkeys(known), beside, "--sites")
    inputs = features or [name for name in known if name not in beside]
    if len(inputs) != model.n_features_in_:
        raise Problem(
            f"the model has {model.n_features_in_} inputs without names, and {data} has {len(inputs)} columns beside "
            "the label and the site: leave only the inputs in it",
            DATA,
        )
    rng = np.random.default_rng(0)
    labels, predicted, sites = [], [], []
    kept = (np.empty(0), np.empty((0, len(inputs))), np.empty(0))
    with out.working(f"reading {data}"):
        for X, others in tables.read_stretches(sources.open_table(data, inputs), beside):
            if not len(X):
                continue
            y = _read_numbers(data, target, others.column(target))
            values = np.asarray(model.predict(pa.table(dict(zip(inputs, X.T))) if features else X), dtype=float)
            labels.append(y)
            predicted.append(values if values.ndim == 1 else values[:, place])
            if site is not None:
                sites.append(_read_names(data, site, others.column(site)))
            # Of all rows so far those with the smallest of random keys: a sample, however many more will come.
            drawn = [np.concatenate(pair) for pair in zip(kept, (rng.uniform(size=len(y)), X, y))]
            best = np.argsort(drawn[0])[:KEPT]
            kept = (drawn[0][best], drawn[1][best], drawn[2][best])
    if not labels:
        raise Problem(f"{data} has no rows", DATA)
    named = np.concatenate(sites) if site is not None else None
    return LabeledRows(np.concatenate(labels), np.concatenate(predicted), named, kept[1], kept[2])


def _read_numbers(data: Path, name: str, column: Any) -> np.ndarray:
    try:
        values = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=float)
    except pa.ArrowInvalid:
        raise Problem(f"column {name!r} of {data} holds values that are not numbers", DATA) from None
    if not np.all(np.isfinite(values)):
        raise Problem(f"column {name!r} of {data} has missing or infinite values: drop such rows first", DATA)
    return values


def _read_names(data: Path, name: str, column: Any) -> np.ndarray:
    if column.null_count:
        raise Problem(f"column {name!r} of {data} has rows without a site: give every row its site", DATA)
    return np.asarray([str(value) for value in column.to_pylist()])
