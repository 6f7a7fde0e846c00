"""Declared: an estimator whose parameters, and what a file keeps of it, are written down once, in its class.

A class is a dataclass of its parameters, each with its kind (:mod:`.._base.kinds`), and lists in ``_saved`` the parts
of a fitted model that a file keeps (:mod:`.stored`). Checks, files and the table of parameters all read these two
declarations. What must hold of several parameters together is said in ``_check_together``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from .._base.checks import check_fitted
from .._base.kinds import Kind, from_plain, parameters_of, to_plain
from .._base.text import shown
from ..bases import Basis
from ..engines import NAMES, is_engine
from ..filters import as_filter
from ..filters import from_spec as filter_from_spec
from ..filters import to_spec as filter_spec
from ..kernels import Precomputed, as_kernel
from ..kernels.parts import free_parts, with_length_scales
from ..kernels.specs import from_spec as kernel_from_spec
from ..kernels.specs import to_spec as kernel_spec
from ..losses import Loss, as_loss
from ..losses import from_spec as loss_from_spec
from ..losses import to_spec as loss_spec
from .stored import Content, Part, is_same

ENVELOPE = {"format", "kind", "unpooled", "class"}  # entries of a header that belong to the file and not to the model


class Declared(BaseEstimator):
    """An estimator that is a dataclass of its parameters."""

    _saved: ClassVar[tuple[Part, ...]] = ()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _check_parameters(self) -> None:
        """Raise a ValueError of one sentence where a parameter is not what it may be."""
        for one in parameters_of(type(self)):
            one.kind.check(one.name, getattr(self, one.name))
        self._check_together()

    def _check_together(self) -> None:
        """Raise a ValueError of one sentence where parameters contradict each other."""

    @contextmanager
    def _fitting(self, *, anew: bool = True) -> Iterator[None]:
        """Make a fit that succeeds as a whole or changes nothing, also where it is interrupted.

        A fit ``anew`` forgets what an earlier one has learned before it begins, so nothing of that is left beside the
        new; one that goes on from there keeps it. Fits replace what the model holds and never change it in place.
        """
        before = self.__dict__
        self.__dict__ = {name: value for name, value in before.items() if not (anew and is_fitted_name(name))}
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    @classmethod
    def _from_plain(cls, written: Any) -> Self:
        """The estimator with the parameters in a header, not fitted; a ValueError where one is not what it may be."""
        model = from_plain(cls, written, f"the parameters of a {cls.__name__}")
        model._check_together()
        return model

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The header and the arrays of a file: only scalars, lists and strings are in the header."""
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
        """The model; a ValueError or TypeError where the parts are not one."""
        entries, numbers = Content(header), Content(arrays)
        model = cls._from_plain(entries["params"]) if parameters_of(cls) else cls()
        for part in cls._saved:
            part.read(model, entries, numbers)
        if surplus := sorted((entries.unread - ENVELOPE) | numbers.unread):
            raise ValueError(f"it has {shown(surplus[0])}, which no {cls.__name__} has")
        model._check_kernels(model.n_features_in_)
        return model

    def _check_kernels(self, n_features: int) -> None:
        """Raise a ValueError where a kernel among the parameters does not go with the inputs of the model."""
        for one in parameters_of(type(self)):
            value = getattr(self, one.name)
            if isinstance(one.kind, KernelKind) and value is not None:
                one.kind.check_values(value, n_features)
            elif isinstance(value, Declared):
                value._check_kernels(n_features)


def is_fitted_name(name: str) -> bool:
    """Whether an attribute is one that a fit sets, by scikit-learn's convention."""
    return name.endswith("_") and not name.endswith("__")


def parameter_table(cls: type[Declared]) -> str:
    """The parameters of an estimator as a table in Markdown: name, what it may be, default, whether a file keeps it."""
    lines = ["| parameter | must be | default | in a file |", "|---|---|---|---|"]
    for one in parameters_of(cls):
        default = "" if one.default is dataclasses.MISSING else f"`{one.default!r}`"
        lines.append(f"| `{one.name}` | {one.kind.words} | {default} | {'yes' if one.kind.in_files else 'no'} |")
    return "\n".join(lines)


