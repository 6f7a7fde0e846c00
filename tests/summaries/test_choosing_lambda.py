"""λ without any row leaving: exact leave-one-out errors as sums of a second exchange, or the summary's own estimate.

Tests `summaries/candidates.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from tests import reference
from tests.made_up import WAVE, regression
from unpooled.bases import EmpiricalFeatures, RandomFeatures
from unpooled.kernels import Gaussian, Matern

pytestmark = pytest.mark.filterwarnings("ignore:.*public rows stand in for")
few = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
centring = pytest.mark.parametrize("center", [False, True, "public"])
GRID = np.array([1.0, 0.1, 0.01, 1e-3])
FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")

data = partial(
    regression,
    n=16,
    function=lambda X: np.sin(2 * X[:, 0]) + 2.0,
    noise=0.3,
    others=(20,),
    weights=[0.4, 1.0, 2.0, 3.5],
)


def left_out(w, i):
    """The weights without row i: of a row that counts more than once, one time is left out."""
    rest = w.copy()
    rest[i] -= min(w[i], 1.0)
    return rest


@centring
@pytest.mark.parametrize("kind", ["empirical", "random"])
@few
@given(seed=seeds, weighted=st.booleans())
def test_scores_at_first_order_are_the_errors_of_models_that_have_not_seen_the_row(center, kind, seed, weighted):
    X, y, U, w = data(seed)
    w = w if weighted else np.ones(len(y))
    basis = (EmpiricalFeatures(Matern(0.7)) if kind == "empirical" else RandomFeatures(Gaussian(1.0), 12)).fit(U)
    model = up.SummaryRegressor(lam=GRID, fit_intercept=center).fit_summary(up.Summary.of(basis, X, y, sample_weight=w))
    scores = up.Scores.of(model.candidates(), basis, X, y, sample_weight=w)
    phi = basis.transform(X)
    for lam, score in zip(GRID, scores.mean[:, 0]):
        errors = []
        for i in range(len(y)):
            a, b = reference.less(phi, y, left_out(w, i), basis.eigenvalues_, basis.mean_, lam, center)
            errors.append(y[i] - phi[i] @ a - b)
        assert score == pytest.approx(np.average(np.square(errors), weights=w), rel=1e-7)


@pytest.mark.parametrize("center", [False, True])
@few
@given(seed=seeds, weighted=st.booleans())
def test_scores_at_second_order_are_the_errors_of_ridge_without_the_row(center, seed, weighted):
    """The penalty Wλ beside the sum of squares stays fixed."""
    X, y, U, w = data(seed)
    w = w if weighted else np.ones(len(y))
    basis = EmpiricalFeatures(Matern(0.7), n_features=9).fit(U)
    model = up.SummaryRegressor(lam=GRID, fit_intercept=center).fit_summary(
        up.Summary.of(basis, X, y, 2, sample_weight=w)
    )
    scores = up.Scores.of(model.candidates(), basis, X, y, sample_weight=w)
    phi = basis.transform(X)
    for lam, score in zip(GRID, scores.mean[:, 0]):
        errors = []
        for i in range(len(y)):
            rest = left_out(w, i)
            a, b = reference.span_ridge(phi, y, rest, lam * w.sum() / rest.sum(), center)
            errors.append(y[i] - phi[i] @ a - b)
        assert score == pytest.approx(np.average(np.square(errors), weights=w), rel=1e-7)


@pytest.mark.parametrize("filter", FILTERS)
@centring
def test_at_first_order_the_errors_are_exact_for_every_filter(filter, center):
    """The filter is of the public sample, which stays; each model is fitted again without its row."""
    X, y, U, _ = data(5, n=9)
    basis = EmpiricalFeatures(Matern(0.7)).fit(U)
    lams = np.array([0.25, 1 / 36])
    model = up.SummaryRegressor(filter, lams, center).fit_summary(up.Summary.of(basis, X, y))
    scores = up.Scores.of(model.candidates(), basis, X, y)
    for lam, score in zip(lams, scores.mean[:, 0]):
        errors = []
        for i in range(9):
            others = np.arange(9) != i
            rest = up.Summary.of(basis, X[others], y[others])
            again = up.SummaryRegressor(filter, float(lam), center).fit_summary(rest)
            errors.append(y[i] - again.predict(X[i : i + 1])[0])
        assert score == pytest.approx(np.mean(np.square(errors)), rel=1e-7)


@few
@given(seed=seeds, n_sites=st.integers(1, 16), T=st.integers(1, 3), order=st.sampled_from([1, 2]))
def test_scores_of_sites_add_up_to_the_pooled_ones(seed, n_sites, T, order):
    X, Y, U, w = data(seed, targets=T)
    basis = EmpiricalFeatures(Matern(0.7)).fit(U)
    model = up.SummaryRegressor(fit_intercept=True).fit_summary(up.Summary.of(basis, X, Y, order, sample_weight=w))
    candidates = model.candidates()
    pooled = up.Scores.of(candidates, basis, X, Y, sample_weight=w)
    labels = np.random.default_rng(seed).integers(0, n_sites, size=len(X))
    apart = [
        up.Scores.of(candidates, basis, X[labels == s], Y[labels == s], sample_weight=w[labels == s])
        for s in np.unique(labels)
    ]
    # Sums add up; rows rounded in another block are divided by 1 - h, which at the smallest λ is next to nothing.
    turned = (basis.transform(X) - candidates.shift) @ candidates.vectors
    h = np.minimum(w, 1.0)[:, None] * ((turned**2) @ candidates.g.T + 1.0) / candidates.weight
    rounding = 30 * np.finfo(float).eps / np.min(1.0 - h if order == 2 else np.ones_like(h), axis=0)
    for total in (sum(apart), sum(apart[::-1])):
        assert total.n_rows == pooled.n_rows
        assert np.all(np.abs(total.mean - pooled.mean) <= rounding[:, None] * pooled.mean)
    summary = model.summary_
    fits = [up.SummaryRegressor(fit_intercept=True).fit_summary(summary, scores=s) for s in (sum(apart), pooled)]
    assert fits[0].lam_ == fits[1].lam_
    assert fits[0].path_.criterion_name == "loo"
    best = np.argmin(pooled.mean.mean(axis=1))
    assert fits[1].lam_ == candidates.lam[best]


def test_candidates_and_scores_travel_exactly(tmp_path):
    X, y, U, w = data(0)
    basis = EmpiricalFeatures(Matern(0.7)).fit(U)
    for order, center in ((1, False), (1, True), (2, True), (1, "public")):
        model = up.SummaryRegressor(fit_intercept=center).fit_summary(up.Summary.of(basis, X, y, order))
        candidates = model.candidates()
        candidates.save(tmp_path / "c.models")
        read = up.Candidates.load(tmp_path / "c.models")
        assert read.digest == candidates.digest
        for name in ("lam", "g", "coef", "shift", "y_mean"):
            assert_array_equal(getattr(read, name), getattr(candidates, name))
        scores = up.Scores.of(read, basis, X, y, sample_weight=w)
        scores = scores + scores
        scores.save(tmp_path / "s.scores")
        back = up.Scores.load(tmp_path / "s.scores")
        assert (back.candidates, back.n_rows) == (candidates.digest, 2 * len(y))
        for name, value in scores.sums.items():
            assert_array_equal(back.sums[name].high, value.high)
            assert_array_equal(back.sums[name].low, value.low)
        assert_array_equal(back.mean, scores.mean)
        model.fit_summary(model.summary_, scores=back)


def test_scores_of_other_candidates_do_not_add_and_do_not_choose():
    X, y, U, _ = data(0)
    basis, other = EmpiricalFeatures(Matern(0.7)).fit(U), EmpiricalFeatures(Matern(0.8)).fit(U)
    models = [up.SummaryRegressor(fit_intercept=c).fit_summary(up.Summary.of(basis, X, y)) for c in (False, True)]
    a, b = (up.Scores.of(m.candidates(), basis, X, y) for m in models)
    with pytest.raises(ValueError, match=f"{a.candidates[:12]} and the other of {b.candidates[:12]}"):
        a + b
    with pytest.raises(ValueError, match=f"the scores are of the candidates {b.candidates[:12]}"):
        models[0].fit_summary(models[0].summary_, scores=b)
    with pytest.raises(ValueError, match=f"{basis.digest[:12]}, not {other.digest[:12]}"):
        up.Scores.of(models[0].candidates(), other, X, y)
    with pytest.raises(ValueError, match="predict 1 label"):
        up.Scores.of(models[0].candidates(), basis, X, np.column_stack([y, y]))
    with pytest.raises(TypeError):
        a + 1


@centring
@pytest.mark.parametrize("order", [1, 2])
def test_less_chooses_as_the_second_exchange_does(center, order):
    X, y, U, _ = data(1, n=60)
    basis = EmpiricalFeatures(Matern(0.7)).fit(U)
    at_once = up.LESSRegressor(Matern(0.7), fit_intercept=center, order=order).fit(X, y, public=U)
    model = up.SummaryRegressor(fit_intercept=center).fit_summary(up.Summary.of(basis, X, y, order))
    scores = sum(up.Scores.of(model.candidates(), basis, X[i::3], y[i::3]) for i in range(3))
    exchanged = up.SummaryRegressor(fit_intercept=center).fit_summary(model.summary_, scores=scores)
    assert at_once.path_.criterion_name == "loo"
    assert at_once.lam_ == exchanged.lam_
    assert_allclose(at_once.path_.criterion, exchanged.path_.criterion, rtol=1e-9)
    assert_allclose(at_once.predict(X), exchanged.predict(X), rtol=1e-9)


@pytest.mark.parametrize("center", [False, True])
@few
@given(seed=seeds)
def test_where_the_public_sample_is_the_rows_the_scores_are_those_of_ridge(center, seed):
    X, y, _, _ = data(seed, n=30)
    less = up.LESSRegressor(Matern(0.7), lam=GRID, fit_intercept=center).fit(X, y)
    twin = up.SpectralRegressor(Matern(0.7), lam="loo", grid=GRID, fit_intercept=center).fit(X, y)
    assert_allclose(less.path_.criterion, twin.path_.criterion, rtol=1e-6)
    assert_allclose(less.path_.df, twin.path_.df, rtol=1e-8)
    assert less.lam_ == twin.lam_


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"order": 2}], ids=repr)
@pytest.mark.parametrize("own", [False, True])
def test_weights_are_repeated_rows_in_the_choice_too(options, own):
    X, y, U, _ = data(2, n=40)
    w = np.arange(40) % 4
    public = None if own else U
    weighted = up.LESSRegressor(Matern(0.7), **{"fit_intercept": False, **options}).fit(
        X, y, public=public, sample_weight=w
    )
    repeated = up.LESSRegressor(Matern(0.7), **{"fit_intercept": False, **options}).fit(
        np.repeat(X, w, axis=0), np.repeat(y, w), public=public
    )
    usable = weighted.path_.lam > 1e-5
    assert_allclose(weighted.path_.criterion[usable], repeated.path_.criterion[usable], rtol=1e-5)
    assert weighted.lam_ == repeated.lam_
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)


def drawn(seed, n_public, n=500):
    rng = np.random.default_rng(seed)
    X, y, U, Z = regression(rng, n, 1, between=(-2.0, 2.0), noise=0.3, others=(n_public, 2000))
    z = WAVE(Z) + 0.3 * rng.normal(size=2000)
    return up.Summary.of(EmpiricalFeatures(Gaussian(0.4), max_points=200).fit(U), X, y), Z, z


@pytest.mark.parametrize("n_public", [50, 400, 2000])
def test_the_summarys_own_estimate_of_the_risk_is_not_too_hopeful(n_public):
    """In several draws of the data it is near the error on new rows if λ is large, and never far below it."""
    estimated, true = [], []
    for seed in range(12):
        summary, Z, z = drawn(seed, n_public)
        model = up.SummaryRegressor(lam=np.logspace(0, -4, 9), fit_intercept=False).fit_summary(summary)
        estimated.append(model.path_.criterion)
        true.append(np.mean((model.path_.predict(Z) - z) ** 2, axis=1))
    ratio = np.mean(estimated, axis=0) / np.mean(true, axis=0)
    assert model.path_.criterion_name == "risk"
    assert 0.9 < ratio[0] < 1.1
    assert np.all(ratio > 0.8)


@pytest.mark.parametrize("n_public", [50, 400, 2000])
@pytest.mark.parametrize("center", [False, True])
def test_what_the_summary_chooses_alone_is_nearly_the_best(n_public, center):
    regrets = []
    for seed in range(8):
        summary, Z, z = drawn(seed, n_public)
        model = up.SummaryRegressor(fit_intercept=center).fit_summary(summary)
        path = np.sqrt(np.mean((model.path_.predict(Z) - z) ** 2, axis=1))
        regrets.append(np.sqrt(np.mean((model.predict(Z) - z) ** 2)) / path.min())
    assert np.median(regrets) < (1.3 if n_public < 400 else 1.1)
    assert max(regrets) < 2.0


def test_a_lone_number_in_an_array_is_scored_and_an_edge_is_seen():
    X, y, U, _ = data(3)
    summary = up.Summary.of(EmpiricalFeatures(Matern(0.7)).fit(U), X, y)
    one = up.SummaryRegressor(lam=[0.1], fit_intercept=False).fit_summary(summary)
    assert one.lam_ == 0.1
    assert len(one.path_) == 1
    assert not one.path_.at_edge
    assert up.SummaryRegressor(lam=[1e4, 1e3], fit_intercept=False).fit_summary(summary).path_.at_edge
    assert not hasattr(up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(summary), "path_")
    again = up.SummaryRegressor(lam=[0.1], fit_intercept=False).fit_summary(summary)
    again.lam = 0.1
    assert not hasattr(again.fit_summary(summary), "path_")
