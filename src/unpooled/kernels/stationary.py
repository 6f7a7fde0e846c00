"""Kernels of the scaled distance r = ‖(x - z)/ℓ‖₂: Gaussian, Laplacian, Matérn.

All distances of a block come from one matrix product, because ‖x - z‖² = |x|² - 2xᵀz + |z|². This would lose digits if
norms were much larger than distances, so a row from the middle of the sample is subtracted first. If norms are still so
large that the product would cancel, as with groups of rows far apart, the differences are squared and summed instead,
which is slower and exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist

from .._base.arrays import Array, clip_, eps, exp_, is_foreign, is_numpy, like, namespace, sqrt_, to_numpy
from .._base.text import quote
from .base import Kernel

MEDIAN = "median"


class Stationary(Kernel):
    """The base of kernels k(r) of the distance r between x/ℓ and z/ℓ, with k(0) = 1 and so κ = 1.

    ``length_scale`` is a positive number, a vector with one positive number per feature, or a word. "median", the
    default, is the median distance between distinct rows: those that an estimator is fitted to, or the public sample of
    a basis. "auto" is one number per feature, chosen with the labels by the estimator that the kernel is given to: see
    :func:`unpooled.choose_length_scales`. A kernel on its own has values only if its length scale is a number:
    ``kernel.resolve(X)`` gives the kernel with the median distance of ``X``.

    Parameters
    ----------
    length_scale : number, vector, "median" or "auto"
    """

    nonnegative = True

    def __init__(self, length_scale: float | Any = MEDIAN) -> None:
        self.length_scale = length_scale

    def diag(self, X: Array) -> Array:
        xp = namespace(X)
        return xp.ones(X.shape[0], dtype=X.dtype, device=X.device)

    def kappa(self, X: Array | None = None) -> float:
        return 1.0

    def resolve(self, X: Array, weights: Array | None = None) -> Kernel:
        if is_auto(self.length_scale):
            raise ValueError(_NO_LABELS)
        if is_median(self.length_scale):
            length_scale: Any = median_distance(X, weights)
        else:
            length_scale = _check_length_scale(self.length_scale, X.shape[1])
        return type(self)(**{**self.get_params(deep=False), "length_scale": length_scale})

    def _get_length_scale(self, n_features: int) -> float | np.ndarray:
        if is_median(self.length_scale):
            raise ValueError(_NO_ROWS)
        if is_auto(self.length_scale):
            raise ValueError(_NO_LABELS)
        return _check_length_scale(self.length_scale, n_features)

    def scale_rows(self, X: Array, Z: Array) -> tuple[Array, Array]:
        """Compute (x - m)/ℓ and (z - m)/ℓ for a row m in the middle of Z.

        Differences stay the same, and large offsets such as years or coordinates cost no digits. The offset must be
        subtracted before the division, because x/ℓ rounds on the scale of the offset. m is the median of a few rows,
        which a single far row does not move.
        """
        length_scale = self._get_length_scale(X.shape[1])
        if Z.shape[0] > 0:
            few = namespace(Z).sort(Z[:: max(1, Z.shape[0] // 101), :], axis=0)
            middle = few[few.shape[0] // 2, :]
            X, Z = X - middle, Z - middle
        if not isinstance(length_scale, float):
            length_scale = like(length_scale, X)[None, :]
        return X / length_scale, Z / length_scale

    def length_scale_gradient(self, X: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Differentiate Σ_ij G_ij K(x_i, x_j) by log ℓ_k for every feature k; G is symmetric.

        With D_k the squared differences in feature k, dK/dlog ℓ_k = W∘D_k/ℓ_k² and W = -k'(r)/r, so for S = G∘W and
        z = x/ℓ the answer is Σ_ij S_ij (z_ik - z_jk)² = 2(Σ_i z_ik² Σ_j S_ij - z_kᵀS z_k): one matrix product for all.
        """
        Z, _ = self.scale_rows(X, X)
        S = self._slope(Z)
        S *= G
        np.fill_diagonal(S, 0.0)  # zero in theory; large numbers that should cancel would leave rounding errors
        return 2.0 * (S.sum(axis=1) @ (Z * Z) - np.einsum("ik,ik->k", Z, S @ Z))

    def _slope(self, Z: np.ndarray) -> np.ndarray:
        """Compute W_ij = -k'(r)/r at the distances r of rows that have been scaled."""
        raise TypeError(
            f"length_scale='auto' is not available for {type(self).__name__}, which does not define _slope: give "
            "numbers or 'median'"
        )

    def frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n frequencies w from the kernel's spectral measure: k(x - z) = E cos(wᵀ(x - z))."""
        length_scale = self._get_length_scale(d)
        return self._unit_frequencies(n, d, rng) / length_scale

    def _unit_frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        raise TypeError(f"{type(self).__name__} has no random frequencies: it must define _unit_frequencies")


