"""The empirical operator L_D as a symmetric matrix, with weights and centring, and its eigendecomposition.

For weights w_i ≥ 0, Σ w_i = 1, the operator L_D f = Σ w_i f(x_i) K_{x_i} has the spectrum of A = D^½ 𝕂 D^½ with
D = diag(w), and

    f = g_λ(L_D) Σ w_i y_i K_{x_i} = Σ c_i K_{x_i},   c = D^½ g_λ(A) D^½ y.

Equal weights give c = (1/N) g_λ(𝕂/N) y, as in Guo, Lin and Zhou (2017). With the kernel centred on the weighted sample,
K̂ = (I - 1wᵀ) 𝕂 (I - w1ᵀ), and D^½ K̂ D^½ = P A P with the orthogonal projection P = I - ssᵀ, s = √w. The intercept is
b = Σ w_i y_i, and y - b enters in place of y (Wang 2018, (2.7) and (2.8), here with weights).

The matrix that solvers work on is M = N·A, or N·PAP with centring. For equal weights and without centring that is 𝕂
itself. ``root`` = √(N·w) is then a vector of ones.

Weights and centring enter here and nowhere else. With A = P D^½ 𝕂 D^½ P in place of 𝕂/N every formula of the papers
holds, so solvers and criteria work on A and know of neither (the low-rank route builds its own factor of it). The
projection has to be weighted: scaling 𝕂 by √w and then centring it without weights gives a wrong intercept.

The intercept is written in terms of K. Since Σ c_i = 0, the function Σ c_i K̂_{x_i} + b is Σ c_i K_{x_i} + (b - wᵀ𝕂c),
so a centred model predicts without any centring. The step of iterative filters is 1/κ² of the kernel itself, because κ²
also bounds the spectrum of the centred matrix.

One eigendecomposition of A, full or thin, serves every filter and every λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import get_blas_funcs

from .._base.arrays import Array, Floats, eps, is_numpy, like, namespace, to_numpy
from .._base.threads import cut_row_blocks


@dataclass
class Coordinates:
    """The map from labels to the coordinates of M, and from a solution there back to coefficients."""

    n: int
    root: Array | None  #: √(N w); None for equal weights
    center: bool
    mean_row: Array | None = None  #: 𝕂w, where centred

    def targets(self, Y: Array, dtype: Any) -> tuple[Array, Array]:
        """Return v = P·root·Y in the given dtype, and the intercepts b in that of Y.

        Written root·(Y - b), and cast only then, so that a large mean costs no digits.
        """
        xp = namespace(Y)
        b = xp.zeros(Y.shape[1], dtype=Y.dtype, device=Y.device)
        if self.center:
            b = self._mean(Y)
            # Centre the rest once more: then b is right to the last digit under any offset.
            b = b + self._mean(Y - b)
        v = xp.astype(Y - b, dtype)
        return (v if self.root is None else v * self.root[:, None]), b

    def _mean(self, Y: Array) -> Array:
        xp = namespace(Y)
        return xp.mean(Y, axis=0) if self.root is None else xp.astype(self.weights(Y), Y.dtype) @ Y

    def weights(self, reference: Array) -> Array:
        """Return w, normalised to sum to one."""
        if self.root is None:
            xp = namespace(reference)
            return xp.full(self.n, 1.0 / self.n, dtype=reference.dtype, device=reference.device)
        return self.root * self.root / self.n

    def coefficients(self, a: Array) -> Array:
        """Return c = root·a/N for a = g(A)v; if centred, Σ c_i = 0 despite rounding, as in Wang (2018), chapter 2."""
        c = (a if self.root is None else a * self.root[:, None]) / self.n
        if self.center:
            c = c - self.weights(c)[:, None] * namespace(c).sum(c, axis=0)
        return c

    def intercept(self, c: Array, b: Array) -> Array:
        """Return b - wᵀ𝕂c, the constant of Σ c_i K̂_{x_i} + b when it is written with K in place of K̂ (Σ c_i = 0)."""
        return b - namespace(c).astype(self.mean_row @ c, b.dtype) if self.center else b

    def leverage_of_mean(self, reference: Array) -> Array | float:
        """Return what the intercept adds to the leverage of every row: w_i."""
        return self.weights(reference) if self.center else 0.0


def build_dense(K: Array, weights: Array | None, center: bool) -> tuple[Array, Coordinates]:
    """Return M = N·P D^½ 𝕂 D^½ P, in the memory of 𝕂, and its coordinates."""
    n = K.shape[0]
    coordinates = Coordinates(n, root_of(weights, n), center)
    if center:
        coordinates.mean_row = K @ coordinates.weights(K)
    if coordinates.root is not None:
        for rows in cut_row_blocks(n, n):
            K[rows, :] *= coordinates.root[rows, None] * coordinates.root[None, :]
    if center:
        project_out(K, coordinates.weights(K) ** 0.5)
    return K, coordinates


def root_of(weights: Array | None, n: int) -> Array | None:
    """Return √(N w) with w normalised; None for equal weights."""
    return None if weights is None else (weights * (n / namespace(weights).sum(weights))) ** 0.5


def project_out(M: Array, s: Array) -> None:
    """Compute (I - ssᵀ) M (I - ssᵀ) in place, as the update M - suᵀ - usᵀ with u = Ms - s(sᵀMs)/2."""
    u = M @ s
    u = u - s * (0.5 * (s @ u))
    if is_numpy(M) and M.flags.c_contiguous:
        # BLAS updates in place and on all cores; the transpose is the Fortran array that it needs.
        (ger,) = get_blas_funcs(("ger",), (M,))
        ger(-1.0, s, u, a=M.T, overwrite_a=1)
        ger(-1.0, u, s, a=M.T, overwrite_a=1)
        return
    for rows in cut_row_blocks(M.shape[0], M.shape[1]):
        M[rows, :] -= s[rows, None] * u[None, :] + u[rows, None] * s[None, :]


@dataclass
class Decomposition:
    """The decomposition A ≈ U diag(σ) Uᵀ with orthonormal columns; on the complement of U, A counts as zero.

    Full (eigh) or thin (low rank), the formulas are the same: g(A)v = U g(σ) Uᵀv + g(0)(v - UUᵀv).
    """

    sigma: Floats  #: eigenvalues of A = M/N, all ≥ 0
    U: Array  #: N × r

    @property
    def is_full(self) -> bool:
        return bool(self.U.shape[0] == self.U.shape[1])

    def project(self, v: Array) -> tuple[Array, Array | None]:
        """Return Uᵀv and, if the decomposition is thin, v - UUᵀv: once for all functions that follow."""
        inside = self.U.T @ v
        return inside, None if self.is_full else v - self.U @ inside

    def apply(self, values: Floats, at_zero: float, projected: tuple[Array, Array | None]) -> Array:
        """Return h(A) v for a function h given by its values on the spectrum and at zero; v as from :meth:`project`."""
        inside, outside = projected
        out = self.U @ (like(values, self.U)[:, None] * inside)
        return out if outside is None else out + float(at_zero) * outside

    def diagonals(self, values: Floats, at_zero: Floats) -> Array:
        """Return the diagonals (L, N) of h(A) for L functions h, without an N×N temporary: by row blocks of U²."""
        xp = namespace(self.U)
        h = like(values.T, self.U)
        at_zero_ = like(at_zero, self.U)[:, None]
        parts = []
        for rows in cut_row_blocks(self.U.shape[0], self.U.shape[1]):
            squares = self.U[rows, :] * self.U[rows, :]
            part = (squares @ h).T
            if not self.is_full:
                part = part + at_zero_ * (1.0 - xp.sum(squares, axis=1))[None, :]
            parts.append(part)
        return xp.concat(parts, axis=1)


def eigh(M: Array, n: int, kappa_sq: float) -> Decomposition:
    """Decompose M/n fully. Overwrites M. Raise an error if the kernel matrix is not positive semi-definite."""
    if is_numpy(M):
        # Divide and conquer is the fastest driver; the transpose of a C-ordered symmetric matrix is the
        # Fortran array LAPACK can overwrite.
        values, U = scipy.linalg.eigh(M.T, lower=False, overwrite_a=True, check_finite=False, driver="evd")
    else:
        values, U = namespace(M).linalg.eigh(M)
    sigma = to_numpy(values).astype(float) / n
    return Decomposition(check_spectrum(sigma, eps(M), kappa_sq), U)


def check_spectrum(sigma: Floats, rounding: float, kappa_sq: float) -> Floats:
    """Return σ with the negative eigenvalues of rounding set to zero; raise an error for a truly negative one.

    Kernels of the distance round a little more than eps near zero. The scale is the kernel's, because centring may have
    left a spectrum that is almost zero.
    """
    top, bottom = float(np.max(np.abs(sigma))), float(np.min(sigma))
    if not np.isfinite(top):
        raise NotFinite
    if bottom < -(1e-7 if rounding < 1e-10 else 1e-4) * max(top, kappa_sq):
        raise NotPositiveDefinite(
            f"the kernel is not positive semi-definite on X: the kernel matrix has the eigenvalue {bottom:g} "
            f"beside {top:g} (on the scale of lam); use a Mercer kernel"
        )
    return np.maximum(sigma, 0.0)


class NotPositiveDefinite(ValueError):
    """An error for a negative eigenvalue of a kernel matrix. Without a message: from a Cholesky factorisation."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "the kernel matrix plus N·lam on its diagonal is not positive definite: use a Mercer kernel, "
            "a larger lam, or double precision"
        )


class NotFinite(ValueError):
    """The error for kernel values that overflow, or are not numbers."""

    def __init__(
        self, message: str = "the kernel gives values that are not finite on X: check the scale of the features"
    ) -> None:
        super().__init__(message)
