"""Plain JSON, in the three forms that the library writes; none of them writes a number that JSON does not have.

Two forms are canonical: equal contents give equal bytes, so that a hash over them is meaningful. Both belong to file
formats and never change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def encode_canonical(content: Any) -> bytes:
    """Return one compact line, in ASCII with sorted keys: the form that chains hash and sites sign."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def encode_header(content: Any) -> str:
    """Return text with sorted keys: the form of a file's header, over which its digest is taken."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)


def encode_readable(content: Any, indent: int = 1) -> str:
    """Return indented text for people to read."""
    return json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)


def make_plain(value: Any, other: Callable[[Any], Any] = str) -> Any:
    """Return a value in a form that JSON can hold: a number that is not finite becomes None, a tuple a list.

    ``other`` converts values that JSON does not know.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): make_plain(item, other) for key, item in value.items()}
    return [make_plain(item, other) for item in value] if isinstance(value, (list, tuple)) else other(value)
