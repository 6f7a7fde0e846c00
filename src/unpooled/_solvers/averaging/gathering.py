"""Blocks of rows: how rows are dealt to blocks, the work on one block, and how the results of two blocks combine.

The average is f̄ = Σ_j (|D_j|/|D|) f_j (Guo, Lin and Zhou 2017, (3)); with unlabeled rows the weights are |D*_j|/|D*|
(Wang 2018, 3.3). A block gives its function, or the values of all its candidates on the validation rows, and two such
results are added.

Before blocks can be worked on, the whole has to know the weights, a sample of the rows, κ and the hashes of the rows.
The engine gathers these block by block as well. All functions here are importable, so that every engine can call them.

Rows are halved by their content: in the order of a hash of x, and of y among rows of one x. Copies of a row therefore
stay together, and a row of weight two is as good as two rows. Only the order of y counts, so a shift of y changes
nothing. A Parquet file is halved exactly as the arrays that it was written from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base.arrays import Array, Floats, to_numpy
from ..._base.engine import Engine
from ..._base.rows import ArraySource, Block, Rows, Source, concatenate, hash_rows
from ...kernels import Kernel
from .local import BlockFit, Local


@dataclass
class Partition:
    """Blocks D_1, …, D_m as sorted row numbers, and the unlabeled rows of each."""

    names: list[str]
    rows: list[np.ndarray]
    unlabeled: list[np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def largest(self) -> int:
        """The rows of the largest block, labeled and unlabeled."""
        unlabeled = self.unlabeled or [np.empty(0)] * len(self)
        return max(len(rows) + len(own) for rows, own in zip(self.rows, unlabeled))

    def restricted(self, kept: np.ndarray) -> Partition:
        """The same blocks with only those labeled rows that the mask ``kept`` has."""
        return Partition(self.names, [rows[kept[rows]] for rows in self.rows], self.unlabeled)

    def block_of(self, n_rows: int) -> np.ndarray:
        """The number of the block that each row belongs to."""
        owner = np.empty(n_rows, dtype=np.int64)
        for j, rows in enumerate(self.rows):
            owner[rows] = j
        return owner

    def blocks(self, source: Source, unlabeled: Source | None) -> list[Block]:
        """References to the data; a block without a labeled row has weight zero and is left out."""
        found = []
        for j, (name, rows) in enumerate(zip(self.names, self.rows)):
            if len(rows):
                own = [] if unlabeled is None or self.unlabeled is None else unlabeled.slices(self.unlabeled[j])
                found.append(Block(name, source.slices(rows), own))
        return found


@dataclass
class Deal:
    """How rows are dealt to blocks: by site or evenly. Rows of weight zero belong to no block."""

    source: Source
    unlabeled: Source | None
    weights: np.ndarray | None
    dealing: np.random.Generator
    spreading: np.random.Generator

    @property
    def alive(self) -> np.ndarray:
        """The rows that weigh something."""
        return np.arange(self.source.n_rows) if self.weights is None else np.flatnonzero(self.weights > 0)

    def by_site(self) -> dict[int, Partition]:
        """One partition: the sites."""
        alive, labels = self.alive, self.source.site_labels
        assert labels is not None
        names, positions = group_by_label(labels[alive])
        return self._with_unlabeled([Partition(names, [alive[p] for p in positions])])

    def evenly(self, sizes: list[int]) -> dict[int, Partition]:
        """A partition for every number of blocks, all cut from the same random order."""
        order = self.source.draw_order(self.dealing)
        if self.weights is not None:
            order = order[self.weights[order] > 0]
        return self._with_unlabeled([Partition([str(j) for j in range(m)], cut_evenly(order, m)) for m in sizes])

    def _with_unlabeled(self, partitions: list[Partition]) -> dict[int, Partition]:
        found = {len(partition): partition for partition in partitions}
        if self.unlabeled is None:
            return found
        order = self.unlabeled.draw_order(self.spreading)
        for partition in found.values():
            if self.unlabeled.site_labels is not None:
                partition.unlabeled = group_unlabeled(partition.names, self.unlabeled.site_labels)
            else:
                w = self.weights
                masses = [float(len(rows)) if w is None else float(w[rows].sum()) for rows in partition.rows]
                partition.unlabeled = deal_in_proportion(order, np.asarray(masses))
        return found


def group_unlabeled(names: list[str], labels: np.ndarray) -> list[np.ndarray]:
    """The unlabeled rows of every site; a site that has no labeled row is an error."""
    own = dict(zip(*group_by_label(labels)))
    unknown = sorted(set(own) - set(names))
    if unknown:
        raise ValueError(f"unlabeled_sites names the site {unknown[0]!r}, which has no labeled row")
    return [own.get(name, np.empty(0, dtype=np.int64)) for name in names]


def cut_evenly(order: np.ndarray, m: int) -> list[np.ndarray]:
    """m blocks whose sizes differ by at most one, cut from rows in random order."""
    return [np.sort(part) for part in np.array_split(order, m)]


def group_by_label(labels: np.ndarray) -> tuple[list[str], list[np.ndarray]]:
    """A block for every label, in sorted order of the labels."""
    found, owner = np.unique(labels, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    cuts = np.cumsum(np.bincount(owner, minlength=len(found)))[:-1]
    return [str(label) for label in found], np.split(order, cuts)


def deal_in_proportion(order: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """Rows dealt to blocks in proportion to ``sizes``: how unlabeled rows without sites are spread."""
    cuts = np.round(np.cumsum(sizes)[:-1] / np.sum(sizes) * len(order)).astype(int)
    return [np.sort(part) for part in np.split(order, cuts)]


def ranks(hashes: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """A rank for every row, by which rows are halved: the order of a hash of x, and of y among rows of one x.

    Copies have the same rank: they never lie on both sides of a split, and a row of weight two is as good as two
    rows. Only the order of y counts, so a shift of y splits alike.
    """
    order = np.lexsort((*Y.T, hashes))
    new_x = hashes[order][1:] != hashes[order][:-1]
    new_y = np.any(Y[order][1:] != Y[order][:-1], axis=1)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.concatenate([[0], np.cumsum(new_x | new_y)])
    return found


def mark_validation(owner: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """A mask of the validation rows: every second row of each block, in the order of the keys.

    Rows with equal keys (copies) stay together. The training half of a block has at least as many distinct rows.
    """
    order = np.lexsort((keys, owner))
    owner_, keys_ = owner[order], keys[order]
    new_block = np.append(True, owner_[1:] != owner_[:-1])
    distinct = new_block | np.append(True, keys_[1:] != keys_[:-1])
    count = np.cumsum(distinct)
    before = np.maximum.accumulate(np.where(new_block, count, 0))  # the count at the first row of the block
    mask = np.empty(len(owner), dtype=bool)
    mask[order] = (count - before) % 2 == 1
    return mask


@dataclass
class Sum:
    """Σ_j |D_j| f_j(V) for every candidate, shape (n, C, T), and Σ_j |D_j|."""

    values: Floats
    mass: float

    @property
    def mean(self) -> Floats:
        """f̄(V)."""
        return self.values / self.mass


def add(a: Sum, b: Sum) -> Sum:
    """The sum of two sums.

    A new array: an engine that lost a worker may combine the same two once more.
    """
    return Sum(a.values + b.values, a.mass + b.mass)


def candidates_on(block: Block, local: Local, V: Array, single: bool) -> Sum:
    """Every candidate fitted to the block, and its values on the validation rows V."""
    rows, U = block.read()
    mass = rows.mass + (0 if U is None else U.shape[0])
    values = to_numpy(local.candidates(rows, U, single).predict(V)).astype(np.float64)
    return Sum(mass * values.reshape(len(values), local.n_candidates, -1), mass)


def fit(block: Block, local: Local) -> list[BlockFit]:
    """The block's function at the choice."""
    rows, U = block.read()
    predictor, b = local.fit(rows, U)
    n_unlabeled = 0 if U is None else int(U.shape[0])
    return [BlockFit(block.name, predictor, b, rows.mass + n_unlabeled, len(rows), n_unlabeled)]


