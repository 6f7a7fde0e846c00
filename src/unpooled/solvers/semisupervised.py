"""Unlabeled rows in a regression, by inflating the labels (Wang 2018, (3.22)).

With |D| labeled and |U| unlabeled rows, D* = D ∪ U carries the labels

    y* = (|D*|/|D|) y on D,   0 on U,   so that   (1/|D*|) Σ_{D*} y* K_x = (1/|D|) Σ_D y K_x:

the operator L_{D*} learns from every row and the right-hand side from the labeled ones. With an intercept the labels
are centred before they are inflated: b = mean(y) over D, and (y - b)|D*|/|D| on D. Inflating y itself would make a
shift of y a spike at the labeled rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, like, namespace
from .operator import Coordinates, root_of


def inflate(
    X: Array, Y: Array, weights: np.ndarray | None, U: Array, center: bool
) -> tuple[Array, Array, np.ndarray | None, Array]:
    """X*, Y*, w* and the intercepts b. A labeled row of weight w counts as w rows, an unlabeled one as one."""
    xp: Any = namespace(X)
    n = int(X.shape[0])
    labeled = float(n) if weights is None else float(np.sum(weights))
    total = labeled + U.shape[0]
    root = None if weights is None else root_of(like(weights, Y), n)
    _, b = Coordinates(n, root, center).targets(Y, Y.dtype)
    zeros = xp.zeros((U.shape[0], Y.shape[1]), dtype=Y.dtype, device=Y.device)
    Y_star = xp.concat([(Y - b) * (total / labeled), zeros])
    w_star = None if weights is None else np.concatenate([weights, np.ones(U.shape[0])])
    return xp.concat([X, like(U, X)]), Y_star, w_star, b
