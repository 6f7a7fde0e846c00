"""The picture in the README: what sites know alone, what their sums know together, and four hospitals.

python docs/_static/picture.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import unpooled as up
from unpooled._base.drawing import COLOURS, MARKERS, make_panels
from unpooled.demo import play
from unpooled.demo.study import REFUSED

SITES = {"north": (0.0, 0.42), "west": (0.3, 0.75), "south": (0.6, 1.0)}
N_ROWS, N_FEATURES = 80, 15
METHODS = {  # of the demo; where its name stands, and what it is called here
    "local hungarian": ("right", "the best hospital's model, for all"),
    "own": ("above", "each its own model,\nfor its own patients"),
    "less": ("right", "sums of first order (LESS)"),
    "rounds": ("right", "first order, five rounds"),
    "second": ("right", "second order, 15 features"),
    "averaged": ("left", "average of functions"),
    "second large": ("left", "second order, 30"),
    "pooled": ("right", "rows pooled"),
}
PLACES = {
    "right": ((8, 0), "left", "center"),
    "left": ((-8, 0), "right", "center"),
    "above": ((-6, 8), "left", "bottom"),
}
NOTHING = 250  # where "nothing" stands on a logarithmic axis


def truth(x: np.ndarray) -> np.ndarray:
    """What all sites would like to know."""
    return np.sin(9 * x) + 2.5 * (x - 0.5)


def rows_at(site: str) -> tuple[np.ndarray, np.ndarray]:
    """A site sees a part of all inputs: its patients are of one kind."""
    rng = np.random.default_rng(list(SITES).index(site))
    x = rng.uniform(*SITES[site], size=N_ROWS)
    return x[:, None], truth(x) + 0.25 * rng.standard_normal(N_ROWS)


def draw_alone(ax: Any, grid: np.ndarray) -> None:
    """Every site's rows, and the function it learns from them."""
    for site, colour, marker in zip(SITES, COLOURS, MARKERS):
        X, y = rows_at(site)
        own = up.SpectralRegressor(up.kernels.Gaussian(0.15), center=True).fit(X, y)
        ax.scatter(X, y, s=7, color=colour, marker=marker, alpha=0.5, linewidths=0)
        ax.plot(grid, own.predict(grid[:, None]), color=colour, linewidth=1.8, label=site)
    ax.set_title("Three sites, each on its own", fontsize=10)


def draw_together(ax: Any, grid: np.ndarray) -> None:
    """The model of the sum of their summaries, beside that of the pooled rows."""
    public = np.random.default_rng(9).uniform(size=(200, 1))
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.15), n_features=N_FEATURES).fit(public)
    summaries = [up.Summary.of(basis, *rows_at(site), order=2) for site in SITES]
    model = up.SummaryRegressor(center=True).fit_summary(sum(summaries))
    X, y = (np.concatenate(parts) for parts in zip(*map(rows_at, SITES)))
    pooled = up.SpectralRegressor(up.kernels.Gaussian(0.15), center=True).fit(X, y)
    numbers = summaries[0].describe().split(" numbers")[0].split()[-1]
    ax.plot(grid, pooled.predict(grid[:, None]), color="0.7", linewidth=5, label="kernel ridge, rows pooled")
    ax.plot(grid, model.predict(grid[:, None]), color="black", linewidth=1.6, label="sums added up")
    ax.plot(grid, truth(grid), ":", color=COLOURS[5], linewidth=1.8, label="the truth", zorder=3)
    ax.set_title(f"Each sends {numbers} sums, and no row", fontsize=10)


def draw_hospitals(ax: Any) -> None:
    """The demo's methods: blue is what all hospitals' policies let leave, grey what one of them refuses."""
    with TemporaryDirectory() as folder:
        methods = play(up.datasets.load_heart(), Path(folder), lambda _: None).methods
    for key, (side, name) in METHODS.items():
        at = max(methods[key].mean_bytes, NOTHING), methods[key].rmse
        ax.scatter(*at, s=42, color="0.55" if methods[key].group == REFUSED else COLOURS[0], zorder=2)
        aside, across, along = PLACES[side]
        ax.annotate(name, at, aside, textcoords="offset points", ha=across, va=along, fontsize=8.5)
    ax.set(xscale="log", xlim=(150, 2e5), ylim=(19.6, 23.4), ylabel="error (beats a minute)")
    ax.set_xticks([NOTHING, 1e3, 1e4, 1e5], ["none", "1 kB", "10 kB", "100 kB"])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("what a hospital sends (grey: its policy says no)")
    ax.set_title("Four hospitals, 740 patients", fontsize=10)


def main(path: Path) -> None:
    """Three panels, side by side."""
    figure, panels = make_panels(11.0, 3.3, (1.0, 1.0, 1.25))
    grid = np.linspace(0, 1, 300)
    draw_alone(panels[0], grid)
    draw_together(panels[1], grid)
    draw_hospitals(panels[2])
    for ax in panels[:2]:
        ax.set(ylim=(-2.6, 2.9), xticks=[], yticks=[], xlabel="input")
        ax.legend(fontsize=8, frameon=False, loc="upper left")
    panels[0].set_ylabel("label")
    for ax in panels:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
