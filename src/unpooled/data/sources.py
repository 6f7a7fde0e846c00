"""Sources of rows from arrays, frames, Parquet, CSV and Dask, opened in two phases; and the columns of a file.

Phase one finds out what it can without reading a value (:class:`UnreadRows`: how many rows and labels there are, and
whether the data must be read for that), compares columns with the known ones, and refuses what can be refused. Phase
two reads and checks every value. If rows are private, budget is charged between the two. A fit without privacy goes
through both at once (:func:`open_labeled`, :func:`open_all`): reading refuses everything that phase one would.

A Parquet file takes part in both: opening it reads its schema and its sizes; its values are read piece by piece later.
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
    KeptPiece,
    MemoryPiece,
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
LARGEST = 1e100  # the largest weight that is used without rescaling


@dataclass
class UnreadRows:
    """Labeled rows of which no value has been read; :meth:`of` opens them without reading.

    Attributes
    ----------
    owner : the estimator or basis that knows the columns, or has remembered them
    X, y : as they were given, with labels separate from the inputs
    n_rows : how many there are; None if only reading can tell
    n_labels : columns of labels; None if only reading can tell
    must_be_read : whether width and names of the columns are known only once the values are
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
        """Do phase one: compare columns with those that ``owner`` knows, or with ``learn`` let it remember them.

        Widths, names, shapes and lengths that do not go together are refused, as far as they are known unread.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        if is_stream(X):
            if _is_parquet(X):
                source = _open_stream(owner, X, y, None, None, learn)
                return cls(owner, X, y, source.n_rows, source.n_outputs, False, learn, source)
            shape = _shape(X)  # of a Dask array, if it knows it
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
            raise ValueError(f"y must have one label per row, got an array of shape {labels}")
        if inputs is not None and labels is not None and labels[0] != inputs[0]:
            raise ValueError(f"X has {inputs[0]} rows and y has {labels[0]}: they must have the same number")
        n_labels = None if labels is None else labels[1] if len(labels) == 2 else 1
        return cls(owner, X, y, None if inputs is None else inputs[0], n_labels, inputs is None, learn)

    def count(self) -> int:
        """Return how many rows there are, reading them only if nothing else tells."""
        return self.read().n_rows if self.n_rows is None else self.n_rows

    def read(self) -> Source:
        """Do phase two: return the rows, checked. Labels of any size pass: a refusal would reveal a record."""
        if self._source is None:
            with silence_warnings():
                how = {"learn": self.learn, "any_size": True}
                self._source = open_labeled(self.owner, self.X, self.y, None, **how)
            if self.n_rows not in (None, self._source.n_rows):  # the noise was planned for the announced number
                raise ValueError(f"X announced {self.n_rows} rows, but {self._source.n_rows} were read from it")
            self.n_rows, self.n_labels = self._source.n_rows, self._source.n_outputs
        return self._source


def must_be_read(X: Any) -> bool:
    """Return whether the columns of rows are unknown until their values are read."""
    return not _is_parquet(X) if is_stream(X) else _shape(X) is None


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape that an array or a frame announces."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) and all(isinstance(size, int) for size in shape) else None


def label_shape(y: Any) -> tuple[int, ...] | None:
    """Return the shape of labels, which may be lists; None if those differ in length, which reading refuses."""
    try:
        return np.shape(y) if isinstance(y, (list, tuple)) else _shape(y)
    except ValueError:
        return None


@dataclass(frozen=True)
class OpenedRows:
    """The labeled rows of a fit and, in the semi-supervised form, the unlabeled ones."""

    labeled: Source
    unlabeled: Source | None
    one_target: bool


def open_all(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, sites: Any, unlabeled: Any, unlabeled_sites: Any
) -> OpenedRows:
    """Open everything that ``fit`` was given; remember the number and names of the features."""
    labeled = _open_first(estimator, X, y, sample_weight, sites, unlabeled is not None)
    if unlabeled is None:
        if unlabeled_sites is not None:
            raise ValueError("unlabeled_sites was given without unlabeled: give the unlabeled rows as well")
        return OpenedRows(labeled, None, labeled.one_target)
    if unlabeled_sites is not None and sites is None:
        raise ValueError("unlabeled_sites was given without sites: give the site of every labeled row as well")
    others = _open_others(estimator, unlabeled, unlabeled_sites)
    if others.n_features != labeled.n_features:
        raise ValueError(f"unlabeled has {others.n_features} features and X has {labeled.n_features}: they must agree")
    return OpenedRows(labeled, others if others.n_rows else None, labeled.one_target)


def open_labeled(
    owner: BaseEstimator, X: Any, y: Any, sample_weight: Any, *, learn: bool = False, any_size: bool = False
) -> Source:
    """Open labeled rows for something that knows its features already, or with ``learn`` gets to know them.

    Weights are not rescaled. ``any_size`` accepts labels of any size: if sums are to be private, a refusal would reveal
    a record.
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
    """Open labeled rows from which an estimator learns its features, without those of weight zero."""
    if is_stream(X):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        return _open_stream(estimator, X, y, sample_weight, sites, True)
    estimator.__dict__.pop("feature_names_in_", None)
    X = check_X(estimator, X, reset=True)
    Y, one_target = check_Y(y, X)
    weights = check_weights(sample_weight, X)
    if weights is not None or (sample_weight is not None and beside_unlabeled):
        # Not rescaled: beside unlabeled rows, which weigh 1, more than their ratios matters.
        unscaled = np.broadcast_to(np.asarray(to_numpy(sample_weight), dtype=float), (X.shape[0],))
        if np.max(unscaled) <= LARGEST:
            weights = unscaled
        elif beside_unlabeled:
            raise ValueError("sample_weight has values beyond 1e100 beside unlabeled rows, which weigh 1: rescale it")
    labels = read_site_labels("sites", sites, X.shape[0])
    rows = Rows(X, Y, weights)
    if weights is not None and not np.all(weights > 0):
        positive = np.flatnonzero(weights > 0)
        rows, labels = rows.take(positive), None if labels is None else labels[positive]
    names = getattr(estimator, "feature_names_in_", None)
    return ArraySource(rows, names, labels, target_names=find_label_names(y), one_target=one_target)


