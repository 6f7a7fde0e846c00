"""Blocks of rows: the assignment of rows to blocks, the work on one block, and the combination of two results.

The average is f̄ = Σ_j (|D_j|/|D|) f_j (Guo, Lin and Zhou 2017, eq. (3)); with unlabeled rows the weights are
|D*_j|/|D*| (Wang 2018, section 3.3). A block gives its function, or the values of all its candidates on the validation
rows, and two such results are added.

Before blocks are worked on, the weights, a sample of the rows, κ and the hashes of the rows must be known for blocks
together. The engine gathers these block by block as well. All functions here are importable, so that every engine can
call them.

Rows are halved by their content: in the order of a hash of x, and of y among rows of one x. Copies of a row therefore
stay together, and a row of weight two is equivalent to two rows. Only the order of y counts, so a shift of y changes
nothing. A Parquet file is halved exactly as the arrays from which it was written.
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
        """The number of rows of the largest block, labeled and unlabeled."""
        unlabeled = self.unlabeled or [np.empty(0)] * len(self)
        return max(len(rows) + len(own) for rows, own in zip(self.rows, unlabeled))

    def restrict(self, mask: np.ndarray) -> Partition:
        """Return the same blocks with only the labeled rows of a mask."""
        return Partition(self.names, [rows[mask[rows]] for rows in self.rows], self.unlabeled)

    def block_of(self, n_rows: int) -> np.ndarray:
        """Return the number of the block to which each row belongs."""
        owner = np.empty(n_rows, dtype=np.int64)
        for j, rows in enumerate(self.rows):
            owner[rows] = j
        return owner

    def blocks(self, source: Source, unlabeled: Source | None) -> list[Block]:
        """Return references to the data; a block without a labeled row has weight zero and is left out."""
        blocks = []
        for j, (name, rows) in enumerate(zip(self.names, self.rows)):
            if len(rows):
                own = [] if unlabeled is None or self.unlabeled is None else unlabeled.slices(self.unlabeled[j])
                blocks.append(Block(name, source.slices(rows), own))
        return blocks


@dataclass
class Deal:
    """The assignment of rows to blocks: by site or evenly. Rows of weight zero belong to no block."""

    source: Source
    unlabeled: Source | None
    weights: np.ndarray | None
    dealing: np.random.Generator
    spreading: np.random.Generator

    @property
    def weighted_rows(self) -> np.ndarray:
        """The rows whose weight is positive."""
        return np.arange(self.source.n_rows) if self.weights is None else np.flatnonzero(self.weights > 0)

    def deal_by_site(self) -> dict[int, Partition]:
        """Return the one partition into sites."""
        kept, labels = self.weighted_rows, self.source.site_labels
        assert labels is not None
        names, positions = _group_by_label(labels[kept])
        return self._with_unlabeled([Partition(names, [kept[p] for p in positions])])

    def deal_evenly(self, sizes: list[int]) -> dict[int, Partition]:
        """Return a partition for every number of blocks, all cut from the same random order."""
        order = self.source.draw_order(self.dealing)
        if self.weights is not None:
            order = order[self.weights[order] > 0]
        return self._with_unlabeled([Partition([str(j) for j in range(m)], _cut_evenly(order, m)) for m in sizes])

    def _with_unlabeled(self, partitions: list[Partition]) -> dict[int, Partition]:
        by_size = {len(partition): partition for partition in partitions}
        if self.unlabeled is None:
            return by_size
        order = self.unlabeled.draw_order(self.spreading)
        for partition in by_size.values():
            if self.unlabeled.site_labels is not None:
                partition.unlabeled = _group_unlabeled(partition.names, self.unlabeled.site_labels)
            else:
                w = self.weights
                masses = [float(len(rows)) if w is None else float(w[rows].sum()) for rows in partition.rows]
                partition.unlabeled = _deal_in_proportion(order, np.asarray(masses))
        return by_size


def _group_unlabeled(names: list[str], labels: np.ndarray) -> list[np.ndarray]:
    """Return the unlabeled rows of every site; raise an error for a site that has no labeled row."""
    own = dict(zip(*_group_by_label(labels)))
    unknown = sorted(set(own) - set(names))
    if unknown:
        raise ValueError(f"unlabeled_sites names the site {unknown[0]!r}, which has no labeled row")
    return [own.get(name, np.empty(0, dtype=np.int64)) for name in names]


def _cut_evenly(order: np.ndarray, m: int) -> list[np.ndarray]:
    """Cut rows in random order into m blocks whose sizes differ by at most one."""
    return [np.sort(part) for part in np.array_split(order, m)]


def _group_by_label(labels: np.ndarray) -> tuple[list[str], list[np.ndarray]]:
    """Return a block for every label, in sorted order of the labels."""
    names, owner = np.unique(labels, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    cuts = np.cumsum(np.bincount(owner, minlength=len(names)))[:-1]
    return [str(label) for label in names], np.split(order, cuts)


def _deal_in_proportion(order: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """Deal rows to blocks in proportion to ``sizes``, as unlabeled rows without sites are."""
    cuts = np.round(np.cumsum(sizes)[:-1] / np.sum(sizes) * len(order)).astype(int)
    return [np.sort(part) for part in np.split(order, cuts)]


def _ranks(hashes: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Rank rows for halving: by a hash of x, and by y among rows of one x.

    Copies have the same rank: they never lie on both sides of a split, and a row of weight two is equivalent to two
    rows. Only the order of y counts, so a shift of y does not change the split.
    """
    order = np.lexsort((*Y.T, hashes))
    new_x = hashes[order][1:] != hashes[order][:-1]
    new_y = np.any(Y[order][1:] != Y[order][:-1], axis=1)
    ranks_ = np.empty(len(order), dtype=np.int64)
    ranks_[order] = np.concatenate([[0], np.cumsum(new_x | new_y)])
    return ranks_


