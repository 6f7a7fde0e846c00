"""Row blocks on all cores.

BLAS is threaded, element-wise NumPy is not: the exponential of a kernel block would leave every core
but one idle. So a large job is cut into row blocks, the blocks run on as many Python threads as BLAS
was allowed (NumPy releases the lock), and BLAS is held to one thread meanwhile so that they do not fight.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

BLOCK_ELEMENTS = 1 << 20  # 8 MiB of float64: a few blocks fit the outer cache, overheads vanish


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")


def allowed_threads() -> int:
    """How many threads BLAS may use now: the limit a user, joblib or a scheduler has set."""
    return max((lib.num_threads for lib in _controller().lib_controllers), default=1)


def row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Slices that cut ``n_rows`` so that a block of ``n_columns`` wide rows has BLOCK_ELEMENTS numbers."""
    step = max(1, BLOCK_ELEMENTS // max(1, n_columns))
    return [slice(i, min(i + step, n_rows)) for i in range(0, n_rows, step)]


def for_each(work: Callable[[slice], None], blocks: list[slice]) -> None:
    """Run ``work`` on every block, on all allowed threads; the first error is raised."""
    n_threads = min(allowed_threads(), len(blocks)) if len(blocks) > 1 else 1
    if n_threads == 1:
        for block in blocks:
            work(block)
        return
    with _controller().limit(limits=1), ThreadPoolExecutor(n_threads) as pool:
        for done in [pool.submit(work, block) for block in blocks]:
            done.result()
