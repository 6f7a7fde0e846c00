"""The average of local fits against the papers' formulas written out, over random sites, filters and weights.

Tests `_solvers/averaging/local.py`.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

import unpooled as up
from tests import reference
from tests.made_up import CUBE, regression, uneven_sites
from unpooled._solvers.averaging.gathering import mark_validation

KERNEL = up.kernels.Gaussian(0.7)
FILTERS = {
    "tikhonov": lambda K, y, lam: reference.ridge_coefficients(K, y, lam),
    "landweber": lambda K, y, lam: reference.landweber_coefficients(K, y, 1.0, round(1 / lam)),
    "cutoff": lambda K, y, lam: reference.cutoff_coefficients(K, y, lam),
}

some_data = partial(regression, between=CUBE, noise=0.3, offset=2.0)


def local_values(X, y, Z, lam, filter="tikhonov", center=False, U=None):
    """One machine's f(Z), brute force; with U the inflated labels of (3.22)."""
    b = y.mean() if center else 0.0
    if U is not None and len(U):
        y = np.concatenate([(y - b) * (len(X) + len(U)) / len(X), np.zeros(len(U))])
        X = np.concatenate([X, U])
    else:
        y = y - b
    K, K_test = reference.gaussian(X, X, 0.7), reference.gaussian(Z, X, 0.7)
    if not center:
        return K_test @ FILTERS[filter](K, y, lam)
    H = reference.centering(len(X))
    c = H @ FILTERS[filter](H @ K @ H, y, lam)
    return (K_test - K.mean(axis=0)) @ c + b


@given(
    seed=st.integers(0, 1000),
    m=st.integers(1, 5),
    filter=st.sampled_from(sorted(FILTERS)),
    center=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_the_average_weighs_every_site_by_its_rows(seed, m, filter, center):
    X, y = some_data(seed, 40)
    sites = uneven_sites(seed, 40, m)
    Z = some_data(seed + 1, 7)[0]
    local = up.SpectralRegressor(KERNEL, filter=filter, center=center)
    model = up.AveragedRegressor(local, lam=0.05).fit(X, y, sites=sites)
    expected = sum(
        np.mean(sites == s) * local_values(X[sites == s], y[sites == s], Z, 0.05, filter, center)
        for s in np.unique(sites)
    )
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-8, atol=1e-9)
    assert [block["name"] for block in model.blocks_] == sorted(np.unique(sites))
    np.testing.assert_allclose(sum(block["weight"] for block in model.blocks_), 1.0)


@given(seed=st.integers(0, 1000), m=st.integers(1, 4), center=st.booleans(), by_site=st.booleans())
@settings(max_examples=25, deadline=None)
def test_unlabeled_rows_enter_as_in_3_22(seed, m, center, by_site):
    X, y = some_data(seed, 30)
    U = some_data(seed + 5, 17)[0]
    Z = some_data(seed + 1, 5)[0]
    sites = uneven_sites(seed, 30, m)
    names = np.unique(sites)
    own = names[np.random.default_rng(seed).integers(0, len(names), 17)] if by_site else np.full(17, names[-1])
    local = up.SpectralRegressor(KERNEL, center=center)
    model = up.AveragedRegressor(local, lam=0.02).fit(X, y, sites=sites, unlabeled=U, unlabeled_sites=own)
    expected = np.zeros(5)
    for s in names:
        D, extra = sites == s, own == s
        weight = (D.sum() + extra.sum()) / 47
        expected += weight * local_values(X[D], y[D], Z, 0.02, center=center, U=U[extra])
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-8, atol=1e-9)


def test_a_shift_of_y_moves_only_the_intercept_with_unlabeled_rows_too():
    X, y = some_data(0, 60)
    U = some_data(1, 40)[0]
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL, center=True), n_blocks=3)
    near, far = clone(model).fit(X, y, unlabeled=U), clone(model).fit(X, y + 1e4, unlabeled=U)
    assert near.lam_ == far.lam_
    np.testing.assert_allclose(far.predict(X) - near.predict(X), 1e4, rtol=0, atol=1e-7)
    np.testing.assert_allclose(far.intercept_ - near.intercept_, 1e4, rtol=1e-12)


@pytest.mark.parametrize("filter", ["tikhonov", "landweber", "nu", "cutoff", "iterated-tikhonov"])
@pytest.mark.parametrize("center", [False, True])
def test_one_block_is_the_local_learner(filter, center):
    X, y = some_data(3, 50, targets=2)
    local = up.SpectralRegressor(KERNEL, filter=filter, lam=0.03, center=center)
    alone = local.fit(X, y)
    for model in (up.AveragedRegressor(local, n_blocks=1), up.AveragedRegressor(local, n_blocks=1, lam=0.03)):
        np.testing.assert_array_equal(model.fit(X, y).predict(X), alone.predict(X))
        np.testing.assert_array_equal(model.intercept_, alone.intercept_)


