"""Plain JSON, in the three forms that the library writes; none of them lets a number through that JSON does not have.

Two forms are canonical: equal contents give equal bytes, so that a hash over them means something. Both are part of
file formats and stay as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def encode_canonical(content: Any) -> bytes:
    """Return the one compact line, in ASCII with sorted keys, that chains hash and sites sign."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def encode_header(content: Any) -> str:
    """Return the text with sorted keys that the header of a file of unpooled is, and that its digest is over."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)


def encode_readable(content: Any, indent: int = 1) -> str:
    """Return indented text for people to look at."""
    return json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)


def make_plain(value: Any, other: Callable[[Any], Any] = str) -> Any:
    """Return a value as JSON has it: a number that is not finite becomes None, a tuple a list.

    ``other`` says what becomes of a value that JSON knows nothing of.
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
