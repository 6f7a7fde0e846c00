"""The work on one block and how the results of two blocks combine, and the facts gathered from all blocks beforehand.

The average is f̄ = Σ_j (|D_j|/|D|) f_j (Guo, Lin and Zhou 2017, (3)); with unlabeled rows the weights are |D*_j|/|D*|
(Wang 2018, 3.3). A block gives its function, or the values of all its candidates on the validation rows, and two such
results are added.

Before blocks can be worked on, the whole has to know the weights, a sample of the rows, κ and the hashes of the rows.
The engine gathers these block by block as well. All functions here are importable, so that every engine can call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base.arrays import Array, Floats, to_numpy
from ..._base.engine import Engine
from ..._base.rows import ArraySource, Block, Rows, Source, concatenate, row_hash
from ...kernels import Kernel
from .local import Fitted, Local
from .partition import keys


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


def fit(block: Block, local: Local) -> list[Fitted]:
    """The block's function at the choice."""
    rows, U = block.read()
    predictor, b = local.fit(rows, U)
    n_unlabeled = 0 if U is None else int(U.shape[0])
    return [Fitted(block.name, predictor, b, rows.mass + n_unlabeled, len(rows), n_unlabeled)]


def join(a: list[Fitted], b: list[Fitted]) -> list[Fitted]:
    """One after the other."""
    return a + b


def kappa(block: Block, kernel: Kernel) -> float:
    """√K(x, x) at its largest on the block, unlabeled rows included."""
    rows, U = block.read()
    return max(kernel.kappa(rows.X), 0.0 if U is None else kernel.kappa(U))


def hashes(block: Block, constants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number that stands for each row x, and its labels: by these the rows are halved."""
    rows = read(block)
    return row_hash(to_numpy(rows.X), constants), to_numpy(rows.Y)


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
        return keys(*self._over_pieces(hashes, join_pairs, args=(constants,)))

    def kappa(self, kernel: Kernel, blocks: Sequence[Block]) -> float:
        """√K(x, x) at its largest over all blocks."""
        return self.engine.map_reduce(kappa, blocks, max, args=(kernel,), label="kernel", verbose=self.verbose)

    def _over_pieces(self, fn: Any, combine: Any, args: tuple[Any, ...] = (), rows: np.ndarray | None = None) -> Any:
        """Map over the rows as blocks of one piece each, in order: the way they are read fastest."""
        wanted = np.arange(self.source.n_rows) if rows is None else rows
        pieces = [Block(f"piece {i}", [piece], []) for i, piece in enumerate(self.source.slices(wanted))]
        return self.engine.map_reduce(fn, pieces, combine, args=args, label="reading", verbose=self.verbose)
