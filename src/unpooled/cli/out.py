"""Output of a command: tables and sentences for people, or one JSON object for scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from .._base import plain_json
from .._base.text import size

__all__ = ["Out", "plain", "size"]


class Out:
    """Results go to standard output, everything else to standard error."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = Console(highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)
        self.warnings: list[str] = []

    def say(self, text: str = "") -> None:
        """A line, or several, for people."""
        if not self.as_json:
            self.out.print(text, markup=False)

    def facts(self, title: str, rows: Sequence[tuple[str, Any]]) -> None:
        """A table of names and values."""
        self.table(title, ["", ""], [[name, str(value)] for name, value in rows], headed=False)

    def table(self, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], headed: bool = True) -> None:
        """A table; a terminal that is too narrow folds it."""
        if self.as_json:
            return
        table = Table(title=title, title_justify="left", show_header=headed)
        for head in heads:
            table.add_column(head, overflow="fold")
        for row in rows:
            table.add_row(*row)
        self.out.print(table, markup=False)

    def warn(self, sentence: str) -> None:
        """A warning, on one line."""
        sentence = " ".join(sentence.split())
        self.warnings.append(sentence)
        self.err.print(f"warning: {sentence}", markup=False)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Something turns while this lasts, at a terminal."""
        if self.err.is_terminal:
            with self.err.status(what):
                yield
        else:
            yield

    def finish(self, result: dict[str, Any]) -> None:
        """The result, where a script has asked for it."""
        if self.as_json:
            self._print({"ok": True, **result, "warnings": self.warnings})

    def fail(self, sentence: str, code: int, **more: Any) -> None:
        """The sentence for people, the object for scripts."""
        self.err.print(f"error: {sentence}", markup=False)
        if self.as_json:
            self._print({"ok": False, "error": sentence, "exit_code": code, **more, "warnings": self.warnings})

    def _print(self, content: dict[str, Any]) -> None:
        print(plain_json.readable(plain(content), indent=2), file=sys.stdout)


def plain(value: Any) -> Any:
    """Return a result as JSON has it: arrays are lists, numbers that are not finite are null, paths are text."""
    return plain_json.plain(value, lambda other: plain(other.tolist()) if isinstance(other, np.ndarray) else str(other))
