"""A context that silences arithmetic on private rows, because a warning about one record would tell of that record."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

import numpy as np


class _NoRuntimeWarnings:
    """RuntimeWarnings are left out while anybody is inside; what was set before is restored when the last one leaves.

    Filters belong to the process, so threads must share this: two that each restored what they had found could leave
    the filter behind for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._filters: warnings.catch_warnings[None] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore", RuntimeWarning)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._filters is not None:
                self._filters.__exit__(None, None, None)
                self._filters = None


_no_runtime_warnings = _NoRuntimeWarnings()


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Nothing that overflows, underflows or is not a number is warned of or raised, whatever ``np.seterr`` says.

    NumPy's part of it holds for one thread: every thread and process that looks at rows has to enter it.
    """
    with _no_runtime_warnings, np.errstate(all="ignore"):
        yield
