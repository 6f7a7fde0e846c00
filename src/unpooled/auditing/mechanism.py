"""Mechanism: something to audit, and what it claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..messages import shown
from .estimate import LEAST_RUNS, check_claim


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
