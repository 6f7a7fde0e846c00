"""The contract of a fitted model that goes into a file, and the digest that names it.

A summary of residuals carries the digest of the model that left these residuals, and ``update`` refuses the summary if
the digest is that of another model.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from . import files

#: the classes whose fitted models can be saved and named, by the names that files know them by
MODELS = (
    "AveragedRegressor",
    "BasisAverage",
    "CorrentropyRegressor",
    "LESSRegressor",
    "NystromRegressor",
    "PrivateRegressor",
    "PrivateSGDRegressor",
    "SpectralRegressor",
    "SummaryRegressor",
)


class Savable(Protocol):
    """A fitted model that knows its header and arrays."""

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...


def parts_of(model: Savable, done: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a model that is to be ``done``: saved, or named."""
    name = type(model).__name__
    if name not in MODELS or type(model).__module__.split(".")[0] != __name__.split(".")[0]:
        raise ValueError(f"{name} is not a model that can be {done}: use one of {', '.join(MODELS)}")
    header, arrays = model._to_parts()
    return {"class": name, **header}, arrays


def digest_of(model: Savable) -> str:
    """SHA-256 over a fitted model: what a summary of its residuals names it by. A file keeps it."""
    return files.digest(*parts_of(model, "named"))
