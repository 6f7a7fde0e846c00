"""What this machine can do: matrix products, symmetric products, exponentials, memory; one core and all of them.

    python benchmarks/floor.py            # on the processor, a few seconds
    python benchmarks/floor.py cuda       # and on a GPU

Other benchmarks import ``rates()`` and print beside each time how many times the floor it is: the seconds that its
operations would take at these rates and nothing else.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from measure import machine
from unpooled._solvers.route import Rates, measure, measure_device

UNITS = {
    "gemm": ("matrix product, float64", 1e9, "GFLOP/s"),
    "gemm_single": ("matrix product, float32", 1e9, "GFLOP/s"),
    "syrk": ("symmetric product, float64", 1e9, "GFLOP/s"),
    "exp": ("exponential, float64", 1e9, "G/s"),
    "exp_single": ("exponential, float32", 1e9, "G/s"),
    "bandwidth": ("memory, read and written", 1e9, "GB/s"),
}


def rates(device: str | None = None, threads: int | None = None) -> Rates:
    """All cores, so many of them, or a GPU; larger matrices and more repeats than the library's own quick look."""
    if device is not None:
        return measure_device(device, repeats=5, edge=8192)
    with threadpool_limits(threads, user_api="blas"):
        return measure(repeats=7, edge=2048, numbers=1 << 23)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", nargs="?", help="cuda")
    arguments = parser.parse_args()
    columns = {"one core": rates(threads=1), "all cores": rates()}
    if arguments.device:
        columns[arguments.device] = rates(arguments.device)
    table = Table(title=f"rates of {machine()}")
    for heading in ("", *columns, ""):
        table.add_column(heading, justify="right")
    for name, (words, scale, unit) in UNITS.items():
        table.add_row(words, *(f"{asdict(found)[name] / scale:,.1f}" for found in columns.values()), unit)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
