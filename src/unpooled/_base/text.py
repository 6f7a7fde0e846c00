"""Values as text: any value on one line of an error message; sizes, times and numbers as people read them."""

from __future__ import annotations

import math
from typing import Any


def quote(value: Any, width: int = 80) -> str:
    """``repr(value)`` on one line and not too long, whatever it is: an array's would break the sentence."""
    text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def one_line(text: object) -> str:
    """Return a text, or the sentence of an error, on one line."""
    return " ".join(str(text).split())


def with_noun(n: int, what: str) -> str:
    """A number and what it counts: "1 block", "3 blocks"."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


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


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 3) -> str:
    """A number as people write it: 12,300; 0.0042; 3.1·10⁻⁷."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "unknown"
    if value == 0:
        return "0"
    mantissa, _, raised = f"{value:.{digits - 1}e}".partition("e")
    exponent = int(raised)
    if -4 <= exponent <= 6:
        return f"{value:,.{max(digits - 1 - exponent, 0)}f}".replace("-", "−")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    times = {"1": "", "-1": "-"}.get(mantissa, f"{mantissa}·")
    return f"{times}{power(exponent)}".replace("-", "−")


def power(exponent: int) -> str:
    """10⁻⁵."""
    return "10" + str(exponent).translate(SUPERSCRIPTS)
