"""A lower bound on ε that holds with stated confidence, from many outputs on two neighbouring data sets.

A rule that says from the output on which of two data sets, S and S', a mechanism has worked is right about S with some
probability TPR and wrong about S' with some probability FPR. If the mechanism is (ε, δ)-private, then for every rule

    TPR ≤ e^ε FPR + δ,    so    ε ≥ log((TPR - δ)/FPR)

(Kairouz, Oh and Viswanath 2015; as an audit, Jagielski, Ullman and Oprea 2020). A third of the runs chooses the rule;
the others count how often it is right and wrong, and Clopper and Pearson (1934) bound TPR from below and FPR from
above. Because the rule is fixed before these runs are looked at, the bound holds whatever the mechanism is.

If moreover the mechanism is μ-Gaussian private (Dong, Roth and Su 2022), then μ ≥ Φ⁻¹(TPR) - Φ⁻¹(FPR) for every rule,
and μ tells ε at any δ. That needs far fewer runs, because it may look where outputs are frequent and speak of where
they are rare; but it holds under this assumption only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from .._base.checks import check_positive, check_probability
from ..privacy.gaussian import epsilon_of

CONFIDENCE = 1.0 - 1e-7  # of each bound: a mechanism that keeps its promise is accused once in 10⁷ audits at most
CHOOSING = 1.0 / 3.0  # of the runs choose the rule
THRESHOLDS = 400  # that are tried
LEAST_RUNS = 30


@dataclass(frozen=True)
class LowerBound:
    """Lower bounds on ε at δ that the runs prove, each with the requested confidence.

    Attributes
    ----------
    epsilon : holds whatever the mechanism is; 0 if the runs show nothing
    gaussian_epsilon, mu : hold if the mechanism is μ-Gaussian private
    delta : the δ of the bounds
    runs : the number of runs on each of the two data sets
    confidence : the confidence of each bound
    """

    epsilon: float
    gaussian_epsilon: float
    mu: float
    delta: float
    runs: int
    confidence: float


def lower_bound(
    first: Any, second: Any, delta: float, confidence: float = CONFIDENCE, direction: Any = None
) -> LowerBound:
    """Bound ε from below from outputs on S and on S', one per row.

    Parameters
    ----------
    first, second : arrays of shape (runs,) or (runs, k), every row an independent run
    delta : the δ of the claim
    confidence : the confidence of each bound
    direction : k numbers, the direction in which outputs differ most; None learns it from the runs that choose the rule
    """
    delta, confidence = check_probability("delta", delta, zero=True), check_probability("confidence", confidence)
    P, Q = _outputs("first", first), _outputs("second", second)
    if P.shape != Q.shape:
        raise ValueError(
            f"first and second must have the same shape, got {P.shape} and {Q.shape}: run both data sets equally often"
        )
    runs = len(P)
    if runs < LEAST_RUNS:
        raise ValueError(f"runs must be at least {LEAST_RUNS} for a lower bound, got {runs}")
    counted, alpha = _count_remaining(runs), _alpha(confidence)
    choosing = runs - counted

    def epsilon(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(low - delta, 1e-300) / high)

    def mu(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return ndtri(np.maximum(low, 1e-300)) - ndtri(np.minimum(high, 1 - 1e-16))

    statistics = _statistics(P[:choosing], Q[:choosing], direction)
    bounds = []
    for value in (epsilon, mu):
        rule = max(
            (_best(statistic, P[:choosing], Q[:choosing], alpha, value) for statistic in statistics),
            key=lambda rule: rule.promised,
        )
        low, high = rule.rates(P[choosing:], Q[choosing:], counted, alpha)
        bounds.append(max(0.0, float(value(low, high))))
    as_gaussian = epsilon_of(bounds[1], delta) if delta > 0 else (math.inf if bounds[1] > 0 else 0.0)
    return LowerBound(bounds[0], as_gaussian, bounds[1], delta, runs, confidence)


def attainable(runs: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """The largest ε that so many runs can prove: that of outputs which tell S from S' without error."""
    counted, alpha = np.asarray(_count_remaining(runs)), _alpha(confidence)
    low, high = _low(counted, int(counted), alpha), _high(np.asarray(0), int(counted), alpha)
    return max(0.0, float(np.log(np.maximum(low - delta, 1e-300) / high)))


def _count_remaining(runs: int) -> int:
    """Count the runs that remain once the rule has been chosen."""
    return runs - math.ceil(CHOOSING * runs)


