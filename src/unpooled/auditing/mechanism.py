"""Mechanism: something to audit, and what it claims.

Many draws of the library's own noise are made at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from .._base.text import shown
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
            raise ValueError(f"name must say what is audited, got {shown(self.name)}")
        if not callable(self.release):
            raise ValueError(f"release must be a function of one data set, got {shown(self.release)}")
        if not isinstance(self.neighbours, tuple) or len(self.neighbours) != 2:
            raise ValueError(f"neighbours must be a tuple of two data sets, got {shown(self.neighbours)}")
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
