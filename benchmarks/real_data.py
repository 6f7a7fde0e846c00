"""Real data sets for the benchmarks, from $UNPOOLED_DATA or ../shared/data; a clear word when they are missing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

NOT_FEATURES = ("y", "y_pm10", "fold", "site", "split", "test_bits")


@dataclass
class Split:
    """Standardised training rows and test rows, and the site of each training row where there are sites."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    sites: np.ndarray | None


def folder() -> Path:
    """Where the data sets are."""
    given = os.environ.get("UNPOOLED_DATA")
    found = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not found.is_dir():
        raise SystemExit(f"the data sets are not at {found}: set UNPOOLED_DATA to the folder that holds them")
    return found


def load(name: str, n: int, n_test: int = 5000, seed: int = 0) -> Split:
    """n rows to learn from and n_test others, at random; features scaled to mean 0 and variance 1 on the former."""
    path = folder() / f"{name}.parquet"
    if not path.exists():
        raise SystemExit(f"{path} is missing: UNPOOLED_DATA must name the folder that holds {name}.parquet")
    table = pq.read_table(path)
    columns = [c for c in table.column_names if c not in NOT_FEATURES and not c.startswith("site")]
    X = np.column_stack([table.column(c).to_numpy().astype(float) for c in columns])
    y = table.column("y").to_numpy().astype(float)
    sites = table.column("site").to_numpy() if "site" in table.column_names else None
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(n, len(y) - n_test)
    train, test = order[:n], order[n : n + n_test]
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - mean) / np.where(spread > 0, spread, 1.0)
    return Split(X[train], y[train], X[test], y[test], None if sites is None else sites[train])


@dataclass
class Study:
    """Rows with their sites, split into a public part, a training part and a test part."""

    public: np.ndarray
    X: np.ndarray
    y: np.ndarray
    sites: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def with_sites() -> list[str]:
    """The names of all data sets that have a site column, smallest first."""
    files = [path for path in folder().glob("*.parquet") if "site" in pq.read_schema(path).names]
    return [path.stem for path in sorted(files, key=lambda path: pq.read_metadata(path).num_rows)]


def study(name: str, n: int | None = None, public: float = 0.1, test: float = 0.1, seed: int = 0) -> Study:
    """A tenth of the rows, drawn across sites, is public and loses its labels; another tenth is for testing."""
    table = pq.read_table(folder() / f"{name}.parquet")
    columns = [c for c in table.column_names if c not in NOT_FEATURES and not c.startswith("site")]
    X = np.column_stack([table.column(c).to_numpy().astype(float) for c in columns])
    y, sites = table.column("y").to_numpy().astype(float), table.column("site").to_numpy()
    order = np.random.default_rng(seed).permutation(len(y))[:n]
    cuts = [int(public * len(order)), int((public + test) * len(order))]
    known, tested, train = np.split(order, cuts)
    return Study(X[known], X[train], y[train], sites[train], X[tested], y[tested])
