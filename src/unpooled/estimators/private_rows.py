"""Rows of a private fit: first what they say of themselves (how many, how wide, named how), their values only later.

Budget is charged between the two steps, so whatever can be refused is refused in the first. Rows that say nothing about
themselves until they are read are paid for before either step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from .._base.arrays import is_foreign, to_numpy
from .._base.checks import check_X
from .._base.rows import Source, concatenate
from .._base.text import shown
from ..data.sources import is_parquet, is_stream, named_columns, open_all, open_labeled


@dataclass
class PrivateRows:
    """Rows that nobody has looked at yet; ``owner`` knows the columns."""

    owner: BaseEstimator
    X: Any
    y: Any
    n_rows: int
    source: Source | None = None

    def read(self, label_bound: float) -> tuple[np.ndarray, np.ndarray]:
        """X, and y moved into [-c, c]. What is not a finite number is refused, and of nothing else a word is said."""
        if self.source is not None:
            rows = concatenate([part.read() for part in self.source.slices(np.arange(self.n_rows))])
            X, y = rows.X, rows.Y
        else:
            X, y = check_X(self.owner, self.X, reset=False), self.y
        return to_numpy(X).astype(np.float64), np.clip(_labels(y), -label_bound, label_bound)


def must_be_read(X: Any) -> bool:
    """Whether nothing can be said of rows, not even how many there are, without a look at their values."""
    if is_stream(X):
        return not is_parquet(X)
    return not _says_its_shape(X)


def described(owner: BaseEstimator, X: Any, y: Any, *, reset: bool) -> PrivateRows:
    """How many rows there are, with their width and names compared to what ``owner`` knows, or remembered by it.

    Lists, CSV and other things without a shape have to be read for that: see :func:`must_be_read`.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if is_stream(X):
        if isinstance(y, (list, tuple)) and len(y) != 1:
            raise ValueError(f"y must be one label, got {shown(y)}")
        source = open_all(owner, X, y, None, None, None, None).labeled if reset else open_labeled(owner, X, y, None)
        return PrivateRows(owner, X, y, source.n_rows, source)
    if reset:
        owner.__dict__.pop("feature_names_in_", None)
    X, y, _ = named_columns(owner, X, y, None)
    if not _says_its_shape(X):
        X = check_X(owner, X, reset=reset)
    elif is_foreign(X):
        if reset:
            owner.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != owner.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but {owner.n_features_in_} features are expected")
    else:
        validate_data(owner, X, reset=reset, skip_check_array=True)  # compares names and width, and nothing else
    n = int(X.shape[0])
    y = y if hasattr(y, "shape") else np.asarray(y)
    shape = tuple(y.shape)
    if len(shape) == 2 and shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=4)
    elif len(shape) != 1:
        raise ValueError(f"y must be one label a row, of shape ({n},); got shape {shape}")
    if shape[0] != n:
        raise ValueError(f"X has {n} rows and y has {shape[0]}: they must have the same number")
    return PrivateRows(owner, X, y, n)


def _says_its_shape(X: Any) -> bool:
    shape = getattr(X, "shape", None)
    if issparse(X) or not (isinstance(shape, tuple) and len(shape) == 2 and min(shape) > 0):
        return False
    return not isinstance(X, np.ndarray) or X.dtype.kind in "fiub"


def _labels(y: Any) -> np.ndarray:
    values = to_numpy(y) if is_foreign(y) else np.asarray(y)
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must hold real numbers")
    try:
        values = values.astype(np.float64).ravel()
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers; strings or mixed values were found in it") from None
    if not np.all(np.isfinite(values)):
        raise ValueError("y contains NaN or infinity (inf): drop or impute such rows before fitting")
    return values
