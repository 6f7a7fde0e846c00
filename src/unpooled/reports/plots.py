"""up.plot: pictures of paths, spectra, numbers of blocks, privacy and sites, as matplotlib axes.

Every function takes ``ax`` to draw into and returns the axes. Without it a new figure is made: pyplot's, where pyplot
has been imported, so that ``plt.show()`` shows it, and one that belongs to nobody otherwise: ``ax.figure.savefig``.
matplotlib is an extra: ``pip install 'unpooled[plot]'``.

One picture, which the demo uses, compares ways of learning side by side: the error at every site, and the cost of
sending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import theory
from .._base.checks import check_choice
from .._base.drawing import axes_for, new_panels, plot_block_path, plot_descent, plot_path
from .._base.text import shown
from ..bases.base import Basis
from ..estimators.choices import lam_of
from ..planning.private import frontier
from .fit import points_of, spectrum_of, spectrum_of_basis
from .overview import rows_of
from .site_facts import leave_one_out, opened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = ("#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00")  # Okabe-Ito: for the colour-blind too
MARKERS = "osv^DP"


def plot_comparison(
    names: Sequence[str],
    groups: Sequence[str],
    overall: Sequence[float],
    by_site: Mapping[str, Sequence[float]],
    sent: Sequence[float],
    unit: str,
) -> Figure:
    """A line for each method, with a dot for each site on the left and the bytes that a site sends on the right."""
    figure, (left, right) = new_panels(10.0, 0.34 * len(names) + 1.4, (2.2, 1.0))
    rows = list(range(len(names)))
    left.hlines(rows, *_ends(by_site), color="0.85", linewidth=2, zorder=1)
    for (site, errors), colour, marker in zip(by_site.items(), COLOURS, MARKERS):
        left.scatter(errors, rows, color=colour, marker=marker, s=34, label=site, zorder=2)
    left.scatter(overall, rows, color="black", marker="|", s=180, linewidth=2.5, label="all", zorder=3)
    left.set(yticks=rows, yticklabels=list(names), xlabel=f"error on test rows (RMSE, {unit})")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=6, frameon=False, fontsize=9)
    senders = [row for row in rows if sent[row] > 0]
    right.hlines(senders, 100, [sent[row] for row in senders], color="0.5", linewidth=6)
    for row in rows:
        right.annotate(
            _kilobytes(sent[row]), (max(sent[row], 100), row), (5, 0), textcoords="offset points", va="center"
        )
    right.set(yticks=[], xscale="log", xlim=(100, 20 * max([100, *sent])), xlabel="bytes that a site sends")
    for ax in (left, right):
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="x", color="0.93")
        ax.set_axisbelow(True)
        for row in rows[1:]:
            if groups[row] != groups[row - 1]:
                ax.axhline(row - 0.5, color="0.6", linewidth=0.8)
    return figure


def _kilobytes(size: float) -> str:
    return "nothing" if size == 0 else f"{size / 1000:.1f} kB"


def _ends(by_site: Mapping[str, Sequence[float]]) -> tuple[list[float], list[float]]:
    columns = list(zip(*by_site.values()))
    return [min(column) for column in columns], [max(column) for column in columns]


__all__ = ["frontier", "partition", "path", "sites", "spectrum"]


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
    found = getattr(model, "path_", model)
    for attribute, draw in (("tried", plot_descent), ("n_blocks", plot_block_path), ("criterion_name", plot_path)):
        if hasattr(found, attribute) and (attribute != "n_blocks" or hasattr(found, "chosen")):
            return draw(found, ax, **line)
    raise ValueError(
        f"model has no path: it must be a fitted model that chose among several lam, got {shown(model, 60)}"
    )


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
    known = hasattr(model, "predictor_")
    if not known and not (isinstance(model, Basis) and hasattr(model, "map_")):
        raise ValueError(f"model must be a fitted model or a fitted basis, got {shown(model, 60)}")
    found = spectrum_of(model, basis) if known else spectrum_of_basis(model)
    if isinstance(found, str):
        raise ValueError(f"model has no spectrum to draw: {found}")
    ax = axes_for(ax)
    ax.plot(np.arange(1, len(found.sigma) + 1), found.sigma, marker=".", label=f"eigenvalues of {found.source}")
    lam = lam_of(model) if known else None
    if lam is not None:
        dimension = float(found.dimension(lam))
        ax.axhline(lam, linestyle=":", color="grey", label=f"λ = {lam:.3g}, effective dimension {dimension:.3g}")
    ax.set(xscale="log", yscale="log", xlabel="number of the eigenvalue", ylabel="eigenvalue")
    ax.legend(fontsize="small")
    return ax


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
    tried: Any = getattr(model, "path_", None)
    if not hasattr(tried, "n_blocks") or len(tried.n_blocks) < 2:
        raise ValueError(
            "model must be a fitted AveragedRegressor that tried several numbers of blocks: n_blocks='auto'"
        )
    scores = tried.criterion.reshape(len(tried.n_blocks), tried.criterion.shape[1], -1)
    robust = "n_iter" in tried.candidates
    best = np.nanmin(scores, axis=1).mean(axis=1)
    best = best if robust else np.sqrt(best)
    order = np.argsort(tried.n_blocks)
    ax = axes_for(ax)
    ax.plot(tried.n_blocks[order], best[order], marker="o", label="best on rows held out")
    ax.plot(tried.n_blocks[tried.chosen], best[tried.chosen], "o", markersize=9, color="black", label="chosen")
    n, s = rows_of(model), _exponent(model) if s is None else float(s)
    if n is not None and s is not None:
        limit = theory.largest_supported_blocks(n, s, filter=getattr(model.local, "filter", None))
        ax.axvline(limit, linestyle=":", color="grey", label=f"limit (9), s = {s:.2f}: {limit:.0f} blocks")
    ax.set(xscale="log", xlabel="blocks", ylabel="mean bounded loss" if robust else "error (root mean square)")
    ax.legend(fontsize="small")
    return ax


def _exponent(model: Any) -> float | None:
    found = points_of(model)
    if found is None:
        return None
    try:
        return min(max(theory.dimension_exponent(*found, max_rows=500).s, 0.0), 1.0)
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
    key = "change" if what == "change" else "error_without"
    shown_sites = sorted(found.sites, key=lambda one: float(getattr(one, key)))
    names, rows = [one.name for one in shown_sites], range(len(shown_sites))
    ax = axes_for(ax, height=1.2 + 0.28 * len(names))
    if what == "change":
        ax.barh(rows, [one.change for one in shown_sites])
        ax.set_xlabel("change of predictions without the site (root mean square)")
    else:
        for key, label in (("error_with", "model of all sites"), ("error_without", "model that has not seen the site")):
            ax.plot([float(getattr(one, key)) for one in shown_sites], rows, "o", label=label)
        ax.set_xlabel("error at the site's own rows (root mean square)")
        ax.legend(fontsize="small")
    ax.set_yticks(rows, names)
    return ax