def test_unlabeled_of_zero_rows_changes_nothing():
    X, y = some_data(4, 50)
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL, center=True), n_blocks=3)
    with_none = clone(model).fit(X, y, unlabeled=np.empty((0, 2)))
    np.testing.assert_array_equal(with_none.predict(X), clone(model).fit(X, y).predict(X))


@given(seed=st.integers(0, 500), score_by=st.sampled_from(["rows", "sites"]))
@settings(max_examples=12, deadline=None)
def test_rule_13_halves_every_site_and_scores_the_average(seed, score_by):
    X, y = some_data(seed, 60)
    sites = uneven_sites(seed, 60, 4)
    names = np.unique(sites)
    lams = np.asarray([1e-4, 1e-3, 1e-2, 1e-1])
    local = up.SpectralRegressor(KERNEL)
    kept = up.AveragedRegressor(local, grid=lams, score_by=score_by, refit=False).fit(X, y, sites=sites)
    held = ~np.isin(X[:, 0], kept.predictor_.points[:, 0])  # the paper's final estimator shows the training halves
    for s in names:
        assert 0 <= np.sum((sites == s) & ~held) - np.sum((sites == s) & held) <= 1

    def averaged(rows, lam):
        parts = [rows & (sites == s) for s in names]
        return sum(p.sum() / rows.sum() * local_values(X[p], y[p], X, lam) for p in parts)

    scores = []
    for lam in lams:
        errors = (averaged(~held, lam) - y) ** 2
        by_site = [errors[held & (sites == s)].mean() for s in names if np.any(held & (sites == s))]
        scores.append(np.mean(errors[held]) if score_by == "rows" else np.mean(by_site))
    np.testing.assert_allclose(kept.path_.criterion[0], scores, rtol=1e-8)
    assert kept.lam_ == lams[np.argmin(scores)]
    np.testing.assert_allclose(kept.predict(X), averaged(~held, kept.lam_), rtol=1e-7, atol=1e-8)
    refitted = up.AveragedRegressor(local, grid=lams, score_by=score_by).fit(X, y, sites=sites)
    assert refitted.lam_ == kept.lam_
    np.testing.assert_allclose(refitted.predict(X), averaged(held | ~held, kept.lam_), rtol=1e-7, atol=1e-8)


def test_rule_14_takes_the_partition_and_lam_with_the_lowest_score():
    X, y = some_data(7, 200)
    lams = np.asarray([1e-4, 1e-2, 1.0])
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=[1, 2, 5, 10], grid=lams).fit(X, y)
    path = model.path_
    assert sorted(path.n_blocks) == [1, 2, 5, 10]
    m, i = np.unravel_index(np.argmin(path.criterion), path.criterion.shape)
    assert (model.n_blocks_, model.lam_) == (path.n_blocks[m], lams[i])
    for k, n_blocks in enumerate(path.n_blocks):
        alone = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=int(n_blocks), grid=lams).fit(X, y)
        if n_blocks == 10:  # the finest partition is halved alike, alone or among others
            np.testing.assert_allclose(alone.path_.criterion[0], path.criterion[k], rtol=1e-12)


@given(n=st.integers(2, 200), m=st.integers(1, 9), seed=st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_random_blocks_are_even_and_hold_every_row_once(n, m, seed):
    m = min(n, m)
    X = np.random.default_rng(seed).normal(size=(n, 1))
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=m, lam=0.1, random_state=seed).fit(X, X[:, 0])
    sizes = [block["rows"] for block in model.blocks_]
    assert len(sizes) == m
    assert sum(sizes) == n
    assert max(sizes) - min(sizes) <= 1
    np.testing.assert_array_equal(np.sort(model.predictor_.points, axis=0), np.sort(X, axis=0))


@given(
    owner=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    copies=st.integers(1, 30),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_halves_differ_by_one_and_copies_stay_together(owner, copies, seed):
    owner = np.asarray(owner)
    keys = np.random.default_rng(seed).integers(0, copies, len(owner))
    held = mark_validation(owner, keys)
    for j in np.unique(owner):
        train, valid = set(keys[(owner == j) & ~held]), set(keys[(owner == j) & held])
        assert not train & valid
        assert 0 <= len(train) - len(valid) <= 1


def test_weights_are_as_good_as_repeated_rows_in_every_site():
    X, y = some_data(9, 40)
    sites = uneven_sites(9, 40, 3)
    weights = np.random.default_rng(9).integers(0, 4, 40)
    weights[:3] = 1
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL, center=True))
    weighted = model.fit(X, y, sites=sites, sample_weight=weights).predict(X)
    lam = model.lam_
    again = [np.repeat(a, weights, axis=0) for a in (X, y, sites)]
    repeated = model.fit(again[0], again[1], sites=again[2]).predict(X)
    assert model.lam_ == lam
    np.testing.assert_allclose(weighted, repeated, rtol=1e-8)


