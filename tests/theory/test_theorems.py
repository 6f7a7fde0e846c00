"""The theorems as numbers: limits, rates and schedules are their formulas, and a sample shows its kernel's exponent.

Tests `theory/dimension.py`, `theory/limits.py` and `theory/schedules.py`.
"""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests import reference
from tests.made_up import points
from unpooled import SpectralRegressor, theory
from unpooled.filters import CutOff, IteratedTikhonov, Landweber, NuMethod, Tikhonov
from unpooled.kernels import Brownian, Gaussian, Linear, Matern

few = settings(max_examples=50, deadline=None, derandomize=True)
sizes = st.integers(2, 10**12)
regularities = st.floats(0.5, 6.0)
above_half = st.floats(0.501, 6.0)
capacities = st.floats(0.0, 1.0)
METHODS = ("spectral", "krr", "semi-supervised", "correntropy")


# Partition limits


@few
@given(n=sizes, r=regularities, s=capacities)
def test_the_spectral_limit_is_9_of_paper_001(n, r, s):
    expected = n ** min(2 / (2 * r + s), (2 * r - 1) / (2 * r + s))
    assert theory.partition_limit(n, r, s) == pytest.approx(expected)


@few
@given(n=sizes, r=above_half, s=capacities)
def test_the_limits_with_logarithms_are_3_2_of_paper_002_and_8_of_paper_003(n, r, s):
    q = min(r, 1.0)  # ridge regression saturates
    krr = n ** ((q - 0.5) / (2 * q + s)) / (math.log(n) ** 3 + 1)
    correntropy = n ** ((r - 0.5) / (2 * r + s)) / math.log(n) ** 5
    assert theory.partition_limit(n, r, s, "krr") == pytest.approx(krr)
    assert theory.partition_limit(n, r, s, "correntropy") == pytest.approx(correntropy)


@few
@given(n=sizes, r=above_half, s=capacities)
def test_without_unlabeled_rows_the_semi_supervised_limit_is_that_of_ridge(n, r, s):
    # With the sign printed in (3.25) it would be smaller wherever 2r + s > 2.
    both = [theory.partition_limit(n, r, s, "krr"), theory.partition_limit(n, r, s, "semi-supervised", n_total=n)]
    assert both[0] == pytest.approx(both[1])


@few
@given(n=sizes, r=above_half, s=capacities, more=st.floats(1, 1e6))
def test_unlabeled_rows_raise_the_limit_until_3_25s_own_proof_stops_it(n, r, s, more):
    r, total = min(r, 1.0), math.floor(n * more)
    m = theory.partition_limit(n, r, s, "semi-supervised", n_total=total)
    assert theory.partition_limit(n, r, s, "krr") * (1 - 1e-12) <= m <= n
    # The two terms that the proof must bring below N^{-r/(2r+s)}, up to constants.
    logs, e = math.log(n) ** 3 + 1, 2 * r + s
    target = n ** (-r / e) * (1 + 1e-9)
    assert m * total**-0.5 * n ** ((1 + s) / (2 * e)) * n ** (-r / e) * logs <= target
    assert m**1.5 * n ** (-(e - 0.5) / e) * total**-0.5 * n ** ((s + 1) / (2 * e)) * logs ** (3 / 2) <= target


@few
@given(n=sizes, r=regularities, s=capacities)
def test_no_regularity_allows_more_blocks_than_three_halves(n, r, s):
    most = theory.largest_supported_blocks(n, s)
    assert most == pytest.approx(n ** (2 / (3 + s)))
    assert theory.partition_limit(n, r, s) <= most * (1 + 1e-12)
    assert theory.partition_limit(n, 1.5, s) == pytest.approx(most)  # so it is a maximum
    assert most <= theory.largest_supported_blocks(n) * (1 + 1e-12)


@few
@given(n=sizes, s=capacities, nu=st.floats(0.5, 4.0))
def test_the_most_blocks_of_a_filter_are_the_supremum_over_its_regularities(n, s, nu):
    most = theory.largest_supported_blocks(n, s, qualification=nu)
    limits = [theory.partition_limit(n, r, s, qualification=nu) for r in np.linspace(0.5, 4, 29)]
    assert max(limits) <= most * (1 + 1e-12)
    assert theory.partition_limit(n, min(nu, 1.5), s, qualification=nu) == pytest.approx(most)


