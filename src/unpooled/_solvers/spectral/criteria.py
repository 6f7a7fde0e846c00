"""Criteria for the choice of λ: a default grid, and leave-one-out, GCV and k-fold scores of a whole path.

All scores are weighted mean squared errors, so smaller is better and the unit is that of y². In coordinates
v = √(N w)·(y - b) the residual is (I - A g(A))v, and row i has leverage h_i = [A g(A)]_ii (+ w_i for the intercept).

- leave-one-out: Σ w_i (r_i/(1-h_i))². Exact for Tikhonov with N·λ held fixed, intercept and weights included: a row is
  left out with all its weight. For other filters it is an approximation, off by a few per cent on small samples.
- GCV (Golub, Heath and Wahba 1979): Σ w_i r_i² / (1 - df/N)², df = Σ_i h_i, N the number of rows: weights count in
  the error, not in N. That is leave-one-out with the mean leverage df/N in place of every h_i.
- k folds: rows are held out in turn, and the squared errors are weighted.

If only sums over rows are known, :func:`gcv` takes the residual sum of squares that its caller has computed, and the
degrees of freedom may come from labels of random signs (:func:`random_signs`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..._base.arrays import Array, Floats, eps, like, namespace, to_numpy
from ..._linalg.banded import BandedForm
from ..._linalg.operator import Decomposition, NotPositiveDefinite, build_dense, eigh
from ...filters import Filter

#: (g on the spectrum (L, r), g at 0 (L,)) and the same of the residual 1 - σg
FilteredSpectrum = tuple[tuple[Floats, Floats], tuple[Floats, Floats]]


def filter_path(filter: Filter, decomposition: Decomposition, lams: Floats, kappa_sq: float) -> FilteredSpectrum:
    """Return (g on the spectrum, g at 0) and (residual on the spectrum, residual at 0) for every λ."""
    with_zero = np.append(decomposition.sigma, 0.0)
    g, r = filter.path(with_zero, lams, kappa_sq)
    return (g[:, :-1], g[:, -1]), (r[:, :-1], r[:, -1])


CRITERIA = ("loo", "gcv", "cv")


def default_grid(kappa_sq: float, rounding: float) -> Floats:
    """Return λ from κ² down, three per decade: to 10⁻⁹ κ² in double precision, to 10⁻⁵ κ² in single."""
    return three_a_decade(kappa_sq, 0.0, -9.0 if rounding < 1e-10 else -5.0)


def three_a_decade(kappa_sq: float, first: float, last: float) -> Floats:
    """Return λ/κ² from 10^first down to 10^last, at least three per decade."""
    return np.asarray(kappa_sq * np.logspace(first, last, 1 + int(np.ceil(3 * (first - last)))))


def gcv(error: Floats, df: Floats, n: float) -> Floats:
    """Return generalised cross-validation, error/(1 - df/n)², for mean squared residuals (L, T) of λ and targets."""
    left = remaining_share(df, n)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(left > 0, error / left**2, np.inf)


def remaining_share(df: Floats, n: float) -> Floats:
    """Return 1 - df/n, the share of the rows that is left for the residuals; zero if nothing is.

    All forms of GCV begin here, and each divides by the square itself, since they round differently: :func:`_score`
    divides every residual before it is squared, as leave-one-out must, whose share differs from row to row;
    :func:`gcv` knows only the mean square; that of noised sums may be below zero, and must not grow then.
    """
    return np.maximum(1.0 - df / n, 0.0)


def random_signs(draws: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return labels z/√w for signs z that are drawn as zeros and ones (n, count).

    With E zzᵀ = I the fit Hz of such labels has E zᵀHz = tr H, the degrees of freedom (Hutchinson 1990).
    """
    z = np.where(draws, 1.0, -1.0)
    return z if weights is None else z / np.sqrt(weights)[:, None]


def trace_by_signs(products: Floats, count: int) -> Floats:
    """Return tr H (L,) from zᵀHz (L, T + count), whose last ``count`` columns are those of random signs."""
    return np.asarray(products[:, -count:].mean(axis=1))


@dataclass
class Scores:
    """The criterion for every λ and target, shape (L, T), and the effective degrees of freedom (L,)."""

    criterion: Floats
    df: Floats


def score_path(
    criterion: str,
    decomposition: Decomposition,
    v: Array,
    filtered: FilteredSpectrum,
    leverage_of_mean: Array | float,
) -> Scores:
    """Return leave-one-out or GCV scores for every λ from one decomposition."""
    _, (r, r0) = filtered
    df = degrees_of_freedom(decomposition, filtered, leverage_of_mean)
    shares = remaining_share(df, v.shape[0])
    left = decomposition.diagonals(r, r0) - leverage_of_mean if criterion == "loo" else None
    projected = decomposition.project(v)
    scores = np.empty((len(r), v.shape[1]))
    for i in range(len(r)):
        residual = decomposition.apply(r[i], r0[i], projected)
        scores[i] = _score(residual, left[i, :] if left is not None else float(shares[i]))
    return Scores(scores, df)


def degrees_of_freedom(
    decomposition: Decomposition, filtered: FilteredSpectrum, leverage_of_mean: Array | float
) -> Floats:
    """Return df = Σ σ g(σ), plus one for the intercept, for every λ."""
    (g, _), _ = filtered
    return np.sum(g * decomposition.sigma, axis=1) + _df_of_mean(leverage_of_mean)


