"""Memory and time of every route, from the arrays it holds, the operations it does, and the speed of this machine.

The speed is measured for the parts that every route is made of: matrix products, exponentials, and moving memory.

Bytes are those of a fit beyond its rows, at its peak. The factors of speed are what LAPACK and the loops around it
reach beside one large matrix product; they differ less from machine to machine than the rates do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import blas

from .._base import threads
from .._base.threads import best
from .._linalg.banded import BLOCK, PANELS_PER_COPY
from .._linalg.cholesky import IN_PLACE_FROM, PANEL
from .._solvers.nystrom.machine import ROUNDS, SOLVING, OnCores, held_by_threads
from .._solvers.spectral.paths import BANDED_FROM
from .._solvers.spectral.problem import LARGE
from ..data.sources import KEPT
from ..kernels.base import DEVICE_ELEMENTS
from .table import Table

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


CHOLESKY, REDUCTION, ORTHOGONAL, DIAGONAL, TRIDIAGONAL = 0.85, 0.5, 0.75, 0.35, 0.15  # speeds beside a matrix product
EIGH = 9.0  # N³ operations of an eigendecomposition, at the speed of a matrix product
EIGH_ON_DEVICE = {False: 45.0, True: 20.0}  # the same on a GPU, in double and in single precision
SKINNY = 0.75  # the same for products with a few columns
SIDE_BY_SIDE = 1.5  # times as long as alone: blocks in work together share memory and caches
CALL = 1e-5  # seconds of a small product in the banded form, whatever its size
OF_A_THREAD = 16 << 20  # bytes: blocks of kernel values, and BLAS's own buffers
OF_A_ROW = 2048  # bytes: vectors, and the first columns of a pivoted factor
VALIDATION = 20_000  # rows on which averages are scored
STRETCH = 1 << 21  # rows of arrays that are summed over together
FACTORS = {False: 2 << 30, True: 40 << 30}  # bytes of preconditioners that rounds keep, on cores and on a device


@dataclass(frozen=True)
class Need:
    """Bytes at the peak, as expected and at most, and seconds."""

    memory: float
    most: float
    seconds: float


@dataclass(frozen=True)
class Cost:
    """Rates in the units of regressions."""

    rates: Rates
    d: int
    kernel: float = 1.0  #: what a kernel value costs beside a Gaussian one
    device: bool = False  #: tensors on a GPU

    def operation(self, single: bool) -> float:
        """Seconds an operation of a matrix product."""
        return 1.0 / (self.rates.gemm_single if single else self.rates.gemm)

    def value(self, single: bool) -> float:
        """Seconds a kernel value: its share of the product, the exponential, and seven times through memory."""
        exp = self.rates.exp_single if single else self.rates.exp
        moved = (28.0 if single else 56.0) / self.rates.bandwidth
        return self.kernel * (1.0 / exp + 3.0 * (self.d + 2) * self.operation(single) + moved)

    def matrix(self, n: int, single: bool) -> float:
        """Seconds for the kernel matrix of n rows; every block of rows goes through all of them once more."""
        again = 5.0 * n * self.d * (4 if single else 8) / threads.BLOCK_ELEMENTS / self.rates.bandwidth
        return float(n) ** 2 * (self.value(single) + again)

    def ridge(self, n: int, single: bool) -> float:
        """Seconds for the kernel matrix and its factor."""
        return self.matrix(n, single) + float(n) ** 3 / 3 * self.operation(single) / CHOLESKY

    @property
    def threads(self) -> float:
        """Bytes of all threads."""
        return float(self.rates.cores * OF_A_THREAD)


def exact_at_one(table: Table, cost: Cost) -> Need:
    """𝕂 + NλI, factorised in its own memory."""
    n, s = float(table.n), table.itemsize
    if cost.device:
        copies = 1.0 if table.n >= IN_PLACE_FROM else 2.0
        memory = copies * s * n * n + s * (3.0 * PANEL * n + 2.0 * min(n * n, DEVICE_ELEMENTS))
    else:
        memory = s * n * n + _beside(table, cost)
    return Need(memory, memory, cost.ridge(table.n, table.single))


def exact_path(table: Table, cost: Cost, n_lams: int) -> Need:
    """Every λ with its leave-one-out error: a reduction to a band in single precision, or an eigendecomposition."""
    n, whole, single = float(table.n), table.itemsize * float(table.n) ** 2, table.single
    if cost.device:
        seconds = cost.matrix(table.n, single) + EIGH_ON_DEVICE[single] * n**3 * cost.operation(single)
        return Need(6 * whole, 6 * whole, seconds)
    mixed = not single and table.n >= LARGE
    banded = table.n >= BANDED_FROM
    # What a reduction holds beside its matrix: two trailing copies of it, or a second matrix and the reflectors.
    copied = BLOCK * PANELS_PER_COPY
    beside = max((n - copied) ** 2 + (n - 2 * copied) ** 2, 1.5 * n * n) if banded else 2.0 * n * n
    memory = whole + (4.0 * (n * n + beside) if mixed else table.itemsize * beside) + _beside(table, cost)
    # Where single precision cannot tell which λ is best, the whole is done again in double.
    most = max(memory, 3.0 * whole + _beside(table, cost))
    operation = cost.operation(mixed or single)
    if banded:
        seconds = 4 / 3 * n**3 * operation * (1 / REDUCTION + 1 / ORTHOGONAL)
        seconds += n_lams * (3 * BLOCK * n * n * operation / DIAGONAL + 10 * n / BLOCK * CALL)
    else:
        seconds = (EIGH * n**3 + 4 * n_lams * n * n) * operation
    refined = 10 * 8.0 * n * n / cost.rates.bandwidth if mixed else 0.0
    return Need(memory, most, cost.matrix(table.n, single) + seconds + refined)


def averaged(table: Table, cost: Cost, n_blocks: int, n_lams: int) -> Need:
    """m blocks, as many at once as there are cores: every λ on halves of them, then each at the choice."""
    rows, half = math.ceil(table.n / n_blocks), math.ceil(table.n / n_blocks / 2)
    at_once = blocks_at_once(cost.rates, n_blocks)
    s, T = table.itemsize, table.targets
    validation = min(VALIDATION, table.n // 2) if n_lams > 1 else 0
    # Of what the search has freed, the allocator keeps some for arrays that do not come any more.
    kept = 0.4 * min(20.0 * half * half, 64e6) if n_lams > 1 else 0.0
    memory = at_once * (s * float(rows) ** 2 + 1.25 * OF_A_THREAD + kept)
    memory += 40.0 * validation * n_lams * T + table.n * (2.0 * table.d * s + 100.0)
    seconds = cost.ridge(rows, table.single)
    if n_lams > 1:
        single = table.single or half >= LARGE
        operation = cost.operation(single)
        seconds += cost.matrix(half, table.single) + 4 / 3 * float(half) ** 3 * operation / REDUCTION
        seconds += n_lams * T * (4.0 * half * half * operation + 10.0 * half / BLOCK * CALL)
        seconds += float(half) * validation * (cost.value(single) + 2.0 * n_lams * T * operation)
    # Rates are those of as many cores as BLAS may use; in the last turn some may have nothing to do.
    turns = math.ceil(n_blocks / at_once) * min(at_once, cost.rates.cores)
    return Need(memory, memory, turns * seconds * (SIDE_BY_SIDE if at_once > 1 else 1.0))


def blocks_at_once(rates: Rates, n_blocks: int) -> int:
    """Blocks that are in work together: one a core, whatever BLAS may use."""
    return min(max(rates.cores, threads.cores()), n_blocks)


def gram(table: Table, cost: Cost, n_points: int) -> Need:
    """One pass over the rows, in which kernel functions are multiplied with each other, and every λ from that."""
    n, M, single = float(table.n), float(n_points), table.single or cost.device
    passing = 0.0 if cost.device else held_by_threads(cost.rates.cores, n_points)
    matrices = max(SOLVING[cost.device], passing)
    memory = 8.0 * M * M * matrices + _of_rows(table, cost)
    operation = cost.operation(False)
    values = n * M * (cost.value(single) + 2.0 * (1 + table.targets) * operation)
    product = n * M * M / cost.rates.syrk
    solving = M**3 * operation * ((1 / 3 + 1) / CHOLESKY + 4 / 3 / TRIDIAGONAL)
    return Need(memory, memory, values + product + solving)


def rounds(table: Table, cost: Cost, n_points: int, n_lams: int, n_columns: int) -> Need:
    """Some passes over the rows, each a product with all λ and labels at once; a preconditioner for each λ."""
    M, single, operation = float(n_points), table.single or cost.device, cost.operation(False)
    factors = min(n_lams, max(1, FACTORS[cost.device] // (8 * n_points**2)))
    memory = 8.0 * M * M * (2 + factors) + 8.0 * M * n_columns * (10 + cost.rates.cores) + _of_rows(table, cost)
    a_pass = table.n * M * (cost.value(single) + 4 * n_columns * operation / SKINNY)
    # As the fit itself does: the more rows a point the preconditioner is made from, the fewer the passes.
    passes = min(times * a_pass + 3 * rows * M**3 / cost.rates.syrk for rows, times in ROUNDS.items())
    first = table.n * M * (cost.value(single) + 2 * (1 + table.targets) * operation)
    return Need(memory, memory, first + passes + factors * M**3 / 3 * operation / CHOLESKY)


def rows_at_once(n_points: int) -> int:
    """The rows of a block of kernel values."""
    return max(1, threads.BLOCK_ELEMENTS // n_points)


def _beside(table: Table, cost: Cost) -> float:
    return cost.threads + table.n * float(OF_A_ROW + table.d * table.itemsize)


def _of_rows(table: Table, cost: Cost) -> float:
    """Labels and weights in double precision for the rows of a stretch, and blocks of kernel values."""
    labels = 16.0 * min(table.n, STRETCH) * (1 + table.targets)
    if cost.device:
        return labels + 8.0 * min(table.n, STRETCH) * table.d + 20.0 * (1 << 27)
    if table.stretch:  # one stretch in work, one that is read, and what it is read from: of all of it points are drawn
        columns, together = table.d + table.targets + 2, min(table.stretch, OnCores.rows_at_once)
        kept = min(8.0 * table.n * (table.d + table.targets), KEPT)
        return columns * (64.0 * together + 10.0 * (table.stretch - together)) + kept + cost.threads
    return labels + cost.threads
