"""To audit: the noise itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..privacy import mu_for, plan
from ..privacy.noise import GridGaussian
from .batches import DELTA, EPSILON, QUICK_RUNS, RUNS, with_noise
from .mechanism import Mechanism


def grid_noise(epsilon: float = EPSILON, delta: float = DELTA, size: int = 3) -> Mechanism:
    """Discrete Gaussian noise on M numbers that one record moves by Δ, all of it."""
    planned = plan(size, 1.0, mu_for(epsilon, delta), bound=10.0)
    return of_noise(f"discrete Gaussian noise, M = {size}", planned, epsilon, delta)


def half_the_noise() -> Mechanism:
    """The same with half the scale that the plan asks for: a fault. It takes the fewest runs to see at a small ε."""
    planned = plan(2, 1.0, mu_for(1.0, DELTA), bound=10.0)
    halved = of_noise("half the noise", replace(planned, scale=planned.scale / 2), 1.0, DELTA)
    return replace(halved, fault=True, quick_runs=4 * QUICK_RUNS)


def of_noise(name: str, planned: GridGaussian, epsilon: float, delta: float) -> Mechanism:
    """Numbers that lie Δ apart in ℓ2 norm, and not along an axis nor on the grid."""
    direction = np.random.default_rng(0).standard_normal(planned.size)
    direction *= planned.sensitivity / np.linalg.norm(direction)
    middle = np.full(planned.size, 0.123)

    def release(values: Any) -> np.ndarray:
        return planned.add(values)

    return Mechanism(
        name,
        release,
        (middle + direction / 2, middle - direction / 2),
        epsilon,
        delta,
        many=lambda values, runs: with_noise(planned, values, runs),
        direction=direction,
        runs=RUNS,
        quick_runs=QUICK_RUNS,
        note="the numbers are fixed, the noise of all runs is drawn in one call",
    )