def score_ridge(criterion: str, banded: BandedForm, v: Array, lams: Floats, leverage_of_mean: Array | float) -> Scores:
    """Score Tikhonov by resolvents: the residual is μ(M+μI)⁻¹v with μ = Nλ, and 1 - h_i = μ[(M+μI)⁻¹]_ii.

    If rounding leaves M + μI indefinite, the score is infinite; indefinite beyond rounding is an error.
    """
    n, n_targets = v.shape
    scores, df = np.full((len(lams), n_targets), np.inf), np.full(len(lams), np.nan)
    diagonals = {}  # position on the grid -> 1 - h_i before the intercept takes its share
    for i, mu in enumerate(n * lams):
        try:
            diagonals[i] = mu * banded.inverse_diagonal(float(mu))
        except NotPositiveDefinite:
            if mu > 1e3 * eps(v) * banded.norm:
                raise
            continue
        df[i] = n - float(np.sum(diagonals[i], dtype=float)) + _df_of_mean(leverage_of_mean)
    per_batch = max(1, 256 // n_targets)
    scored = list(diagonals)
    for batch in (scored[i : i + per_batch] for i in range(0, len(scored), per_batch)):
        # All λ of a batch share two products with Q.
        mus = np.repeat(n * lams[batch], n_targets)
        residuals = mus.astype(v.dtype) * banded.solve(mus, np.tile(v, (1, len(batch))))
        for j, i in enumerate(batch):
            left = diagonals[i] - leverage_of_mean if criterion == "loo" else float(remaining_share(df[i], n))
            scores[i] = _score(residuals[:, j * n_targets : (j + 1) * n_targets], left)
    return Scores(scores, df)


def _df_of_mean(leverage_of_mean: Array | float) -> float:
    """Return the intercept's degree of freedom."""
    return 0.0 if isinstance(leverage_of_mean, float) else 1.0


def _score(residual: Array, left: Array | float) -> Floats:
    """Return the mean square of residual/left for every target; infinite if nothing is left.

    A row that the model reproduces whatever its label (left = 1 - h = 0) carries no information.
    """
    xp = namespace(residual)
    smallest = left if isinstance(left, float) else float(xp.min(left))
    if smallest < 64 * eps(residual):
        return np.full(residual.shape[1], np.inf)
    residual = residual / (left if isinstance(left, float) else left[:, None])
    return to_numpy(xp.mean(residual * residual, axis=0)).astype(float)


def has_risen(criterion: Floats, lams: Floats, index: np.ndarray, trusted: np.ndarray) -> bool:
    """Return whether every chosen score is trusted, and 5 % lower than that of the smallest λ that is."""
    if not np.all(trusted[index]):
        return False
    last = int(np.flatnonzero(trusted)[np.argmin(lams[trusted])])
    return all(criterion[last, t] >= 1.05 * criterion[i, t] for t, i in enumerate(index))


def fold_scores(
    K: Array,
    Y: Array,
    weights: Array | None,
    center: bool,
    filter: Filter,
    lams: Floats,
    kappa_sq: float,
    folds: Iterable[tuple[np.ndarray, np.ndarray]],
) -> Floats:
    """Return k-fold scores (L, T), from one decomposition per fold for every λ. K is not overwritten."""
    xp = namespace(K)
    total, mass = np.zeros((len(lams), Y.shape[1])), 0.0
    for train, test in folds:
        tr, te = like(train, K, dtype=xp.int64), like(test, K, dtype=xp.int64)
        K_rows = xp.take(K, tr, axis=0)
        w = None if weights is None else xp.take(weights, tr, axis=0)
        M, coordinates = build_dense(xp.take(K_rows, tr, axis=1), w, center)
        v, b = coordinates.targets(xp.take(Y, tr, axis=0), K.dtype)
        decomposition = eigh(M, coordinates.n, kappa_sq)
        (g, g0), _ = filter_path(filter, decomposition, lams, kappa_sq)
        projected = decomposition.project(v)
        K_test = xp.take(K_rows, te, axis=1).T
        Y_test = xp.take(Y, te, axis=0)
        w_test = xp.ones_like(Y_test[:, 0]) if weights is None else xp.astype(xp.take(weights, te, axis=0), Y.dtype)
        for i in range(len(lams)):
            c = coordinates.coefficients(decomposition.apply(g[i], g0[i], projected))
            error = xp.astype(K_test @ c, Y.dtype) + coordinates.intercept(c, b) - Y_test
            total[i] += to_numpy(w_test @ (error * error))
        mass += float(xp.sum(w_test))
    return total / mass


def best_index(criterion: Floats, lams: Floats, per_target: bool) -> np.ndarray:
    """Return the index of every target's λ: the lowest score, and the largest λ among equal scores."""
    scores = criterion if per_target else np.repeat(criterion.mean(axis=1, keepdims=True), criterion.shape[1], axis=1)
    scores = np.where(np.isnan(scores), np.inf, scores)
    if np.any(np.all(np.isinf(scores), axis=0)):
        raise ValueError(
            "no lam of the grid has a finite score: all of them reproduce the labels exactly; add larger values to grid"
        )
    descending = np.argsort(-lams, kind="stable")
    return np.asarray(descending[np.argmin(scores[descending], axis=0)])
