"""Brute-force twins: the papers' formulas written out in plain NumPy, sharing no code with the library."""

from __future__ import annotations

import numpy as np


def gaussian(X, Z, length_scale=1.0):
    return np.array([[np.exp(-np.sum(((x - z) / length_scale) ** 2) / 2) for z in Z] for x in X])


def ridge_coefficients(K, y, lam):
    """(𝕂 + NλI)⁻¹ y."""
    return np.linalg.solve(K + len(K) * lam * np.eye(len(K)), y)


def centering(n, weights=None):
    """H = I - 1wᵀ."""
    w = np.full(n, 1 / n) if weights is None else weights / np.sum(weights)
    return np.eye(n) - np.outer(np.ones(n), w)


def centered_ridge(K, y, lam):
    """Paper 002: b = mean(y) and c = H(NλI + K̂)⁻¹(y - b), K̂ = H𝕂H; returns (c, b)."""
    n = len(K)
    H = centering(n)
    return H @ np.linalg.solve(n * lam * np.eye(n) + H @ K @ H, y - y.mean()), y.mean()


def landweber_coefficients(K, y, step, t):
    """t explicit gradient steps on (1/N)‖𝕂c - y‖² in the space of the kernel: c ← c + (step/N)(y - 𝕂c)."""
    c = np.zeros_like(y, dtype=float)
    for _ in range(t):
        c = c + step / len(K) * (y - K @ c)
    return c


def nu_coefficients(K, y, step, t, nu):
    """The ν-method's two-step recursion on the coefficients (Engl, Hanke, Neubauer 1996, §6.3)."""
    old = c = np.zeros_like(y, dtype=float)
    for k in range(1, t + 1):
        if k == 1:
            mu, omega = 0.0, (4 * nu + 2) / (4 * nu + 1)
        else:
            mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1)
            mu /= (k + 2 * nu - 1) * (2 * k + 4 * nu - 1) * (2 * k + 2 * nu - 3)
            omega = 4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / ((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
        c, old = c + mu * (c - old) + omega * step / len(K) * (y - K @ c), c
    return c


def cutoff_coefficients(K, y, lam):
    """The projection on the eigenvectors of 𝕂/N with σ ≥ λ, inverted there."""
    sigma, U = np.linalg.eigh(K / len(K))
    keep = sigma >= lam
    return U[:, keep] @ ((U[:, keep].T @ y) / sigma[keep]) / len(K)


def iterated_ridge_coefficients(K, y, lam, times):
    """Ridge on y, then ridge on what is left, and so on, added up."""
    total = np.zeros_like(y, dtype=float)
    for _ in range(times):
        total = total + ridge_coefficients(K, y - K @ total, lam)
    return total
