"""The span of the kernel functions at M points, with orthonormal coordinates: c = L⁻ᵀa, LLᵀ = 𝕂_zz + εI."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import lapack

from ..._base.arrays import Array, add_to_diagonal, cholesky, fill_lower, is_numpy, namespace, solve_lower
from ..._linalg.operator import NotFinite, NotPositiveDefinite

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Span:
    """Functions Σ_j c_j K(·, z_j) = aᵀφ with |a|² = cᵀ(𝕂_zz + εI)c."""

    L: Array = field(repr=False)  #: lower triangular, double precision, where sums are worked out
    jitter: float  #: ε

    @classmethod
    def of(cls, K: Array, jitter: float = 0.0) -> Span:
        """From 𝕂_zz, which is overwritten. ε is at least ``jitter``, and as small as rounding allows."""
        xp = namespace(K)
        size = float(xp.max(xp.linalg.diagonal(K)))
        if not np.isfinite(size) or not bool(xp.all(xp.isfinite(K))):
            raise NotFinite
        jitter, added = max(jitter, 8 * EPS * K.shape[0] * size, float(np.finfo(float).tiny)), 0.0
        while jitter <= 1e-3 * max(size, float(np.finfo(float).tiny)):
            add_to_diagonal(K, jitter - added)
            factor = cholesky(K.copy() if is_numpy(K) else K)  # LAPACK works in place, and another try may follow
            if factor is not None:
                return cls(factor, jitter)
            jitter, added = 8 * jitter, jitter
        raise NotPositiveDefinite("the kernel is not positive semi-definite on the points: use a Mercer kernel")

    @property
    def size(self) -> int:
        """M."""
        return int(self.L.shape[0])

    def whitened(self, sums: Array) -> Array:
        """L⁻¹s: sums over r as sums over φ."""
        return solve_lower(self.L, sums)

    def raw(self, a: Array) -> Array:
        """c = L⁻ᵀa."""
        return solve_lower(self.L, a, transposed=True)

    def own_covariance(self) -> Array:
        """(1/M) Σ_j φ(z_j)φ(z_j)ᵀ = LᵀL/M, that of the points themselves."""
        return self.L.T @ self.L / self.size

    def covariance(self, gram: Array) -> Array:
        """L⁻¹ G L⁻ᵀ, symmetric to the last bit; NumPy overwrites G."""
        if is_numpy(gram):
            # The upper triangle is all that LAPACK looks at and writes: half of the operations.
            reduced, _ = lapack.dsygst(gram.T, self.L.T, lower=0, overwrite_a=1)
            return fill_lower(reduced).T
        half = solve_lower(self.L, gram)
        whole = solve_lower(self.L, half.T)
        return 0.5 * (whole + whole.T)
