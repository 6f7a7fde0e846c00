"""What noise of known size has added to coefficients, taken out again: a block at a time, from the noisy ones alone."""

from __future__ import annotations

import numpy as np


def blocks(size: int, first: int = 4, largest: int = 32) -> list[slice]:
    """Stretches of 0, …, size-1 that grow by half from one to the next, up to the largest."""
    found, start, length = [], 0, first
    while start < size:
        found.append(slice(start, min(start + length, size)))
        start, length = found[-1].stop, min(length * 3 // 2, largest)
    return found


def shrunk(w: np.ndarray, sigma: float) -> np.ndarray:
    """w + noise, each block times (1 - kσ²/|w_block|²)₊, k its size: James and Stein (1961) by blocks (Cai 1999).

    Coefficients should come in descending order of how much they are expected to hold, as those of a basis do: a block
    that noise alone explains becomes zero, one that is far above the noise stays. It looks at noisy numbers only.
    """
    out = w.copy()
    for block in blocks(len(w)):
        energy = float(w[block] @ w[block])
        expected = (block.stop - block.start) * sigma**2
        out[block] *= max(0.0, 1.0 - expected / energy) if energy > expected else 0.0
    return out


def factors(w: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """About what :func:`shrunk` multiplies by, before there is noise: |w|²/(|w|² + kσ²) of each block.

    ``w`` has a column for each of several problems and ``sigma`` a number for each.
    """
    out = np.empty_like(w)
    for block in blocks(len(w)):
        energy = np.sum(w[block] ** 2, axis=0)
        expected = (block.stop - block.start) * sigma**2
        out[block] = energy / np.maximum(energy + expected, np.finfo(float).tiny)
    return out
