"""A subspace on which a symmetric operator C is known, from products that somebody else has computed.

In rounds of residuals every message tells the rows' covariance C in one direction. Once a full step was too long, the
next point is the best one in the span of all the directions known so far. So the error falls in every round, although
nobody knows the largest eigenvalue of C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..._base.arrays import Floats

NEW = 1e-8  # of a direction's length: what must be left of it outside the subspace to count as new
SIGNAL = 0.3  # of the curvature that a direction adds: how far off its product may be to count as known


@dataclass
class Subspace:
    """Orthonormal S (M, k) with C S, column i of which is off by at most E_i.

    Minimises quadratics with the matrix C + Λ, Λ diagonal, over its span; where C is known to few digits it is taken
    to be as large as it may be, so that steps are too short and never too long.
    """

    S: Floats
    CS: Floats
    E: Floats

    @classmethod
    def empty(cls, M: int) -> Subspace:
        """Nothing known."""
        return cls(np.zeros((M, 0)), np.zeros((M, 0)), np.zeros(0))

    def add(self, P: Floats, CP: Floats, noise: Floats, ridge: float) -> bool:
        """Take in directions, the columns of P, with C P, of which each column may be off by ``noise``.

        ``ridge`` is the least that will be added to C. True if any direction was new, and its product is known.
        """
        M, k = self.S.shape
        length = np.linalg.norm(P, axis=0)
        usable = length > 0
        if k == M or not np.any(usable):
            return False
        P, CP, noise = (part[..., usable] / length[usable] for part in (P, CP, noise))
        for _ in range(2):  # once leaves rounding of what was subtracted
            inside = self.S.T @ P
            P, CP = P - self.S @ inside, CP - self.CS @ inside
            noise = np.hypot(noise, np.linalg.norm(self.E[:, None] * inside, axis=0))
        Q, R, pivots = scipy.linalg.qr(P, mode="economic", pivoting=True, check_finite=False)
        CP, noise = CP[:, pivots], noise[pivots]
        for j in range(min(Q.shape[1], M - k)):
            # Column j of P is Σ_{i≤j} R_ij q_i, so that C q_j follows from what is known of the others.
            if abs(R[j, j]) <= NEW:
                break
            older = slice(k, k + j)
            CQ = (CP[:, j] - self.CS[:, older] @ R[:j, j]) / R[j, j]
            error = np.hypot(noise[j], np.linalg.norm(self.E[older] * R[:j, j])) / abs(R[j, j])
            if error > SIGNAL * self._new_curvature(Q[:, j], CQ, ridge):
                break
            self.S, self.CS = np.column_stack([self.S, Q[:, j]]), np.column_stack([self.CS, CQ])
            self.E = np.append(self.E, error)
        return bool(self.S.shape[1] > k)

    def _new_curvature(self, q: Floats, Cq: Floats, ridge: float) -> float:
        """The least curvature along q + s, s in the span: what q can tell that is not known yet."""
        along = float(q @ Cq) + ridge
        if not self.S.shape[1]:
            return along
        both = self.S.T @ Cq
        G = self._gram() + ridge * np.eye(len(both))
        return along - float(both @ scipy.linalg.lstsq(G, both, check_finite=False)[0])

    def _gram(self) -> Floats:
        """SᵀC S, with what it may be off by: C is no larger."""
        # Of (i, j) the product with the older direction is the more accurate one: later ones are small differences.
        G = np.tril(self.S.T @ self.CS)
        # Entry (i, j) is off by no more than the smaller E of the two. With what a row of it is off by, C ≤ G + diag.
        off = 2.0 * np.linalg.norm(np.minimum.outer(self.E, self.E), axis=1)
        return np.asarray(G + np.tril(G, -1).T + np.diag(off))

    def product(self, P: Floats) -> tuple[Floats, Floats]:
        """C P, and how far off each column may be: infinitely where it is not of the span."""
        inside = self.S.T @ P
        outside = np.linalg.norm(P - self.S @ inside, axis=0) > 10 * NEW * np.linalg.norm(P, axis=0)
        return self.CS @ inside, np.where(outside, np.inf, np.linalg.norm(self.E[:, None] * inside, axis=0))

    def minimise(self, r: Floats, ridge: Floats) -> tuple[Floats, Floats, Floats]:
        """For every column the a in the span with the least ½aᵀ(C+Λ)a - rᵀa, r - C a, and how far off that may be."""
        G = self._gram()
        z = np.zeros((len(G), r.shape[1]))
        for column in range(r.shape[1] if len(G) else 0):
            H = G + (self.S.T * ridge[:, column]) @ self.S
            values, vectors = scipy.linalg.eigh(H, check_finite=False)
            known = values > 1e-15 * max(values[-1], 0.0)
            inverse = np.divide(1.0, values, out=np.zeros_like(values), where=known)
            z[:, column] = vectors @ (inverse * (vectors.T @ (self.S.T @ r[:, column])))
        return self.S @ z, r - self.CS @ z, np.linalg.norm(self.E[:, None] * z, axis=0)


def is_clear(noise: Floats, P: Floats, CP: Floats, ridge: float) -> Floats:
    """Whether the curvature pᵀ(C + ridge)p along a direction, or along each of several, stands out of its noise."""
    length = np.linalg.norm(P, axis=0)
    return np.asarray(noise * length <= SIGNAL * (np.sum(P * CP, axis=0) + ridge * length**2))
