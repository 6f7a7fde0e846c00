"""Kinds of parameters: which values are allowed, how a file writes them, and the error message for any other value.

An estimator declares each of its parameters once, as a field of a dataclass with a kind (:func:`parameter`). ``fit``
checks the values by their kinds, files write and read them by their kinds, and the table of parameters is made from
them. A kind knows nothing about the other parameters: an estimator checks by itself which of them go together.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .arrays import is_foreign, to_numpy
from .checks import check_positive_numbers
from .text import quote

T = TypeVar("T")


class Kind:
    """A kind of value. ``words`` follow "must be" in the error message for a value of another kind."""

    words: str = "something else"
    separator: str = ","  #: before "got": a semicolon where the words have commas of their own
    in_files: bool = True  #: whether a file keeps the value; a ledger, for one, is a place on one machine
    choices: tuple[str, ...] = ()  #: the words that are among the values

    def holds(self, value: Any) -> bool:
        """Return whether a value is of this kind."""
        raise NotImplementedError

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError of one sentence unless the value is of this kind."""
        if not self.holds(value):
            raise ValueError(f"{name} must be {self.words}{self.separator} got {quote(value)}")

    def check_values(self, value: Any, n_features: int) -> None:
        """Raise a ValueError if a value cannot be used with this many features, which a kernel from a file may not."""

    def to_plain(self, value: Any) -> Any:
        """Return the value in a form that JSON can hold."""
        return value.item() if isinstance(value, np.generic) else value

    def from_plain(self, written: Any) -> Any:
        """Return the value that :meth:`to_plain` wrote; whether it is of this kind is checked afterwards."""
        return written


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a class, as it was declared."""

    name: str
    kind: Kind
    default: Any  #: ``dataclasses.MISSING`` if the user must give it


def parameter(kind: Kind, default: Any = dataclasses.MISSING, *, repr: bool = True) -> Any:
    """Declare a field of an estimator or of a plan: ``lam: Any = parameter(Numbers("loo"), "loo")``."""
    return dataclasses.field(default=default, repr=repr, metadata={"kind": kind})


def declaration(cls: type[T]) -> type[T]:
    """Remove the defaults from a dataclass, leaving them to its constructor: an estimator's class has no ``lam``."""
    for one in dataclasses.fields(cls):  # type: ignore[arg-type]
        if one.name in vars(cls):
            delattr(cls, one.name)
    return cls


def parameters_of(cls: Any) -> tuple[_Parameter, ...]:
    """Return the parameters that a class declares, in their order; none if it declares none."""
    if not dataclasses.is_dataclass(cls):
        return ()
    return tuple(_Parameter(one.name, one.metadata["kind"], one.default) for one in dataclasses.fields(cls))


def kind_of(cls: Any, name: str) -> Kind:
    """Return the kind of the parameter of that name."""
    return next(one.kind for one in parameters_of(cls) if one.name == name)


def to_plain(one: Any) -> dict[str, Any]:
    """Return the declared fields of an object as the header of a file holds them."""
    return {
        each.name: each.kind.to_plain(getattr(one, each.name))
        for each in parameters_of(type(one))
        if each.kind.in_files
    }


def from_plain(cls: type[T], written: Any, words: str) -> T:
    """Return the object with the fields that :func:`to_plain` wrote; raise a ValueError if one is not allowed."""
    kinds = {each.name: each.kind for each in parameters_of(cls) if each.kind.in_files}
    if not isinstance(written, dict) or written.keys() != kinds.keys():
        raise ValueError(f"{quote(written)} is not {words}, which are {', '.join(kinds)}")
    values = {name: kinds[name].from_plain(value) for name, value in written.items()}
    for name, value in values.items():
        kinds[name].check(name, value)
    return cls(**values)


class CheckedValue(Kind):
    """A value checked by a function, which raises a ValueError of one sentence with the parameter's name."""

    def __init__(self, check: Callable[[str, Any], Any], words: str, *, none: bool = False, in_files: bool = True):
        self.checked_by, self.words, self.none, self.in_files = check, words, none, in_files

    def check(self, name: str, value: Any) -> None:
        if not (self.none and value is None):
            self.checked_by(name, value)