@pytest.mark.parametrize("filter", [Tikhonov(), IteratedTikhonov(3), NuMethod(1.2), CutOff(), Landweber()])
@few
@given(n=sizes, r=regularities, s=capacities)
def test_regularity_beyond_the_qualification_changes_nothing(filter, n, r, s):
    capped = min(r, filter.qualification)
    for function in (theory.rate, theory.lam, theory.partition_limit):
        by_filter = function(n, r, s, filter=filter)
        assert by_filter == function(n, capped, s) == function(n, r, s, qualification=filter.qualification)


@pytest.mark.parametrize("method", ["krr", "correntropy"])
def test_the_logarithms_make_the_limits_asymptotic_guarantees(method):
    assert theory.partition_limit(1e12, 1.0, 0.5, method) < 1
    assert theory.partition_limit(1e80, 1.0, 0.5, method) > 1


# Rates and schedules


@few
@given(n=sizes, r=regularities, s=capacities, kappa=st.floats(0.1, 10))
def test_bias_and_variance_balance_at_the_schedules_lam(n, r, s, kappa):
    lam = theory.lam(n, r, s)
    assert lam**r == pytest.approx(theory.rate(n, r, s))  # the bias ‖f_λ - f_ρ‖ ≤ λ^r
    assert math.sqrt(lam**-s / n) == pytest.approx(theory.rate(n, r, s))  # √(𝒩(λ)/N)
    assert theory.lam(n, r, s, kappa) == pytest.approx(kappa**2 * lam)


@few
@given(n=st.integers(2, 10**6), r=regularities, s=capacities, decay=st.floats(0.0, 0.7))
def test_the_iterations_amount_to_lam(n, r, s, decay):
    # λ = T^{-(1-θ)} in the proof of Theorem 1 of Xie, Hu, Wang and Wang (2022)
    steps = theory.n_iter(n, r, s, decay)
    lam = theory.lam(n, r, s)
    assert steps ** -(1 - decay) >= lam * (1 - 1e-8)
    assert (steps + 1) ** -(1 - decay) < lam


def test_a_whole_power_is_not_rounded_down():
    assert [theory.n_iter(k**3, 1.0, 1.0) for k in range(1, 200)] == list(range(1, 200))
    assert theory.n_iter(10**6, 1.0, 1.0, decay=0.5) == 10**4


@few
@given(n=sizes, r=regularities, s=capacities, unit=st.floats(1e-3, 1e3))
def test_at_the_schedules_scale_correntropys_bias_is_the_rate(n, r, s, unit):
    sigma = theory.scale(n, r, s)
    assert n ** (5 / (2 * (2 * r + s))) * sigma**-2 == pytest.approx(theory.rate(n, r, s))
    assert theory.scale(n, r, s, label_scale=unit) == pytest.approx(unit * sigma)


@pytest.mark.parametrize("method", METHODS)
@few
@given(n=sizes, r=above_half, s=capacities)
def test_a_schedule_is_its_parts_at_the_regularity_the_method_can_use(method, n, r, s):
    total = 2 * n if method == "semi-supervised" else None
    plan = theory.schedule(n, r, s, method, n_total=total, decay=0.2, kappa=3.0, label_scale=5.0)
    q = plan.usable_r
    assert q == (min(r, 1.0) if method in ("krr", "semi-supervised") else r)
    assert (plan.rate, plan.lam) == (theory.rate(n, q, s), theory.lam(n, q, s, 3.0))
    assert (plan.n_iter, plan.scale) == (theory.n_iter(n, q, s, 0.2), theory.scale(n, q, s, 5.0))
    assert plan.blocks == theory.partition_limit(n, r, s, method, total)
    assert ("saturates" in str(plan)) == (q < r)
    assert str(plan).startswith(method)


# The effective dimension


