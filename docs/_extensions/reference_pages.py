"""What the templates of the reference ask for."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module


def fields_of(module: str, name: str) -> str:
    """The fields of a record, which its docstring lists already: not to be listed again among its members."""
    found = getattr(import_module(module), name)
    return ", ".join(field.name for field in fields(found)) if is_dataclass(found) else "nothing"
