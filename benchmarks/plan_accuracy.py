"""Does `up.plan` tell the truth? Every route at several sizes: memory and time as predicted, and as measured.

    python benchmarks/plan_accuracy.py                             # some minutes; on a machine that is otherwise idle
    python benchmarks/plan_accuracy.py --quick                     # small sizes
    taskset -c 0 python benchmarks/plan_accuracy.py --cpu-time     # on a busy one: one core, processor time

Each fit runs in a process of its own, in which the libraries are warm. Memory is what the fit adds to the process at
its peak; `of the process` compares the whole process at its peak. Rates are measured once, before all fits.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from dataclasses import asdict
from typing import Any

import numpy as np

import unpooled as up
from measure import forget_peak, machine, measured, resident
from unpooled._solvers.route import Rates, measure

D = 10
ROOM = "500 MB"  # what blocks may take: else there would be two of them, whatever the rows
#: route, rows, points of a basis, precision, λ (0: chosen)
CASES = [
    ("exact", 4000, 0, "float64", 1e-5),
    ("exact", 8000, 0, "float64", 1e-5),
    ("exact", 12_000, 0, "float64", 1e-5),
    ("exact", 12_000, 0, "float32", 1e-4),
    ("exact", 2000, 0, "float64", 0),
    ("exact", 4000, 0, "float64", 0),
    ("exact", 8000, 0, "float64", 0),
    ("exact", 8000, 0, "float32", 0),
    ("averaged", 16_000, 0, "float64", 0),
    ("averaged", 40_000, 0, "float64", 0),
    ("gram", 100_000, 1000, "float64", 0),
    ("gram", 300_000, 1000, "float32", 0),
    ("gram", 100_000, 3000, "float64", 0),
    ("rounds", 100_000, 1000, "float32", 0),
    ("rounds", 50_000, 2000, "float64", 0),
]
QUICK = [
    ("exact", 3000, 0, "float64", 1e-5),
    ("exact", 5000, 0, "float64", 1e-5),
    ("exact", 1500, 0, "float64", 0),
    ("exact", 3500, 0, "float64", 0),
    ("exact", 3500, 0, "float32", 0),
    ("averaged", 8000, 0, "float64", 0),
    ("gram", 30_000, 500, "float64", 0),
    ("gram", 30_000, 1500, "float32", 0),
    ("rounds", 30_000, 500, "float64", 0),
    ("rounds", 10_000, 1500, "float64", 0),
]


def rows(n: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D))
    y = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)
    return X.astype(dtype), y.astype(dtype)


def work(case: dict[str, Any]) -> dict[str, Any]:
    """One fit as it was planned."""
    X, y = rows(case["n"], case["dtype"])
    given = {"kernel": up.kernels.Gaussian(math.sqrt(D)), "lam": case["lam"] or None, "rates": Rates(**case["rates"])}
    points = {"n_features": case["points"]} if case["points"] else {}
    room = {"memory": ROOM} if case["route"] == "averaged" else {}
    outlook = up.plan(X, y, time=1e9, **points, **room, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outlook.estimator(case["route"]).fit(X[:1200], y[:1200])
        estimator, planned = outlook.estimator(case["route"]), outlook[case["route"]]
        forget_peak()
        clock = time.process_time if case["cpu_time"] else time.perf_counter
        before, start = resident(), clock()
        model = estimator.fit(X, y)
        seconds = clock() - start
    return {
        "before": before,
        "peak": resident(peak=True),
        "seconds": seconds,
        "planned_memory": planned.memory,
        "planned_seconds": planned.seconds,
        "words": planned.words,
        "solver": getattr(model, "solver_", f"{getattr(model, 'n_blocks_', '')} blocks"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--cpu-time", action="store_true", help="processor time in place of the clock on the wall")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(json.loads(arguments.worker))))
        return
    if arguments.cpu_time:
        time.perf_counter = time.process_time
    print(machine())
    found_rates = measure(repeats=9)
    print(found_rates)
    worst_memory, worst_time = 1.0, 1.0
    heads = ("rows", "type", "MB planned", "measured", "ratio", "of process", "s planned", "measured", "ratio", "taken")
    print(f"{'route':32}" + "".join(f"{head:>11}" for head in heads))
    for route, n, points, dtype, lam in QUICK if arguments.quick else CASES:
        case = {"route": route, "n": n, "points": points, "dtype": dtype, "lam": lam, "rates": asdict(found_rates)}
        r = measured(__file__, "--worker", json.dumps(case | {"cpu_time": arguments.cpu_time})).result
        taken, planned = r["peak"] - r["before"], r["planned_memory"]
        whole, slow = (r["before"] + planned) / r["peak"], r["planned_seconds"] / r["seconds"]
        worst_memory, worst_time = max(worst_memory, whole, 1 / whole), max(worst_time, slow, 1 / slow)
        memory = (f"{planned / 1e6:,.0f}", f"{taken / 1e6:,.0f}", f"{planned / taken:.2f}", f"{whole:.2f}")
        seconds = (f"{r['planned_seconds']:.2f}", f"{r['seconds']:.2f}", f"{slow:.2f}")
        cells = (f"{n:,}", dtype, *memory, *seconds, r["solver"])
        print(f"{r['words']:32}" + "".join(f"{cell:>11}" for cell in cells), flush=True)
    print(f"at worst a factor {worst_memory:.2f} in the memory of the process and {worst_time:.2f} in time")


if __name__ == "__main__":
    main()
