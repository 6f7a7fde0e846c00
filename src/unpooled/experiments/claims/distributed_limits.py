"""Paper 002: how many machines (3.2) and (3.25) allow, without their logarithms; averages with rows without labels."""

from __future__ import annotations

import math

import numpy as np

from ... import theory
from ...estimators import AveragedRegressor, SpectralRegressor
from ..problems import Target
from ..quiet import averaged


def error(target: Target, m: int, lam: float, X: np.ndarray, Y: np.ndarray, unlabeled: np.ndarray, seed: int) -> float:
    """The squared error of the average over m machines, rows without labels dealt to them (3.22)."""
    model = AveragedRegressor(SpectralRegressor(target.known.kernel), m, lam, random_state=seed, verbose=0)
    return target.error_of(averaged(model, X, Y, unlabeled=unlabeled if len(unlabeled) else None))


def without_logs(n: int, r: float, s: float, total: int | None = None) -> float:
    """(3.2), or (3.25) with its sign mended, without the factor 1/(log³N + 1)."""
    method = "krr" if total is None else "semi-supervised"
    return theory.partition_limit(n, r, s, method, total) * (math.log(n) ** 3 + 1)


def as_printed(n: int, r: float, s: float, total: int) -> tuple[float, float]:
    """The two bounds of (3.25), the sign of the second exponent as printed, without logarithms."""
    first = total**0.5 * n ** (-(s + 1) / (4 * r + 2 * s))
    return float(first), float(total ** (1 / 3) * n ** (-(2 * r + s - 2) / (6 * r + 3 * s)))


def term_of_proof(m: float, n: int, r: float, s: float, total: int) -> float:
    """m^{3/2} N^{-(2r+s-1/2)/(2r+s)} N*^{-1/2} N^{(s+1)/(4r+2s)} over N^{-r/(2r+s)}.

    The proof of Corollary 3.2 needs it to be at most one, and the second bound of (3.25) is there for that.
    """
    power = (-(2 * r + s - 0.5) + (s + 1) / 2 + r) / (2 * r + s)
    return float(m**1.5 * total**-0.5 * n**power)
