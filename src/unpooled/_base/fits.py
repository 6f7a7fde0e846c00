"""Fits that succeed as a whole or change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def fitting(estimator: Any, *, anew: bool = True) -> Iterator[None]:
    """Make a fit that succeeds as a whole or changes nothing, also where it is interrupted.

    A fit ``anew`` forgets what an earlier one has learned before it begins, so nothing of that is left beside the
    new; one that goes on from there keeps it. Fits replace what the estimator holds and never change it in place, but
    for a random generator that it was given, which goes back to where it stood.
    """
    before = estimator.__dict__
    generators = [(value, _state_of(value)) for value in before.values() if isinstance(value, GENERATORS)]
    estimator.__dict__ = {name: value for name, value in before.items() if not (anew and is_fitted_name(name))}
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        for generator, state in generators:
            _set_state(generator, state)
        raise


GENERATORS = (np.random.Generator, np.random.RandomState)


def _state_of(generator: Any) -> Any:
    return generator.bit_generator.state if isinstance(generator, np.random.Generator) else generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def is_fitted_name(name: str) -> bool:
    """Whether an attribute is one that a fit sets, by scikit-learn's convention."""
    return name.endswith("_") and not name.endswith("__")
