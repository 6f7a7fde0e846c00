"""Helping errors be one sentence."""

from __future__ import annotations

from typing import Any


def shown(value: Any, width: int = 80) -> str:
    """``repr(value)`` on one line and not too long, whatever it is: an array's would break the sentence."""
    text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"
