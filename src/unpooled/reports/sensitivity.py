"""The sensitivity of a fit to each site, found by leaving out one site at a time.

Only the sites' summaries are needed: those of the other sites are added up, and the model is fitted to the sum.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.checks import check_fitted
from .._base.html import Section, pair
from .._base.text import format_number
from ..bases import Basis
from ..estimators import SummaryRegressor
from ..estimators.from_sums import means_of
from ..summaries.summary import Summary
from .sites import MOST_SITES, SentSummary, add_up, write_or_unknown
from .svg import Axis, figure, row_chart

if TYPE_CHECKING:
    from .writing import ReportMaterial


@dataclass(frozen=True)
class _SiteLeftOut:
    """A model fitted without one site's rows, compared with the model fitted to all.

    Attributes
    ----------
    lam : the λ that it chose
    change : the root mean square difference of its predictions, in the unit of the label, over all rows. At first
        order, where the rows' covariance is unknown, over the public sample
    error_with, error_without : root mean square errors at the rows of that site, of the model fitted to all sites and
        of the one fitted without it. None unless the summaries are of second order
    """

    name: str
    n_rows: int
    lam: float
    change: float
    error_with: float | None
    error_without: float | None


@dataclass(frozen=True)
class Sensitivity:
    """The models without each site in turn; ``reference`` is the model of all sites."""

    reference: Any
    sites: list[_SiteLeftOut]
    total: Summary


def leave_one_out(model: Any, sent: list[SentSummary], basis: Basis | None = None, target: int = 0) -> Sensitivity:
    """Refit without each site, by adding up the summaries of the others.

    Each refit chooses λ again as the model did. If the sites had scored candidates for λ, they would have to do so
    again, so λ stays the same.
    """
    if not isinstance(model, SummaryRegressor):
        raise ValueError(f"model must be a SummaryRegressor to leave sites out, got {type(model).__name__}")
    check_fitted(model)
    if len(sent) < 2:
        raise ValueError("summaries has only one entry: leaving it out leaves nothing to fit")
    if sent[0].is_residual:
        raise ValueError("summaries are of residuals: pass those of the labels, from the first round")
    total = add_up(sent)
    basis = total.basis(basis)
    parameters = model.get_params(deep=False)
    facts = model.facts(target)
    if facts.path is not None and facts.path.criterion_name == "loo":
        parameters["lam"] = facts.lam
    reference = _fit(parameters, total, basis)
    left_out = []
    for one, others in zip(sent, _add_up_others([item.summary for item in sent])):
        refit = _fit(parameters, others, basis)
        left_out.append(
            _SiteLeftOut(
                one.name,
                one.summary.n_rows,
                refit.lam_,
                _compute_change(reference, refit, total, basis, target),
                _compute_error(reference, one.summary, target),
                _compute_error(refit, one.summary, target),
            )
        )
    return Sensitivity(reference, left_out, total)


def _add_up_others(summaries: list[Summary]) -> list[Summary]:
    """Add up all other summaries for each of them, with three additions per summary.

    Nothing is subtracted from a total. Sums are added in twice double precision, so their order changes no bit.
    """
    before = [None, *accumulate(summaries[:-1])]
    after = [*list(accumulate(reversed(summaries[1:])))[::-1], None]
    return [b + a if a is not None and b is not None else a or b for b, a in zip(before, after)]  # type: ignore[misc]


def _fit(parameters: dict[str, Any], summary: Summary, basis: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the floor, which the page mentions
        return SummaryRegressor(**parameters).fit_summary(summary, basis=basis)


def _compute_change(one: Any, other: Any, total: Summary, basis: Any, target: int) -> float:
    """Compute √ E (f - g)², with E over all rows or over the public sample."""
    a = (one.coef_matrix_ - other.coef_matrix_)[:, target]
    b = float((one.predictor_.intercept - other.predictor_.intercept)[target])
    means = means_of(total)
    if means.gram is not None and means.noise is None:
        square = float(a @ means.gram @ a) + 2 * b * float(means.phi @ a) + b * b
    else:
        square = float(basis.eigenvalues_ @ (a * a)) + 2 * b * float(basis.mean_ @ a) + b * b
    return math.sqrt(max(square, 0.0))


def _compute_error(model: Any, summary: Summary, target: int = 0) -> float | None:
    """√ mean (y - f(x))² over the rows of a summary of second order: mean y² - 2(aᵀyφ + by) + aᵀGa + 2b aᵀφ + b²."""
    means = means_of(summary)
    if means.gram is None or means.noise is not None:
        return None
    a, b = model.coef_matrix_[:, target], float(model.predictor_.intercept[target])
    cross = float(means.phi_y[:, target] @ a) + b * float(means.y[target])
    square = float(means.yy[target]) - 2 * cross + float(a @ means.gram @ a) + 2 * b * float(means.phi @ a) + b * b
    return math.sqrt(max(square, 0.0))


def show_sensitivity(known: ReportMaterial) -> Section:
    """Write the section that leaves out each site in turn."""
    section = Section("sensitivity", "Sensitivity to each site")
    result = known.sensitivity
    if isinstance(result, str):
        return section.lack(result)
    most = max(result.sites, key=lambda one: one.change)
    spread = known.label_spread
    share = f", {most.change / spread:.1%} of the standard deviation of {known.facts.label}" if spread else ""
    section.say(
        "The model was refitted without each site by adding up the summaries of the others; no rows were needed. "
        f"Predictions depend most on {most.name}: without it they change by {format_number(most.change)} (root mean "
        f"square){share}."
    )
    if known.facts.rounds and known.facts.rounds > 1:
        section.lack(
            f"This shows the first of {known.facts.rounds} rounds; later ones would need new answers from the sites."
        )
    figures = [_changes(result)]
    known_errors = [(one, one.error_with, one.error_without) for one in result.sites if one.error_without is not None]
    if known_errors:
        worse = max(known_errors, key=lambda item: (item[2] or 0) - (item[1] or 0))
        section.say(
            f"A model fitted without {worse[0].name} has an error of {format_number(worse[2] or 0)} there; "
            f"fitted with it, {format_number(worse[1] or 0)}. No other site gains more from taking part."
        )
        figures.append(_strangers(known.facts.label, result))
    else:
        section.lack(
            "The error at a site of a model that has not seen it can be computed only from second-order summaries "
            "without noise."
        )
    return section.add(pair(*figures))


def _changes(result: Sensitivity) -> str:
    shown = sorted(result.sites, key=lambda one: -one.change)[:MOST_SITES]
    changes, rows = [s.change for s in shown], range(len(shown))
    axis = Axis.over("change of predictions, root mean square", changes, zero=True)
    chart = row_chart(axis, [s.name for s in shown])
    chart.spans(np.zeros(len(shown)), changes, rows, kind="stem")
    words = [f"without {s.name}: {format_number(s.change)}, λ = {format_number(s.lam)}" for s in shown]
    chart.dots(changes, rows, words, kind="ghost", radius=4)
    table = [
        [
            s.name,
            f"{s.n_rows:,}",
            format_number(s.change),
            format_number(s.lam),
            *map(write_or_unknown, (s.error_with, s.error_without)),
        ]
        for s in result.sites
    ]
    header = ["without", "rows", "change of predictions", "λ", "error there, with it", "error there, without it"]
    return figure("changes", chart, "The change of all predictions when a site is left out", header, table)


def _strangers(label: str, result: Sensitivity) -> str:
    shown = sorted(result.sites, key=lambda one: -(one.error_without or 0.0))[:MOST_SITES]
    inside, outside = [s.error_with or 0.0 for s in shown], [s.error_without or 0.0 for s in shown]
    chart = row_chart(Axis.over(f"root mean square error of {label}", inside, outside), [s.name for s in shown])
    rows = range(len(shown))
    chart.spans(inside, outside, rows, kind="link")
    chart.dots(
        inside, rows, [f"{s.name}, with its rows: {format_number(e)}" for s, e in zip(shown, inside)], radius=4.5
    )
    words = [f"{s.name}, without its rows: {format_number(e)}" for s, e in zip(shown, outside)]
    chart.dots(outside, rows, words, kind="second", radius=4.5)
    table = [[s.name, format_number(a), format_number(b)] for s, a, b in zip(shown, inside, outside)]
    key = ["model of all sites", "model that has not seen the site"]
    header = ["site", "with it", "without it"]
    return figure("strangers", chart, "The error at each site's own rows", header, table, key)
