"""One eigendecomposition, from which every filter and every λ follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..arrays import Array, eps, is_numpy, like, namespace, to_numpy
from ..filters import Filter, Floats
from ..threads import row_blocks


@dataclass
class Decomposition:
    """A ≈ U diag(σ) Uᵀ with orthonormal columns; on what U leaves out, A counts as zero.

    Full (eigh) or thin (low rank), the formulas are the same: g(A)v = U g(σ) Uᵀv + g(0)(v - UUᵀv).
    """

    sigma: Floats  #: eigenvalues of A = M/N, all ≥ 0
    U: Array  #: N × r

    @property
    def is_full(self) -> bool:
        return bool(self.U.shape[0] == self.U.shape[1])

    def project(self, v: Array) -> tuple[Array, Array | None]:
        """Uᵀv, and v - UUᵀv where the decomposition is thin: once for all functions that follow."""
        inside = self.U.T @ v
        return inside, None if self.is_full else v - self.U @ inside

    def apply(self, values: Floats, at_zero: float, projected: tuple[Array, Array | None]) -> Array:
        """h(A) v for a function h given by its values on the spectrum and at zero; v as :meth:`project` gives it."""
        inside, outside = projected
        out = self.U @ (like(values, self.U)[:, None] * inside)
        return out if outside is None else out + float(at_zero) * outside

    def diagonals(self, values: Floats, at_zero: Floats) -> Array:
        """The diagonals of h(A) for L functions h: shape (L, N). No N×N temporary: row blocks of U²."""
        xp = namespace(self.U)
        h = like(values.T, self.U)
        at_zero_ = like(at_zero, self.U)[:, None]
        parts = []
        for rows in row_blocks(self.U.shape[0], self.U.shape[1]):
            squares = self.U[rows, :] * self.U[rows, :]
            part = (squares @ h).T
            if not self.is_full:
                part = part + at_zero_ * (1.0 - xp.sum(squares, axis=1))[None, :]
            parts.append(part)
        return xp.concat(parts, axis=1)


def eigh(M: Array, n: int, kappa_sq: float) -> Decomposition:
    """The full decomposition of M/n. Overwrites M. A kernel matrix that is not positive semi-definite is an error."""
    if is_numpy(M):
        # Divide and conquer is the fastest driver; the transpose of a C-ordered symmetric matrix is the
        # Fortran array LAPACK can overwrite.
        values, U = scipy.linalg.eigh(M.T, lower=False, overwrite_a=True, check_finite=False, driver="evd")
    else:
        values, U = namespace(M).linalg.eigh(M)
    sigma = to_numpy(values).astype(float) / n
    return Decomposition(checked_spectrum(sigma, eps(M), kappa_sq), U)


def checked_spectrum(sigma: Floats, rounding: float, kappa_sq: float) -> Floats:
    """σ with rounding's negative eigenvalues set to zero; a truly negative one is an error.

    Kernels of the distance round a little more than eps near zero; and the scale is the kernel's and not that of a
    spectrum that centring may have emptied.
    """
    top, bottom = float(np.max(np.abs(sigma))), float(np.min(sigma))
    if not np.isfinite(top):
        raise ValueError("the kernel gives values that are not finite on X: check the scale of the features")
    if bottom < -(1e-7 if rounding < 1e-10 else 1e-4) * max(top, kappa_sq):
        raise NotPositiveDefinite(
            f"the kernel is not positive semi-definite on X: the kernel matrix has the eigenvalue {bottom:g} "
            f"beside {top:g} (on the scale of lam); use a Mercer kernel"
        )
    return np.maximum(sigma, 0.0)


class NotPositiveDefinite(ValueError):
    """A kernel matrix with a negative eigenvalue. Without a message: one that a Cholesky factorisation ran into."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "the kernel matrix plus N·lam on its diagonal is not positive definite: use a Mercer kernel, "
            "a larger lam, or double precision"
        )


#: (g on the spectrum (L, r), g at 0 (L,)) and the same of the residual 1 - σg
FilteredSpectrum = tuple[tuple[Floats, Floats], tuple[Floats, Floats]]


def filter_path(filter: Filter, decomposition: Decomposition, lams: Floats, kappa_sq: float) -> FilteredSpectrum:
    """(g on the spectrum, g at 0) and (residual on the spectrum, residual at 0) for every λ."""
    with_zero = np.append(decomposition.sigma, 0.0)
    g, r = filter.path(with_zero, lams, kappa_sq)
    return (g[:, :-1], g[:, -1]), (r[:, :-1], r[:, -1])
