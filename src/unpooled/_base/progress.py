"""A progress bar with time left, for people who wait at a terminal or a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any

SHOW_AFTER = 1.0  # seconds: short work needs no bar


class Progress:
    """A count of finished parts, drawn as a bar on standard error after a second. ``verbose=0`` draws nothing."""

    def __init__(self, total: int, label: str, verbose: int) -> None:
        self.total, self.label = total, label
        self.wanted = verbose > 0 and total > 1 and (sys.stderr.isatty() or "ipykernel" in sys.modules)
        self._start, self._done = time.monotonic(), 0
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def advance(self) -> None:
        """Count one more finished part."""
        self._done += 1
        if not self.wanted or time.monotonic() - self._start < SHOW_AFTER:
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
            self._task = self._bar.add_task(self.label or "blocks", total=self.total)
        self._bar.update(self._task, completed=self._done)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
