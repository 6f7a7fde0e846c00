"""A study on real data, and its report: PM2.5 at twelve stations in Beijing, each of which sends sums and no rows.

``python benchmarks/report_beijing.py`` writes build/report_beijing/report.html, and ``python tests/reports/browser.py``
with that page and a folder takes the pictures of it that people look at.

Air of one hour is much like that of the hour before, so rows are not split at random: of every ten weeks one is for
testing, and one is public, without its labels.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import unpooled as up
from real_data import NOT_FEATURES, folder

LABEL = "PM2.5"


def study(out: Path, n_features: int, n_public: int) -> up.Report:
    """Everything that the twelve stations and the coordinator do, with the files they would exchange."""
    out.mkdir(parents=True, exist_ok=True)
    table = pq.read_table(folder() / "beijing_pm25.parquet")
    week = (table.column("t_days").to_numpy() // 7).astype(int) % 10
    names = [name for name in table.column_names if name not in NOT_FEATURES]
    inputs = table.select(names)
    y = table.column("y").to_numpy().astype(float)
    sites = np.asarray(table.column("site").to_pylist())

    public = np.random.default_rng(0).permutation(np.flatnonzero(week == 8))[:n_public]
    basis = up.bases.EmpiricalFeatures(n_features=n_features, standardize=True).fit(inputs.take(public))
    basis.save(out / "study.basis")

    private, test = week < 8, week == 9
    summaries = []
    for site in np.unique(sites):
        mine = np.flatnonzero(private & (sites == site))
        labels = pa.table({LABEL: y[mine]}).to_pandas()[LABEL]
        path = out / f"{site}.summary"
        up.Summary.of(basis, inputs.take(mine), labels, order=2).save(path)
        summaries.append(path)

    model = up.SummaryRegressor(fit_intercept=True).fit_summary(sum(up.Summary.load(path) for path in summaries))
    up.save(model, out / "study.model")
    return up.report(
        out / "study.model",
        out / "report.html",
        X=inputs.filter(test),
        y=y[test],
        sites=sites[test],
        summaries=summaries,
        title="PM2.5 at twelve stations in Beijing",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--public", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("build") / "report_beijing")
    given = parser.parse_args()
    started = time.perf_counter()
    page = study(given.out, given.features, given.public)
    print(f"{given.out / 'report.html'}: {page!r}, {time.perf_counter() - started:.0f} s")
    for sentence in page.missing:
        print("not shown:", sentence)


if __name__ == "__main__":
    main()
