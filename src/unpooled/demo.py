"""The demo on real data: λ for five filters beside KernelRidge, the same rows in blocks, and wrong labels survived."""

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
from .estimators import AveragedRegressor, CorrentropyRegressor, SpectralRegressor
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
        rows.append(_kernel_ridge(data, data.y, test))
    console.print(_table(rows, "28 values of λ, the best one chosen by leave-one-out"))
    with console.status("fitting blocks"):
        unpooled = _in_blocks(data, test) + _with_wrong_labels(data, test)
    console.print(_table(unpooled, "the same rows in blocks that never meet; then with every fifth label off by 60 dB"))
    out.mkdir(parents=True, exist_ok=True)
    _write_report(rows, unpooled, data, out)
    console.print(f"The paths of λ, drawn: [bold]{out / 'index.html'}[/bold]")
    return rows + unpooled


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


def _in_blocks(data: Dataset, test: np.ndarray) -> list[Row]:
    """Averages of local ridge fits: the number of blocks given, and chosen."""
    rows = []
    for name, n_blocks in {"average of 4 blocks": 4, "blocks by rule (14)": "auto"}.items():
        local = SpectralRegressor(Gaussian(LENGTH_SCALE), center=True)
        model = AveragedRegressor(local, n_blocks=n_blocks, verbose=0)
        rmse, seconds = _fitted(model, data, data.y, test)
        blocks = "1 block" if model.n_blocks_ == 1 else f"{model.n_blocks_} blocks"
        rows.append(Row(name, model.lam_, f"{blocks}, λ by rule (13)", rmse, seconds, None))
    return rows


def _with_wrong_labels(data: Dataset, test: np.ndarray) -> list[Row]:
    """Every fifth label 60 dB too high: least squares follows them, correntropy does not."""
    y = np.where(np.arange(len(data.y)) % 5 == 0, data.y + 60.0, data.y)
    local = CorrentropyRegressor(Gaussian(LENGTH_SCALE), center=True)
    robust: list[tuple[str, Any]] = [
        ("wrong labels: correntropy", local),
        ("wrong labels: average of 4", AveragedRegressor(local, 4, verbose=0)),
    ]
    rows = []
    for name, model in robust:
        rmse, seconds = _fitted(model, data, y, test)
        rows.append(Row(name, np.nan, f"σ = {model.scale_:.1f} dB, {model.n_iter_} steps", rmse, seconds, None))
    ridge = _kernel_ridge(data, y, test)
    return [*rows, Row(f"wrong labels: {ridge.name}", ridge.lam, ridge.detail, ridge.rmse, ridge.seconds, None)]


def _fitted(model: Any, data: Dataset, y: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    pipeline, seconds = _timed(lambda: make_pipeline(StandardScaler(), model).fit(data.X[~test], y[~test]))
    return float(root_mean_squared_error(data.y[test], pipeline.predict(data.X[test]))), seconds


def _kernel_ridge(data: Dataset, y: np.ndarray, test: np.ndarray) -> Row:
    n = int((~test).sum())
    lams = np.logspace(0, -9, 28)
    search = GridSearchCV(
        KernelRidge(kernel="rbf", gamma=0.5 / LENGTH_SCALE**2),
        {"alpha": list(n * lams)},
        scoring="neg_mean_squared_error",
    )
    rmse, seconds = _fitted(search, data, y, test)
    lam = search.best_params_["alpha"] / n
    return Row("KernelRidge + GridSearchCV", lam, "5 folds", rmse, seconds, None)


def _table(rows: list[Row], title: str) -> Table:
    table = Table(title=title)
    table.add_column("method")
    for heading in ("chosen λ", "at that λ", "test RMSE (dB)", "seconds"):
        table.add_column(heading, justify="right")
    best = min(row.rmse for row in rows)
    for row in rows:
        rmse = f"{row.rmse:.3f}"
        table.add_row(
            row.name,
            _shown(row.lam),
            row.detail,
            f"[bold]{rmse}[/bold]" if row.rmse == best else rmse,
            f"{row.seconds:.2f}",
        )
    return table


def _shown(lam: float) -> str:
    return "" if np.isnan(lam) else f"{lam:.1e}"


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
<h2>In blocks, and with wrong labels</h2>
<p>The same rows cut into blocks that never meet: each fits a function, the answer is their average. Then every fifth
label is 60 dB too high.</p>
<table><tr><th>method<th>chosen λ<th>how<th>test RMSE (dB)<th>seconds</tr>
{more}</table>
<p>Data: {source}.</p></html>
"""


def _write_report(rows: list[Row], unpooled: list[Row], data: Dataset, out: Path) -> None:
    from .reports.plots import new_figure

    figure, ax = new_figure(7.2, 4.4)
    for row in rows:
        if row.model is not None:
            row.model.path_.plot(ax, label=row.name)
    ax.set_title("Airfoil self-noise: leave-one-out error along the path (dB)")
    ax.legend()
    figure.savefig(out / "paths.png", dpi=140)
    page = _PAGE.format(description=repr(data), lines=_lines(rows), more=_lines(unpooled), source=data.source)
    (out / "index.html").write_text(page, encoding="utf-8")


def _lines(rows: list[Row]) -> str:
    return "\n".join(
        f"<tr><td>{r.name}<td>{_shown(r.lam)}<td>{r.detail}<td>{r.rmse:.3f}<td>{r.seconds:.2f}</tr>" for r in rows
    )
