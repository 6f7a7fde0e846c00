"""Every λ from the Gram matrix of one pass: a tridiagonal form on a CPU, a Cholesky factor each on a GPU.

The Gram matrix is that of kernel functions less their means m, G = (1/W) Σ w (r - m)(r - m)ᵀ; what was taken out
comes back in orthonormal coordinates, as products of two vectors. Rounding leaves G off by a share δ of its trace
(:func:`rounding`), and the smaller the trace the better: with the means in it would be up to a thousand times as large.
Brought to orthonormal coordinates that becomes δ·tr(G)/ε, so ε must not be too small; and kernel functions of weight ε
count at λ once ε is as large as Mλ, so it must not be too large. Half-way between, on a logarithmic scale, is
ε = √(HARMLESS·M·δ·tr G) whatever λ is, and what is then left of rounding sets the smallest λ (:func:`smallest`).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from .. import threads
from ..arrays import Array, add_to_diagonal, cholesky, is_numpy, namespace, solve_lower, to_numpy
from ..filters import Floats
from ..solvers.decomposition import NotPositiveDefinite
from .path import Centred, Solved
from .span import EPS, Span

HARMLESS = 0.1  # of Mλ: what ε may come to
ROOM = 4.0  # between rounding and the smallest λ


def rounding(n: int) -> float:
    """δ: sums over a million rows were seen to be off by eps/8 of the trace, and errors of sums add up like √n."""
    return EPS / 8.0 * math.sqrt(max(n / 1e6, 1.0))


def smallest(kappa_sq: float, spread: float, n: int) -> float:
    """The smallest λ that the Gram matrix of n rows is good for: ROOM·δ·tr(G)/ε, with tr(G) = M·spread·κ⁴."""
    return ROOM * kappa_sq * math.sqrt(rounding(n) * spread / HARMLESS)


def trace(gram: Array) -> float:
    """tr(G)."""
    xp = namespace(gram)
    return float(xp.sum(xp.linalg.diagonal(gram)))


def span_for(K: Array, gram: Array, n: int) -> Span:
    """The span with ε as the Gram matrix of n rows wants it; ``gram`` is of weight one."""
    return Span.of(K, math.sqrt(HARMLESS * K.shape[0] * rounding(n) * trace(gram)))


def solve(span: Span, system: Centred, gram: Array, means: Array, rest: Array, lams: Floats) -> Solved:
    """All λ; ``gram`` is of weight one, its kernel functions less ``means``, which are off by ``rest``, and used up."""
    xp = namespace(gram)
    C = span.covariance(gram)
    # (1/W) Σ w r rᵀ = G + (m + q)(m + q)ᵀ - qqᵀ for q = (1/W) Σ w r - m, and centred it is without the first of these.
    m, q = (span.whitened(vector[:, None])[:, 0] for vector in (means, rest))
    _add_square(C, -1.0, q)
    if not system.center:
        _add_square(C, 1.0, m + q)
    d = span.whitened(system.ry)
    solutions, df = _tridiagonal(C, d, lams) if is_numpy(C) else _cholesky(C, d, lams)
    # In orthonormal coordinates (C + λ)a = d, so aᵀCa = dᵀa - λ|a|².
    inner = np.stack([to_numpy(xp.sum(a * d, axis=0)) for a in solutions])
    norm = np.stack([to_numpy(xp.sum(a * a, axis=0)) for a in solutions])
    error = system.yy - inner - lams[:, None] * norm
    coef = xp.stack([span.raw(a) for a in solutions])
    return system.solved(lams, coef, error, df)


def _add_square(C: Array, sign: float, v: Array) -> None:
    """C + sign·vvᵀ in place, without another matrix."""
    for rows in threads.stretches(len(C), 64):
        C[rows, :] += sign * v[rows, None] * v[None, :]


def _tridiagonal(C: np.ndarray, d: np.ndarray, lams: Floats) -> tuple[list[np.ndarray], Floats]:
    """C = QTQᵀ with T tridiagonal: (C+λ)⁻¹d = Q(T+λ)⁻¹Qᵀd costs products with Q only, and T has the eigenvalues.

    Half of the operations of an eigendecomposition are for eigenvectors, which nobody asks for.
    """
    M = len(C)
    if M < 3:
        sigma, V = np.linalg.eigh(C)
        return [V @ ((V.T @ d) / (np.maximum(sigma, 0.0) + lam)[:, None]) for lam in lams], _df(sigma, lams)
    lwork = int(lapack.dsytrd_lwork(M, lower=1)[0])
    packed, diagonal, off, tau, _ = lapack.dsytrd(C.T, lower=1, lwork=lwork, overwrite_a=1)
    sigma = np.maximum(scipy.linalg.eigvalsh_tridiagonal(diagonal, off), 0.0)
    turned = _with_q(packed, tau, d, "T")
    bands = np.stack([diagonal, np.append(off, 0.0)])
    found = []
    for lam in lams:
        shifted = bands + np.asarray([[lam], [0.0]])
        try:
            found.append(scipy.linalg.solveh_banded(shifted, turned, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            raise NotPositiveDefinite from None
    back = _with_q(packed, tau, np.concatenate(found, axis=1), "N")
    return np.split(back, len(lams), axis=1), _df(sigma, lams)


def _with_q(packed: np.ndarray, tau: np.ndarray, B: np.ndarray, trans: str) -> np.ndarray:
    """QB or QᵀB; Q leaves the first coordinate alone, and below it is what dsytrd left under the diagonal."""
    out = np.array(B, order="F")
    reflectors = np.asfortranarray(packed[1:, :-1])
    lwork = max(1, 64 * B.shape[1])
    out[1:], _, _ = lapack.dormqr("L", trans, reflectors, tau, np.asfortranarray(out[1:]), lwork)
    return out


def _df(sigma: Floats, lams: Floats) -> Floats:
    return np.asarray((sigma[None, :] / (sigma[None, :] + lams[:, None])).sum(axis=1))


def _cholesky(C: Array, d: Array, lams: Floats) -> tuple[list[Array], Floats]:
    """A factor for every λ, and df = M - λ tr (C+λ)⁻¹ from its inverse."""
    xp = namespace(C)
    found, df = [], np.empty(len(lams))
    eye = xp.eye(C.shape[0], dtype=C.dtype, device=C.device)
    for i, lam in enumerate(lams):
        shifted = xp.asarray(C, copy=True)
        add_to_diagonal(shifted, float(lam))
        F = cholesky(shifted)
        if F is None:
            raise NotPositiveDefinite
        found.append(solve_lower(F, solve_lower(F, d), transposed=True))
        inverse = solve_lower(F, eye)
        df[i] = C.shape[0] - float(lam) * float(xp.sum(inverse * inverse))
    return found, df
