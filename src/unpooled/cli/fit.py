"""``unpooled merge`` and ``unpooled fit``: from the sums of sites to a model.

Files are added up in an order that does not depend on how they are listed, and what belongs to a file is found by its
digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import bases, models
from .._base import declared, files
from .._base.checks import NotAddable
from .._base.files import FileError
from .._base.kinds import kind_of
from .._base.progress import Progress
from .._base.text import format_size, quote_unless_name
from ..bases import Basis
from ..estimators import SummaryRegressor
from ..summaries import Scores, Summary
from .app import app, command
from .console import FILE, USAGE, BasisFile, Out, Output, Problem, check_choice, check_output, parse_number
from .inspect import describe_floor, describe_scores

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
    summaries: Annotated[list[Path], typer.Argument(help="Summaries, which are added up.", metavar="SUMMARIES...")],
    output: Output,
    basis: BasisFile = None,
    model: Annotated[
        Path | None, typer.Option(help="The model whose residuals were summed. Without it, it is searched for nearby.")
    ] = None,
    lam: Annotated[str | None, typer.Option(help="auto (the default), or a positive number.")] = None,
    filter: Annotated[str | None, typer.Option(help=f"{', '.join(FILTERS)}.")] = None,
    fit_intercept: Annotated[bool | None, typer.Option(help="Fit an intercept, which is the default.")] = None,
    scores: Annotated[list[Path] | None, typer.Option(help="The sites' scores, to choose λ by leave-one-out.")] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="Also write the models of all λ, for the sites to score.")
    ] = None,
    ridge: Annotated[
        bool | None, typer.Option(help="Let rounds converge to ridge regression, not to least squares.")
    ] = None,
    steps: Annotated[str | None, typer.Option(help="The steps of rounds: plain, or conjugate (far fewer).")] = None,
) -> dict[str, Any]:
    """Fit a model to summaries: LESS at order 1, ridge regression on the pooled rows at order 2.

    Summaries of residuals take their model one round further, with the choices of its first round.
    """
    read = [*summaries, *(scores or []), *[path for path in (basis, model) if path is not None]]
    check_output(output, read)
    if candidates is not None:
        check_output(candidates, [*read, output])
    total: Summary = _add_files(summaries, "summary")
    what = str(summaries[0]) if len(summaries) == 1 else "the sum of the summaries"
    folders = [*(path.parent for path in summaries), output.parent]
    shared = find_basis(total.digest, basis, folders, what)
    choices = {"lam": lam, "filter": filter, "fit_intercept": fit_intercept, "ridge": ridge, "steps": steps}
    if total.contents.model is not None:
        if scores or candidates is not None:
            raise Problem(
                "--scores and --candidates belong to the first round, but these are summaries of residuals", USAGE
            )
        fitted, source = _find_model(total.contents.model, model, folders, what)
        _check_first_round(fitted, source, choices)
        with out.working("one more round"):
            fitted.update(total, basis=shared)
    else:
        if model is not None:
            raise Problem(f"--model belongs to summaries of residuals, but {what} is a summary of labels", USAGE)
        fitted = _regressor(choices, bool(scores))
        scored = _add_files(scores, "scores") if scores else None
        if scored is not None and scored.n_rows != total.n_rows:
            out.warn(f"the scores are of {scored.n_rows} rows, and the summaries of {total.n_rows}: is a site missing?")
        with out.working("fitting"):
            _fit(fitted, total, scored, shared)
    models.save(fitted, output)
    if candidates is not None:
        fitted.candidates(basis=shared).save(candidates)
    return _report(out, fitted, total, output, candidates)


def _regressor(choices: dict[str, Any], scored: bool) -> SummaryRegressor:
    lam = parse_number("auto", "--lam", choices["lam"] or "auto")
    if scored and lam != "auto":
        raise Problem("--scores choose λ: leave --lam out", USAGE)
    return SummaryRegressor(
        check_choice("--filter", choices["filter"] or "tikhonov", FILTERS),
        lam,
        choices["fit_intercept"] is not False,
        ridge=bool(choices["ridge"]),
        steps=check_choice("--steps", choices["steps"] or "plain", STEPS),
    )


def _fit(model: SummaryRegressor, total: Summary, scores: Any, basis: Basis) -> None:
    try:
        model.fit_summary(total, scores=scores, basis=basis)
    except ValueError as error:
        raise Problem.of(error, FILE if scores is not None else USAGE) from None


def _check_first_round(model: Any, path: Path, choices: dict[str, Any]) -> None:
    """Refuse options that were decided in the first round, unless they repeat its decision."""
    if not isinstance(model, SummaryRegressor):
        raise Problem(
            f"{path} is a {type(model).__name__}: only models of `unpooled fit` can take further rounds", FILE
        )
    own = {"ridge": bool(model.ridge), "steps": model.steps}
    for name, value in choices.items():
        if value is not None and own.get(name) != value:
            option = f"--{name.replace('_', '-')}"
            raise Problem(f"{option} was decided in the first round, whose model is {path}: leave it out", USAGE)


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
        result["left"] = left = _remaining_share(model)
        shown += [("round", model.n_rounds_), ("left to learn", f"{left:.2g} of what the first round found")]
        if total.loss_sum is not None:
            result["mean_loss"] = loss = total.loss_sum / total.weight
            shown += [("mean loss before it", ", ".join(f"{value:.6g}" for value in loss))]
    out.facts(f"{output}: {', '.join(model.targets_) or 'the label'}", shown)
    if path is not None and first:
        _show_path(out, path, scored, at)
        _warn_of_edge(out, path, at)
    out.say(describe_floor(model.floor_, model.summary_.order, model.n_rounds_))
    if model.privacy_ is not None:
        out.say(str(model.privacy_))
    written = [output] if candidates is None else [output, candidates]
    out.say("; ".join(f"{file}: {format_size(file.stat().st_size)}" for file in written))
    return result


def _remaining_share(model: Any) -> float:
    """√(rᵀPr) as a share of its value in the first round."""
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
        out.warn("the chosen λ is the largest that was tried: in this basis, the inputs may say little about the label")
    else:
        out.warn(
            "the chosen λ is the smallest that was tried: either the labels have hardly any noise, or the basis is too "
            "small or too smooth for them; a basis with more features or a shorter length scale may do better"
        )


KINDS: dict[str, Any] = {"summary": Summary, "scores": Scores}


def _read_kind(path: Path) -> str:
    """Read whether a file holds a summary or scores."""
    kind = str(files.read_any(path)[0].get("kind"))
    if kind not in KINDS:
        raise Problem(f"{path} holds a {quote_unless_name(kind)}, but only summaries or scores can be added up", FILE)
    return kind


def _add_files(paths: Sequence[Path], kind: str) -> Any:
    """Add files up; an error names the two that do not belong together."""
    total, first = None, None
    with Progress(len(paths), "adding", verbose=1) as progress:
        for path in _sort_by_content(paths):
            one = KINDS[kind].load(path)
            if total is None:
                total, first = one, path
            else:
                try:
                    total = total + one
                except NotAddable as error:
                    raise Problem(f"{first} and {path} cannot be added up: {error.reason}", FILE) from None
            progress.advance()
    return total


def _sort_by_content(paths: Sequence[Path]) -> list[Path]:
    """Sort files by content, so that names and order do not change a bit of the sum; refuse to count a file twice."""
    seen: dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist, or is not a file")
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest in seen:
            raise Problem(f"{seen[digest]} and {path} are the same file: its rows would count twice", FILE)
        seen[digest] = path
    return [seen[digest] for digest in sorted(seen)]


@command(app)
def merge(
    out: Out,
    sources: Annotated[list[Path], typer.Argument(help="Summaries, or scores, in any order.", metavar="FILES...")],
    output: Output,
) -> dict[str, Any]:
    """Add up summaries, or scores, into what one site with all the rows would have sent."""
    check_output(output, sources)
    kind = _read_kind(sources[0])
    total = _add_files(sources, kind)
    total.save(output)
    out.say(total.describe() if kind == "summary" else describe_scores(total))
    out.say()
    out.say(f"{len(sources)} files added up; {output}: {format_size(output.stat().st_size)}")
    return {"file": output, "kind": kind, "files": len(sources), "n_rows": total.n_rows}


def find_basis(digest: str, given: Path | None, folders: Iterable[Path], what: str) -> Basis:
    """Load the basis with a digest: the given one, or one that lies in one of the folders."""
    if given is not None:
        basis = bases.load(given)
        if basis.digest != digest:
            raise Problem(
                f"{what} belongs to the basis {digest[:12]}, but {given} is the basis {basis.digest[:12]}", FILE
            )
        return basis
    places = _list_folders(folders)
    nearby = bases.find(digest, places)
    if nearby is None:
        raise Problem(
            f"the basis {digest[:12]} of {what} was not found among the .basis files in {_join_folders(places)}: "
            "give it with --basis",
            FILE,
        )
    return nearby


def _find_model(digest: str, given: Path | None, folders: Iterable[Path], what: str) -> tuple[Any, Path]:
    """Load the model with a digest, and say from which file."""
    if given is not None:
        model = models.load(given)
        if (own := declared.digest_of(model)) != digest:
            raise Problem(
                f"{what} belongs to the residuals of model {digest[:12]}, but {given} is model {own[:12]}", FILE
            )
        return model, given
    places = _list_folders(folders)
    for path in [path for folder in places for path in sorted(folder.glob("*.model"))]:
        try:
            model = models.load(path)
        except (FileError, OSError):
            continue
        if declared.digest_of(model) == digest:
            return model, path
    raise Problem(
        f"the model {digest[:12]}, whose residuals {what} belongs to, was not found among the .model files in "
        f"{_join_folders(places)}: give it with --model",
        FILE,
    )


def _list_folders(folders: Iterable[Path]) -> list[Path]:
    """List each folder once, and the working directory."""
    places: dict[Path, Path] = {}
    for folder in [*folders, Path()]:
        places.setdefault(folder.absolute().resolve(), folder)
    return list(places.values())


def _join_folders(places: Sequence[Path]) -> str:
    return ", ".join("this folder" if place == Path() else str(place) for place in places)
