"""The opener of rows: from arrays, frames, Parquet, CSV and Dask, in two phases; and the columns that a file has.

Phase one tells what can be told without reading a value (:class:`UnreadRows`: how many rows and labels there are,
whether that has to be read), compares columns with what is known, and refuses what can be refused. Phase two reads, and
checks every value. Where rows are private, budget is charged between the two. A fit without privacy goes through both
at once (:func:`open_labeled`, :func:`open_all`): reading refuses everything that phase one would.

A Parquet file belongs to both: opening it reads its schema and its sizes, and its values are read piece by piece later.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from .._base.arrays import is_dask, to_numpy
from .._base.checks import check_columns as check_columns_unread
from .._base.checks import check_weights, check_X, check_Y, name_argument
from .._base.files import PathLike
from .._base.rows import (
    ArraySource,
    InMemory,
    KeptPiece,
    RemoteSource,
    Rows,
    Source,
    concatenate,
    find_label_names,
    read_site_labels,
)
from .._base.threads import silence_warnings
from . import csv, parquet
from .csv import Csv, find_delimiter, read_csv
from .dask import open_dask
from .parquet import Parquet, RowGroup, open_parquet

SHOWN = 30  # columns that an error lists
LARGEST = 1e100  # of weights that are taken as they are given


@dataclass
class UnreadRows:
    """Labeled rows of which no value has been read; those that were opened in :func:`of` stay unread in it.

    Attributes
    ----------
    owner : knows the columns, or has remembered them
    X, y : as they were given, labels apart from the inputs
    n_rows : how many there are; None where only reading tells
    n_labels : columns of labels; None where only reading tells
    must_be_read : neither the width nor the names of the columns are known before the values are
    """

    owner: BaseEstimator
    X: Any
    y: Any
    n_rows: int | None
    n_labels: int | None
    must_be_read: bool
    learn: bool = False
    _source: Source | None = None

    @classmethod
    def of(cls, owner: BaseEstimator, X: Any, y: Any, *, learn: bool = False) -> UnreadRows:
        """Phase one: compare columns with what ``owner`` knows, or with ``learn`` have it remember them.

        Refused are widths, names, shapes and lengths that do not go together, as far as they are known unread.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        if is_stream(X):
            if is_parquet(X):
                source = _open_stream(owner, X, y, None, None, learn)
                return cls(owner, X, y, source.n_rows, source.n_outputs, False, learn, source)
            shape = _shape(X)  # of a Dask array that knows it
            n_rows = None if shape is None or not shape[0] else shape[0]
            return cls(owner, X, y, n_rows, len(find_label_names(y)) or None, True, learn)
        if learn:
            owner.__dict__.pop("feature_names_in_", None)
        X, y, _ = split_named_columns(owner, X, y, None)
        if issparse(X):
            check_X(owner, X, reset=learn)  # a TypeError
        inputs, labels = _shape(X), label_shape(y)
        if inputs is not None:
            check_columns_unread(owner, X, inputs, reset=learn)
        if labels is not None and (len(labels) not in (1, 2) or labels[1:] == (0,)):
            raise ValueError(f"y must be one label a row, got an array of shape {labels}")
        if inputs is not None and labels is not None and labels[0] != inputs[0]:
            raise ValueError(f"X has {inputs[0]} rows and y has {labels[0]}: they must have the same number")
        n_labels = None if labels is None else labels[1] if len(labels) == 2 else 1
        return cls(owner, X, y, None if inputs is None else inputs[0], n_labels, inputs is None, learn)

    def count(self) -> int:
        """How many rows there are; they are read for that only where nothing else tells."""
        return self.read().n_rows if self.n_rows is None else self.n_rows

    def read(self) -> Source:
        """Phase two: the rows, checked. Labels may have any size: a refusal would tell of a record."""
        if self._source is None:
            with silence_warnings():
                how = {"learn": self.learn, "any_size": True}
                self._source = open_labeled(self.owner, self.X, self.y, None, **how)
            if self.n_rows not in (None, self._source.n_rows):  # noise was planned for as many as they said
                raise ValueError(f"X says that it has {self.n_rows} rows, and {self._source.n_rows} are read from it")
            self.n_rows, self.n_labels = self._source.n_rows, self._source.n_outputs
        return self._source


def must_be_read(X: Any) -> bool:
    """Whether nothing can be said of the columns of rows without a look at their values."""
    return not is_parquet(X) if is_stream(X) else _shape(X) is None


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape that an array or a frame says it has."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) and all(isinstance(size, int) for size in shape) else None


