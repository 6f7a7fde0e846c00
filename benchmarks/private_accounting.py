"""The noise that DP-SGD needs for a promise: (ε, δ) under sampling, records being replaced, or added and removed."""

from __future__ import annotations

import math
from functools import cache

import unpooled as up
from private_bench import DELTA

REPLACE, REMOVE = "replace one", "add or remove one"


@cache
def noise_multiplier(promise: str, epsilon: float, batches: int, steps: int) -> float:
    """The least σ/C with which that many steps, each row in a step with probability 1/batches, are (ε, δ)-private.

    Where all rows take part it is the Gaussian mechanism with μ = √steps·s/σ, s = 1 where a row is added or removed and
    s = 2 where it is replaced, as its gradient may turn around. Otherwise dp_accounting composes the privacy loss
    distribution: for replaced rows that of q N(C, σ²) + (1-q) N(0, σ²) against q N(-C, σ²) + (1-q) N(0, σ²), which
    dominates all pairs of gradients of norm C. That comes to about twice the noise, like without sampling, and a
    little less where ε is large. It is tighter than Opacus' own accountants.
    """
    moved = 2.0 if promise == REPLACE else 1.0
    mu = up.privacy.mu_for(epsilon, DELTA)
    if batches == 1:
        return moved * math.sqrt(steps) / mu
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution

    relations = dp_accounting.NeighboringRelation
    relation = relations.REPLACE_ONE if promise == REPLACE else relations.ADD_OR_REMOVE_ONE

    def spent(sigma: float) -> float:
        once = privacy_loss_distribution.from_gaussian_mechanism(
            sigma,
            sampling_prob=1.0 / batches,
            value_discretization_interval=1e-4 if epsilon < 1 else 5e-4,
            neighboring_relation=relation,
        )
        return once.self_compose(steps).get_epsilon_for_delta(DELTA)

    # The central limit is near; from there by secants in logarithms, and what is returned keeps the promise.
    low, high = moved * math.sqrt(steps) / mu / batches * 0.7, moved * math.sqrt(steps) / mu / batches * 1.3
    spent_low, spent_high = spent(low), spent(high)
    while spent_low <= epsilon:
        low, high, spent_high = low * 0.7, low, spent_low
        spent_low = spent(low)
    while spent_high > epsilon:
        low, high, spent_low = high, high * 1.4, spent_high
        spent_high = spent(high)
    for _ in range(12):
        if high / low < 1.002:
            break
        slope = math.log(spent_high / spent_low) / math.log(high / low)
        guess = low * (epsilon / spent_low) ** (1.0 / slope)
        sigma = min(max(guess, low * 1.0005), high / 1.0005) * 1.0003
        found = spent(sigma)
        low, spent_low, high, spent_high = (
            (low, spent_low, sigma, found) if found <= epsilon else (sigma, found, high, spent_high)
        )
        if 0 <= epsilon - spent_high < 0.002 * epsilon:
            break
    return high
