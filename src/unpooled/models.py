"""Saving fitted models and loading them back."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from . import files
from .estimators import (
    AveragedRegressor,
    CorrentropyRegressor,
    LESSRegressor,
    NystromRegressor,
    PrivateRegressor,
    PrivateSGDRegressor,
    SpectralRegressor,
    SummaryRegressor,
)
from .estimators.basis_average import BasisAverage
from .messages import shown


class Savable(Protocol):
    """A fitted model that knows its header and arrays."""

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...


_CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        AveragedRegressor,
        BasisAverage,
        CorrentropyRegressor,
        LESSRegressor,
        NystromRegressor,
        PrivateRegressor,
        PrivateSGDRegressor,
        SpectralRegressor,
        SummaryRegressor,
    )
}


def save(model: Savable, path: files.PathLike) -> None:
    """Write a fitted model to one file: a JSON header and raw arrays, no pickle.

    What predicting needs is kept, with the choice of λ and its scores; the coefficients of the other λ are not,
    nor a splitter given as ``cv``.

    Parameters
    ----------
    model : a fitted estimator of this package
    path : the file to write; it appears whole or not at all
    """
    header, arrays = _parts(model, "saved")
    files.write(path, "model", header, arrays)


def digest_of(model: Savable) -> str:
    """SHA-256 over a fitted model: what a summary of its residuals names it by. A file keeps it."""
    return files.digest(*_parts(model, "named"))


def _parts(model: Savable, done: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    name = type(model).__name__
    if _CLASSES.get(name) is not type(model):
        raise ValueError(f"{name} is not a model that can be {done}: use one of {', '.join(_CLASSES)}")
    header, arrays = model._to_parts()
    return {"class": name, **header}, arrays


def load(path: files.PathLike) -> Any:
    """The fitted model in a file that :func:`save` wrote; a damaged or foreign file is an error that says so.

    Parameters
    ----------
    path : the file
    """
    header, arrays = files.read(path, "model")
    name = header.get("class")
    if not isinstance(name, str) or name not in _CLASSES:
        name = name if isinstance(name, str) and len(name) < 80 else shown(name)
        raise files.FileError(f"{path} holds a {name}, which this version of unpooled does not know")
    try:
        return _CLASSES[name]._from_parts(header, arrays)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise files.FileError(f"{path} does not hold a complete model: {error}") from None
