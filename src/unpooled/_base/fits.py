"""Fits that succeed as a whole or change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fitting(estimator: Any, *, anew: bool = True) -> Iterator[None]:
    """Make a fit that succeeds as a whole or changes nothing, also where it is interrupted.

    A fit ``anew`` forgets what an earlier one has learned before it begins, so nothing of that is left beside the
    new; one that goes on from there keeps it. Fits replace what the estimator holds and never change it in place.
    """
    before = estimator.__dict__
    estimator.__dict__ = {name: value for name, value in before.items() if not (anew and is_fitted_name(name))}
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


def is_fitted_name(name: str) -> bool:
    """Whether an attribute is one that a fit sets, by scikit-learn's convention."""
    return name.endswith("_") and not name.endswith("__")
