"""Facts about sites: what each one sent, and what the fit owes to it by leave-one-site-out from the summaries alone."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from .._base import files
from .._base.checks import check_fitted
from .._base.text import shown
from ..estimators import SummaryRegressor
from ..estimators.from_sums import means_of
from ..summaries.contents import numbers, to_arrays
from ..summaries.summary import Summary


@dataclass(frozen=True)
class Sent:
    """One summary, who sent it, and the bytes of its file."""

    name: str
    summary: Summary
    bytes: int | None = None

    @property
    def numbers(self) -> int:
        """How many numbers are in it."""
        return numbers(self.summary)

    @property
    def by_itself(self) -> bool:
        """Whether it may be looked at alone: a share of noise protects nobody before all are added up."""
        return self.summary.privacy is None or self.summary.privacy.parties == 1

    @property
    def residual(self) -> bool:
        """Whether it is of the residuals of a model, and not of labels."""
        return self.summary.contents.residual


def opened(given: Any) -> list[Sent]:
    """Summaries by the names of their sites: a mapping, summaries, or paths of files, which name them."""
    if isinstance(given, (Summary, str, os.PathLike)):
        given = [given]
    named = given.items() if isinstance(given, Mapping) else _named(list(given))
    found: list[Sent] = []
    seen: dict[str, str] = {}
    for name, one in named:
        summary, size = (one, None) if isinstance(one, Summary) else _read(one)
        digest = files.digest(summary.n_rows, to_arrays(summary.sums))
        if digest in seen:
            raise ValueError(f"summaries has {seen[digest]} and {name}, which are the same: rows would count twice")
        seen[digest] = str(name)
        found.append(Sent(str(name), summary, size))
    if not found:
        raise ValueError("summaries is empty: give the summary of every site, or leave it out")
    return found


def _read(path: Any) -> tuple[Summary, int]:
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"summaries must hold Summary objects or paths of their files, got {shown(path)}")
    return Summary.load(path), Path(path).stat().st_size


def _named(given: list[Any]) -> Iterable[tuple[str, Any]]:
    """Files by their stems, with their folders where stems are alike; others by their number."""
    paths = [Path(one) if isinstance(one, (str, os.PathLike)) else None for one in given]
    stems = [path.stem for path in paths if path is not None]
    for number, (one, path) in enumerate(zip(given, paths), start=1):
        if path is None:
            yield f"site {number}", one
        elif stems.count(path.stem) == 1:
            yield path.stem, one
        else:
            yield f"{path.parent.name}/{path.stem}", one


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


def total_of(sent: list[Sent]) -> Summary:
    """The sum; an error names the two that do not go together."""
    total = sent[0].summary
    for one in sent[1:]:
        try:
            total = total + one.summary
        except ValueError as error:
            reason = str(error).partition("add up: ")[2] or str(error)
            raise ValueError(f"{sent[0].name} and {one.name} do not add up: {reason}") from None
    return total


def leave_one_out(model: Any, sent: list[Sent], basis: Any = None, target: int = 0) -> Sensitivity:
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
    if getattr(getattr(model, "path_", None), "criterion_name", "") == "loo":
        parameters["lam"] = model.lam_
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


@dataclass(frozen=True)
class Labels:
    """What a summary says of a site's labels and inputs."""

    mean: float
    spread: float | None
    unlike: float | None  #: ‖mean φ here - mean φ elsewhere‖, beside what chance would make of it
    chance: float | None


def labels_of(sent: list[Sent], basis: Any = None, target: int = 0) -> list[Labels | None]:
    """For each site; None where a summary may not be looked at by itself, or is of residuals."""
    means = [means_of(one.summary) for one in sent]
    sums = np.asarray([m.weight * m.phi for m in means])
    weights = np.asarray([m.weight for m in means])
    found: list[Labels | None] = []
    for one, mean, own in zip(sent, means, sums):
        if not one.by_itself or one.residual or not mean.centred:
            found.append(None)
            continue
        spread = mean.yy[target] - mean.y[target] ** 2 if mean.noise is None else None
        rest, apart, chance = weights.sum() - mean.weight, None, None
        if len(sent) > 1 and basis is not None and mean.noise is None:
            apart = float(np.linalg.norm(mean.phi - (sums.sum(axis=0) - own) / rest))
            chance = math.sqrt(basis.kappa_sq_ * (1 / mean.n + 1 / rest))
        spread = None if spread is None else math.sqrt(max(float(spread), 0.0))
        found.append(Labels(float(mean.y[target]), spread, apart, chance))
    return found


def spread_of(summary: Summary, target: int = 0) -> float | None:
    """The standard deviation of the label over all rows; None where noise hides it."""
    means = means_of(summary)
    if means.noise is not None or not means.centred or summary.contents.residual:
        return None
    return math.sqrt(max(float(means.yy[target] - means.y[target] ** 2), 0.0))
