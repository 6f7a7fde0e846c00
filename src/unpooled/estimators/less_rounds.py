"""Rounds of residuals over the rows of a source, for many λ side by side."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..bases.base import Basis
from ..blocks.base import Source
from ..filters import Filter, Floats
from ..losses import Loss, as_loss
from ..solvers.residual_rounds import Rounds
from ..summaries.accumulate import Functions, of_source
from ..summaries.counting import median
from .summary import centred_message, from_point, means_of, preconditioner, public_system, ridge_term

# |u| at which a residual counts as large, in robust standard deviations: 95 % efficient on Gaussian noise (Huber), and
# the usual choice for the Welsch loss, which is correntropy.
CONSTANTS = {"huber": 1.345, "correntropy": 2.985}
SETTLED = 0.05  # the scale is kept once it moves by less


@dataclass
class Plan:
    """How the rounds are to go."""

    filter: Filter
    loss: Any  #: a Loss, or the name of one whose scale is to be found
    center: bool | str
    rounds: int
    ridge: bool
    steps: str
    tol: float
    n_features: Any = "all"


@dataclass
class Outcome:
    """Functions for every λ, and how they were come by."""

    coef: Floats  #: (L, M, T)
    intercept: Floats  #: (L, T)
    df: Floats  #: (L,) by the public spectrum
    loss: Loss
    n_rounds: int
    history: list[dict[str, float]] = field(default_factory=list)


def run(source: Source, basis: Basis, mapped: Any, lams: Floats, plan: Plan, engine: Any) -> Outcome:
    """The rounds; ``mapped`` is the basis or one that knows its features already."""
    M, T, L = basis.n_features_, source.n_outputs, len(lams)
    columns = L * T
    with_intercept = plan.center is not False
    loss, scaled_by = _loss(plan.loss)
    public = public_system(basis, plan.center, "all" if isinstance(plan.n_features, str) else plan.n_features)
    by_rule = isinstance(plan.n_features, str) and plan.n_features == "rule"
    ridge = np.repeat(ridge_term(lams if plan.ridge else 0.0 * lams, M, with_intercept), T, axis=1)
    rounds = Rounds(
        preconditioner(public, plan.filter, lams, by_rule, with_intercept),
        ridge,
        quadratic=loss.bound == np.inf,
        steps=plan.steps,
        point=np.zeros((M + with_intercept, columns)),
    )
    shift = basis.mean_ if plan.center == "public" else np.zeros(M)
    if scaled_by and with_intercept:
        # A robust fit must not start from zero where the labels are far from it.
        start = median(source, mapped, Functions(np.zeros((M, T)), np.zeros(T)), False, engine)
        rounds.point[-1] = np.tile(start, L)
    history: list[dict[str, float]] = []
    scale = np.inf
    for number in range(1, plan.rounds + 1):
        functions = Functions(*from_point(rounds.point, shift, with_intercept))
        if scaled_by and number <= plan.rounds // 2 + 1:
            found = _scale(source, mapped, functions, scaled_by, engine)
            if scale == np.inf or abs(found - scale) > SETTLED * scale:
                scale, loss = found, as_loss(str(plan.loss), found)
                if number > 1:
                    rounds.restart()
        first = number == 1 and loss.bound == np.inf
        summary = of_source(mapped, source, 1, None if first else functions, loss, engine)
        means = means_of(summary)
        if first:  # the labels themselves, the same for every λ
            means = _tiled(means, L)
        if number == 1 and plan.center is True:
            shift = means.phi
        message = centred_message(means, shift, with_intercept)
        value = None if summary.loss_sum is None else summary.loss_sum / summary.weight
        rounds.receive(message, value)
        mean_loss = 0.5 * means.yy if value is None else value
        history.append({"round": number, "loss": float(np.mean(mean_loss)), "left": rounds.progress})
        if rounds.progress <= plan.tol and number > 1:
            break
    coef, intercept = from_point(rounds.point, shift, with_intercept)
    df = degrees_of_freedom(public.sigma, plan, lams, public.kappa_sq, len(history)) + with_intercept
    return Outcome(coef.T.reshape(L, T, M).transpose(0, 2, 1), intercept.reshape(L, T), df, loss, len(history), history)


def mean_losses(source: Source, mapped: Any, found: Outcome, engine: Any) -> tuple[Floats, float]:
    """(1/n) Σ ρ(y - f(x)) for every λ and label, and the rows that count."""
    L, M, T = found.coef.shape
    functions = Functions(found.coef.transpose(1, 0, 2).reshape(M, L * T), found.intercept.reshape(-1))
    summary = of_source(mapped, source, 1, functions, found.loss, engine)
    assert summary.loss_sum is not None
    return (summary.loss_sum / summary.weight).reshape(L, T), max(summary.weight, float(summary.n_rows))


def degrees_of_freedom(sigma: Floats, plan: Plan, lams: Floats, kappa_sq: float, n_rounds: int) -> Floats:
    """The trace of labels to fits, as the public spectrum has it: Σ 1 - r^t after t rounds of a filter 1 - r = σg."""
    _, left = plan.filter.path(sigma, lams, kappa_sq)
    return np.asarray(np.sum(1.0 - (left if plan.ridge else left**n_rounds), axis=1))


def _loss(given: Any) -> tuple[Loss, float]:
    """The loss, and the constant that its scale is to be, in robust standard deviations; 0 where it is known."""
    loss = as_loss(given)
    return loss, CONSTANTS[given] if isinstance(given, str) and loss.scaled else 0.0


def _scale(source: Source, mapped: Any, functions: Functions, constant: float, engine: Any) -> float:
    """The scale for the residuals of the best function: constant · 1.4826 · median |u|, smallest over the functions."""
    spread = median(source, mapped, functions, True, engine)
    return float(max(constant * 1.4826 * np.min(spread), np.finfo(float).tiny))


def _tiled(means: Any, L: int) -> Any:
    return replace(means, y=np.tile(means.y, L), yy=np.tile(means.yy, L), phi_y=np.tile(means.phi_y, (1, L)))