def mark_validation(owner: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return a mask of the validation rows: every second row of each block, in the order of the keys.

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
    """The sums Σ_j |D_j| f_j(V) for every candidate, shape (n, C, T), and Σ_j |D_j|."""

    values: Floats
    mass: float

    @property
    def mean(self) -> Floats:
        """Return the average f̄(V)."""
        return self.values / self.mass


def add(a: Sum, b: Sum) -> Sum:
    """Add two sums to a new one.

    The arguments stay unchanged: an engine that lost a worker may combine the same two once more.
    """
    return Sum(a.values + b.values, a.mass + b.mass)


def candidates_on(block: Block, local: Local, V: Array, single: bool) -> Sum:
    """Fit every candidate to the block, and return their values on the validation rows V."""
    rows, U = block.read()
    mass = rows.mass + (0 if U is None else U.shape[0])
    values = to_numpy(local.candidates(rows, U, single).predict(V)).astype(np.float64)
    return Sum(mass * values.reshape(len(values), local.n_candidates, -1), mass)


def fit(block: Block, local: Local) -> list[BlockFit]:
    """Fit the block's function at the choice."""
    rows, U = block.read()
    predictor, b = local.fit(rows, U)
    n_unlabeled = 0 if U is None else int(U.shape[0])
    return [BlockFit(block.name, predictor, b, rows.mass + n_unlabeled, len(rows), n_unlabeled)]


def join(a: list[BlockFit], b: list[BlockFit]) -> list[BlockFit]:
    """Join two lists."""
    return a + b


def _kappa(block: Block, kernel: Kernel) -> float:
    """Return the largest √K(x, x) on the block, unlabeled rows included."""
    rows, U = block.read()
    return max(kernel.kappa(rows.X), 0.0 if U is None else kernel.kappa(U))


def _hashes(block: Block, constants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a hash of each row's x, and its labels: the keys by which rows are halved."""
    rows = _read(block)
    return hash_rows(to_numpy(rows.X), constants), to_numpy(rows.Y)


def _weights(block: Block) -> np.ndarray:
    """Return the weights of the rows; rows of weight zero count as absent."""
    return np.asarray(_read(block).weights)


def _join_arrays(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Join two arrays."""
    return np.concatenate([a, b])


def _join_pairs(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Join two pairs of arrays, part by part."""
    return np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])


def _read(block: Block) -> Rows:
    """Return the rows themselves, for a sample of all rows."""
    return concatenate([s.read() for s in block.labeled])


def _join_rows(a: Rows, b: Rows) -> Rows:
    """Join two sets of rows."""
    return concatenate([a, b])


SAMPLE_ROWS = 20_000  # rows from which a length scale and similar parameters are learned


@dataclass
class Gathering:
    """The labeled rows of a source, for what must be known of all blocks together."""

    source: Source
    engine: Engine
    verbose: int

    def weights(self) -> np.ndarray | None:
        """The weight of every row; None if all weights are equal."""
        if isinstance(self.source, ArraySource):
            return self.source.rows.weights
        if not self.source.weighted:
            return None
        weights_ = self._over_pieces(_weights, _join_arrays)
        if not np.any(weights_ > 0):
            raise ValueError("sample_weight is zero for every row: give at least one row a positive weight")
        return np.asarray(weights_)

    def sample(self, weighted_rows: np.ndarray) -> Rows:
        """Return rows at even steps, for the kernel's length scale and similar parameters; all rows if they are few."""
        if isinstance(self.source, ArraySource) and self.source.n_rows <= SAMPLE_ROWS:
            return self.source.rows
        n = min(len(weighted_rows), SAMPLE_ROWS)
        return self.read(weighted_rows[np.linspace(0, len(weighted_rows) - 1, n).astype(np.int64)])

    def read(self, rows: np.ndarray) -> Rows:
        """Return the rows of the given numbers, which are sorted."""
        return self._over_pieces(_read, _join_rows, rows=rows)

    def keys(self, rng: np.random.Generator) -> np.ndarray:
        """Return the keys by which rows are halved, which are the same from arrays and from files."""
        constants = rng.integers(0, 2**63, self.source.n_features, dtype=np.uint64)
        return _ranks(*self._over_pieces(_hashes, _join_pairs, args=(constants,)))

    def kappa(self, kernel: Kernel, blocks: Sequence[Block]) -> float:
        """Return the largest √K(x, x) over all blocks."""
        return self.engine.map_reduce(_kappa, blocks, max, args=(kernel,), label="kernel", verbose=self.verbose)

    def _over_pieces(self, fn: Any, combine: Any, args: tuple[Any, ...] = (), rows: np.ndarray | None = None) -> Any:
        """Map over the rows as blocks of one piece each, in order, which is the fastest way to read them."""
        wanted = np.arange(self.source.n_rows) if rows is None else rows
        pieces = [Block(f"piece {i}", [piece], []) for i, piece in enumerate(self.source.slices(wanted))]
        return self.engine.map_reduce(fn, pieces, combine, args=args, label="reading", verbose=self.verbose)
