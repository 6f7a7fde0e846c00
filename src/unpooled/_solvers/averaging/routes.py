"""The route of an average over blocks: the number of blocks in work together, and their memory and time.

There is one route, and a job for every number of blocks. A plan and a fit describe the job in the same way and ask the
same object, so the plan of an average is what the fit writes into its ``plan_``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..._base.engine import Engine
from ..._base.rows import Block
from .. import route
from ..route import OF_A_THREAD, Cost, Memory
from . import gathering
from .local import BlockFit, Local

MIN_ROWS = 200  # rule (14) tries no blocks of fewer rows
EXPONENTIAL = 40.0  # operations of a matrix product in the time of a kernel value
ANOTHER_CORE = 0.7  # speed that one more core adds to a matrix product, relative to the first
KEPT = 0.4, 64e6  # share of the memory freed by the search that the allocator keeps, and its limit in bytes


@dataclass(frozen=True)
class Job:
    """The facts about an average over so many blocks that decide its memory and time."""

    n: int
    d: int
    n_blocks: int
    rows: int  #: of the largest block
    local: Local
    targets: int
    n_validation: int  #: rows on which the candidates are scored; 0 if nothing is chosen
    workers: int
    cores: int
    limit: float  #: bytes that the blocks in work may take together
    itemsize: int = 8

    @property
    def half(self) -> int:
        """The rows of the larger half of the largest block."""
        return -(-self.rows // 2)

    @property
    def columns(self) -> int:
        """The number of functions that are scored."""
        return self.local.n_candidates * self.targets

    @property
    def of_a_block(self) -> float:
        """The bytes of a block in work: its matrices, and its values on the validation rows."""
        return self.local.memory(self.half) + 16.0 * self.n_validation * self.columns

    @property
    def at_once(self) -> int:
        """The number of blocks in work together: one per worker, as far as memory allows."""
        return int(max(1, min(self.workers, self.n_blocks, self.limit // self.of_a_block)))


@dataclass
class Work:
    """The blocks of an average, and the learner with its choice made."""

    engine: Engine
    blocks: list[Block]
    local: Local
    at_once: int
    verbose: int = 0


class Averaging(route.Route[Job, Work, list[BlockFit]]):
    """A fit to every block, some of them at once; fits to the halves come before if there is a choice."""

    name = "averaged"

    def can_do(self, job: Job) -> bool:
        return job.of_a_block <= job.limit

    def pays(self, job: Job) -> bool:
        return job.n_blocks in powers_of_two(job.n)

    def memory(self, job: Job) -> Memory:
        """Return the memory: the limit counts numbers in double precision, the peak also copies of rows and threads."""
        matrices = job.at_once * job.of_a_block
        share, most = KEPT
        kept = share * min(2.5 * job.itemsize * job.half**2, most) if job.n_validation else 0.0
        own = job.itemsize / 8 * job.local.memory(job.half) + 16.0 * job.n_validation * job.columns
        peak = job.at_once * (own + OF_A_THREAD + kept) + job.n * (2.0 * job.d * job.itemsize + 100.0)
        return Memory(matrices, peak, max(peak, matrices))

    def seconds(self, job: Job, cost: Cost) -> float:
        """Return the seconds of all turns of blocks, each on its share of the cores."""
        predicting = job.half * job.n_validation * (2.0 * job.columns + EXPONENTIAL)
        one_core = cost.operation(False) * _speed_of_cores(cost.rates.cores)
        operation = one_core / _speed_of_cores(max(1, job.cores // job.at_once))
        return math.ceil(job.n_blocks / job.at_once) * (job.local.operations(job.half) + predicting) * operation

    def solve(self, work: Work) -> list[BlockFit]:
        fits: list[BlockFit] = work.engine.map_reduce(
            gathering.fit,
            work.blocks,
            gathering.join,
            args=(work.local,),
            at_once=work.at_once,
            label="fitting blocks",
            verbose=work.verbose,
        )
        return fits


AVERAGING = Averaging()


def powers_of_two(n_rows: int) -> list[int]:
    """Return m = 1, 2, 4, … as long as blocks keep MIN_ROWS rows."""
    sizes = [1]
    while n_rows // (2 * sizes[-1]) >= MIN_ROWS:
        sizes.append(2 * sizes[-1])
    return sizes


def _speed_of_cores(cores: int) -> float:
    """Return how many times as fast as one core so many cores are together."""
    return 1.0 + ANOTHER_CORE * (cores - 1)
