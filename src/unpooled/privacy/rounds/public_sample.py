"""The public sample of a private fit: the features that its basis has, and the kernels that it may use."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from ..._base.arrays import to_numpy
from ..._base.checks import check_X
from ...bases import Basis
from ...kernels import as_kernel
from ...kernels.parts import free_parts
from ..sensitivity import bound_of
from .schedule import MOST_IF_RICH, telling_features

STAND_IN = 1000  # rows of the standard normal law in the place of a public sample


def n_public_rows(public: Any) -> int:
    """Return the number of public rows where they state it; the basis finds out whether they are rows at all."""
    shape = getattr(public, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    return len(public) if isinstance(public, (list, tuple)) else STAND_IN


def standard_normal(d: int) -> np.ndarray:
    """Return rows that stand for inputs of which nothing is known, always the same; the guarantee needs none."""
    return np.random.default_rng(0).standard_normal((STAND_IN, d))


def public_features(basis: Basis, public: Any, most: int) -> np.ndarray:
    """Return the features of at most so many public rows."""
    rows = to_numpy(check_X(basis, public, reset=False)).astype(np.float64)
    return np.asarray(basis.features(rows[np.random.default_rng(0).permutation(len(rows))[:most]]))


def widen_basis(basis: Basis, public: Any) -> Basis:
    """Fit a basis of the same kind with all the features that say something about rows other than the public ones."""
    wide: Basis = clone(basis).set_params(n_features=MOST_IF_RICH).fit(public)
    telling = telling_features(wide.eigenvalues_, wide.spread_)
    if telling <= basis.n_features_:
        return basis
    return wide if telling >= wide.n_features_ else clone(basis).set_params(n_features=telling).fit(public)


def check_bounded(kernel: Any) -> None:
    """Refuse a kernel without a bound, and one whose length scales would be chosen with the help of private labels."""
    if kernel is None:
        return
    kernel = as_kernel(kernel)
    if free_parts(kernel):
        raise ValueError(
            "length_scale='auto' would look at private labels: give numbers or 'median', or take the kernel from "
            "unpooled.choose_length_scales(kernel, X, y) on public rows"
        )
    advice = (
        "use Gaussian, Laplacian or Matern, or give a basis that was fitted to public rows, for which no more than a "
        "bounded part of a record counts"
    )
    bound_of(kernel, "the weights", advice)
