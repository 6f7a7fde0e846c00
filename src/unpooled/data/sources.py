"""Sources of rows from arrays, frames, Parquet, CSV and Dask, all checked; and the columns that a table has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator

from .._base.arrays import is_dask, to_numpy
from .._base.checks import check_weights, check_X, check_Y
from .._base.files import PathLike
from .._base.rows import ArraySource, Rows, Source
from .._base.text import shown
from . import csv, parquet
from .csv import Csv, CsvSource
from .dask import DaskSource
from .parquet import Parquet, ParquetSource

SHOWN = 30  # columns that an error lists
LOOK = 100  # rows of a CSV file that show whether a column is text


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
        source.site_labels = site_labels("sites", source.site_labels, source.n_rows)
        source.target_names = _names_of(y)
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
    labels = site_labels("sites", sites, X.shape[0])
    rows = Rows(X, Y, weights)
    if weights is not None and not np.all(weights > 0):
        kept = np.flatnonzero(weights > 0)
        rows, labels = rows.take(kept), None if labels is None else labels[kept]
    source = ArraySource(rows, getattr(estimator, "feature_names_in_", None), labels)
    source.target_names = _names_of(y)
    return source, one_target


def open_labeled(owner: BaseEstimator, X: Any, y: Any, sample_weight: Any, any_size: bool = False) -> Source:
    """Labeled rows for something that knows its features already; weights as they are given.

    ``any_size`` takes labels however large: a refusal would tell of a record where sums are to be private.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if hasattr(X, "open_labeled"):  # rows that stay where they are
        remote: Source = X.open_labeled(owner, y, sample_weight)
        return remote
    if is_stream(X):
        names = _names_of(y)
        source: Source = _stream(_by_name(owner, X, "X", beside=(*names, sample_weight)), y, sample_weight, None)
        _check_width(owner, source)
        source.target_names = names
        source.n_outputs = len(names) or (1 if source.one_target else int(y.shape[1]))
        return source
    X, y, weights = named_columns(owner, X, y, sample_weight)
    X = check_X(owner, X, reset=False)
    Y, one_target = check_Y(y, X, any_size)
    found = ArraySource(Rows(X, Y, _given_weights(weights, X)))
    found.one_target, found.n_outputs = one_target, int(Y.shape[1])
    found.target_names = _names_of(y)
    return found


def _names_of(y: Any) -> tuple[str, ...]:
    """What labels are called, by the columns they are named as or by the frame that holds them; else nothing."""
    if isinstance(y, (str, list, tuple)):
        named = [y] if isinstance(y, str) else list(y)
    elif is_dask(y):  # whose arrays have names that Dask made up
        named = []
    else:
        named = list(y.columns) if hasattr(y, "columns") else [getattr(y, "name", None)]
    return tuple(named) if all(isinstance(name, str) and name for name in named) else ()


def open_unlabeled(X: Any, y: Any, sample_weight: Any) -> Source:
    """The inputs of a stream, without the columns that are named labels or weights."""
    source: Source = _stream(X, y, sample_weight, None)
    return source


