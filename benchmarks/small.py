"""Small problems, where overheads are all there is: one fit and one choice of λ beside scikit-learn's.

    python benchmarks/small.py

Median of many fits in one process, ours and theirs by turns, after some that are not counted.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import LinAlgWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

import unpooled as up
from measure import machine

SIZES = (200, 500)
LAM, LAMS = 1e-5, np.logspace(-1, -8, 20)
LENGTH_SCALE = np.sqrt(10.0)
GAMMA = 0.5 / LENGTH_SCALE**2


def main() -> None:
    console = Console()
    console.print(machine())
    table = Table(title="milliseconds, median")
    for column in ("N", "", "unpooled", "scikit-learn", "times"):
        table.add_column(column, justify="right")
    for n in SIZES:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, 10))
        y = np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.5 * rng.normal(size=n)
        kernel, theirs = up.kernels.Gaussian(LENGTH_SCALE), KernelRidge(kernel="rbf", gamma=GAMMA)
        search = GridSearchCV(theirs, {"alpha": list(n * LAMS)}, cv=5)
        one = KernelRidge(alpha=n * LAM, kernel="rbf", gamma=GAMMA)
        for name, ours, other, repeats in (
            ("one λ", up.SpectralRegressor(kernel, lam=LAM, fit_intercept=False), one, 40),
            ("20 λ, leave-one-out or 5 folds", up.SpectralRegressor(kernel, lam=LAMS, fit_intercept=False), search, 5),
        ):
            own, peer = _by_turns([ours, other], X, y, repeats)
            table.add_row(f"{n}", name, f"{own * 1e3:.2f}", f"{peer * 1e3:.2f}", f"{peer / own:.1f}")
    console.print(table)


def _by_turns(models: list[Any], X: np.ndarray, y: np.ndarray, repeats: int) -> list[float]:
    spent: list[list[float]] = [[] for _ in models]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # of scikit-learn's, at the smallest λ
        for i in range(repeats + 2):
            for model, times in zip(models, spent):
                start = time.perf_counter()
                model.fit(X, y)
                if i >= 2:
                    times.append(time.perf_counter() - start)
    return [float(np.median(times)) for times in spent]


if __name__ == "__main__":
    main()
