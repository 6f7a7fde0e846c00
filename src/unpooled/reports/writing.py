"""up.report: one page to open for a fitted model, or for the study it comes from."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from .. import models
from ..bases import load as load_basis
from ..bases.base import Basis
from ..estimators.span import check_fitted
from ..files import PathLike, atomic
from ..messages import shown, size
from ..sources import is_stream
from .facts import about
from .facts.errors import Labelled
from .facts.sites import opened
from .gathering import Gathered, target_of
from .parts import page
from .sections import errors, fit, inputs, overview, sites


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
        with atomic(path) as file:
            file.write(self.html.encode("utf-8"))

    def __repr__(self) -> str:
        return f"Report({size(len(self.html.encode('utf-8')))}; save it with .save('report.html'))"

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
    if type(model) not in models._CLASSES.values():
        raise ValueError(f"model must be a fitted one of {', '.join(models._CLASSES)}; got {shown(model)}")
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
    if known.private and any(one.summary.privacy is None for one in known.sent):
        raise ValueError(
            "summaries have no noise and the model is private: what they say may not stand beside it; leave them out"
        )
    known.model = _as_released(known.model)
    data: dict[str, Any] = {}
    sections = [
        sites.data_and_sites(known),
        errors.errors(known),
        sites.sensitivity(known),
        fit.choice(known, data),
        inputs.inputs(known, data),
        sites.what_left(known),
        overview.predicting(known),
    ]
    name = title or f"{type(known.model).__name__}: {known.label}"
    head, foot = overview.head(known, name), overview.foot(known)
    return Report(page(name, head, sections, data, foot), tuple(s for section in sections for s in section.missing))


def _as_released(model: Any) -> Any:
    """A private model as its file has it, so that nothing else can be shown of it."""
    return type(model)._from_parts(*model._to_parts()) if about.private(model) else model