class Gaussian(Stationary):
    """The Gaussian kernel K(x, z) = exp(-‖x - z‖²/(2ℓ²)).

    Parameters
    ----------
    length_scale : "median", "auto", float, or array of one number per feature; default "median"
    """

    def block(self, X: Array, Z: Array) -> Array:
        return exp_(_squared_distance(*self.scale_rows(X, Z), tolerance=1e-9, factor=-0.5))

    def _slope(self, Z: np.ndarray) -> np.ndarray:
        return exp_(_squared_distance(Z, Z, tolerance=1e-9, factor=-0.5))  # k' = -rk

    def _unit_frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, d))


class Matern(Stationary):
    """The Matérn kernel of smoothness ν; ν = 3/2: (1+√3 r)e^{-√3 r}, ν = 5/2: (1+√5 r+5r²/3)e^{-√5 r}.

    ν = 1/2 is the Laplacian e^{-r}. r = ‖x - z‖₂/ℓ, the same length scale as scikit-learn's ``Matern``.

    Parameters
    ----------
    length_scale : "median", "auto", float, or array of one number per feature; default "median"
    nu : 0.5, 1.5 or 2.5
    """

    def __init__(self, length_scale: float | Any = MEDIAN, nu: float = 1.5) -> None:
        super().__init__(length_scale)
        self.nu = nu

    def block(self, X: Array, Z: Array) -> Array:
        r = _distance(*self.scale_rows(X, Z))
        nu = self._check_nu()
        r = clip_(r, None, 1e15)  # the value is 0 at such distances, but ∞·0 would be NaN
        r *= math.sqrt(2 * nu)  # every form below is a polynomial in √(2ν)·r times e^{-√(2ν) r}
        if nu == 0.5:
            r *= -1.0
            return exp_(r)
        polynomial = 1.0 + r if nu == 1.5 else 1.0 + r * (1.0 + r / 3.0)
        r *= -1.0
        polynomial *= exp_(r)
        return polynomial

    def _slope(self, Z: np.ndarray) -> np.ndarray:
        t = clip_(_distance(Z, Z), None, 1e15)
        nu = self._check_nu()
        t *= math.sqrt(2 * nu)
        decay = np.exp(-t)
        if nu == 0.5:
            decay /= clip_(t, 1e-6, None)  # for rows that are closer the squared differences vanish anyway
            return decay
        return 3.0 * decay if nu == 1.5 else 5.0 / 3.0 * (1.0 + t) * decay

    def _check_nu(self) -> float:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5, got {quote(self.nu)}: other orders have no closed form")
        return float(self.nu)

    def _unit_frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # The spectral measure is a multivariate Student t with 2ν degrees of freedom.
        nu = self._check_nu()
        chi2 = rng.chisquare(2 * nu, size=(n, 1))
        return rng.standard_normal((n, d)) / np.sqrt(chi2 / (2 * nu))


