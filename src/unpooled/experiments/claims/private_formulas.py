"""Paper 004: the schedules of Theorem 1, and the noise of Algorithm 1 as printed and as mended."""

from __future__ import annotations

import math

from ...privacy import sgd, sigma_for

KAPPA = math.sqrt(2)  # of cosine features


def schedule(n: int, r: float, alpha: float, slow: bool) -> tuple[float, int]:
    """η and T of Theorem 1: η = 1/n, or n^{-2r/(2r+α)}; both below the 1/(κ²(log T + 1)) that it asks for."""
    power = 2 * r + alpha
    eta, steps = (1 / n, (power + 1) / power) if slow else (n ** (-2 * r / power), (2 * r + 1) / power)
    T = round(n**steps)
    return min(eta, 0.5 / (KAPPA**2 * (math.log(T) + 1))), T


def noise_as_printed(n: int, T: int, eta: float, c: float, epsilon: float, delta: float) -> float:
    """√(2 log(2.5/δ)) Δ_SGD(δ/2)/ε with (17) to the letter."""
    return math.sqrt(2 * math.log(2.5 / delta)) * sgd.paper_as_printed(n, T, eta, c, KAPPA, delta / 2) / epsilon


def noise_mended(n: int, T: int, eta: float, c: float, epsilon: float, delta: float) -> float:
    """The same with Δ of the proof's last line, and the exact calibration at δ/2."""
    return sgd.paper(n, T, eta, c, KAPPA, delta / 2) * sigma_for(epsilon, delta / 2)


def noise_shuffled(n: int, passes: int, eta: float, c: float, epsilon: float, delta: float) -> float:
    """With passes that visit every record once each, and residuals clipped to ±c."""
    moved = sgd.shuffled_passes(n, passes, eta, sgd.clipped_gradient(c, KAPPA), kappa=KAPPA)
    return moved * sigma_for(epsilon, delta)
