"""The effective dimension of a sample, and the exponent s with which it grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from .._base import threads
from .._base.arrays import Array, Floats, as_floating, is_foreign, like, namespace, to_numpy
from .._base.text import quote
from .._linalg.operator import NotFinite, build_dense, check_spectrum
from ..kernels import Kernel, Precomputed, as_kernel
from .limits import checked_rows

FEWEST_ROWS = 50  # below, the window of λ is too narrow for a slope
WINDOW = (1 / 50, 1 / 4)  # 𝒩/n at its two ends: past the first few eigenvalues, before the sample runs out of rows
POINTS = 64


@dataclass
class _Spectrum:
    """The eigenvalues of L_D on the rows looked at."""

    sigma: Floats  #: ascending, all ≥ 0
    noise: float  #: the size of the eigenvalues that are rounding only
    n: float  #: rows; with weights, the number of equally weighted rows that are worth as much, 1/Σw²
    distinct: int  #: rows that differ

    def dimension(self, lam: Floats) -> tuple[Floats, Floats]:
        """𝒩(λ) = Σ σ/(σ+λ), and its fall with log λ, Σ σλ/(σ+λ)²."""
        dimension, fall = np.empty(len(lam)), np.empty(len(lam))
        for part in threads.cut_row_blocks(len(lam), len(self.sigma)):
            share = self.sigma / (self.sigma + lam[part, None])
            dimension[part], fall[part] = np.sum(share, axis=1), np.sum(share * (1.0 - share), axis=1)
        return dimension, fall


def effective_dimension(
    kernel: Any,
    X: Any,
    lam: Any,
    center: bool = False,
    weights: Any = None,
    max_rows: int = 2000,
    random_state: Any = 0,
) -> Any:
    """𝒩_D(λ) = Tr((L_D + λ)⁻¹ L_D) = trace(𝕂/N (𝕂/N + λI)⁻¹): the definition before (7) of paper 001, on the sample.

    It is the number of eigenvalues above λ, softly counted, and the degrees of freedom of ridge regression at λ. All λ
    come from one eigendecomposition. Up to ``max_rows`` rows the number is exact. Beyond, it is that of a random
    sample of n = ``max_rows`` rows, and no N×N matrix is ever formed. Such a sample shows the eigenvalues above about
    κ²/n and no smaller ones: trust it while 𝒩(λ) is a small part of n, and raise ``max_rows`` where it is not.

    Parameters
    ----------
    kernel : whatever :func:`unpooled.kernels.as_kernel` takes; "median" is that of all rows
    X : array, data frame or list of shape (N, d), of any array library; the N×N matrix for "precomputed"
    lam : float or array of positive numbers, on the scale of the eigenvalues of 𝕂/N
    center : take the kernel centred on the (weighted) rows
    weights : one non-negative number a row; whole numbers equal repeated rows. A sample draws rows by weight
    max_rows : rows that are decomposed at most
    random_state : seed or RandomState of the sample

    Returns
    -------
    float, or an array in the shape of ``lam``
    """
    lams = _checked_lam(lam)
    spectrum = _spectrum(kernel, X, center, weights, max_rows, random_state)
    dimension = spectrum.dimension(lams.reshape(-1))[0]
    return float(dimension[0]) if lams.ndim == 0 else dimension.reshape(lams.shape)


def eigenvalues(
    kernel: Any, X: Any, center: bool = False, weights: Any = None, max_rows: int = 2000, random_state: Any = 0
) -> Floats:
    """The eigenvalues of L_D, those of 𝕂/N, from the largest down; what is below rounding is zero.

    The parameters are those of :func:`effective_dimension`, which is Σ σ/(σ+λ) over them.

    Parameters
    ----------
    kernel, X, center, weights, max_rows, random_state : as in :func:`effective_dimension`

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> sigma = up.theory.eigenvalues(up.kernels.Gaussian(0.3), X)
    >>> bool(np.isclose(sum(sigma / (sigma + 0.01)), up.theory.effective_dimension(up.kernels.Gaussian(0.3), X, 0.01)))
    True
    """
    return _spectrum(kernel, X, center, weights, max_rows, random_state).sigma[::-1].copy()


@dataclass(frozen=True)
class DimensionExponent:
    """The exponent of 𝒩(λ) ≈ constant·λ^{-s}, as a sample shows it.

    Attributes
    ----------
    s : the estimate, within [0, 1]
    low, high : the smaller and the larger slope of the two halves of the window. They show how straight the curve
        is, which is what the estimate hangs on; they are no confidence interval (another sample of 2000 rows moves s
        by a few thousandths)
    constant : C of C λ^{-s} in the window
    lam : the λ of the window, from large to small, of the population (see :func:`dimension_exponent`)
    dimension : 𝒩 at these λ; plot it against ``lam`` on logarithmic axes beside ``fitted``
    n_rows : rows that were decomposed
    """

    s: float
    low: float
    high: float
    constant: float
    lam: Floats = field(repr=False, compare=False)
    dimension: Floats = field(repr=False, compare=False)
    n_rows: int

    @property
    def lam_range(self) -> tuple[float, float]:
        """The smallest and the largest λ of the window."""
        return float(self.lam[-1]), float(self.lam[0])

    @property
    def fitted(self) -> Floats:
        """constant·λ^{-s} at ``lam``."""
        return self.constant * self.lam**-self.s


def dimension_exponent(
    kernel: Any,
    X: Any,
    center: bool = False,
    weights: Any = None,
    max_rows: int = 2000,
    random_state: Any = 0,
) -> DimensionExponent:
    """An estimate of s in 𝒩(λ) ≤ C λ^{-s}: (8) of paper 001 (where s is β), (7) of 003.

    Two things bend the curve of log 𝒩_D(λ) against log λ, and both are undone first.

    - A sample of n rows regularises by itself: 𝒩_D(λ) ≈ 𝒩(λ̃) with λ̃ = λ + λ̃ 𝒩(λ̃)/n, the deterministic equivalent
      of random-matrix theory. So 𝒩_D(λ) is read as the value at λ̃ = λ/(1 - 𝒩_D(λ)/n).
    - Eigenvalues c(k+a)^{-1/s} give 𝒩(λ) = Cλ^{-s} - (a + 1/2) + o(1), and the constant spoils the slope of log 𝒩
      where s is small. It drops out of -d𝒩/d log λ = Σ σλ/(σ+λ)² ∝ λ^{-s}, whose slope is taken.

    The slope is that of least squares over the λ with n/50 ≤ 𝒩_D ≤ n/4, or, for kernels that decay too fast to
    get there, down to where rounding hides the eigenvalues. With 2000 rows, uniform on the unit cube, it is within
    0.01 of the truth for Brownian and Matérn kernels of one feature and within 0.05 for Matérn kernels of two or three;
    with normal rows of one feature within 0.05. A length scale so short that the sample cannot show the decay gives too
    large an s, and ``low`` and ``high`` then lie far apart (a Gaussian of length 0.2 in three dimensions: 0.1 for 0).

    The parameters are those of :func:`effective_dimension`; at least 50 different rows are needed.

    Parameters
    ----------
    kernel, X, center, weights, max_rows, random_state : as in :func:`effective_dimension`; at least 50 different rows
    """
    spectrum = _spectrum(kernel, X, center, weights, max_rows, random_state)
    if spectrum.distinct < FEWEST_ROWS:
        raise ValueError(
            f"X must have at least {FEWEST_ROWS} different rows (of positive weight) to estimate an exponent from, "
            f"it has {spectrum.distinct}"
        )
    lam = _window(spectrum)
    dimension, fall = spectrum.dimension(lam)
    # λ̃ = λ/(1 - 𝒩/n), so d log λ̃/d log λ = 1 - fall/(n - 𝒩)
    population = lam / (1.0 - dimension / spectrum.n)
    fall = fall / (1.0 - fall / (spectrum.n - dimension))
    x, y = np.log(population), np.log(fall)
    half = len(x) // 2
    s, first, second = (_exponent(x[part], y[part]) for part in (slice(None), slice(half), slice(half, None)))
    return DimensionExponent(
        s=s,
        low=min(first, second),
        high=max(first, second),
        constant=float(np.exp(np.mean(np.log(dimension) + s * x))),
        lam=population,
        dimension=dimension,
        n_rows=len(spectrum.sigma),
    )


def _exponent(x: Floats, y: Floats) -> float:
    return float(np.clip(-np.polyfit(x, y, 1)[0], 0.0, 1.0))


def _window(spectrum: _Spectrum) -> Floats:
    """The λ, from large to small, in which the slope is taken."""
    top = float(spectrum.sigma[-1])
    # An eigenvalue that is only rounding adds at most noise/λ to 𝒩: here 1/20 for all of them together.
    floor = 20.0 * len(spectrum.sigma) * spectrum.noise
    if not floor < 0.1 * top:
        raise ValueError("the kernel is zero on X, up to rounding: its eigenvalues have no exponent")
    grid = np.geomspace(top, floor, 4 * POINTS)
    dimension = spectrum.dimension(grid)[0]
    rows = min(spectrum.n, spectrum.distinct)
    most = min(WINDOW[1] * rows, float(dimension[-1]))
    least = max(min(WINDOW[0] * rows, most / 8), float(dimension[0]))
    ends = np.interp([least, most], dimension, np.log(grid))  # 𝒩 grows along the grid
    return np.exp(np.linspace(ends[0], ends[1], POINTS))


def _spectrum(kernel: Any, X: Any, center: bool, weights: Any, max_rows: int, random_state: Any) -> _Spectrum:
    """The spectrum of L_D, weighted and centred as the solvers do it, on at most ``max_rows`` rows."""
    if not isinstance(center, (bool, np.bool_)):
        raise ValueError(f"center must be True or False, got {quote(center)}")
    kernel, X = as_kernel(kernel), _checked_X(X)
    w = _checked_weights(weights, X.shape[0])
    resolved = kernel.resolve(X, None if w is None else like(w, X))
    rows, counts = _drawn(X.shape[0], w, int(checked_rows("max_rows", max_rows)), random_state)
    resolved, sample = _rows_of(resolved, X, rows)
    n = len(sample)
    with threads.limit_blas_for(n):
        K = resolved(sample)
        kappa_sq = float(np.max(np.diagonal(K)))
        if not resolved.positive_definite and np.max(np.abs(K - K.T)) > 1e-6 * np.max(np.abs(K)):
            raise ValueError("the kernel matrix of X must be symmetric")
        M, _ = build_dense(K, counts, bool(center))
        if not np.all(np.isfinite(M)):
            raise NotFinite
        sigma = eigvalsh(M.T, lower=False, overwrite_a=True, check_finite=False) / n
    noise = max(-float(sigma[0]), np.finfo(float).eps * max(float(sigma[-1]), kappa_sq))
    share = np.full(n, 1.0 / n) if counts is None else counts / np.sum(counts)
    return _Spectrum(
        sigma=check_spectrum(sigma, np.finfo(float).eps, kappa_sq),
        noise=noise,
        n=1.0 / float(np.sum(share**2)),
        distinct=len(np.unique(sample, axis=0)),
    )


def _drawn(
    n: int, w: Floats | None, max_rows: int, random_state: Any
) -> tuple[np.ndarray[Any, np.dtype[np.intp]] | None, Floats | None]:
    """Which rows to look at (None: all) and their weights. By weight, with replacement: counts are the new weights."""
    if w is None:
        if n <= max_rows:
            return None, None
        return np.sort(check_random_state(random_state).choice(n, max_rows, replace=False)), None
    kept = np.flatnonzero(w)
    if len(kept) <= max_rows:
        return kept, w[kept]
    drawn = check_random_state(random_state).choice(n, max_rows, p=w / np.sum(w))
    rows, counts = np.unique(drawn, return_counts=True)
    return rows, counts.astype(float)


def _rows_of(kernel: Kernel, X: Array, rows: Any) -> tuple[Kernel, np.ndarray[Any, Any]]:
    """The kernel for some rows of X, and these rows in host memory and double precision."""
    precomputed = isinstance(kernel, Precomputed)
    if precomputed and X.shape[0] != X.shape[1]:
        raise ValueError(f"with a precomputed kernel X must be square, got shape {tuple(X.shape)}")
    if rows is not None:
        xp = namespace(X)
        X = xp.take(X, like(rows, X, dtype=xp.int64), axis=0)
        kernel = Precomputed(columns=rows) if precomputed else kernel
    return kernel, np.ascontiguousarray(to_numpy(X), dtype=float)


def _checked_X(X: Any) -> Array:
    if not is_foreign(X):
        try:
            return check_array(X, dtype=[np.float64, np.float32], input_name="X")
        except (TypeError, ValueError) as error:
            raise ValueError(f"X cannot be used: {str(error).splitlines()[0]}") from None
    X = X.detach() if hasattr(X, "detach") else X
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X must be two-dimensional with at least one row and one feature, got shape {tuple(X.shape)}")
    X = as_floating(X)
    xp = namespace(X)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("X contains NaN or infinity: drop or impute such rows first")
    return X


def _checked_lam(lam: Any) -> Floats:
    try:
        lams = np.asarray(to_numpy(lam), dtype=float)
    except (TypeError, ValueError):
        lams = np.asarray(np.nan)
    if not np.all(np.isfinite(lams) & (lams > 0)):
        raise ValueError(f"lam must be a positive number or an array of positive numbers, got {quote(lam)}")
    return lams


def _checked_weights(weights: Any, n: int) -> Floats | None:
    if weights is None:
        return None
    try:
        w = np.asarray(to_numpy(weights), dtype=float)
    except (TypeError, ValueError):
        w = np.empty(0)
    if w.shape != (n,) or not np.all(np.isfinite(w)) or np.any(w < 0) or not np.any(w > 0):
        raise ValueError(
            f"weights must be {n} non-negative numbers, one per row of X, and not all zero; got {quote(weights)}"
        )
    return np.asarray(w / w.max())
