"""Rules (13) and (14) of Guo, Lin and Zhou (2017): the choice of λ and of the number of blocks, by halving every block.

Before anything runs, memory and time are planned for every number of blocks, and those that would take too much are
left out. The scores of every number of blocks and every candidate are kept in the path that the model shows.

With D_j = D_j¹ ∪ D_j², the averages f̄ = Σ_j w_j f_{D_j¹,λ} are fitted to the training halves and scored on the
validation halves,

    (13)  (1/m) Σ_j (1/|D_j²|) Σ_{D_j²} (f̄(x) - y)²   as printed: every site has the same weight, or
    (14)  (1/|D²|) Σ_j Σ_{D_j²} (f̄(x) - y)²            every row has the same weight.

Rule (13) needs f̄ on all validation rows. Every block predicts these rows for every λ, and the predictions are added
up. So no block reads another block's training rows, and memory does not grow with N.

The search tries one number of blocks after another, and every candidate for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base.arrays import Array, Floats, eps, is_numpy, to_numpy
from ..._base.drawing import Curve, Dots, Picture
from ..._base.engine import Engine
from ..._base.path import CRITERIA, SearchPath, Tuning, split_by_target, square_roots
from ..._base.rows import Block, Rows, Source
from ..route import Cost
from . import gathering
from .gathering import Gathering, Partition
from .local import Judgement, Local
from .routes import AVERAGING, Job


@dataclass
class Candidate:
    """A candidate: m blocks of at most ``rows`` rows, bytes at the peak, planned seconds, and why it is left out.

    The memory is also what :func:`unpooled.plan` reports, with threads and copies of rows; ``memory_limit`` applies to
    the matrices alone.
    """

    n_blocks: int
    rows: int
    at_once: int
    memory: float
    seconds: float
    left_out: str = ""


def plan(jobs: Sequence[Job], cost: Cost, time_limit: float | None) -> list[Candidate]:
    """Plan every m, most blocks first; mark those beyond memory or time.

    The first candidate that fits is never left out for its time.
    """
    candidates, spent = [], 0.0
    for job in sorted(jobs, key=lambda job: -job.n_blocks):
        left_out, seconds = "" if AVERAGING.can_do(job) else "memory", AVERAGING.seconds(job, cost)
        if not left_out and time_limit is not None and spent and spent + seconds > time_limit:
            left_out = "time"
        spent += 0.0 if left_out else seconds
        candidates.append(Candidate(job.n_blocks, job.rows, job.at_once, AVERAGING.memory(job).peak, seconds, left_out))
    return candidates


@dataclass(repr=False)
class BlockPath(SearchPath):
    """The scores of a search on the validation halves.

    Attributes
    ----------
    n_blocks : (M,) the numbers of blocks tried
    candidates : the values tried within each, by name: ``{"lam": (C,)}``
    criterion : (M, C), or (M, C, T) for several targets: mean squared error, or the robust loss of a robust learner
    chosen : position of the chosen number in ``n_blocks``
    index : for every target the position of its candidate
    """

    n_blocks: np.ndarray
    candidates: dict[str, np.ndarray]
    criterion: Floats
    chosen: int
    index: np.ndarray

    parameter = "blocks"
    df = None

    @property
    def values(self) -> np.ndarray:
        """The numbers of blocks."""
        return self.n_blocks

    @property
    def taken(self) -> np.ndarray:
        """The position of the number of blocks, repeated for every target: it is the same for all."""
        return np.full(len(self.index), int(self.chosen))

    @property
    def is_robust(self) -> bool:
        """Return whether the scores are those of a robust learner, a descent of so many steps."""
        return "n_iter" in self.candidates

    @property
    def criterion_name(self) -> str:
        """The name of the criterion."""
        return "robust" if self.is_robust else "halves"

    @property
    def lam(self) -> Floats:
        """The grid of λ."""
        if "lam" not in self.candidates:
            raise AttributeError(f"this path has no lam: its candidates are {', '.join(self.candidates) or 'none'}")
        return self.candidates["lam"]

    def _line(self) -> str:
        tried = ", ".join(map(str, self.n_blocks.tolist()))
        each = f" with {self.criterion.shape[1]} candidates each" if self.candidates else ""
        taken = [
            f"{name} {', '.join(f'{v:.3g}' for v in np.unique(values[self.index]))}"
            for name, values in self.candidates.items()
        ]
        return f"{tried} blocks tried{each}; takes {', '.join([f'n_blocks {self.n_blocks[self.chosen]}', *taken])}"

    def _summary(self) -> dict[str, np.ndarray]:
        """Return the best candidate of each number of blocks, by the mean over targets."""
        scores = self._over_targets()
        best = np.argmin(scores, axis=1)
        columns = {self.parameter: self.n_blocks}
        columns |= {name: values[best] for name, values in self.candidates.items()}
        return columns | {"score": scores[np.arange(len(best)), best]}

    def _over_targets(self) -> Floats:
        return self.criterion if self.criterion.ndim == 2 else self.criterion.mean(axis=2)

    def as_dict(self) -> dict[str, Any]:
        """Return plain columns, with a row for each number of blocks and candidate."""
        m, c = self.criterion.shape[:2]
        columns: dict[str, Any] = {"n_blocks": np.repeat(self.n_blocks, c)}
        columns |= {name: np.tile(values, m) for name, values in self.candidates.items()}
        return columns | split_by_target({"score": self.criterion.reshape((m * c, -1))}, self.criterion.ndim == 2)

    def best_of_each(self) -> Floats:
        """Return the best score of every number of blocks, a mean over the targets: an error, or a bounded loss."""
        best = np.nanmin(self.criterion.reshape(*self.criterion.shape[:2], -1), axis=1).mean(axis=1)
        return np.asarray(best if self.is_robust else np.sqrt(best))

    def tuning(self, target: int) -> Tuning | None:
        """Return a curve for each number of blocks, by rule (13) or (14); for a robust learner at its chosen scale."""
        scores = np.asarray(self.criterion, dtype=float)
        scores = scores if scores.ndim == 2 else scores[:, :, target]
        chosen = int(self.index[min(target, len(self.index) - 1)])
        name = "n_iter" if self.is_robust else next(iter(self.candidates), "")
        if not name or scores.shape[1] < 2:
            return None
        positions = np.arange(scores.shape[1])
        if self.is_robust and "scale" in self.candidates:
            scales = np.asarray(self.candidates["scale"], dtype=float).reshape(len(positions), -1)[:, 0]
            positions = np.flatnonzero(scales == scales[chosen])
        values = np.asarray(self.candidates[name], dtype=float)[positions]
        order = np.argsort(values, kind="stable")
        positions = positions[order]
        curves = [row[positions] if self.is_robust else square_roots(row[positions]) for row in scores]
        names = ["1 block" if m == 1 else f"{m} blocks" for m in self.n_blocks]
        return Tuning(
            "steps" if self.is_robust else "λ",
            values[order],
            curves[self.chosen],
            self.criterion_name,
            int(np.flatnonzero(positions == chosen)[0]),
            others=tuple((m, c) for i, (m, c) in enumerate(zip(names, curves)) if i != self.chosen),
            name=names[self.chosen],
        )

    def _picture(self) -> Picture:
        """Return the validation score against the first candidate parameter, one curve per number of blocks."""
        if not self.candidates:
            raise ValueError("there is nothing to draw: the local estimator has no candidates")
        name, values = next(iter(self.candidates.items()))
        scores, order, chosen = self._over_targets(), np.argsort(values, kind="stable"), np.unique(self.index)
        curves = [Curve(values[order], row[order], f"{m} blocks") for m, row in zip(self.n_blocks, scores)]
        dots = [Dots(values[chosen], scores[self.chosen, chosen], "chosen", {"color": "black"})]
        label = CRITERIA["halves"][0]
        return Picture({"lam": "λ"}.get(name, name), label, curves, dots, xscale="log", yscale="log", legend="")


SINGLE_FROM = 1000  # training rows of a block from which single precision pays


@dataclass
class _Validation:
    """The validation rows V = ∪ D_j² (or a sample of them), and the block of each row."""

    rows: Rows
    owner: np.ndarray

    def weights(self, sites_alike: bool) -> Floats:
        """Return the weight of each row in the score, summing to one."""
        w = np.ones(len(self.rows)) if self.rows.weights is None else self.rows.weights.astype(float)
        if sites_alike:
            w = w / np.bincount(self.owner, weights=w)[self.owner]
        return w / w.sum()


def _score(
    engine: Engine,
    training: list[Block],
    local: Local,
    validation: _Validation,
    *,
    sites_alike: bool = False,
    at_once: int | None = None,
    try_single: bool = True,
    label: str = "",
    verbose: int = 0,
) -> Judgement:
    """Fit every candidate to every block's training half, and score the averages."""
    V, Y = validation.rows.X, to_numpy(validation.rows.Y)
    weights = validation.weights(sites_alike)

    def run(single: bool) -> Judgement:
        total: gathering.Sum = engine.map_reduce(
            gathering.candidates_on,
            training,
            gathering.add,
            args=(local, V, single),
            at_once=at_once,
            label=label,
            verbose=verbose,
        )
        return local.judge(total.mean - Y[:, None, :], weights)

    if try_single and _single_pays(training, V) and local.can_use_single(None):
        judgement = run(True)
        if local.can_use_single(judgement):
            return judgement
    return run(False)


