"""up.report: one page to open for a fitted model, or for the study it comes from.

Everything that a report of one model can know is worked out once, in :class:`Gathered`.
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
from .errors import Errors, Labelled, errors_of
from .fit import Spectrum, family_of, spectrum_of
from .inputs import Background, Curve, background_of, curves_of
from .sensitivity import Sensitivity, leave_one_out
from .sites import Sent, opened, spread_of, total_of


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

    @cached_property
    def facts(self) -> ModelFacts:
        """What the model answers about itself and the label."""
        return self.model.facts(self.target)

    @cached_property
    def basis(self) -> Basis | None:
        """The basis: the one given, the model's own, one beside the summaries, or one alive in this process."""
        digest = self.facts.basis_digest
        if self.given_basis is not None and digest is not None and self.given_basis.digest != digest:
            raise ValueError(f"the model is of the basis {digest[:12]}, and {self.given_basis.digest[:12]} was given")
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
        """What was tried to choose λ."""
        return self.facts.tuning

    @cached_property
    def family(self) -> Family | None:
        """The functions of every λ."""
        return None if self.tuning is None else family_of(self.facts, self.basis)

    @cached_property
    def spectrum(self) -> Spectrum | str:
        """The spectrum, or why there is none."""
        return spectrum_of(self.facts, self.basis)

    @cached_property
    def background(self) -> Background | None:
        """Rows whose other inputs stay as they are while one moves."""
        return background_of(self.facts, None if self.rows is None else self.rows.rows)

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
        if self.facts.summary is not None:
            return spread_of(self.facts.summary, self.target)
        return None if self.rows is None or self.facts.privacy is not None else float(np.std(self.rows.y))

    @cached_property
    def mismatch(self) -> str:
        """A sentence where the summaries are not those of the model; empty where they are."""
        summary = self.facts.summary
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


def target_of(model: FittedModel, target: Any) -> int:
    """The position of a label that is given by name or number."""
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
    missing : sentences on what it does not show, and what to give for it
    """

    html: str = field(repr=False)
    missing: tuple[str, ...] = ()

    def save(self, path: PathLike) -> None:
        """Write the page to a file, which appears once all of it is written."""
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
    """One page on a fitted model: data and sites, errors, λ and its path, inputs, what left each site, how to predict.

    What needs rows or summaries that are not given is said in a sentence in its place.

    Parameters
    ----------
    model : a fitted model of unpooled, or the path of one
    path : where to write the page; None writes nothing
    X, y : labeled rows, best those the model has not seen, for residuals, calibration and errors
    sites : the site of every row of X
    summaries : the sites' summaries, as a mapping from names, or a list of them or of their files: for what left each
        site, and for the sensitivity of the fit to it (leave-one-site-out, from the summaries alone)
    basis : a fitted basis or the path of one, for models of summaries; found by itself beside the summaries
    target : the label to show, by name or number, where there are several
    file : the name of the model's file, for the commands that the page shows
    title : of the page

    Returns
    -------
    Report
        With ``html``, ``missing`` and ``save``.

    Notes
    -----
    Of a private model nothing is shown that is not in its file, unless X and y are given: the page is then the data
    owner's own, and says so.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> model = up.SpectralRegressor(center=True).fit(X[:150], np.sin(6 * X[:150, 0]))
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
    place = target_of(model, target)
    if (X is None) != (y is None) or (sites is not None and X is None):
        raise ValueError("X and y go together, and sites with both: give the rows, their labels, and their sites")
    if X is not None and is_stream(X):
        raise ValueError("X must hold rows in memory; for rows in a file use `unpooled report --data`")
    if basis is not None and not isinstance(basis, Basis):
        basis = load_basis(basis)
    rows = None if X is None else Labelled.of(model, X, y, sites, place)
    sent = () if summaries is None else tuple(opened(summaries))
    made = written(Gathered(model, file or "my.model", place, rows, sent, basis, folders), title)
    if path is not None:
        made.save(path)
    return made


def written(known: Gathered, title: str | None = None) -> Report:
    """The page of what is known."""
    if known.facts.privacy is not None and any(one.summary.privacy is None for one in known.sent):
        raise ValueError(
            "summaries have no noise and the model is private: what they say may not stand beside it; leave them out"
        )
    if known.facts.privacy is not None:
        known = replace(known, model=copy_as_saved(known.model))  # so that nothing else can be shown of it
    data: dict[str, Any] = {}
    sections = [
        sites.data_and_sites(known),
        errors.errors(known),
        sensitivity.sensitivity(known),
        fit.choice(known, data),
        inputs.inputs(known, data),
        sites.what_left(known),
        overview.predicting(known),
    ]
    name = title or f"{known.facts.name}: {known.facts.label}"
    head, foot = overview.head(known, name), overview.foot(known)
    assets = files(__package__) / "assets"
    style, script = ((assets / asset).read_text("utf-8") for asset in ("report.css", "report.js"))
    html = page_of_sections(name, head, sections, data, foot, style=style, script=script)
    return Report(html, tuple(sentence for section in sections for sentence in section.missing))