def label_shape(y: Any) -> tuple[int, ...] | None:
    """The same of labels, which may be lists; None where those are of several lengths, which reading refuses."""
    try:
        return np.shape(y) if isinstance(y, (list, tuple)) else _shape(y)
    except ValueError:
        return None


@dataclass(frozen=True)
class OpenedRows:
    """The labeled rows and, in the semi-supervised form, the unlabeled ones."""

    labeled: Source
    unlabeled: Source | None
    one_target: bool


def open_all(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, sites: Any, unlabeled: Any, unlabeled_sites: Any
) -> OpenedRows:
    """Sources of everything ``fit`` was given; the number and names of the features are remembered."""
    labeled = _open_first(estimator, X, y, sample_weight, sites, unlabeled is not None)
    if unlabeled is None:
        if unlabeled_sites is not None:
            raise ValueError("unlabeled_sites was given without unlabeled: give the rows as well")
        return OpenedRows(labeled, None, labeled.one_target)
    if unlabeled_sites is not None and sites is None:
        raise ValueError("unlabeled_sites was given without sites: give the site of every labeled row as well")
    others = _open_others(estimator, unlabeled, unlabeled_sites)
    if others.n_features != labeled.n_features:
        raise ValueError(f"unlabeled has {others.n_features} features and X has {labeled.n_features}")
    return OpenedRows(labeled, others if others.n_rows else None, labeled.one_target)


