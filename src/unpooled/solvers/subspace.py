"""A subspace on which a symmetric operator C is known, from products that somebody else has computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..filters import Floats

NEW = 1e-8  # of a direction's length: what must be left of it outside the subspace to count as new
TRUST = 1e-10  # of the norm of C: how far off a product with a unit direction may be


@dataclass
class Subspace:
    """Orthonormal S (M, k) with C S. Minimises quadratics with the matrix C + Λ, Λ diagonal, over its span."""

    S: Floats
    CS: Floats

    @classmethod
    def empty(cls, M: int) -> Subspace:
        """Nothing known."""
        return cls(np.zeros((M, 0)), np.zeros((M, 0)))

    def add(self, P: Floats, CP: Floats, noise: Floats) -> None:
        """Take in directions, the columns of P, with C P, of which each column may be off by ``noise``."""
        M, k = self.S.shape
        length = np.linalg.norm(P, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            usable = (length > 0) & (noise <= TRUST * np.linalg.norm(CP, axis=0))
        if k == M or not np.any(usable):
            return
        length = length[usable]
        P, CP, noise = P[:, usable] / length, CP[:, usable] / length, noise[usable] / length
        top = max(np.linalg.norm(CP, axis=0).max(), np.linalg.norm(self.CS, axis=0).max(initial=0.0))
        for _ in range(2):  # once leaves rounding of what was subtracted
            inside = self.S.T @ P
            P, CP = P - self.S @ inside, CP - self.CS @ inside
        Q, R, pivots = scipy.linalg.qr(P, mode="economic", pivoting=True, check_finite=False)
        left = np.abs(np.diag(R))
        enough = (left > NEW) & (noise[pivots[: len(left)]] <= TRUST * top * left)
        kept = min(len(left) if np.all(enough) else int(np.argmin(enough)), M - k)
        if kept:
            CQ = scipy.linalg.solve_triangular(R[:kept, :kept], CP[:, pivots[:kept]].T, trans=1, check_finite=False).T
            self.S, self.CS = np.hstack([self.S, Q[:, :kept]]), np.hstack([self.CS, CQ])

    def minimise(self, r: Floats, ridge: Floats) -> tuple[Floats, Floats]:
        """For every column the a in the span with the least ½aᵀ(C+Λ)a - rᵀa, and r - C a; Λ = diag(ridge)."""
        # Of (i, j) the product with the older direction is the more accurate one: later ones are small differences.
        G = np.tril(self.S.T @ self.CS)
        G = G + np.tril(G, -1).T
        a, left = np.empty_like(r), np.empty_like(r)
        for column in range(r.shape[1]):
            H = G + (self.S.T * ridge[:, column]) @ self.S
            values, vectors = scipy.linalg.eigh(H, check_finite=False)
            known = values > 1e-15 * max(values[-1], 0.0)
            inverse = np.divide(1.0, values, out=np.zeros_like(values), where=known)
            z = vectors @ (inverse * (vectors.T @ (self.S.T @ r[:, column])))
            a[:, column], left[:, column] = self.S @ z, r[:, column] - self.CS @ z
        return a, left