def _open_stream(owner: BaseEstimator, X: Any, y: Any, sample_weight: Any, sites: Any, learn: bool) -> Source:
    """Open a stream with the features that ``owner`` knows, or with all of them, which it then remembers."""
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
    """Open the rows of a file or a cluster, without the columns named as labels or weights, and the sites of rows."""
    if is_dask(X):
        source = open_dask(X, y, sample_weight, sites)
    else:
        file = _open_file(X)
        opener: Any = read_csv if isinstance(file, Csv) else open_parquet
        source = opener(file, y, sample_weight, sites)
    return replace(source, site_labels=read_site_labels(called, source.site_labels, source.n_rows))


def _open_others(estimator: BaseEstimator, U: Any, sites: Any) -> Source:
    """Open unlabeled rows beside labeled ones."""
    if is_stream(U):
        return open_stream(_select_named(estimator, U, "unlabeled"), sites=sites, called="unlabeled_sites")
    if hasattr(U, "__len__") and len(U) == 0:
        if getattr(U, "ndim", 0) == 2 and U.shape[1] not in (0, estimator.n_features_in_):
            raise ValueError(
                f"unlabeled has {U.shape[1]} features and X has {estimator.n_features_in_}: they must agree"
            )
        return ArraySource(Rows(np.empty((0, estimator.n_features_in_))))
    with name_argument("unlabeled"):
        U = check_X(estimator, U, reset=False)
    return ArraySource(Rows(U), None, read_site_labels("unlabeled_sites", sites, U.shape[0]))


def read_all(source: Source) -> Rows:
    """Read all rows at once as NumPy arrays of double precision; raise an error if their number has changed."""
    rows = concatenate([piece.read() for piece in source.pieces])
    if len(rows) != source.n_rows:
        raise ValueError(f"the rows have changed since they were counted: there were {source.n_rows}, not {len(rows)}")
    double = (to_numpy(rows.X).astype(np.float64), to_numpy(rows.Y).astype(np.float64))
    return Rows(*double, rows.weights)


def read_some(source: Source, wanted: Sequence[np.ndarray], room: float) -> tuple[list[Rows], Source]:
    """Read rows of the given, sorted numbers for several readers in one pass; return them and the source to use next.

    Reading a row means reading its piece. So pieces are kept in memory up to ``room`` bytes, in the returned source:
    the next pass over all rows reads only the others. Its sums stay the same to the bit.
    """
    selected: list[list[Rows]] = [[] for _ in wanted]
    pieces = list(source.pieces)
    a_row = 8 * (source.n_features + source.n_outputs + source.weighted)
    for i, (piece, start) in enumerate(zip(source.pieces, source.starts)):
        own = [rows[slice(*np.searchsorted(rows, (start, start + piece.n_rows)))] - start for rows in wanted]
        together = own[0] if len(own) == 1 else np.unique(np.concatenate(own))
        if not len(together):
            continue
        if not isinstance(piece, MemoryPiece) and piece.n_rows * a_row <= room:
            room -= piece.n_rows * a_row
            pieces[i] = piece = KeptPiece(piece.read(), in_parts=isinstance(piece, RowGroup))
        whole = len(together) == piece.n_rows
        read = piece.read(None if whole else together)
        for rows, parts in zip(own, selected):
            if len(rows):
                parts.append(read if len(rows) == len(together) else read.take(np.searchsorted(together, rows)))
    is_kept = any(ours is not theirs for ours, theirs in zip(pieces, source.pieces))
    return [concatenate(parts) for parts in selected], replace(source, pieces=pieces) if is_kept else source


