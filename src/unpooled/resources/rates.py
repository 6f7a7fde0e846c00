"""How fast this machine is at what every route is made of: matrix products, exponentials, moving memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import blas

from .. import threads

EDGE = 512  # rows of the matrices that are multiplied, doubled on machines for which they are too small to tell
SHORT = 2e-3  # seconds
NUMBERS = 1 << 21  # exponentials taken at a time
COPIED = 1 << 23  # numbers copied at a time: more than a cache holds


@dataclass(frozen=True)
class Rates:
    """What all cores (or a device) do in a second. ``_single`` is float32, all else float64."""

    cores: int
    gemm: float  #: operations of matrix products, two a multiply and add
    gemm_single: float
    syrk: float  #: operations of symmetric products, of which half are computed: n·m² for m columns
    exp: float  #: exponentials
    exp_single: float
    bandwidth: float  #: bytes read and written

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (isinstance(value, (int, float)) and 0 < value < float("inf")):
                raise ValueError(f"rates: {name} must be a positive number, got {value!r}")


def measure(repeats: int = 5, edge: int = EDGE, numbers: int = NUMBERS) -> Rates:
    """The best of some repeats each, with as many threads as BLAS is allowed now."""
    x = np.linspace(-10.0, 0.0, numbers)
    source = np.ones(COPIED)
    gemm, edge = _multiplied(lambda A: A @ A, edge, repeats, np.float64)
    gemm_single, _ = _multiplied(lambda A: A @ A, edge, repeats, np.float32)
    syrk, _ = _multiplied(lambda A: blas.dsyrk(1.0, A.T), edge, repeats, np.float64)
    # The three go together on every processor: a run that others got in the way of is mended by the other two.
    gemm = max(gemm, 0.5 * syrk, 0.4 * gemm_single)
    return Rates(
        cores=threads.allowed_threads(),
        gemm=2.0 * gemm,
        gemm_single=2.0 * max(gemm_single, 1.6 * gemm),
        syrk=max(syrk, 1.6 * gemm),
        exp=numbers / best(_on_all(np.exp, x), repeats),
        exp_single=numbers / best(_on_all(np.exp, x.astype(np.float32)), repeats),
        bandwidth=16.0 * COPIED / best(_on_all(np.positive, source), repeats),
    )


def _multiplied(product: Callable[[np.ndarray], Any], edge: int, repeats: int, dtype: type) -> tuple[float, int]:
    """edge³ a second, and the edge at which a product was long enough to be timed."""
    while True:
        A: np.ndarray = np.ones((edge, edge), dtype=dtype)
        seconds = best(lambda: product(A), repeats)  # noqa: B023, called before A changes
        if seconds >= SHORT or edge >= 4096:
            return edge**3 / seconds, edge
        edge *= 2


def _on_all(function: Any, x: np.ndarray) -> Callable[[], None]:
    """An element-wise function on all cores, as the kernels apply it: a block at a time."""
    out = np.empty_like(x)
    blocks = threads.row_blocks(len(x), 4)

    def work(part: slice) -> None:
        function(x[part], out=out[part])

    return lambda: threads.for_each(work, blocks)


def best(work: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest of some runs, after one that warms up."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return max(min(seconds), 1e-9)


def measure_on(device: Any, repeats: int = 3, edge: int = 4096) -> Rates:
    """The same of a GPU, by torch."""
    import torch

    def timed(work: Callable[[], Any]) -> float:
        def waited() -> None:
            work()
            torch.cuda.synchronize(device)

        return best(waited, repeats)

    def ones(shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.ones(shape, dtype=dtype, device=device)

    x, x_single = ones((1 << 26,), torch.float64), ones((1 << 26,), torch.float32)
    out, out_single = torch.empty_like(x), torch.empty_like(x_single)
    A, A_single = ones((edge, edge), torch.float64), ones((edge, edge), torch.float32)
    gemm = 2.0 * edge**3 / timed(lambda: A @ A)
    return Rates(
        cores=1,
        gemm=gemm,
        gemm_single=2.0 * edge**3 / timed(lambda: A_single @ A_single),
        syrk=gemm / 1.125,  # panels of a triangle, of which 9/16 are computed
        exp=len(x) / timed(lambda: torch.exp(x, out=out)),
        exp_single=len(x) / timed(lambda: torch.exp(x_single, out=out_single)),
        bandwidth=16.0 * len(x) / timed(lambda: out.copy_(x)),
    )


@cache
def measured(gpu: Any = None) -> Rates:
    """Of this process, or of a GPU, measured once: a fifth of a second."""
    return measure() if gpu is None else measure_on(gpu)
