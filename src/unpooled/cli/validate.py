"""``unpooled validate``: a site scores candidate models, the second exchange of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data import sources
from ..data.sources import open_labeled
from ..gate import Entry, facts
from ..gate.gate import content_of
from ..summaries import Candidates
from ..summaries.candidates import scores_of_source
from .app import app, command
from .codes import FILE, USAGE, Problem
from .inspect import of_scores
from .leaving import Show, gate_for, leave
from .options import BasisFile, Data, LogFile, Output, PolicyFile, Target, Weight, Yes, basis_for, check_output, names
from .out import Out


@command(app)
def validate(
    out: Out,
    candidates: Annotated[Path, typer.Argument(help="The candidates of `unpooled fit --candidates`.")],
    data: Data,
    output: Output,
    target: Target = None,
    weight: Weight = None,
    basis: BasisFile = None,
    policy: PolicyFile = None,
    log: LogFile = None,
    yes: Yes = False,
) -> dict[str, Any]:
    """Score candidate models on a site's rows: the sums of their squared leave-one-out errors, one for each λ.

    The rows must be those of the site's summary. The same policy and log apply as for a summary.
    """
    check_output(output, [candidates, data, *([basis] if basis else [])])
    gate, rules = gate_for(out, data, policy, log, yes)
    asked = Candidates.load(candidates)
    shared = basis_for(asked.basis, basis, [candidates.parent, data.parent, output.parent], str(candidates))
    targets = names(target) or list(asked.targets)
    if not targets:
        raise Problem("--target must name the column to predict", USAGE)
    if asked.targets and list(asked.targets) != targets:
        raise Problem(f"{candidates} predict {', '.join(asked.targets)}, and --target is {', '.join(targets)}", FILE)
    if asked.coef.shape[1] != shared.n_features_:
        raise Problem(f"{candidates} have {asked.coef.shape[1]} features, and the basis {shared.n_features_}", FILE)
    rows = sources.rows_for(
        data, sources.columns_of(shared), {"--target": targets} | ({"--weight": [weight]} if weight else {})
    )
    with out.working(f"reading {data}"):
        source = open_labeled(shared, rows, targets[0] if len(targets) == 1 else targets, weight)
    scores = scores_of_source(asked, shared, source, verbose=1)
    with out.working("looking for large errors"):
        share = facts.error_share_of(asked, shared, source)
    content = content_of(scores.save)
    release = replace(facts.of_scores(scores, asked, tuple(targets), share), bytes=len(content))

    def write(show: Show) -> Entry:
        show(release)
        return gate.write(output, content, release)

    left = leave(out, gate, rules, of_scores(scores), output, write)
    return {**left, "n_rows": scores.n_rows, "targets": targets, "candidates": scores.candidates}
