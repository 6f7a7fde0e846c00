"""Problems with known solutions: kernels on [0, 1] with their eigenfunctions, and targets of known regularity.

x is uniform on [0, 1]. With eigenvalues λ_k and eigenfunctions e_k of L_K, a target of regularity r is

    f = L_K^r h = Σ_k λ_k^r h_k e_k,    h_k = ± k^{-1/2-ε}

with ε = 0.05: h only just lies in L², so f is at the boundary of its class. Errors are integrals over [0, 1] on a fine
grid, and no sample of test rows enters them.

Some experiments use many blocks or few public rows on purpose. :func:`fit_average` and :func:`fit_less` fit without
the warnings about these.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from .. import theory
from .._base.arrays import Array, namespace
from ..estimators import AveragedRegressor, SummaryRegressor
from ..filters import Filter, as_filter
from ..kernels import Brownian, Kernel
from ..summaries import Summary

MODES = 1000  # eigenfunctions that a target is made of
GRID = 1024  # points of the midpoint rule
EDGE = 0.05  # ε
SIGNS = 20170512  # seed of the signs of h, the same for all targets


class _Sobolev(Kernel):
    """K(x, z) = 1 + 2 Σ_k k^{-2p} cos 2πk(x-z), p = 1 or 2: periodic functions with p derivatives in L².

    The sum is (-1)^{p-1} (2π)^{2p} B_{2p}(t)/(2p)! with Bernoulli's polynomial and t the fractional part of x - z.
    Eigenvalues for uniform x are 1, and k^{-2p} twice for each k ≥ 1, so β = 1/(2p).
    """

    def __init__(self, order: int = 1) -> None:
        self.order = order

    def block(self, X: Array, Z: Array) -> Array:
        xp = namespace(X, Z)
        t = X - Z.T
        t = t - xp.floor(t)
        if self.order == 1:
            return 1.0 + 2 * math.pi**2 * (t * (t - 1) + 1 / 6)
        return 1.0 - (2 * math.pi) ** 4 / 24 * ((t * (t - 1)) ** 2 - 1 / 30)

    def diag(self, X: Array) -> Array:
        return namespace(X).full(X.shape[0], self.kappa() ** 2, dtype=X.dtype)

    def kappa(self, X: Array | None = None) -> float:
        """√(1 + 2ζ(2p))."""
        return math.sqrt(1 + (math.pi**2 / 3 if self.order == 1 else math.pi**4 / 45))


@dataclass(frozen=True)
class _KnownKernel:
    """A kernel, its capacity exponent β, its eigenvalues in falling order, and its eigenfunctions as columns."""

    name: str
    kernel: Any
    beta: float
    kappa_sq: float
    eigenvalues: np.ndarray
    eigenfunctions: Callable[[np.ndarray], np.ndarray]

    def target(self, r: float) -> Target:
        """Make a target of regularity r at the boundary of its class, of norm 1 in L²."""
        k = np.arange(1, len(self.eigenvalues) + 1)
        signs = np.where(np.random.default_rng(SIGNS).random(len(k)) < 0.5, -1.0, 1.0)
        coefficients = signs * self.eigenvalues**r * k ** (-0.5 - EDGE)
        return Target(self, r, coefficients / np.linalg.norm(coefficients))

    def waves(self, r: float, first: int, count: int) -> Target:
        """Make a target of ``count`` eigenfunctions from the ``first`` on (0 is the smoothest), in every class."""
        coefficients = np.zeros(len(self.eigenvalues))
        coefficients[first : first + count] = (-1.0) ** np.arange(count) / math.sqrt(count)
        return Target(self, r, coefficients)


@dataclass(frozen=True, eq=False)
class Target:
    """f = Σ c_k e_k."""

    known: _KnownKernel
    r: float
    coefficients: np.ndarray

    @property
    def kernel(self) -> Any:
        """The kernel of the problem."""
        return self.known.kernel

    @property
    def beta(self) -> float:
        """The capacity exponent of the kernel."""
        return self.known.beta

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.known.eigenfunctions(x) @ self.coefficients

    @cached_property
    def on_grid(self) -> np.ndarray:
        """f on the grid."""
        return self(grid())

    def draw(self, rng: np.random.Generator, n: int, noise: float, draws: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw n rows, and their labels ``draws`` times, with bounded (uniform) noise of the given standard deviation.

        Several label vectors for the same rows make a fit little slower, and their mean error is a much better estimate
        of the expected one. A repetition draws new rows.
        """
        x = rng.random(n)
        return x[:, None], self(x)[:, None] + noise * math.sqrt(3) * rng.uniform(-1, 1, (n, draws))

    def squared_error(self, predicted: np.ndarray) -> Any:
        """Compute ∫ (f̂ - f)² from predictions on the grid (last axis), as a mean over any label vectors."""
        predicted = np.asarray(predicted)
        if predicted.ndim == 1:
            return float(np.mean((predicted - self.on_grid) ** 2))
        return np.mean((predicted - self.on_grid[:, None]) ** 2, axis=(-2, -1))

    def error_of(self, model: Any) -> float:
        """Compute ∫ (f̂ - f)² of a fitted model."""
        return float(self.squared_error(model.predict(grid()[:, None])))

    def order(self, filter: Any = "tikhonov") -> float:
        """Compute r/(2r+β), the exponent of the theory's rate, with r capped by the filter's qualification."""
        return -math.log10(theory.rate(10, self.r, self.beta, filter=filter))

    def lam_from(self, start: float, first: int, n: int, filter: Any = "tikhonov") -> float:
        """Compute λ by the theory's schedule: ``start`` at the ``first`` size, then falling as n^{-1/(2r+β)}."""
        here, there = (theory.lam(size, self.r, self.beta, filter=filter) for size in (n, first))
        return start * here / there

    @lru_cache  # noqa: B019 (targets are few, and kept anyway)
    def best_lam(self, filter: Any, n: int, noise: float) -> float:
        """Find the λ with the smallest risk of the population, Σ (1 - λ_k g)² c_k² + (noise²/n) Σ (λ_k g)².

        It is the risk of a fit to n rows if L_D were L_K. Schedules start from this λ at their smallest n.
        """
        rule: Filter = as_filter(filter)
        sigma, kappa_sq = self.known.eigenvalues, self.known.kappa_sq
        lams = kappa_sq * np.geomspace(1e-6, 1.0, 121)
        g, left = rule.path(sigma, lams, kappa_sq)
        risk = left**2 @ self.coefficients**2 + noise**2 / n * np.sum((sigma * g) ** 2, axis=1)
        return float(lams[np.argmin(risk)])


