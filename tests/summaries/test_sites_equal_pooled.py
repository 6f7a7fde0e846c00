"""The sum of the sites' summaries is the pooled summary, for any split of rows and any order of additions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from tests import reference
from tests.made_up import regression
from unpooled._base.compensated import Sum
from unpooled.bases import EmpiricalFeatures, RandomFeatures
from unpooled.kernels import Gaussian, Linear, Matern
from unpooled.losses import Correntropy, Huber

pytestmark = pytest.mark.filterwarnings("ignore:.*public rows stand in for")
few = settings(max_examples=7, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(30, 2))
BASES = {
    "empirical": EmpiricalFeatures(Gaussian(1.0)).fit(PUBLIC),
    "few features": EmpiricalFeatures(Matern(1.0), n_features=6).fit(PUBLIC),
    "standardised": EmpiricalFeatures(Gaussian("median"), n_features=9, standardize=True).fit(PUBLIC),
    "linear": EmpiricalFeatures(Linear()).fit(PUBLIC),
    "random": RandomFeatures(Gaussian(1.0), n_features=11).fit(PUBLIC),
}
every_basis = pytest.mark.parametrize("name", BASES)


def weighted_rows(seed, n, T, dtype=np.float64, weighted=False):
    function, weights = lambda X: 3.0 * np.sin(X[:, 0]), [0.0, 0.3, 1.0, 2.0, 5.5]
    X, Y, w = regression(seed, n, dtype=dtype, function=function, targets=T, noise=1.0, weights=weights)
    w = w if weighted else np.ones(n)
    w[0] = 1.0
    return X, np.reshape(Y, (n, T)).astype(dtype), w


def sites_of(rng, n, n_sites):
    """Rows dealt to sites at random; a site may have none, and is left out."""
    labels = rng.integers(0, n_sites, size=n)
    return [np.flatnonzero(labels == s) for s in range(n_sites) if np.any(labels == s)]


def added(rng, parts):
    """The parts added two at a time, any two, until there is one."""
    parts = list(parts)
    while len(parts) > 1:
        a, b = (parts.pop(int(rng.integers(len(parts)))) for _ in range(2))
        parts.append(a + b)
    return parts[0]


def sizes(basis, X, Y, w):
    """Return the sum of absolute values of each field's terms, the scale for rounding errors."""
    phi, Y = np.abs(basis.transform(X).astype(float)), np.abs(Y.astype(float))
    weighted = phi * w[:, None]
    return {
        "weight": np.array([w.sum()]),
        "y": w @ Y,
        "yy": w @ Y**2,
        "phi": w @ phi,
        "phi_y": weighted.T @ Y,
        "gram": (weighted.T @ phi)[np.tril_indices(phi.shape[1])],
        "loss": w @ Y**2 + w.sum(),
    }


def assert_same(actual, expected, size, rtol=1e-12):
    assert actual.contents == expected.contents
    assert actual.n_rows == expected.n_rows
    for name, value in expected.sums.items():
        gap = np.abs(actual.sums[name].high - value.high)
        assert np.all(gap <= rtol * size[name]), (name, np.max(gap / size[name]))


@every_basis
@pytest.mark.parametrize("order", [1, 2])
@few
@given(
    seed=seeds,
    n=st.integers(1, 60),
    n_sites=st.integers(1, 60),
    T=st.integers(1, 3),
    dtype=st.sampled_from([np.float32, np.float64]),
    weighted=st.booleans(),
)
def test_the_sum_over_sites_is_the_pooled_summary(name, order, seed, n, n_sites, T, dtype, weighted):
    basis, rng = BASES[name], np.random.default_rng(seed)
    X, Y, w = weighted_rows(seed, n, T, dtype, weighted)
    pooled = up.Summary.of(basis, X, Y, order, sample_weight=w)
    parts = [rows for rows in sites_of(rng, n, n_sites) if np.any(w[rows] > 0)]
    found = added(rng, [up.Summary.of(basis, X[r], Y[r], order, sample_weight=w[r]) for r in parts])
    assert_same(found, pooled, sizes(basis, X, Y, w))


@few
@given(seed=seeds, n=st.integers(1, 12), T=st.integers(1, 2), weighted=st.booleans())
def test_the_pooled_summary_is_the_sums_of_rational_arithmetic(seed, n, T, weighted):
    basis = BASES["few features"]
    X, Y, w = weighted_rows(seed, n, T, weighted=weighted)
    summary = up.Summary.of(basis, X, Y, 2, sample_weight=w)
    exact = reference.exact_sums(basis.transform(X), Y, w)
    size = sizes(basis, X, Y, w)
    assert summary.n_rows == np.sum(w > 0)
    for field in ("weight", "y", "yy", "phi", "phi_y"):
        assert np.all(np.abs(summary.sums[field].high - exact[field]) <= 1e-14 * size[field])
    assert_allclose(summary.gram, exact["gram"], atol=1e-14 * size["gram"].max())


