"""Exact kernel ridge regression on many rows, in the memory of one kernel matrix.

    python benchmarks/exact_size.py --rows 8000                       # seconds
    python benchmarks/exact_size.py --rows 40000                      # on the processor: 12.8 GB, some minutes
    python benchmarks/exact_size.py --device cuda --rows 100000       # on a GPU: 80 GB

The floor is N³/3 operations at the rate of one large matrix product, measured in the same run. Rows are a smooth
function of ten standard normal features with noise; the error is that of 10,000 new rows against their labels, of which
the noise alone is 0.1.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

import numpy as np

import unpooled as up
from floor import rates
from measure import forget_peak, machine, measured, resident
from unpooled._base.text import format_duration, format_size

D, NOISE, LAM, TEST = 10, 0.1, 1e-6, 10_000


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    f = np.sin(X[:, 0] + X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + np.cos(2 * X[:, 4]) + 0.3 * X[:, 5:].sum(axis=1)
    return X, f + NOISE * rng.standard_normal(n)


def fit(n: int, device: str | None) -> dict[str, Any]:
    """Seconds, bytes at the peak, and the error on new rows."""
    X, y = rows(n, seed=0)
    X_new, y_new = rows(TEST, seed=1)
    model = up.SpectralRegressor(up.kernels.Gaussian(math.sqrt(D)), lam=LAM, solver="cholesky")
    if device is not None:
        import torch

        X, y, X_new = (torch.from_numpy(a).to(device) for a in (X, y, X_new))
    model.fit(X[:1500], y[:1500])  # libraries and threads warm
    if device is not None:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
    else:
        forget_peak()
        before = resident()
    start = time.perf_counter()
    model.fit(X, y)
    if device is not None:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = resident(peak=True) if device is None else torch.cuda.max_memory_allocated()
    start = time.perf_counter()
    predicted = model.predict(X_new)
    predicted = predicted if device is None else predicted.cpu().numpy()
    rmse = float(np.sqrt(np.mean((predicted - y_new) ** 2)))
    return {"seconds": seconds, "peak": peak - before, "predict": time.perf_counter() - start, "rmse": rmse}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[8000])
    parser.add_argument("--device", help="cuda")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(fit(arguments.rows[0], arguments.device)))
        return
    where = ["--device", arguments.device] if arguments.device else []
    print(machine())
    gemm = rates(arguments.device).gemm
    print(f"matrix product, float64: {gemm / 1e9:,.0f} GFLOP/s on {arguments.device or 'all cores'}")
    for n in arguments.rows:
        found = measured(__file__, "--worker", "--rows", str(n), *where).result
        floor, matrix = n**3 / 3 / gemm, 8.0 * n * n
        print(
            f"N = {n:,}: {format_duration(found['seconds'])}, {found['seconds'] / floor:.2f} times the floor of "
            f"{format_duration(floor)}; peak {format_size(found['peak'])}, {found['peak'] / matrix:.3f} times the "
            f"kernel matrix; "
            f"RMSE {found['rmse']:.4f} on {TEST:,} new rows, predicted in {format_duration(found['predict'])}"
        )


if __name__ == "__main__":
    main()
