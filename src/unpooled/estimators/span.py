"""Common parts of estimators: work on an engine, predictions, and models in the span of a basis.

An engine is neither cloned nor pickled. Scores take whatever ``fit`` takes: arrays, frames with labels among their
columns, and rows that are streamed. Models in the span of a basis share their predictions and the way to their
coefficients.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._base.arrays import Array, eps, namespace, to_numpy
from .._base.checks import check_fitted, check_X
from .._base.declared import Arrays, DeclaredEstimator, Header
from .._base.kinds import Whole
from .._base.rows import Rows, Slice, concatenate
from .._solvers.predictors import BasisPredictor, KernelExpansion
from ..bases import Basis
from ..bases.maps import read_array
from ..data.sources import is_stream, open_labeled, split_named_columns, stream_rows
from ..engines import Engine
from ..kernels import Precomputed
from .facts import ModelFacts, ShowsChoices, describe
from .stored import LAM_FOUND, Entries, SpanFunction


class OnEngine(BaseEstimator):
    """An estimator with the parameter ``engine``."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without a connection to a cluster."""
        state: dict[str, Any] = dict(super().__getstate__())
        engine = state["engine"]
        if not (engine is None or isinstance(engine, str) or (isinstance(engine, Engine) and engine.is_picklable)):
            state["engine"] = None
        return state


CHUNK = 1 << 16  # rows that are predicted at once


def predict_in_precision(f: Any, X: Array) -> Array:
    """f(X) of an expansion: single precision in gives single precision out only where the model is single too."""
    if isinstance(f, KernelExpansion) and eps(f.coef) < eps(X):
        X = namespace(X).astype(X, namespace(X).float64)
    values: Array = f.predict(X)
    return values


class _FittedFunction(ShowsChoices, RegressorMixin, DeclaredEstimator):
    """A regressor that becomes a function, by a fit or from a file."""

    def __sklearn_clone__(self) -> Any:
        """A clone works on the same engine, since a client of a cluster cannot be copied, and on the same basis."""
        parameters = self.get_params(deep=False)
        kept = {name: value for name, value in parameters.items() if name in ("engine", "basis")}
        again = type(self)(**kept | {k: clone(v, safe=False) for k, v in parameters.items() if k not in kept})
        requests = ("_metadata_request", "_sklearn_output_config")  # what scikit-learn's own clones take along
        again.__dict__ |= {name: copy.deepcopy(vars(self)[name]) for name in requests if name in vars(self)}
        return again

    def _settle_expansion(self, predictor: Any, kernel: Any, b: Any, one_target: bool) -> None:
        """Become f = Σ c_i K(·, x_i) + b, with the attributes that follow from it."""
        self.predictor_, self.kernel_, self.one_target_ = predictor, kernel, one_target
        self.intercept_ = float(b[0]) if one_target else b

    def _settle_span(self, predictor: BasisPredictor, coef: np.ndarray, one_target: bool) -> None:
        """Become f = aᵀφ + b in the span of a basis, with the attributes that follow from it."""

        self.predictor_, self.kernel_, self.one_target_ = predictor, predictor.map.kernel, one_target
        self.coef_ = coef[:, 0] if one_target else coef
        self.intercept_ = float(predictor.intercept[0]) if one_target else predictor.intercept


