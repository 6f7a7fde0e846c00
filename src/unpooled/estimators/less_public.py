"""The public rows of LESS, and the sites it reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bases import Basis
from ..blocks.base import concatenate
from ..inputs import check_weights, check_X
from ..sources import is_stream, named_columns, open_unlabeled, site_labels

MOST = 20_000  # rows of a stream that are taken as the public sample


def public_rows(
    basis: Basis, X: Any, y: Any, public: Any, sample_weight: Any, random_state: Any
) -> tuple[Any, np.ndarray | None]:
    """The rows the basis is learned from, and their weights: the public ones, or X itself."""
    if public is None and not is_stream(X):
        X, _, weights = named_columns(basis, X, y, sample_weight)
        return X, None if weights is None else check_weights(weights, check_X(basis, X, reset=True))
    if public is None:
        return _drawn(open_unlabeled(X, y, sample_weight), random_state)
    # The public sample may have been cut from the same table: labels and weights are no inputs there either.
    named = [y, sample_weight] if not isinstance(y, (list, tuple)) else [*y, sample_weight]
    named = [name for name in named if isinstance(name, str)]
    if is_stream(public):
        return _drawn(open_unlabeled(public, None, None), random_state, named)
    if named and any(name in named for name in getattr(public, "columns", [])):
        public = public[[name for name in public.columns if name not in named]]
    return public, None


def _drawn(source: Any, random_state: Any, dropped: list[str] | None = None) -> tuple[Any, np.ndarray | None]:
    """At most MOST rows of a stream, drawn at random; data frames keep the names of the columns."""
    rows = np.arange(source.n_rows)
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, MOST, replace=False))
    found = concatenate([part.read() for part in source.slices(rows)])
    if source.names is None:
        return found.X, found.weights
    import pyarrow as pa

    columns = {name: found.X[:, j] for j, name in enumerate(source.names) if name not in (dropped or [])}
    return pa.table(columns), found.weights


def site_counts(sites: Any, n: int) -> list[dict[str, Any]]:
    """The name and the number of rows of every site."""
    if sites is None:
        return []
    labels = site_labels("sites", sites, n)
    assert labels is not None
    names, counts = np.unique(labels, return_counts=True)
    return [{"name": str(name), "rows": int(count)} for name, count in zip(names, counts)]
