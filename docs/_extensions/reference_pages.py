"""What the templates of the reference ask for."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import reduce
from importlib import import_module


def fields_of(module: str, name: str) -> str:
    """The fields of a record, which its docstring lists already: not to be listed again among its members."""
    found = reduce(getattr, name.split("."), import_module(module))
    return ", ".join(field.name for field in fields(found)) if is_dataclass(found) else "nothing"
