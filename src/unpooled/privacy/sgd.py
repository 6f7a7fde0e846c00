"""How far one record can move the outcome of stochastic gradient descent: pure functions, each a theorem.

The learner is w ← (1 - η_t λ) w - (η_t/b) Σ_{i in B_t} ψ(⟨w, φ(x_i)⟩ - y_i) φ(x_i) from w = 0, with |φ(x)| ≤ κ.
Neighbours replace one record; the order of visits does not depend on the data. The proofs are in docs/privacy/sgd.md,
which also says where the formulas printed in Wang and Guo (2024) are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.checks import check_positive, check_probability, check_whole

__all__ = [
    "clipped_gradient",
    "full_batch",
    "largest_step",
    "paper",
    "paper_as_printed",
    "realised",
    "shuffled_passes",
    "squared_gradients",
    "visits",
]


def largest_step(kappa: float, lam: float = 0.0) -> float:
    """2/(κ² + 2λ): up to this step a visit of the same record brings no two weights further apart (lemma 1).

    Parameters
    ----------
    kappa : κ, a bound on |φ(x)|
    lam : λ of a term λ|w|²/2
    """
    return 2.0 / (check_positive("kappa", kappa) ** 2 + 2.0 * check_positive("lam", lam, zero=True))


def clipped_gradient(clip: float, kappa: float) -> float:
    """G = Cκ, a bound on |ψ(u)φ(x)| where the residual is clipped to [-C, C], which is Huber's loss.

    Parameters
    ----------
    clip, kappa : C, and κ, a bound on |φ(x)|
    """
    return check_positive("clip", clip) * check_positive("kappa", kappa)


def squared_gradients(steps: int, step: float, label_bound: float, kappa: float) -> np.ndarray:
    """G_t = cκ + cκ²√(η(t-1)), t = 1, …, T: a bound on the gradient of the squared loss, for ηκ² ≤ 1 (lemma 3).

    Parameters
    ----------
    steps, step : T and η
    label_bound, kappa : c, a bound on |y|, and κ, a bound on |φ(x)|
    """
    steps, step = check_whole("steps", steps), _checked_step(step, 1.0 / check_positive("kappa", kappa) ** 2)
    label_bound = check_positive("label_bound", label_bound)
    return label_bound * kappa * (1.0 + kappa * np.sqrt(step * np.arange(steps)))


def visits(n: int, steps: int, gamma: float) -> float:
    """q = (T/n)(1 + c_γ): no record of n is drawn more often in T draws, but with probability γ (lemma 4).

    Parameters
    ----------
    n, steps : records and draws
    gamma : γ
    """
    mean = check_whole("steps", steps) / check_whole("n", n)
    excess = 3.0 * math.log(n / check_probability("gamma", gamma)) / mean
    return mean * (1.0 + max(math.sqrt(excess), excess))


def paper(n: int, steps: int, step: float, label_bound: float, kappa: float, gamma: float) -> float:
    """Δ of Algorithm 1 of paper 004, mended: 2η(cκ + cκ²√(ηT))√(e q(1+q)), but with probability γ (theorem 1).

    Parameters
    ----------
    n, steps, step : n, T and η
    label_bound, kappa : c, a bound on |y|, and κ, a bound on |φ(x)|
    gamma : γ
    """
    step = _checked_step(step, 1.0 / check_positive("kappa", kappa) ** 2)
    q = visits(n, steps, gamma)
    gradient = check_positive("label_bound", label_bound) * kappa * (1.0 + kappa * math.sqrt(step * steps))
    return 2.0 * step * gradient * math.sqrt(math.e * q * (1.0 + q))


def paper_as_printed(n: int, steps: int, step: float, label_bound: float, kappa: float, gamma: float) -> float:
    """(17) of paper 004 to the letter, without its square root and one c: NOT a bound, kept for audits to catch.

    Parameters
    ----------
    n, steps, step : n, T and η
    label_bound, kappa : c, a bound on |y|, and κ, a bound on |φ(x)|
    gamma : γ
    """
    q = visits(n, steps, gamma)
    gradient = label_bound * kappa + kappa**2 * math.sqrt(step * steps)
    return 4.0 * math.e * step**2 * gradient**2 * q * (1.0 + q)


def realised(
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
    """Δ for an order of visits that was drawn (theorem 2): the worst record's Σ 2η_t G_t/b · Π (1 - η_s λ), s > t.

    Parameters
    ----------
    batches : the rows of each step, as arrays or numbers, drawn without looking at the data
    n : the number of records
    steps, gradient : η_t and G_t, numbers or one a step
    kappa : κ, a bound on |φ(x)|
    lam : λ of a term λ|w|²/2
    batch_size : b, what a step's sum is divided by; None is one. A last batch may have fewer rows
    averaged : whether the mean of w after each step is released, and not the last w
    """
    n, lam = check_whole("n", n), check_positive("lam", lam, zero=True)
    rows = [np.atleast_1d(np.asarray(batch, dtype=np.intp)) for batch in batches]
    T, b = (
        check_whole("the number of steps", len(rows)),
        check_whole("batch_size", 1 if batch_size is None else batch_size),
    )
    eta, G = np.broadcast_to(np.asarray(steps, dtype=float), T), np.broadcast_to(np.asarray(gradient, dtype=float), T)
    for value in (eta.max(), eta.min()):
        _checked_step(float(value), largest_step(kappa, lam))
    sizes, visited = np.asarray([batch.size for batch in rows]), np.concatenate(rows)
    if sizes.max() > b or not np.all((visited >= 0) & (visited < n)):
        raise ValueError(f"batches must have at most batch_size = {b} rows each, all of the {n} there are")
    pushes = 2.0 * eta * G / b * _felt(eta * lam, averaged)
    return float(np.bincount(visited, np.repeat(pushes, sizes), minlength=n).max())  # twice in a batch counts twice


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
    """Δ of k passes, each visiting every record once in any order, in batches of b (theorem 3).

    2ηGk/b for the last w; with λ > 0 it is (2ηG/b) Σ_{p<k} (1-ηλ)^{pm}, m = ⌈n/b⌉; ηG(k+1)/b for the mean of all w.

    Parameters
    ----------
    n, passes, step : n, k and η
    gradient : G, a bound on a record's gradient
    kappa : κ, a bound on |φ(x)|
    batch_size : b
    lam : λ of a term λ|w|²/2
    averaged : whether the mean of w after each step is released, and not the last w
    """
    n, passes, batch_size = check_whole("n", n), check_whole("passes", passes), check_whole("batch_size", batch_size)
    if batch_size > n:
        raise ValueError(f"batch_size must be at most the {n} records, got {batch_size}")
    lam, gradient = check_positive("lam", lam, zero=True), check_positive("gradient", gradient)
    step = _checked_step(step, largest_step(kappa, lam))
    m = -(-n // batch_size)
    decay = math.log1p(-step * lam)  # the largest step has ηλ < 1
    if averaged:  # the first step of each pass is felt by the most iterates
        T, felt_by = passes * m, m * (passes - np.arange(passes, dtype=float))
        worst = felt_by / T if lam == 0 else -np.expm1(felt_by * decay) / (step * lam * T)
    else:  # the last step of each pass is forgotten the least
        worst = np.exp(m * np.arange(passes) * decay)
    return float(2.0 * step * gradient / batch_size * np.sum(worst))


def full_batch(
    n: int, steps: int, step: float, gradient: float, *, kappa: float, lam: float = 0.0, averaged: bool = False
) -> float:
    """Δ of T steps of gradient descent on all n records: 2ηTG/n, and (2G/(nλ))(1 - (1-ηλ)^T) with λ > 0.

    Parameters
    ----------
    n, steps, step : n, T and η
    gradient : G, a bound on a record's gradient
    kappa : κ, a bound on |φ(x)|
    lam : λ of a term λ|w|²/2
    averaged : whether the mean of w after each step is released, and not the last w
    """
    return shuffled_passes(n, steps, step, gradient, kappa=kappa, batch_size=n, lam=lam, averaged=averaged)


def _felt(decay: np.ndarray, averaged: bool) -> np.ndarray:
    """What is left at the end of a change in step t: Π_{s>t} (1 - η_s λ), or the mean of that over all ends ≥ t."""
    felt, current, sofar = np.empty(len(decay)), 1.0, 0.0
    for t in range(len(decay) - 1, -1, -1):
        # sofar = Σ_{s≥t} Π_{t<r≤s} (1 - η_r λ), from the back: 1 + (1 - η_{t+1} λ)·(the same for t+1)
        sofar = 1.0 if t == len(decay) - 1 else 1.0 + (1.0 - decay[t + 1]) * sofar
        felt[t] = sofar / len(decay) if averaged else current
        current *= 1.0 - decay[t]
    return felt


def _checked_step(step: float, largest: float) -> float:
    step = check_positive("step", step)
    if step > largest:
        raise ValueError(f"step must be at most {largest:g}, or records push further each time; got {step:g}")
    return step
