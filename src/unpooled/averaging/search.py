"""The search of rules (13) and (14): numbers of blocks one after the other, every candidate within each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..blocks.base import Source
from ..blocks.partition import Partition
from . import rules
from .gathering import Gathering
from .local import Judgement, Local
from .path import BlockPath
from .plan import Candidate

QUICK = 1.0  # planned seconds up to which a number of blocks is tried in any case


@dataclass
class Search:
    """Partitions by their number of blocks, the rows held out, and what each partition is planned to cost."""

    gather: Gathering
    unlabeled: Source | None
    partitions: dict[int, Partition]
    held: np.ndarray
    plan: list[Candidate]
    sites_alike: bool
    tolerance: float  #: what the last halving must have gained for a slow candidate to be tried; 0 tries all
    max_validation: int
    rng: np.random.Generator

    def run(self, local: Local, one_target: bool) -> tuple[Local, int, BlockPath]:
        """The learner with its choice made, the number of blocks, and every score."""
        validation_rows = self._validation_rows()
        V = self.gather.read(validation_rows)
        source = self.gather.source
        outcomes: dict[int, Judgement] = {}
        try_single = True
        for candidate in self.plan:
            if candidate.left_out:
                continue
            if candidate.seconds > QUICK and self._pays_no_more([outcome.value for outcome in outcomes.values()]):
                candidate.left_out = "tolerance"
                continue
            partition = self.partitions[candidate.n_blocks]
            outcomes[candidate.n_blocks] = rules.score(
                self.gather.engine,
                partition.restricted(~self.held).blocks(source, self.unlabeled),
                local,
                rules.Validation(V, partition.block_of(source.n_rows)[validation_rows]),
                sites_alike=self.sites_alike,
                at_once=candidate.at_once,
                try_single=try_single,
                label=f"choosing, {candidate.n_blocks} blocks",
                verbose=self.gather.verbose,
            )
            # Larger blocks want smaller λ: where single precision was too coarse, it will be again.
            try_single = local.single_serves(outcomes[candidate.n_blocks])
        if not outcomes:
            raise ValueError("no block fits into memory_limit: raise it, or use smaller blocks")
        best = min(outcomes, key=lambda m: outcomes[m].value)
        table = np.stack([outcome.table for outcome in outcomes.values()])
        path = BlockPath(
            np.asarray(list(outcomes)),
            local.columns(),
            table[:, :, 0] if one_target else table,
            list(outcomes).index(best),
            outcomes[best].index,
        )
        return local.chosen(outcomes[best].index), best, path

    def _validation_rows(self) -> np.ndarray:
        rows = np.flatnonzero(self.held)
        if not len(rows):
            raise ValueError(
                f"choosing lam or n_blocks needs a block with at least 2 different rows, and X has n_samples = "
                f"{self.gather.source.n_rows}: give lam as a number, and n_blocks"
            )
        few = len(rows) <= self.max_validation
        return rows if few else np.sort(self.rng.choice(rows, self.max_validation, replace=False))

    def _pays_no_more(self, scores: list[float]) -> bool:
        """Whether the last halving of the number of blocks has gained too little for the next to be worth its time."""
        return self.tolerance > 0 and len(scores) > 1 and scores[-1] > (1.0 - self.tolerance) * scores[-2]
