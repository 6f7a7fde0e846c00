"""Minimum error entropy by kernel gradient descent: what paper 003 compares itself with, here for that comparison only.

With residuals e_i = y_i - f(x_i), w_ij = exp(-(e_i - e_j)²/(2h²)) and from f = 0,

    f ← f + η (1/N²) Σ_ij w_ij (e_i - e_j)(K_{x_i} - K_{x_j}) = f + η (2/N²) Σ_i [Σ_j w_ij (e_i - e_j)] K_{x_i}.

Only differences of residuals enter, so f is known up to a constant. It is where the residuals are densest at the scale
h, b = Σ w_i e_i/Σ w_i with w_i = exp(-(e_i - b)²/(2h²)), from their median on: the median itself would give way to
outliers on one side. η = 1/(2κ²): with h → ∞ these are the steps of Landweber on centred residuals. Every step costs N²
exponentials.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def descend(
    K: np.ndarray, y: np.ndarray, K_new: np.ndarray, h: float, stops: Sequence[int], kappa_sq: float
) -> np.ndarray:
    """Predictions (stops, new rows) after each number of steps; K is of the rows, K_new of new rows by rows."""
    c, predicted = np.zeros(len(y)), np.empty((len(stops), len(K_new)))
    for t in range(1, max(stops) + 1):
        e = y - K @ c
        gaps = e[:, None] - e[None, :]
        pulls = np.sum(np.exp(-0.5 * (gaps / h) ** 2) * gaps, axis=1)
        c += pulls / (kappa_sq * len(y) ** 2)  # η·2 = 1/κ²
        if t in stops:
            predicted[list(stops).index(t)] = K_new @ c + densest(y - K @ c, h)
    return predicted


def densest(e: np.ndarray, h: float) -> float:
    """The fixed point b nearest to the median."""
    b = float(np.median(e))
    for _ in range(50):
        weights = np.exp(-0.5 * ((e - b) / h) ** 2)
        b = float(weights @ e / np.sum(weights))
    return b
