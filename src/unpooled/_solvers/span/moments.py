"""Regression in the span of a basis, from means alone: C a = d, solved by any filter, for every λ at once.

With features φ the function f = aᵀφ + b has a = g_λ(C) d, where d = (1/n) Σ y_j φ(x_j), and C is

- at second order (1/n) Σ φ(x_j)φ(x_j)ᵀ: the filter's regression on the pooled rows in the span, exactly;
- at first order diag(λ^u), the public sample's: LESS (Qin and Guo 2019, section 2); Tikhonov is a_i = d_i/(λ_i^u+λ).

With centring the mean of the features is subtracted in both, and the mean of y is subtracted from y.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse.linalg

from ..._base.arrays import Floats
from ..._linalg.operator import eigh
from ...filters import Filter
from ..spectral import criteria
from . import noisy_moments
from .noisy_moments import Noise

HEAVY = 4.0  # weight of the mismatch between public and private rows in the risk; 2 for Gaussian features


@dataclass(frozen=True)
class Means:
    """The means of a sum of summaries, divided by its weight; T labels."""

    n: float  #: the effective number of rows: the weight, or the number of rows if that is larger
    weight: float
    y: Floats  #: (T,)
    yy: Floats  #: (T,)
    phi: Floats  #: (M,)
    phi_y: Floats  #: (M, T)
    gram: Floats | None  #: (M, M)
    noise: Noise | None = None  #: the noise that was added to the means for privacy
    centred: bool = True  #: whether the means of y and φ are known; else they are zeros


@dataclass(frozen=True)
class System:
    """The linear system with C = V diag(σ) Vᵀ and right-hand side d."""

    sigma: Floats  #: (r,)
    spread: Floats  #: (r,) the value of σ at fresh rows
    vectors: Floats | None  #: (M, r); None if the features themselves are the eigenvectors
    d: Floats  #: (M, T)
    shift: Floats  #: (M,) the mean of the features that was subtracted; zero without centring
    y_mean: Floats  #: (T,) the mean of y that was subtracted
    y_square: Floats  #: (T,) the mean square of the rest
    n: float
    weight: float
    centering: str  #: "none"; "rows": the features' mean over the rows; "public": over the public sample
    same_sample: bool  #: whether C and d are taken over the same rows
    n_public: int
    kappa_sq: float
    noise: Noise | None = None
    d_variance: Floats | float = 0.0  #: (r, T) the variance of the noise in Vᵀd
    raw: Floats | None = None  #: (r,) σ with the negative eigenvalues that noise caused

    @property
    def projected(self) -> Floats:
        """Vᵀd, (r, T)."""
        return self.d[: len(self.sigma)] if self.vectors is None else self.vectors.T @ self.d

    def lift(self, t: Floats) -> Floats:
        """Return V t: (r, …) to (M, …)."""
        if self.vectors is not None:
            return self.vectors @ t
        return np.concatenate([t, np.zeros((len(self.d) - len(t), *t.shape[1:]))])

    def intercept(self, coef: Floats) -> Floats:
        """Return b of f = aᵀφ + b, (T,)."""
        return np.asarray(self.y_mean - self.shift @ coef)


def make_system(means: Means, basis: Any, center: bool | str, same_sample: bool) -> System:
    """Make the system of a summary. ``same_sample``: at first order, the public sample is the rows themselves."""
    M, T = means.phi_y.shape
    second = means.gram is not None
    centering = "none" if center is False else "public" if center == "public" and not second else "rows"
    if centering != "none" and not means.centred:
        raise ValueError(
            "the summary has no Σφ and Σy (means=0), so no intercept can be fitted: use fit_intercept=False"
        )
    shift = {"none": np.zeros(M), "rows": means.phi, "public": basis.mean_}[centering]
    y_mean = np.zeros(T) if centering == "none" else means.y
    d = means.phi_y - np.outer(shift, y_mean)
    y_square = np.maximum(means.yy - y_mean * y_mean, 0.0)
    kappa_sq, noise = float(basis.kappa_sq_), means.noise
    if noise is not None:
        y_square = noisy_moments.label_spread(means.yy, y_mean, noise)
    raw: Floats | None = None
    if second:
        assert means.gram is not None
        if noise is not None:
            raw, vectors = noisy_moments.decompose(means.gram, shift, noise)
            sigma = np.maximum(raw, 0.0)
        else:
            sigma, vectors = _decompose(means.gram - np.outer(shift, shift), kappa_sq)
        spread = sigma
    elif centering == "none":
        # A direction that the public sample does not have must not be divided by anything.
        rank = max(int(np.sum(basis.eigenvalues_ > 8 * np.finfo(float).eps * basis.eigenvalues_[0])), 1)
        sigma, spread, vectors = basis.eigenvalues_[:rank], basis.spread_[:rank], None
    else:
        is_known = basis.eigenvalues_ >= 8 * np.finfo(float).eps * basis.eigenvalues_[0]
        C = np.diag(basis.eigenvalues_) - np.outer(basis.mean_, basis.mean_)
        sigma, vectors = _decompose(C[np.ix_(is_known, is_known)], kappa_sq)
        excess = basis.spread_ - basis.eigenvalues_
        spread = sigma + (vectors * vectors).T @ excess[is_known]
        vectors = np.concatenate([vectors, np.zeros((M - len(vectors), vectors.shape[1]))])
    variance: Floats | float = 0.0
    if noise is not None:
        variance = noisy_moments.variance_of_d(shift, y_mean, vectors, len(sigma), centering, noise)
    return System(
        sigma,
        spread,
        vectors,
        d,
        shift,
        y_mean,
        y_square,
        means.n,
        means.weight,
        centering,
        same_sample or second,
        int(basis.n_public_),
        kappa_sq,
        noise,
        variance,
        raw,
    )


def limit_rank(system: System, n_features: int) -> System:
    """Return the system with only the directions of the largest eigenvalues."""
    vectors = None if system.vectors is None else system.vectors[:, :n_features]
    variance = system.d_variance if isinstance(system.d_variance, float) else system.d_variance[:n_features]
    raw = None if system.raw is None else system.raw[:n_features]
    sigma, spread = system.sigma[:n_features], system.spread[:n_features]
    return replace(system, sigma=sigma, spread=spread, vectors=vectors, d_variance=variance, raw=raw)


def _decompose(C: Floats, kappa_sq: float) -> tuple[Floats, Floats]:
    decomposition = eigh(np.array(C, order="F"), 1, kappa_sq)
    return decomposition.sigma[::-1].copy(), np.ascontiguousarray(decomposition.U[:, ::-1])


@dataclass(frozen=True)
class Solutions:
    """Solutions a for every λ, and the scores for choosing among them."""

    lam: Floats
    g: Floats  #: (L, r)
    coef: Floats  #: (L, M, T)
    intercept: Floats  #: (L, T)
    df: Floats  #: (L,) tr C g(C), plus one for the intercept
    error: Floats  #: (L, T) mean y² - 2 d·a + aᵀCa
    signal: Floats  #: (L, T) aᵀCa


def solve(system: System, filter: Filter, lams: Floats, by_rule: bool = False) -> Solutions:
    """Solve for every λ. ``by_rule`` keeps only eigenvalues above κ²λ (the choice of N in Qin and Guo (2019))."""
    g, _ = filter.path(system.sigma, lams, system.kappa_sq)
    if by_rule:
        g = np.where(system.sigma[None, :] > system.kappa_sq * lams[:, None], g, 0.0)
    t = system.projected
    along = g[:, :, None] * t[None]  # (L, r, T)
    coef = np.stack([system.lift(a) for a in along])
    signal = np.einsum("r,lrt->lt", system.sigma, along * along)
    error = system.y_square - 2 * np.einsum("rt,lrt->lt", t, along) + signal
    df = (g * system.sigma).sum(axis=1) + (system.centering != "none")
    intercept = np.stack([system.intercept(a) for a in coef])
    return Solutions(lams, g, coef, intercept, df, error, signal)


def gcv(system: System, solutions: Solutions) -> Floats:
    """Return generalised cross-validation (L, T), if C is that of the rows themselves."""
    floor = 1e-14 * system.y_square  # the rounding of the error
    return criteria.gcv(np.maximum(solutions.error, floor), solutions.df, system.n)


def risk(system: System, solutions: Solutions, rounds_follow: bool = False) -> Floats:
    """Estimate E(y - f(x))² for LESS (L, T), C being the public sample's, from the summary alone.

    E(y - aᵀφ)² = E y² - 2 aᵀE[yφ] + aᵀE[φφᵀ]a. For E[yφ] there is d, from which a = g d was made: in aᵀd the
    variance of d counts as signal, so g_i v_i is subtracted, v_i = (E y²·q_i - d_i²)/n being the variance of d_i. For
    E[φφᵀ] there is diag(q), q_i the spread of φ_i at fresh rows: λ_i^u would be too small for the last of them. The
    difference Δ between the public rows and the others is in a = g(L^x + Δ)a* as well, so that aᵀΔa adds up: by about
    2 (Σ g_i q_i)(aᵀCa)/n_u for features of light tails. Twice that is taken, because those of real data are heavier
    (on eight data sets with sites the chosen λ then cost 7 % of the error on average, at worst 70 %; the sums of
    leave-one-out errors that a second exchange brings cost 0.5 %). If rounds of residuals follow and keep the ridge
    term, they remove the mismatch, and it is not counted.

    Noise that was added to d for privacy is in v_i as well, with its known variance, and t_i² - v_i is limited to what
    the signal can be (:func:`.noisy_moments.cross_terms`).
    """
    t, g, q, noise = system.projected, solutions.g[:, :, None], system.spread[:, None], system.d_variance
    variance = np.maximum(system.y_square * q - t * t + noise, 0.0) / system.n + noise
    estimate = t * t - variance
    if system.noise is not None:
        estimate = noisy_moments.cross_terms(t, variance, system.y_square, q)
    cross = np.sum(g * estimate, axis=1)
    signal = np.sum(q * (g * t) ** 2, axis=1) + noisy_moments.of_intercept(system, g * t)
    lacking = (0.0 if rounds_follow else HEAVY) * signal * (solutions.g @ system.spread)[:, None] / system.n_public
    return np.asarray(system.y_square - 2 * cross + signal + lacking)


@dataclass(frozen=True)
class Mismatch:
    """The distance of the public sample from the rows, and its cost for LESS.

    ``error`` is the root mean square error of LESS that is due to taking the public sample's covariance, in the units
    of y, for the worst label: exact for a summary of second order, else its expected size √(aᵀCa·df/n_u) for a public
    sample drawn like the rows. ``operator`` is ‖L^u - L^x‖ on the span, known at second order only, ``mean`` is
    ‖mean φ(u) - mean φ(x)‖ (an MMD), ``expected`` is κ²√(1/n + 1/n_u), below which ‖L^u - L^x‖ stays in root mean
    square if rows and public sample are drawn alike. An entry that noise for privacy hides is None.
    """

    error: float
    mean: float | None
    expected: float
    operator: float | None
    n: float
    n_public: int

    def __str__(self) -> str:
        details = "" if self.operator is None else f"‖L^u - L^x‖ = {self.operator:.2g}, "
        details += "" if self.mean is None else f"mean features differ by {self.mean:.2g}; "
        return (
            f"the floor of LESS from {self.n_public} public rows for {self.n:.0f}: off by about {self.error:.3g} "
            f"({details}{self.expected:.2g} is expected by chance)"
        )


def mismatch(
    means: Means, basis: Any, lam: float, filter: Filter, center: bool | str, fitted: tuple[Floats, Floats]
) -> Mismatch:
    """Return the floor of LESS at λ from the summary; ``fitted`` are the coefficients and intercept learned from it.

    At second order those are the exact ones, and the first-order part alone would have given LESS.
    """
    gap: float | None = float(np.linalg.norm(basis.mean_ - means.phi))
    if means.noise is not None:
        gap = noisy_moments.mean_gap(basis.mean_, means.phi, means.noise) if means.centred else None
    expected = float(basis.kappa_sq_ * np.sqrt(1 / means.n + 1 / basis.n_public_))
    less = solve(make_system(replace(means, gram=None), basis, center, same_sample=False), filter, np.asarray([lam]))
    operator = None
    if means.gram is None:
        error = np.sqrt(less.signal[0] * less.df[0] / basis.n_public_)
    else:
        operator = _norm(np.diag(basis.eigenvalues_) - means.gram) if means.noise is None else None  # noise hides it
        a, b = less.coef[0] - fitted[0], less.intercept[0] - fitted[1]
        square = np.einsum("mt,mt->t", a, means.gram @ a) + 2 * b * (means.phi @ a) + b**2
        error = np.sqrt(np.maximum(square, 0.0))
    return Mismatch(float(np.max(error)), gap, expected, operator, means.n, int(basis.n_public_))


def _norm(difference: Floats) -> float:
    """Return the largest |eigenvalue| of a symmetric matrix, by Lanczos if it is large."""
    if len(difference) < 100:
        return float(np.linalg.norm(difference, 2))
    start = np.ones(len(difference))
    return float(abs(scipy.sparse.linalg.eigsh(difference, 1, v0=start, tol=1e-6, return_eigenvectors=False)[0]))
