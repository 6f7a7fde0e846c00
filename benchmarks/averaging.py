"""Averaging blocks: error and time against the number of blocks, against full kernel ridge, and what rule (14) takes.

    python benchmarks/averaging.py                     # N = 10,000 on four data sets, then a plot
    python benchmarks/averaging.py --rows 40000 --data kin40k protein
    python benchmarks/averaging.py --quick             # N = 2000

Full kernel ridge chooses λ by its own leave-one-out; the averages by rule (13); rule (14) chooses the blocks as well.
All use the same Gaussian kernel (median length scale) and an intercept. Each contender runs in a process of its own,
libraries warm, and predicts 5000 rows it has not seen. Data sets are read from $UNPOOLED_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import unpooled as up
from measure import Measured, machine, measured
from real_data import folder, load

DATA = ("protein", "kin40k", "beijing_pm25", "nycflights13")
FULL_FIT_BYTES_PER_ROW_SQUARED = 20.0  # double and single precision matrices, and the reduction


def model(who: str) -> Any:
    local = up.SpectralRegressor(fit_intercept=True)
    if who == "full":
        return local
    return up.AveragedRegressor(local, n_blocks="auto" if who == "rule14" else int(who))


def work(name: str, who: str, n: int) -> dict[str, Any]:
    data = load(name, n)
    model("rule14").fit(data.X[:600], data.y[:600])  # imports, thread pools
    start = time.perf_counter()
    fitted = model(who).fit(data.X, data.y)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    predicted = fitted.predict(data.X_test)
    rmse = float(np.sqrt(np.mean((predicted - data.y_test) ** 2)))
    return {
        "seconds": seconds,
        "predict": time.perf_counter() - start,
        "rmse": rmse,
        "lam": float(fitted.lam_),
        "m": getattr(fitted, "n_blocks_", 1),
        "solver": getattr(fitted, "solver_", ""),
    }


def limit(name: str, n: int) -> tuple[float, float]:
    """The exponent of the effective dimension on these data, and the most blocks that (9) supports at any r."""
    X = load(name, n).X
    s = min(1.0, max(0.0, up.theory.dimension_exponent(up.kernels.Gaussian("median"), X).s))
    return s, up.theory.largest_supported_blocks(n, s, filter="tikhonov")


def compare(name: str, n: int, largest: int, with_full: bool, console: Console) -> dict[str, Any]:
    s, most = limit(name, n)
    table = Table(title=f"{name}, N = {n}: s ≈ {s:.2f}, so theory supports up to {most:.0f} blocks")
    for heading in ("blocks", "λ", "RMSE", "to full", "fit s", "full / this", "predict s", "MiB", "route"):
        table.add_column(heading, justify="right")
    sizes = [str(2**k) for k in range(1 + int(np.log2(largest)))]
    contenders = [*(["full"] if with_full else []), *sizes, "rule14"]
    found = {who: measured(__file__, "--worker", name, who, str(n)) for who in contenders}
    base = found.get("full")
    for who, run in found.items():
        r = run.result
        label = {"full": "full, leave-one-out", "rule14": f"rule (14): {r['m']}"}.get(who, who)
        table.add_row(
            label,
            f"{r['lam']:.1e}",
            f"{r['rmse']:.4f}",
            f"{100 * (r['rmse'] / base.result['rmse'] - 1):+.1f} %" if base else "",
            f"{r['seconds']:.2f}",
            f"{base.result['seconds'] / r['seconds']:.1f}" if base else "",
            f"{r['predict']:.2f}",
            f"{run.peak_mib:.0f}",
            r["solver"],
        )
    console.print(table)
    if base:
        ours = found["rule14"].result
        error = ours["rmse"] / base.result["rmse"] - 1
        share = ours["seconds"] / base.result["seconds"]
        verdict = (
            "within 2 % in at most a fifth of the time" if error <= 0.02 and share <= 0.2 else "NOT within the aim"
        )
        console.print(f"rule (14) on {name}: error {100 * error:+.1f} %, time {share:.2f} of the full fit: {verdict}\n")
    return {"found": found, "limit": most}


def plot(results: dict[str, dict[str, Any]], n: int, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(results), figsize=(4 * len(results), 6), sharex=True, squeeze=False)
    for column, (name, result) in enumerate(results.items()):
        found: dict[str, Measured] = result["found"]
        sizes = [int(who) for who in found if who.isdigit()]
        for row, quantity in enumerate(("rmse", "seconds")):
            ax = axes[row, column]
            ax.plot(sizes, [found[str(m)].result[quantity] for m in sizes], "o-", label="average of m fits")
            if "full" in found:
                ax.axhline(found["full"].result[quantity], color="C1", ls="--", label="full, leave-one-out")
            ours = found["rule14"].result
            ax.plot(ours["m"], ours[quantity], "*", ms=14, color="C3", label="rule (14)")
            ax.axvline(result["limit"], color="0.6", ls=":", label="limit of theory")
            ax.set_xscale("log", base=2)
            if quantity == "seconds":
                ax.set_yscale("log")
            ax.set_ylabel({"rmse": "test RMSE", "seconds": "fit, seconds"}[quantity])
        axes[0, column].set_title(f"{name}, N = {n}")
        axes[1, column].set_xlabel("blocks m")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(DATA), help="names of data sets")
    parser.add_argument("--rows", type=int, default=10_000, help="rows to learn from (10,000)")
    parser.add_argument("--largest", type=int, default=64, help="the largest number of blocks (64)")
    parser.add_argument("--quick", action="store_true", help="2000 rows, up to 8 blocks")
    parser.add_argument("--plot", default="averaging.png", help="where the plot goes")
    parser.add_argument("--worker", nargs=3, metavar=("NAME", "WHO", "N"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        name, who, n = arguments.worker
        print(json.dumps(work(name, who, int(n))))
        return
    folder()
    n, largest = (2000, 8) if arguments.quick else (arguments.rows, arguments.largest)
    console = Console(width=140)
    console.print(machine())
    import psutil

    with_full = FULL_FIT_BYTES_PER_ROW_SQUARED * n**2 < psutil.virtual_memory().available
    if not with_full:
        console.print(f"full kernel ridge on {n} rows does not fit into the free memory and is left out")
    results = {name: compare(name, n, largest, with_full, console) for name in arguments.data}
    plot(results, n, arguments.plot)
    console.print(f"plot: {arguments.plot}")


if __name__ == "__main__":
    main()