def _alpha(confidence: float) -> float:
    """The probability of error that each of the two rates may have."""
    return (1.0 - confidence) / 2.0


@dataclass(frozen=True)
class _Rule:
    """Say S where the statistic is above the threshold (or not above), or the same with S and S' exchanged."""

    statistic: Callable[[np.ndarray], np.ndarray]
    threshold: float
    above: bool
    exchanged: bool
    promised: float  #: the bound that the runs which chose it would give

    def rates(self, P: np.ndarray, Q: np.ndarray, n: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        P, Q = (Q, P) if self.exchanged else (P, Q)
        right, wrong = (
            np.sum((self.statistic(outputs) > self.threshold) == self.above, keepdims=True) for outputs in (P, Q)
        )
        return _low(right, n, alpha)[0], _high(wrong, n, alpha)[0]


def _best(
    statistic: Callable[[np.ndarray], np.ndarray],
    P: np.ndarray,
    Q: np.ndarray,
    alpha: float,
    value: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> _Rule:
    """The rule with the largest bound on these runs alone.

    The criterion is itself a confidence bound, so it avoids thresholds that few outputs passed and that look good by
    chance.
    """
    n = len(P)
    p, q = np.sort(statistic(P)), np.sort(statistic(Q))
    pooled = np.unique(np.concatenate([p, q]))
    middles = (pooled[1:] + pooled[:-1]) / 2 if len(pooled) > 1 else pooled
    thresholds = middles[np.unique(np.linspace(0, len(middles) - 1, THRESHOLDS).astype(np.intp))]
    above_p, above_q = (1.0 - np.searchsorted(v, thresholds, side="right") / len(v) for v in (p, q))
    rules = []
    for above in (True, False):
        for exchanged in (False, True):
            right, wrong = (above_q, above_p) if exchanged else (above_p, above_q)
            if not above:
                right, wrong = 1.0 - right, 1.0 - wrong
            promised = value(_low(right * n, n, alpha), _high(wrong * n, n, alpha))
            i = int(np.argmax(promised))
            rules.append(_Rule(statistic, float(thresholds[i]), above, exchanged, float(promised[i])))
    return max(rules, key=lambda rule: rule.promised)


def _statistics(P: np.ndarray, Q: np.ndarray, direction: Any) -> list[Callable[[np.ndarray], np.ndarray]]:
    """Outputs along the direction in which means differ most beside the noise, and how far outputs are from the middle.

    The second detects noise whose size depends on the data.
    """
    middle = (P.mean(axis=0) + Q.mean(axis=0)) / 2
    centred = np.concatenate([P - P.mean(axis=0), Q - Q.mean(axis=0)])
    size = np.maximum(np.max(np.abs(np.concatenate([P, Q])), axis=0), 1e-300)
    scale = np.maximum(np.sqrt(np.mean(centred**2, axis=0)), 1e-13 * size)  # a number without noise stays in sight
    if direction is None:
        correlation = (centred / scale).T @ (centred / scale) / len(centred)
        ridge = correlation + 1e-3 * np.eye(len(correlation))
        along = np.linalg.solve(ridge, (P.mean(axis=0) - Q.mean(axis=0)) / scale) / scale  # Fisher's discriminant
    else:
        along = np.asarray(direction, dtype=float).ravel()
        if along.shape != middle.shape:
            raise ValueError(f"direction must have {len(middle)} numbers, like every output, got {len(along)}")
    return [
        lambda outputs: (outputs - middle) @ along,
        lambda outputs: np.linalg.norm((outputs - middle) / scale, axis=1),
    ]


def _low(k: np.ndarray, n: int, alpha: float) -> np.ndarray:
    """The rate that k hits in n or more have with probability α: Clopper and Pearson's bound from below."""
    k = np.asarray(k, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 1e-9), n - k + 1, alpha), 0.0)


def _high(k: np.ndarray, n: int, alpha: float) -> np.ndarray:
    """The rate that k hits in n or fewer have with probability α: the same from above."""
    return 1.0 - _low(n - np.asarray(k, dtype=float), n, alpha)


def _outputs(name: str, values: Any) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    values = values.reshape(len(values), -1) if values.ndim else values.reshape(1, 1)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"the outputs {name} must be finite numbers")
    return values


def check_claim(epsilon: Any, delta: Any) -> tuple[float, float]:
    """ε > 0 and 0 ≤ δ < 1; pure privacy may be claimed too."""
    return check_positive("epsilon", epsilon), check_probability("delta", delta, zero=True)
