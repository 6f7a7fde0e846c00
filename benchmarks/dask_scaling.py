"""Averaging on a Dask cluster over loopback: 1 and 2 workers in processes of their own, rows from Parquet.

    python benchmarks/dask_scaling.py              # 1,000,000 rows, 500 blocks, λ given
    python benchmarks/dask_scaling.py --rule13     # λ chosen on the cluster as well: three times as long
    python benchmarks/dask_scaling.py --quick      # 50,000 rows

Scheduler, workers and client are separate processes that talk TCP. Reported are the time, the efficiency of two
workers against one, and the peak memory of each process; then the same fit with a worker killed in the middle, which
must give the same model to the bit. Last the same fit on the threads of one process, for comparison.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import unpooled as up
from measure import machine

D = 10
FILES = 10


def write(folder: Path, n: int, group: int) -> None:
    """Rows of a smooth function with noise, in files of row groups."""
    rng = np.random.default_rng(0)
    for i in range(FILES):
        X = rng.standard_normal((n // FILES, D))
        y = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(len(X))
        table = pa.table({**{f"x{j}": X[:, j] for j in range(D)}, "y": y})
        pq.write_table(table, folder / f"part-{i:02d}.parquet", row_group_size=group)


@contextlib.contextmanager
def cluster(n_workers: int) -> Iterator[tuple[str, int, list[int]]]:
    """A scheduler and workers as separate processes; its address, its process, and the nannies of the workers."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "scheduler.json")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        scheduler = subprocess.Popen([*command, "--no-dashboard", "--scheduler-file", file], **quiet)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", file, "--nthreads", "1"]
        command += ["--no-dashboard", "--memory-limit", "0", "--local-directory", folder]
        workers = [subprocess.Popen(command, **quiet) for _ in range(n_workers)]
        try:
            while not os.path.exists(file):
                time.sleep(0.1)
            address = json.loads(Path(file).read_text())["address"]
            yield address, scheduler.pid, [w.pid for w in workers]
        finally:
            for process in [*workers, scheduler]:
                process.send_signal(signal.SIGTERM)
            for process in [*workers, scheduler]:
                process.wait()


class Watch(threading.Thread):
    """Peak resident memory of processes, by role, ten times a second."""

    def __init__(self, roles: dict[str, list[int]]) -> None:
        super().__init__(daemon=True)
        self.roles, self.peak, self.over = roles, dict.fromkeys(roles, 0.0), threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            for role, pids in self.roles.items():
                for pid in pids:
                    with contextlib.suppress(psutil.Error):
                        root = psutil.Process(pid)
                        family = [root, *root.children(recursive=True)] if role == "worker" else [root]
                        largest = max(p.memory_info().rss for p in family)
                        self.peak[role] = max(self.peak[role], largest / 2**20)


def model(engine: Any, n_blocks: int, lam: Any = 1e-5) -> up.AveragedRegressor:
    local = up.SpectralRegressor(up.kernels.Gaussian(np.sqrt(D)), fit_intercept=True)
    return up.AveragedRegressor(local, n_blocks=n_blocks, lam=lam, engine=engine)


def run(folder: Path, n_blocks: int, lam: Any, n_workers: int, kill_after: float | None) -> dict[str, Any]:
    """One fit; a worker may be killed on the way."""
    from distributed import Client

    with cluster(n_workers) as (address, scheduler, nannies), Client(address, set_as_default=False) as client:
        client.wait_for_workers(n_workers)
        model(client, n_blocks // FILES, 0.1).fit(str(folder / "part-00.parquet"), "y")  # imports on every worker
        watch = Watch({"scheduler": [scheduler], "client": [os.getpid()], "worker": nannies})
        watch.start()
        killed: list[int] = []
        if kill_after is not None:
            killer = threading.Timer(kill_after, kill_worker, (nannies[0], killed))
            killer.start()
        start = time.perf_counter()
        fitted = model(client, n_blocks, lam).fit(str(folder), "y")
        seconds = time.perf_counter() - start
        watch.over.set()
        watch.join()
    return {"model": fitted, "seconds": seconds, "peak": watch.peak, "killed": len(killed)}


def kill_worker(nanny: int, killed: list[int]) -> None:
    """SIGKILL to the process that works under a nanny."""
    for child in psutil.Process(nanny).children(recursive=True):
        if "spawn_main" in " ".join(child.cmdline()):
            child.kill()
            killed.append(child.pid)


def same(a: up.AveragedRegressor, b: up.AveragedRegressor) -> bool:
    return bool(a.lam_ == b.lam_ and np.array_equal(a.predictor_.coef, b.predictor_.coef))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--blocks", type=int, default=500)
    parser.add_argument("--rule13", action="store_true", help="choose λ, too")
    parser.add_argument("--quick", action="store_true", help="50,000 rows, 50 blocks")
    arguments = parser.parse_args()
    n, n_blocks = (50_000, 50) if arguments.quick else (arguments.rows, arguments.blocks)
    lam = "rule13" if arguments.rule13 else 1e-5
    warnings.filterwarnings("ignore", message=".* blocks are far more than")  # the engine is measured, not the error
    console = Console(width=120)
    console.print(machine())
    table = Table(
        title=f"{n:,} rows, {n_blocks} blocks, λ {'by rule (13)' if arguments.rule13 else 'given'}, from Parquet"
    )
    for heading in ("run", "seconds", "efficiency", "scheduler MiB", "client MiB", "a worker MiB", "same model"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n, max(1000, n // FILES // 10))
        one = run(folder, n_blocks, lam, 1, None)
        two = run(folder, n_blocks, lam, 2, None)
        broken = run(folder, n_blocks, lam, 2, two["seconds"] / 2)
        start = time.perf_counter()
        here = model("threads", n_blocks, lam).fit(str(folder), "y")
        alone = time.perf_counter() - start
    for label, r in (("1 worker", one), ("2 workers", two), ("2 workers, one killed", broken)):
        speedup = one["seconds"] / r["seconds"]
        table.add_row(
            label,
            f"{r['seconds']:.1f}",
            "" if r is one else f"{speedup / 2:.2f}",
            *(f"{r['peak'][role]:.0f}" for role in ("scheduler", "client", "worker")),
            "" if r is one else str(same(r["model"], one["model"])),
        )
    table.add_row("threads, no cluster", f"{alone:.1f}", "", "", "", "", str(same(here, one["model"])))
    console.print(table)
    console.print(f"worker processes killed in the middle of the fit: {broken['killed']}")


if __name__ == "__main__":
    main()
