"""``unpooled basis``: the features that all sites share, learned from public rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from .._base.rows import concatenate
from .._base.text import format_size
from ..bases import EmpiricalFeatures, RandomFeatures
from ..data import sources
from ..data.sources import open_stream
from ..kernels import as_kernel
from ..kernels.adapters import NAMES
from .app import app, command
from .console import (
    DATA,
    USAGE,
    Data,
    Drop,
    Out,
    Output,
    Problem,
    check_choice,
    check_output,
    parse_count,
    parse_number,
    split_names,
)


@command(app)
def basis(
    out: Out,
    data: Data,
    output: Output,
    kernel: Annotated[str, typer.Option(help=f"{', '.join(NAMES[:-1])} or {NAMES[-1]}.")] = "gaussian",
    length_scale: Annotated[str, typer.Option(help="median (of the distances between rows), or a number.")] = "median",
    n_features: Annotated[
        str, typer.Option(help="The number of features, or auto: all that are larger than rounding; 500 with --random.")
    ] = "auto",
    max_points: Annotated[int, typer.Option(min=1, help="The largest number of rows to keep in the basis.")] = 1000,
    columns: Annotated[list[str] | None, typer.Option(help="Inputs, separated by commas. Default: all.")] = None,
    drop: Drop = None,
    random: Annotated[bool, typer.Option("--random", help="Use random waves; the basis then holds no row.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Draws the waves, or the rows that are kept.")] = 0,
    standardize: Annotated[bool, typer.Option(help="Scale each input to mean 0 and standard deviation 1.")] = True,
) -> dict[str, Any]:
    """Learn a basis from public rows and write the file that goes out to every site.

    The rows may be public, synthetic, or of patients who agreed. The file holds up to --max-points of them unchanged,
    or none with --random. Labels are not used: leave them out with --drop.
    """
    check_output(output, [data])
    scale = parse_number("median", "--length-scale", length_scale)
    chosen = as_kernel(check_choice("--kernel", kernel, NAMES))
    if "length_scale" in chosen.get_params():
        chosen.set_params(length_scale=scale)
    elif scale != "median":
        raise Problem(f"the kernel {kernel} has no length scale: leave --length-scale out", USAGE)
    wanted = parse_count("auto", "--n-features", n_features)
    with out.working(f"reading {data}"):
        table = read_inputs(data, columns, drop)
    made = (
        RandomFeatures(chosen, 500 if isinstance(wanted, str) else wanted, seed, standardize)
        if random
        else EmpiricalFeatures(chosen, wanted, standardize, max_points=max_points, random_state=seed)
    )
    with out.working("learning the basis"):
        made.fit(table)
    made.save(output)
    out.say(made.describe())
    out.say(f"digest {made.digest}")
    out.say(f"{output}: {format_size(output.stat().st_size)}")
    if not random:
        out.say(f"It holds {made.map_.size} rows of {data} unchanged: send it only where those rows may go.")
    return {
        "basis": output,
        "digest": made.digest,
        "columns": list(table.column_names),
        "n_features": made.n_features_,
        "n_public": made.n_public_,
        "rows_kept": 0 if random else made.map_.size,
        "kernel": repr(made.kernel_),
        "bytes": output.stat().st_size,
    }


def read_inputs(data: Path, columns: list[str] | None, drop: list[str] | None) -> Any:
    """Read the inputs as a table with named columns."""
    used = input_columns(data, columns, drop)
    source = open_stream(sources.open_table(data, used))
    if not source.n_rows:
        raise Problem(f"{data} has no rows", DATA)
    X = np.asarray(concatenate([piece.read() for piece in source.pieces]).X)
    return pa.table({name: X[:, j] for j, name in enumerate(used)})


def input_columns(
    data: Path, columns: list[str] | None, drop: list[str] | None, labels: Sequence[str] = ()
) -> list[str]:
    """List the names of the inputs: those of --columns, or all columns but the labels and those of --drop."""
    given = sources.open_table(data)
    known = sources.read_columns(given)
    dropped = split_names(drop, list(known))
    sources.check_columns(data, dict.fromkeys(known), dropped, "--drop")
    wanted = split_names(columns, list(known))
    sources.check_columns(data, known, wanted, "--columns")
    used = [name for name in wanted or known if name not in {*dropped, *labels}]
    if not used:
        raise Problem(f"no column of {data} is left as an input: name fewer columns with --drop", DATA)
    words = sources.text_columns(given)
    unusable = [name for name in used if name in words or not sources.is_number(known[name])]
    if unusable:
        raise Problem(
            f"{data} has columns that do not hold numbers: {', '.join(unusable)}; convert them to numbers, or leave "
            f"them out with --drop {','.join(unusable)}",
            DATA,
        )
    return used
