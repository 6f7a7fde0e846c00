"""``unpooled data``, ``plan`` and ``predict``: a table to try, the cost of a fit to one, and predictions for one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from .. import models
from .._base.progress import Progress
from .._base.text import format_size
from ..data import sources, tables
from ..datasets import BUNDLED, Dataset, SiteDataset
from ..estimators.span import values_by_name
from .app import app, command
from .basis import input_columns
from .console import (
    DATA,
    FILE,
    USAGE,
    Data,
    Drop,
    Out,
    Output,
    Overwrite,
    Problem,
    Target,
    check_choice,
    check_new,
    check_output,
    check_table,
    parse_count,
    parse_number,
    split_names,
)


@command(app)
def data(
    out: Out,
    name: Annotated[str | None, typer.Argument(help="A data set. Without it, all of them are listed.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; it ends in .parquet or .csv.")
    ] = None,
    overwrite: Overwrite = False,
) -> dict[str, Any]:
    """Write a real data set that comes with unpooled as a table, or list all of them."""
    if name is None:
        if output is not None:
            raise Problem(f"NAME is missing: say which of {', '.join(BUNDLED)} goes to {output}", USAGE)
        return _list_sets(out)
    one = BUNDLED[check_choice("NAME", name, list(BUNDLED))]()
    if output is None:
        raise Problem(f"--output is missing: name a file for it, such as -o {name}.csv", USAGE)
    check_output(output, [])
    check_table(output)
    check_new(output, overwrite)
    table = pa.table(one.columns())
    with tables.open_writer(output, table.schema) as writer:
        writer.write_table(table)
    out.say(
        f"{output}: {format_size(output.stat().st_size)}, {table.num_rows} rows, "
        f"columns {', '.join(table.column_names)}"
    )
    out.say(f"{one.label} is the {one.target}. Source: {one.source}")
    return {"file": output, "n_rows": table.num_rows, "columns": table.column_names, **_describe_set(name, one)}


def _list_sets(out: Out) -> dict[str, Any]:
    sets = [(name, load()) for name, load in BUNDLED.items()]
    out.table(
        "Data sets that come with unpooled",
        ["name", "rows", "columns", "label", "sites", "licence"],
        [
            [
                name,
                str(len(one.y)),
                str(len(one.columns())),
                f"{one.label}: {one.target}",
                ", ".join(_site_names(one)) or "–",
                one.licence,
            ]
            for name, one in sets
        ],
    )
    for name, one in sets:
        out.say(f"{name}: {one.source}")
    first = next(iter(BUNDLED))
    out.say(f"To write one to a file: unpooled data {first} -o {first}.csv")
    described = [
        {"n_rows": len(one.y), "columns": list(one.columns()), **_describe_set(name, one)} for name, one in sets
    ]
    return {"sets": described}


def _site_names(one: Dataset) -> list[str]:
    return [str(site) for site in np.unique(one.sites)] if isinstance(one, SiteDataset) else []


def _describe_set(name: str, one: Dataset) -> dict[str, Any]:
    facts = {"name": name, "target": one.label, "described": one.target, "sites": _site_names(one)}
    return facts | {"licence": one.licence, "source": one.source}


@command(app)
def plan(
    out: Out,
    table: Annotated[Path | None, typer.Argument(help="A Parquet or CSV table. Without it: --n and --d.")] = None,
    target: Target = None,
    drop: Drop = None,
    n: Annotated[int | None, typer.Option("--n", min=1, help="The number of rows, in place of a table.")] = None,
    d: Annotated[int | None, typer.Option("--d", min=1, help="The number of inputs, together with --n.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32, together with --n.")] = None,
    lam: Annotated[str, typer.Option(help="auto, or the λ of the fit.")] = "auto",
    n_features: Annotated[
        str, typer.Option(help="The points of a basis: auto (as many as pay), or a number.")
    ] = "auto",
    memory: Annotated[
        str | None, typer.Option(help="Memory for the fit, such as 8GB. Default: all that is free.")
    ] = None,
    time: Annotated[float | None, typer.Option(help="Seconds for the fit. Default: 300.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, for a fit on a GPU.")] = None,
) -> dict[str, Any]:
    """Predict the memory and time of every way to fit a table, and recommend one.

    Of a Parquet table only the metadata are read. `unpooled forecast` predicts what a privacy budget would buy.
    """
    from ..planning.plan import plan as make_plan

    options: dict[str, Any] = {
        "lam": parse_number("auto", "--lam", lam),
        "n_features": parse_count("auto", "--n-features", n_features),
        "memory": memory,
        "time": time,
        "device": device,
    }
    if table is not None:
        _refuse("a number of rows", n=n, d=d, dtype=dtype)
        rows, labels = _open_table(table, target, drop)
        with out.working(f"looking at {table}"):
            outlook = make_plan(rows, labels, **options)
    else:
        _refuse("a table", target=target, drop=drop)
        if n is None or d is None:
            raise Problem("give a table, or --n and --d", USAGE)
        precision = check_choice("--dtype", dtype or "float64", ("float64", "float32"))
        with out.working("measuring this machine"):
            outlook = make_plan(n=n, d=d, dtype=precision, **options)
    out.say(str(outlook))
    return outlook.to_dict()


def _refuse(other: str, **options: Any) -> None:
    """Refuse options that belong to the other kind of plan."""
    given = [f"--{name}" for name, value in options.items() if value]
    if given:
        raise Problem(f"{', '.join(given)} can only be used with {other}", USAGE)


def _open_table(path: Path, target: list[str] | None, drop: list[str] | None) -> tuple[Any, Any]:
    """The table without the columns that are left out, and its labels by name."""
    known = sources.read_columns(sources.open_table(path))
    labels = split_names(target, list(known))
    if not labels:
        raise Problem("--target must name the column to predict", USAGE)
    sources.check_columns(path, known, labels, "--target")
    used = input_columns(path, None, drop, labels)
    return sources.open_table(path, used), labels[0] if len(labels) == 1 else labels


@command(app)
def predict(
    out: Out,
    model: Annotated[Path, typer.Argument(help="A .model file.")],
    data: Data,
    output: Output,
    keep: Annotated[
        list[str] | None, typer.Option(help="Columns to copy beside the predictions, separated by commas.")
    ] = None,
) -> dict[str, Any]:
    """Predict the rows of a table, in their order. OUTPUT ends in .parquet or .csv.

    The column of predictions is called LABEL_predicted, or `prediction` if the label has no name.
    """
    check_output(output, [model, data])
    check_table(output)
    fitted = models.load(model)
    columns = sources.columns_of(fitted)
    given = sources.open_table(data, columns or None)
    known = sources.read_columns(given)
    kept = split_names(keep, list(known))
    sources.check_columns(data, known, columns, "the model")
    sources.check_columns(data, dict.fromkeys(known), kept, "--keep")
    if not columns:
        columns = _find_columns(fitted, model, known, data, kept)
        given = sources.open_table(data, columns)
    predicted = _name_predictions(fitted)
    clash = [name for name in predicted if name in kept]
    if clash:
        raise Problem(f"--keep {clash[0]} is the name of the prediction: rename that column first", USAGE)
    n_rows = 0
    stretches = tables.read_stretches(given, kept)
    schema = _add_predictions(next(stretches)[1], np.empty((0, len(predicted))), predicted).schema
    with (
        tables.open_writer(output, schema) as writer,
        Progress(_count_pieces(given), "predicting", verbose=1) as progress,
    ):
        for X, beside in stretches:
            writer.write_table(_add_predictions(beside, values_by_name(fitted, X), predicted))
            n_rows += len(X)
            progress.advance()
    out.say(
        f"{n_rows} rows predicted; {output}: {format_size(output.stat().st_size)}, columns {', '.join(schema.names)}"
    )
    return {"file": output, "n_rows": n_rows, "columns": list(schema.names), "predictions": predicted}


def _name_predictions(model: Any) -> list[str]:
    facts = model.facts()
    if facts.targets:
        return [f"{name}_predicted" for name in facts.targets]
    n = facts.n_targets
    return ["prediction"] if n == 1 else [f"prediction_{i}" for i in range(n)]


def _find_columns(model: Any, path: Path, known: dict[str, Any], data: Path, kept: list[str]) -> list[str]:
    """Find the columns for a model that knows the number of its inputs and not their names."""
    columns = [name for name in known if name not in kept]
    if len(columns) != model.n_features_in_:
        raise Problem(
            f"{path} has {model.n_features_in_} inputs without names, and {data} has {len(columns)} columns: "
            "leave only the inputs in it",
            FILE if len(columns) < model.n_features_in_ else DATA,
        )
    sources.check_columns(data, known, columns, "the model")
    return columns


def _add_predictions(beside: Any, values: np.ndarray, names: list[str]) -> Any:
    kept = {name: beside.column(name) for name in beside.column_names}
    return pa.table(kept | {name: pa.array(values[:, j], pa.float64()) for j, name in enumerate(names)})


def _count_pieces(given: Any) -> int:
    from ..data.csv import STRETCH, Csv
    from ..data.parquet import open_parquet

    if isinstance(given, Csv):
        return max(1, Path(given.path).stat().st_size // STRETCH + 1)
    return max(1, len(open_parquet(given, None, None, None).pieces))
