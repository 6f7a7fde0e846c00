"""The route of an average over blocks: how many blocks are in work together, what they take, and how long it will take.

There is one route, and a job for every number of blocks. A plan and a fit describe the job alike and ask the same
object, so what a plan says of an average is what the fit writes into its ``plan_``.
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

MIN_ROWS = 200  # rows of a block below which rule (14) does not look
EXPONENTIAL = 40.0  # operations of a matrix product that a kernel value is worth
ANOTHER_CORE = 0.7  # what one more core adds to the speed of a matrix product, beside the first
KEPT = 0.4, 64e6  # share of what the search has freed that the allocator keeps, and bytes from which it keeps no more


@dataclass(frozen=True)
class Job:
    """An average over so many blocks, as far as its memory and time go."""

    n: int
    d: int
    n_blocks: int
    rows: int  #: of the largest block
    local: Local
    targets: int
    n_validation: int  #: rows on which the candidates are scored; 0 where nothing is chosen
    workers: int
    cores: int
    limit: float  #: bytes that the blocks in work may take together
    itemsize: int = 8

    @property
    def half(self) -> int:
        """Rows of the larger half of the largest block."""
        return -(-self.rows // 2)

    @property
    def columns(self) -> int:
        """Functions that are scored."""
        return self.local.n_candidates * self.targets

    @property
    def of_a_block(self) -> float:
        """Bytes of a block in work: its matrices, and its values on the validation rows."""
        return self.local.memory(self.half) + 16.0 * self.n_validation * self.columns

    @property
    def at_once(self) -> int:
        """Blocks in work together: one a worker, as far as there is room."""
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
    """A fit to every block, some of them at once; those of the halves, if there is a choice, come before."""

    name = "averaged"

    def able(self, job: Job) -> bool:
        return job.of_a_block <= job.limit

    def pays(self, job: Job) -> bool:
        return job.n_blocks in powers_of_two(job.n)

    def memory(self, job: Job) -> Memory:
        """The limit counts every number in double precision; the peak also has the copies of rows and the threads."""
        matrices = job.at_once * job.of_a_block
        share, most = KEPT
        kept = share * min(2.5 * job.itemsize * job.half**2, most) if job.n_validation else 0.0
        own = job.itemsize / 8 * job.local.memory(job.half) + 16.0 * job.n_validation * job.columns
        peak = job.at_once * (own + OF_A_THREAD + kept) + job.n * (2.0 * job.d * job.itemsize + 100.0)
        return Memory(matrices, peak, max(peak, matrices))

    def seconds(self, job: Job, cost: Cost) -> float:
        """Turns of blocks, each on its share of the cores."""
        predicting = job.half * job.n_validation * (2.0 * job.columns + EXPONENTIAL)
        one_core = cost.operation(False) * _cores_in_speed(cost.rates.cores)
        operation = one_core / _cores_in_speed(max(1, job.cores // job.at_once))
        return math.ceil(job.n_blocks / job.at_once) * (job.local.operations(job.half) + predicting) * operation

    def solve(self, work: Work) -> list[BlockFit]:
        found: list[BlockFit] = work.engine.map_reduce(
            gathering.fit,
            work.blocks,
            gathering.join,
            args=(work.local,),
            at_once=work.at_once,
            label="fitting blocks",
            verbose=work.verbose,
        )
        return found


AVERAGING = Averaging()


def powers_of_two(n_rows: int) -> list[int]:
    """m = 1, 2, 4, … while blocks keep MIN_ROWS rows."""
    sizes = [1]
    while n_rows // (2 * sizes[-1]) >= MIN_ROWS:
        sizes.append(2 * sizes[-1])
    return sizes


def _cores_in_speed(cores: int) -> float:
    """How many times as fast as one core so many are together."""
    return 1.0 + ANOTHER_CORE * (cores - 1)
