"""What ``AveragedRegressor.fit`` is given (arrays, frames, Parquet, Dask) as sources of rows, all checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..arrays import to_numpy
from ..blocks.arrays import ArraySource
from ..blocks.base import Rows, Source
from ..blocks.dask import DaskSource, is_dask
from ..blocks.parquet import Parquet, ParquetSource
from ..messages import shown
from .inputs import check_weights, check_X, check_Y


@dataclass
class Opened:
    """The labeled rows and, in the semi-supervised form, the unlabeled ones."""

    labeled: Source
    unlabeled: Source | None
    one_target: bool


def open_all(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, sites: Any, unlabeled: Any, unlabeled_sites: Any
) -> Opened:
    """Sources of everything ``fit`` was given; the number and names of the features are remembered."""
    labeled, one_target = _labeled(estimator, X, y, sample_weight, sites)
    if unlabeled is None:
        if unlabeled_sites is not None:
            raise ValueError("unlabeled_sites was given without unlabeled: give the rows as well")
        return Opened(labeled, None, one_target)
    if unlabeled_sites is not None and sites is None:
        raise ValueError("unlabeled_sites was given without sites: give the site of every labeled row as well")
    others = _unlabeled(estimator, unlabeled, unlabeled_sites)
    if others.n_features != labeled.n_features:
        raise ValueError(f"unlabeled has {others.n_features} features and X has {labeled.n_features}")
    return Opened(labeled, others if others.n_rows else None, one_target)


def _labeled(estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, sites: Any) -> tuple[Source, bool]:
    if is_stream(X):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        source = _stream(X, y, sample_weight, sites)
        _remember(estimator, source)
        return source, source.one_target
    X = check_X(estimator, X, reset=True)
    Y, one_target = check_Y(y, X)
    weights = None
    if check_weights(sample_weight, X) is not None:
        weights = np.broadcast_to(np.asarray(to_numpy(sample_weight), dtype=float), (X.shape[0],))
    labels = _labels("sites", sites, X.shape[0])
    rows = Rows(X, Y, weights)
    if weights is not None and not np.all(weights > 0):
        kept = np.flatnonzero(weights > 0)
        rows, labels = rows.take(kept), None if labels is None else labels[kept]
    return ArraySource(rows, getattr(estimator, "feature_names_in_", None), labels), one_target


def _unlabeled(estimator: BaseEstimator, U: Any, sites: Any) -> Source:
    if is_stream(U):
        return _stream(U, None, None, sites)
    if getattr(U, "ndim", 0) == 2 and U.shape[0] == 0:
        if U.shape[1] not in (0, estimator.n_features_in_):
            raise ValueError(f"unlabeled has {U.shape[1]} features and X has {estimator.n_features_in_}")
        return ArraySource(Rows(np.empty((0, estimator.n_features_in_))), None, None)
    try:
        U = check_X(estimator, U, reset=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"unlabeled: {error}") from None
    return ArraySource(Rows(U), None, _labels("unlabeled_sites", sites, U.shape[0]))


def is_stream(X: Any) -> bool:
    """Whether rows come from a file or a cluster."""
    return isinstance(X, (str, Path, Parquet)) or is_dask(X)


def stream_rows(estimator: BaseEstimator, X: Any) -> Iterator[Rows]:
    """Rows to predict, a piece after the other."""
    if not is_dask(X) and not (isinstance(X, Parquet) and X.features is not None):
        names = getattr(estimator, "feature_names_in_", None)
        X = Parquet(X.path if isinstance(X, Parquet) else X, None if names is None else [str(n) for n in names])
    elif hasattr(estimator, "feature_names_in_") and hasattr(X, "columns"):
        X = X[list(estimator.feature_names_in_)]
    source = _stream(X, None, None, None)
    if source.n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {source.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    for piece in source.pieces:
        yield piece.read()


def _stream(X: Any, y: Any, sample_weight: Any, sites: Any) -> Any:
    if is_dask(X):
        return DaskSource(X, y, sample_weight, sites)
    return ParquetSource(X if isinstance(X, Parquet) else Parquet(X), y, sample_weight, sites)


def _remember(estimator: BaseEstimator, source: Source) -> None:
    estimator.n_features_in_ = source.n_features
    if source.names is not None:
        estimator.feature_names_in_ = np.asarray(source.names, dtype=object)
    else:
        estimator.__dict__.pop("feature_names_in_", None)


def _labels(name: str, sites: Any, n: int) -> np.ndarray | None:
    if sites is None:
        return None
    labels = np.asarray(to_numpy(sites))
    if labels.shape != (n,):
        raise ValueError(f"{name} must hold one label per row: there are {n} rows, got {shown(sites, 40)}")
    if labels.dtype == object:
        if any(label is None or label != label for label in labels):
            raise ValueError(f"{name} has rows without a label: give every row its site")
        labels = np.asarray([str(label) for label in labels])
    elif labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
        raise ValueError(f"{name} has rows without a label: give every row its site")
    return labels
