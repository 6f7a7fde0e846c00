"""``unpooled fit``: from sums to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import models
from .._base import declared
from .._base.kinds import kind_of
from .._base.text import format_size
from ..bases import Basis
from ..estimators import SummaryRegressor
from ..summaries import Summary
from .app import app, command
from .console import FILE, USAGE, BasisFile, Out, Output, Problem, check_output, choice, number_or
from .inspect import of_floor
from .merge import added, basis_for, model_for

FILTERS = kind_of(SummaryRegressor, "filter").choices
STEPS = kind_of(SummaryRegressor, "steps").choices
CRITERIA = {
    "gcv": "generalised cross-validation, from the summary alone",
    "risk": "an estimate of the risk, from the summary alone",
    "loo": "leave-one-out errors, from the sites' scores",
}
AROUND = 4  # λ shown on either side of the chosen one


@command(app)
def fit(
    out: Out,
    summaries: Annotated[list[Path], typer.Argument(help="Summaries; they are added up.", metavar="SUMMARIES")],
    output: Output,
    basis: BasisFile = None,
    model: Annotated[Path | None, typer.Option(help="The model that residuals are of. Else it is looked for.")] = None,
    lam: Annotated[str | None, typer.Option(help="auto (the default), or a positive number.")] = None,
    filter: Annotated[str | None, typer.Option(help=f"{', '.join(FILTERS)}.")] = None,
    center: Annotated[bool | None, typer.Option(help="Fit an intercept; on if nothing is said.")] = None,
    scores: Annotated[list[Path] | None, typer.Option(help="The sites' scores: λ by leave-one-out.")] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="Also write the models of every λ, for sites to score.")
    ] = None,
    ridge: Annotated[bool | None, typer.Option(help="Rounds converge to ridge and not to least squares.")] = None,
    steps: Annotated[str | None, typer.Option(help="How rounds step: plain, or conjugate (far fewer).")] = None,
) -> dict[str, Any]:
    """Fit a model to summaries: LESS at order 1, ridge regression on the pooled rows at order 2.

    A summary of residuals takes the model it is of one round further; the choices of its first round stay.
    """
    read = [*summaries, *(scores or []), *[path for path in (basis, model) if path is not None]]
    check_output(output, read)
    if candidates is not None:
        check_output(candidates, [*read, output])
    total: Summary = added(summaries, "summary")
    what = str(summaries[0]) if len(summaries) == 1 else "the sum of the summaries"
    folders = [*(path.parent for path in summaries), output.parent]
    shared = basis_for(total.digest, basis, folders, what)
    choices = {"lam": lam, "filter": filter, "center": center, "ridge": ridge, "steps": steps}
    if total.contents.model is not None:
        if scores or candidates is not None:
            raise Problem("--scores and --candidates are for the first round, and these are residuals", USAGE)
        found, source = model_for(total.contents.model, model, folders, what)
        _check_choices(found, source, choices)
        with out.working("one more round"):
            found.update(total, basis=shared)
    else:
        if model is not None:
            raise Problem(f"--model goes with summaries of residuals, and {what} is of labels", USAGE)
        found = _regressor(choices, bool(scores))
        scored = added(scores, "scores") if scores else None
        if scored is not None and scored.n_rows != total.n_rows:
            out.warn(f"the scores are of {scored.n_rows} rows, and the summaries of {total.n_rows}: is a site missing?")
        with out.working("fitting"):
            _fit(found, total, scored, shared)
    models.save(found, output)
    if candidates is not None:
        found.candidates(basis=shared).save(candidates)
    return _report(out, found, total, output, candidates)


def _regressor(choices: dict[str, Any], scored: bool) -> SummaryRegressor:
    lam = number_or("auto", "--lam", choices["lam"] or "auto")
    if scored and lam != "auto":
        raise Problem("--scores choose λ: leave --lam out", USAGE)
    return SummaryRegressor(
        choice("--filter", choices["filter"] or "tikhonov", FILTERS),
        lam,
        True if choices["center"] is None else choices["center"],
        ridge=bool(choices["ridge"]),
        steps=choice("--steps", choices["steps"] or "plain", STEPS),
    )


def _fit(model: SummaryRegressor, total: Summary, scores: Any, basis: Basis) -> None:
    try:
        model.fit_summary(total, scores=scores, basis=basis)
    except ValueError as error:
        raise Problem.of(error, FILE if scores is not None else USAGE) from None


def _check_choices(model: Any, path: Path, choices: dict[str, Any]) -> None:
    """Later rounds go on as the first began."""
    if not isinstance(model, SummaryRegressor):
        raise Problem(f"{path} is a {type(model).__name__}: only models of `unpooled fit` go on in rounds", FILE)
    own = {"ridge": bool(model.ridge), "steps": model.steps}
    for name, value in choices.items():
        if value is not None and own.get(name) != value:
            raise Problem(f"--{name} was decided in the first round, whose model is {path}: leave it out", USAGE)


def _report(out: Out, model: Any, total: Summary, output: Path, candidates: Path | None) -> dict[str, Any]:
    path = model.facts().path
    first = model.n_rounds_ == 1
    result: dict[str, Any] = {
        "model": output,
        "digest": declared.digest_of(model),
        "basis": model.basis_digest_,
        "targets": list(model.targets_),
        "n_rows": total.n_rows,
        "order": total.order,
        "rounds": model.n_rounds_,
        "lam": model.lam_,
        "intercept": model.intercept_,
        "n_features_rule": model.n_features_rule_,
        "floor": vars(model.floor_),
        "candidates": candidates,
        "privacy": None if model.privacy_ is None else model.privacy_.to_dict(),
    }
    shown: list[tuple[str, Any]] = [
        ("rows", total.n_rows),
        ("order", total.order),
        ("features", f"{len(model.coef_matrix_)} ({model.n_features_rule_} above κ²λ)"),
        ("λ", f"{model.lam_:.4g}"),
    ]
    if path is not None:
        scored = path.criterion.reshape(len(path), -1).mean(axis=1)
        at = int(path.index[0])
        result["path"] = {
            "criterion_name": path.criterion_name,
            "lam": path.lam,
            "criterion": path.criterion,
            "df": path.df,
            "chosen": at,
            "at_edge": path.at_edge,
        }
        shown += [("chosen by", CRITERIA.get(path.criterion_name, path.criterion_name))]
        shown += [("degrees of freedom", f"{path.df[at]:.1f}")]
        if first:
            shown += [("expected error", f"{np.sqrt(max(float(scored[at]), 0.0)):.4g} (root mean square, a new row)")]
    if not first:
        result["left"] = left = _left(model)
        shown += [("round", model.n_rounds_), ("left to learn", f"{left:.2g} of what the first round saw")]
        if total.loss_sum is not None:
            result["mean_loss"] = loss = total.loss_sum / total.weight
            shown += [("mean loss before it", ", ".join(f"{value:.6g}" for value in loss))]
    out.facts(f"{output}: {', '.join(model.targets_) or 'the label'}", shown)
    if path is not None and first:
        _show_path(out, path, scored, at)
        _warn_of_edge(out, path, at)
    out.say(of_floor(model.floor_, model.summary_.order, model.n_rounds_))
    if model.privacy_ is not None:
        out.say(str(model.privacy_))
    written = [output] if candidates is None else [output, candidates]
    out.say("; ".join(f"{file}: {format_size(file.stat().st_size)}" for file in written))
    return result


def _left(model: Any) -> float:
    """√(rᵀPr) beside what it was at first."""
    now, first = model.rounds_["rounds.product"], model.rounds_["rounds.first"]
    ratio = np.divide(now, first, out=np.zeros_like(now), where=first > 0)
    return float(np.sqrt(np.max(ratio, initial=0.0)))


def _show_path(out: Out, path: Any, scored: np.ndarray, at: int) -> None:
    order = np.argsort(-path.lam)
    place = int(np.flatnonzero(order == at)[0])
    near = [int(i) for i in order[max(place - AROUND, 0) : place + AROUND + 1]]
    out.table(
        f"λ by {path.criterion_name}",
        ["λ", path.criterion_name, "degrees of freedom", ""],
        [[f"{path.lam[i]:.3g}", f"{scored[i]:.6g}", f"{path.df[i]:.1f}", "chosen" if i == at else ""] for i in near],
    )


def _warn_of_edge(out: Out, path: Any, at: int) -> None:
    if not path.at_edge:
        return
    if path.lam[at] == path.lam.max():
        out.warn("λ is the largest there was to choose from: the inputs may say little about the label, in this basis")
    else:
        out.warn(
            "λ is the smallest there was to choose from: the labels have hardly any noise, or the basis is too small "
            "or too smooth for them; a basis of more features, or of a shorter length scale, may do better"
        )
