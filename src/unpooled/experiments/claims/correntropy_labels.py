"""What the experiments on correntropy's scale and on its averages share: the number of steps, and wrong labels."""

from __future__ import annotations

import numpy as np

from ... import theory
from ..problems import Target


def steps(target: Target, first: int, n: int, noise: float) -> int:
    """T: what κ²/λ of the population stands for at the first N, then growing like N^{1/(2r+s)}."""
    start = target.known.kappa_sq / target.best_lam("landweber", first, noise)
    growth = theory.lam(first, target.r, target.known.beta) / theory.lam(n, target.r, target.known.beta)
    return max(1, round(start * growth))


def spoiled(rng: np.random.Generator, Y: np.ndarray, share: float) -> np.ndarray:
    """A share of the labels moved up by 5 to 15."""
    off = rng.uniform(5, 15, Y.shape)
    return np.where(rng.random(Y.shape) < share, Y + off, Y)
