"""What the models in the span of a basis share: predicting, and knowing their coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags

from ..arrays import Array, namespace
from ..bases.base import Basis
from ..inputs import check_X
from ..messages import shown
from ..notebooks import InNotebooks
from ..predictors import BasisPredictor
from ..sources import is_stream, stream_rows
from .scoring import ScoresRows


class SpanModel(InNotebooks, ScoresRows, BaseEstimator):
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


def check_fitted(model: Any) -> None:
    """scikit-learn's own check asks for a ``fit``, and a model from summaries has ``fit_summary``."""
    if not hasattr(model, "predictor_"):
        raise NotFittedError(f"This {type(model).__name__} instance is not fitted yet: fit it before using it")


def check_center(center: Any) -> bool | str:
    """False, True or "public"."""
    if isinstance(center, (bool, np.bool_)):
        return bool(center)
    if isinstance(center, str) and center == "public":
        return center
    raise ValueError(f"center must be False, True or 'public', got {shown(center)}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be {' or '.join(repr(c) for c in choices)}, got {shown(value)}")
    return value
