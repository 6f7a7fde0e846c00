"""Many draws of the library's own noise at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..privacy.noise import GridGaussian

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
