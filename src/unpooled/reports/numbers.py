"""Numbers as people write them."""

from __future__ import annotations

import math

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
