"""The choice of scale and iteration is robust itself: 40 % outliers do little harm, clean labels get least squares."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold

from tests.made_up import regression, sine
from unpooled import CorrentropyRegressor, SpectralRegressor
from unpooled._solvers.descent import robust
from unpooled.kernels import Gaussian
from unpooled.losses import Correntropy, Huber, Squared

few = settings(max_examples=30, deadline=None)

curve = sine(2)
data = partial(regression, n=250, d=1, between=(-1.7, 1.7), function=curve, noise=0.2)


def error(model, X, f):
    return float(np.sqrt(np.mean((model.predict(X) - f) ** 2)))


def spoilt(y, share, rng, one_sided):
    bad = rng.random(len(y)) < share
    sign = 1.0 if one_sided else rng.choice([-1.0, 1.0], len(y))
    return np.where(bad, y + sign * rng.uniform(4, 12, len(y)), y), bad


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("center", [False, True])
def test_wrong_labels_cost_little_more_than_their_absence(share, one_sided, center):
    for seed in (11, 12):
        rng = np.random.default_rng(seed)
        X, y = data(rng)
        f = curve(X)
        y, bad = spoilt(y, share, rng, one_sided)
        without = CorrentropyRegressor(Gaussian(1.0), center=center).fit(X[~bad], y[~bad])
        model = CorrentropyRegressor(Gaussian(1.0), center=center).fit(X, y)
        assert error(model, X, f) < 1.5 * error(without, X, f) + 0.02
        assert error(model, X, f) < 0.12
        assert math.isfinite(model.scale_)


@pytest.mark.parametrize("center", [False, True])
def test_clean_labels_get_about_least_squares(center):
    ours, theirs = [], []
    for seed in range(20, 23):
        X, y = data(seed)
        f = curve(X)
        model = CorrentropyRegressor(Gaussian(1.0), center=center).fit(X, y)
        ours.append(error(model, X, f))
        theirs.append(error(SpectralRegressor(Gaussian(1.0), center=center).fit(X, y), X, f))
    assert np.mean(ours) < 1.1 * np.mean(theirs)


def test_heavy_tails_get_a_moderate_scale():
    rng = np.random.default_rng(3)
    X, _ = data(rng)
    f = curve(X)
    y = f + 0.2 * rng.standard_t(1.5, len(f))
    model = CorrentropyRegressor(Gaussian(1.0)).fit(X, y)
    assert 0.1 < model.scale_ < 5
    assert error(model, X, f) < 0.12


@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_the_other_losses_choose_too(loss):
    rng = np.random.default_rng(4)
    X, y = data(rng)
    f = curve(X)
    y, _ = spoilt(y, 0.1 if loss == "huber" else 0.0, rng, one_sided=False)
    model = CorrentropyRegressor(Gaussian(1.0), loss=loss, center=True).fit(X, y)
    assert error(model, X, f) < 0.12
    assert math.isfinite(model.scale_) == (loss == "huber")


def test_a_fit_at_what_was_chosen_is_the_same_fit():
    rng = np.random.default_rng(5)
    X, y = data(rng)
    y, _ = spoilt(y, 0.2, rng, one_sided=True)
    model = CorrentropyRegressor(Gaussian(1.0)).fit(X, y)
    again = CorrentropyRegressor(Gaussian(1.0), scale=model.scale_, n_iter=model.n_iter_).fit(X, y)
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))


def test_one_of_the_two_may_be_given():
    rng = np.random.default_rng(6)
    X, y = data(rng)
    f = curve(X)
    y, _ = spoilt(y, 0.2, rng, one_sided=True)
    by_scale = CorrentropyRegressor(Gaussian(1.0), scale=1.0).fit(X, y)
    assert by_scale.scale_ == 1.0
    by_n_iter = CorrentropyRegressor(Gaussian(1.0), n_iter=300).fit(X, y)
    assert by_n_iter.n_iter_ == 300
    assert max(error(by_scale, X, f), error(by_n_iter, X, f)) < 0.12
    Y = np.column_stack([y, y])
    each = CorrentropyRegressor(Gaussian(1.0), n_iter=[300, 20]).fit(X, Y)
    alone = CorrentropyRegressor(Gaussian(1.0), n_iter=20).fit(X, y)
    assert_allclose(each.scale_, [by_n_iter.scale_, alone.scale_])


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_the_choice_knows_no_units_and_no_origin(unit):
    rng = np.random.default_rng(7)
    X, y = data(rng)
    y, _ = spoilt(y, 0.2, rng, one_sided=True)
    model = CorrentropyRegressor(Gaussian(1.0), center=True).fit(X, y)
    other = CorrentropyRegressor(Gaussian(1.0), center=True).fit(X, unit * (y + 50))
    assert other.n_iter_ == model.n_iter_
    assert other.scale_ == pytest.approx(unit * model.scale_)
    assert_allclose(other.predict(X), unit * (model.predict(X) + 50), rtol=1e-7)


def test_what_was_tried_is_on_the_path():
    X, y = data(8)
    model = CorrentropyRegressor(Gaussian(1.0)).fit(X, y)
    path = model.path_
    assert path.score.shape == (len(path.scales), len(path.tried))
    assert np.all((path.score >= 0) & (path.score <= 1))
    assert model.scale_ in path.scales[:, 0]
    assert model.n_iter_ in path.tried
    row = path.score[path.scales[:, 0] == model.scale_][0]
    assert path.tried[np.argmin(row)] == model.n_iter_
    table = path.as_dict()
    assert {len(column) for column in table.values()} == {path.score.size}
    two = CorrentropyRegressor(Gaussian(1.0)).fit(X, np.column_stack([y, y])).path_
    assert list(two.as_dict()) == ["n_iter", "scale_0", "score_0", "scale_1", "score_1"]


def test_folds_are_the_users_if_given():
    X, y = data(9, n=60)
    by_splitter = CorrentropyRegressor(Gaussian(1.0), cv=KFold(3)).fit(X, y)
    by_list = CorrentropyRegressor(Gaussian(1.0), cv=list(KFold(3).split(X))).fit(X, y)
    assert_array_equal(by_splitter.path_.score, by_list.path_.score)
    shuffled = CorrentropyRegressor(Gaussian(1.0), random_state=1).fit(X, y)
    assert shuffled.path_.score.shape != by_list.path_.score.shape or np.any(
        shuffled.path_.score != by_list.path_.score
    )
    one = CorrentropyRegressor(Gaussian(1.0), cv=[(np.arange(40), np.arange(40, 60))]).fit(X, y)
    assert np.all(np.isfinite(one.path_.score))


def test_rows_without_weight_take_no_part_in_the_choice():
    X, y = data(10, n=80)
    w = (np.arange(80) % 4 > 0) * 1.0
    y = np.where(w == 0, 1e5, y)
    model = CorrentropyRegressor(Gaussian(1.0)).fit(X, y, w)
    alone = CorrentropyRegressor(Gaussian(1.0)).fit(X[w > 0], y[w > 0])
    assert (model.scale_, model.n_iter_) == (alone.scale_, alone.n_iter_)
    assert_allclose(model.predict(X), alone.predict(X))


@pytest.mark.parametrize("y", [np.zeros(12), np.full(12, 7.0), np.eye(12)[0], np.arange(12) % 2.0], ids=str)
@pytest.mark.parametrize("center", [False, True])
def test_labels_that_hardly_differ_are_fitted(y, center):
    X = np.linspace(0, 1, 12)[:, None]
    model = CorrentropyRegressor(center=center).fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))


# The functions a distributed choice calls


@few
@given(
    values=hnp.arrays(float, st.tuples(st.integers(1, 9), st.just(2)), elements=st.integers(-3, 3).map(float)),
    seed=st.integers(0, 1000),
)
def test_the_weighted_median_is_the_median_of_repeated_rows(values, seed):
    counts = np.random.default_rng(seed).integers(0, 4, len(values))
    counts[0] += 1
    expected = np.median(np.repeat(values, counts, axis=0), axis=0)
    assert_allclose(robust.weighted_median(values, counts / counts.sum()), expected)


@few
@given(most=st.integers(1, 10**7), per_octave=st.integers(1, 4))
def test_stops_rise_from_one_to_the_last(most, per_octave):
    stops = robust.stops_up_to(most, per_octave)
    assert (stops[0], stops[-1]) == (1, most)
    assert stops == sorted(set(stops))
    assert all(b <= 2 * a + 1 for a, b in itertools.pairwise(stops))


def test_candidates_cover_the_labels_of_every_target():
    Y = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 1000.0]
    found = robust.candidates(Y, None, 2000)
    assert found.scale.shape == (len(found.n_iter), 2)
    assert_allclose(found.scale[:, 1].min() / found.scale[:, 0].min(), 1000, rtol=0.5)
    assert np.isinf(found.scale).any()
    assert found.n_iter.min() == 1
    assert found.n_iter.max() >= 2**20
    assert np.isinf(robust.candidates(Y, None, 2000, loss=Squared()).scale).all()
    doubled = robust.candidates(Y, np.full(50, 2.0), 2000)
    assert_array_equal(doubled.scale, found.scale)


@pytest.mark.parametrize("loss", [Correntropy(), Huber()])
def test_the_choice_among_residuals_is_made_target_by_target(loss):
    """The first candidate of two has normal residuals in target 0, the second in target 1; the others are spoilt."""
    rng = np.random.default_rng(0)
    good, bad = rng.normal(size=400), rng.normal(size=400) * 3
    R = np.stack([np.column_stack([good, bad]), np.column_stack([bad, good])], axis=1)
    candidates = robust.Candidates(np.full((2, 2), 5.0), np.array([4, 8]))
    assert robust.choose(R, None, candidates, loss).tolist() == [0, 1]
    weights = rng.integers(1, 4, 400)
    repeated = robust.score_candidates(np.repeat(R, weights, axis=0), None, candidates, loss)
    weighted = robust.score_candidates(R, weights, candidates, loss)
    assert_array_equal(weighted[0], repeated[0])
    assert_allclose(weighted[1], repeated[1], rtol=1e-6)


def test_least_squares_is_chosen_where_residuals_are_normal_and_not_where_they_have_outliers():
    rng = np.random.default_rng(0)
    scales = np.array([1.0, 2.0, 4.0, 8.0, math.inf])
    candidates = robust.Candidates(scales[:, None], np.full(5, 10))
    normal = np.repeat(rng.normal(size=2000)[:, None], 5, axis=1)[:, :, None]
    assert np.isinf(scales[robust.choose(normal, None, candidates)[0]])
    spoilt_ = normal + 20.0 * (rng.random(2000) < 0.2)[:, None, None]
    assert scales[robust.choose(spoilt_, None, candidates)[0]] <= 4.0


def test_a_search_ends_once_errors_have_risen_and_not_before():
    rising = robust.RiseDetector(None)
    r = np.ones((10, 2, 1))
    assert [rising(factor * r) for factor in (3, 1, 1.01, 1.02, 1.03, 1.04)] == [False] * 6
    assert [rising(factor * r) for factor in (1.2, 1.3, 1.4, 1.5)] == [False, False, False, True]
