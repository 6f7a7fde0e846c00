"""The influence of one record on the result of stochastic gradient descent: pure functions, each with a proof.

The learner is w ← (1 - η_t λ) w - (η_t/b) Σ_{i in B_t} ψ(⟨w, φ(x_i)⟩ - y_i) φ(x_i) from w = 0, with |φ(x)| ≤ κ.
Neighbours replace one record; the order of visits does not depend on the data. The proofs are in docs/privacy/sgd.md,
which also corrects the formulas printed in Wang and Guo (2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.checks import check_positive, check_probability, check_whole

__all__ = [
    "clipped_gradient_bound",
    "fixed_order",
    "full_batch",
    "largest_step",
    "most_visits",
    "shuffled_passes",
    "squared_gradient_bounds",
    "wang_guo",
    "wang_guo_as_printed",
]


def largest_step(kappa: float, lam: float = 0.0) -> float:
    """Return 2/(κ² + 2λ), the largest step for which visiting a record never drives two weights apart (lemma 1).

    Parameters
    ----------
    kappa : κ, a bound on |φ(x)|
    lam : λ of a term λ|w|²/2
    """
    return 2.0 / (check_positive("kappa", kappa) ** 2 + 2.0 * check_positive("lam", lam, zero=True))


def clipped_gradient_bound(clip: float, kappa: float) -> float:
    """Return G = Cκ, a bound on |ψ(u)φ(x)| when the residual is clipped to [−C, C], as by Huber's loss.

    Parameters
    ----------
    clip, kappa : C, and κ, a bound on |φ(x)|
    """
    return check_positive("clip", clip) * check_positive("kappa", kappa)


def squared_gradient_bounds(steps: int, step: float, label_bound: float, kappa: float) -> np.ndarray:
    """Return G_t = cκ + cκ²√(η(t-1)), t = 1, …, T, which bound the gradients of the squared loss if ηκ² ≤ 1 (lemma 3).

    Parameters
    ----------
    steps, step : T and η
    label_bound, kappa : c, a bound on |y|, and κ, a bound on |φ(x)|
    """
    steps, step = check_whole("steps", steps), _check_step(step, 1.0 / check_positive("kappa", kappa) ** 2)
    label_bound = check_positive("label_bound", label_bound)
    return label_bound * kappa * (1.0 + kappa * np.sqrt(step * np.arange(steps)))


def most_visits(n: int, steps: int, gamma: float) -> float:
    """Return q = (T/n)(1 + c_γ); with probability 1 - γ, none of n records is drawn more often in T draws (lemma 4).

    Parameters
    ----------
    n, steps : records and draws
    gamma : γ
    """
    mean = check_whole("steps", steps) / check_whole("n", n)
    excess = 3.0 * math.log(n / check_probability("gamma", gamma)) / mean
    return mean * (1.0 + max(math.sqrt(excess), excess))


def wang_guo(n: int, steps: int, step: float, label_bound: float, kappa: float, gamma: float) -> float:
    """Return Δ of Algorithm 1 of Wang and Guo (2024), corrected: 2η(cκ + cκ²√(ηT))√(e q(1+q)).

    The bound holds with probability 1 - γ (theorem 1).

    Parameters
    ----------
    n, steps, step : n, T and η
    label_bound, kappa : c, a bound on |y|, and κ, a bound on |φ(x)|
    gamma : γ
    """
    step = _check_step(step, 1.0 / check_positive("kappa", kappa) ** 2)
    q = most_visits(n, steps, gamma)
    gradient = check_positive("label_bound", label_bound) * kappa * (1.0 + kappa * math.sqrt(step * steps))
    return 2.0 * step * gradient * math.sqrt(math.e * q * (1.0 + q))


def wang_guo_as_printed(n: int, steps: int, step: float, label_bound: float, kappa: float, gamma: float) -> float:
    """Return equation (17) of Wang and Guo (2024) as printed, which lacks a square root and a factor c.

    This is NOT a bound on the sensitivity. It is kept so that audits can be seen to detect it.

    Parameters
    ----------
    n, steps, step : n, T and η
    label_bound, kappa : c, a bound on |y|, and κ, a bound on |φ(x)|
    gamma : γ
    """
    q = most_visits(n, steps, gamma)
    gradient = label_bound * kappa + kappa**2 * math.sqrt(step * steps)
    return 4.0 * math.e * step**2 * gradient**2 * q * (1.0 + q)


def fixed_order(
    batches: Sequence[Any],
    n: int,
    steps: Any,
    gradient: Any,
    *,
    kappa: float,
    lam: float = 0.0,
    batch_size: int | None = None,
    averaged: bool = False,
) -> float:
    """Return Δ given the order of visits (theorem 2): the largest Σ 2η_t G_t/b · Π_{s>t} (1 - η_s λ) of any record.

    Parameters
    ----------
    batches : the rows of each step, as arrays or numbers; their choice must not depend on the data
    n : the number of records
    steps, gradient : η_t and G_t, each a number or one value per step
    kappa : κ, a bound on |φ(x)|
    lam : λ of a term λ|w|²/2
    batch_size : b, the divisor of the sum of each step; None means 1. The last batch may have fewer rows
    averaged : whether the mean of w over all steps is released instead of the last w
    """
    n, lam = check_whole("n", n), check_positive("lam", lam, zero=True)
    rows = [np.atleast_1d(np.asarray(batch, dtype=np.intp)) for batch in batches]
    T, b = (
        check_whole("the number of steps", len(rows)),
        check_whole("batch_size", 1 if batch_size is None else batch_size),
    )
    eta, G = np.broadcast_to(np.asarray(steps, dtype=float), T), np.broadcast_to(np.asarray(gradient, dtype=float), T)
    for value in (eta.max(), eta.min()):
        _check_step(float(value), largest_step(kappa, lam))
    sizes, visited = np.asarray([batch.size for batch in rows]), np.concatenate(rows)
    if sizes.max() > b or not np.all((visited >= 0) & (visited < n)):
        raise ValueError(f"each of the batches must have at most batch_size = {b} rows, with numbers from 0 to {n - 1}")
    pushes = 2.0 * eta * G / b * _remaining_shares(eta * lam, averaged)
    return float(np.bincount(visited, np.repeat(pushes, sizes), minlength=n).max())  # twice in one batch counts twice


def shuffled_passes(
    n: int,
    passes: int,
    step: float,
    gradient: float,
    *,
    kappa: float,
    batch_size: int = 1,
    lam: float = 0.0,
    averaged: bool = False,
) -> float:
    """Return Δ of k passes that each visit every record once, in any order, in batches of b (theorem 3).

    Δ is 2ηGk/b for the last w, or (2ηG/b) Σ_{p<k} (1-ηλ)^{pm} with λ > 0 and m = ⌈n/b⌉; for the mean of all w it is
    ηG(k+1)/b.

    Parameters
    ----------
    n, passes, step : n, k and η
    gradient : G, a bound on the gradient of one record
    kappa : κ, a bound on |φ(x)|
    batch_size : b
    lam : λ of a term λ|w|²/2
    averaged : whether the mean of w over all steps is released instead of the last w
    """
    n, passes, batch_size = check_whole("n", n), check_whole("passes", passes), check_whole("batch_size", batch_size)
    if batch_size > n:
        raise ValueError(f"batch_size must be at most the number of records, {n}, got {batch_size}")
    lam, gradient = check_positive("lam", lam, zero=True), check_positive("gradient", gradient)
    step = _check_step(step, largest_step(kappa, lam))
    m = -(-n // batch_size)
    decay = math.log1p(-step * lam)  # the largest step has ηλ < 1
    if averaged:  # the first step of each pass has an effect on the most iterates
        T, n_affected = passes * m, m * (passes - np.arange(passes, dtype=float))
        worst = n_affected / T if lam == 0 else -np.expm1(n_affected * decay) / (step * lam * T)
    else:  # the last step of each pass decays the least
        worst = np.exp(m * np.arange(passes) * decay)
    return float(2.0 * step * gradient / batch_size * np.sum(worst))


def full_batch(
    n: int, steps: int, step: float, gradient: float, *, kappa: float, lam: float = 0.0, averaged: bool = False
) -> float:
    """Return Δ of T steps of gradient descent on all n records: 2ηTG/n, or (2G/(nλ))(1 - (1-ηλ)^T) with λ > 0.

    Parameters
    ----------
    n, steps, step : n, T and η
    gradient : G, a bound on the gradient of one record
    kappa : κ, a bound on |φ(x)|
    lam : λ of a term λ|w|²/2
    averaged : whether the mean of w over all steps is released instead of the last w
    """
    return shuffled_passes(n, steps, step, gradient, kappa=kappa, batch_size=n, lam=lam, averaged=averaged)


def _remaining_shares(decay: np.ndarray, averaged: bool) -> np.ndarray:
    """Return the share of a change in step t that remains at the end, Π_{s>t} (1 - η_s λ), or its mean over steps."""
    shares, current, total = np.empty(len(decay)), 1.0, 0.0
    for t in range(len(decay) - 1, -1, -1):
        # total(t) = Σ_{s≥t} Π_{t<r≤s} (1 - η_r λ) = 1 + (1 - η_{t+1} λ)·total(t+1), computed from the end
        total = 1.0 if t == len(decay) - 1 else 1.0 + (1.0 - decay[t + 1]) * total
        shares[t] = total / len(decay) if averaged else current
        current *= 1.0 - decay[t]
    return shares


def _check_step(step: float, largest: float) -> float:
    step = check_positive("step", step)
    if step > largest:
        raise ValueError(f"step must be at most {largest:g} for the sensitivity bound to hold, got {step:g}")
    return step