class Laplacian(Stationary):
    """The Laplacian kernel K(x, z) = exp(-‖x - z‖₂/ℓ), with the Euclidean norm.

    scikit-learn's ``"laplacian"`` takes the Manhattan norm and is another kernel: ``Pairwise("laplacian")``.

    Parameters
    ----------
    length_scale : "median", "auto", float, or array of one number per feature; default "median"
    """

    def block(self, X: Array, Z: Array) -> Array:
        r = _distance(*self.scale_rows(X, Z))
        r *= -1.0
        return exp_(r)

    def _slope(self, Z: np.ndarray) -> np.ndarray:
        return Matern(nu=0.5)._slope(Z)

    def _unit_frequencies(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return Matern(nu=0.5)._unit_frequencies(n, d, rng)


def _squared_distance(X: Array, Z: Array, tolerance: float, factor: float = 1.0) -> Array:
    """Compute ``factor``·‖x_i - z_j‖² as one matrix product that includes the norms: f·[-2x, |x|², 1]·[z, 1, |z|²]ᵀ.

    The product rounds on the scale of the norms. Where that would cost more than ``tolerance``, for instance because
    rows lie in groups far apart, the differences are squared and summed instead, which is slower and exact. In NumPy
    this is decided for each row of X by itself, so that its values do not depend on the rows beside it.
    """
    xp = namespace(X, Z)
    with np.errstate(over="ignore", invalid="ignore"):
        x2 = xp.sum(X * X, axis=1)[:, None]
        z2 = xp.sum(Z * Z, axis=1)[:, None]
        if not (X.shape[0] and Z.shape[0]):
            return X @ Z.T
        if X.dtype == xp.float32:
            tolerance = max(tolerance, 1e-5)  # single precision holds no more digits
        largest = tolerance / eps(X)
        if not float(xp.max(z2)) <= largest:
            return factor * _summed_differences(X, Z)
        near = x2[:, 0] <= largest
        some_far = not bool(xp.all(near))
        if some_far and not (is_numpy(X) and np.any(near)):
            return factor * _summed_differences(X, Z)
        left = factor * xp.concat([-2.0 * X, x2, xp.ones_like(x2)], axis=1)
        right = xp.concat([Z, xp.ones_like(z2), z2], axis=1)
        product = clip_(left @ right.T, *((0.0, None) if factor > 0 else (None, 0.0)))
        if some_far:
            product[~near] = factor * _summed_differences(X[~near], Z)
        return product


def _summed_differences(X: Array, Z: Array) -> Array:
    """Compute Σ_k (x_ik - z_jk)² in double precision."""
    xp = namespace(X, Z)
    if is_numpy(X):
        return cdist(X, Z, "sqeuclidean").astype(X.dtype)
    total = xp.zeros((X.shape[0], Z.shape[0]), dtype=X.dtype, device=X.device)
    for k in range(X.shape[1]):
        difference = X[:, k][:, None] - Z[:, k][None, :]
        total += difference * difference
    return total


def _distance(X: Array, Z: Array) -> Array:
    """Compute ‖x_i - z_j‖₂; single precision goes through double, since a root near zero loses half the digits."""
    xp = namespace(X, Z)
    if X.dtype == xp.float32:
        wide = _distance(xp.astype(X, xp.float64), xp.astype(Z, xp.float64))
        with np.errstate(over="ignore"):
            return xp.astype(wide, xp.float32)
    return sqrt_(_squared_distance(X, Z, tolerance=1e-13))


def is_median(length_scale: Any) -> bool:
    """Say whether a length scale is the median distance of rows that the kernel has not seen yet."""
    return isinstance(length_scale, str) and length_scale == MEDIAN


def is_auto(length_scale: Any) -> bool:
    """Say whether a length scale is to be chosen with the labels."""
    return isinstance(length_scale, str) and length_scale == "auto"


_NO_ROWS = (
    "length_scale='median' needs rows from which to take the median distance: give length_scale as a number, "
    "call kernel.resolve(X), or give the kernel to an estimator or a basis"
)
_NO_LABELS = (
    "length_scale='auto' is chosen with labels, and there are none here: give numbers or 'median', or take the kernel "
    "from unpooled.choose_length_scales(kernel, X, y) on rows whose labels may be seen"
)


def _check_length_scale(length_scale: Any, n_features: int) -> float | np.ndarray:
    """Return a positive float or a vector of ``n_features`` positive floats; raise a ValueError for anything else."""
    try:
        value = np.asarray(to_numpy(length_scale) if is_foreign(length_scale) else length_scale)
        value = np.asarray(value, dtype=float) if value.dtype.kind in "iuf" else np.asarray(math.nan)
    except (TypeError, ValueError):
        value = np.asarray(math.nan)
    if value.ndim > 1 or not np.all(np.isfinite(value) & (value > 0)):
        raise ValueError(
            f"length_scale must be a positive number, one positive number per feature, 'auto' or 'median', "
            f"got {quote(length_scale)}"
        )
    if value.ndim == 1 and value.shape[0] != n_features:
        raise ValueError(
            f"length_scale has {value.shape[0]} numbers and X has {n_features} features: "
            "give one number, or one per feature"
        )
    return float(value) if value.ndim == 0 else value


MEDIAN_ROWS = 1000


def median_distance(X: Array, weights: Array | None = None) -> float:
    """Compute the (weighted) median of ‖x_i - x_j‖ over pairs of distinct rows; it is 1 if all rows are the same.

    Pair (i, j) counts w_i·w_j times, so integer weights have the effect of repeated rows. If there are more than 1000
    distinct rows, 1000 of them are taken at even steps of weight in lexicographic order: this needs no seed, and the
    order in which the rows come does not matter.
    """
    rows, inverse = np.unique(to_numpy(X).astype(float), axis=0, return_inverse=True)
    mass = np.bincount(inverse.reshape(-1), weights=None if weights is None else to_numpy(weights)).astype(float)
    if len(rows) > MEDIAN_ROWS:
        steps = (np.arange(MEDIAN_ROWS) + 0.5) / MEDIAN_ROWS
        rows = rows[np.searchsorted(np.cumsum(mass) / mass.sum() * (1.0 + 1e-12), steps)]
        mass = np.ones(MEDIAN_ROWS)
    size = max(
        float(np.abs(rows).max()), np.finfo(float).tiny
    )  # so that squares of huge or tiny numbers neither overflow nor vanish
    r = pdist(rows / size) * size
    i, j = np.triu_indices(len(rows), k=1)
    distinct = r > 0
    r, pairs = r[distinct], (mass[i] * mass[j])[distinct]
    if not len(r):
        return 1.0
    order = np.argsort(r)
    cumulative = np.cumsum(pairs[order])
    half = np.searchsorted(cumulative, 0.5 * cumulative[-1] * (1.0 - 1e-12))  # tolerates rounding in the weights
    return float(r[order][half])
