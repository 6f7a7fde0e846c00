"""``unpooled summarize`` and ``unpooled validate``: the sums that a site sends instead of its rows, through its gate.

With noise, ``unpooled summarize`` takes its steps in this order: check, charge, read, add noise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import bases, models
from .._base.text import format_size
from ..bases import Basis
from ..data import sources
from ..data.sources import open_labeled
from ..gate import Entry, Gate, Log, Policy, Refused, Release, facts, find_policy, release
from ..gate.gate import LOG_NAME, NothingSpent, check_policy, content_of
from ..losses import as_loss
from ..privacy import PrivacyRequest
from ..privacy.ledger import Spending
from ..privacy.release import CheckedRequest, check_request
from ..summaries import Candidates, Summary
from ..summaries.candidates import score_source
from ..summaries.contents import spec_of
from ..summaries.summary import summarize_source
from .app import app, command
from .console import (
    FILE,
    REFUSED,
    USAGE,
    BasisFile,
    Data,
    Delta,
    Epsilon,
    LabelBound,
    LedgerFile,
    LogFile,
    Missing,
    Out,
    Output,
    Parties,
    PolicyFile,
    Problem,
    SampleWeight,
    Target,
    Yes,
    check_choice,
    check_output,
    is_interactive,
    split_names,
)
from .fit import find_basis
from .inspect import describe_scores

LOSSES = ("squared", "huber", "correntropy")
_Show = Callable[[Release], None]


@command(app)
def summarize(
    out: Out,
    basis: Annotated[Path, typer.Argument(help="The study's .basis file.")],
    data: Data,
    output: Output,
    target: Target = None,
    order: Annotated[
        int, typer.Option(min=1, max=2, help="1: one sum for each feature. 2: also one for each pair.")
    ] = 1,
    sample_weight: SampleWeight = None,
    residuals_of: Annotated[
        Path | None, typer.Option(help="A model whose residuals are summed instead of the labels.")
    ] = None,
    loss: Annotated[str | None, typer.Option(help="squared, huber or correntropy.")] = None,
    scale: Annotated[
        float | None, typer.Option(help="The scale of huber or correntropy, in the unit of the label.")
    ] = None,
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
    """Add up a site's rows into a summary, and write it if the site's policy lets it leave.

    Columns are found by the names that the basis has for them; no other column is read. The command shows what is about
    to leave, and writes nothing that the policy forbids. Both outcomes are recorded in the site's log.

    With --epsilon and --delta noise is added to the sums, and the ledger is charged before the rows are read.
    """
    check_output(output, [basis, data, *(path for path in (residuals_of, ledger) if path)])
    privacy = _read_privacy_options(epsilon, delta, label_bound, ledger, parties, missing, sample_weight)
    gate, rules = _open_gate(out, data, policy, log, yes)
    shared = bases.load(basis)
    model = None if residuals_of is None else models.load(residuals_of)
    targets = _targets(target, model)
    chosen = _loss(loss, scale, model)
    if model is not None:
        _check_model(model, residuals_of, shared, basis, targets, order)
    asked = {"--target": targets} | ({"--sample-weight": [sample_weight]} if sample_weight else {})
    rows = sources.select_rows(data, sources.columns_of(shared), asked)
    y = targets[0] if len(targets) == 1 else targets
    question = None
    if privacy is not None:
        question = _check_question(out, gate.policy, shared, y, order, model, chosen, privacy)
    with nullcontext() if question is None else question.spending() as spending:
        if question is not None and spending is not None:
            summary = _add_noise(out, question, spending, rows, y)
        else:
            with out.working(f"reading {data}"):
                source = open_labeled(shared, rows, y, sample_weight)
            summary = summarize_source(shared, source, order, model, chosen, None, verbose=1)

        def write(show: _Show) -> Entry:
            return release(summary, output, policy=gate.policy, log=gate.log, approve=gate.approve, show=show)

        left = _let_leave(out, gate, rules, summary.describe(), output, write)
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


def _add_noise(out: Out, question: CheckedRequest, spending: Spending, rows: Any, y: Any) -> Summary:
    """Make the summary that was charged. Only this site is told how many labels were clipped."""
    with out.working("reading"):
        source = question.read(spending, rows, y)
    summary = question.release(source, None, verbose=1)
    if not question.contents.is_residual:
        outside = facts.count_clipped_labels(source, question.bounds.label_bound)
        out.say(f"For this site only: {outside} of {summary.n_rows} labels were clipped to the label bound.")
    return summary


def _targets(given: list[str] | None, model: Any) -> list[str]:
    targets = split_names(given) or ([] if model is None else list(model.facts().targets))
    if not targets:
        raise Problem("--target must name the column to predict", USAGE)
    return targets


def _loss(name: str | None, scale: float | None, model: Any) -> Any:
    """Choose the loss of --loss, or the one of the model."""
    own = "squared" if model is None else model.facts().loss
    if name is None:
        if scale is not None:
            raise Problem("--scale belongs to --loss huber or --loss correntropy", USAGE)
        from ..summaries.contents import loss_of

        return loss_of(own)
    check_choice("--loss", name, LOSSES)
    if (scale is None) != (name == "squared") or (scale is not None and not 0 < scale < float("inf")):
        raise Problem("--loss huber and --loss correntropy need --scale, a positive number; squared takes none", USAGE)
    chosen = as_loss(name, scale)
    if model is not None and spec_of(chosen) != own:
        raise Problem(f"--loss is {spec_of(chosen)}, but the model was fitted with {own}: leave --loss out", FILE)
    return chosen


def _check_model(model: Any, path: Path | None, shared: Basis, basis: Path, targets: list[str], order: int) -> None:
    if order != 1:
        raise Problem("--residuals-of needs --order 1: order 2 is exact without rounds", USAGE)
    own = model.facts().basis_digest
    if own != shared.digest:
        of = "no basis" if own is None else f"the basis {own[:12]}"
        raise Problem(f"{path} is a model in {of}, but {basis} is the basis {shared.digest[:12]}", FILE)
    known = list(model.facts().targets)
    if known and known != targets:
        raise Problem(f"{path} predicts {', '.join(known)}, but --target is {', '.join(targets)}", FILE)


def _open_gate(out: Out, data: Path, policy: Path | None, log: Path | None, yes: bool) -> tuple[Gate, Path | None]:
    """Open the site's gate, and name the file of its policy; None stands for the default policy."""
    path = policy or find_policy(data)
    place = log or (data if path is None else path).parent / LOG_NAME
    rules = Policy.default() if path is None else Policy.read(path)
    return Gate(rules, Log(place), _make_approval(out, yes)), path


