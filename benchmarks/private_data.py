"""The problems of the private frontier: rows that are private, a public sample without labels, rows to test on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

import real_data

PUBLIC = 1000  # rows without labels that everybody knows
TEST = 5000  # at most, and at most a fifth of the rows

# What anybody knows of the labels before looking: a range with some room, in the units of the manifest. All methods get
# labels moved to the middle of it and divided by half of it, so that 1 is the label bound of everyone.
RANGES = {
    "california": (0.0, 6.0),  # 100,000 USD; the survey caps at 5
    "kin40k": (-4.0, 4.0),  # a distance, standardised by whoever made the set
    "protein": (-3.0, 3.0),  # centred log(1 + RMSD)
    "power_plant": (400.0, 500.0),  # MW; a plant of 480 MW
    "diamonds": (0.0, 20_000.0),  # USD
    "kc_house": (0.0, 8_000_000.0),  # USD
}
SYNTHETIC = {"synthetic_1k": 1_000, "synthetic_10k": 10_000, "synthetic_100k": 100_000}
NAMES = (*SYNTHETIC, *RANGES)


@dataclass(frozen=True)
class Problem:
    """Everything in the units in which all methods get it; |y| ≤ 1 but for what exceeds the public range."""

    name: str
    public: np.ndarray
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def r2(self, predicted: np.ndarray) -> float:
        """The share of the test labels' variance that is explained."""
        return float(1.0 - np.mean((self.y_test - predicted) ** 2) / np.var(self.y_test))


def problem(name: str, seed: int = 0) -> Problem:
    """The problem of that name; inputs are scaled as they are on the public sample."""
    rng = np.random.default_rng([seed, 20261116])
    if name in SYNTHETIC:
        X, y = _smooth(rng, SYNTHETIC[name] + PUBLIC + TEST)
        low, high = -3.0, 3.0
    else:
        table = pq.read_table(real_data.folder() / f"{name}.parquet")
        columns = [c for c in table.column_names if c not in real_data.NOT_FEATURES and not c.startswith("site")]
        X = np.column_stack([table.column(c).to_numpy().astype(float) for c in columns])
        y = table.column("y").to_numpy().astype(float)
        low, high = RANGES[name]
    order = rng.permutation(len(y))
    n_test = TEST if name in SYNTHETIC else min(TEST, len(y) // 5)
    test, public, rest = np.split(order, [n_test, n_test + PUBLIC])
    centre, spread = X[public].mean(axis=0), X[public].std(axis=0)
    X = (X - centre) / np.where(spread > 0, spread, 1.0)
    y = (y - (low + high) / 2) / ((high - low) / 2)
    return Problem(name, X[public], X[rest], y[rest], X[test], y[test])


def _smooth(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of five variables with noise that leaves about 95.5 % of the variance to explain."""
    X = rng.uniform(-1.0, 1.0, size=(n, 5))
    f = np.sin(2.0 * X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * np.cos(2.0 * X[:, 4])
    return X, f + rng.normal(scale=np.sqrt(0.047) * np.std(f), size=n)
