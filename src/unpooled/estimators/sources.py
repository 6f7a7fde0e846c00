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
    labeled, one_target = _labeled(estimator, X, y, sample_weight, sites, unlabeled is not None)
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


def _labeled(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, sites: Any, beside_unlabeled: bool
) -> tuple[Source, bool]:
    if is_stream(X):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        source = _stream(X, y, sample_weight, sites)
        source.site_labels = _labels("sites", source.site_labels, source.n_rows)
        _remember(estimator, source)
        return source, source.one_target
    estimator.__dict__.pop("feature_names_in_", None)
    X = check_X(estimator, X, reset=True)
    Y, one_target = check_Y(y, X)
    weights = check_weights(sample_weight, X)
    if weights is not None or (sample_weight is not None and beside_unlabeled):
        # As they are given: beside unlabeled rows, which weigh 1, more than their ratios counts.
        given = np.broadcast_to(np.asarray(to_numpy(sample_weight), dtype=float), (X.shape[0],))
        if np.max(given) <= 1e100:
            weights = given
        elif beside_unlabeled:
            raise ValueError("sample_weight has values beyond 1e100 beside unlabeled rows, which weigh 1: rescale it")
    labels = _labels("sites", sites, X.shape[0])
    rows = Rows(X, Y, weights)
    if weights is not None and not np.all(weights > 0):
        kept = np.flatnonzero(weights > 0)
        rows, labels = rows.take(kept), None if labels is None else labels[kept]
    return ArraySource(rows, getattr(estimator, "feature_names_in_", None), labels), one_target


def _unlabeled(estimator: BaseEstimator, U: Any, sites: Any) -> Source:
    if is_stream(U):
        source = _stream(_by_name(estimator, U, "unlabeled"), None, None, sites)
        source.site_labels = _labels("unlabeled_sites", source.site_labels, source.n_rows)
        return source
    if hasattr(U, "__len__") and len(U) == 0:
        if getattr(U, "ndim", 0) == 2 and U.shape[1] not in (0, estimator.n_features_in_):
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
    source = _stream(_by_name(estimator, X, "X"), None, None, None)
    if source.n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {source.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    for piece in source.pieces:
        yield piece.read()


def _by_name(estimator: BaseEstimator, X: Any, argument: str) -> Any:
    """A stream with the features that the model knows, in their order; an error where it has others."""
    known = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    if is_dask(X):
        if not known or not hasattr(X, "columns"):
            return X
        columns = {str(column): column for column in X.columns}
        missing = [name for name in known if name not in columns]
        if missing:
            raise ValueError(f"{argument} lacks the columns {', '.join(missing)}")
        return X[[columns[name] for name in known]]
    given = X if isinstance(X, Parquet) else Parquet(X)
    if known and given.features is not None and list(given.features) != known:
        raise ValueError(f"{argument} has the features {', '.join(given.features)}; the model has {', '.join(known)}")
    return Parquet(given.path, known) if known else given


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
    unlabeled = (
        any(_is_missing(label) for label in labels)
        if labels.dtype == object
        else labels.dtype.kind in "fmM" and bool(np.any(labels != labels))
    )
    if unlabeled:
        raise ValueError(f"{name} has rows without a label: give every row its site")
    return np.asarray([str(label) for label in labels]) if labels.dtype == object else labels


def _is_missing(label: Any) -> bool:
    """None, NaN, NaT, pandas' NA."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # NA has no truth value
        return True