def _let_leave(
    out: Out, gate: Gate, policy: Path | None, words: str, output: Path, write: Callable[[_Show], Entry]
) -> dict[str, Any]:
    """Let ``write`` take the file through the gate, show the facts before they are judged, and report the outcome."""
    rules = gate.policy

    def show(release: Release) -> None:
        out.say(words)
        out.say()
        out.facts(
            f"About to leave, judged by {policy or 'the default policy'}",
            [
                ("rows", f"{release.n_rows} (at least {rules.minimum_rows})"),
                ("numbers", f"{release.numbers} (at most {rules.max_numbers_per_row:g} per row)"),
                ("features", f"{release.n_features}{_show_limit(release, rules)}"),
                ("largest record", _show_largest(release, rules)),
                ("basis", release.basis),
                ("size", format_size(release.bytes)),
            ],
        )

    try:
        entry = write(show)
    except Refused as error:
        out.table("Refused: nothing was written", ["reason"], [[reason] for reason in error.reasons])
        raise
    out.say(f"{output} written and recorded as entry {entry.sequence} of {gate.log.path}")
    return {
        "file": output,
        "sha256": entry.event["sha256"],
        "policy": policy,
        "log": gate.log.path,
        "entry": entry.sequence,
        "head": entry.sha256,
        "release": entry.event["release"],
    }


def _show_limit(release: Release, rules: Policy) -> str:
    return f" (at most {rules.max_features_per_row:g} per row)" if release.order >= 2 else ""


def _show_largest(release: Release, rules: Policy) -> str:
    if release.private is not None:
        return "not checked: noise hides every record"
    return f"{release.largest_label_share:.1%} of all (at most {rules.max_label_share:.0%})"


