"""The sensitivity of a fit to each site, by leaving one site out after the other.

Nothing but the sites' summaries is needed: those of the others are added up, and the model is fitted to the sum.
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
from .sites import MOST_SITES, Sent, or_unknown, total_of
from .svg import Axis, figure, row_chart

if TYPE_CHECKING:
    from .writing import Gathered


@dataclass(frozen=True)
class Without:
    """The model that one site's rows have no part in, beside the one that all have.

    Attributes
    ----------
    lam : the λ it chose
    change : root mean square over all rows of what its predictions differ by, in the unit of the label. At first
        order, where the rows' covariance is unknown, over the public sample
    error_with, error_without : root mean square errors at the rows of that site, of the model that has learned from
        them and of the one that has not. From second order, which has all that takes; None otherwise
    """

    name: str
    n_rows: int
    lam: float
    change: float
    error_with: float | None
    error_without: float | None


@dataclass(frozen=True)
class Sensitivity:
    """All sites left out in turn; ``reference`` is the model of them all."""

    reference: Any
    sites: list[Without]
    total: Summary


def leave_one_out(model: Any, sent: list[Sent], basis: Basis | None = None, target: int = 0) -> Sensitivity:
    """Refits without each site, by adding up the summaries of the others.

    They are made as the model was made, λ chosen anew; where sites had scored candidates for it, which they would have
    to do again, λ stays.
    """
    if not isinstance(model, SummaryRegressor):
        raise ValueError(f"leaving sites out takes a model of summaries, and this is a {type(model).__name__}")
    check_fitted(model)
    if len(sent) < 2:
        raise ValueError("there is only one summary: leaving it out leaves nothing")
    if sent[0].residual:
        raise ValueError("these are summaries of residuals: give those of the labels, of the first round")
    total = total_of(sent)
    basis = total.basis(basis)
    parameters = model.get_params(deep=False)
    facts = model.facts(target)
    if facts.path is not None and facts.path.criterion_name == "loo":
        parameters["lam"] = facts.lam
    reference = _fitted(parameters, total, basis)
    found = []
    for one, others in zip(sent, _without_each([item.summary for item in sent])):
        refit = _fitted(parameters, others, basis)
        found.append(
            Without(
                one.name,
                one.summary.n_rows,
                refit.lam_,
                _apart(reference, refit, total, basis, target),
                error_at(reference, one.summary, target),
                error_at(refit, one.summary, target),
            )
        )
    return Sensitivity(reference, found, total)


def _without_each(summaries: list[Summary]) -> list[Summary]:
    """For each the sum of all others, in as many additions as there are summaries, three times over.

    What is left out is never taken off a sum: sums are added in twice double precision, in any order to the same bits.
    """
    before = [None, *accumulate(summaries[:-1])]
    after = [*list(accumulate(reversed(summaries[1:])))[::-1], None]
    return [b + a if a is not None and b is not None else a or b for b, a in zip(before, after)]  # type: ignore[misc]


def _fitted(parameters: dict[str, Any], summary: Summary, basis: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the floor: the page has it
        return SummaryRegressor(**parameters).fit_summary(summary, basis=basis)


def _apart(one: Any, other: Any, total: Summary, basis: Any, target: int) -> float:
    """√ E (f - g)², E over all rows, or over the public sample."""
    a = (one.coef_matrix_ - other.coef_matrix_)[:, target]
    b = float((one.predictor_.intercept - other.predictor_.intercept)[target])
    means = means_of(total)
    if means.gram is not None and means.noise is None:
        square = float(a @ means.gram @ a) + 2 * b * float(means.phi @ a) + b * b
    else:
        square = float(basis.eigenvalues_ @ (a * a)) + 2 * b * float(basis.mean_ @ a) + b * b
    return math.sqrt(max(square, 0.0))


def error_at(model: Any, summary: Summary, target: int = 0) -> float | None:
    """√ mean (y - f(x))² over the rows of a summary of second order: mean y² - 2(aᵀyφ + by) + aᵀGa + 2b aᵀφ + b²."""
    means = means_of(summary)
    if means.gram is None or means.noise is not None:
        return None
    a, b = model.coef_matrix_[:, target], float(model.predictor_.intercept[target])
    cross = float(means.phi_y[:, target] @ a) + b * float(means.y[target])
    square = float(means.yy[target]) - 2 * cross + float(a @ means.gram @ a) + 2 * b * float(means.phi @ a) + b * b
    return math.sqrt(max(square, 0.0))


def sensitivity(known: Gathered) -> Section:
    """Each site left out in turn."""
    section = Section("sensitivity", "Sensitivity to each site")
    found = known.sensitivity
    if isinstance(found, str):
        return section.lack(found)
    most = max(found.sites, key=lambda one: one.change)
    spread = known.label_spread
    share = f", {most.change / spread:.1%} of the standard deviation of {known.facts.label}" if spread else ""
    section.say(
        "The model was fitted anew without each site, by adding up the summaries of the others: no row was needed for "
        f"it. Predictions depend most on {most.name}: without it they move by {format_number(most.change)} in root "
        f"mean "
        f"square{share}."
    )
    if known.facts.rounds and known.facts.rounds > 1:
        section.lack(f"This is the first of {known.facts.rounds} rounds; later ones would have to be asked again.")
    figures = [_changes(found)]
    known_errors = [(one, one.error_with, one.error_without) for one in found.sites if one.error_without is not None]
    if known_errors:
        worse = max(known_errors, key=lambda item: (item[2] or 0) - (item[1] or 0))
        section.say(
            f"A model that has never seen {worse[0].name} is off by {format_number(worse[2] or 0)} there; the one "
            f"that has is "
            f"off by {format_number(worse[1] or 0)}. No other site gains more from taking part."
        )
        figures.append(_strangers(known.facts.label, found))
    else:
        section.lack(
            "How well a model that has not seen a site predicts there is told by summaries of second order without "
            "noise, and these are others."
        )
    return section.add(pair(*figures))


def _changes(found: Sensitivity) -> str:
    shown = sorted(found.sites, key=lambda one: -one.change)[:MOST_SITES]
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
            *map(or_unknown, (s.error_with, s.error_without)),
        ]
        for s in found.sites
    ]
    header = ["without", "rows", "predictions move by", "λ", "error there, with it", "error there, without it"]
    return figure("changes", chart, "How far all predictions move when a site is left out", header, table)


def _strangers(label: str, found: Sensitivity) -> str:
    shown = sorted(found.sites, key=lambda one: -(one.error_without or 0.0))[:MOST_SITES]
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
