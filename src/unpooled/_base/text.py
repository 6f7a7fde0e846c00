"""Text for people: any value on one line of an error message; sizes, times and numbers in words."""

from __future__ import annotations

import math
from typing import Any


def quote(value: Any, width: int = 80) -> str:
    """Return ``repr(value)`` on one line and not too long, so that even an array fits into a sentence."""
    text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def quote_unless_name(value: Any) -> str:
    """Return a name such as a class has as it is, and any other value quoted: it may come from a forged file."""
    return value if isinstance(value, str) and len(value) < 80 and value.isidentifier() else quote(value)


def join_lines(text: object) -> str:
    """Return a text, or the sentence of an error, on one line."""
    return " ".join(str(text).split())


def format_count(n: int, what: str) -> str:
    """Return a number with the noun that it counts: "1 block", "3 blocks"."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def format_size(n: float) -> str:
    """Return a number of bytes in words."""
    for unit, big in (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= big:
            return f"{_short(n / big)} {unit}"
    return f"{n:.0f} bytes"


def format_duration(seconds: float) -> str:
    """Return a time in words."""
    for unit, long in (("years", 365 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * long:
            return f"{_short(seconds / long)} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _short(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_number(value: float, digits: int = 3) -> str:
    """Return a number as people write it: 12,300; 0.0042; 3.1·10⁻⁷."""
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
    return f"{times}{format_power(exponent)}".replace("-", "−")


def format_power(exponent: int) -> str:
    """Return a power of ten such as 10⁻⁵."""
    return "10" + str(exponent).translate(SUPERSCRIPTS)
