"""The interface of all routes to a fit, and the speed of a machine, from which their time is estimated.

A route answers three questions about a job, a description that needs no rows: whether it can do the job, how much
memory it needs, and how long it takes. And it does the work. The planner and the fit ask the same objects, so a plan
cannot differ from what the fit will do. The routes are in
:mod:`.spectral.routes`, :mod:`.nystrom.routes` and :mod:`.averaging.routes`.

Memory is counted in arrays, and time in operations, divided by rates that are measured in a fraction of a second for
the steps of which every route consists: matrix products, exponentials, and moving memory. The speed factors say what
LAPACK and the loops around it reach beside one large matrix product; they differ less from machine to machine than
the rates do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.linalg import blas

from .._base import threads
from .._base.threads import time_fastest

OF_A_THREAD = 16 << 20  # bytes: blocks of kernel values, and the buffers of BLAS
CHOLESKY = 0.85  # the speed of a factorisation beside a matrix product
SKINNY = 0.75  # the speed of products with a few columns beside a large one

_Job = TypeVar("_Job", contravariant=True)
_Work = TypeVar("_Work", contravariant=True)
_Result = TypeVar("_Result", covariant=True)


@dataclass(frozen=True)
class Memory:
    """Bytes in addition to the rows: of the matrices without which a fit does not begin, and at its peak."""

    matrices: float
    peak: float  #: expected, including threads and libraries
    most: float  #: at most


class Route(ABC, Generic[_Job, _Work, _Result]):
    """A method of doing a job."""

    name: str

    @abstractmethod
    def can_do(self, job: _Job) -> bool:
        """Return whether it can do the job at all."""

    @abstractmethod
    def pays(self, job: _Job) -> bool:
        """Return whether solver="auto" takes it, if it can do the job, before the routes that come after it."""

    @abstractmethod
    def memory(self, job: _Job) -> Memory:
        """Return the memory it needs in addition to the rows."""

    @abstractmethod
    def seconds(self, job: _Job, cost: Cost) -> float:
        """Return how long it takes on a machine of that speed."""

    @abstractmethod
    def solve(self, work: _Work) -> _Result | None:
        """Return the solution; None if the numbers turn out not to allow it, so that another route has to be taken."""


@dataclass(frozen=True)
class Rates:
    """Operations per second of all cores (or of a device). ``_single`` is float32, all else float64."""

    cores: int
    gemm: float  #: operations of matrix products, two for each multiply-add
    gemm_single: float
    syrk: float  #: operations of symmetric products, half of which are computed: n·m² for m columns
    exp: float  #: exponentials
    exp_single: float
    bandwidth: float  #: bytes read and written

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (isinstance(value, (int, float)) and 0 < value < float("inf")):
                raise ValueError(f"rates: {name} must be a positive number, got {value!r}")


@dataclass(frozen=True)
class Cost:
    """The costs of the steps of a regression, in seconds."""

    rates: Rates
    d: int
    kernel: float = 1.0  #: the cost of a kernel value, relative to a Gaussian one
    device: bool = False  #: whether rows are tensors on a GPU

    def operation(self, single: bool) -> float:
        """Return the seconds of one operation of a matrix product."""
        return 1.0 / (self.rates.gemm_single if single else self.rates.gemm)

    def value(self, single: bool) -> float:
        """Return the seconds of a kernel value: its share of the product, its exponential, and 7 memory accesses."""
        exp = self.rates.exp_single if single else self.rates.exp
        moved = (28.0 if single else 56.0) / self.rates.bandwidth
        return self.kernel * (1.0 / exp + 3.0 * (self.d + 2) * self.operation(single) + moved)

    def matrix(self, n: int, single: bool) -> float:
        """Return the seconds of the kernel matrix of n rows; every block of rows also goes through all n rows once."""
        again = 5.0 * n * self.d * (4 if single else 8) / threads.BLOCK_ELEMENTS / self.rates.bandwidth
        return float(n) ** 2 * (self.value(single) + again)

    def ridge(self, n: int, single: bool) -> float:
        """Return the seconds of the kernel matrix and its factor."""
        return self.matrix(n, single) + float(n) ** 3 / 3 * self.operation(single) / CHOLESKY


EDGE = 512  # rows of the matrices that are multiplied, doubled on machines so fast that these are too small to time
SHORT = 2e-3  # seconds
NUMBERS = 1 << 21  # exponentials taken at a time
COPIED = 1 << 23  # numbers copied at a time: more than a cache holds


def measure(repeats: int = 5, edge: int = EDGE, numbers: int = NUMBERS) -> Rates:
    """Measure the best of several repeats each, with as many threads as BLAS may use now."""
    x = np.linspace(-10.0, 0.0, numbers)
    source = np.ones(COPIED)
    gemm, edge = _time_products(lambda A: A @ A, edge, repeats, np.float64)
    gemm_single, _ = _time_products(lambda A: A @ A, edge, repeats, np.float32)
    syrk, _ = _time_products(lambda A: blas.dsyrk(1.0, A.T), edge, repeats, np.float64)
    # The three go together on every processor: if other work disturbed one measurement, the other two correct it.
    gemm = max(gemm, 0.5 * syrk, 0.4 * gemm_single)
    return Rates(
        cores=threads.count_threads(),
        gemm=2.0 * gemm,
        gemm_single=2.0 * max(gemm_single, 1.6 * gemm),
        syrk=max(syrk, 1.6 * gemm),
        exp=numbers / time_fastest(_on_all_cores(np.exp, x), repeats),
        exp_single=numbers / time_fastest(_on_all_cores(np.exp, x.astype(np.float32)), repeats),
        bandwidth=16.0 * COPIED / time_fastest(_on_all_cores(np.positive, source), repeats),
    )


def _time_products(product: Callable[[np.ndarray], Any], edge: int, repeats: int, dtype: type) -> tuple[float, int]:
    """Return edge³ per second, and the edge at which a product was long enough to be timed."""
    while True:
        A: np.ndarray = np.ones((edge, edge), dtype=dtype)
        seconds = time_fastest(lambda: product(A), repeats)  # noqa: B023, called before A changes
        if seconds >= SHORT or edge >= 4096:
            return edge**3 / seconds, edge
        edge *= 2


def _on_all_cores(function: Any, x: np.ndarray) -> Callable[[], None]:
    """Return work that applies an element-wise function on all cores, block by block, as the kernels do."""
    out = np.empty_like(x)
    blocks = threads.cut_row_blocks(len(x), 4)

    def work(part: slice) -> None:
        function(x[part], out=out[part])

    return lambda: threads.for_each(work, blocks)


def measure_device(device: Any, repeats: int = 3, edge: int = 4096) -> Rates:
    """Measure the rates of a GPU, by torch."""
    import torch

    def time_on_device(work: Callable[[], Any]) -> float:
        def work_and_wait() -> None:
            work()
            torch.cuda.synchronize(device)

        return time_fastest(work_and_wait, repeats)

    def ones(shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.ones(shape, dtype=dtype, device=device)

    x, x_single = ones((1 << 26,), torch.float64), ones((1 << 26,), torch.float32)
    out, out_single = torch.empty_like(x), torch.empty_like(x_single)
    A, A_single = ones((edge, edge), torch.float64), ones((edge, edge), torch.float32)
    gemm = 2.0 * edge**3 / time_on_device(lambda: A @ A)
    return Rates(
        cores=1,
        gemm=gemm,
        gemm_single=2.0 * edge**3 / time_on_device(lambda: A_single @ A_single),
        syrk=gemm / 1.125,  # panels of a triangle, of which 9/16 are computed
        exp=len(x) / time_on_device(lambda: torch.exp(x, out=out)),
        exp_single=len(x) / time_on_device(lambda: torch.exp(x_single, out=out_single)),
        bandwidth=16.0 * len(x) / time_on_device(lambda: out.copy_(x)),
    )


@cache
def measure_once(gpu: Any = None) -> Rates:
    """Return the rates of this process, or of a GPU, measured only once: it takes a fifth of a second."""
    return measure() if gpu is None else measure_device(gpu)