def split_named_columns(owner: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return labels and weights that are named as columns of a data frame, and the frame without them."""
    if not hasattr(X, "columns") or not any(isinstance(value, str) for value in (y, sample_weight)):
        if isinstance(y, str) or isinstance(sample_weight, str):
            raise ValueError("y or sample_weight names a column, but X is not a data frame: give numbers")
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
    """Return weights without rescaling them to a largest one of 1: they count as repeated rows."""
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
    """Return whether rows come from a file or a cluster."""
    return isinstance(X, (str, Path, Parquet, Csv)) or is_dask(X)


def _is_parquet(X: Any) -> bool:
    """Return whether a stream is Parquet, which announces its rows and columns without being read."""
    return not is_dask(X) and isinstance(_open_file(X), Parquet)


def stream_rows(estimator: BaseEstimator, X: Any) -> Iterator[Rows]:
    """Give rows to predict, one piece after another."""
    for piece in _open_stream(estimator, X, None, None, None, False).pieces:
        yield piece.read()


def _select_named(estimator: BaseEstimator, X: Any, argument: str, beside: tuple[Any, ...] = ()) -> Any:
    """Return a stream with the model's features, in their order, and with named columns ``beside`` them.

    Raise an error if it has other features."""
    model_features = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    if is_dask(X):
        if not model_features or not hasattr(X, "columns"):
            return X
        columns = {str(column): column for column in X.columns}
        missing = [name for name in model_features if name not in columns]
        if missing:
            raise ValueError(f"{argument} lacks the columns {', '.join(missing)}")
        others = [columns[name] for name in beside if isinstance(name, str) and name in columns]
        return X[[columns[name] for name in model_features] + others]
    given = _open_file(X)
    if model_features and given.features is not None and list(given.features) != model_features:
        names = ", ".join(given.features)
        raise ValueError(f"{argument} has the features {names}; the model has {', '.join(model_features)}")
    return replace(given, features=model_features) if model_features else given


def _open_file(X: Any) -> Parquet | Csv:
    """Return a file by its name: .csv and .csv.gz are read as CSV, everything else as Parquet."""
    if isinstance(X, (Parquet, Csv)):
        return X
    return Csv(X) if str(X).lower().endswith((".csv", ".csv.gz")) else Parquet(X)


def open_table(path: PathLike, features: Sequence[str] | None = None) -> Parquet | Csv:
    """Return a file by its name: .csv and .csv.gz are CSV with any of three delimiters, everything else Parquet."""
    path = Path(path)
    if not str(path).lower().endswith((".csv", ".csv.gz")):
        return Parquet(path, features)
    return Csv(path, features, find_delimiter(path))


def read_columns(given: Parquet | Csv) -> dict[str, Any]:
    """Return the names of the columns, with types if the file has them, without the index of a data frame."""
    if isinstance(given, Csv):
        return dict.fromkeys(csv.read_header(given))
    schema = parquet.read_schema(parquet.files_of(given.path)[0])
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name: schema.field(name).type for name in schema.names if name not in index}


def select_rows(path: Path, features: Sequence[str], others: Mapping[str, Sequence[str]]) -> Parquet | Csv:
    """Return the data with these columns as X. ``others``: the users of further columns, and their names."""
    given = open_table(path, list(features) or None)
    columns = read_columns(given)
    for asker, wanted in [("the basis", features), *others.items()]:
        check_columns(path, columns, wanted, asker)
    return given


def check_columns(path: Path, columns: dict[str, Any], wanted: Iterable[str], asker: str) -> None:
    """Raise a ValueError unless all wanted columns exist and hold numbers."""
    wanted = list(wanted)
    missing = [name for name in wanted if name not in columns]
    if missing:
        listed = ", ".join(list(columns)[:SHOWN]) + (", …" if len(columns) > SHOWN else "")
        raise ValueError(
            f"{path} lacks what {asker} asks for: {', '.join(_suggest(name, columns) for name in missing)}; "
            f"its columns are {listed}"
        )
    for name in wanted:
        if not is_number(columns[name]):
            raise ValueError(
                f"column {name!r} of {path}, which {asker} asks for, holds {columns[name]} and not numbers: "
                "turn it into numbers first"
            )


def _suggest(name: str, columns: Iterable[str]) -> str:
    folded = {column.casefold().strip(): column for column in columns}
    close = difflib.get_close_matches(name.casefold().strip(), folded, n=1)
    return f"{name!r}" + (f" (did you mean {folded[close[0]]!r}?)" if close else "")


def columns_of(owner: Any) -> list[str]:
    """Return the names of the inputs that a basis or a model knows."""
    return [str(name) for name in getattr(owner, "feature_names_in_", [])]


def is_number(kind: Any) -> bool:
    """Return whether a column of that type can be used; a CSV file shows that only when it is read."""
    return kind is None or pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def text_columns(given: Parquet | Csv) -> list[str]:
    """Return the columns of a CSV file that have no number in its first rows."""
    return csv.text_columns(given) if isinstance(given, Csv) else []
