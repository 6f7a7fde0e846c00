"""Scores on what ``fit`` takes: arrays, frames with labels among their columns, and rows that are streamed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..arrays import to_numpy
from ..blocks.base import Rows, Slice, concatenate
from ..sources import is_stream, named_columns, open_labeled

CHUNK = 1 << 16  # rows that are predicted at once


class ScoresRows(RegressorMixin):
    """scikit-learn's mixin for regressors, for those that learn from files and Dask collections as well."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions for ``X``, as scikit-learn defines it; the mean over targets where there are several.

        Parameters
        ----------
        X : rows as ``fit`` takes them, which are read once
        y : labels, or the name of their column
        sample_weight : one a row, or the name of a column

        Returns
        -------
        float
        """
        if not is_stream(X):
            X, y, sample_weight = named_columns(self, X, y, sample_weight)
            return float(super().score(X, y, sample_weight))
        from .span import check_fitted  # here and not above: what it checks builds on this class

        check_fitted(self)
        source = open_labeled(self, X, y, sample_weight)
        chunks = (rows for piece in source.pieces for rows in Slice(piece).chunks(CHUNK))
        # Predictions take the place of inputs, which need not all be there at once.
        seen = concatenate([Rows(values_by_name(self, rows.X), rows.Y, rows.weights) for rows in chunks])
        assert seen.Y is not None
        if seen.Y.shape != seen.X.shape:
            raise ValueError(f"y names {seen.Y.shape[1]} label(s), and the model predicts {seen.X.shape[1]}")
        return float(r2_score(seen.Y, seen.X, sample_weight=seen.weights))


def values_by_name(model: Any, X: np.ndarray) -> np.ndarray:
    """What ``predict`` says, of shape (n, T), of columns that were taken by name and have none here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(to_numpy(model.predict(X)), dtype=np.float64).reshape(len(X), -1)
