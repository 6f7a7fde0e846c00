"""Threads: row blocks of a large job on all cores, and small problems on one.

BLAS is threaded, element-wise NumPy is not: the exponential of a kernel block would leave every core
but one idle. So a large job is cut into row blocks, and the blocks run on as many Python threads as BLAS
may use (NumPy releases the lock). Meanwhile BLAS is limited to one thread, so that the two do not compete.

A small job is better off with one BLAS thread throughout: NumPy and SciPy each carry a BLAS, and handing a
matrix of a few hundred rows from the threads of one to those of the other costs more than the work.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Generic, TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController


def time_fastest(work: Callable[[], Any], repeats: int) -> float:
    """Return the seconds of the fastest of several runs, after one that warms up."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return max(min(seconds), 1e-9)


BLOCK_ELEMENTS = 1 << 20  # 8 MiB of float64: a few blocks fit the outer cache, overheads vanish
SMALL = 1200  # rows of a square matrix up to which one BLAS thread was faster than two


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")


_Before = TypeVar("_Before")


class SharedSetting(Generic[_Before]):
    """A setting of the whole process that stays changed while any thread is inside the context.

    The first thread to enter changes the setting, and the last one to leave restores it. All threads must share one
    object: two that each restored the setting they had met could leave the change behind for good.

    Parameters
    ----------
    change : changes the setting and returns what restoring it takes
    restore : restores the setting, given what ``change`` returned
    always : restore whenever a thread leaves, for a setting of which each thread has a copy
    """

    def __init__(
        self, change: Callable[[], _Before], restore: Callable[[_Before], object], always: bool = False
    ) -> None:
        self._change, self._restore, self._always = change, restore, always
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = self._change()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._always or self._inside == 0:
                self._restore(self._before)


#: BLAS on one thread; the earlier limit returns when the last thread leaves
one_blas_thread = SharedSetting(
    lambda: _controller().limit(limits=1), lambda limiter: limiter.restore_original_limits()
)


def limit_blas(n: int) -> contextlib.AbstractContextManager[Any]:
    """Limit BLAS to n threads; a limit of one may be held by many threads of the process at once."""
    return one_blas_thread if n == 1 else _controller().limit(limits=n)


def count_cores() -> int:
    """Return the number of cores that this process may use, within quotas of containers and schedulers."""
    return int(joblib.cpu_count())


def limit_blas_for(rows: int) -> contextlib.AbstractContextManager[None]:
    """Limit BLAS to one thread for matrices of up to SMALL rows; leave it unlimited for larger ones."""
    return one_blas_thread if rows <= SMALL else contextlib.nullcontext()


def count_threads() -> int:
    """Return how many threads BLAS may use now: the limit that a user, joblib or a scheduler has set."""
    return max((lib.num_threads for lib in _controller().lib_controllers), default=1)


def cut_row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return slices that cut ``n_rows`` so that a block with ``n_columns`` columns has BLOCK_ELEMENTS numbers."""
    step = max(1, BLOCK_ELEMENTS // max(1, n_columns))
    return [slice(i, min(i + step, n_rows)) for i in range(0, n_rows, step)]


def cut_stretches(n: int, length: int) -> list[slice]:
    """Return slices of at most ``length`` that cover n; one empty slice for n = 0."""
    return [slice(i, min(i + length, n)) for i in range(0, max(n, 1), length)]


def for_each(work: Callable[[slice], None], blocks: list[slice]) -> None:
    """Run ``work`` on every block, on all allowed threads; raise the first error.

    The caller's ``np.errstate`` applies on all of them: NumPy would start each with its defaults.
    """
    n_threads = min(count_threads(), len(blocks)) if len(blocks) > 1 else 1
    if n_threads == 1:
        for block in blocks:
            work(block)
        return
    state: Any = {**np.geterr(), "call": np.geterrcall()}

    def work_in_state(block: slice) -> None:
        with np.errstate(**state):
            work(block)

    with one_blas_thread, ThreadPoolExecutor(n_threads) as pool:
        for future in [pool.submit(work_in_state, block) for block in blocks]:
            future.result()


# --- Silence over private rows: a warning about one record would reveal something about it --------------------------


def _ignore_runtime_warnings() -> warnings.catch_warnings[None]:
    """Make Python ignore RuntimeWarning, and return what restoring the filters takes."""
    before = warnings.catch_warnings()
    before.__enter__()
    warnings.simplefilter("ignore", RuntimeWarning)
    return before


_no_runtime_warnings = SharedSetting(_ignore_runtime_warnings, lambda before: before.__exit__(None, None, None))


@contextlib.contextmanager
def silence_warnings() -> Iterator[None]:
    """Give no warning or error for a number that overflows, underflows or is NaN, whatever ``np.seterr`` says.

    NumPy's part of it applies to one thread: every thread and process that reads rows has to enter this context.
    """
    with _no_runtime_warnings, np.errstate(all="ignore"):
        yield