def open_labeled(
    owner: BaseEstimator, X: Any, y: Any, sample_weight: Any, *, learn: bool = False, any_size: bool = False
) -> Source:
    """Labeled rows for something that knows its features already, or with ``learn`` gets to know them.

    Weights are as they are given. ``any_size`` takes labels however large: a refusal would tell of a record where sums
    are to be private.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(X, RemoteSource):
        return X.open_labeled(owner, y, sample_weight)
    if is_stream(X):
        return _open_stream(owner, X, y, sample_weight, None, learn)
    X, y, weights = split_named_columns(owner, X, y, sample_weight)
    X = check_X(owner, X, reset=learn)
    Y, one_target = check_Y(y, X, any_size)
    rows = Rows(X, Y, _take_weights(weights, X))
    return ArraySource(rows, target_names=find_label_names(y), one_target=one_target)


def _open_first(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, sites: Any, beside_unlabeled: bool
) -> Source:
    """Labeled rows from which an estimator learns its features, without those that weigh nothing."""
    if is_stream(X):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        return _open_stream(estimator, X, y, sample_weight, sites, True)
    estimator.__dict__.pop("feature_names_in_", None)
    X = check_X(estimator, X, reset=True)
    Y, one_target = check_Y(y, X)
    weights = check_weights(sample_weight, X)
    if weights is not None or (sample_weight is not None and beside_unlabeled):
        # As they are given: beside unlabeled rows, which weigh 1, more than their ratios counts.
        given = np.broadcast_to(np.asarray(to_numpy(sample_weight), dtype=float), (X.shape[0],))
        if np.max(given) <= LARGEST:
            weights = given
        elif beside_unlabeled:
            raise ValueError("sample_weight has values beyond 1e100 beside unlabeled rows, which weigh 1: rescale it")
    labels = read_site_labels("sites", sites, X.shape[0])
    rows = Rows(X, Y, weights)
    if weights is not None and not np.all(weights > 0):
        kept = np.flatnonzero(weights > 0)
        rows, labels = rows.take(kept), None if labels is None else labels[kept]
    names = getattr(estimator, "feature_names_in_", None)
    return ArraySource(rows, names, labels, target_names=find_label_names(y), one_target=one_target)


def _open_stream(owner: BaseEstimator, X: Any, y: Any, sample_weight: Any, sites: Any, learn: bool) -> Source:
    """A stream with the features that ``owner`` knows, or all of them, which it then remembers."""
    if not learn:
        X = _select_named(owner, X, "X", beside=(*find_label_names(y), sample_weight))
    source = open_stream(X, y, sample_weight, sites)
    if not learn:
        _check_width(owner, source)
        return source
    owner.n_features_in_ = source.n_features
    owner.__dict__.pop("feature_names_in_", None)
    if source.names is not None:
        owner.feature_names_in_ = np.asarray(source.names, dtype=object)
    return source


def open_stream(X: Any, y: Any = None, sample_weight: Any = None, sites: Any = None, called: str = "sites") -> Source:
    """The rows of a file or of a cluster; without the columns that are named labels or weights, and sites of rows."""
    if is_dask(X):
        source = open_dask(X, y, sample_weight, sites)
    else:
        file = _open_file(X)
        opener: Any = read_csv if isinstance(file, Csv) else open_parquet
        source = opener(file, y, sample_weight, sites)
    return replace(source, site_labels=read_site_labels(called, source.site_labels, source.n_rows))


def _open_others(estimator: BaseEstimator, U: Any, sites: Any) -> Source:
    """Unlabeled rows beside labeled ones."""
    if is_stream(U):
        return open_stream(_select_named(estimator, U, "unlabeled"), sites=sites, called="unlabeled_sites")
    if hasattr(U, "__len__") and len(U) == 0:
        if getattr(U, "ndim", 0) == 2 and U.shape[1] not in (0, estimator.n_features_in_):
            raise ValueError(f"unlabeled has {U.shape[1]} features and X has {estimator.n_features_in_}")
        return ArraySource(Rows(np.empty((0, estimator.n_features_in_))))
    with name_argument("unlabeled"):
        U = check_X(estimator, U, reset=False)
    return ArraySource(Rows(U), None, read_site_labels("unlabeled_sites", sites, U.shape[0]))


def read_all(source: Source) -> Rows:
    """Read all rows at once, in NumPy arrays of double precision; an error where they are not as many as they said."""
    rows = concatenate([piece.read() for piece in source.pieces])
    if len(rows) != source.n_rows:
        raise ValueError(f"the rows have changed since they were counted: there were {source.n_rows}, not {len(rows)}")
    double = (to_numpy(rows.X).astype(np.float64), to_numpy(rows.Y).astype(np.float64))
    return Rows(*double, rows.weights)


def read_some(source: Source, wanted: Sequence[np.ndarray], room: float) -> tuple[list[Rows], Source]:
    """Rows of the given numbers, sorted, for everyone who wants some, in one pass; and the source for what follows.

    A row costs reading its piece. So pieces are kept in memory up to ``room`` bytes, in the source that is returned:
    the pass over all rows that comes next reads what is left. Its sums stay the same to the bit.
    """
    found: list[list[Rows]] = [[] for _ in wanted]
    pieces = list(source.pieces)
    a_row = 8 * (source.n_features + source.n_outputs + source.weighted)
    for i, (piece, start) in enumerate(zip(source.pieces, source.starts)):
        own = [rows[slice(*np.searchsorted(rows, (start, start + piece.n_rows)))] - start for rows in wanted]
        together = own[0] if len(own) == 1 else np.unique(np.concatenate(own))
        if not len(together):
            continue
        if not isinstance(piece, InMemory) and piece.n_rows * a_row <= room:
            room -= piece.n_rows * a_row
            pieces[i] = piece = KeptPiece(piece.read(), in_parts=isinstance(piece, RowGroup))
        whole = len(together) == piece.n_rows
        read = piece.read(None if whole else together)
        for rows, parts in zip(own, found):
            if len(rows):
                parts.append(read if len(rows) == len(together) else read.take(np.searchsorted(together, rows)))
    kept = any(ours is not theirs for ours, theirs in zip(pieces, source.pieces))
    return [concatenate(parts) for parts in found], replace(source, pieces=pieces) if kept else source


def split_named_columns(owner: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Labels and weights that are named as columns of a data frame, and the frame without them."""
    if not hasattr(X, "columns") or not any(isinstance(value, str) for value in (y, sample_weight)):
        if isinstance(y, str) or isinstance(sample_weight, str):
            raise ValueError("y or sample_weight names a column, and X is not a data frame: give numbers")
        return X, y, sample_weight
    named = [value for value in (y, sample_weight) if isinstance(value, str)]
    for name in named:
        if name not in X.columns:
            raise ValueError(f"the column {name!r} is not in X, which has: {', '.join(map(str, X.columns))}")
    known = [str(name) for name in getattr(owner, "feature_names_in_", [])]
    missing = [name for name in known if name not in X.columns]
    if missing:
        raise ValueError(f"X lacks the columns {', '.join(missing)}")
    features = X[known or [name for name in X.columns if name not in named]]
    return (features, *(X[value] if isinstance(value, str) else value for value in (y, sample_weight)))


