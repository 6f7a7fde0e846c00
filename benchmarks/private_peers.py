"""Opponents of the private frontier beside Opacus, each with the settings that are best on the TEST part: a head start.

A peer is a function of a problem and a list of ε that yields a record a cell: its settings and the test R² of several
draws of its noise. Settings are chosen on draws of their own, so that what is reported was not picked for its luck.
Every peer keeps the same promise as ours, (ε, δ)-privacy where neighbours replace one record and n is public.

Everybody has an intercept, a constant as one more feature, which makes |φ(x)|² at most κ²+1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.linalg

import unpooled as up
from private_bench import DELTA, KINDS, SIZES, Bench, Record, explained

# AdaSSP


def adassp_peer(kind: str, bench: Bench, epsilons: Sequence[float], draws: int = 10) -> Iterator[Record]:
    """AdaSSP (Wang 2018, algorithm 2): noisy Σxxᵀ and Σxy, and a ridge that knows how large the noise on Σxxᵀ is.

    x = (φ, 1) with |x| ≤ B, labels clipped to [-c, c], neighbours replace a record. Then λ_min of Σxxᵀ moves by at most
    B², as ±(xxᵀ - zzᵀ) ≤ B² I; Σxxᵀ moves by at most √2·B² in Frobenius norm, and Σxy by at most 2Bc. The Gaussian
    noise is calibrated exactly and the three compose exactly, both better than the paper, and as the norm counts what
    is off the diagonal twice, that gets 1/√2 of the noise. Tuned: the number of features, c, a factor η on the ridge
    (1 is the paper's), and how μ² is shared out (thirds are the paper's).
    """
    sizes, clips, etas = (8, *SIZES), (0.25, 0.5, 0.75, 1.0), np.geomspace(0.003, 3.0, 13)
    shares = ((1 / 3, 1 / 3, 1 / 3), (0.02, 0.49, 0.49), (0.02, 0.78, 0.2), (0.02, 0.2, 0.78))
    sums = {}
    for size in sizes:
        features = bench.features(kind, size if size in SIZES else SIZES[0])
        train, test = (_with_constant(part[:, :size]) for part in (features.train, features.test))
        gram = _in_blocks(train, train)
        labels = np.column_stack([np.clip(bench.data.y, -c, c) for c in clips])
        moments = _in_blocks(train, labels)
        sums[size] = (gram, moments, float(np.linalg.eigvalsh(gram)[0]), test, math.hypot(features.kappa, 1.0))

    def fits(epsilon: float, size: int, share: tuple[float, float, float], rng: np.random.Generator) -> np.ndarray:
        """R² for all clips and η: (4, 13)."""
        gram, moments, smallest, test, B = sums[size]
        M = len(gram)
        mus = up.privacy.composition.split(up.privacy.mu_for(epsilon, DELTA), share)
        scales = B**2 / mus[0], math.sqrt(2.0) * B**2 / mus[1], 2.0 * B * np.asarray(clips) / mus[2]
        tail = math.sqrt(math.log(6.0 / DELTA))
        floor = max(smallest + scales[0] * rng.normal() - tail * scales[0], 0.0)
        noise = np.triu(rng.normal(size=(M, M)), 1) * scales[1] / math.sqrt(2.0)
        noise += noise.T + np.diag(rng.normal(size=M) * scales[1])
        rotated, V = scipy.linalg.eigh(gram + noise, check_finite=False, driver="evd")
        d = V.T @ (moments + rng.normal(size=moments.shape) * scales[2])
        ridges = np.maximum(etas * math.sqrt(M * math.log(2 * M**2 / 0.05)) * scales[1] - floor, 0.0)
        coef = d[:, :, None] / (rotated[:, None, None] + ridges)
        return explained(test @ (V @ coef.reshape(M, -1)), bench.data.y_test).reshape(len(clips), len(etas))

    def chosen(epsilon: float, rng: np.random.Generator) -> tuple[int, Any, int, int]:
        seen: dict[Any, list[np.ndarray]] = {(size, share): [] for size in sizes for share in shares}

        def look(keys: Sequence[Any], draws: int) -> list[Any]:
            """Draw more; the best first. Large ones take long, and vary less."""
            for size, share in keys:
                number = min(draws, max(2, 100 * draws // size))
                seen[size, share] += [fits(epsilon, size, share, rng) for _ in range(number)]
            return sorted(keys, key=lambda key: -np.mean(seen[key], axis=0).max())

        # A noisy Σxxᵀ can be all but singular once in a while: that takes many draws to see.
        best = look(look(look(list(seen), 8)[:8], 24)[:3], 64)[0]
        mean = np.mean(seen[best], axis=0)
        i, j = np.unravel_index(np.argmax(mean), mean.shape)
        return *best, int(i), int(j)

    for epsilon in epsilons:
        started = time.process_time()
        rng = np.random.default_rng([1, KINDS.index(kind), int(1000 * epsilon)])
        size, share, i, j = chosen(epsilon, rng)
        yield {
            "epsilon": epsilon,
            "method": f"AdaSSP, {kind}",
            "settings": {"size": size, "shares": share, "clip": clips[i], "eta": float(etas[j])},
            "r2": [float(fits(epsilon, size, share, rng)[i, j]) for _ in range(draws)],
            "seconds": time.process_time() - started,
        }


def _with_constant(phi: np.ndarray) -> np.ndarray:
    return np.column_stack([phi, np.ones(len(phi), dtype=phi.dtype)])


def _in_blocks(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """AᵀB in double precision, a block of rows at a time."""
    blocks = np.array_split(np.arange(len(A)), len(A) // 10_000 + 1)
    return sum(A[rows].astype(float).T @ B[rows].astype(float) for rows in blocks)


# One-round LESS


def less_peer(bench: Bench, epsilons: Sequence[float], draws: int = 10) -> Iterator[Record]:
    """One round of LESS: d = (1/n) Σ y x with noise s = 2cB/(nμ), then (C + λ)⁻¹ d with C = E xxᵀ of the public sample.

    x = (φ, 1) with |x| ≤ B; replacing a record moves Σyx by at most 2cB. In the eigenvectors of C, which rotate the
    noise into noise of the same law, it is d_i/(λ_i + λ). Tuned: the number of features, c and λ.
    """
    sizes, clips, lams = (4, 8, *SIZES), np.asarray([0.2, 0.35, 0.5, 0.7, 1.0]), np.geomspace(1e-7, 3.0, 31)
    parts = {}
    for size in sizes:
        features = bench.features("empirical", size if size in SIZES else SIZES[0])
        train, test = (_with_constant(part[:, :size]) for part in (features.train, features.test))
        mean = features.mean[:size]
        C = np.block([[np.diag(features.eigenvalues[:size]), mean[:, None]], [mean[None], np.ones((1, 1))]])
        eigenvalues, V = np.linalg.eigh(C)
        labels = np.column_stack([np.clip(bench.data.y, -c, c) for c in clips])
        d = V.T @ _in_blocks(train, labels) / len(train)
        parts[size] = (np.maximum(eigenvalues, 0.0), d, test.astype(float) @ V, math.hypot(features.kappa, 1.0))

    def fits(epsilon: float, size: int, rng: np.random.Generator) -> np.ndarray:
        eigenvalues, d, test, B = parts[size]
        scale = 2.0 * clips * B / (len(bench.data.y) * up.privacy.mu_for(epsilon, DELTA))
        coef = (d + rng.normal(size=d.shape) * scale)[:, :, None] / (eigenvalues[:, None, None] + lams)
        return explained(test @ coef.reshape(len(coef), -1), bench.data.y_test).reshape(len(clips), len(lams))

    for epsilon in epsilons:
        started = time.process_time()
        rng = np.random.default_rng([2, int(1000 * epsilon)])
        found = {size: np.mean([fits(epsilon, size, rng) for _ in range(10)], axis=0) for size in sizes}
        size = max(sizes, key=lambda s: found[s].max())
        i, j = np.unravel_index(np.argmax(found[size]), found[size].shape)
        yield {
            "epsilon": epsilon,
            "method": "LESS, one round",
            "settings": {"size": size, "clip": float(clips[i]), "lam": float(lams[j])},
            "r2": [float(fits(epsilon, size, rng)[i, j]) for _ in range(draws)],
            "seconds": time.process_time() - started,
        }


# Wang and Guo (2024), Algorithm 1


def algorithm_1_peer(bench: Bench, epsilons: Sequence[float], draws: int = 10) -> Iterator[Record]:
    """Algorithm 1 of Wang and Guo (2024), mended: a row a step drawn with replacement, noise on the last iterate.

    Its sensitivity holds but with probability δ/2, and the noise is (ε, δ/2)-private. Tuned: the number of random
    features, η, and the number of steps. It gets waves in pairs, whose norm is κ and not √2·κ like the paper's.
    """
    n, y = len(bench.data.y), np.clip(bench.data.y, -1.0, 1.0)
    sizes, visits = (30, 100, 400), (0.1, 1.0, 3.0)
    kappa = math.sqrt(2.0)  # with the constant
    steps = [max(1, round(n * share)) for share in visits]
    etas = np.geomspace(1e-6, 1.0 / kappa**2, 24)
    last, tests = {}, {}
    for size in sizes:
        features = bench.features("random", size)
        train = _with_constant(features.train).astype(float)
        tests[size] = _with_constant(features.test).astype(float)
        W = np.zeros((len(etas), train.shape[1]))
        for t, row in enumerate(np.random.default_rng(size).integers(n, size=max(steps)), start=1):
            x = train[row]
            W -= (etas * (W @ x - y[row]))[:, None] * x
            if t in steps:
                last[size, t] = W.copy()

    def fits(epsilon: float, size: int, t: int, rng: np.random.Generator) -> np.ndarray:
        moved = [up.privacy.sgd.wang_guo(n, t, float(eta), 1.0, kappa, DELTA / 2) for eta in etas]
        scale = up.privacy.sigma_for(epsilon, DELTA / 2) * np.asarray(moved)
        W = last[size, t] + rng.normal(size=last[size, t].shape) * scale[:, None]
        return explained(tests[size] @ W.T, bench.data.y_test)

    for epsilon in epsilons:
        started = time.process_time()
        rng = np.random.default_rng([3, int(1000 * epsilon)])
        found = {key: np.mean([fits(epsilon, *key, rng) for _ in range(16)], axis=0) for key in last}
        key = max(found, key=lambda k: found[k].max())
        i = int(np.argmax(found[key]))
        yield {
            "epsilon": epsilon,
            "method": "Algorithm 1",
            "settings": {"size": key[0], "steps": key[1], "eta": float(etas[i])},
            "r2": [float(fits(epsilon, *key, rng)[i]) for _ in range(draws)],
            "seconds": time.process_time() - started,
        }


# Without privacy


def not_private_peer(kind: str, bench: Bench) -> Iterator[Record]:
    """Ridge regression on the features with an intercept that is not penalised; λ is the best on the test part."""
    started = time.process_time()
    lams = np.geomspace(1e-10, 1.0, 41)
    features = bench.features(kind, max(SIZES))
    n, y = len(bench.data.y), bench.data.y
    mean = features.train.mean(axis=0, dtype=float)
    C = _in_blocks(features.train, features.train) / n - np.outer(mean, mean)
    d = _in_blocks(features.train, y[:, None])[:, 0] / n - mean * y.mean()
    eigenvalues, V = np.linalg.eigh(C)
    coef = V @ ((V.T @ d)[:, None] / (np.maximum(eigenvalues, 0.0)[:, None] + lams))
    found = explained((features.test - mean) @ coef + y.mean(), bench.data.y_test)
    yield {
        "epsilon": None,
        "method": f"not private, {kind}",
        "settings": {"size": features.size, "lam": float(lams[np.argmax(found)])},
        "r2": [float(found.max())],
        "seconds": time.process_time() - started,
    }
