"""``unpooled summarize``: what a site sends instead of its rows."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import bases, models
from ..bases import Basis
from ..data import sources
from ..data.sources import open_labeled
from ..gate import Entry, facts, release
from ..losses import as_loss
from ..privacy.ledger import Spending
from ..privacy.release import Asked
from ..summaries import Summary
from ..summaries.contents import spec_of
from ..summaries.summary import of_source
from .app import app, command
from .codes import FILE, USAGE, Problem
from .leaving import Show, asked_for, check_question, gate_for, leave
from .options import (
    Data,
    Delta,
    Epsilon,
    LabelBound,
    LedgerFile,
    LogFile,
    Missing,
    Output,
    Parties,
    PolicyFile,
    Target,
    Weight,
    Yes,
    check_output,
    choice,
    names,
)
from .out import Out

LOSSES = ("squared", "huber", "correntropy")


@command(app)
def summarize(
    out: Out,
    basis: Annotated[Path, typer.Argument(help="The study's .basis file.")],
    data: Data,
    output: Output,
    target: Target = None,
    order: Annotated[int, typer.Option(min=1, max=2, help="1: a sum a feature. 2: a sum a pair as well.")] = 1,
    weight: Weight = None,
    residuals_of: Annotated[Path | None, typer.Option(help="A model: sum its residuals instead of the labels.")] = None,
    loss: Annotated[str | None, typer.Option(help="squared, huber or correntropy.")] = None,
    scale: Annotated[float | None, typer.Option(help="The scale of huber or correntropy, in units of y.")] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    label_bound: LabelBound = None,
    ledger: LedgerFile = None,
    parties: Parties = 1,
    missing: Missing = 0,
    policy: PolicyFile = None,
    log: LogFile = None,
    yes: Yes = False,
) -> dict[str, Any]:
    """Add up a site's rows into a summary, which may leave the site if its policy lets it.

    Columns are taken by the names the basis has for them; others are not looked at. What is about to leave is shown;
    what the policy does not allow is not written. Either goes into the site's log.

    With --epsilon and --delta the sums get noise, and the ledger is charged before the rows are looked at.
    """
    check_output(output, [basis, data, *(path for path in (residuals_of, ledger) if path)])
    privacy = asked_for(epsilon, delta, label_bound, ledger, parties, missing, weight)
    gate, rules = gate_for(out, data, policy, log, yes)
    shared = bases.load(basis)
    model = None if residuals_of is None else models.load(residuals_of)
    targets = _targets(target, model)
    chosen = _loss(loss, scale, model)
    if model is not None:
        _check_model(model, residuals_of, shared, basis, targets, order)
    asked = {"--target": targets} | ({"--weight": [weight]} if weight else {})
    rows = sources.rows_for(data, sources.columns_of(shared), asked)
    y = targets[0] if len(targets) == 1 else targets
    question = None
    if privacy is not None:
        question = check_question(out, gate.policy, shared, y, order, model, chosen, privacy)
    with nullcontext() if question is None else question.spending() as spending:
        share = None
        if question is not None and spending is not None:
            summary = _with_noise(out, question, spending, rows, y)
        else:
            with out.working(f"reading {data}"):
                source = open_labeled(shared, rows, y, weight)
            summary = of_source(shared, source, order, model, chosen, None, verbose=1)
            with out.working("looking for large labels"):
                share = facts.label_share_of(shared, source, model, summary.contents.loss)

        def write(show: Show) -> Entry:
            return release(
                summary, output, policy=gate.policy, log=gate.log, label_share=share, approve=gate.approve, show=show
            )

        left = leave(out, gate, rules, summary.describe(), output, write)
        if spending is not None:
            spending.note(n_rows=summary.n_rows, sha256=left["sha256"])
    return {
        **left,
        "n_rows": summary.n_rows,
        "order": summary.order,
        "targets": list(summary.targets),
        "basis": summary.digest,
        "residuals_of": summary.contents.model,
        "loss": summary.contents.loss,
        "privacy": None if summary.privacy is None else facts.of_guarantee(summary.privacy.guarantee),
    }


def _with_noise(out: Out, question: Asked, spending: Spending, rows: Any, y: Any) -> Summary:
    """The summary that was paid for; how many labels the bound has moved is said here and nowhere else."""
    with out.working("reading"):
        source = question.read(spending, rows, y)
    summary = question.release(source, None, verbose=1)
    if not question.contents.residual:
        outside = facts.clipped_labels(source, question.bounds.label_bound)
        out.say(f"For this site only: {outside} of {summary.n_rows} labels were moved to the label bound.")
    return summary


def _targets(given: list[str] | None, model: Any) -> list[str]:
    targets = names(given) or list(getattr(model, "targets_", ()))
    if not targets:
        raise Problem("--target must name the column to predict", USAGE)
    return targets


def _loss(name: str | None, scale: float | None, model: Any) -> Any:
    """The loss that is asked for, or the model's."""
    own = getattr(model, "loss_", "squared") if model is not None else "squared"
    if name is None:
        if scale is not None:
            raise Problem("--scale belongs to --loss huber or --loss correntropy", USAGE)
        from ..summaries.contents import loss_of

        return loss_of(own)
    choice("--loss", name, LOSSES)
    if (scale is None) != (name == "squared") or (scale is not None and not 0 < scale < float("inf")):
        raise Problem("--loss huber and --loss correntropy need --scale, a positive number; squared has none", USAGE)
    chosen = as_loss(name, scale)
    if model is not None and spec_of(chosen) != own:
        raise Problem(f"--loss is {spec_of(chosen)}, and the model was fitted with {own}: leave --loss out", FILE)
    return chosen


def _check_model(model: Any, path: Path | None, shared: Basis, basis: Path, targets: list[str], order: int) -> None:
    if order != 1:
        raise Problem("--residuals-of goes with --order 1: order 2 is exact without rounds", USAGE)
    own = getattr(model, "basis_digest_", None)
    if own != shared.digest:
        of = "no basis" if own is None else f"the basis {own[:12]}"
        raise Problem(f"{path} is a model of {of}, and {basis} is the basis {shared.digest[:12]}", FILE)
    known = list(getattr(model, "targets_", ()))
    if known and known != targets:
        raise Problem(f"{path} predicts {', '.join(known)}, and --target is {', '.join(targets)}", FILE)
