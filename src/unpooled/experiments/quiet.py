"""Fits that would warn of what an experiment is about, without the warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..estimators import AveragedRegressor, SummaryRegressor
from ..summaries import Summary

MEANT = (".*blocks are far more than", ".*public rows stand for")  # more blocks than theory supports; LESS has a floor


@contextmanager
def on_purpose() -> Iterator[None]:
    """Many blocks and few public rows are no news meanwhile."""
    with warnings.catch_warnings():
        for message in MEANT:
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def averaged(model: AveragedRegressor, X: np.ndarray, Y: np.ndarray, **more: Any) -> AveragedRegressor:
    """``model.fit(X, Y)``."""
    with on_purpose():
        return model.fit(X, Y, **more)


def less(summary: Summary, lam: Any, n_features: Any = "all", center: Any = False) -> SummaryRegressor:
    """LESS from a summary."""
    with on_purpose():
        return SummaryRegressor(lam=lam, n_features=n_features, center=center).fit_summary(summary)
