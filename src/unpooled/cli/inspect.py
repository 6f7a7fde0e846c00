"""``unpooled inspect``: what is in a file, whatever kind it is.

Models, candidates and scores are described in words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import bases, models
from .._base import declared, files
from .._base.text import format_size
from .._solvers.span.moments import Mismatch
from ..estimators.facts import FittedModel
from ..filters import as_filter, to_spec
from ..summaries import Candidates, Scores, Summary
from .app import app, command
from .console import FILE, Out, Problem


def of_model(model: FittedModel) -> str:
    """The model, and what it was learned from."""
    facts = model.facts()
    columns = ", ".join(facts.inputs)
    lines = [f"A {facts.name} of {columns or f'{facts.n_inputs} inputs without names'}."]
    if facts.targets:
        lines.append(f"It predicts {', '.join(facts.targets)}.")
    if facts.basis_digest is not None:
        basis = f"In the basis {facts.basis_digest[:12]}"
        if facts.plan is not None:
            lines += [f"{basis}.", *str(facts.plan).splitlines()]
        elif facts.n_sites is not None:
            average = f"the average of what {facts.n_sites} sites have fitted to their own rows"
            lines.append(f"{basis}, with λ = {facts.lam:.3g}: {average}.")
        else:
            rounds = "" if facts.rounds == 1 else f" and {facts.rounds} rounds"
            filter_ = to_spec(as_filter(facts.filter))["filter"]
            lines.append(f"{basis}, with λ = {facts.lam:.3g}, the filter {filter_}, the loss {facts.loss}{rounds}.")
    summary = facts.summary
    if summary is not None:
        lines.append(
            f"It also holds the sum it was learned from: order {summary.order}, {summary.n_rows} rows. Who has the "
            "model has that sum."
        )
    if facts.privacy is not None:
        lines.append(str(facts.privacy))
    if facts.floor is not None:
        lines.append(of_floor(facts.floor, 1 if summary is None else summary.order, facts.rounds or 1))
    return "\n".join(lines)


def of_floor(floor: Mismatch, order: int, rounds: int = 1) -> str:
    """The cost of the public sample, in a sentence."""
    public = f"{floor.n_public} public rows for {floor.n:.0f}"
    if order == 2:
        return f"{public}: at order 1 that would put predictions off by about {floor.error:.3g}, at order 2 by nothing."
    later = "" if rounds == 1 else ", which rounds of residuals take away"
    return f"{public}: for that reason alone predictions of one round are off by about {floor.error:.3g}{later}."


def of_candidates(candidates: Candidates) -> str:
    """What goes out to sites to be scored."""
    n_lam, n_features, n_targets = candidates.coef.shape
    label = ", ".join(candidates.targets) or ("the label" if n_targets == 1 else f"{n_targets} labels")
    order = "2" if candidates.same_sample else "1"
    return "\n".join(
        [
            f"{n_lam} candidate models for {label}, one for each λ from {candidates.lam.max():.2g} to "
            f"{candidates.lam.min():.2g}.",
            f"In the basis {candidates.basis[:12]} with {n_features} features, from summaries of order {order}.",
            "A site answers with the sum of the squared errors of each, with its row left out of the model.",
        ]
    )


def of_scores(scores: Scores) -> str:
    """What a site answers to candidates."""
    n_lam, n_targets = scores.sums["square"].high.shape
    labels = "" if n_targets == 1 else f" and each of {n_targets} labels"
    return "\n".join(
        [
            f"Scores of the candidates {scores.candidates[:12]} on {scores.n_rows} rows, without any row.",
            "",
            f"{'rows':>12}  {1:>9}  the number of rows: {scores.n_rows}",
            f"{'weight':>12}  {1:>9}  the sum of the weights: {float(scores.sums['weight'].high[0]):g}",
            f"{'square':>12}  {n_lam * n_targets:>9}  for each λ{labels}: the sum over the rows of the squared error",
            "",
            f"{2 + n_lam * n_targets} numbers in all. No noise was added: it is not differentially private.",
        ]
    )


Found = tuple[str, str]  # words and digest


def _summary(path: Path) -> Found:
    found = Summary.load(path)
    return found.describe(), ""


def _basis(path: Path) -> Found:
    found = bases.load(path)
    return found.describe(), found.digest


def _model(path: Path) -> Found:
    found = models.load(path)
    return of_model(found), declared.digest_of(found)


def _candidates(path: Path) -> Found:
    found = Candidates.load(path)
    return of_candidates(found), found.digest


def _scores(path: Path) -> Found:
    return of_scores(Scores.load(path)), ""


def _totals(path: Path) -> Found:
    header, _ = files.read(path, "totals")
    words = f"Sums over {header.get('n_rows', 'some')} rows of all sites of a study, without any row."
    return words, str(header.get("statistic"))


KINDS: dict[str, Callable[[Path], Found]] = {
    "summary": _summary,
    "basis": _basis,
    "model": _model,
    "candidates": _candidates,
    "scores": _scores,
    "totals": _totals,
}


@command(app)
def inspect(
    out: Out, file: Annotated[Path, typer.Argument(help="A summary, basis, model, candidates, scores or totals.")]
) -> dict[str, Any]:
    """Say what is in a file: in words, then its header and its arrays."""
    header, arrays = files.read_any(file)
    kind = str(header.get("kind"))
    if kind not in KINDS:
        raise Problem(f"{file} holds a {kind}, which this version of unpooled does not know", FILE)
    words, digest = KINDS[kind](file)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    out.say(words)
    out.say()
    shown = [("file", f"{file}, {format_size(file.stat().st_size)}"), ("SHA-256 of the file", sha256)]
    shown += [("digest", digest)] if digest else []
    out.facts(
        f"Header of this {kind}" if kind not in ("candidates", "scores", "totals") else f"Header of these {kind}",
        shown + [(name, _short(value)) for name, value in header.items() if name not in ("params", "kernel")],
    )
    out.table(
        "Arrays",
        ["name", "shape", "type"],
        [[name, " × ".join(map(str, a.shape)) or "1", str(a.dtype)] for name, a in sorted(arrays.items())],
    )
    return {
        "file": file,
        "kind": kind,
        "digest": digest or None,
        "sha256": sha256,
        "bytes": file.stat().st_size,
        "description": words,
        "header": header,
        "arrays": {name: {"shape": list(a.shape), "dtype": a.dtype.str} for name, a in sorted(arrays.items())},
    }


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    text = "none" if value is None else str(value)
    return text if len(text) <= 200 else text[:199] + "…"
