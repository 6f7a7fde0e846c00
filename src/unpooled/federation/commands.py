"""Where Flower's commands are."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from .config import ConfigError


def command(name: str) -> str:
    """One of Flower's commands, of the installation that runs this; a ConfigError where there is none."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ConfigError(f"{name} is not installed: pip install 'unpooled[flower]'")
    return found