def test_labeled_weights_count_beside_unlabeled_rows():
    X, y = some_data(10, 20)
    U = some_data(11, 15)[0]
    weights = np.random.default_rng(1).integers(1, 4, 20)
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL, center=True), lam=0.01, n_blocks=1)
    weighted = model.fit(X, y, unlabeled=U, sample_weight=weights).predict(X)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights), unlabeled=U).predict(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


def test_a_site_of_one_row_and_a_site_of_constant_y_are_fitted_as_the_formula_says():
    X, y = some_data(12, 20)
    sites = np.asarray(["big"] * 12 + ["flat"] * 7 + ["one"])
    y[12:19] = 3.0
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL, center=True), grid=[1e-3, 1e-1]).fit(X, y, sites=sites)
    Z = some_data(13, 5)[0]
    parts = [sites == s for s in ("big", "flat", "one")]
    expected = sum(p.mean() * local_values(X[p], y[p], Z, model.lam_, center=True) for p in parts)
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, y.mean(), rtol=1e-12)


def test_sites_of_one_row_only_leave_nothing_to_choose_lam_by():
    X, y = some_data(14, 6)
    with pytest.raises(ValueError, match=r"at least 2 different rows.*give lam as a number"):
        up.AveragedRegressor(up.SpectralRegressor(KERNEL)).fit(X, y, sites=np.arange(6))
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), lam=0.1).fit(X, y, sites=np.arange(6))
    np.testing.assert_allclose(model.predict(X), reference.gaussian(X, X, 0.7) @ (y / 1.1) / 6, rtol=1e-10)


def test_any_regressor_is_averaged():
    X, y = some_data(15, 60)
    sites = uneven_sites(15, 60, 4)
    for regressor in (Ridge(alpha=0.3), KernelRidge(alpha=0.2, kernel="rbf")):
        model = up.AveragedRegressor(regressor).fit(X, y, sites=sites)
        parts = [sites == s for s in np.unique(sites)]
        expected = sum(p.mean() * regressor.fit(X[p], y[p]).predict(X) for p in parts)
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-10)


def test_each_block_with_its_own_lam_is_the_average_of_separate_fits():
    X, y = some_data(16, 80)
    sites = np.arange(80) % 3
    local = up.SpectralRegressor(KERNEL, center=True)
    model = up.AveragedRegressor(local, lam="local").fit(X, y, sites=sites)
    parts = [sites == s for s in np.unique(sites)]
    expected = sum(p.mean() * local.fit(X[p], y[p]).predict(X) for p in parts)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-10)


def test_targets_may_have_a_lam_each():
    X, _ = some_data(17, 120)
    rng = np.random.default_rng(0)
    Y = np.column_stack([np.sin(5 * X[:, 0]), 5 * rng.normal(size=120)])
    local = up.SpectralRegressor(KERNEL, per_target=True)
    both = up.AveragedRegressor(local, n_blocks=3).fit(X, Y)
    assert both.lam_.shape == (2,)
    assert both.lam_[0] < both.lam_[1]
    for t in range(2):
        alone = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=3, lam=float(both.lam_[t])).fit(X, Y[:, t])
        np.testing.assert_allclose(both.predict(X)[:, t], alone.predict(X), rtol=1e-8, atol=1e-10)


def test_all_blocks_share_the_length_scale_and_kappa_of_the_whole():
    X, y = some_data(18, 90)
    model = up.AveragedRegressor(n_blocks=3).fit(X, y)
    assert model.kernel_.length_scale == up.SpectralRegressor().fit(X, y).kernel_.length_scale
    linear = up.AveragedRegressor(up.SpectralRegressor(up.kernels.Linear(), filter="landweber"), n_blocks=3).fit(X, y)
    assert linear.path_.lam.max() == pytest.approx(up.kernels.Linear().kappa(X) ** 2)


def test_more_blocks_than_the_theory_supports_give_a_warning():
    X, y = some_data(19, 400)
    with pytest.warns(UserWarning, match=r"200 blocks are far more than the \d+ or so that 400 rows support"):
        up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=200, lam=1e-3).fit(X, y)


