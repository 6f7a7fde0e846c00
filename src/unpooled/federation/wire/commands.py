"""Where Flower's commands are, and the environment they are run in."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ..study.study import ConfigError

# Nothing is reported to anybody, and a message is taken up within a fifth of a second, not one.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
}


def command(name: str) -> str:
    """One of Flower's commands, of the installation that runs this; a ConfigError where there is none."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ConfigError(f"{name} is not installed: pip install 'unpooled[flower]'")
    return found
