"""The centred reproducing kernel (Wang 2018, chapter 2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base.arrays import Array, like, namespace, to_numpy
from .._base.text import quote
from .base import Kernel


class Centered(Kernel):
    """The kernel K̂: a kernel K centred with respect to a (weighted) sample u_1, …, u_n.

    K̂(x, z) = K(x, z) - Σ_i w_i K(u_i, z) - Σ_i w_i K(x, u_i) + Σ_ij w_i w_j K(u_i, u_j), Σ w_i = 1.

    Then Σ_i w_i K̂(u_i, ·) = 0, zero is the only constant in the space of K̂, and centring again on the same sample
    changes nothing (Wang 2018, Lemma 2.2).

    Parameters
    ----------
    kernel : Kernel
    sample : array of shape (n, d)
        The points u_i.
    weights : array of n non-negative numbers, or None
        None gives every point the same weight. Only the ratios of the weights matter.
    """

    def __init__(self, kernel: Kernel, sample: Any, weights: Any = None) -> None:
        self.kernel = kernel
        self.sample = sample
        self.weights = weights

    _stored_grand_mean: float | None = None

    @property
    def positive_definite(self) -> bool:  # type: ignore[override]
        return self.kernel.positive_definite

    by_columns = False  # the mean would have to be computed again for every column

    def _convert_sample(self, reference: Array) -> Array:
        """Bring the sample to the array library, the device and the dtype of the reference."""
        sample = like(self.sample, reference)
        if sample.ndim != 2 or sample.shape[1] != reference.shape[1]:
            raise ValueError(f"sample must have {reference.shape[1]} columns like X, got shape {tuple(sample.shape)}")
        return sample

    def _check_weights(self, reference: Array) -> Array:
        n = np.shape(self.sample)[0]
        try:
            w = np.ones(n) if self.weights is None else np.asarray(to_numpy(self.weights), dtype=float)
        except (TypeError, ValueError):
            w = np.full(n, np.nan)
        if w.shape != (n,) or not np.all(np.isfinite(w)) or np.any(w < 0) or not w.sum() > 0:
            raise ValueError(
                f"weights must be {n} non-negative numbers, one per row of sample, and not all zero; "
                f"got an array of shape {w.shape}"
            )
        return like(w / w.sum(), reference)

    def _compute_mean(self, X: Array) -> Array:
        """Compute μ(x) = Σ_i w_i K(x, u_i)."""
        return self.kernel(X, self._convert_sample(X)) @ self._check_weights(X)

    def _compute_grand_mean(self, reference: Array) -> float:
        """Return Σ_ij w_i w_j K(u_i, u_j), which a resolved kernel keeps because it costs n² kernel values."""
        if self._stored_grand_mean is not None:
            return self._stored_grand_mean
        xp = namespace(reference)
        return float(xp.sum(self._check_weights(reference) * self._compute_mean(self._convert_sample(reference))))

    def block(self, X: Array, Z: Array) -> Array:
        K = self.kernel.block(X, Z)
        K -= self._compute_mean(X)[:, None]
        K -= (self._compute_mean(Z) - self._compute_grand_mean(Z))[None, :]
        return K

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        # The whole matrix at once, so that the means are computed only once and not for every block.
        K = self.kernel(X, Z)
        row = self._compute_mean(X)
        column = row if Z is None else self._compute_mean(Z)
        K -= row[:, None]
        K -= (column - self._compute_grand_mean(X))[None, :]
        return K

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(X) - 2.0 * self._compute_mean(X) + self._compute_grand_mean(X)

    def kappa(self, X: Array | None = None) -> float:
        """Return a bound on sup √K̂(x, x): 2κ, or √2·κ for a non-negative kernel."""
        factor = math.sqrt(2.0) if self.kernel.nonnegative else 2.0
        return factor * max(
            self.kernel.kappa(X), self.kernel.kappa(np.asarray(to_numpy(self.sample))) if X is not None else 0.0
        )

    def resolve(self, X: Array, weights: Array | None = None) -> Kernel:
        if not isinstance(self.kernel, Kernel):
            raise ValueError(
                f"Centered centres a Kernel object, and {quote(self.kernel)} is not one: use unpooled.kernels.as_kernel"
            )
        kernel = Centered(self.kernel.resolve(X, weights), self.sample, self.weights)
        kernel._stored_grand_mean = kernel._compute_grand_mean(X)
        return kernel
