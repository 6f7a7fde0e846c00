"""Ridge solutions and their leave-one-out diagonals from a reduction to block tridiagonal form.

M = QBQᵀ with Q orthogonal and B block tridiagonal takes (8/3)N³ operations, all of them matrix products. An
eigendecomposition spends half of its operations in matrix-vector products, which wait for memory. With the block
Cholesky factor B + μI = LLᵀ, which costs next to nothing,

    (M + μI)⁻¹ v = Q L⁻ᵀ L⁻¹ Qᵀ v,      diag (M + μI)⁻¹ = squared row norms of Q L⁻ᵀ,

the latter in O(N² b) for every μ. So the ridge path and exact leave-one-out need no eigenvalue at all, and from 3000
rows on a ridge path is computed in this way (:mod:`unpooled._solvers.spectral.routes`). If the diagonal is not needed,
Q stays a product of reflectors, and half of the operations are saved.

The reduction is the first stage of the two-stage tridiagonalisation (Bischof, Lang and Sun 2000): a QR factorisation of
the panel below the diagonal block, then a symmetric rank-2b update. All products go through the BLAS that SciPy
carries. NumPy carries another one, and the idle threads of the two hinder each other. SciPy's BLAS wrappers need
contiguous matrices, so the trailing matrix is copied to a smaller one every few panels, and the panels in between are
padded with zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from .operator import NotPositiveDefinite

BLOCK = 64  # wide enough for fast products, narrow enough for cheap shifts
PANELS_PER_COPY = 8
PANELS_PER_PRODUCT = 4
_Reflectors = list[tuple[int, np.ndarray, np.ndarray]]  # (first row, V, T) of I - V T Vᵀ


@dataclass
class _ReflectorProduct:
    """Q as the product of its reflectors, H_1 H_2 …, applied to a few columns at a time."""

    n: int
    reflectors: _Reflectors = field(repr=False)

    def times(self, W: np.ndarray) -> np.ndarray:
        """Return QW."""
        return self._apply(reversed(self.reflectors), W, 0)

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        """Return QᵀV."""
        return self._apply(self.reflectors, V, 1)

    def _apply(self, reflectors: Iterable[tuple[int, np.ndarray, np.ndarray]], W: np.ndarray, trans: int) -> np.ndarray:
        W = np.array(W, order="F")
        (gemm,) = get_blas_funcs(("gemm",), (W,))
        for first, V, T in reflectors:
            W[first:] -= gemm(1.0, V, gemm(1.0, T, gemm(1.0, V, W[first:], trans_a=1), trans_a=trans))
        return W


@dataclass
class _ExplicitMatrix:
    """Q as an explicit matrix."""

    matrix: np.ndarray = field(repr=False)

    def times(self, W: np.ndarray) -> np.ndarray:
        """Return QW."""
        (gemm,) = get_blas_funcs(("gemm",), (self.matrix,))
        return gemm(1.0, self.matrix, W)

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        """Return QᵀV."""
        (gemm,) = get_blas_funcs(("gemm",), (self.matrix,))
        return gemm(1.0, self.matrix, V, trans_a=1)


@dataclass
class BandedForm:
    """The block tridiagonal form M = QBQᵀ: diagonal blocks D_k (lower triangles), blocks S_k below them, and Q."""

    Q: _ExplicitMatrix | _ReflectorProduct
    D: list[np.ndarray]
    S: list[np.ndarray]
    _factors: dict[float, list[tuple[np.ndarray, np.ndarray | None]]] = field(default_factory=dict, repr=False)

    @property
    def norm(self) -> float:
        """Return the Frobenius norm of M, which bounds its largest eigenvalue."""
        diagonal = sum(2 * np.sum(np.tril(d, -1) ** 2) + np.sum(np.diagonal(d) ** 2) for d in self.D)
        return float(np.sqrt(diagonal + 2 * sum(np.sum(s**2) for s in self.S)))

    def factor(self, mu: float) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Return the block Cholesky factor of B + μI, (L_kk, L_{k+1,k}) for every k; keep it for later solves."""
        if mu not in self._factors:
            self._factors[mu] = self._factorise(mu)
        return self._factors[mu]

    def _factorise(self, mu: float) -> list[tuple[np.ndarray, np.ndarray | None]]:
        trsm, potrf = _functions(self.D[0], blas=("trsm",), lapack=("potrf",))
        factors: list[tuple[np.ndarray, np.ndarray | None]] = []
        below = None
        for k, block in enumerate(self.D):
            shifted = block + mu * np.eye(len(block), dtype=block.dtype)
            if below is not None:
                shifted -= below @ below.T
            L, info = potrf(shifted, lower=1, clean=1)
            if info != 0:
                raise NotPositiveDefinite
            below = trsm(1.0, L, self.S[k], side=1, lower=1, trans_a=1) if k < len(self.S) else None
            factors.append((L, below))
        return factors

    def inverse_diagonal(self, mu: float) -> np.ndarray:
        """Return diag (M + μI)⁻¹: the squared row norms of Z = QL⁻ᵀ, one block of columns after another."""
        assert isinstance(self.Q, _ExplicitMatrix), "the reduction was made for solving only"
        Q = self.Q.matrix
        gemm, trsm = _functions(Q, blas=("gemm", "trsm"))
        total = np.zeros(len(Q), dtype=Q.dtype)
        Z, below, column = None, None, 0
        for L, next_below in self.factor(mu):
            piece = Q[:, column : column + len(L)].copy(order="F")
            if below is not None:
                piece = gemm(-1.0, Z, below, trans_b=1, beta=1.0, c=piece, overwrite_c=1)
            Z = trsm(1.0, L, piece, side=1, lower=1, trans_a=1, overwrite_b=1)
            total += np.einsum("ij,ij->i", Z, Z)
            below, column = next_below, column + len(L)
        return total

    def solve(self, mus: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return (M + mus[j] I)⁻¹ V_j for every column j."""
        W = self.Q.transposed_times(V)
        for mu in np.unique(mus):
            columns = np.flatnonzero(mus == mu)
            W[:, columns] = self.solve_reduced(float(mu), W[:, columns])
        return self.Q.times(W)

    def solve_reduced(self, mu: float, W: np.ndarray) -> np.ndarray:
        """Return (B + μI)⁻¹ W."""
        (trsm,) = _functions(self.D[0], blas=("trsm",))
        factors = self.factor(mu)
        starts = np.cumsum([0] + [len(L) for L, _ in factors])
        pieces = [W[a:b] for a, b in pairwise(starts)]
        for k, (L, below) in enumerate(factors):  # L z = w
            pieces[k] = trsm(1.0, L, pieces[k], lower=1)
            if below is not None:
                pieces[k + 1] = pieces[k + 1] - below @ pieces[k]
        for k, (L, below) in reversed(list(enumerate(factors))):  # Lᵀ x = z
            if below is not None:
                pieces[k] = pieces[k] - below.T @ pieces[k + 1]
            pieces[k] = trsm(1.0, L, pieces[k], lower=1, trans_a=1)
        return np.concatenate(pieces)


def reduce(M: np.ndarray, block: int = BLOCK) -> BandedForm:
    """Reduce a symmetric matrix, with Q. Overwrites M."""
    D, S, reflectors = _block_tridiagonal(M.T, block)  # the transpose of a C-ordered matrix is Fortran-ordered
    return BandedForm(_ExplicitMatrix(_orthogonal(reflectors, M)), D, S)


def reduce_for_solving(M: np.ndarray, block: int = BLOCK) -> BandedForm:
    """Reduce a symmetric matrix without Q: enough to solve, but not for diagonals. Overwrites M."""
    D, S, reflectors = _block_tridiagonal(M.T, block)
    return BandedForm(_ReflectorProduct(len(M), reflectors), D, S)


def _block_tridiagonal(A: np.ndarray, b: int) -> tuple[list[np.ndarray], list[np.ndarray], _Reflectors]:
    """Return the blocks D and S and the reflectors of a matrix in Fortran order, which is overwritten."""
    symm, syr2k, gemm, geqrf = _functions(A, blas=("symm", "syr2k", "gemm"), lapack=("geqrf",))
    D: list[np.ndarray] = []
    S: list[np.ndarray] = []
    reflectors: _Reflectors = []
    n, first, done = len(A), 0, 0  # A holds rows and columns first..n of the reduced matrix; done of them are finished
    while n - done > b:
        o = done - first
        if o == PANELS_PER_COPY * b:
            A, first, o = np.asfortranarray(A[o:, o:]), done, 0
        D.append(A[o : o + b, o : o + b].copy(order="F"))
        panel, tau, _, _ = geqrf(A[o + b :, o : o + b].copy(order="F"), overwrite_a=1)
        w = min(panel.shape)
        S.append(np.asfortranarray(np.triu(panel[:w])))
        V = np.zeros((n - first, w), dtype=A.dtype, order="F")
        V[o + b :] = np.tril(panel[:, :w], -1)
        V[o + b + np.arange(w), np.arange(w)] = 1.0
        T = _triangular_factor(V, tau[:w])
        # Two-sided update: with X = A V T and W = X - V (Tᵀ Vᵀ X)/2 it is A - V Wᵀ - W Vᵀ.
        X = symm(1.0, A, gemm(1.0, V, T), lower=1)
        X[: o + b] = 0.0
        W = gemm(-0.5, V, gemm(1.0, T, gemm(1.0, V, X, trans_a=1), trans_a=1), beta=1.0, c=X, overwrite_c=1)
        A = syr2k(-1.0, V, W, beta=1.0, c=A, lower=1, overwrite_c=1)
        reflectors.append((done + b, V[o + b :].copy(order="F"), T))
        done += b
    D.append(A[done - first :, done - first :].copy(order="F"))
    return D, S, reflectors


def _triangular_factor(V: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return T of the compact form H_1…H_w = I - V T Vᵀ: T⁻¹ is the upper part of VᵀV with 1/τ on its diagonal."""
    (gemm,) = _functions(V, blas=("gemm",))
    live = tau != 0.0  # τ = 0 is the identity: that column of V takes no part
    inverse = np.triu(gemm(1.0, V, V, trans_a=1), 1)
    inverse[~live], inverse[:, ~live] = 0.0, 0.0
    np.fill_diagonal(inverse, 1.0 / np.where(live, tau, 1.0))
    T = scipy.linalg.solve_triangular(inverse, np.eye(len(tau), dtype=V.dtype), check_finite=False)
    T[~live], T[:, ~live] = 0.0, 0.0
    return np.asfortranarray(T)


def _orthogonal(reflectors: _Reflectors, spent: np.ndarray) -> np.ndarray:
    """Multiply the reflectors to Q, from the last one on: a few at a time, merged into wide products.

    ``spent`` is the matrix that was reduced; its memory is reused.
    """
    n, dtype = len(spent), spent.dtype
    (gemm,) = get_blas_funcs(("gemm",), dtype=dtype)
    # Two pieces of memory in turn: the factor so far in one, the next larger one in the other.
    memory = [spent.reshape(-1), np.empty(n * n, dtype=dtype)]
    Q = np.empty((0, 0), dtype=dtype)
    ends = [*range(len(reflectors), 0, -PANELS_PER_PRODUCT), 0]
    for turn, end in enumerate(ends):
        group = reflectors[max(0, end - PANELS_PER_PRODUCT) : end]
        size = n - group[0][0] if group else n
        grown = memory[turn % 2][: size * size].reshape((size, size), order="F")
        new = size - len(Q)
        grown[:, :new], grown[:new, new:] = 0.0, 0.0
        np.fill_diagonal(grown[:, :new], 1.0)
        grown[new:, new:] = Q
        if group:
            V, T = _merge(group, size)
            Y = gemm(1.0, T, gemm(1.0, V, grown, trans_a=1))
            grown = gemm(-1.0, V, Y, beta=1.0, c=grown, overwrite_c=1)
        Q = grown
    return Q


def _merge(group: _Reflectors, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return V and T of (I - V₁T₁V₁ᵀ)(I - V₂T₂V₂ᵀ)… = I - V T Vᵀ, with V = [V₁ V₂ …] and T block upper triangular."""
    (gemm,) = _functions(group[0][1], blas=("gemm",))
    width = sum(T.shape[0] for _, _, T in group)
    V = np.zeros((rows, width), dtype=group[0][1].dtype, order="F")
    T = np.zeros((width, width), dtype=V.dtype, order="F")
    used = 0
    for _, piece, small in group:
        own = slice(used, used + small.shape[0])
        V[rows - len(piece) :, own] = piece
        if used:
            before = slice(0, used)
            cross = gemm(-1.0, V[:, before], V[:, own], trans_a=1)
            T[before, own] = gemm(1.0, gemm(1.0, T[before, before], cross), small)
        T[own, own] = small
        used = own.stop
    return V, T


def _functions(A: np.ndarray, blas: tuple[str, ...] = (), lapack: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Return SciPy's BLAS and LAPACK functions for an array: idle threads of two libraries would compete."""
    return (*get_blas_funcs(list(blas), (A,)), *get_lapack_funcs(list(lapack), (A,)))