class ExpansionModel(_FittedFunction):
    """f = Σ c_i K(·, x_i) + b, learned from rows in memory; ``kernel`` is among the parameters."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, Precomputed) or (
            isinstance(self.kernel, str) and self.kernel == "precomputed"
        )
        return tags

    @property
    def dual_coef_(self) -> Array:
        """c_i, the coefficients of the rows in ``predictor_.points``: of shape (n,), or (n, T) for several targets."""
        coef = self.predictor_.coef
        return coef[:, 0] if self.one_target_ else coef

    def predict(self, X: Any) -> Array:
        """Predict f(X), in the array library and on the device of X.

        Parameters
        ----------
        X : array, tensor or frame of shape (n, d); for "precomputed" the n×N matrix of the kernel

        Returns
        -------
        array of shape (n,), or (n, T) for several targets
        """
        check_is_fitted(self, "predictor_")
        values = predict_in_precision(self.predictor_, check_X(self, X, reset=False))
        return values[:, 0] if self.one_target_ else values


class ReadsRows(_FittedFunction):
    """A regressor that learns from files and Dask collections as well, and predicts for them."""

    def _values_for(self, X: Any) -> Callable[[Array], Array]:
        """The function that gives f, of shape (n, T), at the rows of X or of a piece of it."""
        raise NotImplementedError

    def predict(self, X: Any) -> Array:
        """Predict f(X), in the order of the rows.

        Parameters
        ----------
        X : rows without labels: arrays, tensors, frames, a path to Parquet or CSV, a Dask collection

        Returns
        -------
        array of shape (n,), or (n, T) for several targets
        """
        check_fitted(self)
        values_of = self._values_for(X)
        if is_stream(X):
            parts = [to_numpy(values_of(rows.X)) for rows in stream_rows(self, X)]
            values = np.concatenate(parts) if parts else np.empty((0, np.size(self.intercept_)))
        else:
            values = values_of(check_X(self, X, reset=False))
        return values[:, 0] if self.one_target_ else values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute R² of the predictions for ``X``, as scikit-learn defines it; of several targets the mean.

        Parameters
        ----------
        X : rows as ``fit`` takes them, which are read once
        y : labels, or the name of their column
        sample_weight : one weight per row, or the name of a column

        Returns
        -------
        float
        """
        if not is_stream(X):
            X, y, sample_weight = split_named_columns(self, X, y, sample_weight)
            return float(super().score(X, y, sample_weight))
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
    """Predict for columns that were selected by name and are without names here; shape (n, T)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(to_numpy(model.predict(X)), dtype=np.float64).reshape(len(X), -1)


class SpanModel(ReadsRows):
    """f = aᵀφ + b with the features φ of a basis."""

    def _values_for(self, X: Any) -> Callable[[Array], Array]:
        return lambda rows: self.predictor_.predict(namespace(rows).astype(rows, namespace(rows).float64))

    def coefficients_in(self, basis: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Return a (M, T) and b (T,) if the model is of that basis, else None.

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
        self.basis_digest_, self.coef_matrix_ = basis.digest, coef
        offsets = np.asarray(intercept, dtype=float)
        self._settle_span(BasisPredictor(basis.map_, basis.coefficients_ @ coef, offsets), coef, one_target)
        self.n_features_in_ = basis.n_features_in_
        if hasattr(basis, "feature_names_in_"):
            self.feature_names_in_ = basis.feature_names_in_
        else:
            self.__dict__.pop("feature_names_in_", None)

    def _describe(self, target: int, kind: str, **facts: Any) -> ModelFacts:
        """The facts that are named, and those of every model in the span of a basis."""
        own = {"kernel": self.kernel_, "basis_digest": self.basis_digest_, "n_features": len(self.coef_matrix_)}
        return describe(self, target, kind, **own, **facts)


class _ValidationPart:
    """The λ that were tried on validation rows, and their errors."""

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        arrays |= {f"validation.{name}": values for name, values in model.validation_.items()}

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        model.validation_ = {}
        if "validation.lam" in arrays:
            tried, errors = read_array("validation.lam", arrays, ndim=1), read_array("validation.error", arrays, ndim=2)
            if (
                errors.shape != (len(tried), len(model.predictor_.intercept))
                or np.any(tried <= 0)
                or np.any(errors < 0)
            ):
                raise ValueError("the number of errors does not match the number of λ that were tried")
            model.validation_ = {"error": errors, "lam": tried}


class BasisAverage(SpanModel):
    """f̄ = Σ_j |D_j| f_j / Σ_j |D_j| of ridge regressions f_j = a_jᵀφ + b_j of one site's rows each (Guo, Lin and Zhou
    2017, (4)).

    A federated study of the kind "average" makes it; ``settle`` takes the sums that sites have sent.

    Attributes
    ----------
    lam_ : float
    n_sites_ : int
    coef_, intercept_, predictor_ : the average
    validation_ : dict, the λ that were tried and their validation errors, if λ was chosen
    """

    _saved: ClassVar = (SpanFunction(flag=False), Entries(lam_=LAM_FOUND, n_sites_=Whole(1)), _ValidationPart())

    def settle(
        self,
        basis: Basis,
        coef: np.ndarray,
        intercept: np.ndarray,
        lam: float,
        targets: tuple[str, ...],
        n_sites: int,
        validation: Mapping[str, np.ndarray],
    ) -> BasisAverage:
        """Become the average with coefficients (M, T) and intercepts (T,); ``validation`` is empty for a given λ."""
        self._settle(basis, coef, intercept, len(targets) == 1)
        self.lam_, self.targets_, self.n_sites_ = float(lam), targets, int(n_sites)
        self.validation_ = dict(validation)
        return self

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        return self._describe(target, "Kernel regression, a BasisAverage", lam=self.lam_, n_sites=self.n_sites_)
