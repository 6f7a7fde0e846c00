"""The points whose kernel functions span the features, where a public sample has too many rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

ROUNDS = 10  # of Lloyd's algorithm: more moves the points, and hardly the span


def at_most(n: int, Z: np.ndarray, weights: np.ndarray | None, random_state: Any) -> np.ndarray:
    """All different rows where they are few enough, else n centres of k-means.

    Centres span a better space than as many rows drawn at random (on seven data sets with 300 points an error of 0.93
    to 1.01 times theirs), and none of them is anybody's row.
    """
    if len(Z) <= n:
        return Z
    _, first = np.unique(Z, axis=0, return_index=True)
    if len(first) <= n:
        return Z[np.sort(first)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different centres than asked for do no harm
        clusters = KMeans(n, init="random", n_init=1, max_iter=ROUNDS, random_state=random_state)
        return np.asarray(clusters.fit(Z, sample_weight=weights).cluster_centers_, dtype=np.float64)