class Switch(Kind):
    """True or False, or one of a few words; also None if ``none`` says so."""

    def __init__(self, *others: str, none: bool = False) -> None:
        self.others, self.none = others, none
        self.words = f"True, False or {' or '.join(map(repr, others))}" if others else "True or False"
        self.words += " or None" if none else ""

    def holds(self, value: Any) -> bool:
        if value is None:
            return self.none
        return isinstance(value, (bool, np.bool_)) or (isinstance(value, str) and value in self.others)


class Word(Kind):
    """One of a few words."""

    def __init__(self, choices: Sequence[str], words: str = "") -> None:
        self.choices, self.separator = tuple(choices), ";" if len(choices) > 2 else ","
        *first, last = map(repr, choices)
        self.words = words or (f"{', '.join(first)} or {last}" if first else last)

    def holds(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.choices


class Whole(Kind):
    """A whole number from ``least`` to ``most``, or one of a few words; also None if ``none`` says so."""

    def __init__(
        self, least: int = 1, *others: str, words: str = "", most: float = math.inf, none: bool = False
    ) -> None:
        self.least, self.most, self.others, self.none = least, most, others, none
        size = "a positive whole number" if least == 1 else f"a whole number, at least {least}"
        self.words = words or " or ".join([size, *map(repr, others), *(["None"] if none else [])])

    def holds(self, value: Any) -> bool:
        if value is None:
            return self.none
        if isinstance(value, str):
            return value in self.others
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            return False
        return bool(self.least <= int(value) <= self.most)

    def to_plain(self, value: Any) -> Any:
        return value if value is None or isinstance(value, str) else int(value)


class Real(Kind):
    """A real number that meets a condition: ``Real("at least 0 and below 1", lambda v: 0 <= v < 1)``.

    ``none`` also allows None, and ``truths`` True and False. ``double`` is for numbers that only files contain: there
    they are never written as whole numbers.
    """

    def __init__(
        self,
        words: str,
        condition: Callable[[Any], Any],
        *,
        none: bool = False,
        truths: bool = False,
        double: bool = False,
    ) -> None:
        self.words, self.condition = words, condition
        self.none, self.truths, self.double = none, truths, double

    def holds(self, value: Any) -> bool:
        if value is None:
            return self.none
        if isinstance(value, (bool, np.bool_)):
            return self.truths
        return isinstance(value, float if self.double else numbers.Real) and bool(self.condition(value))

    def to_plain(self, value: Any) -> Any:
        """Return None for a number that is not finite, meaning no limit."""
        plain = super().to_plain(value)
        return None if isinstance(plain, float) and not math.isfinite(plain) else plain


class Bound(Kind):
    """A positive number, infinite if there is no bound; a file has None for infinity."""

    words = "a positive number, or None for no bound"

    def holds(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0

    def to_plain(self, value: Any) -> Any:
        return None if math.isinf(value) else value

    def from_plain(self, written: Any) -> Any:
        return math.inf if written is None else written


class Sentences(Kind):
    """A tuple of sentences; a list in a file."""

    words = "sentences"

    def holds(self, value: Any) -> bool:
        return isinstance(value, tuple) and all(isinstance(one, str) for one in value)

    def to_plain(self, value: Any) -> list[str]:
        return list(value)

    def from_plain(self, written: Any) -> Any:
        return tuple(written) if isinstance(written, list) else written


class Numbers(Kind):
    """A positive number, an array of them, or one of a few words; also None if ``none`` says so."""

    def __init__(self, *others: str, none: bool = False, words: str = "") -> None:
        self.others, self.none = others, none
        *first, last = ["a positive number", "an array of them", *map(repr, others)]
        self.words, self.separator = words or f"{', '.join(first)} or {last}", ";" if len(first) > 1 or words else ","

    def check(self, name: str, value: Any) -> None:
        if isinstance(value, str) or value is None:
            super().check(name, value)
        else:
            check_positive_numbers(name, value)

    def holds(self, value: Any) -> bool:
        return value in self.others or (value is None and self.none)

    def to_plain(self, value: Any) -> Any:
        return value if value is None or isinstance(value, str) else np.asarray(value, dtype=float).tolist()


class PerTarget(Kind):
    """A positive number, or a list of one per target, or "auto"; also infinity if ``infinite`` says so."""

    separator = ";"

    def __init__(self, words: str, *, whole: bool = False, infinite: bool = False) -> None:
        self.words, self.whole, self.infinite = f"{words}, or a list of one per target", whole, infinite

    def holds(self, value: Any) -> bool:
        if isinstance(value, str):
            return value == "auto"
        try:
            numbers_ = np.asarray(to_numpy(value) if is_foreign(value) else value)
        except (TypeError, ValueError):
            return False
        listed = value if isinstance(value, (list, tuple)) else [value]
        truths = any(isinstance(one, (bool, np.bool_)) for one in listed)
        if truths or numbers_.dtype.kind not in "iuf" or numbers_.ndim > 1 or not numbers_.size:
            return False
        whole = bool(np.all((numbers_ == np.floor(numbers_)) & (numbers_ < 2**53)))
        positive = bool(np.all(numbers_ > 0))
        return positive and (whole or not self.whole) and (self.infinite or bool(np.all(np.isfinite(numbers_))))

    def to_plain(self, value: Any) -> Any:
        """Return -1 for infinity, which JSON does not have."""
        if isinstance(value, str):
            return value
        numbers_ = np.asarray(to_numpy(value) if is_foreign(value) else value)
        return (np.where(np.isfinite(numbers_), numbers_, -1.0) if self.infinite else numbers_).tolist()

    def from_plain(self, written: Any) -> Any:
        listed = written if isinstance(written, list) else [written]
        if not self.infinite or not all(type(one) in (int, float) for one in listed):
            return written
        numbers_ = np.asarray(written, dtype=float)
        numbers_ = np.where(numbers_ == -1.0, math.inf, numbers_)
        return numbers_ if numbers_.ndim else float(numbers_)


class Blocks(Kind):
    """ "auto", a number of blocks, or a list of numbers to try."""

    words, separator = "'auto', a positive number or a list", ";"

    def check(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            super().check(name, value)
            return
        listed = np.asarray(value, dtype=object).reshape(-1).tolist()
        if not listed:
            raise ValueError(f"{name} is an empty list: give the numbers of blocks to try")
        for one in listed:
            Whole(1).check(name, one)

    def holds(self, value: Any) -> bool:
        return bool(value == "auto")

    def to_plain(self, value: Any) -> Any:
        return value if isinstance(value, str) else np.asarray(value).tolist()


class Seed(Kind):
    """None, a whole number or a random generator; a file keeps only numbers, and has None for a generator."""

    words = "None, a whole number or a random generator"

    def holds(self, value: Any) -> bool:
        if value is None or isinstance(value, (np.random.RandomState, np.random.Generator)):
            return True
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0

    def to_plain(self, value: Any) -> int | None:
        return int(value) if isinstance(value, (int, np.integer)) else None


class Folds(Kind):
    """A number of folds, a splitter or a list of splits; a file keeps only numbers, and has 5 for a splitter."""

    words, separator = "a number of at least 2, a splitter or a list of splits", ";"

    def holds(self, value: Any) -> bool:
        if isinstance(value, (bool, np.bool_, str, bytes, dict)):
            return False
        if isinstance(value, (int, np.integer)):
            return bool(value >= 2)
        return value is None or isinstance(value, Iterable) or callable(getattr(value, "split", None))

    def to_plain(self, value: Any) -> int:
        return int(value) if isinstance(value, (int, np.integer)) else 5

    def from_plain(self, written: Any) -> Any:
        if type(written) is not int:
            raise ValueError(f"its cv must be a number of folds, got {quote(written)}")
        return written


def from_header(written: Any, from_spec: Callable[[Any], Any], to_spec: Callable[[Any], Any]) -> Any:
    """Return the object that a header describes; the header must give all of its fields and nothing else."""
    object_ = from_spec(written)
    if not is_same(to_spec(object_), written):
        raise ValueError(f"{quote(written)} is not how unpooled describes a {type(object_).__name__}")
    return object_


def is_same(one: Any, other: Any) -> bool:
    """Return whether two contents of JSON are equal; True is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


POSITIVE = Real("a positive, finite number", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = Real("a finite number that is not negative", lambda value: 0 <= value < math.inf)
VERBOSITY = Real("a number", math.isfinite, truths=True)