def _take_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Weights as they are given, not brought to a largest one of 1: they count as repeated rows."""
    if sample_weight is None:
        return None
    check_weights(sample_weight, X)
    weights = np.broadcast_to(np.asarray(to_numpy(sample_weight), dtype=float), (X.shape[0],))
    if np.max(weights) > LARGEST:
        raise ValueError("sample_weight has values beyond 1e100: rescale it")
    return None if np.all(weights == 1.0) else np.array(weights)


def _check_width(owner: BaseEstimator, source: Source) -> None:
    if source.n_features != owner.n_features_in_:
        raise ValueError(
            f"X has {source.n_features} features, but {type(owner).__name__} is expecting "
            f"{owner.n_features_in_} features as input"
        )


def is_stream(X: Any) -> bool:
    """Whether rows come from a file or a cluster."""
    return isinstance(X, (str, Path, Parquet, Csv)) or is_dask(X)


def is_parquet(X: Any) -> bool:
    """Whether a stream is Parquet, which says how many rows and which columns it has without being read."""
    return not is_dask(X) and isinstance(_open_file(X), Parquet)


def stream_rows(estimator: BaseEstimator, X: Any) -> Iterator[Rows]:
    """Rows to predict, a piece after the other."""
    for piece in _open_stream(estimator, X, None, None, None, False).pieces:
        yield piece.read()


def _select_named(estimator: BaseEstimator, X: Any, argument: str, beside: tuple[Any, ...] = ()) -> Any:
    """A stream with the features that the model knows, in their order, and columns ``beside`` them that are named.

    An error where it has others."""
    known = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    if is_dask(X):
        if not known or not hasattr(X, "columns"):
            return X
        columns = {str(column): column for column in X.columns}
        missing = [name for name in known if name not in columns]
        if missing:
            raise ValueError(f"{argument} lacks the columns {', '.join(missing)}")
        others = [columns[name] for name in beside if isinstance(name, str) and name in columns]
        return X[[columns[name] for name in known] + others]
    given = _open_file(X)
    if known and given.features is not None and list(given.features) != known:
        raise ValueError(f"{argument} has the features {', '.join(given.features)}; the model has {', '.join(known)}")
    return replace(given, features=known) if known else given


def _open_file(X: Any) -> Parquet | Csv:
    """A file by its name: .csv and .csv.gz are read as CSV, everything else as Parquet."""
    if isinstance(X, (Parquet, Csv)):
        return X
    return Csv(X) if str(X).lower().endswith((".csv", ".csv.gz")) else Parquet(X)


def open_table(path: PathLike, features: Sequence[str] | None = None) -> Parquet | Csv:
    """A file by its name: .csv and .csv.gz are CSV, with commas, semicolons or tabs, everything else Parquet."""
    path = Path(path)
    if not str(path).lower().endswith((".csv", ".csv.gz")):
        return Parquet(path, features)
    return Csv(path, features, find_delimiter(path))


def read_columns(given: Parquet | Csv) -> dict[str, Any]:
    """The names of the columns, and their types where the file says them; an index of a data frame is not one."""
    if isinstance(given, Csv):
        return dict.fromkeys(csv.read_header(given))
    schema = parquet.read_schema(parquet.files_of(given.path)[0])
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name: schema.field(name).type for name in schema.names if name not in index}


def select_rows(path: Path, features: Sequence[str], others: Mapping[str, Sequence[str]]) -> Parquet | Csv:
    """The data with these columns as X. ``others``: what asks for further columns, and their names."""
    given = open_table(path, list(features) or None)
    found = read_columns(given)
    for asker, wanted in [("the basis", features), *others.items()]:
        check_columns(path, found, wanted, asker)
    return given


def check_columns(path: Path, found: dict[str, Any], wanted: Iterable[str], asker: str) -> None:
    """All columns that are asked for are there, and hold numbers."""
    wanted = list(wanted)
    missing = [name for name in wanted if name not in found]
    if missing:
        listed = ", ".join(list(found)[:SHOWN]) + (", …" if len(found) > SHOWN else "")
        raise ValueError(
            f"{path} lacks what {asker} asks for: {', '.join(_suggest(name, found) for name in missing)}; "
            f"its columns are {listed}"
        )
    for name in wanted:
        if not is_number(found[name]):
            raise ValueError(
                f"column {name!r} of {path}, which {asker} asks for, holds {found[name]} and not numbers: "
                "turn it into numbers first"
            )


def _suggest(name: str, found: Iterable[str]) -> str:
    folded = {column.casefold().strip(): column for column in found}
    close = difflib.get_close_matches(name.casefold().strip(), folded, n=1)
    return f"{name!r}" + (f" (did you mean {folded[close[0]]!r}?)" if close else "")


def columns_of(owner: Any) -> list[str]:
    """The names of the inputs that a basis or a model knows."""
    return [str(name) for name in getattr(owner, "feature_names_in_", [])]


def is_number(kind: Any) -> bool:
    """Whether a column of that type can be used; what a CSV file holds is seen when it is read."""
    return kind is None or pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def text_columns(given: Parquet | Csv) -> list[str]:
    """The columns of a CSV file that have no number in its first rows."""
    return csv.text_columns(given) if isinstance(given, Csv) else []
