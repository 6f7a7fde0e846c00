"""A study folder as `unpooled federation init` makes it, with rows at its sites and a basis beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import unpooled as up
from tests.made_up import CUBE, columns, regression, sine
from unpooled.federation.study.new_study import NewStudy

COLUMNS = ("a", "b")


def rows_of(n, seed):
    return pa.table(columns(*regression(seed, n, between=CUBE, function=sine(3, slope=1.0), noise=0.2)))


def made(folder: Path, sites, n_rows=120, n_features=12, **choices) -> Path:
    """The folder, filled; ``choices`` are settings of study.toml."""
    new = {name: choices.pop(name) for name in ("kind", "rounds", "port") if name in choices}
    NewStudy(folder, sites, ["y"], **new).write()
    public = rows_of(60, 99).drop_columns(["y"])
    up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.7), n_features=n_features).fit(public).save(folder / "study.basis")
    for seed, name in enumerate(sites):
        pq.write_table(rows_of(n_rows + 10 * seed, seed), folder / "sites" / name / "rows.parquet")
    change(folder / "study.toml", **{"timeout": 20, "patience": 20, "poll": 0.05, **choices})
    return folder


def change(path: Path, **values) -> None:
    """Settings of a TOML file, changed where they are, else put in front."""
    text = path.read_text()
    for name, value in values.items():
        said = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
        text, found = re.subn(rf"(?m)^{name} = .*$", f"{name} = {said}", text)
        text = text if found else f"{name} = {said}\n{text}"
    path.write_text(text)


def pooled(folder: Path, *names):
    """The rows of all sites, or of some."""
    places = sorted((folder / "sites").iterdir())
    return pa.concat_tables([pq.read_table(p / "rows.parquet") for p in places if not names or p.name in names])


def twin(folder: Path, order, *names):
    """The model of the pooled rows."""
    basis = up.bases.load(folder / "study.basis")
    return up.SummaryRegressor(fit_intercept=True).fit_summary(
        up.Summary.of(basis, pooled(folder, *names).to_pandas(), "y", order=order)
    )
