"""Rounds of residuals over the rows of a source, for many λ side by side."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._base.arrays import Floats
from .._base.progress import Progress
from .._base.rows import Source
from .._solvers.span.residual_rounds import (
    Rounds,
    centred_message,
    message_at_mean,
    preconditioners,
    public_system,
    ridge_term,
    to_coefficients,
)
from .._solvers.spectral.criteria import trace_by_signs
from ..bases.base import Basis
from ..filters import Filter
from ..losses import Loss, as_loss
from ..summaries.passes import Functions, median
from ..summaries.summary import summarize_source
from .from_sums import means_of

# |u| at which a residual counts as large, in robust standard deviations: 95 % efficient on Gaussian noise (Huber), and
# the usual choice for the Welsch loss, which is correntropy.
CONSTANTS = {"huber": 1.345, "correntropy": 2.985}
PROBES = 2  # random labels beside the true ones, which tell the degrees of freedom and speed up conjugate steps
SETTLED = 0.05  # the scale is kept once it moves by less


@dataclass
class RoundRules:
    """The rules of the rounds, as the estimator was told."""

    filter: Filter
    loss: Any  #: a Loss, or the name of one whose scale is to be found
    fit_intercept: bool | str
    rounds: int
    ridge: bool
    steps: str
    tol: float


@dataclass
class _Outcome:
    """The functions of every λ after the last round, and the history of the rounds."""

    lam: Floats
    coef: Floats  #: (L, M, T)
    intercept: Floats  #: (L, T)
    df: Floats  #: (L,) the trace of labels to fits: from random labels, or by the spread of the features
    loss: Loss
    n_rounds: int
    history: list[dict[str, float]] = field(default_factory=list)


def run(
    source: Source, basis: Basis, mapped: Any, lams: Floats, plan: RoundRules, engine: Any, verbose: int = 0
) -> _Outcome:
    """The rounds; ``mapped`` is the basis or one that knows its features already."""
    M, L = basis.n_features_, len(lams)
    with_intercept = plan.fit_intercept is not False
    loss, scaled_by = _loss(plan.loss)
    probes = PROBES if loss.bound == np.inf and L > 1 else 0
    T = source.n_outputs + probes
    public = public_system(basis, plan.fit_intercept)
    column_lams = np.repeat(lams, T)
    plain, careful = preconditioners(public, plan.filter, column_lams, "all", with_intercept)
    rounds = Rounds(
        plain,
        np.zeros((M + with_intercept, L * T)),
        ridge_term(column_lams if plan.ridge else 0.0 * column_lams, M, with_intercept),
        quadratic=loss.bound == np.inf,
        steps=plan.steps,
        careful=careful if plan.ridge else None,
        kappa=float(np.sqrt(basis.kappa_sq_)),
        n_rows=float(max(source.n_rows, 1)),
    )
    shift = basis.mean_ if plan.fit_intercept == "public" else np.zeros(M)
    if loss.bound < np.inf and with_intercept:
        # A robust fit must not start from zero if the labels are far from it.
        start = median(source, mapped, Functions(np.zeros((M, T)), np.zeros(T)), False, engine)
        rounds.point[-1] = np.tile(start, L)
    history: list[dict[str, float]] = []
    scale, n, d = np.inf, np.inf, np.zeros(0)
    with Progress(plan.rounds, "rounds", verbose) as bar:
        for number in bar.counting(range(1, plan.rounds + 1)):
            functions = Functions(*to_coefficients(rounds.point, shift, with_intercept))
            if scaled_by and number <= plan.rounds // 2 + 1:
                done = _degrees_of_freedom(public.spread, plan, lams, public.kappa_sq, number - 1) * (number > 1)
                new_scale = scaled_by * _deviation(source, mapped, functions, done / n, engine)
                if scale == np.inf or abs(new_scale - scale) > SETTLED * scale:
                    scale, loss = new_scale, as_loss(str(plan.loss), new_scale)
                    if number > 1:
                        rounds.restart()
            first = number == 1 and loss.bound == np.inf
            summary = summarize_source(mapped, source, 1, None if first else functions, loss, engine, probes=probes)
            means = means_of(summary)
            n = means.n
            if first:  # the labels themselves, the same for every λ
                means = _repeat_for_each(means, L)
            if number == 1 and plan.fit_intercept is True:
                shift = means.phi
            message = centred_message(means, shift, with_intercept)
            if first and plan.fit_intercept is True:
                message = message_at_mean(rounds, message)
            d = message if number == 1 else d
            value = None if summary.loss_sum is None else summary.loss_sum / summary.weight
            rounds.receive(message, means.yy, value)
            mean_loss = 0.5 * means.yy if value is None else value
            history.append({"round": number, "loss": float(np.mean(mean_loss)), "left": rounds.progress})
            if rounds.progress <= plan.tol and number > 1:
                break
    result = rounds.result
    coef, intercept = to_coefficients(result, shift, with_intercept)
    coef, intercept = coef.T.reshape(L, T, M).transpose(0, 2, 1), intercept.reshape(L, T)
    if probes:
        # W · (1/W) Σ w z f_z(x) for labels z: zᵀH z.
        df = trace_by_signs((n * np.sum(d * result, axis=0)).reshape(L, T), probes) + with_intercept
        coef, intercept = coef[:, :, :-probes], intercept[:, :-probes]
    else:
        df = _degrees_of_freedom(public.spread, plan, lams, public.kappa_sq, len(history)) + with_intercept
    return _Outcome(lams, coef, intercept, df, loss, len(history), history)


def mean_losses(source: Source, mapped: Any, outcome: _Outcome, engine: Any) -> tuple[Floats, float]:
    """(1/n) Σ ρ(y - f(x)) for every λ and label, and the rows that count."""
    L, M, T = outcome.coef.shape
    functions = Functions(outcome.coef.transpose(1, 0, 2).reshape(M, L * T), outcome.intercept.reshape(-1))
    summary = summarize_source(mapped, source, 1, functions, outcome.loss, engine)
    assert summary.loss_sum is not None
    return (summary.loss_sum / summary.weight).reshape(L, T), max(summary.weight, float(summary.n_rows))


def _degrees_of_freedom(spread: Floats, plan: RoundRules, lams: Floats, kappa_sq: float, n_rounds: int) -> Floats:
    """The trace of labels to fits, as the features' spread has it: Σ 1 - r^t after t rounds of a filter 1 - r = σg."""
    _, left = plan.filter.path(np.minimum(spread, kappa_sq), lams, kappa_sq)
    return np.asarray(np.sum(1.0 - (left if plan.ridge else left**n_rounds), axis=1))


def _loss(given: Any) -> tuple[Loss, float]:
    """The loss, and the constant that its scale is to be, in robust standard deviations; 0 if it is known."""
    loss = as_loss(given)
    return loss, CONSTANTS[given] if isinstance(given, str) and loss.has_scale else 0.0


def _deviation(source: Source, mapped: Any, functions: Functions, fitted: Floats, engine: Any) -> float:
    """The robust standard deviation 1.4826 · median |u| of the best λ; of several labels that of the largest.

    ``fitted`` is df/n for every λ. Residuals are too small by 1 - df/n, and those of a function with half as many
    degrees of freedom as rows say nothing, for it may reproduce the labels: they count where there are no others.
    """
    spread = median(source, mapped, functions, True, engine).reshape(len(fitted), -1)
    trusted = fitted <= 0.5
    best = np.min((spread / (1.0 - fitted)[:, None])[trusted] if np.any(trusted) else spread, axis=0)
    return float(max(1.4826 * np.max(best), np.finfo(float).tiny))


def _repeat_for_each(means: Any, L: int) -> Any:
    return replace(means, y=np.tile(means.y, L), yy=np.tile(means.yy, L), phi_y=np.tile(means.phi_y, (1, L)))
