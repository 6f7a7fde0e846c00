"""Stand-ins for randomness, so that what has noise in it can be compared to the bit as well.

Noise, the random order of Wang and Guo's Algorithm 1 and the names of attempts come from OpenDP, ``os.urandom`` and
``secrets``. The functions of those are replaced, and nothing of the library: so it does not matter where it calls them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def fixed_noise() -> Iterator[None]:
    """Make OpenDP's Gaussian noise, and the system's random bytes, a function of what they are asked for."""
    measurements, seen = _measurements(), {}

    def make_gaussian(*_: Any, scale: float, **__: Any) -> Callable[[Any], list[int]]:
        def add(values: Any) -> list[int]:
            units = np.asarray(values, dtype=np.int64)
            # By the content, so that it does not matter which of several threads asks first.
            key = hashlib.sha256(units.tobytes() + repr(float(scale)).encode()).digest()
            seen[key] = seen.get(key, 0) + 1
            rng = np.random.default_rng([seen[key], *key[:8]])
            return (units + np.rint(scale * rng.standard_normal(units.shape)).astype(np.int64)).tolist()

        return add

    count = [0]

    def urandom(size: int) -> bytes:
        count[0] += 1
        return np.random.default_rng([7, count[0]]).bytes(size)

    with _replaced(measurements, "make_gaussian", make_gaussian), _replaced(os, "urandom", urandom):
        yield


@contextmanager
def fixed_names() -> Iterator[None]:
    """Make the random names of runs and attempts the numbers from 1 on."""
    count = [0]

    def token_hex(size: int = 32) -> str:
        count[0] += 1
        return f"{count[0]:0{2 * size}x}"

    with _replaced(secrets, "token_hex", token_hex):
        yield


def _measurements() -> Any:
    import opendp.measurements

    return opendp.measurements


@contextmanager
def _replaced(owner: Any, name: str, stand_in: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, stand_in)
    try:
        yield
    finally:
        setattr(owner, name, original)
