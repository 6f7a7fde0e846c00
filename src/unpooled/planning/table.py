"""The shape of a regression, all that a plan needs: from numbers, arrays, frames, or what a file says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.arrays import is_foreign
from .._base.checks import check_whole
from .._base.text import quote
from ..data.sources import is_stream, open_stream


@dataclass(frozen=True)
class Table:
    """n rows of d features and T labels, in single or double precision.

    ``loaded`` says that they are in memory now, ``stretch`` how many of a file or a cluster are read together, or 0.
    """

    n: int
    d: int
    targets: int = 1
    single: bool = False
    loaded: bool = False
    stretch: int = 0

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The precision of X."""
        return np.float32 if self.single else np.float64

    @property
    def itemsize(self) -> int:
        """Bytes of a number of X."""
        return 4 if self.single else 8

    @property
    def bytes(self) -> float:
        """What the rows take as arrays."""
        return float(self.n) * (self.d * self.itemsize + 8 * self.targets)

    @classmethod
    def of_size(cls, n: Any, d: Any, targets: Any = 1, dtype: Any = None) -> Table:
        """From numbers alone."""
        try:
            kind = np.dtype(np.float64 if dtype is None else dtype)
        except TypeError:
            kind = np.dtype(object)
        if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"dtype must be float32 or float64, got {quote(dtype)}")
        return cls(
            check_whole("n", n), check_whole("d", d), check_whole("targets", targets), kind == np.dtype(np.float32)
        )

    @classmethod
    def of_rows(cls, X: Any, y: Any = None) -> Table:
        """From rows and labels as ``fit`` takes them. Of a Parquet file only the metadata are read."""
        if is_stream(X):
            source = open_stream(X, y)
            targets = len(y) if isinstance(y, (list, tuple)) else 1
            single = all(getattr(piece, "single", False) for piece in source.pieces)
            return cls(source.n_rows, source.n_features, targets, single, stretch=int(source.counts.max(initial=0)))
        if isinstance(y, str):
            if y not in getattr(X, "columns", ()):
                raise ValueError(f"y names the column {quote(y)}, and X has no such column")
            d, targets = X.shape[1] - 1, 1
        else:
            shape = np.shape(X) if not is_foreign(X) else tuple(X.shape)
            if len(shape) != 2 or not min(shape):
                raise ValueError(f"X must be two-dimensional, with rows and features; got shape {shape}")
            d, targets = shape[1], 1 if y is None or len(np.shape(y)) < 2 else int(np.shape(y)[1])
        return cls(int(X.shape[0]) if hasattr(X, "shape") else len(X), d, targets, _is_single(X), True)


def is_rows(value: Any) -> bool:
    """Whether a value is rows, or says where they are, and not their number."""
    return is_stream(value) or isinstance(value, (list, tuple)) or len(getattr(value, "shape", ())) > 0


def _is_single(X: Any) -> bool:
    """Whether ``fit`` would work in single precision: all columns are."""
    kinds = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", ["float64"]))
    return all(str(kind).lower().endswith("float32") for kind in kinds)
