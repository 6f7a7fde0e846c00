"""What the extra ``flower`` brings for keys and masks, imported where it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def primitives(name: str) -> Any:
    """A module of ``cryptography.hazmat.primitives``, by what comes after the dot."""
    try:
        return import_module(f"cryptography.hazmat.primitives.{name}")
    except ImportError:
        raise ImportError(
            "keys and masks are made by cryptography, which is not installed: pip install 'unpooled[flower]'"
        ) from None