def _single_pays(training: list[Block], V: Array) -> bool:
    largest = max(block.n_rows + block.n_unlabeled for block in training)
    return is_numpy(V) and eps(V) < 1e-10 and largest >= SINGLE_FROM


QUICK = 1.0  # seconds: a number of blocks with a shorter plan is tried in any case


@dataclass
class Search:
    """A search over partitions by their number of blocks, with the held-out rows and each partition's planned cost."""

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
        """Return the learner with its choice made, the number of blocks, and every score."""
        validation_rows = self._validation_rows()
        V = self.gather.read(validation_rows)
        source = self.gather.source
        outcomes: dict[int, Judgement] = {}
        try_single = True
        for candidate in self.plan:
            if candidate.left_out:
                continue
            if candidate.seconds > QUICK and self._is_enough([outcome.value for outcome in outcomes.values()]):
                candidate.left_out = "tolerance"
                continue
            partition = self.partitions[candidate.n_blocks]
            outcomes[candidate.n_blocks] = _score(
                self.gather.engine,
                partition.restrict(~self.held).blocks(source, self.unlabeled),
                local,
                _Validation(V, partition.block_of(source.n_rows)[validation_rows]),
                sites_alike=self.sites_alike,
                at_once=candidate.at_once,
                try_single=try_single,
                label=f"choosing, {candidate.n_blocks} blocks",
                verbose=self.gather.verbose,
            )
            # Larger blocks need smaller λ: where single precision was too coarse, it will be so again.
            try_single = local.can_use_single(outcomes[candidate.n_blocks])
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
        return local.choose(outcomes[best].index), best, path

    def _validation_rows(self) -> np.ndarray:
        rows = np.flatnonzero(self.held)
        if not len(rows):
            raise ValueError(
                f"choosing lam or n_blocks needs a block with at least 2 different rows, but X has n_samples = "
                f"{self.gather.source.n_rows}: give lam as a number, and n_blocks"
            )
        few = len(rows) <= self.max_validation
        return rows if few else np.sort(self.rng.choice(rows, self.max_validation, replace=False))

    def _is_enough(self, scores: list[float]) -> bool:
        """Return whether the last halving of the number of blocks gained too little to spend time on the next."""
        return self.tolerance > 0 and len(scores) > 1 and scores[-1] > (1.0 - self.tolerance) * scores[-2]
