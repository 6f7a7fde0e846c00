"""Choosing λ: leave-one-out from one decomposition against a grid search over KernelRidge; and one fit at a given λ.

    python benchmarks/select_lambda.py            # N = 2000 and 5000 for the choice, 5000 and 10000 for the single fit
    python benchmarks/select_lambda.py --quick    # N = 1000 and 1500, in seconds

Both contenders see the same data, kernel and 20 values of λ, each in a process of its own, the libraries warm.
The floor is the time of one eigendecomposition (or one Cholesky factorisation) of that size in the same process.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

import unpooled as up
from measure import Measured, machine, measured

D = 10
LENGTH_SCALE = math.sqrt(D)
LAMS = np.logspace(-7, -1, 20)
FIXED_LAM = 1e-5


def data(n: int, dtype: str, noise: float) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n + 2000, D))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * np.abs(X[:, 3])
    y = f + noise * rng.standard_normal(n + 2000)
    X, y, f = X.astype(dtype), y.astype(dtype), f.astype(dtype)
    return X[:n], y[:n], X[n:], f[n:]


def ours(lam: Any) -> up.SpectralRegressor:
    return up.SpectralRegressor(up.kernels.Gaussian(LENGTH_SCALE), lam=lam, fit_intercept=False)


def theirs(alpha: float = 1.0) -> KernelRidge:
    return KernelRidge(alpha=alpha, kernel="rbf", gamma=0.5 / LENGTH_SCALE**2)


def contender(task: str, who: str, n: int) -> Any:
    if task == "fixed":
        return ours(FIXED_LAM) if who == "ours" else theirs(n * FIXED_LAM)
    if who == "ours":
        return ours(LAMS)
    return GridSearchCV(theirs(), {"alpha": list(n * LAMS)}, cv=5, n_jobs=2, scoring="neg_mean_squared_error")


def work(task: str, who: str, n: int, dtype: str, noise: float) -> dict[str, Any]:
    X, y, X_test, f_test = data(n, dtype, noise)
    contender(task, who, 200).fit(X[:200], y[:200])  # imports, thread pools and worker processes
    start = time.perf_counter()
    model = contender(task, who, n).fit(X, y)
    seconds = time.perf_counter() - start
    rmse = float(np.sqrt(np.mean((model.predict(X_test) - f_test) ** 2)))
    lam = model.lam_ if who == "ours" else getattr(model, "best_params_", {"alpha": n * FIXED_LAM})["alpha"] / n
    return {"seconds": seconds, "rmse": rmse, "lam": float(lam), "solver": getattr(model, "solver_", "")}


def floor(task: str, n: int, dtype: str) -> dict[str, Any]:
    X, _, _, _ = data(n, dtype, 0.0)
    K = up.kernels.Gaussian(LENGTH_SCALE)(X)
    K.reshape(-1)[:: n + 1] += n * FIXED_LAM
    start = time.perf_counter()
    if task == "fixed":
        scipy.linalg.cholesky(K.T, overwrite_a=True, check_finite=False)
    else:
        scipy.linalg.eigh(K.T, driver="evd", overwrite_a=True, check_finite=False)
    return {"seconds": time.perf_counter() - start}


def compare(task: str, sizes: list[int], dtypes: list[str], noise: float) -> Table:
    title = {
        "choose": f"20 λ, noise {noise:g}: leave-one-out against GridSearchCV(KernelRidge, 5 folds, n_jobs=2)",
        "fixed": f"one fit at λ = {FIXED_LAM:g}: SpectralRegressor against KernelRidge",
    }[task]
    table = Table(title=title)
    headings = "N|dtype|ours s|theirs s|ratio|to floor|RMSE ours|theirs|MiB ours|theirs|route"
    for heading in headings.split("|"):
        table.add_column(heading, justify="right")
    for n in sizes:
        for dtype in dtypes:
            a, b = (run(task, who, n, dtype, noise) for who in ("ours", "theirs"))
            base = run(task, "floor", n, dtype, noise).result["seconds"]
            r, s = a.result, b.result
            table.add_row(
                str(n),
                dtype,
                f"{r['seconds']:.2f}",
                f"{s['seconds']:.2f}",
                f"{s['seconds'] / r['seconds']:.2f}",
                f"{r['seconds'] / base:.2f}",
                f"{r['rmse']:.4f}",
                f"{s['rmse']:.4f}",
                f"{a.peak_mib:.0f}",
                f"{b.peak_mib:.0f}",
                r["solver"],
            )
    return table


def run(task: str, who: str, n: int, dtype: str, noise: float) -> Measured:
    return measured(__file__, "--worker", task, who, str(n), dtype, str(noise))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--noise", type=float, default=0.5, help="standard deviation of the labels' noise (0.5)")
    parser.add_argument("--worker", nargs=5, metavar=("TASK", "WHO", "N", "DTYPE", "NOISE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        task, who, n, dtype, noise = arguments.worker
        done = floor(task, int(n), dtype) if who == "floor" else work(task, who, int(n), dtype, float(noise))
        print(json.dumps(done))
        return
    console = Console(width=140)
    console.print(machine())
    quick = arguments.quick
    console.print(compare("choose", [1000, 1500] if quick else [2000, 5000], ["float64", "float32"], arguments.noise))
    console.print(compare("fixed", [1000, 1500] if quick else [5000, 10_000], ["float64", "float32"], arguments.noise))
    console.print("ratio: their time over ours; to floor: our time over one factorisation of that size")


if __name__ == "__main__":
    main()
