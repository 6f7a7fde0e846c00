"""Solutions for every λ in the span of kernel functions: from the Gram matrix of one pass, or by rounds of products.

:class:`SpanSolution` holds the solutions of either method.

**One pass.** The solutions come from a tridiagonal form on a CPU, and from Cholesky factors on a GPU.

The Gram matrix is that of kernel functions and not of features, because turning kernel values into features takes twice
the time of their products. Rounding then limits how small λ may be. Below that limit rounds take over, which never
square a condition number (:func:`solve_by_rounds`).

The means m of the kernel functions are subtracted before anything is multiplied, G = (1/W) Σ w (r - m)(r - m)ᵀ, as in
the centred regression of Wang (2018) but in the features: large numbers that would cancel later are never added up. The
subtracted part returns in orthonormal coordinates, as products of two vectors. Rounding leaves G off by a share δ of
its trace (:meth:`.machine.Machine.rounding`), so a small trace is better: with the means in it, it would be up to a
thousand times as large.

In orthonormal coordinates that error becomes δ·tr(G)/ε, so ε must not be too small; and kernel functions of weight ε
count at λ once ε is as large as Mλ, so it must not be too large. Half-way between, on a logarithmic scale, is
ε = √(HARMLESS·M·δ·tr G) for every λ, and the remaining rounding then sets the smallest λ (:func:`smallest_lam`).

The points alone predict that smallest λ, and the eigenvalues show whether the prediction was right. Sums over some rows
round more (copies of a row all round in the same direction), and then the covariance has negative eigenvalues: their
size is the error, and smaller λ are not trusted. So the result can be checked from the eigenvalues alone.

**Rounds.** Preconditioned conjugate gradients solve for every λ by rounds of products with the rows; they need no Gram
matrix.

In orthonormal coordinates (C + λ)a = d. The preconditioner is (C_s + λ)⁻¹, in which the covariance C_s of a few rows a
point takes the place of C. With c rows a point the spectrum of (C_s + λ)⁻¹(C + λ) lies about (1 ± c^(-1/2))², whatever
λ is, so the number of rounds does not depend on λ. FALKON (Rudi, Carratino and Rosasco 2017), whose rows are the points
themselves, needs ever more rounds as λ falls.

All λ and all labels are columns that share each pass over the rows. Labels of random signs z are columns too: their
fits have E zᵀHz = tr H, the degrees of freedom for generalised cross-validation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from ..._base import threads
from ..._base.arrays import Array, Floats, add_to_diagonal, cholesky, is_numpy, like, namespace, solve_lower, to_numpy
from ..._linalg.operator import NotFinite, NotPositiveDefinite
from ..spectral.criteria import trace_by_signs
from .machine import Machine, PlacedRows, Span
from .sums import Sums


@dataclass(frozen=True)
class SpanSolution:
    """Coefficients of the kernel functions for every λ, and the scores for choosing among them."""

    lam: Floats
    coef: Floats = field(repr=False)  #: (L, M, T)
    intercept: Floats  #: (L, T)
    error: Floats  #: (L, T) mean squared residual on the rows
    df: Floats  #: (L,), the intercept included
    rounds: int = 0  #: passes over the rows after the first one
    jitter: float = 0.0  #: the ε of the penalty


@dataclass(frozen=True)
class CentredSystem:
    """The system (C + λI) a = d with the means subtracted, before it is moved to the coordinates of the span."""

    weight: float
    n_labels: int
    y: Floats  #: (T + probes,) the means that were subtracted; zeros without an intercept
    yy: Floats  #: (T + probes,) mean squares of the rest
    r: Array = field(repr=False)  #: (M,) means of the kernel functions
    ry: Array = field(repr=False)  #: (M, T + probes)
    center: bool = False

    @classmethod
    def of(cls, sums: Sums, n_labels: int, center: bool, means: Array | float = 0.0) -> CentredSystem:
        """Make the system from sums over rows, of kernel functions less ``means``; only an intercept is subtracted."""
        xp = namespace(sums.ry)
        y, yy = float(center) * sums.y / sums.weight, sums.yy / sums.weight
        left = sums.r / sums.weight
        of_labels = xp.asarray(y, dtype=sums.ry.dtype, device=sums.ry.device)
        ry = sums.ry / sums.weight - left[:, None] * of_labels[None, :]
        return cls(sums.weight, n_labels, y, np.maximum(yy - y * y, 0.0), float(center) * (left + means), ry, center)

    def to_solution(self, lams: Floats, coef: Array, error: Floats, df: Floats, rounds: int = 0) -> SpanSolution:
        """Return the solutions for ``coef`` (L, M, T), with zero for an error that is below rounding."""
        host = to_numpy(coef)
        intercept = self.y[: self.n_labels] - np.einsum("m,lmt->lt", to_numpy(self.r), host)
        floor = 1e-14 * self.yy[: self.n_labels]
        return SpanSolution(lams, host, intercept, np.maximum(error, floor), df + float(self.center), rounds)


HARMLESS = 0.1  # the largest ε, as a share of Mλ
ROOM = 4.0  # the factor between rounding and the smallest λ
ALIKE = 2.0  # the factor by which λ may be too small if rows are spread a little more widely than the points


def smallest_lam(kappa_sq: float, spread: float, rounding: float) -> float:
    """Return the smallest λ for an accurate Gram matrix: ROOM·δ·tr(G)/ε, tr(G) = M·spread·κ⁴, δ its rounding."""
    return ROOM * kappa_sq * math.sqrt(rounding * spread / HARMLESS)


def drop_small_lams(lams: Floats, gram: Array, kappa_sq: float, rounding: float) -> Floats:
    """Return the λ that the rows allow: they may be spread more widely than the points of :func:`smallest_lam`."""
    spread = _trace(gram) / len(gram) / kappa_sq / kappa_sq
    return lams[lams >= smallest_lam(kappa_sq, spread, rounding) / ALIKE]


def make_span(K: Array, gram: Array, rounding: float) -> Span:
    """Make the span with the ε for a Gram matrix of weight one; ``K`` is 𝕂_zz, and overwritten."""
    return Span.of(K, math.sqrt(HARMLESS * K.shape[0] * rounding) * math.sqrt(_trace(gram)))


def solve_from_gram(
    span: Span, mean: Sums, means: Array, n_labels: int, center: bool, lams: Floats
) -> SpanSolution | None:
    """Solve for the λ that the eigenvalues allow; None if they allow none.

    ``mean`` has the sums of weight one, of kernel functions less ``means``; its Gram matrix is overwritten.
    """
    xp, gram = namespace(mean.gram), mean.gram
    C = span.covariance(gram)
    # (1/W) Σ w r rᵀ = G + (m + q)(m + q)ᵀ - qqᵀ for q = (1/W) Σ w r - m; centred, the first square is missing.
    # (1/W) Σ w r y = (1/W) Σ w (r - m) y + m·mean(y); centred, it is the first term less q·mean(y).
    system = CentredSystem.of(mean, n_labels, center, means)
    m, q = (span.whiten(vector[:, None])[:, 0] for vector in (means, mean.r))
    d = span.whiten(system.ry)
    _add_square(C, -1.0, q)
    if not center:
        _add_square(C, 1.0, m + q)
        d = d + m[:, None] * xp.asarray(mean.y, dtype=d.dtype, device=d.device)[None, :]
    lams, solutions, df = (_tridiagonal if is_numpy(C) else _cholesky)(C, d, lams)
    if not len(lams):
        return None
    # In orthonormal coordinates (C + λ)a = d, so aᵀCa = dᵀa - λ|a|².
    inner = np.stack([to_numpy(xp.sum(a * d, axis=0)) for a in solutions])
    norm = np.stack([to_numpy(xp.sum(a * a, axis=0)) for a in solutions])
    error = system.yy - inner - lams[:, None] * norm
    coef = xp.stack([span.to_coefficients(a) for a in solutions])
    return system.to_solution(lams, coef, error, df)


def _trace(gram: Array) -> float:
    xp = namespace(gram)
    trace = float(xp.sum(xp.linalg.diagonal(gram)))
    if not math.isfinite(trace):
        raise NotFinite
    return trace


def _add_square(C: Array, sign: float, v: Array) -> None:
    """Compute C + sign·vvᵀ in place, without another matrix."""
    for rows in threads.cut_stretches(len(C), 64):
        C[rows, :] += sign * v[rows, None] * v[None, :]


def _tridiagonal(C: np.ndarray, d: np.ndarray, lams: Floats) -> tuple[Floats, list[np.ndarray], Floats]:
    """Solve by C = QTQᵀ, T tridiagonal: (C+λ)⁻¹d = Q(T+λ)⁻¹Qᵀd takes products with Q only, and T has the eigenvalues.

    Half of the operations of an eigendecomposition are for eigenvectors, which are not needed here.
    """
    M = len(C)
    if M < 3:
        sigma, V = np.linalg.eigh(C)
        lams, sigma = _keep_trusted(lams, sigma)
        return lams, [V @ ((V.T @ d) / (sigma + lam)[:, None]) for lam in lams], _df(sigma, lams)
    lwork = int(lapack.dsytrd_lwork(M, lower=1)[0])
    packed, diagonal, off, tau, _ = lapack.dsytrd(C.T, lower=1, lwork=lwork, overwrite_a=1)
    lams, sigma = _keep_trusted(lams, scipy.linalg.eigvalsh_tridiagonal(diagonal, off))
    turned = _with_q(packed, tau, d, "T")
    bands = np.stack([diagonal, np.append(off, 0.0)])
    solutions = [
        scipy.linalg.solveh_banded(bands + np.asarray([[lam], [0.0]]), turned, lower=True, check_finite=False)
        for lam in lams
    ]
    if not solutions:
        return lams, [], lams
    back = _with_q(packed, tau, np.concatenate(solutions, axis=1), "N")
    return lams, np.split(back, len(lams), axis=1), _df(sigma, lams)


def _keep_trusted(lams: Floats, sigma: Floats) -> tuple[Floats, Floats]:
    """Return the λ well above the rounding of the smallest eigenvalue, and eigenvalues without negative ones."""
    return lams[lams > -ROOM * np.min(sigma)], np.maximum(sigma, 0.0)


def _with_q(packed: np.ndarray, tau: np.ndarray, B: np.ndarray, trans: str) -> np.ndarray:
    """Return QB or QᵀB; Q leaves the first coordinate alone, and dsytrd stored the rest below the diagonal."""
    out = np.array(B, order="F")
    reflectors = np.asfortranarray(packed[1:, :-1])
    lwork = max(1, 64 * B.shape[1])
    out[1:], _, _ = lapack.dormqr("L", trans, reflectors, tau, np.asfortranarray(out[1:]), lwork)
    return out


def _df(sigma: Floats, lams: Floats) -> Floats:
    return np.asarray((sigma[None, :] / (sigma[None, :] + lams[:, None])).sum(axis=1))


def _cholesky(C: Array, d: Array, lams: Floats) -> tuple[Floats, list[Array], Floats]:
    """Factorise for every λ; df = M - λ tr (C+λ)⁻¹ comes from the inverse."""
    xp = namespace(C)

    def factor(lam: float) -> Array | None:
        shifted = xp.asarray(C, copy=True)
        add_to_diagonal(shifted, lam)
        return cholesky(shifted)

    lams = np.asarray(lams)
    while len(lams) and factor(float(np.min(lams)) / ROOM) is None:  # rounding has left a negative eigenvalue
        lams = lams[lams > np.min(lams)]
    solutions, df = [], np.empty(len(lams))
    eye = xp.eye(C.shape[0], dtype=C.dtype, device=C.device)
    for i, lam in enumerate(lams):
        F = factor(float(lam))
        solutions.append(solve_lower(F, solve_lower(F, d), transposed=True))
        inverse = solve_lower(F, eye)
        df[i] = C.shape[0] - float(lam) * float(xp.sum(inverse * inverse))
    return lams, solutions, df


_Step = Callable[[int], None]


def solve_by_rounds(
    span: Span,
    system: CentredSystem,
    machine: Machine,
    chunks: Iterable[PlacedRows],
    sample: PlacedRows | None,
    lams: Floats,
    *,
    tol: float,
    most: int,
    factors: int,
    after_round: _Step = lambda _: None,
) -> SpanSolution:
    """Solve for all λ in at most ``most`` rounds, with at most ``factors`` preconditioners (neighbouring λ share one).

    ``sample`` holds the rows for the preconditioners; None means the points themselves.
    """
    xp = namespace(span.L)
    d = span.whiten(system.ry)
    mean = span.whiten(system.r[:, None])[:, 0]
    k = d.shape[1]
    columns = np.repeat(lams, k)

    def times(V: Array) -> Array:
        """Return C V by one pass over the rows."""
        U, total = span.to_coefficients(V), xp.zeros_like(V)
        for rows in chunks:
            total = total + machine.gram_times(rows, U)
        product = span.whiten(total / system.weight)
        return product - mean[:, None] * (mean @ V)[None, :] if system.center else product

    own = span.covariance_of_points() if sample is None else machine.covariance(sample, span)
    precondition = _preconditioner(own, lams, k, factors)
    right = xp.concat([d] * len(lams), axis=1)
    a, left, rounds = _conjugate_gradients(times, precondition, right, columns, tol, most, after_round)
    # With the residual q = d - (C + λ)a known, aᵀCa = aᵀ(d - q) - λ|a|² holds at every stage of the rounds.
    inner = to_numpy(xp.sum(a * right, axis=0)).reshape(len(lams), k)
    bent = to_numpy(xp.sum(a * (right - left), axis=0)).reshape(len(lams), k)
    norm = to_numpy(xp.sum(a * a, axis=0)).reshape(len(lams), k)
    error = system.yy - 2 * inner + bent - lams[:, None] * norm
    T = system.n_labels
    df = system.weight * trace_by_signs(inner, k - T) if k > T else np.full(len(lams), np.nan)
    coef = xp.reshape(span.to_coefficients(a), (span.size, len(lams), k))[:, :, :T]
    return system.to_solution(lams, xp.permute_dims(coef, (1, 0, 2)), error[:, :T], df, rounds)


def _preconditioner(own: Array, lams: Floats, k: int, factors: int) -> Callable[[Array, np.ndarray], Array]:
    """Return (C_s + λ)⁻¹ as a function of columns and their numbers; ``own`` is C_s, and overwritten."""
    xp = namespace(own)
    order = np.argsort(lams)
    groups = np.array_split(order, min(factors, len(lams)))
    factored = []
    for group in groups:
        shifted = xp.asarray(own, copy=True) if group is not groups[-1] else own
        add_to_diagonal(shifted, float(np.exp(np.mean(np.log(lams[group])))))
        F = cholesky(shifted)
        if F is None:
            raise NotPositiveDefinite
        factored.append(F)
    group_of = np.empty(len(lams), dtype=int)
    for number, group in enumerate(groups):
        group_of[group] = number

    def apply(R: Array, columns: np.ndarray) -> Array:
        out = xp.empty_like(R)
        for number, F in enumerate(factored):
            own_columns = np.flatnonzero(group_of[columns // k] == number)
            if len(own_columns):
                chosen = like(own_columns, R, dtype=xp.int64)
                out[:, chosen] = solve_lower(F, solve_lower(F, xp.take(R, chosen, axis=1)), transposed=True)
        return out

    return apply


def _conjugate_gradients(
    times: Callable[[Array], Array],
    precondition: Callable[[Array, np.ndarray], Array],
    right: Array,
    shifts: Floats,
    tol: float,
    most: int,
    after_round: _Step,
) -> tuple[Array, Array, int]:
    """Return a with (C + shift)a = right for each column, its residual, and the number of rounds.

    A column is done when √(qᵀP⁻¹q) has fallen to ``tol`` of its first value; it then drops out.
    """
    xp = namespace(right)
    everyone = np.arange(right.shape[1])
    a, q = xp.zeros_like(right), xp.asarray(right, copy=True)
    z = precondition(q, everyone)
    p, size = z, to_numpy(xp.sum(q * z, axis=0))
    goal, rounds = tol * tol * size, 0
    active = everyone[size > goal]
    p = xp.take(p, like(active, p, dtype=xp.int64), axis=1)
    while len(active) and rounds < most:
        chosen = like(active, right, dtype=xp.int64)
        Cp = times(p) + like(shifts[active], right) * p
        alpha = size[active] / to_numpy(xp.sum(p * Cp, axis=0))
        a[:, chosen] += like(alpha, right) * p
        q[:, chosen] -= like(alpha, right) * Cp
        rest = xp.take(q, chosen, axis=1)
        z = precondition(rest, active)
        new = to_numpy(xp.sum(rest * z, axis=0))
        beta, size[active] = new / size[active], new
        rounds += 1
        after_round(rounds)
        going = np.flatnonzero(new > goal[active])
        indices = like(going, right, dtype=xp.int64)
        p = xp.take(z, indices, axis=1) + like(beta[going], right) * xp.take(p, indices, axis=1)
        active = active[going]
    return a, q, rounds
