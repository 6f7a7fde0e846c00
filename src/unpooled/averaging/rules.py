"""Rules (13) and (14) of Guo, Lin and Zhou (2017): λ, and the number of blocks, by halving every block.

D_j = D_j¹ ∪ D_j². The averages f̄ = Σ_j w_j f_{D_j¹,λ} are fitted to the training halves and scored on the validation
halves,

    (13)  (1/m) Σ_j (1/|D_j²|) Σ_{D_j²} (f̄(x) - y)²   as printed: every site counts alike, or
    (14)  (1/|D²|) Σ_j Σ_{D_j²} (f̄(x) - y)²            every row counts alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, eps, is_numpy, to_numpy
from ..blocks.base import Block, Rows
from ..engines.base import Engine
from ..filters import Floats
from . import rounds
from .local import Judgement, Local

SINGLE_FROM = 1000  # training rows of a block from which single precision pays


@dataclass
class Validation:
    """The validation rows V = ∪ D_j² (or a sample of them), and the block that each belongs to."""

    rows: Rows
    owner: np.ndarray

    def weights(self, sites_alike: bool) -> Floats:
        """What each row counts in the score, summing to one."""
        w = np.ones(len(self.rows)) if self.rows.weights is None else self.rows.weights.astype(float)
        if sites_alike:
            w = w / np.bincount(self.owner, weights=w)[self.owner]
        return w / w.sum()


def score(
    engine: Engine,
    training: list[Block],
    local: Local,
    validation: Validation,
    *,
    sites_alike: bool = False,
    at_once: int | None = None,
    try_single: bool = True,
    label: str = "",
    verbose: int = 0,
) -> Judgement:
    """Every candidate on every block's training half, and the score of their averages."""
    V, Y = validation.rows.X, to_numpy(validation.rows.Y)
    weights = validation.weights(sites_alike)

    def run(single: bool) -> Judgement:
        total: rounds.Sum = engine.map_reduce(
            rounds.candidates_on,
            training,
            rounds.add,
            args=(local, V, single),
            at_once=at_once,
            label=label,
            verbose=verbose,
        )
        return local.judge(total.mean - Y[:, None, :], weights)

    if try_single and _single_pays(training, V) and local.single_serves(None):
        found = run(True)
        if local.single_serves(found):
            return found
    return run(False)


def _single_pays(training: list[Block], V: Array) -> bool:
    largest = max(block.n_rows + block.n_unlabeled for block in training)
    return is_numpy(V) and eps(V) < 1e-10 and largest >= SINGLE_FROM
