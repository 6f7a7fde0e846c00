"""Estimators whose parameters, and the parts of a fit that a file keeps, are declared once, in their class.

A class is a dataclass of its parameters, each with its kind (:mod:`.kinds`), and lists in ``_saved`` the parts of a
fitted model that a file keeps. Checks, files and the table of parameters all read these two declarations. Conditions
on several parameters together are in ``_check_together``.

A summary of residuals carries the digest of the model that left these residuals, and ``update`` refuses the summary if
the digest belongs to another model.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from . import files
from .checks import check_fitted
from .kinds import from_plain, parameters_of, to_plain

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]

#: the classes whose fitted models can be saved and named, by the names that files have for them
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


class Part(Protocol):
    """A part of a fitted model that a file keeps."""

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        """Add the part's entries to the header and to the arrays of a file."""

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        """Give a new model what :meth:`write` wrote; raise a ValueError if it is inconsistent."""


class DeclaredEstimator(BaseEstimator):
    """An estimator that is a dataclass of its parameters."""

    _saved: ClassVar[tuple[Part, ...]] = ()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _check_parameters(self) -> None:
        """Raise a ValueError of one sentence if a parameter has a value that is not allowed."""
        for one in parameters_of(type(self)):
            one.kind.check(one.name, getattr(self, one.name))
        self._check_together()

    def _check_together(self) -> None:
        """Raise a ValueError of one sentence if parameters contradict each other."""

    @classmethod
    def _from_plain(cls, written: Any) -> Self:
        """Return an unfitted estimator with the parameters in a header; raise a ValueError if one is not allowed."""
        model = from_plain(cls, written, f"the parameters of a {cls.__name__}")
        model._check_together()
        return model

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the header and the arrays of a file: the header holds only scalars, lists and strings."""
        check_fitted(self)
        header: dict[str, Any] = {}
        arrays: dict[str, np.ndarray] = {}
        if parameters_of(type(self)):
            header["params"] = to_plain(self)
        for part in self._saved:
            part.write(self, header, arrays)
        return header, arrays

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Return the model; raise a ValueError or TypeError if the parts do not make one."""
        with files.open_content(header, arrays, cls.__name__) as (entries, numbers):
            entries.get("class")  # which has already chosen this class
            model = cls._from_plain(entries["params"]) if parameters_of(cls) else cls()
            for part in cls._saved:
                part.read(model, entries, numbers)
        # A header may claim any number of features; without arrays to match, it must not make us allocate memory.
        model._check_kernels(min(model.n_features_in_, max(1, sum(array.size for array in arrays.values()))))
        return model

    def _check_kernels(self, n_features: int) -> None:
        """Raise a ValueError if a kernel among the parameters does not fit the inputs of the model."""
        for one in parameters_of(type(self)):
            value = getattr(self, one.name)
            one.kind.check_values(value, n_features)
            if isinstance(value, DeclaredEstimator):
                value._check_kernels(n_features)


def parameter_table(cls: type[DeclaredEstimator]) -> str:
    """Return a Markdown table of an estimator's parameters: name, allowed values, default, whether files keep it."""
    lines = ["| parameter | must be | default | in a file |", "|---|---|---|---|"]
    for one in parameters_of(cls):
        default = "" if one.default is dataclasses.MISSING else f"`{one.default!r}`"
        lines.append(f"| `{one.name}` | {one.kind.words} | {default} | {'yes' if one.kind.in_files else 'no'} |")
    return "\n".join(lines)


M = TypeVar("M", bound=DeclaredEstimator)


class Savable(Protocol):
    """A fitted model that can give its header and arrays."""

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...


def to_parts_of(model: Savable, done: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a model that is to be ``done``: saved, or named."""
    name = type(model).__name__
    if name not in MODELS or type(model).__module__.split(".")[0] != __name__.split(".")[0]:
        raise ValueError(f"{name} is not a model that can be {done}: use one of {', '.join(MODELS)}")
    header, arrays = model._to_parts()
    return {"class": name, **header}, arrays


def copy_as_saved(model: M) -> M:
    """Return the fitted model as a file would give it back, without anything that a file does not keep."""
    return model._from_parts(*model._to_parts())


def digest_of(model: Savable) -> str:
    """Return the SHA-256 of a fitted model, by which a summary of its residuals names it. A file keeps it."""
    return files.digest(*to_parts_of(model, "named"))
