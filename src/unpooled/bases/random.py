"""RandomFeatures: waves of random frequencies, for stationary kernels (Bochner; Wang 2018; Wang and Guo 2024)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from .._base import threads
from .._base.arrays import Array, to_numpy
from .._base.checks import check_size
from .._base.text import quote
from ..kernels import Kernel, as_kernel, sample_frequencies
from .base import Basis
from .maps import CosineMap, Scaling, WaveMap


class RandomFeatures(Basis):
    """M random waves with E φ(x)ᵀφ(z) = K(x, z) and |φ(x)|² ≤ κ², rotated to the public sample's covariance.

    Half of them are κ√(2/M) cos(w_jᵀx), half the sines, w_j drawn from the kernel's spectral measure. They need no
    public rows to be kept, and they do not know where the data lie: for the same M they fit less well than
    :class:`EmpiricalFeatures`.

    Parameters
    ----------
    kernel : Kernel, str or None
        A stationary kernel (Gaussian, Laplacian, Matern, sums and products of them). None is ``Gaussian("median")``.
    n_features : int, default 500
    seed : int, default 0
        Draws the frequencies.
    standardize : bool, default False
        Bring every input to the mean and standard deviation it has on the public sample first.
    """

    def __init__(self, kernel: Any = None, n_features: int = 500, seed: Any = 0, standardize: bool = False) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.seed = seed
        self.standardize = standardize

    def _learn(self, U: Array, weights: np.ndarray | None) -> None:
        M = check_size(self.n_features, auto=False)
        assert M is not None
        U = to_numpy(U).astype(np.float64)
        w = np.full(len(U), 1.0 / len(U)) if weights is None else weights / weights.sum()
        scaling = Scaling.of(U, weights) if self.standardize else None
        Z = U if scaling is None else scaling.apply(U)
        kernel = as_kernel(self.kernel).resolve(Z, weights)
        if not (isinstance(self.seed, (int, np.integer)) and self.seed >= 0) or isinstance(self.seed, bool):
            raise ValueError(f"seed must be a whole number that is not negative, got {quote(self.seed)}")
        rng = np.random.default_rng(int(self.seed))
        waves = self._draw(kernel, M, Z.shape[1], rng)
        C, mean = np.zeros((M, M)), np.zeros(M)
        for rows in threads.cut_row_blocks(len(Z), M):
            block = waves.block(Z[rows])
            mean += w[rows] @ block
            block *= np.sqrt(w[rows])[:, None]
            C += block.T @ block
        eigenvalues, V = scipy.linalg.eigh(C, check_finite=False, driver="evd")
        V = V[:, ::-1]
        scaled = replace(waves, scaling=scaling)
        self._accept(scaled, V, eigenvalues[::-1].copy(), V.T @ mean, len(Z), waves.kappa_sq)

    def _draw(self, kernel: Kernel, M: int, d: int, rng: np.random.Generator) -> WaveMap | CosineMap:
        return WaveMap(kernel, sample_frequencies(kernel, math.ceil(M / 2), d, rng), bool(M % 2))


class CosineFeatures(RandomFeatures):
    """The random features of Wang and Guo (2024, example 2.1): κ√(2/M) cos(w_jᵀx + b_j), b_j uniform on [0, 2π].

    E φ(x)ᵀφ(z) = K(x, z) as for :class:`RandomFeatures`, but |φ(x)|² may reach 2κ²: the norm is not the same for all x,
    and whatever is proved with its bound is proved with one that is larger by √2. They are here to reproduce paper 004.
    The rotation to the public sample's covariance changes neither norms nor angles, so descent from zero and noise
    that is alike in all directions do not feel it.

    Parameters
    ----------
    kernel : Kernel or None
        A stationary kernel; None is ``Gaussian("median")``.
    n_features : int, default 500
    seed : int, default 0
        Draws the waves.
    standardize : bool, default False
        Bring every input to the mean and standard deviation it has on the public sample.
    """

    def _draw(self, kernel: Kernel, M: int, d: int, rng: np.random.Generator) -> CosineMap:
        frequencies = sample_frequencies(kernel, M, d, rng)
        return CosineMap(kernel, frequencies, rng.uniform(0.0, 2.0 * math.pi, M))
