"""Private rounds in pieces for tests: a small frame, rows as a source, and answers before there is noise on them."""

from __future__ import annotations

import numpy as np

import unpooled as up
from tests.made_up import CUBE, points
from unpooled._base.rows import ArraySource, Rows
from unpooled.engines import as_engine
from unpooled.privacy.rounds.custodian import noise_for, sum_answer
from unpooled.privacy.rounds.frame import build_public_frame

ENGINE = as_engine(None)


def basis_of(kernel=None, n_features=6, width=2):
    """Features of sixty rows in a square."""
    U = points(1, 60, width, between=CUBE)
    return up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.7) if kernel is None else kernel, n_features).fit(U)


def frame_of(basis):
    """Return the frame of a basis, as a fit would make it."""
    return build_public_frame(basis, None)


def source_of(X, y):
    """Rows in memory with one label."""
    return ArraySource(Rows(np.asarray(X, dtype=float), np.asarray(y, dtype=float)[:, None]))


def answered(question, X, y, features, frame=None, label_bound=np.inf):
    """Return the sums that a site computes, by the code that a fit runs."""
    return sum_answer(question, source_of(X, y), frame, features, label_bound, ENGINE)


def exact(source, n, features, frame, label_bound):
    """A custodian for ``asking.held`` that adds no noise, and says that there is as much as there would be."""

    def told(question, mu):
        values = sum_answer(question, source, frame, features, label_bound, ENGINE)
        return values / n, noise_for(question, n, mu).sigma / n

    return told
