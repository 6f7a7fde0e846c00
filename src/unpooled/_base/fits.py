"""Fits that succeed as a whole or change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def undo_on_failure(estimator: Any, *, from_scratch: bool = True) -> Iterator[None]:
    """Run a fit that succeeds as a whole or changes nothing, even if it is interrupted.

    A fit ``from_scratch`` first forgets what an earlier fit has learned, so that none of it remains beside the new
    results; a fit that continues an earlier one keeps it. Fits replace the attributes of the estimator and never change
    them in place, except for a random generator that was given as a parameter: after a failure it returns to its old
    state.
    """
    before = estimator.__dict__
    generators = [(value, _state_of(value)) for value in before.values() if isinstance(value, GENERATORS)]
    estimator.__dict__ = {name: value for name, value in before.items() if not (from_scratch and _is_fitted_name(name))}
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


def _is_fitted_name(name: str) -> bool:
    """Return whether an attribute is one that a fit sets, by scikit-learn's convention."""
    return name.endswith("_") and not name.endswith("__")
