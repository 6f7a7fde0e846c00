"""Choosing the length scales of a kernel with labels: for estimators, and by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._base.arrays import Array, to_numpy
from .._base.checks import check_weights, check_X, check_Y
from .._base.progress import Progress
from .._solvers.descent import robust
from .._solvers.length_scales.search import STAGES, search
from ..kernels import Kernel, as_kernel
from ..kernels.parts import free_parts


def choose_length_scales(
    kernel: Any, X: Any, y: Any, sample_weight: Any = None, *, random_state: int = 0, verbose: int = 0
) -> Kernel:
    """The kernel with numbers in the place of every ``length_scale="auto"``, one a feature, and of every "median".

    The numbers, and a λ with them, minimise the exact leave-one-out error of kernel ridge regression with an intercept
    on at most 1500 rows, shrunk towards one length scale for all features as far as other rows ask for it; of 5000 rows
    and more, as many as 12,000 say whether all should be longer or shorter. Where the median distance does better on
    rows held out even so, it is taken. Estimators do all this when they are given such a kernel; by itself it serves
    kernels for a basis or a summary, which have no labels to look at.

    Parameters
    ----------
    kernel : Kernel
        ``Gaussian``, ``Matern`` or ``Laplacian`` with ``length_scale="auto"``, or sums, products and multiples of such.
    X, y, sample_weight : rows, labels and weights, as for ``SpectralRegressor.fit``
    random_state : int, default 0
        Draws the rows, without looking at labels.
    verbose : int, default 0
        A progress bar on a terminal, once the work takes longer than a second.

    Returns
    -------
    Kernel
        Its ``search_`` says what was tried and taken.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> kernel = up.choose_length_scales(up.kernels.Gaussian("auto"), X, np.sin(2 * X[:, 1]))
    >>> int(np.argmin(kernel.length_scale))
    1
    """
    checked = check_X(BaseEstimator(), X, reset=True)
    Y, _ = check_Y(y, checked)
    weights = check_weights(sample_weight, checked)
    return resolved(as_kernel(kernel), checked, Y, weights, random_state=random_state, verbose=verbose)


def resolved(
    kernel: Kernel,
    X: Array,
    Y: Array,
    weights: np.ndarray | None,
    points: Array | None = None,
    points_weights: Array | None = None,
    *,
    wrong_labels: bool = False,
    random_state: int = 0,
    verbose: int = 0,
) -> Kernel:
    """``kernel.resolve`` with labels at hand, for rows that were checked.

    "median" looks at ``points`` where those are not the labeled rows. Where labels may be wrong, they are moved to
    within three robust standard deviations of their median before their squares choose anything.
    """
    points, points_weights = (X, weights) if points is None else (points, points_weights)
    if not free_parts(kernel):
        return kernel.resolve(points, points_weights)
    rows, labels = to_numpy(X).astype(float), to_numpy(Y).astype(float)
    if weights is not None and not np.all(weights > 0):
        kept = weights > 0
        rows, labels, weights = rows[kept], labels[kept], weights[kept]
    labels = robust.clip_labels(labels, weights) if wrong_labels else labels
    with Progress(STAGES, "length scales", verbose) as bar:
        chosen, report = search(kernel, rows, labels, weights, random_state, bar.advance)
    found = chosen.resolve(points, points_weights)
    found.search_ = report
    return found
