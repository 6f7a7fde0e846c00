"""The demo: λ chosen for five filters on real data, against KernelRidge with a grid search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .datasets import Dataset, load_airfoil
from .estimators import SpectralRegressor
from .kernels import Gaussian

FILTERS = {
    "tikhonov": "Tikhonov (ridge)",
    "iterated-tikhonov": "iterated Tikhonov",
    "cutoff": "spectral cut-off",
    "landweber": "Landweber",
    "nu": "ν-method",
}
LENGTH_SCALE = 1.5  # in standard deviations of a feature: the same for everybody in the table


@dataclass
class Row:
    """One line of the table."""

    name: str
    lam: float
    detail: str
    rmse: float
    seconds: float
    model: Any


def run(out: Path, console: Console | None = None) -> list[Row]:
    """Fit, print the table, write the plot to ``out/paths.png`` and the page around it to ``out/index.html``."""
    console = console or Console()
    data = load_airfoil()
    test = data.fold == 0
    console.print(f"[bold]{data!r}[/bold]\n{data.source}")
    console.print(f"{(~test).sum()} rows to learn from, {test.sum()} to test on")
    with console.status("fitting"):
        rows = [_spectral(data, test, name) for name in FILTERS]
        rows.append(_kernel_ridge(data, test))
    console.print(_table(rows))
    out.mkdir(parents=True, exist_ok=True)
    _write_report(rows, data, out)
    console.print(f"The paths of λ, drawn: [bold]{out / 'index.html'}[/bold]")
    return rows


def _timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    model = fit()
    return model, time.perf_counter() - start


def _spectral(data: Dataset, test: np.ndarray, filter: str) -> Row:
    pipeline = make_pipeline(StandardScaler(), SpectralRegressor(Gaussian(LENGTH_SCALE), filter, center=True))
    pipeline, seconds = _timed(lambda: pipeline.fit(data.X[~test], data.y[~test]))
    model = pipeline[-1]
    chosen = int(model.path_.index[0])
    steps = model.path_.iterations
    detail = f"{model.path_.df[chosen]:.0f} df" + (f", {steps[chosen]} steps" if steps is not None else "")
    rmse = root_mean_squared_error(data.y[test], pipeline.predict(data.X[test]))
    return Row(FILTERS[filter], model.lam_, detail, float(rmse), seconds, model)


def _kernel_ridge(data: Dataset, test: np.ndarray) -> Row:
    n = int((~test).sum())
    lams = np.logspace(0, -9, 28)
    search = GridSearchCV(
        KernelRidge(kernel="rbf", gamma=0.5 / LENGTH_SCALE**2),
        {"alpha": list(n * lams)},
        scoring="neg_mean_squared_error",
    )
    pipeline, seconds = _timed(lambda: make_pipeline(StandardScaler(), search).fit(data.X[~test], data.y[~test]))
    rmse = root_mean_squared_error(data.y[test], pipeline.predict(data.X[test]))
    lam = pipeline[-1].best_params_["alpha"] / n
    return Row("KernelRidge + GridSearchCV", lam, "5 folds", float(rmse), seconds, None)


def _table(rows: list[Row]) -> Table:
    table = Table(title="28 values of λ, the best one chosen by leave-one-out")
    table.add_column("method")
    for heading in ("chosen λ", "at that λ", "test RMSE (dB)", "seconds"):
        table.add_column(heading, justify="right")
    best = min(row.rmse for row in rows)
    for row in rows:
        rmse = f"{row.rmse:.3f}"
        table.add_row(
            row.name,
            f"{row.lam:.1e}",
            row.detail,
            f"[bold]{rmse}[/bold]" if row.rmse == best else rmse,
            f"{row.seconds:.2f}",
        )
    return table


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>unpooled: the demo</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#222}}
table{{border-collapse:collapse}}td,th{{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ccc}}
td:first-child,th:first-child{{text-align:left}}img{{max-width:100%}}</style>
<h1>Choosing λ for five filters</h1>
<p>{description}. One factorisation gives every λ of a filter; the dot is the choice by leave-one-out
(exact for Tikhonov, a shortcut for the others).</p>
<img src="paths.png" alt="Leave-one-out error against λ for five spectral filters, the chosen λ marked on each">
<table><tr><th>method<th>chosen λ<th>at that λ<th>test RMSE (dB)<th>seconds</tr>
{lines}</table>
<p>Data: {source}.</p></html>
"""


def _write_report(rows: list[Row], data: Dataset, out: Path) -> None:
    from .reports.plots import new_figure

    figure, ax = new_figure(7.2, 4.4)
    for row in rows:
        if row.model is not None:
            row.model.path_.plot(ax, label=row.name)
    ax.set_title("Airfoil self-noise: leave-one-out error along the path (dB)")
    ax.legend()
    figure.savefig(out / "paths.png", dpi=140)
    lines = "\n".join(
        f"<tr><td>{r.name}<td>{r.lam:.1e}<td>{r.detail}<td>{r.rmse:.3f}<td>{r.seconds:.2f}</tr>" for r in rows
    )
    page = _PAGE.format(description=repr(data), lines=lines, source=data.source)
    (out / "index.html").write_text(page, encoding="utf-8")
