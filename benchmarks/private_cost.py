"""What privacy costs in time: the same fit with and without its noise, and the time that drawing the noise takes.

    python benchmarks/private_cost.py [--rows 10000 100000]

"Without privacy" is the same learner on the same rows, told the same sums as they are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

import unpooled as up
from unpooled.privacy.noise import GridGaussian

REPEATS = 3


def timed(fit: Callable[[], Any]) -> float:
    """The least of some runs, in seconds."""
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        fit()
        found.append(time.perf_counter() - start)
    return min(found)


def measured(n: int) -> str:
    """One line of the table."""
    rng = np.random.default_rng(0)
    X, U = rng.uniform(-1, 1, size=(n, 5)), rng.uniform(-1, 1, size=(1000, 5))
    y = np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + 0.2 * rng.normal(size=n)
    drawing: list[float] = []
    add = GridGaussian.add

    def adding(self: GridGaussian, values: Any) -> np.ndarray:
        start = time.perf_counter()
        noisy = add(self, values)
        drawing.append(time.perf_counter() - start)
        return noisy

    def unchanged(_: GridGaussian, values: Any) -> np.ndarray:
        return np.asarray(values, dtype=float)

    model = up.PrivateRegressor(1.0, 1e-6, label_bound=3.0)
    with mock.patch.object(GridGaussian, "add", adding):
        model.fit(X, y, public=U)  # OpenDP is imported here, once a process
        drawing.clear()
        private = timed(lambda: model.fit(X, y, public=U))
        noise = sum(drawing) / REPEATS
    with mock.patch.object(GridGaussian, "add", unchanged):
        plain = timed(lambda: model.fit(X, y, public=U))
    less = timed(lambda: up.LESSRegressor(lam=1e-4, rounds=8, n_features=500, fit_intercept=False).fit(X, y, public=U))
    return (
        f"n = {n}: private {private:.2f} s, of which noise {noise:.2f} s; the same without noise {plain:.2f} s "
        f"(ratio {(private - noise) / plain:.2f}); LESS with 8 rounds and one λ {less:.2f} s "
        f"(ratio {(private - noise) / less:.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000])
    for n in parser.parse_args().rows:
        print(measured(n), flush=True)


if __name__ == "__main__":
    main()
