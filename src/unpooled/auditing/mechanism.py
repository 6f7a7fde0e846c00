"""Mechanism: something to audit, and what it claims; and neighbouring data sets on which to look at it.

Many draws of the library's own noise are made at once. An audit is as good as the neighbours it looks at. The search
for them is for outputs that are far apart before there is noise on them, which takes no runs: many random starts, then
uphill from the best. The noise is then audited on the pair that was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from .._base.text import quote
from ..privacy.noise import GridGaussian
from .estimate import LEAST_RUNS, check_claim

# What is claimed where the library is audited. A run shows little of a δ that is far below one in the number of runs,
# and little of an ε near zero; the code that is run is the same for every ε and δ.
EPSILON, DELTA = 3.0, 0.01
FEW_RUNS_EPSILON = 1.0  # where every run is a call: few runs can only refute a small ε
RUNS, QUICK_RUNS = 200_000, 6_000  # OpenDP draws about 85,000 numbers a second


def with_noise(noise: GridGaussian, values: Any, runs: int | None = None) -> np.ndarray:
    """``noise.add`` on every row of ``values``, or ``runs`` times on one vector, in one call of the sampler.

    It is the same thing as that many calls: grid and scale stay those of the plan, and ``add`` does the same to every
    number, with noise of its own, whatever numbers stand beside it. ``size`` only says how many it should expect.
    """
    values = np.asarray(values, dtype=np.float64)
    rows = values if runs is None else np.tile(values.ravel(), (runs, 1))
    return replace(noise, size=rows.size).add(rows)


@dataclass(frozen=True)
class Mechanism:
    """Something that says it is (ε, δ)-private.

    Parameters
    ----------
    name : for the table
    release : one data set to one output, a number or an array, with fresh noise every time it is called
    neighbours : S and S', two data sets that the claim says can hardly be told apart, in the form ``release`` takes
    epsilon, delta : the claim
    many : a data set and a number of runs to so many independent outputs, one a row, where that can be had faster
        than by calling ``release`` again and again. It must have the same law
    direction : how outputs differ on average, where that is known; None learns it
    runs, quick_runs : on each data set, in the full and in the quick audit
    fault : whether it is planted, and has to be caught
    note : what is run, and what is taken together in ``many``
    """

    name: str
    release: Callable[[Any], Any]
    neighbours: tuple[Any, Any]
    epsilon: float
    delta: float
    _: KW_ONLY
    many: Callable[[Any, int], np.ndarray] | None = None
    direction: np.ndarray | None = None
    runs: int = 2000
    quick_runs: int = 500
    fault: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name must say what is audited, got {quote(self.name)}")
        if not callable(self.release):
            raise ValueError(f"release must be a function of one data set, got {quote(self.release)}")
        if not isinstance(self.neighbours, tuple) or len(self.neighbours) != 2:
            raise ValueError(f"neighbours must be a tuple of two data sets, got {quote(self.neighbours)}")
        for name, value in zip(("epsilon", "delta"), check_claim(self.epsilon, self.delta)):
            object.__setattr__(self, name, value)

    def runs_of(self, runs: int | None, quick: bool) -> int:
        """How often it runs on each data set."""
        return max(runs if runs is not None else self.quick_runs if quick else self.runs, LEAST_RUNS)

    def outputs(self, data: Any, runs: int) -> np.ndarray:
        """Independent outputs, one a row."""
        if self.many is not None:
            found = np.asarray(self.many(data, runs), dtype=float)
        else:
            found = np.stack([np.asarray(self.release(data), dtype=float).ravel() for _ in range(runs)])
        if len(found) != runs:
            raise ValueError(f"many must return {runs} outputs, one a row, got an array of shape {found.shape}")
        return found.reshape(runs, -1)


Rows = tuple[np.ndarray, np.ndarray]  # X and y
RECORD = 0  # the one that is replaced


@dataclass(frozen=True)
class Neighbours:
    """Two data sets of the same size that differ in one record.

    Attributes
    ----------
    first, second : S and S'
    direction : how their outputs differ before there is noise, where that is known
    distance : how far, in ℓ2 norm
    """

    first: Rows
    second: Rows
    direction: np.ndarray | None = None
    distance: float | None = None


def worst_neighbours(
    noiseless: Callable[[np.ndarray, np.ndarray], np.ndarray],
    n_rows: int,
    n_inputs: int,
    label_bound: float,
    *,
    spread: float = 1.0,
    starts: int = 40,
    steps: int = 120,
    seed: int = 0,
) -> Neighbours:
    """The furthest pair that was found, of data sets (X, y) with labels in ±``label_bound``.

    Every second start replaces the label alone, by its opposite: that is the worst for most sums. Then all numbers of
    the best start, those of the other records too, are moved at random, and what is further apart is kept.

    Parameters
    ----------
    noiseless : X and y to the numbers that would get noise
    n_rows, n_inputs : the size of X
    label_bound : c
    spread : the standard deviation of inputs at the start
    starts, steps : how many pairs are tried at random, and then uphill
    seed : of the search
    """
    rng = np.random.default_rng(seed)
    scale = np.append(np.full(n_inputs, spread), label_bound)

    def pair(candidate: np.ndarray) -> tuple[Rows, Rows]:
        rows = np.concatenate([candidate[:, :-1], np.clip(candidate[:, -1:], -1.0, 1.0)], axis=1) * scale
        one, other = rows[:-1].copy(), rows[:-1].copy()
        other[RECORD] = rows[-1]
        return (one[:, :-1], one[:, -1]), (other[:, :-1], other[:, -1])

    def difference(candidate: np.ndarray) -> np.ndarray:
        first, second = pair(candidate)
        return np.asarray(noiseless(*first) - noiseless(*second), dtype=float).ravel()

    def drawn(flipped: bool) -> np.ndarray:
        candidate = rng.standard_normal((n_rows + 1, n_inputs + 1))
        candidate[:, -1] *= 3.0  # most labels at their bound
        if flipped:
            candidate[-1] = candidate[RECORD] * np.append(np.ones(n_inputs), -1.0)
        return candidate

    tried = [drawn(bool(i % 2)) for i in range(starts)]
    lengths = [float(np.linalg.norm(difference(candidate))) for candidate in tried]
    best, furthest, width = tried[int(np.argmax(lengths))], max(lengths), 1.0
    for _ in range(steps):
        near = best + width * rng.standard_normal(best.shape) * (rng.random(best.shape) < 0.4)
        length = float(np.linalg.norm(difference(near)))
        if length > furthest:
            best, furthest, width = near, length, min(1.5 * width, 3.0)
        else:
            width = max(0.93 * width, 1e-3)
    return Neighbours(*pair(best), difference(best), furthest)
