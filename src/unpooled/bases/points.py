"""The points whose kernel functions span the features, where a public sample has too many rows."""

from __future__ import annotations

from typing import Any

import numpy as np


def at_most(n: int, Z: np.ndarray, random_state: Any) -> np.ndarray:
    """The different rows where they are few enough, else n of them drawn at random.

    Centres of k-means were tried in their place: with 300 points on seven data sets an error of 0.93 to 1.01 times that
    of random rows, but with 1000 points and 400,000 rows of low noise 1.02 to 1.05 times. Rows it is: theory is theirs.
    """
    if len(Z) <= n:
        return Z
    _, first = np.unique(Z, axis=0, return_index=True)
    first = np.sort(first)
    if len(first) > n:
        first = np.sort(np.random.default_rng(random_state).choice(first, n, replace=False))
    return Z[first]
