"""Verdicts from repeated measurements: exponents and ratios with confidence intervals, and one-sided tests.

An array of squared errors has a row for each repetition, all independent, and a column for each setting. What is judged
is the root of the mean square, which is what the theorems bound. Its logarithm has the standard error

    sd(e²) / (2 mean(e²) √R)

over R repetitions (delta method), and everything here is a weighted sum of such logarithms; degrees of freedom are
Welch and Satterthwaite's. The theorems are upper bounds: a claim fails only where the interval lies on its wrong side,
and where the interval is too wide to tell, the verdict is that nothing was decided. A comparison of methods is no
theorem (:func:`above`, :func:`below`): it holds only where the whole interval is on its side, margin included.

A claim over k cases fails where one does beyond chance, and chance has k tries: by Bonferroni the case has to be on the
wrong side with probability (1 - LEVEL)/2k. "Holds" needs all cases, so it needs no correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from .outcome import FAILS, HOLDS, UNDECIDED, Cell, Curve, Verdict

LEVEL = 0.95  # of the two-sided intervals that are shown; a one-sided verdict errs with half of what is left


@dataclass(frozen=True)
class Estimate:
    """A number and the interval that holds the true one with probability ``LEVEL``."""

    value: float
    low: float
    high: float
    freedom: float = math.inf  #: degrees of freedom of the Student law behind the interval
    log: bool = False  #: whether the law is that of the logarithm, as for ratios

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    def chance_of_less(self, truth: float) -> float:
        """Compute the probability of a value this small or smaller if the true one is ``truth``."""
        value, low, high = (math.log(x) if self.log else x for x in (self.value, self.low, self.high))
        error = (high - low) / 2 / _quantile(self.freedom)
        away = value - (math.log(truth) if self.log else truth)
        return float(student.cdf(away / error, self.freedom)) if error > 0 else float(away >= 0)

    def times(self, factor: float) -> Estimate:
        """Estimate a positive multiple of the number."""
        value, low, high = (factor * x for x in (self.value, self.low, self.high))
        return Estimate(value, low, high, self.freedom, self.log)


def _root_mean_squares(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the root of the mean of each column, and the ends of its interval."""
    logs, parts = _log_roots(squares)
    reach = _quantile(len(squares) - 1) * parts.std(axis=0, ddof=1) / math.sqrt(len(parts))
    return np.exp(logs), np.exp(logs - reach), np.exp(logs + reach)


def root(squares: np.ndarray) -> float:
    """Compute the root of the mean, for a table."""
    return float(np.sqrt(np.mean(squares)))


def make_curve(label: str, x: Sequence[float], squares: np.ndarray, power: int = 1) -> Curve:
    """A curve of root mean squared errors, or a power of them, with intervals; ``squares`` is (repetitions, len(x))."""
    middle, low, high = (tuple(value**power for value in values.tolist()) for values in _root_mean_squares(squares))
    return Curve(label, tuple(map(float, x)), middle, low, high)


def exponent(sizes: Any, squares: np.ndarray, over: np.ndarray | None = None, paired: bool = False) -> Estimate:
    """a of error ∝ size^{-a}: minus the slope of least squares of log root-mean-square error on log size.

    With ``over``, the squared errors of another method on the same repetitions, the errors are divided by its errors.
    ``paired`` says that a repetition has the same data at all sizes; else columns are independent.
    """
    x = np.log(np.asarray(sizes, dtype=float))
    if len(x) != squares.shape[1] or len(np.unique(x)) < 2:
        raise ValueError(f"an exponent needs errors at two sizes or more, got {squares.shape[1]} at {len(x)} sizes")
    centred = x - x.mean()
    return _combine(squares, -centred / np.sum(centred**2), over, paired)


