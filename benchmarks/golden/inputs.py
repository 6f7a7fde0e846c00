"""The rows that every golden file is made from: drawn once from fixed seeds, and never changed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

COLUMNS = ["age", "dose", "pressure"]
SITES = ("east", "north", "south", "west")
GRID = np.logspace(0, -4, 9)


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs from a cube of three dimensions, and two noisy labels for each row."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    first = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    return X, np.column_stack([first, 5 + X[:, 1] ** 2 + 0.2 * rng.normal(size=n)])


X, Y = rows(150, 1)
y = Y[:, 0]
X_NEW = rows(25, 2)[0]  # predictions are made here
X_LARGE, Y_LARGE = rows(1200, 3)  # enough rows for the routes that only pay on many
U = rows(90, 4)[0]  # public rows without labels
X_PRIVATE, Y_PRIVATE = rows(1500, 5)
y_private = Y_PRIVATE[:, 0]
WEIGHTS = np.random.default_rng(6).uniform(0.5, 2.0, size=len(X))
WEIGHTS[[3, 70]] = 0.0
SITE_OF_ROW = np.asarray(SITES)[np.arange(len(X)) % 4]
WRONG = np.where(np.arange(len(X)) % 7 == 0, 20.0, y)  # every seventh label is off by far

# What a model predicts on, by the name under which `read` finds it again.
NEW_ROWS: dict[str, Any] = {
    "rows": X_NEW,
    "one column": X_NEW[:, :1],
    "one positive column": np.abs(X_NEW[:, :1]),
    "single precision": X_NEW.astype(np.float32),
    "frame": pd.DataFrame(X_NEW, columns=COLUMNS),
    "products": (X_NEW @ X.T + 1) ** 2 / 4,  # a kernel between the new rows and those of the fit
}


def frame(n: int, seed: int) -> pd.DataFrame:
    """A table with names: three inputs, a label, a second label, a weight and a site."""
    inputs, labels = rows(n, seed)
    table = pd.DataFrame(inputs, columns=COLUMNS)
    table["stay"], table["cost"] = labels.T
    table["w"] = np.random.default_rng(seed).uniform(0.5, 2.0, n)
    return table.assign(site=[SITES[i % 4] for i in range(n)])


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a frame as Parquet or as CSV, by the end of the name."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    if path.suffix == ".parquet":
        pa.parquet.write_table(arrow, path, row_group_size=40)
    else:
        pa.csv.write_csv(arrow, path)
