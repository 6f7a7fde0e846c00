"""From sums to a model, for each kind of study; ``ask`` brings the sum of a statistic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .. import models, selection
from ..estimators import SummaryRegressor
from ..estimators.basis_average import BasisAverage
from ..summaries import Summary
from ..summaries.accumulate import Functions
from .averages import Errors, Fits
from .statistics import LeaveOneOut, Statistic, Sums
from .study import Study

Ask = Callable[[Statistic], Any]


def fitted(study: Study, ask: Ask) -> Any:
    """The model of a study."""
    return _average(study, ask) if study.kind == "average" else _from_sums(study, ask)


def _from_sums(study: Study, ask: Ask) -> SummaryRegressor:
    """LESS or second order; with more than one round each asks for the residuals of the model so far."""
    basis = study.basis
    summary: Summary = ask(Sums(study, 0, None, study.loss, study.order))
    lam = "auto" if study.lam == "loo" else study.lam
    model = SummaryRegressor(study.filter, lam, study.center, ridge=study.ridge, steps=study.steps, grid=study.grid)
    model.fit_summary(summary, basis=basis)
    if study.lam == "loo":
        scores = ask(LeaveOneOut(study, model.candidates(basis=basis)))
        model.fit_summary(summary, scores=scores, basis=basis)
    for number in range(1, study.rounds):
        known = model.coefficients_in(basis)
        assert known is not None
        residuals: Summary = ask(Sums(study, number, Functions(*known), study.loss, study.order))
        # Sites know the function by its own digest; to the model it is the digest of all of it that counts.
        contents = replace(residuals.contents, model=models.digest_of(model))
        model.update(replace(residuals, contents=contents), basis=basis)
    return model


def _average(study: Study, ask: Ask) -> BasisAverage:
    """Each site's own ridge regression, averaged; λ by the validation errors of averages of halves."""
    basis, lam, path = study.basis, study.lam, {}
    if isinstance(lam, str):
        grid = selection.default_grid(basis.kappa_sq_, float(np.finfo(float).eps)) if study.grid is None else study.grid
        tried = np.asarray(grid, dtype=float)
        coef, intercept, _ = _mean(ask(Fits(study, tried, halves=True)))
        n_lam, M, T = coef.shape
        functions = Functions(coef.transpose(1, 0, 2).reshape(M, n_lam * T), intercept.reshape(-1))
        sums = ask(Errors(study, functions)).sums
        errors = sums["square"].high / sums["weight"].high
        lam = float(tried[selection.best_index(errors, tried, per_target=False)[0]])
        path = {"lam": tried, "error": errors}
    final = Fits(study, np.asarray([lam]), halves=False)
    coef, intercept, n_sites = _mean(ask(final))
    model = BasisAverage().settle(basis, coef[0], intercept[0], lam, study.targets, n_sites)
    model.validation_ = path
    return model


def _mean(total: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """(L, M, T) coefficients, (L, T) intercepts, and over how many sites."""
    W = float(total.sums["weight"].high[0])
    sites = int(total.sums["sites"].high[0])
    return total.sums["coef"].high / W, total.sums["intercept"].high / W, sites
