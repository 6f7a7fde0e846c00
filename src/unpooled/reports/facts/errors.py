"""Predictions beside labels: residuals, calibration, coverage, and the error at every site."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ...arrays import to_numpy
from ...filters import Floats
from ...sources import site_labels

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
    def of(cls, model: Any, X: Any, y: Any, sites: Any = None, target: int = 0) -> Labelled:
        """Rows in memory; X as ``predict`` takes it."""
        predicted = _column(to_numpy(model.predict(X)), target)
        labels = _column(np.asarray(to_numpy(y), dtype=float), target)
        if labels.shape != predicted.shape:
            raise ValueError(f"y has {len(labels)} rows and X has {len(predicted)}: they must have the same number")
        if not np.all(np.isfinite(labels)):
            raise ValueError("y contains NaN or infinity: drop such rows first")
        drawn = np.random.default_rng(0).permutation(len(labels))[:KEPT]
        rows = np.asarray(to_numpy(X) if not hasattr(X, "columns") else X, dtype=float)
        return cls(labels, predicted, site_labels("sites", sites, len(labels)), rows[drawn], labels[drawn])

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


def binned(rows: Labelled, bins: int = BINS) -> list[Bin]:
    """Rows in groups of equal size, by their prediction."""
    order = np.argsort(rows.predicted, kind="stable")
    parts = [part for part in np.array_split(order, min(bins, max(len(order) // 5, 1))) if len(part)]
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
