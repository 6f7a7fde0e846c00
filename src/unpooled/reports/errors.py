"""Errors of predictions: at every site, along the prediction, and beside what was expected.

From predictions beside labels come the residuals, calibration, coverage, and the error at every site.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from .._base.arrays import Floats, to_numpy
from .._base.html import Section, pair
from .._base.rows import read_site_labels
from .._base.text import format_number
from ..estimators.facts import FittedModel
from .svg import Axis, Chart, figure, row_chart

if TYPE_CHECKING:
    from .writing import Gathered


BINS = 10
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
DRAWN = 400  # single rows in a picture
KEPT = 1000  # rows that are kept with their inputs


@dataclass(frozen=True)
class Labelled:
    """Labels, what the model predicts for them, their sites, and a few of the rows themselves."""

    y: Floats
    predicted: Floats
    sites: np.ndarray | None = None
    rows: Floats | None = None  #: (≤ KEPT, d)
    labels: Floats | None = None  #: of those rows

    @classmethod
    def of(cls, model: FittedModel, X: Any, y: Any, sites: Any = None, target: int = 0) -> Labelled:
        """Rows in memory; X as ``predict`` takes it."""
        predicted = _column(to_numpy(model.predict(X)), target)
        labels = _column(np.asarray(to_numpy(y), dtype=float), target)
        if labels.shape != predicted.shape:
            raise ValueError(f"y has {len(labels)} rows and X has {len(predicted)}: they must have the same number")
        if not np.all(np.isfinite(labels)):
            raise ValueError("y contains NaN or infinity: drop such rows first")
        drawn = np.random.default_rng(0).permutation(len(labels))[:KEPT]
        rows = np.asarray(to_numpy(X), dtype=float)
        return cls(labels, predicted, read_site_labels("sites", sites, len(labels)), rows[drawn], labels[drawn])

    @property
    def residuals(self) -> Floats:
        """y - f(x)."""
        return self.y - self.predicted

    def drawn(self) -> np.ndarray:
        """Some rows at random, always the same."""
        return np.random.default_rng(1).permutation(len(self.y))[:DRAWN]


def _column(values: np.ndarray, target: int) -> Floats:
    values = values if values.ndim == 1 else values[:, min(target, values.shape[1] - 1)]
    return np.asarray(values, dtype=float)


@dataclass(frozen=True)
class Errors:
    """Of some rows: their number, root mean square error and mean error with their standard errors, and R²."""

    n: int
    rmse: float
    uncertainty: float  #: of rmse, as if rows were independent
    bias: float  #: mean of f(x) - y
    bias_uncertainty: float
    r2: float | None


def errors_of(y: Floats, predicted: Floats) -> Errors:
    """The errors of one group of rows."""
    residual = y - predicted
    squares = residual * residual
    rmse = float(np.sqrt(np.mean(squares)))
    spread = float(np.std(squares)) / math.sqrt(len(y))
    variance = float(np.var(y))
    return Errors(
        len(y),
        rmse,
        spread / (2 * rmse) if rmse > 0 else 0.0,
        -float(np.mean(residual)),
        float(np.std(residual)) / math.sqrt(len(y)),
        1.0 - float(np.mean(squares)) / variance if variance > 0 else None,
    )


def by_site(rows: Labelled) -> dict[str, Errors]:
    """The errors at every site, largest first."""
    if rows.sites is None:
        return {}
    found = {}
    for site in np.unique(rows.sites):
        at = rows.sites == site
        found[str(site)] = errors_of(rows.y[at], rows.predicted[at])
    return dict(sorted(found.items(), key=lambda item: -item[1].rmse))


@dataclass(frozen=True)
class Bin:
    """Rows of about the same prediction."""

    n: int
    predicted: float  #: mean
    observed: float  #: mean label
    uncertainty: float  #: of ``observed``
    low: float  #: tenth percentile of the residuals
    middle: float
    high: float  #: ninetieth


def binned(rows: Labelled) -> list[Bin]:
    """Rows in groups of equal size, by their prediction."""
    order = np.argsort(rows.predicted, kind="stable")
    parts = [part for part in np.array_split(order, min(BINS, max(len(order) // 5, 1))) if len(part)]
    found = []
    for part in parts:
        residual, y = rows.residuals[part], rows.y[part]
        low, middle, high = np.quantile(residual, [0.1, 0.5, 0.9])
        spread = float(np.std(y)) / math.sqrt(len(part))
        found.append(Bin(len(part), float(np.mean(rows.predicted[part])), float(np.mean(y)), spread, low, middle, high))
    return found


def slope_of(rows: Labelled) -> float | None:
    """The slope of labels on predictions: below one, predictions are spread too far."""
    spread = float(np.var(rows.predicted))
    if spread == 0:
        return None
    return float(np.mean((rows.predicted - rows.predicted.mean()) * (rows.y - rows.y.mean()))) / spread


def coverage(rows: Labelled, noise: float) -> list[tuple[float, float]]:
    """(nominal, actual): the share of rows within f(x) ± z·noise, z that of a normal law."""
    sizes = np.abs(rows.residuals)
    return [(level, float(np.mean(sizes <= float(ndtri(0.5 + level / 2)) * noise))) for level in LEVELS]


MOST_SITES = 40
EXTREME = (0.002, 0.998)  # quantiles of the residuals that a picture has room for


def errors(known: Gathered) -> Section:
    """Errors by site, residuals, calibration."""
    section = Section("errors", "Errors")
    rows, found = known.rows, known.overall
    if rows is None or found is None:
        return section.lack(
            "Residuals, calibration and the errors at every site need labeled rows, best those that the model has not "
            "seen: give them with --data (X= and y= in Python)."
        )
    r2 = "" if found.r2 is None else f", which explains {found.r2:.1%} of the variance of {known.facts.label}"
    section.say(
        f"On the {found.n:,} rows that were given the root mean square error is {format_number(found.rmse)} "
        f"(± {format_number(2 * found.uncertainty, 2)}){r2}. Predictions are {_side(found.bias, found.rmse)} on "
        f"average."
    )
    if rows.sites is None:
        section.lack("Name the column of the sites with --site (sites= in Python) to see the error at each.")
    else:
        _sites(known, section)
    section.add("<h3>Residuals</h3>", pair(_residuals(known), _histogram(known)))
    _calibration(known, section)
    return section


def _side(bias: float, rmse: float) -> str:
    if abs(bias) <= 0.002 * rmse:
        return "neither too high nor too low"
    return f"{format_number(abs(bias), 2)} too {'high' if bias > 0 else 'low'}"


def _sites(known: Gathered, section: Section) -> None:
    assert known.rows is not None
    assert known.overall is not None
    found = by_site(known.rows)
    names = list(found)
    best, worst = names[-1], names[0]
    if len(names) > 1:
        section.say(
            f"Errors are largest at {worst} ({format_number(found[worst].rmse)}) and smallest at {best} "
            f"({format_number(found[best].rmse)})."
        )
    shown = names[:MOST_SITES]
    if len(shown) < len(names):
        section.lack(f"The chart has the {MOST_SITES} largest errors of {len(names)}; the table has all.")
    each = [found[name] for name in shown]
    doubts, doubts_of_bias = [2 * e.uncertainty for e in each], [2 * e.bias_uncertainty for e in each]
    size = _dots(shown, [e.rmse for e in each], doubts, f"root mean square error of {known.facts.label}")
    size.upright(known.overall.rmse, words="all rows")
    side = _dots(shown, [e.bias for e in each], doubts_of_bias, f"prediction minus {known.facts.label}, mean")
    side.upright(0.0)
    table = [
        [
            name,
            f"{e.n:,}",
            format_number(e.rmse),
            format_number(e.uncertainty, 2),
            format_number(e.bias),
            _or_none(e.r2),
        ]
        for name, e in found.items()
    ]
    header = ["site", "rows", "root mean square error", "its standard error", "mean error", "R²"]
    said = "The error at each site, with twice its standard error"
    other = "Too high or too low: the mean error at each site, with twice its standard error"
    mean = [[row[0], row[4]] for row in table]
    section.add(
        pair(
            figure("site-errors", size, said, header, table),
            figure("site-bias", side, other, ["site", "mean error"], mean),
        )
    )


def _dots(names: list[str], values: list[float], doubts: list[float], label: str) -> Chart:
    """A row for each name: a value, and how far it may be off."""
    low, high = np.subtract(values, doubts), np.add(values, doubts)
    chart = row_chart(Axis.over(label, low, high), names)
    chart.spans(low, high, range(len(names)))
    words = [f"{name}: {format_number(v)} ± {format_number(d, 2)}" for name, v, d in zip(names, values, doubts)]
    return chart.dots(values, range(len(names)), words, radius=4.5)


def _or_none(value: float | None) -> str:
    return "none" if value is None else format_number(value)


def _residuals(known: Gathered) -> str:
    rows = known.rows
    assert rows is not None
    bins, drawn = binned(rows), rows.drawn()
    ends = np.quantile(rows.residuals, EXTREME)
    x = [one.predicted for one in bins]
    lows, highs = [b.low for b in bins], [b.high for b in bins]
    chart = Chart(
        Axis.over("predicted", rows.predicted[drawn], x), Axis.over("label minus prediction", ends, lows, highs)
    )
    chart.level(0.0)
    words = [
        f"predicted {format_number(p)}, off by {format_number(r)}"
        for p, r in zip(rows.predicted[drawn], rows.residuals[drawn])
    ]
    chart.dots(rows.predicted[drawn], rows.residuals[drawn], words, kind="row", radius=2.5)
    chart.band(x, lows, highs)
    chart.line(x, [b.middle for b in bins])
    chart.dots(x, [b.middle for b in bins], [f"median {format_number(b.middle)}, {b.n:,} rows" for b in bins], radius=3)
    said = f"{len(drawn)} rows at random, the median, and the band that holds eight of ten"
    table = [
        [format_number(b.predicted), f"{b.n:,}", format_number(b.low), format_number(b.middle), format_number(b.high)]
        for b in bins
    ]
    return figure("residuals", chart, said, ["predicted, mean", "rows", "10th percentile", "median", "90th"], table)


def _histogram(known: Gathered) -> str:
    rows = known.rows
    assert rows is not None
    low, high = np.quantile(rows.residuals, EXTREME)
    high = high if high > low else low + 1.0
    counts, edges = np.histogram(rows.residuals, bins=31, range=(float(low), float(high)))
    share = counts / len(rows.y)
    middles = (edges[:-1] + edges[1:]) / 2
    chart = Chart(Axis.over("label minus prediction", edges), Axis.over("share of the rows", share, zero=True))
    chart.bars(edges, np.zeros(len(share)), share)
    words = [f"{format_number(a)} to {format_number(b)}: {s:.1%}" for a, b, s in zip(edges, edges[1:], share)]
    chart.dots(middles, share, words, kind="ghost", radius=4)
    chart.upright(0.0)
    table = [
        [format_number(a), format_number(b), f"{n:,}", f"{s:.2%}"]
        for a, b, n, s in zip(edges, edges[1:], counts, share)
    ]
    said = "How large residuals are; the outermost four in a thousand lie beyond the chart"
    return figure("histogram", chart, said, ["from", "to", "rows", "share"], table)


def _calibration(known: Gathered, section: Section) -> None:
    rows = known.rows
    assert rows is not None
    bins, slope = binned(rows), slope_of(rows)
    x, y = [b.predicted for b in bins], np.asarray([b.observed for b in bins])
    spread = 2 * np.asarray([b.uncertainty for b in bins])
    both = Axis.over("predicted, mean of a tenth of the rows", x, y - spread, y + spread)
    chart = Chart(both, Axis("observed, mean", both.low, both.high))
    chart.line([both.low, both.high], [both.low, both.high], kind="even")
    chart.line(x, y)
    words = [
        f"predicted {format_number(b.predicted)}, observed {format_number(b.observed)} ({b.n:,} rows)" for b in bins
    ]
    chart.dots(x, y, words, radius=4)
    table = [
        [format_number(b.predicted), format_number(b.observed), format_number(b.uncertainty, 2), f"{b.n:,}"]
        for b in bins
    ]
    header = ["predicted, mean", "observed, mean", "its standard error", "rows"]
    figures = [figure("calibration", chart, "Where predictions lie, labels should lie on average", header, table)]
    section.add("<h3>Calibration</h3>")
    if slope is not None:
        section.say(
            f"Labels grow by {format_number(slope)} for each unit that predictions grow: 1 is calibrated, less means "
            f"that "
            "predictions are spread too far."
        )
    noise = None if known.tuning is None else known.tuning.error
    if noise is not None:
        inside = dict(coverage(rows, noise))
        section.say(
            f"Intervals for new labels, made from the error that the model expects, hold {inside[0.5]:.0%} of the "
            f"labels where they should hold 50%, and {inside[0.9]:.0%} where they should hold 90%."
        )
        figures.append(_coverage(known, noise))
        section.add(pair(*figures))
    else:
        section.add(pair(*figures))
        section.lack("The model gives no error that it expects of a new row, so there is no coverage to check.")


def _coverage(known: Gathered, noise: float) -> str:
    assert known.rows is not None
    found = coverage(known.rows, noise)
    nominal, actual = [a for a, _ in found], [b for _, b in found]
    axis = Axis.over("nominal coverage", nominal, actual)
    chart = Chart(axis, Axis("share of the rows inside", axis.low, axis.high))
    chart.line([axis.low, axis.high], [axis.low, axis.high], kind="even")
    chart.line(nominal, actual)
    chart.dots(nominal, actual, [f"nominal {a:.0%}, actual {b:.1%}" for a, b in found], radius=4)
    said = f"Labels inside f(x) ± z·{format_number(noise)}, the error that the model expects of a new row"
    return figure("coverage", chart, said, ["nominal", "actual"], [[f"{a:.0%}", f"{b:.2%}"] for a, b in found])
