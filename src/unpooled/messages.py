"""Values in sentences: on one line, in units that people read."""

from __future__ import annotations

from typing import Any


def shown(value: Any, width: int = 80) -> str:
    """``repr(value)`` on one line and not too long, whatever it is: an array's would break the sentence."""
    text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def size(n: float) -> str:
    """A number of bytes, in words."""
    for unit, big in (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= big:
            return f"{_short(n / big)} {unit}"
    return f"{n:.0f} bytes"


def duration(seconds: float) -> str:
    """A time, in words."""
    for unit, long in (("years", 365 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * long:
            return f"{_short(seconds / long)} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _short(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"
