"""A small study for tests of private summaries: rows, a basis, and what would be released before there is noise."""

from __future__ import annotations

from functools import partial

import numpy as np

import unpooled as up
from tests.made_up import CUBE, regression, sine
from unpooled.data.sources import open_labeled
from unpooled.privacy.release import check_request

FALSE_ALARM = 1e-8  # of one statistical test: all of them together stay below 1e-6

# inputs in a square, and a smooth function of them
rows = partial(regression, between=CUBE, function=sine(3, slope=1.0))


def basis(n_features=20, n_public=150):
    """Features of a Gaussian kernel, κ = 1."""
    return up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), n_features).fit(rows(99, n=n_public)[0])


def before_noise(B, X, y, privacy, order=1, residuals_of=None, loss="squared"):
    """The vector that gets the noise, and the question it answers."""
    question = check_request(B, order, residuals_of, loss, None, privacy)
    return question.sum_before_noise(open_labeled(B, X, y, None))[1], question


class Untouchable:
    """Rows that nobody may look at."""

    def __getattr__(self, name):
        if name.startswith("__") or name in ("shape", "columns", "dtype"):
            raise AttributeError(name)
        raise AssertionError(f"the data were touched: {name}")

    def __array__(self, *args, **kwargs):
        raise AssertionError("the data were touched")

    def __len__(self):
        raise AssertionError("the data were touched")


class Unread:
    """Rows that say how many they are, and refuse to be looked at."""

    def __init__(self, *shape):
        self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(float)

    def __len__(self):
        return self.shape[0]

    def __array__(self, *_, **__):
        raise AssertionError("the data were looked at")
