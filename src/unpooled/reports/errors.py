"""Errors of predictions on labeled rows: residuals, calibration, coverage, and the error at every site."""

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
    from .writing import ReportMaterial


BINS = 10
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
DRAWN = 400  # individual rows in a picture
KEPT = 1000  # rows that are kept with their inputs


@dataclass(frozen=True)
class LabeledRows:
    """Labels, their predictions and sites, and a sample of the rows themselves."""

    y: Floats
    predicted: Floats
    sites: np.ndarray | None = None
    rows: Floats | None = None  #: (≤ KEPT, d)
    labels: Floats | None = None  #: of those rows

    @classmethod
    def of(cls, model: FittedModel, X: Any, y: Any, sites: Any = None, target: int = 0) -> LabeledRows:
        """Predict rows in memory; X is as ``predict`` takes it."""
        predicted = _column(to_numpy(model.predict(X)), target)
        labels = _column(np.asarray(to_numpy(y), dtype=float), target)
        if labels.shape != predicted.shape:
            raise ValueError(f"y has {len(labels)} rows, but X has {len(predicted)}: pass a label for every row")
        if not np.all(np.isfinite(labels)):
            raise ValueError("y contains NaN or infinity: drop such rows first")
        drawn = np.random.default_rng(0).permutation(len(labels))[:KEPT]
        rows = np.asarray(to_numpy(X), dtype=float)
        return cls(labels, predicted, read_site_labels("sites", sites, len(labels)), rows[drawn], labels[drawn])

    @property
    def residuals(self) -> Floats:
        """y - f(x)."""
        return self.y - self.predicted

    def draw_sample(self) -> np.ndarray:
        """Draw a random sample of rows, always the same one."""
        return np.random.default_rng(1).permutation(len(self.y))[:DRAWN]


def _column(values: np.ndarray, target: int) -> Floats:
    values = values if values.ndim == 1 else values[:, min(target, values.shape[1] - 1)]
    return np.asarray(values, dtype=float)


@dataclass(frozen=True)
class Errors:
    """Errors on a group of rows: root mean square error and mean error with their standard errors, and R²."""

    n: int
    rmse: float
    uncertainty: float  #: of rmse, as if rows were independent
    bias: float  #: mean of f(x) - y
    bias_uncertainty: float
    r2: float | None


def compute_errors(y: Floats, predicted: Floats) -> Errors:
    """Compute the errors on a group of rows."""
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


def _errors_by_site(rows: LabeledRows) -> dict[str, Errors]:
    """Compute the errors at every site, largest first."""
    if rows.sites is None:
        return {}
    groups = {}
    for site in np.unique(rows.sites):
        at = rows.sites == site
        groups[str(site)] = compute_errors(rows.y[at], rows.predicted[at])
    return dict(sorted(groups.items(), key=lambda item: -item[1].rmse))


@dataclass(frozen=True)
class _Bin:
    """A group of rows with similar predictions."""

    n: int
    predicted: float  #: mean
    observed: float  #: mean label
    uncertainty: float  #: of ``observed``
    low: float  #: tenth percentile of the residuals
    middle: float
    high: float  #: ninetieth


