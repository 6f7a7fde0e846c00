"""The work on a block, and how the results of two blocks combine. All of it importable, for every engine.

f̄ = Σ_j (|D_j|/|D|) f_j (Guo, Lin and Zhou 2017, (3)); with unlabeled rows the weights are |D*_j|/|D*| (Wang 2018, 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, to_numpy
from ..blocks.arrays import row_hash
from ..blocks.base import Block, Rows, concatenate
from ..filters import Floats
from ..kernels import Kernel
from .local import Fitted, Local


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
