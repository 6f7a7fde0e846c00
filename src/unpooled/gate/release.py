"""Release: the few facts about a file that is about to leave a site, for its policy to judge; never a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._base.plain_json import plain
from .._base.text import shown
from ..summaries.passes import LabelShare

KINDS = ("summary", "scores", "functions")  # functions are fitted to the rows of the site alone


@dataclass(frozen=True)
class Release:
    """The facts of a file that is about to leave.

    Attributes
    ----------
    kind : of file
    basis : the digest of the basis
    targets : the columns predicted; empty where they have no names
    order : 1 or 2
    n_rows : rows of positive weight
    n_features, n_targets : M, and columns of labels
    largest_label_share : what :func:`label_share` gives
    is_residual : whether the sums are of a model's errors
    private : what privacy was spent; None where no noise was added
    numbers, bytes : how much leaves
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
        """For JSON, whatever the facts are: a number that is not finite becomes None."""
        return {field.name: plain(getattr(self, field.name), shown) for field in fields(self)}

    @classmethod
    def from_dict(cls, content: Any) -> Release:
        """The inverse; a ValueError where a fact is missing, unknown or wrong."""
        names = [field.name for field in fields(cls)]
        if not isinstance(content, dict) or sorted(content) != sorted(names):
            raise ValueError(f"a release must have the facts {', '.join(names)}")
        found = cls(**content)
        for wrong in found.doubts():
            raise ValueError(wrong)
        return found

    def doubts(self) -> Iterator[str]:
        """A sentence for each fact that is missing or cannot be true."""
        if self.kind not in KINDS:
            yield f"the kind of the file is {shown(self.kind)}, and only a summary, scores or functions may leave"
        if not isinstance(self.basis, str) or not self.basis:
            yield "the basis is not known"
        targets = self.targets
        if not isinstance(targets, tuple) or not all(isinstance(name, str) for name in targets):
            yield "the names of the targets are not known"
        elif targets and self.n_targets != len(targets):
            yield f"there are {len(targets)} names of targets for {shown(self.n_targets)} targets"
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
            yield "it is not known what privacy was spent"


_WORDS = {
    "order": "the order",
    "n_rows": "the number of rows",
    "n_features": "the number of features",
    "n_targets": "the number of targets",
    "numbers": "how many numbers leave",
    "bytes": "how many bytes leave",
}


def label_share(y: Any, weights: Any = None) -> float:
    """max |w·y| / Σ |w·y|, the largest over the targets: the share that one record has of the label total.

    Where it is near one, Σ y φ(x) is little else than that record. Labels that are all zero have no such record: 0.
    Without rows, or with values that are not finite, it is NaN, which no policy lets pass.

    Parameters
    ----------
    y : labels, (n,) or (n, T)
    weights : one a row, or None
    """
    return LabelShare().add(y, weights).value