def _bin_rows(rows: LabeledRows) -> list[_Bin]:
    """Divide the rows into groups of equal size, by their prediction."""
    order = np.argsort(rows.predicted, kind="stable")
    parts = [part for part in np.array_split(order, min(BINS, max(len(order) // 5, 1))) if len(part)]
    bins = []
    for part in parts:
        residual, y = rows.residuals[part], rows.y[part]
        low, middle, high = np.quantile(residual, [0.1, 0.5, 0.9])
        spread = float(np.std(y)) / math.sqrt(len(part))
        bins.append(_Bin(len(part), float(np.mean(rows.predicted[part])), float(np.mean(y)), spread, low, middle, high))
    return bins


def _compute_slope(rows: LabeledRows) -> float | None:
    """Compute the slope of labels on predictions; below one, predictions vary too much."""
    spread = float(np.var(rows.predicted))
    if spread == 0:
        return None
    return float(np.mean((rows.predicted - rows.predicted.mean()) * (rows.y - rows.y.mean()))) / spread


def _compute_coverage(rows: LabeledRows, noise: float) -> list[tuple[float, float]]:
    """Pairs (nominal, actual) of the share of rows within f(x) ± z·noise, with z from the normal distribution."""
    sizes = np.abs(rows.residuals)
    return [(level, float(np.mean(sizes <= float(ndtri(0.5 + level / 2)) * noise))) for level in LEVELS]


MOST_SITES = 40
EXTREME = (0.002, 0.998)  # quantiles of the residuals that a picture has room for


def show_errors(known: ReportMaterial) -> Section:
    """Write the section on errors: by site, residuals, calibration."""
    section = Section("errors", "Errors")
    rows, overall = known.rows, known.overall
    if rows is None or overall is None:
        return section.lack(
            "Residuals, calibration and errors by site need labeled rows, preferably rows that the model has not seen: "
            "pass them with --data (X= and y= in Python)."
        )
    r2 = "" if overall.r2 is None else f", which explains {overall.r2:.1%} of the variance of {known.facts.label}"
    section.say(
        f"On the {overall.n:,} rows given, the root mean square error is {format_number(overall.rmse)} "
        f"(± {format_number(2 * overall.uncertainty, 2)}){r2}. "
        f"Predictions are {_describe_bias(overall.bias, overall.rmse)} on average."
    )
    if rows.sites is None:
        section.lack("To see the error at each site, name the column of sites with --sites (sites= in Python).")
    else:
        _sites(known, section)
    section.add("<h3>Residuals</h3>", pair(_residuals(known), _histogram(known)))
    _calibration(known, section)
    return section


def _describe_bias(bias: float, rmse: float) -> str:
    if abs(bias) <= 0.002 * rmse:
        return "neither too high nor too low"
    return f"{format_number(abs(bias), 2)} too {'high' if bias > 0 else 'low'}"


def _sites(known: ReportMaterial, section: Section) -> None:
    assert known.rows is not None
    assert known.overall is not None
    each_site = _errors_by_site(known.rows)
    names = list(each_site)
    best, worst = names[-1], names[0]
    if len(names) > 1:
        section.say(
            f"Errors are largest at {worst} ({format_number(each_site[worst].rmse)}) and smallest at {best} "
            f"({format_number(each_site[best].rmse)})."
        )
    shown = names[:MOST_SITES]
    if len(shown) < len(names):
        section.lack(
            f"The chart shows the {MOST_SITES} sites with the largest errors, of {len(names)}; the table lists all."
        )
    each = [each_site[name] for name in shown]
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
        for name, e in each_site.items()
    ]
    header = ["site", "rows", "root mean square error", "its standard error", "mean error", "R²"]
    said = "The error at each site, with twice its standard error"
    other = "The mean error at each site, with twice its standard error"
    mean = [[row[0], row[4]] for row in table]
    section.add(
        pair(
            figure("site-errors", size, said, header, table),
            figure("site-bias", side, other, ["site", "mean error"], mean),
        )
    )


def _dots(names: list[str], values: list[float], doubts: list[float], label: str) -> Chart:
    """Draw a row for each name: a value and its uncertainty."""
    low, high = np.subtract(values, doubts), np.add(values, doubts)
    chart = row_chart(Axis.over(label, low, high), names)
    chart.spans(low, high, range(len(names)))
    words = [f"{name}: {format_number(v)} ± {format_number(d, 2)}" for name, v, d in zip(names, values, doubts)]
    return chart.dots(values, range(len(names)), words, radius=4.5)


def _or_none(value: float | None) -> str:
    return "none" if value is None else format_number(value)


def _residuals(known: ReportMaterial) -> str:
    rows = known.rows
    assert rows is not None
    bins, drawn = _bin_rows(rows), rows.draw_sample()
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
    said = f"{len(drawn)} random rows, the median, and the band that contains 80% of the residuals"
    table = [
        [format_number(b.predicted), f"{b.n:,}", format_number(b.low), format_number(b.middle), format_number(b.high)]
        for b in bins
    ]
    return figure("residuals", chart, said, ["predicted, mean", "rows", "10th percentile", "median", "90th"], table)


def _histogram(known: ReportMaterial) -> str:
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
    said = "The distribution of the residuals; the outermost 0.4% lie outside the chart"
    return figure("histogram", chart, said, ["from", "to", "rows", "share"], table)


def _calibration(known: ReportMaterial, section: Section) -> None:
    rows = known.rows
    assert rows is not None
    bins, slope = _bin_rows(rows), _compute_slope(rows)
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
    figures = [
        figure(
            "calibration",
            chart,
            "The mean label against the mean prediction; on the straight line, predictions are calibrated",
            header,
            table,
        )
    ]
    section.add("<h3>Calibration</h3>")
    if slope is not None:
        section.say(
            f"Labels grow by {format_number(slope)} per unit of prediction: a slope of 1 means calibrated, and "
            "a smaller one means that predictions vary too much."
        )
    noise = None if known.tuning is None else known.tuning.error
    if noise is not None:
        inside = dict(_compute_coverage(rows, noise))
        section.say(
            f"Intervals built from the error that the model expects contain {inside[0.5]:.0%} of the labels at a "
            f"nominal 50%, and {inside[0.9]:.0%} at a nominal 90%."
        )
        figures.append(_coverage(known, noise))
        section.add(pair(*figures))
    else:
        section.add(pair(*figures))
        section.lack("The model does not estimate the error of a new prediction, so coverage cannot be checked.")


def _coverage(known: ReportMaterial, noise: float) -> str:
    assert known.rows is not None
    shares = _compute_coverage(known.rows, noise)
    nominal, actual = [a for a, _ in shares], [b for _, b in shares]
    axis = Axis.over("nominal coverage", nominal, actual)
    chart = Chart(axis, Axis("share of the rows inside", axis.low, axis.high))
    chart.line([axis.low, axis.high], [axis.low, axis.high], kind="even")
    chart.line(nominal, actual)
    chart.dots(nominal, actual, [f"nominal {a:.0%}, actual {b:.1%}" for a, b in shares], radius=4)
    said = f"The share of labels within f(x) ± z·{format_number(noise)}, the error that the model expects"
    return figure("coverage", chart, said, ["nominal", "actual"], [[f"{a:.0%}", f"{b:.2%}"] for a, b in shares])
