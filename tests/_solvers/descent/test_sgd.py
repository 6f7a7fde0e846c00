"""The learner of private descent is its formula, visits rows as it says, and rounds no more than is proved."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unpooled._solvers.descent import sgd

rng = np.random.default_rng(0)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.3])
@pytest.mark.parametrize("batch_size", [1, 7, 50])
def test_descent_is_its_formula_row_by_row(batch_size, lam, averaged):
    phi, labels, eta, clip = rng.standard_normal((50, 4)) / 4, rng.standard_normal(50), 0.4, 0.3
    order = list(sgd.draw_shuffled(50, 3, batch_size, np.random.default_rng(1)))
    assert len(order) == 3 * math.ceil(50 / batch_size)
    assert_array_equal(np.bincount(np.concatenate(order)), 3)
    w, iterates = [0.0] * 4, []
    for batch in order:
        gradient = [0.0] * 4
        for i in batch:
            u = sum(w[j] * phi[i, j] for j in range(4)) - labels[i]
            gradient = [g + max(-clip, min(clip, u)) * phi[i, j] for j, g in enumerate(gradient)]
        w = [(1 - eta * lam) * w[j] - eta / batch_size * gradient[j] for j in range(4)]
        iterates.append(w)
    found = sgd.descend(
        lambda rows: (phi[rows], labels[rows]), order, 4,
        step=eta, batch_size=batch_size, clip=clip, lam=lam, averaged=averaged,
    )  # fmt: skip
    assert_allclose(found, np.mean(iterates, axis=0) if averaged else w, rtol=1e-12, atol=1e-14)


def test_algorithm_1_is_descent_on_one_row_a_step():
    phi, labels = rng.standard_normal((20, 3)) / 3, rng.standard_normal(20)
    order = sgd.draw_rows(20, 100)
    one_by_one = sgd.descend_one_by_one(phi, labels, order, 0.2)
    batches = sgd.descend(lambda rows: (phi[rows], labels[rows]), order[:, None], 3, step=0.2, batch_size=1)
    assert_allclose(one_by_one, batches, rtol=1e-12)


def test_rows_are_drawn_uniformly():
    counts = np.bincount(sgd.draw_rows(10, 100_000), minlength=10)
    assert abs(counts - 10_000).max() < 8 * math.sqrt(9_000)  # eight standard deviations
    assert_array_equal(sgd.draw_rows(1, 5), 0)


def test_computed_weights_are_within_the_bound_on_rounding():
    wide = np.longdouble
    if np.finfo(wide).eps > 1e-18:
        pytest.skip("no precision beyond double here")
    phi, labels, step, clip = sgd.clip_rows(rng.standard_normal((64, 30)), 1.0), rng.uniform(-1, 1, 64), 0.5, 0.2
    order = list(sgd.draw_shuffled(64, 40, 8, np.random.default_rng(0)))
    how = {"step": step, "batch_size": 8, "clip": clip}
    found = sgd.descend(lambda rows: (phi[rows], labels[rows]), order, 30, **how)
    w = np.zeros(30, dtype=wide)
    for batch in order:
        z = phi[batch].astype(wide)
        w = w - wide(step) / 8 * (np.clip(z @ w - labels[batch], -clip, clip) @ z)
    T = len(order)
    bound = sgd.rounding_error(T, 30, 8, step=step, kappa=1.0, gradient=clip, largest=step * T * clip, label=1.0)
    assert 0 < float(np.linalg.norm(found - w)) <= bound < 1e-9
