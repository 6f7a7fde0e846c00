"""``unpooled data``: tables to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from .._base.text import size
from ..data import tables
from ..datasets import BUNDLED, Dataset, SiteDataset
from .app import app, command
from .codes import USAGE, Problem
from .options import Overwrite, check_new, check_output, check_table, choice
from .out import Out


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
    with tables.writer(output, table.schema) as writer:
        writer.write_table(table)
    out.say(f"{output}: {size(output.stat().st_size)}, {table.num_rows} rows, columns {', '.join(table.column_names)}")
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
