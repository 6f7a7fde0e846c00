"""Partitions of rows into blocks, and the halving of blocks.

Rows are halved by their content: in the order of a hash of x, and of y among rows of one x. Copies of a row therefore
stay together, and a row of weight two is as good as two rows. Only the order of y counts, so a shift of y changes
nothing. A Parquet file is halved exactly as the arrays that it was written from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._base.rows import Block, Source


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
        names, positions = by_label(labels[alive])
        return self._with_unlabeled([Partition(names, [alive[p] for p in positions])])

    def evenly(self, sizes: list[int]) -> dict[int, Partition]:
        """A partition for every number of blocks, all cut from the same random order."""
        order = self.source.order(self.dealing)
        if self.weights is not None:
            order = order[self.weights[order] > 0]
        return self._with_unlabeled([Partition([str(j) for j in range(m)], even(order, m)) for m in sizes])

    def _with_unlabeled(self, partitions: list[Partition]) -> dict[int, Partition]:
        found = {len(partition): partition for partition in partitions}
        if self.unlabeled is None:
            return found
        order = self.unlabeled.order(self.spreading)
        for partition in found.values():
            if self.unlabeled.site_labels is not None:
                partition.unlabeled = of_sites(partition.names, self.unlabeled.site_labels)
            else:
                w = self.weights
                masses = [float(len(rows)) if w is None else float(w[rows].sum()) for rows in partition.rows]
                partition.unlabeled = in_proportion(order, np.asarray(masses))
        return found


def of_sites(names: list[str], labels: np.ndarray) -> list[np.ndarray]:
    """The unlabeled rows of every site; a site that has no labeled row is an error."""
    own = dict(zip(*by_label(labels)))
    unknown = sorted(set(own) - set(names))
    if unknown:
        raise ValueError(f"unlabeled_sites names the site {unknown[0]!r}, which has no labeled row")
    return [own.get(name, np.empty(0, dtype=np.int64)) for name in names]


def even(order: np.ndarray, m: int) -> list[np.ndarray]:
    """m blocks whose sizes differ by at most one, cut from rows in random order."""
    return [np.sort(part) for part in np.array_split(order, m)]


def by_label(labels: np.ndarray) -> tuple[list[str], list[np.ndarray]]:
    """A block for every label, in sorted order of the labels."""
    found, owner = np.unique(labels, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    cuts = np.cumsum(np.bincount(owner, minlength=len(found)))[:-1]
    return [str(label) for label in found], np.split(order, cuts)


def in_proportion(order: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """Rows dealt to blocks in proportion to ``sizes``: how unlabeled rows without sites are spread."""
    cuts = np.round(np.cumsum(sizes)[:-1] / np.sum(sizes) * len(order)).astype(int)
    return [np.sort(part) for part in np.split(order, cuts)]


def keys(hashes: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """A rank for every row, by which rows are halved: the order of a hash of x, and of y among rows of one x.

    Copies have the same rank: they never lie on both sides of a split, and a row of weight two is as good as two
    rows. Only the order of y counts, so a shift of y splits alike.
    """
    order = np.lexsort((*Y.T, hashes))
    new_x = hashes[order][1:] != hashes[order][:-1]
    new_y = np.any(Y[order][1:] != Y[order][:-1], axis=1)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.concatenate([[0], np.cumsum(new_x | new_y)])
    return ranks


def held_out(owner: np.ndarray, keys: np.ndarray) -> np.ndarray:
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
