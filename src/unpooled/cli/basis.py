"""``unpooled basis`` and ``unpooled data``: the features that all sites share, from public rows; and tables to try."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from .. import kernels
from .._base.rows import concatenate
from .._base.text import format_size
from ..bases import EmpiricalFeatures, RandomFeatures
from ..data import sources, tables
from ..data.sources import open_stream
from ..datasets import BUNDLED, Dataset, SiteDataset
from .app import app, command
from .console import (
    DATA,
    USAGE,
    Data,
    Out,
    Output,
    Overwrite,
    Problem,
    check_new,
    check_output,
    check_table,
    choice,
    count_or,
    names,
    number_or,
)

KERNELS = {"gaussian": kernels.Gaussian, "laplacian": kernels.Laplacian, "matern": kernels.Matern}


@command(app)
def basis(
    out: Out,
    data: Data,
    output: Output,
    kernel: Annotated[str, typer.Option(help="gaussian, laplacian or matern.")] = "gaussian",
    length_scale: Annotated[str, typer.Option(help="median (of the distances between rows), or a number.")] = "median",
    features: Annotated[str, typer.Option(help="How many features: auto (all that are not rounding), or N.")] = "auto",
    points: Annotated[int, typer.Option(min=1, help="At most so many of the rows are kept in the basis.")] = 1000,
    columns: Annotated[list[str] | None, typer.Option(help="The inputs, with commas. Without it: all columns.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns that are no inputs: the target, the site.")] = None,
    random: Annotated[int | None, typer.Option(min=1, help="So many random waves instead of kept rows.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws the waves, or the rows that are kept.")] = 0,
    standardize: Annotated[bool, typer.Option(help="Bring inputs to mean 0 and spread 1 first.")] = True,
) -> dict[str, Any]:
    """Learn a basis from public rows: the file that goes out to every site.

    The rows may be public, synthetic, or of patients who agreed; up to --points of them are in the file as they are.
    With --random none is. Labels are not looked at: leave them out with --drop.
    """
    check_output(output, [data])
    scale = number_or("median", "--length-scale", length_scale)
    chosen = KERNELS[choice("--kernel", kernel, list(KERNELS))](scale)
    wanted = count_or("auto", "--features", features)
    if random is not None and wanted != "auto":
        raise Problem("--random says how many features there are: leave --features out", USAGE)
    with out.working(f"reading {data}"):
        table = public_table(data, columns, drop)
    made = (
        RandomFeatures(chosen, random, seed, standardize)
        if random is not None
        else EmpiricalFeatures(chosen, wanted, standardize, max_points=points, random_state=seed)
    )
    with out.working("learning the basis"):
        made.fit(table)
    made.save(output)
    out.say(made.describe())
    out.say(f"digest {made.digest}")
    out.say(f"{output}: {format_size(output.stat().st_size)}")
    if random is None:
        out.say(f"It holds {made.map_.size} of the rows of {data} as they are: send it only where those may go.")
    return {
        "basis": output,
        "digest": made.digest,
        "columns": list(table.column_names),
        "n_features": made.n_features_,
        "n_public": made.n_public_,
        "rows_kept": 0 if random is not None else made.map_.size,
        "kernel": repr(made.kernel_),
        "bytes": output.stat().st_size,
    }


def public_table(data: Path, columns: list[str] | None, drop: list[str] | None) -> Any:
    """The inputs as a table with names."""
    used = input_columns(data, columns, drop)
    source = open_stream(sources.open_table(data, used))
    if not source.n_rows:
        raise Problem(f"{data} has no rows", DATA)
    X = np.asarray(concatenate([piece.read() for piece in source.pieces]).X)
    return pa.table({name: X[:, j] for j, name in enumerate(used)})


def input_columns(
    data: Path, columns: list[str] | None, drop: list[str] | None, labels: Sequence[str] = ()
) -> list[str]:
    """The names of the inputs: those that are asked for, or all but those that are dropped and the labels."""
    given = sources.open_table(data)
    found = sources.read_columns(given)
    dropped = names(drop, list(found))
    sources.check_columns(data, dict.fromkeys(found), dropped, "--drop")
    asked = names(columns, list(found))
    sources.check_columns(data, found, asked, "--columns")
    used = [name for name in asked or found if name not in {*dropped, *labels}]
    if not used:
        raise Problem(f"no column of {data} is left", DATA)
    words = sources.text_columns(given)
    unusable = [name for name in used if name in words or not sources.is_number(found[name])]
    if unusable:
        raise Problem(
            f"{data} has columns that do not hold numbers: {', '.join(unusable)}; turn them into numbers, or leave "
            f"them out with --drop {','.join(unusable)}",
            DATA,
        )
    return used


@command(app)
def data(
    out: Out,
    name: Annotated[str | None, typer.Argument(help="A data set. Without it, all of them are listed.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; it ends in .parquet or .csv.")
    ] = None,
    overwrite: Overwrite = False,
) -> dict[str, Any]:
    """Write a real data set that comes with unpooled as a table, or list them."""
    if name is None:
        if output is not None:
            raise Problem(f"NAME is missing: say which of {', '.join(BUNDLED)} goes to {output}", USAGE)
        return _listed(out)
    found = BUNDLED[choice("NAME", name, list(BUNDLED))]()
    if output is None:
        raise Problem(f"--output is missing: name a file for it, -o {name}.csv, say", USAGE)
    check_output(output, [])
    check_table(output)
    check_new(output, overwrite)
    table = pa.table(found.columns())
    with tables.open_writer(output, table.schema) as writer:
        writer.write_table(table)
    out.say(
        f"{output}: {format_size(output.stat().st_size)}, {table.num_rows} rows, columns "
        f"{', '.join(table.column_names)}"
    )
    out.say(f"{found.label} is the {found.target}. Source: {found.source}")
    return {"file": output, "n_rows": table.num_rows, "columns": table.column_names, **_facts(name, found)}


def _listed(out: Out) -> dict[str, Any]:
    sets = [(name, load()) for name, load in BUNDLED.items()]
    out.table(
        "Data sets that come with unpooled",
        ["name", "rows", "columns", "label", "sites", "licence"],
        [
            [name, str(len(one.y)), str(len(one.columns())), f"{one.label}: {one.target}", _shown(one), one.licence]
            for name, one in sets
        ],
    )
    for name, one in sets:
        out.say(f"{name}: {one.source}")
    first = next(iter(BUNDLED))
    out.say(f"To have one as a file: unpooled data {first} -o {first}.csv")
    return {"sets": [{"n_rows": len(one.y), "columns": list(one.columns()), **_facts(name, one)} for name, one in sets]}


def _sites(found: Dataset) -> list[str]:
    return [str(site) for site in np.unique(found.sites)] if isinstance(found, SiteDataset) else []


def _shown(found: Dataset) -> str:
    return ", ".join(_sites(found)) or "–"


def _facts(name: str, found: Dataset) -> dict[str, Any]:
    named = {"name": name, "target": found.label, "described": found.target, "sites": _sites(found)}
    return named | {"licence": found.licence, "source": found.source}
