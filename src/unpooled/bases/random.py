"""RandomFeatures: waves of random frequencies, for stationary kernels (Bochner; papers 002 and 004)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from .. import threads
from ..arrays import Array, to_numpy
from ..kernels import as_kernel, sample_frequencies
from ..messages import shown
from .base import Basis
from .empirical import check_size
from .maps import WaveMap
from .scaling import Scaling


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
            raise ValueError(f"seed must be a whole number that is not negative, got {shown(self.seed)}")
        rng = np.random.default_rng(int(self.seed))
        frequencies = sample_frequencies(kernel, math.ceil(M / 2), Z.shape[1], rng)
        odd = bool(M % 2)
        waves = WaveMap(kernel, frequencies, odd)
        C, mean = np.zeros((M, M)), np.zeros(M)
        for rows in threads.row_blocks(len(Z), M):
            block = waves.block(Z[rows])
            mean += w[rows] @ block
            block *= np.sqrt(w[rows])[:, None]
            C += block.T @ block
        eigenvalues, V = scipy.linalg.eigh(C, check_finite=False, driver="evd")
        V = V[:, ::-1]
        kappa_sq = float(kernel.kappa()) ** 2
        map_ = WaveMap(kernel, frequencies, odd, scaling)
        self._accept(map_, V, eigenvalues[::-1].copy(), V.T @ mean, len(Z), kappa_sq)
