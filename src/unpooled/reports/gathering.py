"""Everything that a report of one model can know, worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..bases.base import Basis, find
from ..estimators import SummaryRegressor
from ..messages import shown
from .facts import about
from .facts.dependence import Background, Curve, background_of, curves_of
from .facts.errors import Errors, Labelled, errors_of
from .facts.sites import Sensitivity, Sent, leave_one_out, spread_of, total_of
from .facts.spectrum import Spectrum, spectrum_of
from .facts.tuning import Family, Tuning, family_of, tuning_of


@dataclass
class Gathered:
    """A model, what was given beside it, and what follows from both."""

    model: Any
    file: str
    target: int = 0
    rows: Labelled | None = None
    sent: tuple[Sent, ...] = ()
    given_basis: Basis | None = None
    folders: tuple[Path, ...] = ()  #: where a basis may lie

    @property
    def label(self) -> str:
        """The name of the label."""
        return about.label_of(self.model, self.target)

    @property
    def private(self) -> bool:
        """Whether the model has a guarantee to keep."""
        return about.private(self.model)

    @cached_property
    def basis(self) -> Basis | None:
        """The basis: the one given, the model's own, one beside the summaries, or one alive in this process."""
        own = getattr(self.model, "basis_", None)
        digest = getattr(self.model, "basis_digest_", None)
        if self.given_basis is not None and digest is not None and self.given_basis.digest != digest:
            raise ValueError(f"the model is of the basis {digest[:12]}, and {self.given_basis.digest[:12]} was given")
        if self.given_basis is not None or own is not None or digest is None:
            return self.given_basis or own
        folders = [*self.folders, *(one.summary.folder for one in self.sent if one.summary.folder is not None)]
        attached = next((one.summary.attached for one in self.sent if one.summary.attached is not None), None)
        if attached is not None and attached.digest == digest:
            return attached
        return find(digest, list(dict.fromkeys(folders)))

    @cached_property
    def tuning(self) -> Tuning | None:
        """What was tried to choose λ."""
        return tuning_of(self.model, self.target)

    @cached_property
    def family(self) -> Family | None:
        """The functions of every λ."""
        return None if self.tuning is None else family_of(self.model, self.basis, self.target)

    @cached_property
    def spectrum(self) -> Spectrum | str:
        """The spectrum, or why there is none."""
        return spectrum_of(self.model, self.basis)

    @cached_property
    def background(self) -> Background | None:
        """Rows whose other inputs are held while one moves."""
        return background_of(self.model, None if self.rows is None else self.rows.rows)

    @cached_property
    def curves(self) -> list[Curve]:
        """Partial dependence, the input that matters most first."""
        background = self.background
        return [] if background is None else curves_of(self.model, background, self.family, self.target)

    @cached_property
    def overall(self) -> Errors | None:
        """The errors on the rows that were given."""
        return None if self.rows is None else errors_of(self.rows.y, self.rows.predicted)

    @cached_property
    def sensitivity(self) -> Sensitivity | str:
        """What the fit owes to each site, or why that cannot be told."""
        if not self.sent and not isinstance(self.model, SummaryRegressor):
            return (
                "What the fit owes to each site can be told where every site has sent a summary of its rows, and this "
                "model was not made of such."
            )
        if not self.sent:
            return (
                "The sensitivity of the fit to each site is worked out from the sites' summaries alone: give them with "
                "--summaries (summaries= in Python)."
            )
        if not all(one.by_itself for one in self.sent):
            return (
                "Each of these summaries holds a share of the noise only: none may be looked at by itself, nor a sum "
                "that lacks one, so no site can be left out."
            )
        try:
            return leave_one_out(self.model, list(self.sent), self.basis, self.target)
        except ValueError as error:
            return f"No site could be left out: {error}."

    @cached_property
    def label_spread(self) -> float | None:
        """The standard deviation of the label, from sums or from the rows that were given."""
        summary = getattr(self.model, "summary_", None)
        if summary is not None:
            return spread_of(summary, self.target)
        return None if self.rows is None or self.private else float(np.std(self.rows.y))

    @cached_property
    def mismatch(self) -> str:
        """A sentence where the summaries are not those of the model; empty where they are."""
        summary = getattr(self.model, "summary_", None)
        if not self.sent or summary is None:
            return ""
        total = total_of(list(self.sent))
        same = total.n_rows == summary.n_rows and np.array_equal(total.feature_label_sum, summary.feature_label_sum)
        if same:
            return ""
        return (
            f"These summaries are of {total.n_rows:,} rows, and the model was learned from {summary.n_rows:,}: what is "
            "said of sites is true of the summaries, and not of this very model."
        )


def target_of(model: Any, target: Any) -> int:
    """The position of a label that is given by name or number."""
    n, names = about.targets_of(model), list(getattr(model, "targets_", ()))
    if target is None:
        return 0
    if isinstance(target, str) and target in names:
        return names.index(target)
    if isinstance(target, (int, np.integer)) and not isinstance(target, bool) and 0 <= target < n:
        return int(target)
    known = f"one of {', '.join(names)}, or " if names else ""
    raise ValueError(f"target must be {known}a number from 0 to {n - 1}, got {shown(target)}")
