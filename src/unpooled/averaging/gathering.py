"""What the whole must know before blocks can be worked on, gathered by the engine: weights, a sample, κ, hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..blocks.arrays import ArraySource
from ..blocks.base import Block, Rows, Source
from ..blocks.partition import keys
from ..engines.base import Engine
from ..kernels import Kernel
from . import rounds

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
        found = self._over_pieces(rounds.weights, rounds.join_arrays)
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
        return self._over_pieces(rounds.read, rounds.join_rows, rows=rows)

    def keys(self, rng: np.random.Generator) -> np.ndarray:
        """By what rows are halved: the same from arrays and from files."""
        constants = rng.integers(0, 2**63, self.source.n_features, dtype=np.uint64)
        return keys(*self._over_pieces(rounds.hashes, rounds.join_pairs, args=(constants,)))

    def kappa(self, kernel: Kernel, blocks: Sequence[Block]) -> float:
        """√K(x, x) at its largest over all blocks."""
        return self.engine.map_reduce(rounds.kappa, blocks, max, args=(kernel,), label="kernel", verbose=self.verbose)

    def _over_pieces(self, fn: Any, combine: Any, args: tuple[Any, ...] = (), rows: np.ndarray | None = None) -> Any:
        """Map over the rows as blocks of one piece each, in order: the way they are read fastest."""
        wanted = np.arange(self.source.n_rows) if rows is None else rows
        pieces = [Block(f"piece {i}", [piece], []) for i, piece in enumerate(self.source.slices(wanted))]
        return self.engine.map_reduce(fn, pieces, combine, args=args, label="reading", verbose=self.verbose)
