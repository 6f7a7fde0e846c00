"""Saving fitted models and loading them back."""

from __future__ import annotations

from typing import Any

from . import estimators
from ._base import files
from ._base.declared import MODELS, Savable, digest_of, from_file, to_file
from ._base.text import quote_unless_name
from .estimators import span

__all__ = ["Savable", "digest_of", "load", "save"]


_BY_NAME = vars(estimators) | vars(span)
#: the classes whose fitted models can be saved, by the names that files know them by
CLASSES: dict[str, Any] = {name: _BY_NAME[name] for name in MODELS}


def save(model: Savable, path: files.PathLike) -> None:
    """Write a fitted model to one file: a JSON header and raw arrays, no pickle.

    The file keeps what predicting needs, the choice of λ and its scores. It does not keep the coefficients of the other
    λ, nor a splitter that was given as ``cv``.

    Parameters
    ----------
    model : a fitted estimator of this package
    path : the file to write; it appears whole or not at all
    """
    header, arrays, format = to_file(model)
    files.write(path, "model", header, arrays, format)


def load(path: files.PathLike) -> Any:
    """Load the fitted model in a file that :func:`save` wrote; a damaged or foreign file raises a FileError.

    Parameters
    ----------
    path : the file
    """
    header, arrays = files.read(path, "model")
    name = header.get("class")
    if not isinstance(name, str) or name not in CLASSES:
        raise files.FileError(f"{path} holds a {quote_unless_name(name)}, which this version of unpooled does not know")
    try:
        return from_file(CLASSES[name], header, arrays)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        raise files.FileError(f"{path} does not hold a complete model: {error}") from None
