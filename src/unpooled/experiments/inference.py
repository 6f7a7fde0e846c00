"""From repeated measurements to verdicts: exponents and ratios with confidence intervals, and one-sided tests.

An array of squared errors has a row for each repetition, all independent, and a column for each setting. What is judged
is the root of the mean square, which is what the theorems bound. Its logarithm has the standard error

    sd(e²) / (2 mean(e²) √R)

over R repetitions (delta method), and everything here is a weighted sum of such logarithms; degrees of freedom are
Welch and Satterthwaite's. The theorems are upper bounds: a claim fails only where the interval lies on its wrong side,
and where the interval is too wide to tell, the verdict is that nothing was decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from .outcome import FAILS, HOLDS, UNDECIDED, Verdict

LEVEL = 0.95  # of the two-sided intervals that are shown; a one-sided verdict errs with half of what is left


@dataclass(frozen=True)
class Estimate:
    """A number and the interval that holds the true one with probability ``LEVEL``."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    @property
    def half_width(self) -> float:
        """Half of the interval's length."""
        return (self.high - self.low) / 2


def root_mean_squares(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The root of the mean of each column, and the ends of its interval."""
    logs, parts = _log_roots(squares)
    errors = parts.std(axis=0, ddof=1) / math.sqrt(len(parts))
    reach = float(student.ppf((1 + LEVEL) / 2, len(squares) - 1)) * errors
    return np.exp(logs), np.exp(logs - reach), np.exp(logs + reach)


def exponent(sizes: Any, squares: np.ndarray, over: np.ndarray | None = None, paired: bool = False) -> Estimate:
    """a of error ∝ size^{-a}: minus the slope of least squares of log root-mean-square error on log size.

    With ``over``, the squared errors of another method on the same repetitions, the errors are divided by its errors.
    ``paired`` says that a repetition has the same data at all sizes; else columns are independent.
    """
    x = np.log(np.asarray(sizes, dtype=float))
    if len(x) != squares.shape[1] or len(np.unique(x)) < 2:
        raise ValueError(f"an exponent needs errors at two sizes or more, got {squares.shape[1]} at {len(x)} sizes")
    centred = x - x.mean()
    return _combined(squares, -centred / np.sum(centred**2), over, paired)


def ratio(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Root-mean-square error of one method over that of another on the same repetitions, which are paired."""
    log = _combined(np.asarray(first)[:, None], np.ones(1), np.asarray(second)[:, None])
    return Estimate(math.exp(log.value), math.exp(log.low), math.exp(log.high))


def typical_ratio(first: np.ndarray, second: np.ndarray) -> Estimate:
    """The same with the geometric means of errors in the place of root mean squares, for errors with heavy tails."""
    log = mean(0.5 * np.log(np.asarray(first) / np.asarray(second)))
    return Estimate(math.exp(log.value), math.exp(log.low), math.exp(log.high))


def mean(values: Any) -> Estimate:
    """The mean of repetitions, with Student's interval."""
    values = np.asarray(values, dtype=float)
    reach = (
        float(student.ppf((1 + LEVEL) / 2, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    )
    return Estimate(float(values.mean()), float(values.mean()) - reach, float(values.mean()) + reach)


def no_slower(claim: str, found: Estimate, theory: float, resolution: float) -> Verdict:
    """Errors fall with an exponent of at least ``theory``: fails where the whole interval lies below it.

    An interval on both sides of ``theory`` speaks in its favour only where its half width is within ``resolution``.
    """
    evidence = f"exponent {found}, theory {theory:.3f}"
    if found.high < theory:
        return Verdict(claim, FAILS, f"{evidence}: slower, beyond the interval")
    if found.low < theory and found.half_width > resolution:
        return Verdict(claim, UNDECIDED, f"{evidence}: the interval is wider than ±{resolution:g}")
    return Verdict(claim, HOLDS, evidence)


def at_most(claim: str, found: Estimate, bound: float, resolution: float, what: str) -> Verdict:
    """A quantity is no larger than ``bound``: fails where the whole interval lies above it."""
    evidence = f"{what} {found}, bound {bound:.3g}"
    if found.low > bound:
        return Verdict(claim, FAILS, evidence)
    if found.high > bound and found.half_width > resolution:
        return Verdict(claim, UNDECIDED, f"{evidence}: the interval is wider than ±{resolution:g}")
    return Verdict(claim, HOLDS, evidence)


def above(claim: str, found: Estimate, bound: float, what: str) -> Verdict:
    """A quantity is larger than ``bound``, beyond its interval: a comparison and not an upper bound."""
    evidence = f"{what} {found}, to be above {bound:.3g}"
    status = HOLDS if found.low > bound else FAILS if found.high < bound else UNDECIDED
    return Verdict(claim, status, evidence)


def below(claim: str, found: Estimate, bound: float, what: str) -> Verdict:
    """A quantity is smaller than ``bound``, beyond its interval."""
    evidence = f"{what} {found}, to be below {bound:.3g}"
    status = HOLDS if found.high < bound else FAILS if found.low > bound else UNDECIDED
    return Verdict(claim, status, evidence)


def is_so(claim: str, so: bool, evidence: str, known_wrong: bool = False) -> Verdict:
    """A claim that no chance enters: an identity, or figures that a formula gives."""
    return Verdict(claim, HOLDS if so else FAILS, evidence, known_wrong)


def together(claim: str, parts: Sequence[Verdict]) -> Verdict:
    """One verdict over several cases: it holds where all hold, and fails where one fails."""
    if len(parts) == 1:
        return Verdict(claim, parts[0].status, f"{parts[0].claim}: {parts[0].evidence}")
    statuses = [part.status for part in parts]
    status = FAILS if FAILS in statuses else UNDECIDED if UNDECIDED in statuses else HOLDS
    worst = [part for part in parts if part.status == status]
    if status == HOLDS:
        return Verdict(claim, HOLDS, f"in all {len(parts)} cases of the table")
    return Verdict(claim, status, "; ".join(f"{part.claim}: {part.evidence}" for part in worst))


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


def _combined(
    squares: np.ndarray, weights: np.ndarray, over: np.ndarray | None = None, paired: bool = False
) -> Estimate:
    """Σ w_k log √mean_k with its interval."""
    logs, parts = _log_roots(squares, over)
    parts = (parts @ weights)[:, None] if paired else parts * weights
    variances = parts.var(axis=0, ddof=1) / len(parts)
    total = float(np.sum(variances))
    freedom = (len(parts) - 1) * total**2 / float(np.sum(variances**2)) if total > 0 else 1.0
    reach = float(student.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(total)
    value = float(weights @ logs)
    return Estimate(value, value - reach, value + reach)