def test_candidates_that_do_not_fit_are_left_out_before_anything_runs():
    X, y = some_data(20, 1700)
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), memory_limit=2e6, tolerance=0).fit(X, y)
    reasons = {candidate.n_blocks: candidate.left_out for candidate in model.plan_}
    assert reasons[1] == "memory"
    assert reasons[8] == ""
    assert 1 not in model.path_.n_blocks
    hurried = up.AveragedRegressor(up.SpectralRegressor(KERNEL), time_limit=1e-9, tolerance=0).fit(X, y)
    assert list(hurried.path_.n_blocks) == [8]
    assert [c.left_out for c in hurried.plan_] == ["", "time", "time", "time"]


def test_compress_projects_and_reports_its_error():
    X, y = some_data(21, 300)
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL, center=True), n_blocks=4).fit(X, y)
    Z = some_data(22, 200)[0]
    errors = []
    for n_points in (5, 20, 300):
        small = model.compress(n_points)
        report = small.compression_
        assert small.predictor_.n_points == report.n_points <= n_points
        assert report.n_points_before == 300
        errors.append(report.norm_error)
        c, P = model.predictor_.coef[:, 0], model.predictor_.points
        a, Q = small.predictor_.coef[:, 0], small.predictor_.points
        whole = c @ reference.gaussian(P, P, 0.7) @ c
        left = whole - 2 * c @ reference.gaussian(P, Q, 0.7) @ a + a @ reference.gaussian(Q, Q, 0.7) @ a
        np.testing.assert_allclose(report.norm_error, np.sqrt(max(left, 0) / whole), rtol=1e-3, atol=1e-5)
        gap = np.abs(small.predict(Z) - model.predict(Z)).max()
        assert gap <= report.norm_error * np.sqrt(whole) * (1 + 1e-6) + 1e-6  # |f - g| ≤ κ‖f - g‖
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-4
    assert model.predictor_.n_points == 300
    with pytest.raises(ValueError, match="n_points must be a positive whole number, got 0"):
        model.compress(0)


def test_prediction_with_many_points_is_tiled(monkeypatch):
    X, y = some_data(23, 150)
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=3, lam=1e-2).fit(X, y)
    whole = model.predict(X)
    monkeypatch.setattr("unpooled._solvers.predictors.TILE", 16)
    np.testing.assert_allclose(model.predict(X), whole, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "fit", "message"),
    [
        ({"n_blocks": 0}, {}, "n_blocks must be a positive whole number, got 0"),
        ({"n_blocks": "many"}, {}, "n_blocks must be 'auto'"),
        ({"n_blocks": []}, {}, "n_blocks is an empty list"),
        ({"n_blocks": 31}, {}, "n_blocks is 31, and X has n_samples = 30"),
        ({"lam": "best"}, {}, "lam must be 'rule13', 'local', a positive number"),
        ({"lam": -1.0}, {}, "lam must be a positive number"),
        ({"score_by": "all"}, {}, "score_by must be 'rows' or 'sites'"),
        ({"tolerance": 2}, {}, "tolerance must be at least 0 and below 1"),
        ({"local": 3}, {}, "local must be a regressor, got 3"),
        ({"local": Ridge(), "lam": 0.1}, {}, "lam and grid belong to SpectralRegressor, and local is a Ridge"),
        ({"local": up.SpectralRegressor("precomputed")}, {}, "a precomputed kernel cannot be cut into blocks"),
        ({"engine": "abacus"}, {}, "engine must be 'threads', 'processes', 'dask'"),
        ({}, {"sites": [1, 2]}, "sites must hold one label per row: there are 30 rows"),
        ({}, {"sites": [None] * 30}, "sites has rows without a label"),
        ({}, {"sites": [np.nan] * 30}, "sites has rows without a label"),
        ({}, {"unlabeled": np.ones((4, 3))}, "unlabeled: X has 3 features"),
        ({}, {"unlabeled": [[np.nan, 0.0]]}, "unlabeled: X contains NaN"),
        ({}, {"unlabeled_sites": [1]}, "unlabeled_sites was given without unlabeled"),
        ({}, {"unlabeled": np.ones((1, 2)), "unlabeled_sites": [1]}, "unlabeled_sites was given without sites"),
        (
            {},
            {"sites": [1] * 30, "unlabeled": np.ones((1, 2)), "unlabeled_sites": [2]},
            "names the site '2', which has no labeled row",
        ),
        ({"local": Ridge()}, {"unlabeled": np.ones((2, 2))}, "unlabeled rows need a local SpectralRegressor"),
    ],
    ids=lambda value: value.split(":")[0][:30].replace(" ", "-") if isinstance(value, str) else None,
)
def test_bad_input_gets_one_clear_sentence(arguments, fit, message):
    X, y = some_data(24, 30)
    with pytest.raises(ValueError, match=message) as caught:
        up.AveragedRegressor(**arguments).fit(X, y, **fit)
    assert "\n" not in str(caught.value)
