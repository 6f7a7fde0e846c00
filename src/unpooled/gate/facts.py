"""The facts that a policy judges, and how they follow from the file that is about to leave and from the rows.

No fact is a record. Only one fact needs the rows: the largest share that one record has in the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .._base.plain_json import make_plain
from .._base.rows import Block, Source
from .._base.text import quote
from ..data.parquet import RowGroup
from ..engines import as_engine
from ..privacy.composition import Guarantee
from ..summaries import Candidates, Scores, Summary
from ..summaries.contents import count_numbers
from ..summaries.passes import LabelShare, map_block, split_source

KINDS = ("summary", "scores", "functions")  # functions are fitted to the rows of the site alone


@dataclass(frozen=True)
class Release:
    """The facts of a file that is about to leave.

    Attributes
    ----------
    kind : the kind of the file
    basis : the digest of the basis
    targets : the columns predicted; empty if they have no names
    order : 1 or 2
    n_rows : rows of positive weight
    n_features, n_targets : M, and columns of labels
    largest_label_share : the result of :func:`label_share`
    is_residual : whether the sums are of a model's errors
    private : the guarantee of the noise; None if no noise was added
    numbers, bytes : the number of numbers and of bytes that leave
    """

    kind: str
    basis: str
    targets: tuple[str, ...]
    order: int
    n_rows: int
    n_features: int
    n_targets: int
    largest_label_share: float
    is_residual: bool
    private: Mapping[str, Any] | None
    numbers: int
    bytes: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):
                value = value.item()
            if field.name == "targets" and isinstance(value, list):
                value = tuple(value)
            if field.name == "largest_label_share" and type(value) is int:
                value = float(value)
            object.__setattr__(self, field.name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for JSON, whatever they are; a number that is not finite becomes None."""
        return {field.name: make_plain(getattr(self, field.name), quote) for field in fields(self)}

    @classmethod
    def from_dict(cls, content: Any) -> Release:
        """Make a release from such a dictionary; a ValueError names a fact that is missing, unknown or wrong."""
        names = [field.name for field in fields(cls)]
        if not isinstance(content, dict) or sorted(content) != sorted(names):
            raise ValueError(f"a release must have the facts {', '.join(names)}")
        release = cls(**content)
        for wrong in release.doubts():
            raise ValueError(wrong)
        return release

    def doubts(self) -> Iterator[str]:
        """Give a sentence for each fact that is missing or cannot be true."""
        if self.kind not in KINDS:
            yield f"the kind of the file is {quote(self.kind)}, and only a summary, scores or functions may leave"
        if not isinstance(self.basis, str) or not self.basis:
            yield "the basis is not known"
        targets = self.targets
        if not isinstance(targets, tuple) or not all(isinstance(name, str) for name in targets):
            yield "the names of the targets are not known"
        elif targets and self.n_targets != len(targets):
            yield f"{quote(self.n_targets)} targets have {len(targets)} names"
        for name, least in (
            ("order", 0),
            ("n_rows", 0),
            ("n_features", 0),
            ("n_targets", 1),
            ("numbers", 0),
            ("bytes", 0),
        ):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                yield f"{_WORDS[name]} is not known"
        share = self.largest_label_share
        if type(share) is not float or not 0 <= share <= 1:
            yield "the largest share of one record in the labels is not known"
        if type(self.is_residual) is not bool:
            yield "it is not known whether this is a residual round"
        if self.private is not None and not (isinstance(self.private, Mapping) and self.private):
            yield "the guarantee of the noise is not known"


_WORDS = {
    "order": "the order",
    "n_rows": "the number of rows",
    "n_features": "the number of features",
    "n_targets": "the number of targets",
    "numbers": "the number of numbers that leave",
    "bytes": "the size of the file",
}


def label_share(y: Any, weights: Any = None) -> float:
    """Compute the largest share that one record has in the total of the labels: max |w·y| / Σ |w·y|.

    With several targets it is the largest over all targets. A share near one means that Σ y φ(x) is hardly more than
    that one record. It is 0 if all labels are zero. Without rows or with infinite values it is NaN, which no policy
    lets pass.

    Parameters
    ----------
    y : labels, (n,) or (n, T)
    weights : one weight per row, or None
    """
    return LabelShare().add(y, weights).value


LARGEST = 1e100  # stands for an infinite error: sums of it are still numbers


def of_summary(summary: Summary, share: float) -> Release:
    """Collect the facts of a summary; ``share`` is its ``label_share``, learned in the same pass over the rows.

    For a private summary the share is ignored: whether it may leave must not depend on what its noise hides.
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
        numbers=count_numbers(summary),
        bytes=0,
    )


def of_guarantee(guarantee: Guarantee) -> dict[str, Any]:
    """List the parts of a guarantee that a policy judges and the log keeps."""
    names = ("epsilon", "delta", "neighbours", "mechanism")
    return {name: getattr(guarantee, name) for name in names} | {"conditions": list(guarantee.conditions)}


def count_clipped_labels(source: Source, label_bound: float) -> int:
    """Count the labels outside the bound of a private summary. The number is private: it is for the site alone."""
    outside = 0
    for piece in source.pieces:
        rows = (replace(piece, features=()) if isinstance(piece, RowGroup) else piece).read()
        outside += int(np.sum(np.abs(np.asarray(rows.Y, dtype=np.float64)) > label_bound))
    return outside


def of_scores(scores: Scores, candidates: Candidates, targets: tuple[str, ...], share: float) -> Release:
    """Collect the facts of scores; ``share`` is what :func:`error_share_of` gives for their rows."""
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
    """Find the largest share that one record has in the leave-one-out errors of the candidates."""
    largest: LabelShare = as_engine(None).map_reduce(
        _of_errors, split_source(source, basis), _plus, args=(basis, candidates), label="looking for large errors"
    )
    return largest.value


def _of_errors(block: Block, basis: Any, candidates: Candidates) -> LabelShare:
    share = LabelShare()
    for rows, phi in map_block(block, basis):
        errors = candidates.errors(phi, np.asarray(rows.Y, dtype=np.float64), rows.weights)
        flat = np.moveaxis(np.abs(errors), 1, 0).reshape(len(phi), -1)
        share.add(np.minimum(flat, LARGEST), rows.weights)
    return share


def _plus(a: LabelShare, b: LabelShare) -> LabelShare:
    return a + b
