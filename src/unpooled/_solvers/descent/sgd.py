"""Stochastic gradient descent on a squared or a clipped loss, from zero, in batches or row by row (Wang and Guo 2024).

    w ← (1 - ηλ) w - (η/b) Σ_{i in B} ψ(⟨w, φ_i⟩ - y_i) φ_i

with ψ the identity or clipping to [-C, C] (Huber's loss). These are pure functions. How far one record can move the
outcome is in :mod:`unpooled.privacy.sgd`, and how far rounding can is in :func:`rounding`; both are proved in
docs/privacy/sgd.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator

import numpy as np

__all__ = ["descend", "drawn", "one_by_one", "rounding", "shuffled", "within"]

Rows = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # row numbers to features and labels


def within(Z: np.ndarray, kappa: float) -> np.ndarray:
    """The rows, those longer than κ shrunk to that length: each by itself, so that no row is felt by another.

    A row that has overflowed becomes zero, and nobody is told: an error or a warning would tell of a record.
    """
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        factors = kappa / np.maximum(lengths, kappa) if math.isfinite(kappa) else np.ones(len(Z))
        return np.where(np.isfinite(lengths)[:, None], Z * factors[:, None], 0.0)


def shuffled(n: int, passes: int, batch_size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The batches of so many passes, each visiting every one of n rows once, in an order of its own."""
    for _ in range(passes):
        order = rng.permutation(n)
        yield from (order[start : start + batch_size] for start in range(0, n, batch_size))


def drawn(n: int, steps: int) -> np.ndarray:
    """Row numbers uniform on 0, …, n-1, with replacement, from the operating system's randomness.

    Whole numbers of 64 bits beyond the last multiple of n are drawn again, so that the law is uniform to the letter.
    """
    limit = 2**64 - 2**64 % n
    found = np.empty(0, dtype=np.uint64)
    while len(found) < steps:
        fresh = np.frombuffer(os.urandom(8 * (steps - len(found))), dtype=np.uint64)
        found = np.concatenate([found, fresh if limit == 2**64 else fresh[fresh < np.uint64(limit)]])
    return (found % np.uint64(n)).astype(np.intp)


def descend(
    rows: Rows,
    batches: Iterable[np.ndarray],
    size: int,
    *,
    step: float,
    batch_size: int,
    clip: float = math.inf,
    lam: float = 0.0,
    averaged: bool = False,
) -> np.ndarray:
    """The last w, or the mean of w after each step. Sums are divided by ``batch_size`` for smaller batches too."""
    w, total, steps = np.zeros(size), np.zeros(size), 0
    for batch in batches:
        phi, y = rows(batch)
        psi = np.clip(phi @ w - y, -clip, clip)
        w = (1.0 - step * lam) * w - (step / batch_size) * (psi @ phi)
        steps += 1
        if averaged:
            total += w
    return total / steps if averaged else w


def one_by_one(phi: np.ndarray, y: np.ndarray, order: np.ndarray, step: float) -> np.ndarray:
    """One row a step, squared loss: the loop of Algorithm 1 of Wang and Guo (2024), from w = 0."""
    w = np.zeros(phi.shape[1])
    labels = y.tolist()
    for i in order.tolist():
        row = phi[i]
        w -= (step * (float(row @ w) - labels[i])) * row
    return w


def rounding(
    steps: int, size: int, batch_size: int, *, step: float, kappa: float, gradient: float, largest: float, label: float
) -> float:
    """How far the computed w can be from that of exact arithmetic, in ℓ2 norm, after T steps in double precision.

    T(ηκγ_{M+2}(κW + c) + ηGγ_{b+4} + 8uW), γ_k = ku/(1 - ku), u = 2⁻⁵³: a step brings no two points further apart, so
    what each step rounds simply adds up (docs/privacy/sgd.md, theorem 5). W bounds |w|, G a row's gradient.
    """
    u = 2.0**-53

    def gamma(k: int) -> float:
        return k * u / (1.0 - k * u)

    W = 1.01 * largest  # the computed iterates may be longer than the exact ones, by far less than this
    residual = step * kappa * gamma(size + 2) * (kappa * W + label)
    return steps * (residual + step * gradient * gamma(batch_size + 4) + 8 * u * W)
