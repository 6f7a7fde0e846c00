"""up.plot: pictures of paths, spectra, numbers of blocks, privacy and sites, as matplotlib axes.

Every function takes ``ax`` to draw into and returns the axes. Without it a new figure is made: pyplot's, where pyplot
has been imported, so that ``plt.show()`` shows it, and one that belongs to nobody otherwise: ``ax.figure.savefig``.
matplotlib is an extra: ``pip install 'unpooled[plot]'``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import theory
from .._base.checks import check_choice
from .._base.drawing import Curve, Dots, Guide, Picture, draw
from .._base.path import SearchPath
from .._base.text import quote
from .._solvers.averaging.search import BlockPath
from ..bases.base import Basis
from ..estimators.facts import ModelFacts, ShowsChoices
from ..planning.private import Plan
from .fit import spectrum_of, spectrum_of_basis
from .sensitivity import leave_one_out
from .sites import opened

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = ["frontier", "partition", "path", "sites", "spectrum"]


def frontier(plan: Plan, ax: Axes | None = None, *, error: bool = False) -> Axes:
    """What a privacy budget would buy: predicted R² against ε, for three kinds of targets.

    Parameters
    ----------
    plan : what ``up.plan`` returned
    ax : axes to draw into
    error : draw 1 - R², the share of the variance that is left, on a logarithmic axis

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> public = np.random.default_rng(0).uniform(size=(60, 2))
    >>> ax = up.plot.frontier(up.plan(5000, public, epsilon=[0.3, 3.0]))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('ε', 'predicted R²')
    """
    if not isinstance(plan, Plan):
        raise ValueError(f"plan must be what up.plan returns, got {quote(plan, 60)}")
    return draw(plan.picture(error), ax)


def path(model: Any, ax: Axes | None = None, **line: Any) -> Axes:
    """What every λ scored, or every number of steps of a descent, and the choice.

    Parameters
    ----------
    model : a fitted model that chose from a path, or its ``path_``
    ax : axes to draw into
    line : passed on to matplotlib for every line

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> ax = up.plot.path(up.SpectralRegressor().fit(X, np.sin(6 * X[:, 0])))
    >>> ax.get_xlabel(), ax.get_xscale()
    ('λ', 'log')
    """
    facts = facts_of(model)
    tried = model if facts is None else facts.path
    if isinstance(tried, SearchPath):
        return tried.plot(ax, **line)
    raise ValueError(
        f"model has no path: it must be a fitted model that chose among several lam, got {quote(model, 60)}"
    )


def facts_of(model: Any) -> ModelFacts | None:
    """The facts of a fitted model of this library; None of anything else."""
    return model.facts() if isinstance(model, ShowsChoices) and model.__sklearn_is_fitted__() else None


def spectrum(model: Any, ax: Axes | None = None, *, basis: Any = None) -> Axes:
    """The eigenvalues that a model was learned in, from the largest down, and its λ.

    Parameters
    ----------
    model : a fitted model, or a fitted basis
        Of a model of second order the eigenvalues are those of the rows' covariance; otherwise those of the public
        sample, or of at most 800 points that the model holds.
    ax : axes to draw into
    basis : the basis of a model of summaries of first order, which does not hold it

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.3)).fit(np.linspace(0, 1, 50)[:, None])
    >>> up.plot.spectrum(basis).get_ylabel()
    'eigenvalue'
    """
    facts = facts_of(model)
    if facts is not None:
        found = spectrum_of(facts, basis)
    elif isinstance(model, Basis) and model.__sklearn_is_fitted__():
        found = spectrum_of_basis(model)
    else:
        raise ValueError(f"model must be a fitted model or a fitted basis, got {quote(model, 60)}")
    if isinstance(found, str):
        raise ValueError(f"model has no spectrum to draw: {found}")
    eigenvalues = Curve(np.arange(1, len(found.sigma) + 1), found.sigma, f"eigenvalues of {found.source}", marker=".")
    guides = []
    if facts is not None and facts.lam is not None:
        dimension = float(found.dimension(facts.lam))
        guides.append(Guide(facts.lam, f"λ = {facts.lam:.3g}, effective dimension {dimension:.3g}"))
    words = ("number of the eigenvalue", "eigenvalue")
    return draw(Picture(*words, [eigenvalues], guides=guides, xscale="log", yscale="log", legend="small"), ax)


def partition(model: Any, ax: Axes | None = None, *, s: float | None = None) -> Axes:
    """The error of an average against the number of blocks m, and how many blocks theory supports.

    The error is the best on rows held out, over what was tried with m blocks. The limit is N^{2/(3+s)}, the most that
    (9) of paper 001 allows for any target (:func:`unpooled.theory.largest_supported_blocks`); constants are unknown, so
    it is an order of magnitude.

    Parameters
    ----------
    model : a fitted AveragedRegressor that tried several numbers of blocks
    ax : axes to draw into
    s : the exponent of the effective dimension; estimated from the model's points if left out

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.random.default_rng(0).uniform(size=(800, 1))
    >>> model = up.AveragedRegressor(n_blocks=[1, 2, 4], verbose=0).fit(X, np.sin(6 * X[:, 0]))
    >>> up.plot.partition(model).get_xlabel()
    'blocks'
    """
    facts = facts_of(model)
    tried = None if facts is None else facts.path
    if facts is None or not isinstance(tried, BlockPath) or len(tried) < 2:
        raise ValueError(
            "model must be a fitted AveragedRegressor that tried several numbers of blocks: n_blocks='auto'"
        )
    best, order = tried.best_of_each(), np.argsort(tried.n_blocks)
    curve = Curve(tried.n_blocks[order], best[order], "best on rows held out", marker="o")
    look = {"markersize": 9, "color": "black"}
    dots = [Dots(tried.n_blocks[tried.chosen], best[tried.chosen], "chosen", look)]
    guides = []
    s = _exponent(facts) if s is None else float(s)
    if facts.n_rows is not None and s is not None:
        limit = theory.largest_supported_blocks(facts.n_rows, s, filter=facts.filter)
        guides.append(Guide(limit, f"limit (9), s = {s:.2f}: {limit:.0f} blocks", upright=True))
    label = "mean bounded loss" if tried.is_robust else "error (root mean square)"
    return draw(Picture("blocks", label, [curve], dots, guides, xscale="log", legend="small"), ax)


def _exponent(facts: ModelFacts) -> float | None:
    if facts.expansion is None:
        return None
    try:
        return min(max(theory.dimension_exponent(*facts.expansion, max_rows=500).s, 0.0), 1.0)
    except ValueError:  # too few different rows to tell
        return None


def sites(
    model: Any, summaries: Any, ax: Axes | None = None, *, basis: Any = None, what: str = "change", target: int = 0
) -> Axes:
    """What the fit owes to each site: every site left out in turn, from the summaries alone.

    Parameters
    ----------
    model : a fitted SummaryRegressor
    summaries : the sites' summaries: a mapping from names, or a list of them or of the paths of their files
    ax : axes to draw into
    basis : the basis, where it is not found by itself
    what : {"change", "error"}
        "change" is how far predictions move without the site, in root mean square. "error", for summaries of second
        order, is the error at the site's own rows of the model that has learned from them and of the one that has not.
    target : the label, by number, where there are several

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 1))
    >>> basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.3)).fit(X[:50])
    >>> parts = {name: up.Summary.of(basis, X[i::3], np.sin(6 * X[i::3, 0]), order=2) for i, name in enumerate("abc")}
    >>> model = up.SummaryRegressor().fit_summary(sum(parts.values()))
    >>> [text.get_text() for text in sorted(up.plot.sites(model, parts).get_yticklabels(), key=lambda t: t.get_text())]
    ['a', 'b', 'c']
    """
    check_choice("what", what, ("change", "error"))
    found = leave_one_out(model, opened(summaries), basis, target)
    if what == "error" and found.sites[0].error_with is None:
        raise ValueError("what='error' needs summaries of second order without noise: use what='change'")
    if what == "change":
        each = sorted(found.sites, key=lambda one: one.change)
        label = "change of predictions without the site (root mean square)"
        picture = Picture(label, bars=[one.change for one in each], names=[one.name for one in each])
    else:
        each = sorted(found.sites, key=lambda one: one.error_without or 0.0)
        rows = range(len(each))
        inside = Dots([one.error_with for one in each], rows, "model of all sites")
        outside = Dots([one.error_without for one in each], rows, "model that has not seen the site")
        label = "error at the site's own rows (root mean square)"
        picture = Picture(label, dots=[inside, outside], names=[one.name for one in each], legend="small")
    return draw(replace(picture, height=1.2 + 0.28 * len(each)), ax)
