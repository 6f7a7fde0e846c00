"""The facts that a policy judges, and the steps by which a site makes sums with noise.

The facts come from what is about to leave and, for one record's share, from the rows. A site makes private sums in this
order: it refuses what can be refused, charges the ledger, reads the rows, and adds the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from .._base.checks import budget
from .._base.rows import Block, Source
from ..data.parquet import RowGroup
from ..engines import as_engine
from ..privacy import Reservation
from ..privacy.guarantee import Guarantee
from ..privacy.release import Asked
from ..summaries import Candidates, Scores, Summary
from ..summaries.contents import numbers
from ..summaries.passes import LabelShare, mapped, stretches
from .policy import Policy
from .release import Release

LARGEST = 1e100  # an error that is infinite: a sum of them is still a number


def of_summary(summary: Summary, share: float) -> Release:
    """The facts of a summary; ``share`` is its own ``label_share``, summed in the same pass over the rows.

    Of a private summary it does not count: whether it may leave must not depend on what its noise hides.
    """
    c, noised = summary.contents, summary.privacy
    return Release(
        kind="summary",
        basis=c.basis,
        targets=summary.targets,
        order=c.order,
        n_rows=summary.n_rows,
        n_features=c.n_features,
        n_targets=c.n_outputs,
        largest_label_share=share if noised is None else 0.0,
        is_residual=c.model is not None,
        private=None if noised is None else of_guarantee(noised.guarantee),
        numbers=numbers(summary),
        bytes=0,
    )


def of_guarantee(guarantee: Guarantee) -> dict[str, Any]:
    """What a policy judges of a guarantee, and the log keeps."""
    names = ("epsilon", "delta", "neighbours", "mechanism")
    return {name: getattr(guarantee, name) for name in names} | {"conditions": list(guarantee.conditions)}


def clipped_labels(source: Source, label_bound: float) -> int:
    """How many labels lie outside the bound of a private summary. This is private: it is for the site alone."""
    outside = 0
    for piece in source.pieces:
        rows = (replace(piece, features=()) if isinstance(piece, RowGroup) else piece).read()
        outside += int(np.sum(np.abs(np.asarray(rows.Y, dtype=np.float64)) > label_bound))
    return outside


def of_scores(scores: Scores, candidates: Candidates, targets: tuple[str, ...], share: float) -> Release:
    """The facts of scores; ``share`` is what :func:`error_share_of` gives for their rows."""
    n_lam, n_features, n_targets = candidates.coef.shape
    return Release(
        kind="scores",
        basis=candidates.basis,
        targets=targets,
        order=0,
        n_rows=scores.n_rows,
        n_features=n_features,
        n_targets=n_targets,
        largest_label_share=share,
        is_residual=False,
        private=None,
        numbers=2 + n_lam * n_targets,
        bytes=0,
    )


def error_share_of(candidates: Candidates, basis: Any, source: Source) -> float:
    """One record's largest share in the leave-one-out errors of the candidates."""
    found: LabelShare = as_engine(None).map_reduce(
        _of_errors, stretches(source, basis), _plus, args=(basis, candidates), label="looking for large errors"
    )
    return found.value


def _of_errors(block: Block, basis: Any, candidates: Candidates) -> LabelShare:
    share = LabelShare()
    for rows, phi in mapped(block, basis):
        errors = candidates.errors(phi, np.asarray(rows.Y, dtype=np.float64), rows.weights)
        flat = np.moveaxis(np.abs(errors), 1, 0).reshape(len(phi), -1)
        share.add(np.minimum(flat, LARGEST), rows.weights)
    return share


def _plus(a: LabelShare, b: LabelShare) -> LabelShare:
    return a + b


class NothingSpent(ValueError):
    """Refused by the policy before budget was charged and before a row was looked at."""


def check_policy(policy: Policy, question: Asked) -> None:
    """Refuse what the policy would refuse of the noise in any case."""
    if policy.approve == "never":
        raise NothingSpent('this may not leave: the policy says approve = "never", so nothing was spent')
    promised = question.privacy.record(question.bounds, question.noise, question.purpose).guarantee
    if reasons := policy.about_privacy(of_guarantee(promised)):
        raise NothingSpent(f"this may not leave, and nothing was spent: {'; '.join(reasons)}")


def spend(
    question: Asked,
    rows: Any,
    y: Any,
    reading: Callable[[], AbstractContextManager[Any]] = nullcontext,
    verbose: int = 0,
) -> tuple[Summary, Source, Reservation | None]:
    """The private summary, the rows it is of, and its charge; ``reading`` is around what may take a while."""
    unread = question.unread(rows, y)
    reservation = question.charge()
    with reading():
        source = unread.read()
    budget(question.privacy.epsilon, question.privacy.delta, source.n_rows)
    return question.release(source, None, verbose), source, reservation
