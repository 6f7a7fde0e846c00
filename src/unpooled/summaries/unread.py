"""What can be refused of rows before anybody has looked at one: by their shape, their names, the schema of a file."""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse

from ..blocks.base import Source
from ..inputs import check_columns, check_X
from ..sources import is_parquet, is_stream, named_columns, open_labeled


def checked(basis: Any, X: Any, y: Any) -> Source | None:
    """Compare width, names, the number of labels and lengths where they are known without a value being read.

    Returns the rows as a source if opening it reads none of them, as with Parquet. None: they are still to be opened,
    and where they do not say their shape (lists, CSV, Dask) they may be refused then.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if is_stream(X):
        if isinstance(y, (list, tuple)) and y and all(isinstance(name, str) for name in y):
            one_label(len(y))
        if not is_parquet(X):
            return None
        source = open_labeled(basis, X, y, None)
        one_label(source.n_outputs)
        return source
    X, y, _ = named_columns(basis, X, y, None)
    if issparse(X):
        check_X(basis, X, reset=False)  # a TypeError
    inputs, labels = _shape(X), _shape(y)
    if inputs is not None:
        check_columns(basis, X, inputs)
    if labels is not None:
        if len(labels) not in (1, 2) or labels[1:] == (0,):
            raise ValueError(f"y must be one label a row, got an array of shape {labels}")
        one_label(labels[1] if len(labels) == 2 else 1)
    n = labels[0] if labels is not None else len(y) if isinstance(y, (list, tuple)) else None
    if inputs is not None and n is not None and n != inputs[0]:
        raise ValueError(f"X has {inputs[0]} rows and y has {n}: they must have the same number")
    return None


def one_label(n: int) -> None:
    """Noise is planned for one."""
    if n != 1:
        raise ValueError(f"a private summary is of one label, and y has {n}: make one for each, and pay for each")


def _shape(value: Any) -> tuple[int, ...] | None:
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        return None
    return tuple(shape)
