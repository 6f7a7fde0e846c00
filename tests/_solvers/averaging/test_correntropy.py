"""Distributed correntropy: the average of the papers' descents, and its limits.

Tests `_solvers/averaging/descent.py`.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unpooled as up
from tests import reference
from tests.made_up import CUBE, regression

KERNEL = up.kernels.Gaussian(0.6)

some_data = partial(regression, n=45, between=CUBE, noise=0.2, tails=2)


def descended(X, y, Z, scale, steps, decay=0.0):
    """Run eq. (5) of Xie, Hu, Wang and Wang (2022), step by step."""
    K, c = reference.gaussian(X, X, 0.6), np.zeros(len(X))
    for t in range(1, steps + 1):
        u = K @ c - y
        c = c - t**-decay / len(X) * np.exp(-(u**2) / (2 * scale**2)) * u
    return reference.gaussian(Z, X, 0.6) @ c


@given(
    seed=st.integers(0, 500),
    m=st.integers(1, 4),
    scale=st.sampled_from([0.3, 1.0, 5.0]),
    decay=st.sampled_from([0.0, 0.4]),
)
@settings(max_examples=20, deadline=None)
def test_sites_descend_with_one_scale_and_one_number_of_steps(seed, m, scale, decay):
    X, y = some_data(seed)
    sites = np.random.default_rng(seed).integers(0, m, len(X))
    Z = some_data(seed + 1, n=6)[0]
    local = up.CorrentropyRegressor(KERNEL, scale=scale, n_iter=40, decay=decay)
    model = up.AveragedRegressor(local).fit(X, y, sites=sites)
    parts = [sites == s for s in np.unique(sites)]
    expected = sum(p.mean() * descended(X[p], y[p], Z, scale, 40, decay) for p in parts)
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-9, atol=1e-11)
    assert (model.scale_, model.n_iter_) == (scale, 40)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("unlabeled", [False, True])
def test_a_huge_scale_is_averaged_landweber(center, unlabeled):
    X, y = some_data(1)
    U = some_data(2, n=20)[0] if unlabeled else None
    sites = np.arange(len(X)) % 3
    robust = up.CorrentropyRegressor(KERNEL, scale=1e9, n_iter=25, center=center)
    landweber = up.SpectralRegressor(KERNEL, filter="landweber", lam=1 / 25, center=center)
    a, b = (up.AveragedRegressor(local).fit(X, y, sites=sites, unlabeled=U) for local in (robust, landweber))
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-9)
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=1e-9)


def test_one_block_is_the_local_learner():
    X, Y = some_data(3, targets=2)
    local = up.CorrentropyRegressor(KERNEL, scale=[0.5, 2.0], n_iter=[10, 60], center=True)
    alone = local.fit(X, Y)
    model = up.AveragedRegressor(local, n_blocks=1).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-12)
    np.testing.assert_array_equal(model.scale_, [0.5, 2.0])
    np.testing.assert_array_equal(model.n_iter_, [10, 60])


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
def test_scale_and_steps_are_chosen_robustly_for_the_average(share):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(600, 1))
    f = np.sin(4 * X[:, 0])
    y = f + 0.1 * rng.normal(size=600)
    y[rng.random(600) < share] += 15.0
    model = up.AveragedRegressor(up.CorrentropyRegressor(center=True), n_blocks=4).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.06
    assert set(model.path_.candidates) == {"scale", "n_iter"}
    if share:
        assert model.scale_ < 15.0


def test_a_shift_of_y_moves_only_the_intercept():
    X, y = some_data(5, n=90)
    near, far = (
        up.AveragedRegressor(up.CorrentropyRegressor(KERNEL, center=True), n_blocks=3).fit(X, y + shift)
        for shift in (0.0, 1000.0)
    )
    assert near.n_iter_ == far.n_iter_
    np.testing.assert_allclose(far.predict(X) - near.predict(X), 1000.0, rtol=1e-9)


def test_rule_14_works_with_a_robust_learner():
    X, y = some_data(6, n=120)
    model = up.AveragedRegressor(up.CorrentropyRegressor(KERNEL), n_blocks=[1, 2, 4]).fit(X, y)
    assert model.n_blocks_ in (1, 2, 4)
    settled = up.AveragedRegressor(up.CorrentropyRegressor(KERNEL, scale=1.0, n_iter=20), n_blocks=[1, 4]).fit(X, y)
    assert (settled.scale_, settled.n_iter_) == (1.0, 20)


def test_lam_belongs_to_the_other_learner():
    X, y = some_data(7)
    with pytest.raises(ValueError, match="lam and grid belong to SpectralRegressor, and local is a Correntropy"):
        up.AveragedRegressor(up.CorrentropyRegressor(), lam=0.1).fit(X, y)
