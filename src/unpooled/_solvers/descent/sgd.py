"""Stochastic gradient descent on a squared or a clipped loss, from zero, in batches or row by row (Wang and Guo 2024).

    w ← (1 - ηλ) w - (η/b) Σ_{i in B} ψ(⟨w, φ_i⟩ - y_i) φ_i

with ψ the identity or clipping to [-C, C] (Huber's loss). These are pure functions. How far one record can move the
outcome is in :mod:`unpooled.privacy.sgd`, and how far rounding can is in :func:`rounding_error`; both are proved in
docs/privacy/sgd.md.

The shrinkage (:func:`shrink`) reduces the effect of noise of known size on coefficients, one block of coefficients at a
time, using nothing but the noisy coefficients.

The simulation (:func:`find_best_stop`) predicts how well private descent would do from public rows and made-up targets,
and reads nothing private. Targets are drawn at several smoothnesses, f = Σ_i λ_i^r g_i e_i with e_i = φ_i/√λ_i the
eigenfunctions of the public sample (the source condition f = L^r g of Qin and Guo 2019, Guo, Lin and Zhou 2017, and
Wang and Guo 2024, with g white), and brought to a third of the label bound. Descent runs on the public rows with the
mean over the label noise of the clipped residual, E ψ(u + ξ), which is the limit for many rows. The effects of the
finite n and of the privacy noise are added in closed form.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

_Rows = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # row numbers to features and labels


def clip_rows(Z: np.ndarray, kappa: float) -> np.ndarray:
    """Shrink rows that are longer than κ to that length, each by itself, so that no row affects another row's features.

    A row that has overflowed becomes zero silently: an error or a warning would reveal something about a record.
    """
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        factors = kappa / np.maximum(lengths, kappa) if math.isfinite(kappa) else np.ones(len(Z))
        return np.where(np.isfinite(lengths)[:, None], Z * factors[:, None], 0.0)


def draw_shuffled(n: int, passes: int, batch_size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Give the batches of so many passes; each pass visits every one of n rows once, in a new order."""
    for _ in range(passes):
        order = rng.permutation(n)
        yield from (order[start : start + batch_size] for start in range(0, n, batch_size))


def draw_rows(n: int, steps: int) -> np.ndarray:
    """Draw row numbers uniformly from 0, …, n-1, with replacement, with the operating system's randomness.

    64-bit whole numbers beyond the last multiple of n are drawn again, so that the distribution is exactly uniform.
    """
    limit = 2**64 - 2**64 % n
    numbers = np.empty(0, dtype=np.uint64)
    while len(numbers) < steps:
        fresh = np.frombuffer(os.urandom(8 * (steps - len(numbers))), dtype=np.uint64)
        numbers = np.concatenate([numbers, fresh if limit == 2**64 else fresh[fresh < np.uint64(limit)]])
    return (numbers % np.uint64(n)).astype(np.intp)


def descend(
    rows: _Rows,
    batches: Iterable[np.ndarray],
    size: int,
    *,
    step: float,
    batch_size: int,
    clip: float = math.inf,
    lam: float = 0.0,
    averaged: bool = False,
) -> np.ndarray:
    """Return the last w, or the mean of w after each step. Sums are divided by ``batch_size`` in small batches too."""
    w, total, steps = np.zeros(size), np.zeros(size), 0
    for batch in batches:
        phi, y = rows(batch)
        psi = np.clip(phi @ w - y, -clip, clip)
        w = (1.0 - step * lam) * w - (step / batch_size) * (psi @ phi)
        steps += 1
        if averaged:
            total += w
    return total / steps if averaged else w


def descend_one_by_one(phi: np.ndarray, y: np.ndarray, order: np.ndarray, step: float) -> np.ndarray:
    """Descend by one row per step with squared loss: the loop of Wang and Guo (2024), Algorithm 1, from w = 0."""
    w = np.zeros(phi.shape[1])
    labels = y.tolist()
    for i in order.tolist():
        row = phi[i]
        w -= (step * (float(row @ w) - labels[i])) * row
    return w


