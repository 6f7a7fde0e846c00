"""Checks of arguments: an error is one clear sentence that names the argument, what is wrong and what to do.

First come the checks of what estimators receive: sizes and words, the rows X with their feature names, the labels Y,
weights, folds and precomputed kernel matrices. Then come the numbers that a private method receives: positive numbers,
counts, probabilities and the budget (ε, δ). A private method checks those before data are read and before the budget
is charged.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_array, validate_data

from .arrays import Array, Floats, eps, is_foreign, like, namespace, to_numpy
from .text import quote


def check_size(n_features: Any, *, auto: bool) -> int | None:
    """Check that ``n_features`` is a positive whole number; return None for "auto"."""
    if auto and isinstance(n_features, str) and n_features == "auto":
        return None
    return check_count("n_features", n_features, " or 'auto'" if auto else "")


def check_count(name: str, value: Any, other: str = "") -> int:
    """Check that a value is a positive whole number, and return it as an int."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a positive whole number{other}, got {quote(value)}")
    return int(value)


def check_positive_numbers(name: str, value: Any) -> Floats:
    """Return a float array of dimension 0 or 1; raise a ValueError unless all its numbers are positive and finite."""
    try:
        numbers = np.asarray(value)
        truths = any(isinstance(v, (bool, np.bool_)) for v in (value if isinstance(value, (list, tuple)) else [value]))
        usable = numbers.dtype.kind in "iuf" and numbers.ndim <= 1 and numbers.size > 0 and not truths
        numbers = numbers.astype(float) if usable else np.asarray(np.nan)
    except (TypeError, ValueError):
        numbers = np.asarray(np.nan)
    if not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise ValueError(f"{name} must be a positive number or a list of positive numbers, got {quote(value)}")
    return numbers


def check_fitted(model: Any) -> None:
    """Raise a NotFittedError unless the model is fitted, be it by ``fit`` or by ``fit_summary``."""
    if not hasattr(model, "predictor_"):
        raise NotFittedError(f"This {type(model).__name__} instance is not fitted yet: fit it before using it")