@pytest.mark.parametrize("loss", ["squared", Huber(0.7), Correntropy(1.3)], ids=repr)
@pytest.mark.parametrize("model", ["of this basis", "of another kind", "none"])
@few
@given(seed=seeds, n=st.integers(4, 40), T=st.integers(1, 2), dtype=st.sampled_from([np.float32, np.float64]))
def test_the_sum_of_residuals_over_sites_is_the_pooled_one(loss, model, seed, n, T, dtype):
    basis, rng = BASES["empirical"], np.random.default_rng(seed)
    X, Y, w = weighted_rows(seed, n, T, dtype, True)
    fitted = {
        "of this basis": up.SummaryRegressor(lam=0.1, fit_intercept=True).fit_summary(
            up.Summary.of(basis, PUBLIC, np.ones((30, T)))
        ),
        "of another kind": up.SpectralRegressor(Gaussian(0.5), lam=0.1, fit_intercept=False).fit(
            PUBLIC, np.tile(PUBLIC[:, :1], (1, T))
        ),
        "none": None,
    }[model]
    options = {"residuals_of": fitted, "loss": loss}
    pooled = up.Summary.of(basis, X, Y, sample_weight=w, **options)
    parts = [r for r in sites_of(rng, n, n) if np.any(w[r] > 0)]
    found = added(rng, [up.Summary.of(basis, X[r], Y[r], sample_weight=w[r], **options) for r in parts])
    residuals = np.abs(Y) + (0 if fitted is None else 2)
    assert_same(found, pooled, sizes(basis, X, residuals, w))


def test_one_row_a_site_gives_the_pooled_model():
    X, Y, _ = weighted_rows(3, 300, 1)
    for basis, order in ((BASES["few features"], 1), (BASES["random"], 2)):
        sites = [
            up.Summary.of(basis, X[i : i + 1], Y[i : i + 1], order) for i in np.random.default_rng(0).permutation(300)
        ]
        options = {"lam": 1e-3, "fit_intercept": True}
        apart = up.SummaryRegressor(**options).fit_summary(sum(sites))
        pooled = up.SummaryRegressor(**options).fit_summary(up.Summary.of(basis, X, Y, order))
        assert_allclose(apart.predict(X), pooled.predict(X), atol=1e-11)
        auto = up.SummaryRegressor(fit_intercept=False).fit_summary(sum(sites))
        assert auto.lam_ == up.SummaryRegressor(fit_intercept=False).fit_summary(up.Summary.of(basis, X, Y, order)).lam_


def many_summaries(n=10_000):
    """Summaries whose label sums are of size 10⁸ and cancel to about 10⁻³."""
    rng = np.random.default_rng(1)
    like = up.Summary.of(BASES["few features"], PUBLIC, PUBLIC[:, 0])
    values = {name: 1e8 * rng.normal(size=(n, *s.high.shape)) for name, s in like.sums.items()}
    for value in values.values():
        value[n // 2 :] = -value[: n // 2] + 1e-3 / n
    order = rng.permutation(n)
    return [replace(like, sums={k: Sum.of(v[i]) for k, v in values.items()}, n_rows=1) for i in order], values


def test_ten_thousand_summaries_agree_in_any_order_even_where_they_cancel():
    summaries, values = many_summaries()
    rng = np.random.default_rng(2)
    totals = [
        sum(summaries),
        added(rng, summaries),
        sum(sum(summaries[i::37]) for i in range(37)),
    ]
    for total in totals:
        assert total.n_rows == 10_000
        for name, value in total.sums.items():
            assert_allclose(value.high, totals[0].sums[name].high, rtol=1e-12)
    # And it is the true sum, to the last digit but one.
    exact = [math.fsum(column) for column in values["phi_y"].reshape(10_000, -1).T]
    assert_allclose(totals[0].sums["phi_y"].high.reshape(-1), exact, rtol=1e-15)


@few
@given(seed=seeds)
def test_adding_is_commutative_and_associative_to_the_last_bit_of_the_double(seed):
    rng = np.random.default_rng(seed)
    a, b, c = (Sum.of(rng.normal(size=50) * 10.0 ** rng.integers(-8, 8, size=50)) for _ in range(3))
    assert_array_equal((a + b).high, (b + a).high)
    assert_array_equal((a + b).low, (b + a).low)
    assert_array_equal(((a + b) + c).high, (a + (b + c)).high)


def test_a_site_label_has_no_effect_on_the_model():
    X, Y, _ = weighted_rows(5, 120, 1)
    plain = up.LESSRegressor(Gaussian(1.0), fit_intercept=False).fit(X, Y[:, 0], public=PUBLIC)
    by_site = up.LESSRegressor(Gaussian(1.0), fit_intercept=False).fit(
        X, Y[:, 0], public=PUBLIC, sites=np.arange(120) % 7
    )
    assert_array_equal(by_site.predict(X), plain.predict(X))
    assert [site["rows"] for site in by_site.sites_] == [18, 17, 17, 17, 17, 17, 17]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_blocks_of_rows_are_one_summary(dtype):
    """More rows than one part of the work takes, dealt to three sites."""
    X, Y, w = weighted_rows(6, 60_000, 1, dtype, True)
    basis = BASES["few features"]
    pooled = up.Summary.of(basis, X, Y, 2, sample_weight=w)
    cuts = [0, 1, 20_001, 60_000]
    parts = [up.Summary.of(basis, X[a:b], Y[a:b], 2, sample_weight=w[a:b]) for a, b in itertools.pairwise(cuts)]
    assert_same(sum(parts), pooled, sizes(basis, X, Y, w))
    one_thread = up.Summary.of(basis, X, Y, 2, sample_weight=w, engine=up.engines.Threads(1))
    assert all(np.array_equal(one_thread.sums[k].high, v.high) for k, v in pooled.sums.items())
