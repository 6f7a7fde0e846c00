"""``unpooled predict`` and ``unpooled report``: a model put to use, for the rows of a table or as one page to open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from .. import bases, models
from .._base.progress import Progress
from .._base.text import format_size, quote
from ..data import sources, tables
from ..estimators.span import values_by_name
from .app import app, command
from .console import (
    DATA,
    FILE,
    USAGE,
    BasisFile,
    Data,
    Out,
    Output,
    Problem,
    check_output,
    check_table,
    names,
)


@command(app)
def predict(
    out: Out,
    model: Annotated[Path, typer.Argument(help="A .model file.")],
    data: Data,
    output: Output,
    keep: Annotated[list[str] | None, typer.Option(help="Columns to have beside the predictions, with commas.")] = None,
) -> dict[str, Any]:
    """Predict the rows of a table, in their order. OUTPUT ends in .parquet or .csv.

    A prediction is named after the label, with _predicted; or `prediction`, where the label has no name.
    """
    check_output(output, [model, data])
    check_table(output)
    fitted = models.load(model)
    columns = sources.columns_of(fitted)
    given = sources.open_table(data, columns or None)
    found = sources.read_columns(given)
    kept = names(keep, list(found))
    sources.check_columns(data, found, columns, "the model")
    sources.check_columns(data, dict.fromkeys(found), kept, "--keep")
    if not columns:
        columns = _unnamed(fitted, model, found, data, kept)
        given = sources.open_table(data, columns)
    predicted = _predicted(fitted)
    clash = [name for name in predicted if name in kept]
    if clash:
        raise Problem(f"--keep {clash[0]} is what the prediction is called: keep it under another name", USAGE)
    n_rows = 0
    stretches = tables.read_stretches(given, kept)
    schema = _with_predictions(next(stretches)[1], np.empty((0, len(predicted))), predicted).schema
    with tables.open_writer(output, schema) as writer, Progress(_pieces(given), "predicting", verbose=1) as progress:
        for X, beside in stretches:
            writer.write_table(_with_predictions(beside, values_by_name(fitted, X), predicted))
            n_rows += len(X)
            progress.advance()
    out.say(
        f"{n_rows} rows predicted; {output}: {format_size(output.stat().st_size)}, columns {', '.join(schema.names)}"
    )
    return {"file": output, "n_rows": n_rows, "columns": list(schema.names), "predictions": predicted}


def _predicted(model: Any) -> list[str]:
    facts = model.facts()
    if facts.targets:
        return [f"{name}_predicted" for name in facts.targets]
    n = facts.n_targets
    return ["prediction"] if n == 1 else [f"prediction_{i}" for i in range(n)]


def _unnamed(model: Any, path: Path, found: dict[str, Any], data: Path, kept: list[str]) -> list[str]:
    """The columns for a model that knows how many inputs it has and not what they are called."""
    columns = [name for name in found if name not in kept]
    if len(columns) != model.n_features_in_:
        raise Problem(
            f"{path} has {model.n_features_in_} inputs without names, and {data} has {len(columns)} columns: "
            "leave only the inputs in it",
            FILE if len(columns) < model.n_features_in_ else DATA,
        )
    sources.check_columns(data, found, columns, "the model")
    return columns


def _with_predictions(beside: Any, values: np.ndarray, names: list[str]) -> Any:
    kept = {name: beside.column(name) for name in beside.column_names}
    return pa.table(kept | {name: pa.array(values[:, j], pa.float64()) for j, name in enumerate(names)})


def _pieces(given: Any) -> int:
    from ..data.csv import STRETCH, Csv
    from ..data.parquet import open_parquet

    if isinstance(given, Csv):
        return max(1, Path(given.path).stat().st_size // STRETCH + 1)
    return max(1, len(open_parquet(given, None, None, None).pieces))


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
    data: Annotated[Path | None, typer.Option(help="Labeled rows, best those the model has not seen.")] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="The column of the label.")] = None,
    site: Annotated[str | None, typer.Option(help="The column of the site, for the error at each.")] = None,
    basis: BasisFile = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
) -> dict[str, Any]:
    """Write one self-contained page on a model: sites, errors, λ and its path, inputs, what left, how to predict.

    What needs data or summaries that are not given is said on the page, in its place.
    """
    from ..reports.sites import opened
    from ..reports.writing import Gathered, written

    files = [*(summaries or []), *(more or [])]
    check_output(output, [model, *files, *(path for path in (data, basis) if path is not None)])
    fitted = models.load(model)
    place, column = _label(fitted, target, data)
    if site is not None and data is None:
        raise Problem("--site names a column of --data: give the rows as well", USAGE)
    sent: tuple[Any, ...] = ()
    if files:
        try:
            sent = tuple(opened(files))
        except ValueError as error:
            raise Problem.of(error, FILE) from None
    shared = None if basis is None else bases.load(basis)
    rows = None if data is None else _rows(out, fitted, place, data, column, site)
    known = Gathered(fitted, model.name, place, rows, sent, shared, folders=(model.parent,))
    with out.working("writing the page"):
        try:
            page = written(known, title)
        except ValueError as error:
            raise Problem.of(error, FILE) from None
    page.save(output)
    out.say(f"{output}: {format_size(output.stat().st_size)}, one page to open in a browser")
    for sentence in page.missing:
        out.say(f"not shown: {sentence}")
    return {"file": output, "bytes": output.stat().st_size, "missing": list(page.missing)}


def _label(model: Any, target: str | None, data: Path | None) -> tuple[int, str]:
    """The position of the label, and the column that holds it."""
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


def _rows(out: Out, model: Any, place: int, data: Path, target: str, site: str | None) -> Any:
    """Labels and predictions of a table, read a stretch at a time; of the inputs only a few rows stay."""
    from ..reports.errors import KEPT, Labelled

    features = sources.columns_of(model)
    beside = [target] + ([site] if site is not None else [])
    found = sources.read_columns(sources.open_table(data))
    sources.check_columns(data, found, [*features, target], "the report")
    sources.check_columns(data, dict.fromkeys(found), beside, "--site")
    inputs = features or [name for name in found if name not in beside]
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
            y = _numbers(data, target, others.column(target))
            values = np.asarray(model.predict(pa.table(dict(zip(inputs, X.T))) if features else X), dtype=float)
            labels.append(y)
            predicted.append(values if values.ndim == 1 else values[:, place])
            if site is not None:
                sites.append(_names(data, site, others.column(site)))
            # Of all rows so far those with the smallest of random keys: a sample, however many more will come.
            drawn = [np.concatenate(pair) for pair in zip(kept, (rng.uniform(size=len(y)), X, y))]
            best = np.argsort(drawn[0])[:KEPT]
            kept = (drawn[0][best], drawn[1][best], drawn[2][best])
    if not labels:
        raise Problem(f"{data} has no rows", DATA)
    named = np.concatenate(sites) if site is not None else None
    return Labelled(np.concatenate(labels), np.concatenate(predicted), named, kept[1], kept[2])


def _numbers(data: Path, name: str, column: Any) -> np.ndarray:
    try:
        values = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=float)
    except pa.ArrowInvalid:
        raise Problem(f"column {name!r} of {data} holds values that are not numbers", DATA) from None
    if not np.all(np.isfinite(values)):
        raise Problem(f"column {name!r} of {data} has missing or infinite values: drop such rows first", DATA)
    return values


def _names(data: Path, name: str, column: Any) -> np.ndarray:
    if column.null_count:
        raise Problem(f"column {name!r} of {data} has rows without a site: give every row its site", DATA)
    return np.asarray([str(value) for value in column.to_pylist()])
