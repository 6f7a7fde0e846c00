"""One pass over all rows: the sums that every route starts from, and the Gram matrix where one is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array, namespace, to_numpy
from .machine import Machine, Placed


@dataclass
class Sums:
    """Over rows: their number, Σw, Σwy, Σwy², Σwr, Σwyr. Labels of random signs may follow those of the user."""

    n_rows: int
    weight: float
    y: np.ndarray  #: (T + probes,)
    yy: np.ndarray  #: (T + probes,)
    r: Array = field(repr=False)  #: (M,)
    ry: Array = field(repr=False)  #: (M, T + probes)
    gram: Any = field(default=None, repr=False)  #: in the machine's own form

    def __add__(self, other: Sums) -> Sums:
        """Of the rows of both; a Gram matrix is added to by the machine itself, so it is the last one's."""
        return Sums(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.y + other.y,
            self.yy + other.yy,
            self.r + other.r,
            self.ry + other.ry,
            other.gram,
        )


def summed(machine: Machine, chunks: Iterable[Placed], probes: int, gram: bool, so_far: Sums | None = None) -> Sums:
    """All sums over the rows of all chunks, added to those there are so far."""
    for rows in chunks:
        new = _of_rows(machine, rows, probes, gram, so_far)
        so_far = new if so_far is None else so_far + new
    if so_far is None or not so_far.n_rows:
        raise ValueError("there is no row of positive weight to learn from")
    return so_far


def _of_rows(machine: Machine, rows: Placed, probes: int, gram: bool, so_far: Sums | None) -> Sums:
    """Sums of these rows; the Gram matrix is that of all rows so far."""
    n_before, summed_gram = (0, None) if so_far is None else (so_far.n_rows, so_far.gram)
    xp = namespace(rows.Y)
    w = machine.array(np.ones(len(rows))) if rows.weights is None else rows.weights
    Y = rows.Y
    if probes:  # random signs over √w: from the fit of such labels the degrees of freedom can be told
        signs = np.random.default_rng([n_before, probes]).integers(0, 2, size=(len(rows), probes)) * 2.0 - 1.0
        Y = xp.concat([Y, machine.array(signs) / xp.sqrt(w)[:, None]], axis=1)
    weighted = Y * w[:, None]
    V = xp.concat([w[:, None], weighted], axis=1)
    if gram:
        found, summed_gram = machine.add_gram(rows, V, summed_gram)
    else:
        found = machine.cross(rows, V)
    y, yy = to_numpy(xp.sum(weighted, axis=0)), to_numpy(xp.sum(weighted * Y, axis=0))
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(yy))):
        raise ValueError("a sum is too large for a number: bring y or the weights to a smaller scale")
    return Sums(len(rows), float(xp.sum(w)), y, yy, found[:, 0], found[:, 1:], summed_gram)