def rounding_error(
    steps: int, size: int, batch_size: int, *, step: float, kappa: float, gradient: float, largest: float, label: float
) -> float:
    """Bound the distance of the computed w from that of exact arithmetic, in ℓ2 norm, after T double-precision steps.

    It is T(ηκγ_{M+2}(κW + c) + ηGγ_{b+4} + 8uW), γ_k = ku/(1 - ku), u = 2⁻⁵³: a step moves no two points further apart,
    so the roundings of the steps simply add up (docs/privacy/sgd.md, theorem 5). W bounds |w|, G a row's gradient.
    """
    u = 2.0**-53

    def gamma(k: int) -> float:
        return k * u / (1.0 - k * u)

    W = 1.01 * largest  # the computed iterates may be longer than the exact ones, but by far less than this
    residual = step * kappa * gamma(size + 2) * (kappa * W + label)
    return steps * (residual + step * gradient * gamma(batch_size + 4) + 8 * u * W)


def _shrinkage_blocks(size: int) -> list[slice]:
    """Cut 0, …, size-1 into stretches whose length grows by half from one to the next, from 4 to 32."""
    stretches, start, length = [], 0, 4
    while start < size:
        stretches.append(slice(start, min(start + length, size)))
        start, length = stretches[-1].stop, min(length * 3 // 2, 32)
    return stretches


def shrink(w: np.ndarray, sigma: float) -> np.ndarray:
    """Multiply each block of w + noise by (1 - kσ²/|w_block|²)₊, k its size (James and Stein 1961; blocks: Cai 1999).

    Coefficients should come in descending order of their expected size, as those of a basis do: a block that noise
    alone explains becomes zero, one that is far above the noise stays. Only noisy numbers are used.
    that noise alone explains becomes zero, one that is far above the noise stays. It looks at noisy numbers only.
    """
    out = w.copy()
    for block in _shrinkage_blocks(len(w)):
        energy = float(w[block] @ w[block])
        expected = (block.stop - block.start) * sigma**2
        out[block] *= max(0.0, 1.0 - expected / energy) if energy > expected else 0.0
    return out


def _shrinkage_factors(w: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Return about the factors of :func:`shrink` before there is noise: |w|²/(|w|² + kσ²) of each block.

    ``w`` has a column for each of several problems and ``sigma`` a number for each.
    """
    out = np.empty_like(w)
    for block in _shrinkage_blocks(len(w)):
        energy = np.sum(w[block] ** 2, axis=0)
        expected = (block.stop - block.start) * sigma**2
        out[block] = energy / np.maximum(energy + expected, np.finfo(float).tiny)
    return out


SMOOTHNESS = (0.25, 0.25, 0.5, 0.5, 1.0, 1.0)  # r of each target
NOISE_SHARE = (0.3, 0.05, 0.3, 0.05, 0.3, 0.05)  # of its variance
SPREAD = 1.0 / 3.0  # standard deviation of made-up labels, as a share of the label bound
OFFSET = 0.5  # how far from zero the mean of every other pair of targets is, as a share of the label bound
MOST_ROWS = 500  # public rows on which descent is simulated
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)  # at which it is scored
WORSE = 0.05  # by how much the score may worsen before the simulation ends


@dataclass(frozen=True)
class Problem:
    """The public facts of a simulation.

    Attributes
    ----------
    phi : (m, M), features of public rows
    sizes : (M,), about E φ_i(x)² at a fresh row, descending
    n, mu : number of private rows, and the budget
    label_bound : c
    """

    phi: np.ndarray
    sizes: np.ndarray
    n: int
    mu: float
    label_bound: float

    def targets(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw function values (m, K) at the public rows, and the standard deviation of the labels' noise (K,)."""
        spread, scale = SPREAD * self.label_bound, np.sqrt(self.sizes / max(self.sizes[0], np.finfo(float).tiny))
        values = []
        for k, r in enumerate(SMOOTHNESS):
            # λ^r g e = λ^{r-1/2} g φ; a power of zero is for directions that the sample does not have
            weight = np.where(scale > 1e-7, np.maximum(scale, 1e-7) ** (2 * r - 1), 0.0)
            f = self.phi @ (weight * rng.standard_normal(len(weight)))
            f = f - f.mean()
            f *= spread * math.sqrt(1.0 - NOISE_SHARE[k]) / max(float(f.std()), np.finfo(float).tiny)
            values.append(f + (OFFSET * self.label_bound if k % 4 > 1 else 0.0))
        return np.stack(values, axis=1), spread * np.sqrt(np.asarray(NOISE_SHARE))


@dataclass(frozen=True)
class DescentVariant:
    """A variant of the descent: coordinates z = Dφ, with a constant one if there is an intercept, and the loss."""

    scale: np.ndarray  #: the diagonal of D, for the first directions only
    constant: float  #: the intercept's feature; 0 for none
    kappa: float  #: the length to which rows are shrunk
    clip: float
    lam: float = 0.0
    averaged: bool = False
    shrink: bool = True


@dataclass(frozen=True)
class _Outcome:
    """The result of a variant after a time τ = ηT, as the mean of log(1 - R²) over the targets."""

    time: float
    score: float
    r2: float


def coordinates(phi: np.ndarray, scale: np.ndarray, constant: float = 0.0, kappa: float = math.inf) -> np.ndarray:
    """Return z = Dφ, shrunk so that with the constant, which comes first, no row is longer than κ."""
    Z = clip_rows(phi[:, : len(scale)] * scale, math.sqrt(kappa**2 - constant**2))
    return np.concatenate([np.full((len(Z), 1), constant), Z], axis=1) if constant else Z


def find_best_stop(problem: Problem, way: DescentVariant, targets: tuple[np.ndarray, np.ndarray]) -> _Outcome:
    """Return the best time to stop, and the result at that time."""
    best = _Outcome(1.0, math.inf, 0.0)
    for outcome in _follow(problem, way, targets):
        if outcome.score < best.score:
            best = outcome
        elif outcome.score > best.score + WORSE:
            break
    return best


def _follow(problem: Problem, way: DescentVariant, targets: tuple[np.ndarray, np.ndarray]) -> Iterator[_Outcome]:
    F, noise = targets
    full = coordinates(problem.phi, way.scale, way.constant)
    Z = coordinates(problem.phi, way.scale, way.constant, way.kappa)
    m, spread = len(Z), np.mean(full**2, axis=0)
    top = float(np.linalg.norm(Z.T @ Z / m, 2)) if m else 0.0
    step = 1.0 / (top + way.lam) if top + way.lam > 0 else 1.0
    V, total = np.zeros((Z.shape[1], F.shape[1])), np.zeros((Z.shape[1], F.shape[1]))
    done = 0
    for until in STEPS:
        for _ in range(until - done):
            V = (1.0 - step * way.lam) * V + (step / m) * (Z.T @ _mean_of_clipped(F - Z @ V, noise, way.clip))
            total += V
        done, time = until, step * until
        W = total / done if way.averaged else V
        sigma = np.full(
            F.shape[1], way.clip * way.kappa * _unit_sensitivity(time, way.lam, way.averaged) / problem.n / problem.mu
        )
        held = _shrinkage_factors(W, sigma) if way.shrink else np.ones_like(W)
        missed = np.mean((F - full @ (held * W)) ** 2, axis=0)
        filled = 1.0 - np.exp(-time * spread)  # how far each direction has come: the degrees of freedom
        excess = missed + sigma**2 * (spread @ held**2) + (noise**2 + missed) * float(filled @ filled) / problem.n
        left = np.minimum((excess + noise**2) / (SPREAD * problem.label_bound) ** 2, 1e6)
        yield _Outcome(time, float(np.mean(np.log(left))), float(1.0 - np.mean(left)))


def _unit_sensitivity(time: float, lam: float, averaged: bool) -> float:
    """Return n times the sensitivity at time τ, in units of the gradient: 2τ, less with weight decay or averaging.

    The continuous form of theorems 3 and 4 in docs/privacy/sgd.md is 2(1 - e^{-λτ})/λ for the last w, τ for the mean.
    """
    last = 2.0 * time if lam == 0 else -2.0 * math.expm1(-lam * time) / lam
    return 0.5 * last if averaged else last


def _mean_of_clipped(u: np.ndarray, sigma: np.ndarray, clip: float) -> np.ndarray:
    """Return E ψ(u + ξ), ξ ~ N(0, σ²), ψ clipping to [-C, C]: σ(G((u+C)/σ) - G((u-C)/σ)) - C, G(x) = xΦ(x) + φ(x)."""

    def G(x: np.ndarray) -> np.ndarray:
        return x * ndtr(x) + np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)

    return sigma * (G((u + clip) / sigma) - G((u - clip) / sigma)) - clip