def named_columns(owner: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
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


def _given_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Weights as they are given, not brought to a largest one of 1: they count as repeated rows."""
    if sample_weight is None:
        return None
    check_weights(sample_weight, X)
    weights = np.broadcast_to(np.asarray(to_numpy(sample_weight), dtype=float), (X.shape[0],))
    if np.max(weights) > 1e100:
        raise ValueError("sample_weight has values beyond 1e100: rescale it")
    return None if np.all(weights == 1.0) else np.array(weights)


def _check_width(owner: BaseEstimator, source: Source) -> None:
    if source.n_features != owner.n_features_in_:
        raise ValueError(
            f"X has {source.n_features} features, but {type(owner).__name__} is expecting "
            f"{owner.n_features_in_} features as input"
        )


def _unlabeled(estimator: BaseEstimator, U: Any, sites: Any) -> Source:
    if is_stream(U):
        source = _stream(_by_name(estimator, U, "unlabeled"), None, None, sites)
        source.site_labels = site_labels("unlabeled_sites", source.site_labels, source.n_rows)
        return source
    if hasattr(U, "__len__") and len(U) == 0:
        if getattr(U, "ndim", 0) == 2 and U.shape[1] not in (0, estimator.n_features_in_):
            raise ValueError(f"unlabeled has {U.shape[1]} features and X has {estimator.n_features_in_}")
        return ArraySource(Rows(np.empty((0, estimator.n_features_in_))), None, None)
    try:
        U = check_X(estimator, U, reset=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"unlabeled: {error}") from None
    return ArraySource(Rows(U), None, site_labels("unlabeled_sites", sites, U.shape[0]))


def is_stream(X: Any) -> bool:
    """Whether rows come from a file or a cluster."""
    return isinstance(X, (str, Path, Parquet, Csv)) or is_dask(X)


def is_parquet(X: Any) -> bool:
    """Whether a stream is Parquet, which says how many rows and which columns it has without being read."""
    return not is_dask(X) and isinstance(_file(X), Parquet)


def stream_rows(estimator: BaseEstimator, X: Any) -> Iterator[Rows]:
    """Rows to predict, a piece after the other."""
    source = _stream(_by_name(estimator, X, "X"), None, None, None)
    _check_width(estimator, source)
    for piece in source.pieces:
        yield piece.read()


def _by_name(estimator: BaseEstimator, X: Any, argument: str, beside: tuple[Any, ...] = ()) -> Any:
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
    given = _file(X)
    if known and given.features is not None and list(given.features) != known:
        raise ValueError(f"{argument} has the features {', '.join(given.features)}; the model has {', '.join(known)}")
    return replace(given, features=known) if known else given


def _file(X: Any) -> Parquet | Csv:
    """A file by its name: .csv and .csv.gz are read as CSV, everything else as Parquet."""
    if isinstance(X, (Parquet, Csv)):
        return X
    return Csv(X) if str(X).lower().endswith((".csv", ".csv.gz")) else Parquet(X)


def _stream(X: Any, y: Any, sample_weight: Any, sites: Any) -> Any:
    if is_dask(X):
        return DaskSource(X, y, sample_weight, sites)
    file = _file(X)
    if isinstance(file, Csv):
        return CsvSource(file, y, sample_weight, sites)
    return ParquetSource(file, y, sample_weight, sites)


def _remember(estimator: BaseEstimator, source: Source) -> None:
    estimator.n_features_in_ = source.n_features
    if source.names is not None:
        estimator.feature_names_in_ = np.asarray(source.names, dtype=object)
    else:
        estimator.__dict__.pop("feature_names_in_", None)


def site_labels(name: str, sites: Any, n: int) -> np.ndarray | None:
    """A label for every row, none missing."""
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


def table(path: PathLike, features: Sequence[str] | None = None) -> Parquet | Csv:
    """A file by its name: .csv and .csv.gz are CSV, with commas, semicolons or tabs, everything else Parquet."""
    path = Path(path)
    if not str(path).lower().endswith((".csv", ".csv.gz")):
        return Parquet(path, features)
    return Csv(path, features, _delimiter(path))


def columns(given: Parquet | Csv) -> dict[str, Any]:
    """The names of the columns, and their types where the file says them; an index of a data frame is not one."""
    if isinstance(given, Csv):
        return dict.fromkeys(csv._header(given))
    schema = parquet._schema(parquet._files(given.path)[0])
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name: schema.field(name).type for name in schema.names if name not in index}


def rows_for(path: Path, features: Sequence[str], others: Mapping[str, Sequence[str]]) -> Parquet | Csv:
    """The data with these columns as X. ``others``: what asks for further columns, and their names."""
    given = table(path, list(features) or None)
    found = columns(given)
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
            f"{path} lacks what {asker} asks for: {', '.join(_with_guess(name, found) for name in missing)}; "
            f"its columns are {listed}"
        )
    for name in wanted:
        if not is_number(found[name]):
            raise ValueError(
                f"column {name!r} of {path}, which {asker} asks for, holds {found[name]} and not numbers: "
                "turn it into numbers first"
            )


def _with_guess(name: str, found: Iterable[str]) -> str:
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
    if not isinstance(given, Csv):
        return []
    names = csv._header(given)
    batch = next(iter(csv._batches(given, names, len(names) == 1)), None)
    if batch is None or not batch.num_rows:
        return []
    cells = {name: batch.column(name).slice(0, LOOK).to_pylist() for name in names}
    return [name for name, values in cells.items() if not any(_looks_like_number(value) for value in values)]


def _looks_like_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in ("true", "false", "")
    return True


def _delimiter(path: Path) -> str:
    """Where the first line has no comma: a semicolon or a tab, if it has one."""
    try:
        with csv._Bytes(path) as file:
            line = file.read(1 << 16).splitlines()[:1]
    except OSError:
        return ","  # reading it will say why
    for delimiter in (",", ";", "\t"):
        if line and delimiter.encode() in line[0]:
            return delimiter
    return ","
