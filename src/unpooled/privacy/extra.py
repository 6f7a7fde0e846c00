"""What the extra ``privacy`` brings, imported where it is needed: without it everything but noise still works."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def opendp() -> Any:
    """``opendp.prelude``, with the proved mechanisms that it calls "contrib" switched on."""
    try:
        dp: Any = import_module("opendp.prelude")
    except ImportError:
        raise ImportError(
            "privacy noise is drawn by OpenDP, which is not installed: pip install 'unpooled[privacy]'"
        ) from None
    dp.enable_features("contrib")  # OpenDP has this switch for the whole process, and no other way to use a mechanism
    return dp