@lru_cache
def grid() -> np.ndarray:
    """Return the midpoints of a fine grid on [0, 1]."""
    return (np.arange(GRID) + 0.5) / GRID


@lru_cache
def _brownian() -> _KnownKernel:
    """K = 1 + min(x, z): e = cos ω(1-x) up to a factor, ω tan ω = 1, λ = ω^{-2}; β = 1/2, κ² = 2.

    λe(x) = ∫ K(x, z)e(z)dz gives λe'' = -e, e'(1) = 0 and e(0) = e'(0).
    """
    turns = [brentq(lambda w: w * math.sin(w) - math.cos(w), k * math.pi, (k + 0.5) * math.pi) for k in range(MODES)]
    omega = np.asarray(turns)
    norms = np.sqrt(0.5 + np.sin(2 * omega) / (4 * omega))

    def eigenfunctions(x: np.ndarray) -> np.ndarray:
        return np.cos(np.outer(1 - x, omega)) / norms

    return _KnownKernel("Brownian", Brownian(), 0.5, 2.0, omega**-2, eigenfunctions)


@lru_cache
def _sobolev(order: int) -> _KnownKernel:
    """The kernel :class:`_Sobolev`: 1, √2 cos 2πkx, √2 sin 2πkx."""
    kernel = _Sobolev(order)
    k = np.arange(1, MODES // 2 + 1)

    def eigenfunctions(x: np.ndarray) -> np.ndarray:
        angles = 2 * math.pi * np.outer(x, k)
        columns = np.empty((len(x), 2 * len(k) + 1))
        columns[:, 0], columns[:, 1::2], columns[:, 2::2] = 1.0, np.cos(angles), np.sin(angles)
        columns[:, 1:] *= math.sqrt(2)
        return columns

    eigenvalues = np.concatenate([[1.0], np.repeat(k.astype(float) ** (-2 * order), 2)])
    return _KnownKernel(f"Sobolev {order}", kernel, 1 / (2 * order), kernel.kappa() ** 2, eigenvalues, eigenfunctions)


PROBLEMS: dict[str, Callable[[], _KnownKernel]] = {
    "Brownian": _brownian,
    "Sobolev 1": lambda: _sobolev(1),
    "Sobolev 2": lambda: _sobolev(2),
}


@lru_cache
def find_target(kernel: str, r: float) -> Target:
    """Return the target of regularity r on one of the problems."""
    return PROBLEMS[kernel]().target(r)


MEANT = (".*blocks are far more than", ".*public rows stand in for")  # more blocks than theory allows; LESS has a floor


@contextmanager
def on_purpose() -> Iterator[None]:
    """Silence the warnings of many blocks and of few public rows."""
    with warnings.catch_warnings():
        for message in MEANT:
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def fit_average(
    local: Any, m: Any, X: np.ndarray, Y: np.ndarray, seed: int, unlabeled: Any = None, **options: Any
) -> AveragedRegressor:
    """Fit an average over m machines."""
    model = AveragedRegressor(local, m, random_state=seed, **options)
    with on_purpose():
        return model.fit(X, Y, unlabeled=unlabeled)


def fit_less(summary: Summary, lam: Any, n_features: Any = "all", fit_intercept: Any = False) -> SummaryRegressor:
    """Fit LESS to a summary."""
    with on_purpose():
        return SummaryRegressor(lam=lam, n_features=n_features, fit_intercept=fit_intercept).fit_summary(summary)