def _make_approval(out: Out, yes: bool) -> Callable[[Release], bool] | None:
    if yes:
        return lambda _: True
    if not is_interactive():
        return None
    return lambda _: typer.confirm("Let it leave?", default=False, err=out.as_json)


def _read_privacy_options(
    epsilon: float | None,
    delta: float | None,
    label_bound: float | None,
    ledger: Path | None,
    parties: int,
    missing: int,
    sample_weight: str | None,
) -> PrivacyRequest | None:
    """Read the options of noise; None if no noise is asked for."""
    if epsilon is None or delta is None:
        given = {"--label-bound": label_bound, "--ledger": ledger, "--epsilon": epsilon, "--delta": delta}
        given |= {"--parties": parties if parties > 1 else None, "--missing": missing or None}
        for option, value in given.items():
            if value is not None:
                raise Problem(f"{option} is for noise, which needs both --epsilon and --delta", USAGE)
        return None
    if sample_weight is not None:
        raise Problem(
            "--sample-weight counts rows several times, and noise hides one row: leave the weights or the noise out",
            USAGE,
        )
    try:
        return PrivacyRequest(epsilon, delta, label_bound, ledger=ledger, parties=parties, missing=missing)
    except ValueError as error:
        raise Problem.of(error, USAGE) from None


def _check_question(
    out: Out, policy: Policy, basis: Basis, y: Any, order: int, model: Any, loss: Any, privacy: PrivacyRequest
) -> CheckedRequest:
    """Check the request for a private summary as far as no rows are needed, before the ledger is charged."""
    if not isinstance(y, str):
        raise Problem(
            "a private summary has one --target: make one summary per label; each is charged separately", USAGE
        )
    question = check_request(basis, order, model, loss, None, privacy)
    try:
        check_policy(policy, question)
    except NothingSpent as error:
        raise Problem.of(error, REFUSED) from None
    if privacy.ledger is None:
        out.warn("without --ledger the spending is not counted, and two summaries of the same rows cost more than one")
    return question


@command(app)
def validate(
    out: Out,
    candidates: Annotated[Path, typer.Argument(help="The candidates that `unpooled fit --candidates` wrote.")],
    data: Data,
    output: Output,
    target: Target = None,
    sample_weight: SampleWeight = None,
    basis: BasisFile = None,
    policy: PolicyFile = None,
    log: LogFile = None,
    yes: Yes = False,
) -> dict[str, Any]:
    """Score candidate models on a site's rows: one sum of squared leave-one-out errors for each λ.

    The rows must be those of the site's summary. The policy and the log apply as they do to a summary.
    """
    check_output(output, [candidates, data, *([basis] if basis else [])])
    gate, rules = _open_gate(out, data, policy, log, yes)
    asked = Candidates.load(candidates)
    shared = find_basis(asked.basis, basis, [candidates.parent, data.parent, output.parent], str(candidates))
    targets = split_names(target) or list(asked.targets)
    if not targets:
        raise Problem("--target must name the column to predict", USAGE)
    if asked.targets and list(asked.targets) != targets:
        raise Problem(f"{candidates} predict {', '.join(asked.targets)}, but --target is {', '.join(targets)}", FILE)
    if asked.coef.shape[1] != shared.n_features_:
        raise Problem(f"{candidates} have {asked.coef.shape[1]} features, but the basis has {shared.n_features_}", FILE)
    rows = sources.select_rows(
        data,
        sources.columns_of(shared),
        {"--target": targets} | ({"--sample-weight": [sample_weight]} if sample_weight else {}),
    )
    with out.working(f"reading {data}"):
        source = open_labeled(shared, rows, targets[0] if len(targets) == 1 else targets, sample_weight)
    scores = score_source(asked, shared, source, verbose=1)
    with out.working("looking for large errors"):
        share = facts.error_share_of(asked, shared, source)
    content = content_of(scores.save)
    judged = replace(facts.of_scores(scores, asked, tuple(targets), share), bytes=len(content))

    def write(show: _Show) -> Entry:
        show(judged)
        return gate.write(output, content, judged)

    left = _let_leave(out, gate, rules, describe_scores(scores), output, write)
    return {**left, "n_rows": scores.n_rows, "targets": targets, "candidates": scores.candidates}