@pytest.mark.parametrize("center", [False, True])
@few
@given(seed=st.integers(0, 10**6), lam=st.floats(-6, 1).map(lambda u: 10.0**u), weighted=st.booleans())
def test_the_effective_dimension_is_its_trace(center, seed, lam, weighted):
    X = points(seed, 12, 2)
    w = np.random.default_rng(seed).integers(0, 4, size=12) + (np.arange(12) == 0) if weighted else np.ones(12)
    H = reference.centering(12, w) if center else np.eye(12)
    A = H @ reference.gaussian(X, X, 0.8) @ H.T * (w / w.sum())  # L_D on values at the rows: K̂ diag(w)
    expected = np.trace(np.linalg.solve(A + lam * np.eye(12), A))
    got = theory.effective_dimension(Gaussian(0.8), X, lam, center=center, weights=w if weighted else None)
    assert got == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("center", [False, True])
def test_the_effective_dimension_is_the_degrees_of_freedom_of_ridge(center):
    X, lams = points(0, 40), np.geomspace(1, 1e-4, 5)
    model = SpectralRegressor(Gaussian(0.8), lam=lams, fit_intercept=center, solver="eigh").fit(X, X[:, 0])
    intercept = 1.0 if center else 0.0
    assert_allclose(theory.effective_dimension(Gaussian(0.8), X, lams, center=center) + intercept, model.path_.df)


@pytest.mark.parametrize("center", [False, True])
def test_whole_weights_equal_repeated_rows(center):
    X, w, lams = points(0, 40), np.arange(40) % 4, np.geomspace(1, 1e-4, 5)
    by_weight = theory.effective_dimension("rbf", X, lams, center=center, weights=w)
    assert_allclose(by_weight, theory.effective_dimension("rbf", np.repeat(X, w, axis=0), lams, center=center))


@few
@given(scale=st.floats(-6, 6).map(lambda u: 10.0**u))
def test_scaling_the_kernel_and_lam_together_changes_nothing(scale):
    X = points(0, 60)
    plain = theory.effective_dimension(Gaussian(1.0), X, 0.01)
    assert theory.effective_dimension(scale * Gaussian(1.0), X, scale * 0.01) == pytest.approx(plain)
    s = theory.dimension_exponent(scale * Matern(1.0), X).s
    assert s == pytest.approx(theory.dimension_exponent(Matern(1.0), X).s, abs=1e-6)


