"""Real data sets: length scales chosen with labels against the median distance, beside published Gaussian processes.

    python benchmarks/real_sets.py                         # all sets and rows; the large ones in a span of 5000 points
    python benchmarks/real_sets.py pol kin40k --folds 3    # some sets, the first three of ten folds
    python benchmarks/real_sets.py --rows 10000            # a look at all of them in minutes
    python benchmarks/real_sets.py kin40k --exact 45000    # exact on 36,000 rows: some minutes a fit

RMSE on test rows, in units of the standard deviation that y has in the training rows. The test rows are those of a fold
where the set has folds, and otherwise a fifth of all, at random. Up to --exact rows the fit is exact
(SpectralRegressor, λ by leave-one-out; on more than --choose rows by that of as many with the same Nλ, which stands for
the noise), beyond that it is in the span of --points kernel functions (NystromRegressor, λ by GCV). Every fit is a
process of its own. Published figures are those of the data folder's manifest: exact Gaussian processes and SVGP of
Wang et al. 2019 (W; one length scale, random splits) and of Lin et al. 2024 (L; the same folds).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import unpooled as up
from measure import Measured, machine, measured
from real_data import NOT_FEATURES, folder

SMALL = ("pol", "elevators", "bike_clean", "california")
LARGE = ("kin40k", "protein", "beijing_pm25", "us_flights7", "srtm_elevation")
SITE_AS_INPUT = ("srtm_elevation",)  # its other inputs say where a row lies in its tile
WANG = r"exact-GP/SGPR512/SVGP1024[^:]*: ([\d.]+)/[\d.]+/([\d.]+)"
LIN = r"SDD=CG/SVGP[^:]*: ([\d.]+)/([\d.]+)"


def load(name: str, fold: int, rows: int | None) -> tuple[np.ndarray, ...]:
    """Training rows and test rows, features and labels on the scale of the former."""
    table = pq.read_table(folder() / f"{name}.parquet")
    columns = [c for c in table.column_names if c not in NOT_FEATURES and not c.startswith("site")]
    X = np.column_stack([table.column(c).to_numpy().astype(float) for c in columns])
    if name in SITE_AS_INPUT:
        sites = table.column("site").to_numpy()
        X = np.column_stack([X, sites[:, None] == np.unique(sites)])
    y = table.column("y").to_numpy().astype(float)
    rng = np.random.default_rng(fold)
    if "fold" in table.column_names:
        tested = table.column("fold").to_numpy() == fold
    else:
        tested = rng.permutation(len(y)) < len(y) // 5
    train, test = rng.permutation(np.flatnonzero(~tested))[:rows], np.flatnonzero(tested)
    shift, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - shift) / np.where(scale > 0, scale, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def fit_and_test(name: str, length_scale: str, fold: int, options: argparse.Namespace) -> dict[str, Any]:
    X, y, X_test, y_test = (part.astype(options.dtype) for part in load(name, fold, options.rows))
    start = time.perf_counter()
    kernel = up.kernels.as_kernel(options.kernel).set_params(length_scale=length_scale)
    kernel = up.choose_length_scales(kernel, X, y)
    searched = time.perf_counter()
    if len(X) <= options.exact:
        some = min(options.choose, len(X))
        model = up.SpectralRegressor(kernel, fit_intercept=True)
        if some < len(X):
            model.set_params(lam=model.fit(X[:some], y[:some]).lam_ * some / len(X))
    else:
        model = up.NystromRegressor(kernel, min(options.points, len(X)), fit_intercept=True)
    model.fit(X, y)
    fitted = time.perf_counter()
    error = model.predict(X_test) - y_test
    return {
        "rmse": float(np.sqrt(np.mean(error * error))),
        "search": searched - start,
        "fit": fitted - searched,
        "predict": time.perf_counter() - fitted,
        "rows": len(X),
        "features": X.shape[1],
        "tested": len(X_test),
        "how": "exact" if len(X) <= options.exact else f"{min(options.points, len(X))} points",
        "taken": kernel.search_.taken if kernel.search_ else "",
        "lam": float(model.lam_),
    }


def published() -> dict[str, list[str]]:
    """exact GP and SVGP of Wang et al., then of Lin et al., by the name of the set."""
    listed = pyarrow.csv.read_csv(folder() / "manifest.csv").to_pydict()
    found = {}
    for name, text in zip(listed["name"], listed["published"]):
        matches = [re.search(pattern, text or "") for pattern in (WANG, LIN)]
        found[name] = [figure for match in matches for figure in (match.groups() if match else ("", ""))]
    return found


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.4f}" + (
        f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.4f}" if len(values) > 1 else ""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=[*SMALL, *LARGE], help="names of data sets")
    parser.add_argument(
        "--kernel", choices=["gaussian", "matern"], default="matern", help="Matérn 3/2 (default) or Gaussian"
    )
    parser.add_argument("--folds", type=int, default=1, help="how many of the ten folds, or of the random splits (1)")
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    parser.add_argument("--exact", type=int, default=17_000, help="training rows up to which the fit is exact (17000)")
    parser.add_argument("--choose", type=int, default=17_000, help="rows that choose λ for an exact fit (17000)")
    parser.add_argument("--points", type=int, default=5000, help="points of the span beyond that (5000)")
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64", help="of the rows")
    parser.add_argument("--worker", nargs=3, metavar=("SET", "SCALE", "FOLD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, length_scale, fold = options.worker
        print(json.dumps(fit_and_test(name, length_scale, int(fold), options)))
        return
    shared = ["--kernel", options.kernel, "--exact", str(options.exact), "--points", str(options.points)]
    shared += ["--choose", str(options.choose)]
    shared += ["--dtype", options.dtype, *(["--rows", str(options.rows)] if options.rows else [])]

    def run(name: str, length_scale: str, fold: int) -> Measured:
        return measured(__file__, *shared, "--worker", name, length_scale, str(fold))

    table = Table(title=f"RMSE / std y, {options.kernel}, {options.folds} split(s)")
    headings = "set|rows|d|fit|median|auto|taken|search s|fit s|test s|MiB|exact GP W|SVGP W|exact GP L|SVGP L"
    for heading in headings.split("|"):
        table.add_column(heading, justify="right")
    known = published()
    console = Console(width=170)
    console.print(machine())
    for name in options.sets:
        by = {scale: [run(name, scale, f) for f in range(options.folds)] for scale in ("median", "auto")}
        first = by["auto"][0].result
        seconds = [f"{np.mean([m.result[part] for m in by['auto']]):.1f}" for part in ("search", "fit", "predict")]
        rmse = {scale: spread([m.result["rmse"] for m in found]) for scale, found in by.items()}
        size = [str(first["rows"]), str(first["features"]), first["how"], rmse["median"], rmse["auto"], first["taken"]]
        row = [name, *size, *seconds, f"{max(m.peak_mib for m in by['auto']):.0f}", *known[name]]
        console.print("  ".join(row))  # at once: the whole table may take hours
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
