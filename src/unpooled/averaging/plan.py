"""What each number of blocks would cost, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from .. import threads
from ..resources.rates import best
from .local import Local

MIN_ROWS = 200  # rows of a block below which rule (14) does not look


@dataclass
class Candidate:
    """m blocks of at most ``rows`` rows: planned memory in bytes, planned seconds, and why it is left out (or "")."""

    n_blocks: int
    rows: int
    at_once: int
    memory: float
    seconds: float
    left_out: str = ""


def plan(
    largest: dict[int, int],
    n_validation: int,
    local: Local,
    n_targets: int,
    workers: int,
    memory_limit: float,
    time_limit: float | None,
) -> list[Candidate]:
    """Every m with the rows of its largest block, most blocks first; those beyond memory or time are marked.

    The first that fits is never left out for its time.
    """
    speed = matrix_product_speed()
    columns = local.n_candidates * n_targets
    found = []
    for m, rows in sorted(largest.items(), reverse=True):
        half = -(-rows // 2)
        own = local.memory(half) + 16.0 * n_validation * columns
        at_once = int(max(1, min(workers, m, memory_limit // own)))
        # Kernel values on the validation rows: an exponential is worth some 40 operations of a matrix product.
        predicting = half * n_validation * (2.0 * columns + 40.0)
        share = max(1, threads.cores() // min(at_once, m))
        seconds = -(-m // at_once) * (local.operations(half) + predicting) / (speed * (1 + 0.7 * (share - 1)))
        too_big = own > memory_limit
        found.append(Candidate(m, rows, at_once, at_once * own, seconds, "memory" if too_big else ""))
    spent = 0.0
    for candidate in found:
        if not candidate.left_out:
            if time_limit is not None and spent and spent + candidate.seconds > time_limit:
                candidate.left_out = "time"
            else:
                spent += candidate.seconds
    return found


def powers_of_two(n_rows: int) -> list[int]:
    """m = 1, 2, 4, … while blocks keep MIN_ROWS rows."""
    sizes = [1]
    while n_rows // (2 * sizes[-1]) >= MIN_ROWS:
        sizes.append(2 * sizes[-1])
    return sizes


@cache
def matrix_product_speed() -> float:
    """Operations a second of a double-precision matrix product on one thread, measured once in a process."""
    A = np.ones((400, 400))
    with threads.one_blas_thread:
        return 2.0 * 400**3 / best(lambda: A @ A, 3)
