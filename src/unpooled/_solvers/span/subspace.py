"""A subspace on which a symmetric operator C is known, from products that others have computed.

In rounds of residuals every message reveals the rows' covariance C in one direction. Once a full step was too long, the
next point is the best one in the span of all known directions. So the error falls in every round, although nobody knows
the largest eigenvalue of C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..._base.arrays import Floats

NEW = 1e-8  # of a direction's length: the part outside the subspace that makes it new
SIGNAL = 0.3  # of the curvature that a direction adds: the error of its product below which it counts as known


@dataclass
class Subspace:
    """A subspace with orthonormal basis S (M, k) and C S, whose column i has an error of at most E_i.

    It minimises quadratics with the matrix C + Λ, Λ diagonal, over its span; where C is known to few digits it is
    assumed to be as large as possible, so that steps are too short and never too long.
    """

    S: Floats
    CS: Floats
    E: Floats

    @classmethod
    def empty(cls, M: int) -> Subspace:
        """Return the subspace that knows nothing."""
        return cls(np.zeros((M, 0)), np.zeros((M, 0)), np.zeros(0))

    def add(self, P: Floats, CP: Floats, noise: Floats, ridge: float) -> bool:
        """Take in directions, the columns of P, with C P, whose columns have errors of at most ``noise``.

        ``ridge`` is the least that will be added to C. Return whether any direction was new, and its product known.
        """
        M, k = self.S.shape
        length = np.linalg.norm(P, axis=0)
        usable = length > 0
        if k == M or not np.any(usable):
            return False
        P, CP, noise = (part[..., usable] / length[usable] for part in (P, CP, noise))
        for _ in range(2):  # after one pass, rounding of the subtraction is left
            inside = self.S.T @ P
            P, CP = P - self.S @ inside, CP - self.CS @ inside
            noise = np.hypot(noise, np.linalg.norm(self.E[:, None] * inside, axis=0))
        Q, R, pivots = scipy.linalg.qr(P, mode="economic", pivoting=True, check_finite=False)
        CP, noise = CP[:, pivots], noise[pivots]
        for j in range(min(Q.shape[1], M - k)):
            # Column j of P is Σ_{i≤j} R_ij q_i, so that C q_j follows from the others.
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
        """Return the least curvature along q + s, s in the span: what q can add to what is known."""
        along = float(q @ Cq) + ridge
        if not self.S.shape[1]:
            return along
        both = self.S.T @ Cq
        G = self._gram() + ridge * np.eye(len(both))
        return along - float(both @ scipy.linalg.lstsq(G, both, check_finite=False)[0])

    def _gram(self) -> Floats:
        """Return SᵀC S plus its possible error: C is no larger."""
        # Of (i, j) the product with the older direction is more accurate: later ones are small differences.
        G = np.tril(self.S.T @ self.CS)
        # Entry (i, j) has an error of at most the smaller of the two E. With the errors of a row added, C ≤ G + diag.
        off = 2.0 * np.linalg.norm(np.minimum.outer(self.E, self.E), axis=1)
        return np.asarray(G + np.tril(G, -1).T + np.diag(off))

    def product(self, P: Floats) -> tuple[Floats, Floats]:
        """Return C P and the error of each column, which is infinite for a column outside the span."""
        inside = self.S.T @ P
        outside = np.linalg.norm(P - self.S @ inside, axis=0) > 10 * NEW * np.linalg.norm(P, axis=0)
        return self.CS @ inside, np.where(outside, np.inf, np.linalg.norm(self.E[:, None] * inside, axis=0))

    def minimise(self, r: Floats, ridge: Floats) -> tuple[Floats, Floats, Floats]:
        """Return for every column the a in the span with the least ½aᵀ(C+Λ)a - rᵀa, then r - C a and its error."""
        G = self._gram()
        z = np.zeros((len(G), r.shape[1]))
        for column in range(r.shape[1] if len(G) else 0):
            H = G + (self.S.T * ridge[:, column]) @ self.S
            values, vectors = scipy.linalg.eigh(H, check_finite=False)
            is_positive = values > 1e-15 * max(values[-1], 0.0)
            inverse = np.divide(1.0, values, out=np.zeros_like(values), where=is_positive)
            z[:, column] = vectors @ (inverse * (vectors.T @ (self.S.T @ r[:, column])))
        return self.S @ z, r - self.CS @ z, np.linalg.norm(self.E[:, None] * z, axis=0)


def is_clear(noise: Floats, P: Floats, CP: Floats, ridge: float) -> Floats:
    """Return whether the curvature pᵀ(C + ridge)p along each direction stands out of its noise."""
    length = np.linalg.norm(P, axis=0)
    return np.asarray(noise * length <= SIGNAL * (np.sum(P * CP, axis=0) + ridge * length**2))
