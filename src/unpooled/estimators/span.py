"""Common parts of estimators: work on an engine, scores on streamed rows, and models in the span of a basis.

An engine is neither cloned nor pickled. Scores take whatever ``fit`` takes: arrays, frames with labels among their
columns, and rows that are streamed. Models in the span of a basis share their predictions and the way to their
coefficients.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from .._base.arrays import Array, namespace, to_numpy
from .._base.checks import check_fitted, check_X
from .._base.rows import Rows, Slice, concatenate
from .._solvers.predictors import BasisPredictor
from ..bases import Basis
from ..data.sources import is_stream, named_columns, open_labeled, stream_rows
from ..engines import Processes, Threads
from .facts import ModelFacts, ShowsChoices, describe


class OnEngine(BaseEstimator):
    """An estimator with the parameter ``engine``."""

    def __sklearn_clone__(self) -> Any:
        """A clone works on the same engine, since a client of a cluster cannot be copied, and on the same basis."""
        kept = {k: v for k, v in self.get_params(deep=False).items() if k == "engine" or isinstance(v, Basis)}
        others = {k: clone(v, safe=False) for k, v in self.get_params(deep=False).items() if k not in kept}
        return type(self)(**others, **kept)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: a connection to a cluster stays behind."""
        state: dict[str, Any] = dict(super().__getstate__())
        if not (state["engine"] is None or isinstance(state["engine"], (str, Threads, Processes))):
            state["engine"] = None
        return state


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
        from .._base.checks import check_fitted  # here and not above: what it checks builds on this class

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


class SpanModel(ShowsChoices, ScoresRows, BaseEstimator):
    """f = aᵀφ + b with the features φ of a basis."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def predict(self, X: Any) -> Array:
        """f(X), in the order of the rows.

        Parameters
        ----------
        X : rows without labels: arrays, frames, a path to Parquet or CSV, a Dask collection

        Returns
        -------
        array of shape (n,), or (n, T) for several targets
        """
        check_fitted(self)
        if is_stream(X):
            parts = [self.predictor_.predict(np.asarray(rows.X, dtype=float)) for rows in stream_rows(self, X)]
            values = np.concatenate(parts) if parts else np.empty((0, len(self.predictor_.intercept)))
        else:
            X = check_X(self, X, reset=False)
            values = self.predictor_.predict(namespace(X).astype(X, namespace(X).float64))
        return values[:, 0] if self.one_target_ else values

    def coefficients_in(self, basis: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """a (M, T) and b (T,) where the model is of that basis, else None.

        Parameters
        ----------
        basis : a fitted basis

        Returns
        -------
        (array, array) or None
        """
        check_fitted(self)
        return (self.coef_matrix_, self.predictor_.intercept) if basis.digest == self.basis_digest_ else None

    def _settle(self, basis: Basis, coef: np.ndarray, intercept: np.ndarray, one_target: bool) -> None:
        """Become the function with these coefficients."""
        self.basis_digest_ = basis.digest
        self.kernel_ = basis.kernel_
        self.coef_matrix_ = coef
        self.coef_ = coef[:, 0] if one_target else coef
        self.one_target_ = one_target
        self.intercept_ = float(intercept[0]) if one_target else intercept
        self.predictor_ = BasisPredictor(basis.map_, basis.coefficients_ @ coef, np.asarray(intercept, dtype=float))
        self.n_features_in_ = basis.n_features_in_
        if hasattr(basis, "feature_names_in_"):
            self.feature_names_in_ = basis.feature_names_in_
        else:
            self.__dict__.pop("feature_names_in_", None)

    def _describe(self, target: int, kind: str, **facts: Any) -> ModelFacts:
        """The facts that are named, and those of every model in the span of a basis."""
        own = {"kernel": self.kernel_, "basis_digest": self.basis_digest_, "n_features": len(self.coef_matrix_)}
        return describe(self, target, kind, **own, **facts)
