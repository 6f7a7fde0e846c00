"""``unpooled predict``: predictions for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from .. import models
from .._base.text import size
from ..data import sources, tables
from ..engines.progress import Progress
from ..estimators.span import values_by_name
from .app import app, command
from .codes import DATA, FILE, USAGE, Problem
from .options import Data, Output, check_output, check_table, names
from .out import Out


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
    given = sources.table(data, columns or None)
    found = sources.columns(given)
    kept = names(keep, list(found))
    sources.check_columns(data, found, columns, "the model")
    sources.check_columns(data, dict.fromkeys(found), kept, "--keep")
    if not columns:
        columns = _unnamed(fitted, model, found, data, kept)
        given = sources.table(data, columns)
    predicted = _names(fitted)
    clash = [name for name in predicted if name in kept]
    if clash:
        raise Problem(f"--keep {clash[0]} is what the prediction is called: keep it under another name", USAGE)
    n_rows = 0
    stretches = tables.stretches(given, kept)
    schema = _with_predictions(next(stretches)[1], np.empty((0, len(predicted))), predicted).schema
    with tables.writer(output, schema) as writer, Progress(_pieces(given), "predicting", verbose=1) as progress:
        for X, beside in stretches:
            writer.write_table(_with_predictions(beside, values_by_name(fitted, X), predicted))
            n_rows += len(X)
            progress.advance()
    out.say(f"{n_rows} rows predicted; {output}: {size(output.stat().st_size)}, columns {', '.join(schema.names)}")
    return {"file": output, "n_rows": n_rows, "columns": list(schema.names), "predictions": predicted}


def _names(model: Any) -> list[str]:
    targets = list(getattr(model, "targets_", ()))
    if targets:
        return [f"{name}_predicted" for name in targets]
    n = len(np.atleast_1d(model.predictor_.intercept)) if hasattr(model.predictor_, "intercept") else 1
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
    from ..data.parquet import ParquetSource

    if isinstance(given, Csv):
        return max(1, Path(given.path).stat().st_size // STRETCH + 1)
    return max(1, len(ParquetSource(given, None, None, None).pieces))
