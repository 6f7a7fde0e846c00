"""Sites that may send sums and not rows: the error of each way to learn, and what it sends.

    python benchmarks/sites.py                        # every data set with a site column, at most 200,000 rows of each
    python benchmarks/sites.py --data heart_4hosp california
    python benchmarks/sites.py --most 2000000 --points 1000

A tenth of the rows, drawn across sites, is public and without labels; a tenth is for testing; the rest stays at its
site. One basis for all: a Gaussian kernel with the median length scale of the standardised public rows, at most 500
points. All fit an intercept and choose λ themselves among the same 14 values, by what they may see:

- local only: each site's ridge regression in the basis on its own rows, λ by GCV; tested on everybody's test rows,
  the mean over sites weighted by rows
- averaged: the average of the sites' local ridge fits at one λ, chosen on the sum of the sites' validation halves as
  in rule (13), then refitted
- LESS: one first-order summary a site, λ by leave-one-out sums
- rounds: first-order summaries of residuals, 5 or 10 exchanges, conjugate steps, ridge term kept, 14 λ side by side of
  which GCV takes one
- second order: one second-order summary a site, λ by GCV from their sum
- + LOO: the same with λ by sums of leave-one-out errors, a second exchange
- pooled in span: ridge regression on all rows in the same basis, λ by GCV, computed here from the rows and not by
  the library: the aim
- pooled KRR: λ by leave-one-out, on all points, up to --krr rows

Bytes are those of the files a site sends, all exchanges together. Data are read from $UNPOOLED_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import unpooled as up
from measure import machine
from real_data import Study, study, with_sites
from unpooled._solvers.span.moments import make_system, solve
from unpooled.estimators.from_sums import means_of
from unpooled.filters import Tikhonov

METHODS = (
    "local",
    "averaged",
    "LESS",
    "5 rounds",
    "10 rounds",
    "second order",
    "+ LOO",
    "pooled in span",
    "pooled KRR",
)
AIM = "pooled in span"
GRID = np.logspace(0, -9, 28)[::2]  # κ = 1


def rmse(model: Any, data: Study) -> float:
    return float(np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2)))


def file_size(thing: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        thing.save(Path(folder) / "file")
        return (Path(folder) / "file").stat().st_size


def local_only(basis: Any, data: Study) -> float:
    """The mean square over sites, each tested on all test rows; a site of one row predicts its label."""
    total = 0.0
    for site in np.unique(data.sites):
        own = data.sites == site
        if own.sum() < 3:
            predicted: Any = np.full(len(data.y_test), data.y[own].mean())
        else:
            summary = up.Summary.of(basis, data.X[own], data.y[own], order=2)
            predicted = up.SummaryRegressor(center=True, grid=GRID).fit_summary(summary).predict(data.X_test)
        total += own.mean() * float(np.mean((predicted - data.y_test) ** 2))
    return float(np.sqrt(total))


def averaged(basis: Any, data: Study) -> tuple[float, float]:
    """Σ (n_j/n) f_j with one λ for all, chosen by rule (13) on halves of the sites."""
    lams = GRID
    half = np.random.default_rng(0).random(len(data.y)) < 0.5

    def fits(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        coef, intercept, mass = 0.0, 0.0, 0
        for site in np.unique(data.sites[rows]):
            own = rows & (data.sites == site)
            means = means_of(up.Summary.of(basis, data.X[own], data.y[own], order=2))
            found = solve(make_system(means, basis, True, same_sample=True), Tikhonov(), lams)
            coef, intercept = coef + own.sum() * found.coef[:, :, 0], intercept + own.sum() * found.intercept[:, 0]
            mass += own.sum()
        return coef / mass, intercept / mass

    coef, intercept = fits(half)
    errors = np.zeros(len(lams))
    for rows in np.array_split(np.flatnonzero(~half), max(1, (~half).sum() // 20_000)):
        predicted = basis.transform(data.X[rows]) @ coef.T + intercept
        errors += ((predicted - data.y[rows, None]) ** 2).sum(axis=0)
    best = int(np.argmin(errors))
    coef, intercept = fits(np.ones(len(data.y), dtype=bool))
    predicted = basis.transform(data.X_test) @ coef[best] + intercept[best]
    return float(np.sqrt(np.mean((predicted - data.y_test) ** 2))), float(lams[best])


def pooled_in_span(basis: Any, data: Study) -> float:
    """Ridge with an intercept on the features of all rows, λ by GCV of the residuals: plain NumPy, blocks of rows."""
    blocks = np.array_split(np.arange(len(data.y)), max(1, len(data.y) // 20_000))
    n, M = len(data.y), basis.n_features_
    mean = sum(basis.transform(data.X[rows]).sum(axis=0) for rows in blocks) / n
    y_mean = data.y.mean()
    C, d = np.zeros((M, M)), np.zeros(M)
    for rows in blocks:
        phi = basis.transform(data.X[rows]).astype(float) - mean
        C += phi.T @ phi / n
        d += phi.T @ (data.y[rows] - y_mean) / n
    lams = GRID
    sigma, V = np.linalg.eigh(C)
    sigma = np.maximum(sigma, 0.0)
    coef = V @ ((V.T @ d)[:, None] / (sigma[:, None] + lams))
    rss = np.zeros(len(lams))
    for rows in blocks:
        predicted = (basis.transform(data.X[rows]) - mean) @ coef
        rss += ((data.y[rows, None] - y_mean - predicted) ** 2).sum(axis=0)
    df = (sigma[:, None] / (sigma[:, None] + lams)).sum(axis=0) + 1
    gcv = np.where(df <= n / 2, rss / n / (1 - df / n) ** 2, np.inf)
    predicted = (basis.transform(data.X_test) - mean) @ coef[:, np.argmin(gcv)] + y_mean
    return float(np.sqrt(np.mean((predicted - data.y_test) ** 2)))


def run(name: str, n: int, points: int, krr: int) -> dict[str, Any]:
    data = study(name, n)
    kernel = up.kernels.Gaussian("median")
    public = data.public[:20_000]
    basis = up.bases.EmpiricalFeatures(kernel, standardize=True, max_points=points).fit(public)
    n_sites = len(np.unique(data.sites))
    found: dict[str, Any] = {"rows": len(data.y), "sites": n_sites, "M": basis.n_features_, "public": len(public)}
    first = file_size(up.Summary.of(basis, data.X[:100], data.y[:100]))
    pooled = up.Summary.of(basis, data.X, data.y, order=2)
    found["bytes"] = {
        "LESS": first,
        # 14 λ, each with the label and two random ones; and one more exchange for the losses.
        "5 rounds": first + 5 * 8 * 14 * 3 * basis.n_features_,
        "10 rounds": first + 10 * 8 * 14 * 3 * basis.n_features_,
        "second order": file_size(pooled),
        "+ LOO": file_size(pooled) + 8 * 30,
        "averaged": 8 * (basis.n_features_ + 1),
        "local": 0,
    }
    start = time.perf_counter()
    error: dict[str, float | None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that LESS has a floor here is what the table shows
        error["local"] = local_only(basis, data)
        error["averaged"], _ = averaged(basis, data)
        less = up.LESSRegressor(basis, center=True, grid=GRID).fit(data.X, data.y)
        error["LESS"] = rmse(less, data)
        found["floor"] = less.floor_.error
        for rounds in (5, 10):
            model = up.LESSRegressor(basis, rounds=rounds, ridge=True, steps="conjugate", center=True, grid=GRID)
            error[f"{rounds} rounds"] = rmse(model.fit(data.X, data.y), data)
        error["second order"] = rmse(up.SummaryRegressor(center=True, grid=GRID).fit_summary(pooled), data)
        error["+ LOO"] = rmse(up.LESSRegressor(basis, order=2, center=True, grid=GRID).fit(data.X, data.y), data)
        error[AIM] = pooled_in_span(basis, data)
        error["pooled KRR"] = None
        if len(data.y) <= krr:
            X, X_test = (basis.map_.scaled(rows) for rows in (data.X, data.X_test))
            full = up.SpectralRegressor(basis.kernel_, center=True).fit(X, data.y)
            error["pooled KRR"] = float(np.sqrt(np.mean((full.predict(X_test) - data.y_test) ** 2)))
    found |= {"rmse": error, "seconds": time.perf_counter() - start, "y_std": float(data.y_test.std())}
    return found


def table(results: dict[str, dict[str, Any]]) -> Table:
    out = Table(title="test RMSE, in standard deviations of y; in brackets the ratio to pooled ridge in the span")
    out.add_column("data")
    for heading in ("rows", "sites", "public", "M", *METHODS):
        out.add_column(heading, justify="right")
    for name, found in results.items():
        aim = found["rmse"][AIM]
        cells = []
        for method in METHODS:
            value = found["rmse"][method]
            ratio = "" if value is None or method.startswith("pooled") else f" ({value / aim:.3f})"
            cells.append("" if value is None else f"{value / found['y_std']:.3f}{ratio}")
        out.add_row(name, f"{found['rows']:,}", *(str(found[key]) for key in ("sites", "public", "M")), *cells)
    return out


def bytes_table(results: dict[str, dict[str, Any]]) -> Table:
    out = Table(title="bytes sent by a site, all exchanges together")
    out.add_column("data")
    sending = ("averaged", "LESS", "5 rounds", "10 rounds", "second order")
    for heading in sending:
        out.add_column(heading, justify="right")
    for name, found in results.items():
        out.add_row(name, *(f"{found['bytes'][method]:,}" for method in sending))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", help="names of data sets; all with sites if left out")
    parser.add_argument("--most", type=int, default=200_000, help="most rows of a data set")
    parser.add_argument("--points", type=int, default=500, help="most points of the basis")
    parser.add_argument("--krr", type=int, default=6000, help="most rows for pooled kernel ridge")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    console = Console(width=200)
    console.print(machine())
    results = {}
    for name in arguments.data or with_sites():
        results[name] = run(name, arguments.most, arguments.points, arguments.krr)
        ratios = {m: v / results[name]["rmse"][AIM] for m, v in results[name]["rmse"].items() if v}
        console.print(name, {m: round(v, 4) for m, v in ratios.items()}, f"{results[name]['seconds']:.0f} s")
    console.print(table(results))
    console.print(bytes_table(results))
    worst = max(r["rmse"][m] / r["rmse"][AIM] for r in results.values() for m in METHODS[3:6])
    console.print(f"rounds and second order beside pooled ridge in the same span: at worst {worst:.4f} times its error")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
