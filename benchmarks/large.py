"""A hundred thousand rows and a million on the cores of one machine: a whole path of λ beside peers with one λ.

    python benchmarks/large.py                 # 100k and 1M rows, M = 1000 and 2000: some minutes
    python benchmarks/large.py --quick         # 100k rows, M = 1000
    python benchmarks/large.py --growth        # time against rows and points, memory against rows; a plot in build/

Ours chooses among 20 values of λ by generalised cross-validation. Its peers are scikit-learn's Nystroem with one Ridge
(λ given: the one that ours has chosen, a head start) and with RidgeCV over the same 20 values, and RBFSampler with as
many features and the same two. RidgeCV is run at the smallest size only, and once: it takes minutes. The kernel and,
for Nystroem, the kind of points are the same. Which points or features are drawn moves the error by a percent, so with
100,000 rows there are three draws: the time is the median, the error the mean. "fixed" is ours with precision="fixed",
which needs torch. "FALKON-style" is FALKON's algorithm in torch with 20 iterations, which is what its package does if
nothing is said, at one λ; with 100,000 rows only. Every contender runs in a process of its own; peak memory is that of
all its processes. The floor is what the job must cost in double precision: the exponentials and the symmetric product
at the rates of this machine, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import unpooled as up
from floor import rates
from large_data import LENGTH_SCALE, rows
from measure import machine, measured

LAMS = np.logspace(-1, -6.7, 20)
TEST = 100_000
DRAWS = 3
OURS = ("unpooled", "unpooled, fixed")
ONE = ("Nystroem + Ridge", "RBFSampler + Ridge")
FALKON = "FALKON-style"
PATH = ("Nystroem + RidgeCV", "RBFSampler + RidgeCV")


def contend(name: str, n: int, M: int, dtype: str, lam: float, draw: int) -> dict[str, Any]:
    """One fit and one prediction."""
    X, y = rows(n, dtype=np.dtype(dtype))
    X_test, y_test = rows(TEST, seed=1, dtype=np.dtype(dtype))
    model = _model(name, n, M, lam, draw)
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    predicted = np.asarray(model.predict(X_test))
    ended = time.perf_counter()
    error = float(np.sqrt(np.mean((predicted - y_test) ** 2)))
    chosen = float(model.lam_) if name in OURS else lam
    return {"fit": fitted - start, "predict": ended - fitted, "rmse": error, "lam": chosen}


class Falkon:
    """The points drawn at random, 20 iterations, predictions in blocks."""

    def __init__(self, M: int, lam: float, draw: int) -> None:
        from falkon_style import FalkonStyle

        self.make, self.M, self.lam, self.rng = FalkonStyle, M, lam, np.random.default_rng(draw)

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        import torch

        rows, labels = torch.from_numpy(X), torch.from_numpy(y)
        points = rows[np.sort(self.rng.choice(len(X), self.M, replace=False))]
        self.peer = self.make(rows, labels, points, LENGTH_SCALE, rows.dtype, 4096)
        *_, last = self.peer.steps(self.lam, 20)
        self.coef = last.coef

    def predict(self, X: np.ndarray) -> np.ndarray:
        import torch

        blocks = torch.from_numpy(X).split(4096)
        return torch.cat([self.peer.predict(block, LENGTH_SCALE, self.coef) for block in blocks]).numpy()


def _model(name: str, n: int, M: int, lam: float, draw: int) -> Any:
    kernel = up.kernels.Gaussian(LENGTH_SCALE)
    if name == FALKON:
        return Falkon(M, lam, draw)
    if name == "unpooled, fixed":
        import torch  # noqa: F401, before the clock starts, as the peers are

        return up.NystromRegressor(kernel, M, LAMS, precision="fixed", random_state=draw, fit_intercept=False)
    if name in OURS:
        return up.NystromRegressor(kernel, M, LAMS, random_state=draw, fit_intercept=False)
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.linear_model import Ridge, RidgeCV
    from sklearn.pipeline import make_pipeline

    gamma = 0.5 / LENGTH_SCALE**2
    features = (RBFSampler if name.startswith("RBF") else Nystroem)(gamma=gamma, n_components=M, random_state=draw)
    # Ridge and RidgeCV minimise Σ(y - f)² + α|c|², so α = nλ.
    ridge = Ridge(alpha=n * lam) if name.endswith("+ Ridge") else RidgeCV(alphas=n * LAMS)
    return make_pipeline(features, ridge)


def compare(n: int, M: int, dtype: str, names: tuple[str, ...], console: Console) -> None:
    """A table of all contenders."""
    speeds = rates()
    table = Table(title=f"{n:,} rows, {M:,} functions, {dtype}; predicting {TEST:,} rows")
    for column in ("", "fit s", "predict s", "both", "RMSE", "peak MiB", "of the floor"):
        table.add_column(column, justify="left" if not column else "right")
    gram = n * float(M) ** 2 / speeds.syrk
    floor = gram + n * float(M) / (speeds.exp_single if dtype == "float32" else speeds.exp)
    lam = float(LAMS[10])
    times: dict[str, tuple[float, float]] = {}
    for name in names:
        draws = DRAWS if n <= 100_000 and name not in PATH else 1
        found = [measured(__file__, "--contend", name, str(n), str(M), dtype, str(lam), str(i)) for i in range(draws)]
        fit, predict = (float(np.median([one.result[key] for one in found])) for key in ("fit", "predict"))
        times[name] = fit, fit + predict
        if name in OURS:
            lam = found[0].result["lam"]
        table.add_row(
            name,
            f"{fit:.2f}",
            f"{predict:.2f}",
            f"{fit + predict:.2f}",
            f"{np.mean([one.result['rmse'] for one in found]):.4f}",
            f"{max(one.peak_mib for one in found):.0f}",
            f"{floor / fit:.0%}" if name in OURS else "",
        )
    console.print(table)
    console.print(
        f"floor: {floor:.2f} s, of which {gram:.2f} s is the symmetric product in double precision; λ = {lam:.1e}"
    )
    for peer in (name for name in names if name not in OURS):
        ratios = (f"{times[peer][0] / times[ours][0]:.1f} ({times[peer][1] / times[ours][1]:.1f})" for ours in OURS)
        console.print(f"{peer} takes {' and '.join(ratios)} times as long to fit (and to predict) as {', '.join(OURS)}")
    console.print()


def growth(console: Console) -> None:
    """Time against N and M with slopes on log axes; memory against N."""
    from matplotlib.figure import Figure

    by_rows = [
        (n, measured(__file__, "--contend", "unpooled", str(n), "1000", "float32", "1e-5", "0"))
        for n in (50_000, 100_000, 200_000, 400_000, 800_000)
    ]
    by_points = [
        (M, measured(__file__, "--contend", "unpooled", "100000", str(M), "float32", "1e-5", "0"))
        for M in (250, 500, 1000, 2000, 4000)
    ]
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for ax, found, label in ((left, by_rows, "rows"), (middle, by_points, "kernel functions")):
        x, t = np.asarray([k for k, _ in found], float), np.asarray([m.result["fit"] for _, m in found])
        slope = np.polyfit(np.log(x), np.log(t), 1)[0]
        ax.loglog(x, t, "o-")
        ax.set(xlabel=label, ylabel="seconds", title=f"slope {slope:.2f}")
        _ticks(ax, x)
        console.print(
            f"time against {label}: " + ", ".join(f"{k:,.0f}: {s:.2f} s" for k, s in zip(x, t)) + f"; slope {slope:.2f}"
        )
    n, memory = [k for k, _ in by_rows], [m.peak_mib for _, m in by_rows]
    # What the rows themselves take, which are in memory here, is not the fit's.
    own = [m - (k + TEST) * (10 * 4 + 8 + 40) / 2**20 for k, m in zip(n, memory)]
    right.semilogx(n, own, "o-")
    right.set(xlabel="rows", ylabel="MiB beside the rows", ylim=(0, 1.2 * max(own)), title="memory")
    _ticks(right, np.asarray(n))
    console.print("memory: " + ", ".join(f"{k:,}: {m:.0f} MiB" for k, m in zip(n, memory)))
    path = Path("build/growth.png")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    console.print(f"plot: {path}")


def _ticks(ax: Any, x: np.ndarray) -> None:
    """Where something was measured, and nowhere else."""
    ax.minorticks_off()
    ax.set_xticks(x, [f"{value / 1000:g}k" if value >= 10_000 else f"{value:g}" for value in x])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument(
        "--contend", nargs=6, metavar=("NAME", "N", "M", "DTYPE", "LAM", "DRAW"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.contend:
        name, n, M, dtype, lam, draw = options.contend
        print(json.dumps(contend(name, int(n), int(M), dtype, float(lam), int(draw))))
        return
    console = Console(width=120)
    console.print(machine())
    if options.growth:
        growth(console)
        return
    compare(100_000, 1000, "float32", (*OURS, *ONE, FALKON, *(() if options.quick else PATH)), console)
    if options.quick:
        return
    compare(100_000, 1000, "float64", (*OURS, *ONE, FALKON), console)
    compare(100_000, 2000, "float32", (*OURS, *ONE, FALKON), console)
    compare(1_000_000, 1000, "float32", (*OURS, *ONE), console)
    # A million rows of 2000 features take 8 GB in single precision, and peers hold several copies of them.
    compare(1_000_000, 2000, "float32", OURS, console)


if __name__ == "__main__":
    main()
