"""The public rows of LESS, and the sites it reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bases import Basis
from ..blocks.base import concatenate
from ..inputs import check_weights, check_X
from ..sources import is_stream, open_unlabeled, site_labels

MOST = 20_000  # rows of a stream that are taken as the public sample


def public_rows(
    basis: Basis, X: Any, y: Any, public: Any, sample_weight: Any, random_state: Any
) -> tuple[Any, np.ndarray | None]:
    """The rows the basis is learned from, and their weights: the public ones, or X itself."""
    if public is None and not is_stream(X):
        basis.__dict__.pop("feature_names_in_", None)
        weights = None
        if sample_weight is not None and not isinstance(sample_weight, str):
            weights = check_weights(sample_weight, check_X(basis, X, reset=True))
        if isinstance(y, str) and hasattr(X, "columns"):
            dropped = [name for name in (y, sample_weight) if isinstance(name, str)]
            X = X[[name for name in X.columns if name not in dropped]]
        return X, weights
    if public is None:
        source = open_unlabeled(X, y, sample_weight)
        return _drawn(source, random_state)
    if is_stream(public):
        return _drawn(open_unlabeled(public, None, None), random_state)
    return public, None


def _drawn(source: Any, random_state: Any) -> tuple[Any, None]:
    """At most MOST rows of a stream, drawn at random; data frames keep the names of the columns."""
    rows = np.arange(source.n_rows)
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, MOST, replace=False))
    found = concatenate([part.read() for part in source.slices(rows)]).X
    if source.names is None:
        return found, None
    import pyarrow as pa

    return pa.table({name: found[:, j] for j, name in enumerate(source.names)}), None


def site_counts(sites: Any, n: int) -> list[dict[str, Any]]:
    """The name and the number of rows of every site."""
    if sites is None:
        return []
    labels = site_labels("sites", sites, n)
    assert labels is not None
    names, counts = np.unique(labels, return_counts=True)
    return [{"name": str(name), "rows": int(count)} for name, count in zip(names, counts)]