def check_fit_intercept(fit_intercept: Any) -> bool | str:
    """False, True or "public"."""
    if isinstance(fit_intercept, (bool, np.bool_)):
        return bool(fit_intercept)
    if isinstance(fit_intercept, str) and fit_intercept == "public":
        return fit_intercept
    raise ValueError(f"fit_intercept must be True, False or 'public', got {quote(fit_intercept)}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check that a value is one of a few words."""
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be {' or '.join(repr(c) for c in choices)}, got {quote(value)}")
    return value


@contextmanager
def name_argument(argument: str) -> Iterator[None]:
    """Let the message of an error begin with the argument it is about: checks of rows always call it X."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {error}") from None


def check_X(estimator: BaseEstimator, X: Any, *, reset: bool) -> Array:
    """Return X as a two-dimensional float array (float32 stays float32); remember or compare its feature names.

    NumPy arrays, lists and data frames become NumPy arrays; arrays of other array-API libraries keep their library.
    """
    if is_foreign(X):
        return _check_foreign(estimator, X, reset=reset)
    if getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M"):
        raise ValueError("X must hold numbers, not dates or durations: convert them to a number of days, say")
    try:
        X = validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        raise type(error)(_about("X", error)) from None
    _refuse_non_finite("X", X, getattr(estimator, "feature_names_in_", None))
    return np.ascontiguousarray(X)


def check_columns(estimator: BaseEstimator, X: Any, shape: tuple[int, ...], *, reset: bool = False) -> None:
    """Compare the shape and the feature names of X with the known ones, or remember them; read no value of X."""
    if len(shape) != 2:
        raise ValueError(f"X must be two-dimensional, rows by features; got an array of shape {shape}")
    if min(shape) == 0:
        none = f"0 {'feature' if shape[0] else 'sample'}(s) (shape={shape})"
        raise ValueError(f"X has {none} while a minimum of 1 is required: it needs at least one row and column")
    if is_foreign(X):
        if reset:
            estimator.n_features_in_ = shape[1]
        else:
            _check_width(estimator, shape[1])
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # check_X warns, once
            validate_data(estimator, X, reset=reset, skip_check_array=True)
    except (TypeError, ValueError) as error:
        raise type(error)(_about("X", error)) from None


def _check_width(estimator: BaseEstimator, width: int) -> None:
    """Raise a ValueError unless rows have as many features as the estimator expects."""
    if width != estimator.n_features_in_:
        raise ValueError(
            f"X has {width} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )


def _check_foreign(estimator: BaseEstimator, X: Array, *, reset: bool) -> Array:
    """Do what :func:`check_X` does, for an array of another library than NumPy."""
    xp = namespace(X)
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, rows by features; got an array of shape {tuple(X.shape)}")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X has shape {tuple(X.shape)}: at least one row and one feature are required")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: X must hold real numbers")
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    X = X.detach() if hasattr(X, "detach") else X  # no gradients flow through a fit
    _refuse_non_finite("X", X, None)
    if reset:
        estimator.n_features_in_ = X.shape[1]
    else:
        _check_width(estimator, X.shape[1])
    return X


def check_Y(y: Any, X: Array, any_size: bool = False) -> tuple[Array, bool]:
    """Return y as an (N, T) array in the library and on the device of X, and whether it was one-dimensional.

    Labels whose squares overflow are refused unless ``any_size`` allows them, as where labels are clipped to a bound.
    Double precision stays double even beside single-precision rows: labels may have a large mean.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if not is_foreign(y) and np.asarray(y).ndim == 0:
        raise ValueError(f"y must have one number per row, got {quote(y)}")
    if is_foreign(y):
        if namespace(y).isdtype(y.dtype, "complex floating"):
            raise ValueError("Complex data not supported: y must hold real numbers")
        Y = like(y, X, dtype=None if y.dtype == namespace(y).float32 else namespace(X).float64)
        Y = Y.detach() if hasattr(Y, "detach") else Y
    else:
        if np.asarray(y).dtype.kind in "OUS":  # strings and mixed columns: let NumPy try, and name the argument if not
            try:
                y = np.asarray(y, dtype=float)
            except (TypeError, ValueError):
                raise ValueError("y must hold numbers: it contains strings or mixed values") from None
        try:
            checked = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
        except (TypeError, ValueError) as error:
            raise type(error)(_about("y", error)) from None
        Y = like(checked, X, dtype=None if checked.dtype == np.float32 else namespace(X).float64)
    if Y.ndim not in (1, 2) or (Y.ndim == 2 and Y.shape[1] == 0):
        raise ValueError(f"y must have one column per target, got an array of shape {tuple(Y.shape)}")
    if Y.shape[0] != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y has {Y.shape[0]}: they must have the same number")
    if not any_size:
        _refuse_non_finite("y", Y, None)
        _refuse_extreme(Y)
    elif not bool(namespace(Y).all(namespace(Y).isfinite(Y))):  # to say which label would reveal a private record
        raise ValueError("y contains NaN or infinity (inf): drop or impute such rows before fitting")
    return (Y[:, None], True) if Y.ndim == 1 else (Y, False)


def check_weights(sample_weight: Any, X: Array) -> np.ndarray | None:
    """Return non-negative weights, one per row, as a NumPy vector; None if they are all the same."""
    if sample_weight is None:
        return None
    try:
        w = np.asarray(to_numpy(sample_weight))
        w = w.astype(float) if w.dtype.kind in "iufbO" else np.full(1, np.nan)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must be one number per row, got {quote(sample_weight)}") from None
    if w.ndim == 0:
        w = np.full(X.shape[0], float(w))
    if w.shape != (X.shape[0],):
        raise ValueError(f"sample_weight must be one number per row: X has {X.shape[0]} rows, got shape {w.shape}")
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        raise ValueError("sample_weight must hold finite numbers that are not negative")
    if not np.any(w > 0):
        raise ValueError("sample_weight is zero for every row: give at least one row a positive weight")
    w = w / w.max()  # only ratios matter; this keeps them in range for any scale and precision
    return None if np.all(w == 1.0) else w


def _about(name: str, error: Exception) -> str:
    """Return scikit-learn's message on one line, without the array it prints, and naming the argument.

    The message on feature names stays unchanged: it lists one name per line on purpose.
    """
    text = str(error)
    if text.startswith("The feature names"):
        return text
    lines = text.splitlines()
    advice = [line for line in lines[1:] if line.startswith("Reshape")]
    sentence = ". ".join([lines[0].rstrip(":."), *advice])
    return sentence if f"{name} " in sentence else f"{name} cannot be used: {sentence}"


def check_folds(cv: Any, n: int, kept: np.ndarray | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the (train, test) rows of a splitter or of a list of splits (row numbers or masks); ``kept`` renumbers."""
    try:
        splits = list(check_cv(cv).split(np.empty((n, 0))))
        folds = [tuple(_row_numbers(part, n) for part in split) for split in splits]
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"cv must be a number, a splitter or a list of splits of the {n} rows; {error}") from None
    if kept is not None:
        position = np.full(n, -1)
        position[kept] = np.arange(len(kept))
        folds = [tuple(position[part][position[part] >= 0] for part in split) for split in folds]
    if not folds or any(len(split) != 2 or not all(len(part) for part in split) for split in folds):
        raise ValueError("cv must give splits with at least one training row and one test row of positive weight")
    return [(train, test) for train, test in folds]


def _row_numbers(part: Any, n: int) -> np.ndarray:
    """Return one part of a split as row numbers; raise a ValueError unless it is a mask or row numbers."""
    part = np.asarray(part)
    if part.dtype == bool:
        if part.shape != (n,):
            raise ValueError(f"a mask has {len(part)} entries")
        return np.flatnonzero(part)
    if part.ndim != 1 or (part.size and (part.dtype.kind not in "iu" or part.min() < 0 or part.max() >= n)):
        raise ValueError("a split must hold row numbers or a mask")
    return part.astype(int)


def check_kernel_matrix(K: Array) -> None:
    """Check that a precomputed kernel matrix is square and symmetric."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"with a precomputed kernel X must be square, got shape {tuple(K.shape)}")
    xp = namespace(K)
    gap, size = float(xp.max(xp.abs(K - K.T))), float(xp.max(xp.abs(K)))
    if gap > 8 * eps(K) ** 0.5 * size:
        raise ValueError(f"with a precomputed kernel X must be symmetric: entries differ by up to {gap:g}")


def _refuse_extreme(Y: Array) -> None:
    """Raise a ValueError if squares of the labels would overflow or underflow."""
    xp = namespace(Y)
    size, largest = float(xp.max(xp.abs(Y))), float(xp.finfo(Y.dtype).max) ** 0.5 / 1e4
    if size > largest or 0.0 < size < 1.0 / largest:
        raise ValueError(f"y has values of size {size:.0e}, whose squares are out of range: bring y to another unit")


def _refuse_non_finite(name: str, values: Array, columns: Any) -> None:
    """Raise a ValueError that says where the first number that is not finite stands."""
    xp = namespace(values)
    if bool(xp.all(xp.isfinite(values))):
        return
    where = np.argwhere(~np.isfinite(to_numpy(values)))[0]
    kind = "NaN" if np.isnan(to_numpy(values)[tuple(where)]) else "infinity (inf)"
    column = ""
    if len(where) == 2 and values.ndim == 2 and name == "X":
        column = f", column {columns[where[1]]!r}" if columns is not None else f", column {where[1]}"
    raise ValueError(
        f"{name} contains {kind}, first in row {where[0]}{column}: drop or impute such rows before fitting"
    )


def check_positive(name: str, value: Any, *, zero: bool = False) -> float:
    """Check that a number is finite and above zero (or, with ``zero``, not negative); return it as a float."""
    if not _is_real(value) or not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        kind = "a finite number that is not negative" if zero else "a positive, finite number"
        raise ValueError(f"{name} must be {kind}, got {quote(value)}")
    return float(value)


def check_whole(name: str, value: Any, least: int = 1) -> int:
    """Check that a number is whole and at least ``least``; return it as an int."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, got {quote(value)}")
    return int(value)


def check_probability(name: str, value: Any, *, zero: bool = False) -> float:
    """Check that a number lies strictly between 0 and 1 (or, with ``zero``, is 0); return it as a float."""
    if not _is_real(value) or not 0 <= value < 1 or (value == 0 and not zero):
        raise ValueError(f"{name} must lie between 0 and 1, got {quote(value)}")
    return float(value)


def check_budget(epsilon: Any, delta: Any, n_rows: int | None = None) -> tuple[float, float]:
    """Check ε > 0 and 0 < δ < 1; warn of a δ above 1/n, which would allow one record of n to be published outright."""
    epsilon, delta = check_positive("epsilon", epsilon), check_probability("delta", delta)
    if n_rows is not None and delta > 1.0 / n_rows:
        warnings.warn(
            f"delta = {delta:g} is above 1/n = {1.0 / n_rows:g}: that would allow a record to be published outright; "
            "take a delta well below 1/n",
            UserWarning,
            stacklevel=3,
        )
    return epsilon, delta


def are_texts(value: Any, counts: Container[int]) -> bool:
    """Return whether a value is a list of strings whose length is among ``counts``."""
    return isinstance(value, list) and len(value) in counts and all(isinstance(one, str) for one in value)


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


# --- Errors with fields, so that no code has to parse their messages; each can be made from its message alone -------


class AdvisedError(ValueError):
    """An error whose advice depends on where it is read.

    Attributes
    ----------
    at_command_line : the message for people at a command line; the error's own message is for Python code
    """

    def __init__(self, sentence: str, at_command_line: str | None = None) -> None:
        super().__init__(sentence)
        self.at_command_line = sentence if at_command_line is None else at_command_line


class NotAddable(ValueError):
    """Two sums that cannot be added up.

    Attributes
    ----------
    reason : the part of the message that says how the sums differ
    """

    def __init__(self, sentence: str, reason: str | None = None) -> None:
        super().__init__(sentence)
        self.reason = sentence if reason is None else reason
