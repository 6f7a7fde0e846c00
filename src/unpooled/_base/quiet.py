"""A context that silences arithmetic on private rows, because a warning about one record would tell of that record."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np

from .threads import SharedSetting


def _ignore_runtime_warnings() -> warnings.catch_warnings[None]:
    before = warnings.catch_warnings()
    before.__enter__()
    warnings.simplefilter("ignore", RuntimeWarning)
    return before


_no_runtime_warnings = SharedSetting(_ignore_runtime_warnings, lambda before: before.__exit__(None, None, None))


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Nothing that overflows, underflows or is not a number is warned of or raised, whatever ``np.seterr`` says.

    NumPy's part of it holds for one thread: every thread and process that looks at rows has to enter it.
    """
    with _no_runtime_warnings, np.errstate(all="ignore"):
        yield