def described(written: Any, from_spec: Callable[[Any], Any], to_spec: Callable[[Any], Any]) -> Any:
    """The object that a header describes, of which it must say everything and nothing else."""
    found = from_spec(written)
    if not is_same(to_spec(found), written):
        raise ValueError(f"{shown(written)} is not how unpooled describes a {type(found).__name__}")
    return found


class KernelKind(Kind):
    """Whatever a user calls a kernel; also a fitted basis, where ``basis`` says so.

    Of a basis a file keeps the kernel, which is enough to predict.
    """

    def __init__(self, *, basis: bool = False) -> None:
        self.basis = basis
        self.words = "a Kernel, a scikit-learn kernel or its name, a function, or None"
        self.words += ", or a fitted basis" if basis else ""

    def check(self, name: str, value: Any) -> None:
        if not (self.basis and isinstance(value, Basis)):
            as_kernel(value)

    def check_values(self, value: Any, n_features: int) -> None:
        """Raise a ValueError where a kernel has no values at rows of so many features."""
        kernel = as_kernel(value)
        if isinstance(kernel, Precomputed):
            return
        free = free_parts(kernel)
        kernel = with_length_scales(kernel, free, [1.0] * len(free))
        rows = np.random.default_rng(0).uniform(size=(3, n_features))
        with np.errstate(all="ignore"):
            kernel.resolve(rows).block(rows, rows)

    def to_plain(self, value: Any) -> Any:
        kernel = value.kernel_ if isinstance(value, Basis) else value
        return None if kernel is None else kernel_spec(as_kernel(kernel))

    def from_plain(self, written: Any) -> Any:
        return None if written is None else described(written, kernel_from_spec, kernel_spec)


class FilterKind(Kind):
    """A filter or its name."""

    words = "the name of a filter, or a Filter object"

    def check(self, name: str, value: Any) -> None:
        filter = as_filter(value)
        if not (filter.qualification > 0 and filter.bound > 0):  # which look at the filter's own numbers, and are quick
            raise ValueError(f"{name} must have a qualification and a bound, and {shown(value)} has not")

    def to_plain(self, value: Any) -> Any:
        return filter_spec(as_filter(value))

    def from_plain(self, written: Any) -> Any:
        return described(written, filter_from_spec, filter_spec)


class LossKind(Kind):
    """A loss or its name."""

    words = "the name of a loss, or a Loss object"

    def check(self, name: str, value: Any) -> None:
        if not as_loss(value).bound > 0:  # the bound looks at the scale, and refuses what is none
            raise ValueError(f"{name} must let labels push: {shown(value)} does not")

    def to_plain(self, value: Any) -> Any:
        return loss_spec(value) if isinstance(value, Loss) else value

    def from_plain(self, written: Any) -> Any:
        return described(written, loss_from_spec, loss_spec) if isinstance(written, dict) else written


class EngineKind(Kind):
    """Where blocks are worked on. A file keeps the names of engines, and never the address of a cluster.

    A model from a file would otherwise send the rows of its next fit to wherever the file says.
    """

    words = "'threads', 'processes', 'dask', a Dask client or its address (tcp://…), or an Engine"
    separator = ";"

    def __init__(self, *, in_files: bool = True) -> None:
        self.in_files = in_files

    def holds(self, value: Any) -> bool:
        return value is None or is_engine(value)

    def to_plain(self, value: Any) -> Any:
        return value if isinstance(value, str) and value in NAMES else None

    def from_plain(self, written: Any) -> Any:
        if not (written is None or (isinstance(written, str) and is_engine(written))):
            raise ValueError(f"its engine must be the name of one, got {shown(written)}")
        return self.to_plain(written)