def ratio(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Root-mean-square error of one method over that of another on the same repetitions, which are paired.

    Of errors at several settings, a column each with repetitions of its own, it is the geometric mean of their ratios.
    """
    first, second = (np.asarray(squares).reshape(len(squares), -1) for squares in (first, second))
    return _exponential(_combine(first, np.full(first.shape[1], 1 / first.shape[1]), second))


def typical_ratio(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Geometric mean of the errors of one method over that of another, for errors with tails too heavy for squares."""
    return _exponential(mean(0.5 * np.log(np.asarray(first) / np.asarray(second))))


def mean(values: Any) -> Estimate:
    """The mean of repetitions, with Student's interval."""
    values = np.asarray(values, dtype=float)
    freedom = len(values) - 1
    reach = _quantile(freedom) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return _around(float(values.mean()), reach, freedom)


def no_slower(claim: str, estimate: Estimate, theory: float, resolution: float) -> Verdict:
    """Errors fall with an exponent of at least ``theory``: fails where the whole interval lies below it.

    An interval on both sides of ``theory`` speaks in its favour only where its half width is within ``resolution``: so
    that "holds" always means that a rate slower by twice that would have been seen.
    """
    evidence, chance = f"exponent {estimate}, theory {theory:.3f}", estimate.chance_of_less(theory)
    if estimate.high < theory:
        return Verdict(claim, FAILS, f"{evidence}: slower, beyond the interval", chance=chance)
    if estimate.low < theory and estimate.half_width > resolution:
        return Verdict(claim, UNDECIDED, f"{evidence}: the interval is wider than ±{resolution:g}", chance=chance)
    return Verdict(claim, HOLDS, evidence, chance=chance)


def judge_rate(
    claim: str, sizes: Any, squares: np.ndarray, theory: float, resolution: float
) -> tuple[tuple[Cell, ...], Verdict]:
    """Judge the exponent of errors by :func:`no_slower`, with the cells of a table: exponent, theory, verdict."""
    estimate = exponent(sizes, squares)
    verdict = no_slower(claim, estimate, theory, resolution)
    return (str(estimate), theory, verdict.status), verdict


def above(claim: str, estimate: Estimate, bound: float, what: str) -> Verdict:
    """A quantity is larger than ``bound``, beyond its interval: a comparison and not an upper bound."""
    status = HOLDS if estimate.low > bound else FAILS if estimate.high < bound else UNDECIDED
    chance = estimate.chance_of_less(bound)
    return Verdict(claim, status, f"{what} {estimate}, to be above {bound:.3g}", chance=chance)


def below(claim: str, estimate: Estimate, bound: float, what: str) -> Verdict:
    """A quantity is smaller than ``bound``, beyond its interval."""
    status = HOLDS if estimate.high < bound else FAILS if estimate.low > bound else UNDECIDED
    chance = 1 - estimate.chance_of_less(bound)
    return Verdict(claim, status, f"{what} {estimate}, to be below {bound:.3g}", chance=chance)


def is_so(claim: str, so: bool, evidence: str, known_wrong: bool = False) -> Verdict:
    """A claim that no chance enters: an identity, or figures that a formula gives."""
    return Verdict(claim, HOLDS if so else FAILS, evidence, known_wrong)


def together(claim: str, parts: Sequence[Verdict]) -> Verdict:
    """One verdict over several cases: it holds where all do, and fails where one does although chance had k tries."""
    if len(parts) == 1:
        return Verdict(claim, parts[0].status, f"{parts[0].claim}: {parts[0].evidence}", chance=parts[0].chance)
    failed = [part for part in parts if part.status == FAILS]
    beyond = [part for part in failed if part.chance is None or part.chance * len(parts) <= (1 - LEVEL) / 2]
    open_ = [part for part in parts if part.status != HOLDS]
    least = min((part.chance for part in parts if part.chance is not None), default=None)
    if beyond:
        return Verdict(claim, FAILS, _join(beyond), chance=least)
    if failed:
        by_chance = f"by chance alone, one of {len(parts)} cases is that far off more often than once in forty times"
        words = f"{_join(open_)}; {by_chance}"
        return Verdict(claim, UNDECIDED, words, chance=least)
    if open_:
        return Verdict(claim, UNDECIDED, _join(open_), chance=least)
    closest = min(parts, key=lambda part: 1.0 if part.chance is None else part.chance)
    return Verdict(claim, HOLDS, f"in all {len(parts)} cases; the closest is {_join([closest])}", chance=least)


def _join(parts: Sequence[Verdict]) -> str:
    return "; ".join(f"{part.claim}: {part.evidence}" for part in parts)


def _quantile(freedom: float) -> float:
    """Return the number of standard errors from the middle of the interval to its ends."""
    return float(student.ppf((1 + LEVEL) / 2, freedom))


def _around(value: float, reach: float, freedom: float) -> Estimate:
    return Estimate(value, value - reach, value + reach, freedom)


def _exponential(estimate: Estimate) -> Estimate:
    """Turn the estimate of a logarithm into one of the number."""
    return Estimate(
        math.exp(estimate.value), math.exp(estimate.low), math.exp(estimate.high), estimate.freedom, log=True
    )


def _log_roots(squares: np.ndarray, over: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """log √mean of each column, less that of the other errors where there are some, and every repetition's part in it.

    To first order the estimate is the mean over repetitions of e²/(2 mean e²), less the same of the others.
    """
    squares = np.asarray(squares, dtype=float)
    if squares.ndim != 2 or len(squares) < 2:
        raise ValueError(f"errors need a row for each of two repetitions or more, got shape {squares.shape}")
    means = squares.mean(axis=0)
    logs, parts = 0.5 * np.log(means), squares / (2 * means)
    if over is not None:
        other_logs, other_parts = _log_roots(over)
        return logs - other_logs, parts - other_parts
    return logs, parts


def _combine(
    squares: np.ndarray, weights: np.ndarray, over: np.ndarray | None = None, paired: bool = False
) -> Estimate:
    """Estimate Σ w_k log √mean_k, with its interval."""
    logs, parts = _log_roots(squares, over)
    parts = (parts @ weights)[:, None] if paired else parts * weights
    variances = parts.var(axis=0, ddof=1) / len(parts)
    total = float(np.sum(variances))
    freedom = (len(parts) - 1) * total**2 / float(np.sum(variances**2)) if total > 0 else 1.0
    return _around(float(weights @ logs), _quantile(freedom) * math.sqrt(total), freedom)
