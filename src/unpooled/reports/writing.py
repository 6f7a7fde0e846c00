"""up.report: one page to open for a fitted model, or for the study it comes from.

Everything that a report on one model needs is computed once, in :class:`ReportMaterial`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .. import models
from .._base.checks import check_fitted
from .._base.declared import copy_as_saved
from .._base.files import PathLike, open_atomic
from .._base.html import page_of_sections
from .._base.path import Tuning
from .._base.text import format_size, quote
from ..bases import find
from ..bases import load as load_basis
from ..bases.base import Basis
from ..data.sources import is_stream
from ..estimators import SummaryRegressor
from ..estimators.facts import FittedModel, ModelFacts
from ..estimators.paths import Family
from . import errors, fit, inputs, overview, sensitivity, sites
from .errors import Errors, LabeledRows, compute_errors
from .fit import Spectrum, compute_spectrum, restore_family
from .inputs import Background, Curve, choose_background, compute_curves
from .sensitivity import Sensitivity, leave_one_out
from .sites import SentSummary, add_up, compute_spread, open_summaries


@dataclass
class ReportMaterial:
    """A model, the data given with it, and everything that a report computes from both."""

    model: Any
    file: str
    target: int = 0
    rows: LabeledRows | None = None
    sent: tuple[SentSummary, ...] = ()
    given_basis: Basis | None = None
    folders: tuple[Path, ...] = ()  #: where a basis may lie

    @cached_property
    def facts(self) -> ModelFacts:
        """The facts that the model states about itself and the label."""
        return self.model.facts(self.target)

    @cached_property
    def basis(self) -> Basis | None:
        """The basis: given, stored in the model, found beside the summaries, or in use in this process."""
        digest = self.facts.basis_digest
        if self.given_basis is not None and digest is not None and self.given_basis.digest != digest:
            raise ValueError(
                f"basis is {self.given_basis.digest[:12]}, but the model needs the basis {digest[:12]}: pass that one"
            )
        if self.given_basis is not None or self.facts.basis is not None or digest is None:
            return self.given_basis or self.facts.basis
        summaries = [one.summary for one in self.sent]
        summaries += [] if self.facts.summary is None else [self.facts.summary]
        attached = next((one.known_basis for one in summaries if one.known_basis is not None), None)
        if attached is not None and attached.digest == digest:
            return attached
        folders = [*self.folders, *(one.folder for one in summaries if one.folder is not None)]
        return find(digest, list(dict.fromkeys(folders)))

    @property
    def tuning(self) -> Tuning | None:
        """The values of λ that were tried, and their scores."""
        return self.facts.tuning

    @cached_property
    def family(self) -> Family | None:
        """The functions of every λ."""
        return None if self.tuning is None else restore_family(self.facts, self.basis)

    @cached_property
    def spectrum(self) -> Spectrum | str:
        """The spectrum, or why there is none."""
        return compute_spectrum(self.facts, self.basis)

    @cached_property
    def background(self) -> Background | None:
        """Rows whose other inputs stay fixed while one input varies."""
        return choose_background(self.facts, None if self.rows is None else self.rows.rows)

    @cached_property
    def curves(self) -> list[Curve]:
        """Partial dependence, the input that matters most first."""
        background = self.background
        return [] if background is None else compute_curves(self.model, background, self.family, self.target)

    @cached_property
    def overall(self) -> Errors | None:
        """The errors on the given rows."""
        return None if self.rows is None else compute_errors(self.rows.y, self.rows.predicted)

    @cached_property
    def sensitivity(self) -> Sensitivity | str:
        """The sensitivity of the fit to each site, or why it cannot be computed."""
        if not self.sent and not isinstance(self.model, SummaryRegressor):
            return (
                "The sensitivity of the fit to each site needs a summary from every site, and this model was not "
                "fitted to summaries."
            )
        if not self.sent:
            return (
                "The sensitivity of the fit to each site is computed from the sites' summaries alone: pass them with "
                "--summaries (summaries= in Python)."
            )
        if not all(one.stands_alone for one in self.sent):
            return (
                "Each of these summaries holds only a share of the noise. Neither one of them nor a sum that lacks one "
                "is protected, so no site can be left out."
            )
        try:
            return leave_one_out(self.model, list(self.sent), self.basis, self.target)
        except ValueError as error:
            return f"No site could be left out: {error}."

    @cached_property
    def label_spread(self) -> float | None:
        """The standard deviation of the label, from sums or from the given rows."""
        if self.facts.summary is not None:
            return compute_spread(self.facts.summary, self.target)
        return None if self.rows is None or self.facts.privacy is not None else float(np.std(self.rows.y))

    @cached_property
    def mismatch(self) -> str:
        """A sentence if the summaries are not those that the model was fitted to, else an empty one."""
        summary = self.facts.summary
        if not self.sent or summary is None:
            return ""
        total = add_up(list(self.sent))
        same = total.n_rows == summary.n_rows and np.array_equal(total.feature_label_sum, summary.feature_label_sum)
        if same:
            return ""
        return (
            f"These summaries cover {total.n_rows:,} rows, but the model was fitted to {summary.n_rows:,}: statements "
            "about sites describe the summaries, not this model."
        )


def _find_target(model: FittedModel, target: Any) -> int:
    """Find the position of a label that is given by name or number."""
    facts = model.facts()
    n, names = facts.n_targets, facts.targets
    if target is None:
        return 0
    if isinstance(target, str) and target in names:
        return names.index(target)
    if isinstance(target, (int, np.integer)) and not isinstance(target, bool) and 0 <= target < n:
        return int(target)
    known = f"one of {', '.join(names)}, or " if names else ""
    raise ValueError(f"target must be {known}a number from 0 to {n - 1}, got {quote(target)}")


@dataclass(frozen=True)
class Report:
    """A page: ``save`` it, or let a notebook show it.

    Attributes
    ----------
    html : the page, one file with nothing fetched from anywhere
    missing : sentences that say what the page does not show, and what to pass for it
    """

    html: str = field(repr=False)
    missing: tuple[str, ...] = ()

    def save(self, path: PathLike) -> None:
        """Write the page to a file, which appears only once it is complete."""
        with open_atomic(path) as file:
            file.write(self.html.encode("utf-8"))

    def __repr__(self) -> str:
        return f"Report({format_size(len(self.html.encode('utf-8')))}; save it with .save('report.html'))"

    def _repr_html_(self) -> str:
        frame = 'width="100%" height="720" sandbox="allow-scripts" title="Report of a model"'
        return f'<iframe {frame} srcdoc="{escape(self.html)}"></iframe>'


def report(
    model: Any,
    path: PathLike | None = None,
    *,
    X: Any = None,
    y: Any = None,
    sites: Any = None,
    summaries: Any = None,
    basis: Any = None,
    target: Any = None,
    file: str | None = None,
    title: str | None = None,
) -> Report:
    """Write a page on a fitted model: data and sites, errors, λ and its path, inputs, what left sites.

    A section that needs rows or summaries which were not given says so in a sentence.

    Parameters
    ----------
    model : a fitted model of unpooled, or the path of one
    path : where to write the page; None writes no file
    X, y : labeled rows for residuals, calibration and errors, preferably rows that the model has not seen
    sites : the site of every row of X
    summaries : the sites' summaries, as a mapping from names, or a list of summaries or of their files: for what left
        each site, and for the sensitivity of the fit to it (leaving out one site, from the summaries alone)
    basis : a fitted basis or the path of one, for models of summaries; it is found if it lies beside the summaries
    target : the label to show, by name or number, if there are several
    file : the name of the model's file, for the commands that the page shows
    title : the title of the page

    Returns
    -------
    Report
        With ``html``, ``missing`` and ``save``.

    Notes
    -----
    The page of a private model shows only what is in the model's file. If X and y are given, the page is for the data
    owner only, and says so.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> model = up.SpectralRegressor().fit(X[:150], np.sin(6 * X[:150, 0]))
    >>> page = up.report(model, X=X[150:], y=np.sin(6 * X[150:, 0]))
    >>> page.html.startswith("<!doctype html>")
    True
    """
    folders: tuple[Path, ...] = ()
    if isinstance(model, (str, os.PathLike)):
        file, folders = Path(model).name if file is None else file, (Path(model).absolute().parent,)
        model = models.load(model)
    if type(model) not in models.CLASSES.values():
        raise ValueError(f"model must be a fitted one of {', '.join(models.CLASSES)}; got {quote(model)}")
    check_fitted(model)
    place = _find_target(model, target)
    if (X is None) != (y is None) or (sites is not None and X is None):
        raise ValueError(
            "X and y must be given together, and sites only with both: pass the rows, their labels and their sites"
        )
    if X is not None and is_stream(X):
        raise ValueError("X must hold rows in memory; for rows in a file use `unpooled report --data`")
    if basis is not None and not isinstance(basis, Basis):
        basis = load_basis(basis)
    rows = None if X is None else LabeledRows.of(model, X, y, sites, place)
    sent = () if summaries is None else tuple(open_summaries(summaries))
    made = write_page(ReportMaterial(model, file or "my.model", place, rows, sent, basis, folders), title)
    if path is not None:
        made.save(path)
    return made


def write_page(known: ReportMaterial, title: str | None = None) -> Report:
    """Write the page."""
    if known.facts.privacy is not None and any(one.summary.privacy is None for one in known.sent):
        raise ValueError(
            "summaries have no noise, but the model is private: a page with both would reveal unprotected sums; "
            "leave summaries out"
        )
    if known.facts.privacy is not None:
        known = replace(known, model=copy_as_saved(known.model))  # so that the page can show nothing else of it
    data: dict[str, Any] = {}
    sections = [
        sites.show_sites(known),
        errors.show_errors(known),
        sensitivity.show_sensitivity(known),
        fit.show_choice(known, data),
        inputs.show_inputs(known, data),
        sites.show_what_left(known),
        overview.show_prediction(known),
    ]
    name = title or f"{known.facts.name}: {known.facts.label}"
    head, foot = overview.head(known, name), overview.foot(known)
    assets = files(__package__) / "assets"
    style, script = ((assets / asset).read_text("utf-8") for asset in ("report.css", "report.js"))
    html = page_of_sections(name, head, sections, data, foot, style=style, script=script)
    return Report(html, tuple(sentence for section in sections for sentence in section.missing))
