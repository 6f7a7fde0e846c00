"""Private descent simulated on public rows with made-up targets, and shrinkage of coefficients that have noise on them.

The shrinkage takes out of coefficients what noise of known size has added to them, a block of coefficients at a time,
from the noisy coefficients alone.

The simulation says what private descent would reach, and looks at nothing private. Targets are drawn at several
smoothnesses, f = Σ_i λ_i^r g_i e_i with e_i = φ_i/√λ_i the eigenfunctions of the public sample (the source condition
f = L^r g of Qin and Guo 2019, Guo, Lin and Zhou 2017, and Wang and Guo 2024, with g white), and brought to a third of
the label bound. Descent runs on the public rows with the mean over the label noise of the clipped residual, E ψ(u + ξ),
which is what many rows would give. The effects of having n rows and of the privacy noise are added in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from .sgd import within


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


SMOOTHNESS = (0.25, 0.25, 0.5, 0.5, 1.0, 1.0)  # r of each target
NOISE_SHARE = (0.3, 0.05, 0.3, 0.05, 0.3, 0.05)  # of its variance
SPREAD = 1.0 / 3.0  # standard deviation of made-up labels, as a share of the label bound
OFFSET = 0.5  # how far from zero the mean of every other pair of targets is, as a share of the label bound
MOST_ROWS = 500  # public rows that descent is tried on
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)  # at which it is looked at
WORSE = 0.05  # of the score, beyond which it is not followed further


@dataclass(frozen=True)
class Problem:
    """Public facts only.

    Attributes
    ----------
    phi : (m, M), features of public rows
    sizes : (M,), about E φ_i(x)² at a fresh row, descending
    n, mu : private rows, and what may be spent
    label_bound : c
    """

    phi: np.ndarray
    sizes: np.ndarray
    n: int
    mu: float
    label_bound: float

    def targets(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Function values (m, K) at the public rows, and the standard deviation of the labels' noise (K,)."""
        spread, scale = SPREAD * self.label_bound, np.sqrt(self.sizes / max(self.sizes[0], np.finfo(float).tiny))
        found = []
        for k, r in enumerate(SMOOTHNESS):
            # λ^r g e = λ^{r-1/2} g φ; a power of zero is for directions that the sample does not have
            weight = np.where(scale > 1e-7, np.maximum(scale, 1e-7) ** (2 * r - 1), 0.0)
            f = self.phi @ (weight * rng.standard_normal(len(weight)))
            f = f - f.mean()
            f *= spread * math.sqrt(1.0 - NOISE_SHARE[k]) / max(float(f.std()), np.finfo(float).tiny)
            found.append(f + (OFFSET * self.label_bound if k % 4 > 1 else 0.0))
        return np.stack(found, axis=1), spread * np.sqrt(np.asarray(NOISE_SHARE))


@dataclass(frozen=True)
class Way:
    """A way to descend: coordinates z = Dφ, with a constant one where there is an intercept, and the loss."""

    scale: np.ndarray  #: the diagonal of D, for the first directions only
    constant: float  #: the intercept's feature; 0 for none
    kappa: float  #: rows are shrunk to this length
    clip: float
    lam: float = 0.0
    averaged: bool = False
    shrink: bool = True


@dataclass(frozen=True)
class Outcome:
    """How well a way does after a time τ = ηT, as the mean of log(1 - R²) over the targets."""

    time: float
    score: float
    r2: float


def coordinates(phi: np.ndarray, scale: np.ndarray, constant: float = 0.0, kappa: float = math.inf) -> np.ndarray:
    """z = Dφ, shrunk so that with the constant, which comes first, no row is longer than κ."""
    Z = within(phi[:, : len(scale)] * scale, math.sqrt(kappa**2 - constant**2))
    return np.concatenate([np.full((len(Z), 1), constant), Z], axis=1) if constant else Z


def tried(problem: Problem, way: Way, targets: tuple[np.ndarray, np.ndarray]) -> Outcome:
    """The best moment to stop, and what is reached there."""
    best = Outcome(1.0, math.inf, 0.0)
    for outcome in _followed(problem, way, targets):
        if outcome.score < best.score:
            best = outcome
        elif outcome.score > best.score + WORSE:
            break
    return best


def _followed(problem: Problem, way: Way, targets: tuple[np.ndarray, np.ndarray]) -> Iterator[Outcome]:
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
            V = (1.0 - step * way.lam) * V + (step / m) * (Z.T @ mean_clipped(F - Z @ V, noise, way.clip))
            total += V
        done, time = until, step * until
        W = total / done if way.averaged else V
        sigma = np.full(F.shape[1], way.clip * way.kappa * felt(time, way.lam, way.averaged) / problem.n / problem.mu)
        held = factors(W, sigma) if way.shrink else np.ones_like(W)
        missed = np.mean((F - full @ (held * W)) ** 2, axis=0)
        filled = 1.0 - np.exp(-time * spread)  # how far each direction has come: the degrees of freedom
        excess = missed + sigma**2 * (spread @ held**2) + (noise**2 + missed) * float(filled @ filled) / problem.n
        left = np.minimum((excess + noise**2) / (SPREAD * problem.label_bound) ** 2, 1e6)
        yield Outcome(time, float(np.mean(np.log(left))), float(1.0 - np.mean(left)))


def felt(time: float, lam: float, averaged: bool) -> float:
    """What the sensitivity times n is at time τ, in units of the gradient: 2τ, less with weight decay or averaging.

    The continuous form of theorems 3 and 4 of docs/privacy/sgd.md: 2(1 - e^{-λτ})/λ for the last w, τ for the mean.
    """
    last = 2.0 * time if lam == 0 else -2.0 * math.expm1(-lam * time) / lam
    return 0.5 * last if averaged else last


def mean_clipped(u: np.ndarray, sigma: np.ndarray, clip: float) -> np.ndarray:
    """E ψ(u + ξ), ξ ~ N(0, σ²), ψ clipping to [-C, C]: with G(x) = xΦ(x) + φ(x), σ(G((u+C)/σ) - G((u-C)/σ)) - C."""

    def G(x: np.ndarray) -> np.ndarray:
        return x * ndtr(x) + np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)

    return sigma * (G((u + clip) / sigma) - G((u - clip) / sigma)) - clip