def test_many_lams_are_each_alone_in_the_shape_given():
    X, lams = points(0, 40), np.geomspace(1, 1e-5, 6).reshape(2, 3)
    together = theory.effective_dimension(None, X, lams)
    alone = [theory.effective_dimension(Gaussian("median"), X, float(lam)) for lam in lams.reshape(-1)]
    assert together.shape == (2, 3)
    assert_allclose(together.reshape(-1), alone)
    assert isinstance(alone[0], float)
    assert np.all(np.diff(alone) > 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_the_rows_knows_the_large_eigenvalues(weighted):
    X = points(0, 1500)
    w = np.random.default_rng(1).uniform(0, 2, size=1500) if weighted else None
    exact = theory.effective_dimension(Gaussian("median"), X, [0.1, 0.01], weights=w, max_rows=1500)
    sampled = theory.effective_dimension(Gaussian("median"), X, [0.1, 0.01], weights=w, max_rows=500)
    assert_allclose(sampled, exact, rtol=0.05)
    other = theory.effective_dimension(Gaussian("median"), X, [0.1, 0.01], weights=w, max_rows=500, random_state=1)
    assert np.all(sampled != other)


def test_a_sample_never_looks_at_more_than_its_rows():
    seen = []

    def watched(X, Z):
        seen.append(max(len(X), len(Z)))
        return X @ Z.T

    theory.effective_dimension(watched, points(0, 5000), 0.1, max_rows=100)
    assert max(seen) <= 100


@pytest.mark.parametrize("library", [torch.asarray, array_api_strict.asarray], ids=["torch", "strict"])
@pytest.mark.parametrize("max_rows", [2000, 80])
def test_every_array_library_gives_numpys_numbers(library, max_rows):
    X, w = points(0, 120), np.linspace(1, 2, 120)
    for options in ({}, {"weights": w}, {"center": True}):
        options["max_rows"] = max_rows
        expected = theory.effective_dimension(Matern("median"), X, 0.01, **options)
        given_weights = {**options, "weights": library(w)} if "weights" in options else options
        assert theory.effective_dimension(Matern("median"), library(X), 0.01, **given_weights) == pytest.approx(
            expected
        )
        s = theory.dimension_exponent(Matern("median"), library(X), **given_weights).s
        assert s == pytest.approx(theory.dimension_exponent(Matern("median"), X, **options).s)


@pytest.mark.parametrize("weights", [None, np.arange(120) % 3])
@pytest.mark.parametrize("max_rows", [2000, 70])
def test_a_precomputed_matrix_is_the_kernel_itself(weights, max_rows):
    X = points(0, 120)
    K = reference.gaussian(X, X, 0.8)
    before = K.copy()
    options = {"weights": weights, "max_rows": max_rows, "center": True}
    by_matrix = theory.effective_dimension("precomputed", K, 0.01, **options)
    assert by_matrix == pytest.approx(theory.effective_dimension(Gaussian(0.8), X, 0.01, **options))
    assert np.array_equal(K, before)


# The exponent

# Uniform rows, eigenvalues of order k^{-1/s}: Brownian k^{-2}, Matérn k^{-(2ν+d)/d}, Gaussian faster than any power.
KNOWN = {
    "brownian": (Brownian(), 1, 1 / 2),
    "matern 1/2": (Matern(1.0, nu=0.5), 1, 1 / 2),
    "matern 3/2": (Matern(0.5, nu=1.5), 1, 1 / 4),
    "matern 5/2": (Matern("median", nu=2.5), 1, 1 / 6),
    "matern 1/2 in the plane": (Matern(1.0, nu=0.5), 2, 2 / 3),
    "matern 3/2 in the plane": (Matern(0.5, nu=1.5), 2, 2 / 5),
    "gaussian": (Gaussian("median"), 1, 0.0),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize(("n", "seed", "center"), [(2000, 0, False), (1000, 1, False), (1000, 2, True)])
def test_the_exponent_of_a_known_kernel_is_found(name, n, seed, center):
    kernel, d, s = KNOWN[name]
    X = np.random.default_rng(seed).uniform(size=(n, d))
    found = theory.dimension_exponent(kernel, X, center=center)
    assert abs(found.s - s) < (0.01 if d == 1 else 0.03)
    assert found.low - 0.01 <= found.s <= found.high + 0.01
    if s > 0:
        assert_allclose(found.fitted, found.dimension, rtol=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_three_hundred_rows_come_close(seed):
    X = np.random.default_rng(seed).uniform(size=(300, 1))
    for kernel, s in ((Brownian(), 0.5), (Matern(1.0, nu=1.5), 0.25), (Gaussian(0.3), 0.0)):
        assert abs(theory.dimension_exponent(kernel, X).s - s) < 0.03


def brownian_spectrum(k):
    """The first k eigenvalues of 1 + min(x, z) on [0, 1]: 1/ω² with ω tan ω = 1."""
    turns = math.pi * np.arange(k)
    omega = turns + 0.8
    for _ in range(50):
        omega = turns + np.arctan(1 / omega)
    return omega**-2


def test_the_window_shows_the_dimension_of_the_population():
    sigma = brownian_spectrum(40_000)
    X = np.random.default_rng(0).uniform(size=(400, 1))
    found = theory.dimension_exponent(Brownian(), X)
    population = np.sum(sigma / (sigma + found.lam[:, None]), axis=1)
    assert_allclose(found.dimension, population, rtol=0.05)
    plain = theory.effective_dimension(Brownian(), X, found.lam)  # what the sample says without the correction
    assert np.abs(plain[-1] - population[-1]) > 2 * np.abs(found.dimension[-1] - population[-1])
    assert found.lam_range == (found.lam.min(), found.lam.max())


def test_a_kernel_of_finite_rank_has_exponent_zero():
    assert theory.dimension_exponent(Linear(), points(0, 200, 3)).s == 0.0
    assert theory.dimension_exponent(lambda X, Z: np.ones((len(X), len(Z))), points(0, 200, 3)).s == 0.0


def test_rows_repeated_many_times_do_not_hide_the_exponent():
    X = np.random.default_rng(0).uniform(size=(150, 1))
    once = theory.dimension_exponent(Brownian(), X)
    assert theory.dimension_exponent(Brownian(), np.repeat(X, 6, axis=0)).s == pytest.approx(once.s, abs=0.05)


# Bad input

X = points(0, 60)
WRONG = [
    (lambda: theory.partition_limit(1, 1.0, 0.5), "n must be a whole number of at least 2, got 1"),
    (lambda: theory.partition_limit(10.5, 1.0, 0.5), "n must be a whole number"),
    (lambda: theory.rate(True, 1.0, 0.5), "n must be"),
    (lambda: theory.rate(100, 0.4, 0.5), "r, the regularity of the target, must be a number of at least 1/2"),
    (lambda: theory.lam(100, math.nan, 0.5), "r, the regularity"),
    (lambda: theory.lam(100, 1.0, 1.5), "s, the exponent of the effective dimension, must be a number from 0 to 1"),
    (lambda: theory.lam(100, 1.0, 0.5, kappa=0), "kappa must be a positive number"),
    (lambda: theory.scale(100, 1.0, 0.5, label_scale=-1), "label_scale must be a positive number"),
    (lambda: theory.n_iter(100, 1.0, 0.5, decay=1), "decay, .* less than 1"),
    (lambda: theory.n_iter(10**12, 0.5, 0.0, decay=0.999), "decay=0.999 needs N to the power of 1000"),
    (lambda: theory.partition_limit(100, 1.0, 0.5, "ridge"), "method must be one of 'spectral', 'krr'"),
    (lambda: theory.partition_limit(100, 0.5, 0.5, "krr"), "r must be more than 1/2 with method='krr'"),
    (
        lambda: theory.partition_limit(100, 1.0, 0.5, "semi-supervised"),
        "n_total, .* must be given with method='semi-supervised', and only",
    ),
    (lambda: theory.partition_limit(100, 1.0, 0.5, "krr", n_total=200), "n_total, .*='semi-supervised'"),
    (
        lambda: theory.partition_limit(100, 1.0, 0.5, "semi-supervised", n_total=99),
        "n_total must be at least n = 100",
    ),
    (lambda: theory.partition_limit(100, 1.0, 0.5, "krr", filter="cutoff"), "can only be given with method='spectral'"),
    (lambda: theory.rate(100, 1.0, 0.5, filter="ridge"), "filter must be"),
    (lambda: theory.rate(100, 1.0, 0.5, qualification=0.3), "qualification must be a number of at least 1/2"),
    (lambda: theory.rate(100, 1.0, 0.5, filter="nu", qualification=1), "give either filter or qualification"),
    (lambda: theory.effective_dimension(None, X, 0.0), "lam must be a positive number"),
    (lambda: theory.effective_dimension(None, X, "loo"), "lam must be a positive number"),
    (lambda: theory.effective_dimension(None, X[:, 0], 0.1), "X cannot be used: Expected 2D array"),
    (lambda: theory.effective_dimension(None, torch.asarray(X[:, 0]), 0.1), "X must be two-dimensional"),
    (lambda: theory.effective_dimension(None, X * np.nan, 0.1), "X cannot be used: Input X contains NaN"),
    (lambda: theory.effective_dimension(None, torch.asarray(X * np.nan), 0.1), "X contains NaN or infinity"),
    (lambda: theory.effective_dimension(None, X, 0.1, weights=[1, 2]), "weights must be 60 non-negative numbers"),
    (lambda: theory.effective_dimension(None, X, 0.1, weights=-np.ones(60)), "weights must be 60 non-negative"),
    (lambda: theory.effective_dimension(None, X, 0.1, center="yes"), "center must be True or False"),
    (lambda: theory.effective_dimension(None, X, 0.1, max_rows=0), "max_rows must be a whole number of at least 1"),
    (lambda: theory.effective_dimension("precomputed", X, 0.1, max_rows=10), "X must be square"),
    (lambda: theory.effective_dimension("precomputed", np.triu(np.ones((9, 9))), 0.1), "must be symmetric"),
    (lambda: theory.effective_dimension("precomputed", -np.eye(9), 0.1), "not positive semi-definite"),
    (lambda: theory.dimension_exponent(None, X[:49]), "X must have at least 50 different rows .* and has 49"),
    (lambda: theory.dimension_exponent(lambda A, B: np.zeros((len(A), len(B))), X), "kernel is zero on X"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_bad_input_is_one_sentence_that_names_the_argument(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