def join(a: list[BlockFit], b: list[BlockFit]) -> list[BlockFit]:
    """One after the other."""
    return a + b


def kappa(block: Block, kernel: Kernel) -> float:
    """√K(x, x) at its largest on the block, unlabeled rows included."""
    rows, U = block.read()
    return max(kernel.kappa(rows.X), 0.0 if U is None else kernel.kappa(U))


def hashes(block: Block, constants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number that stands for each row x, and its labels: by these the rows are halved."""
    rows = read(block)
    return hash_rows(to_numpy(rows.X), constants), to_numpy(rows.Y)


def weights(block: Block) -> np.ndarray:
    """The weights of the rows: those that weigh nothing are as if they were not there."""
    return np.asarray(read(block).weights)


def join_arrays(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One after the other."""
    return np.concatenate([a, b])


def join_pairs(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """One after the other."""
    return np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])


def read(block: Block) -> Rows:
    """The rows themselves: a sample of them, for what the whole must know."""
    return concatenate([s.read() for s in block.labeled])


def join_rows(a: Rows, b: Rows) -> Rows:
    """One after the other."""
    return concatenate([a, b])


SAMPLE_ROWS = 20_000  # rows from which a length scale and the like are learned


@dataclass
class Gathering:
    """The labeled rows of a source, as far as all of them together are needed."""

    source: Source
    engine: Engine
    verbose: int

    def weights(self) -> np.ndarray | None:
        """The weight of every row; None where all weigh the same."""
        if isinstance(self.source, ArraySource):
            return self.source.rows.weights
        if not self.source.weighted:
            return None
        found = self._over_pieces(weights, join_arrays)
        if not np.any(found > 0):
            raise ValueError("sample_weight is zero for every row: give at least one row a positive weight")
        return np.asarray(found)

    def sample(self, alive: np.ndarray) -> Rows:
        """Rows at even steps, from which the kernel's length scale and the like are learned; all rows if few."""
        if isinstance(self.source, ArraySource) and self.source.n_rows <= SAMPLE_ROWS:
            return self.source.rows
        n = min(len(alive), SAMPLE_ROWS)
        return self.read(alive[np.linspace(0, len(alive) - 1, n).astype(np.int64)])

    def read(self, rows: np.ndarray) -> Rows:
        """The rows of the given numbers, which are sorted."""
        return self._over_pieces(read, join_rows, rows=rows)

    def keys(self, rng: np.random.Generator) -> np.ndarray:
        """By what rows are halved: the same from arrays and from files."""
        constants = rng.integers(0, 2**63, self.source.n_features, dtype=np.uint64)
        return ranks(*self._over_pieces(hashes, join_pairs, args=(constants,)))

    def kappa(self, kernel: Kernel, blocks: Sequence[Block]) -> float:
        """√K(x, x) at its largest over all blocks."""
        return self.engine.map_reduce(kappa, blocks, max, args=(kernel,), label="kernel", verbose=self.verbose)

    def _over_pieces(self, fn: Any, combine: Any, args: tuple[Any, ...] = (), rows: np.ndarray | None = None) -> Any:
        """Map over the rows as blocks of one piece each, in order: the way they are read fastest."""
        wanted = np.arange(self.source.n_rows) if rows is None else rows
        pieces = [Block(f"piece {i}", [piece], []) for i, piece in enumerate(self.source.slices(wanted))]
        return self.engine.map_reduce(fn, pieces, combine, args=args, label="reading", verbose=self.verbose)
