"""A filter is the sum or recursion of its definition, obeys its two bounds, and keeps every digit.

The bounds are (4) and (5) of Guo, Lin and Zhou (2017).
"""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from tests import reference
from unpooled import SpectralRegressor
from unpooled.filters import (
    CutOff,
    Filter,
    IteratedTikhonov,
    Landweber,
    NuMethod,
    Tikhonov,
    as_filter,
    from_spec,
    to_spec,
)
from unpooled.kernels import Gaussian

few = settings(max_examples=40, deadline=None, derandomize=True)
EPS = Fraction(np.finfo(float).eps)
FILTERS = [
    Tikhonov(),
    IteratedTikhonov(1),
    IteratedTikhonov(2),
    IteratedTikhonov(5),
    CutOff(),
    Landweber(),
    NuMethod(0.5),
    NuMethod(1.0),
    NuMethod(1.7),
    NuMethod(4.0),
]
ITERATIONS = [f for f in FILTERS if f.iterations(1.0) is not None]
every_filter = pytest.mark.parametrize("filter_", FILTERS, ids=repr)
every_iteration = pytest.mark.parametrize("filter_", ITERATIONS, ids=repr)
kappa_squares = pytest.mark.parametrize("kappa_sq", [0.3, 1.0, 40.0])


def exactly(filter_, sigma, lam, kappa_sq):
    """(g, residual) of the definition at one σ, in rational arithmetic: brute-force sums and recursions."""
    s, lam_ = Fraction(sigma), Fraction(lam)
    if isinstance(filter_, CutOff):
        return (1 / s, Fraction(0)) if s >= lam_ else (Fraction(0), Fraction(1))
    if isinstance(filter_, (Tikhonov, IteratedTikhonov)):
        m = getattr(filter_, "times", 1)
        g = sum(lam_ ** (k - 1) / (s + lam_) ** k for k in range(1, m + 1))
        return g, 1 - s * g
    t, eta = filter_.iterations(lam, kappa_sq), 1 / Fraction(kappa_sq)
    x = float(sigma) / kappa_sq  # the rounding of this quotient is not the filter's concern
    g, r = reference.landweber_sums(x, t) if isinstance(filter_, Landweber) else _nu(filter_, x, t)
    return eta * g, r


def _nu(filter_, x, t):
    return reference.nu_polynomials(x, t, filter_.nu)


def relative_error(actual, exact):
    return abs(Fraction(float(actual)) - exact) / abs(exact) if exact else Fraction(float(actual))


def spectrum(kappa_sq, n=600):
    """A fine grid of (0, κ²], denser at both ends."""
    unit = np.concatenate([np.geomspace(1e-12, 1, n), np.linspace(0, 1, n + 1)[1:], 1 - np.geomspace(1e-12, 0.5, n)])
    return kappa_sq * np.unique(unit)


def lambdas(kappa_sq):
    """λ in (0, κ²]: whole numbers of iterations, just off them on both sides, and in between."""
    t = np.arange(1.0, 25.0)
    unit = np.concatenate([1 / t, 1 / t**2, 1 / (t + 1e-3), 1 / (t + 1e-3) ** 2, np.geomspace(1e-5, 1, 40)])
    return kappa_sq * np.unique(unit)


# Closed forms


@every_filter
@few
@given(unit=st.floats(1e-8, 1.0), t=st.integers(1, 60), kappa_sq=st.sampled_from([1.0, 0.25, 3.0]))
def test_g_equals_its_definition_to_rounding(filter_, unit, t, kappa_sq):
    sigma, lam = unit * kappa_sq, kappa_sq / t
    g, _ = exactly(filter_, sigma, lam, kappa_sq)
    steps = filter_.iterations(lam, kappa_sq) or getattr(filter_, "times", 1)
    assert relative_error(filter_.g(np.array([sigma]), lam, kappa_sq)[0], g) <= (10 + 2 * steps) * EPS


@every_filter
@few
@given(unit=st.floats(1e-8, 1.0), t=st.integers(1, 60), kappa_sq=st.sampled_from([1.0, 0.25, 3.0]))
def test_residual_is_what_g_leaves_to_rounding(filter_, unit, t, kappa_sq):
    sigma, lam = np.array([unit * kappa_sq]), kappa_sq / t
    g, residual = filter_.g(sigma, lam, kappa_sq), filter_.residual(sigma, lam, kappa_sq)
    steps = filter_.iterations(lam, kappa_sq) or getattr(filter_, "times", 1)
    np.testing.assert_allclose(residual, 1 - sigma * g, rtol=0, atol=float((10 + 2 * steps) * EPS))


@pytest.mark.parametrize(
    ("filter_", "lam"),
    [
        (Tikhonov(), 1e-9),
        (IteratedTikhonov(3), 1e-4),
        (Landweber(), 1 / 60),
        (NuMethod(2.0), 1 / 60**2),
        (NuMethod(4.0), 1 / 25**2),
    ],
    ids=repr,
)
def test_residual_keeps_the_digits_that_one_minus_sigma_g_loses(filter_, lam):
    sigma = np.array([0.3, 0.4, 0.5, 0.9, 0.999])
    residual, difference = filter_.residual(sigma, lam), 1 - sigma * filter_.g(sigma, lam)
    exact = [exactly(filter_, s, lam, 1.0)[1] for s in sigma]
    ours = [relative_error(a, e) for a, e in zip(residual, exact)]
    naive = [relative_error(a, e) for a, e in zip(difference, exact)]
    assert max(ours) < 1e-12
    assert max(naive) > 100 * max(ours)


def test_cut_off_inverts_from_lambda_on_and_drops_what_is_below():
    sigma = np.array([0.0, 0.1, np.nextafter(0.2, 0), 0.2, 0.5])
    np.testing.assert_array_equal(CutOff().g(sigma, 0.2), [0, 0, 0, 1 / 0.2, 1 / 0.5])
    np.testing.assert_array_equal(CutOff().residual(sigma, 0.2), [1, 1, 1, 0, 0])


def test_one_round_of_iterated_tikhonov_is_tikhonov():
    sigma = spectrum(1.0)
    np.testing.assert_allclose(IteratedTikhonov(1).g(sigma, 0.01), Tikhonov().g(sigma, 0.01), rtol=1e-15)
    np.testing.assert_allclose(IteratedTikhonov(1).residual(sigma, 0.01), Tikhonov().residual(sigma, 0.01), rtol=1e-15)


@few
@given(t=st.integers(1, 200))
def test_one_landweber_step_after_another_is_the_gradient_recursion(t):
    sigma = np.linspace(0, 1, 30)
    g = np.zeros_like(sigma)
    for _ in range(t):
        g = g + (1 - sigma * g)
    np.testing.assert_allclose(Landweber().g(sigma, 1 / t), g, rtol=1e-12)


# Definition 1 of Guo, Lin and Zhou (2017)


@every_filter
@kappa_squares
def test_bound_4_holds_with_the_filters_own_constant(filter_, kappa_sq):
    sigma, lams = spectrum(kappa_sq), lambdas(kappa_sq)
    g, _ = filter_.path(sigma, lams, kappa_sq)
    assert np.max(np.abs(g) * lams[:, None]) <= filter_.bound * (1 + 1e-8)
    assert np.max(np.abs(g * sigma)) <= filter_.bound * (1 + 1e-8)


@every_filter
@kappa_squares
def test_bound_5_holds_up_to_the_qualification(filter_, kappa_sq):
    sigma, lams = spectrum(kappa_sq), lambdas(kappa_sq)
    _, residual = filter_.path(sigma, lams, kappa_sq)
    top = min(filter_.qualification, 8.0)
    for q in top * np.array([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]):
        ratio = np.abs(residual) * (sigma / lams[:, None]) ** q
        assert np.max(ratio) <= filter_.gamma(q) * (1 + 1e-7)


@pytest.mark.parametrize("filter_", [f for f in FILTERS if math.isfinite(f.qualification)], ids=repr)
def test_bound_5_fails_beyond_the_qualification(filter_):
    sigma, lams = spectrum(1.0), np.array([1e-2, 1e-3, 1e-4, 1e-5])
    _, residual = filter_.path(sigma, lams)
    q = 1.5 * filter_.qualification
    worst = np.max(np.abs(residual) * (sigma / lams[:, None]) ** q, axis=1)
    growth = worst[1:] / worst[:-1]
    assert np.all(growth > 0.9 * 10 ** (q - filter_.qualification))  # in the limit it is λ^{-(q - qualification)}


@kappa_squares
@pytest.mark.parametrize("t", [1, 2, 7, 30, 100])
def test_landweber_at_a_whole_number_of_steps_has_the_papers_constant_b_one(t, kappa_sq):
    sigma = spectrum(kappa_sq)
    g = Landweber().g(sigma, kappa_sq / t, kappa_sq)
    assert np.max(np.abs(g)) <= t / kappa_sq * (1 + 1e-12)
    assert np.max(np.abs(g * sigma)) <= 1 + 1e-12


@kappa_squares
@pytest.mark.parametrize("nu", [0.5, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("t", [1, 2, 7, 30, 100])
def test_the_nu_method_at_a_whole_number_of_steps_has_the_papers_constant_b_two(t, nu, kappa_sq):
    sigma = spectrum(kappa_sq)
    g = NuMethod(nu).g(sigma, kappa_sq / t**2, kappa_sq)
    assert np.max(np.abs(g)) <= 2 * t**2 / kappa_sq
    assert np.max(np.abs(g * sigma)) <= 2


@every_filter
def test_g_tends_to_the_inverse_as_lambda_tends_to_zero(filter_):
    sigma = np.array([0.2, 0.5, 1.0])
    gaps = [np.max(np.abs(filter_.g(sigma, lam) * sigma - 1)) for lam in (1e-1, 1e-3, 1e-6)]
    assert gaps[2] <= gaps[1] <= gaps[0]
    assert gaps[2] < 0.01


@every_filter
@few
@given(
    s=st.floats(1e-6, 1e6), unit=st.floats(1e-6, 1.0), lam=st.floats(1e-4, 1.0), kappa_sq=st.sampled_from([1.0, 7.0])
)
def test_scaling_kernel_and_lambda_together_changes_nothing(filter_, s, unit, lam, kappa_sq):
    sigma, lam = np.array([unit * kappa_sq]), lam * kappa_sq
    if abs(sigma[0] - lam) < 1e-9 * lam:
        sigma *= 1.001  # the cut-off jumps at σ = λ
    ratio = kappa_sq / lam
    for value in (ratio, math.sqrt(ratio)):  # the iterations jump at whole numbers, forgiving 1e-9
        if 0 < value - round(value) < 2e-9 * value:
            lam *= 1 - 1e-6
    assert filter_.iterations(s * lam, s * kappa_sq) == filter_.iterations(lam, kappa_sq)
    np.testing.assert_allclose(
        s * filter_.g(s * sigma, s * lam, s * kappa_sq), filter_.g(sigma, lam, kappa_sq), rtol=1e-9
    )
    np.testing.assert_allclose(
        filter_.residual(s * sigma, s * lam, s * kappa_sq), filter_.residual(sigma, lam, kappa_sq), atol=1e-9
    )


# The ends of the spectrum


TINY = np.array([0.0, 5e-324, 1e-310, np.finfo(float).tiny, 1e-300, 1e-200, 1e-100, 1e-17])


@every_filter
@kappa_squares
@pytest.mark.parametrize("unit_lam", [1.0, 0.1, 1e-6])
def test_tiny_eigenvalues_give_the_limit_at_zero_without_a_warning(filter_, kappa_sq, unit_lam):
    lam = unit_lam * kappa_sq
    with np.errstate(all="raise", under="ignore"):
        g, residual = filter_.g(TINY, lam, kappa_sq), filter_.residual(TINY, lam, kappa_sq)
    if isinstance(filter_, CutOff):
        limit = 0.0
    elif isinstance(filter_, (Tikhonov, IteratedTikhonov)):
        limit = getattr(filter_, "times", 1) / lam
    elif isinstance(filter_, Landweber):
        limit = filter_.iterations(lam, kappa_sq) / kappa_sq
    else:
        limit = float(reference.nu_polynomials(0.0, filter_.iterations(lam, kappa_sq), filter_.nu)[0]) / kappa_sq
    np.testing.assert_allclose(g, limit, rtol=1e-9)
    np.testing.assert_allclose(residual, 1.0, rtol=1e-9)


@every_filter
def test_eigenvalues_that_rounding_made_negative_or_too_large_do_no_harm(filter_):
    sigma = np.array([-1e-17, 1.0 + 1e-15])
    with np.errstate(all="raise", under="ignore"):
        g, residual = filter_.g(sigma, 0.01), filter_.residual(sigma, 0.01)
    np.testing.assert_allclose(g, filter_.g(np.array([0.0, 1.0]), 0.01), rtol=1e-10)
    np.testing.assert_allclose(residual, filter_.residual(np.array([0.0, 1.0]), 0.01), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("t", [1, 2, 10, 40])
@pytest.mark.parametrize("x", [1.0, np.nextafter(1.0, 0), 1 - 1e-12, 1 - 1e-6, 0.999, 0.5])
def test_landweber_at_the_top_of_the_spectrum(x, t):
    with np.errstate(all="raise", under="ignore"):
        g, residual = Landweber().g(np.array([x]), 1 / t)[0], Landweber().residual(np.array([x]), 1 / t)[0]
    sums, power = reference.landweber_sums(x, t)
    assert relative_error(g, sums) <= 8 * EPS
    # exp(t·log(1-x)) multiplies a rounding error by its exponent; below the normal numbers it may vanish
    exponent = 1 + t * abs(math.log1p(-x)) if x < 1 else 1
    assert abs(Fraction(float(residual)) - power) <= 4 * Fraction(exponent) * EPS * power + Fraction(1e-300)


@every_filter
def test_the_arguments_are_left_as_they_were(filter_):
    sigma, lams = spectrum(1.0, 20), np.array([0.5, 0.01])
    before = sigma.copy(), lams.copy()
    filter_.path(sigma, lams)
    np.testing.assert_array_equal(sigma, before[0])
    np.testing.assert_array_equal(lams, before[1])


@every_filter
@pytest.mark.parametrize("shape", [(), (1,), (7,)])
def test_the_shape_of_the_spectrum_is_kept(filter_, shape):
    sigma = np.full(shape, 0.5)
    assert np.shape(filter_.g(sigma, 0.1)) == np.shape(filter_.residual(sigma, 0.1)) == shape


# Iterations and paths


@few
@given(t=st.integers(1, 10**7), kappa_sq=st.sampled_from([1.0, 3.0, 0.7, 1e-3, 123.456]))
def test_a_whole_number_of_steps_is_never_rounded_up_to_the_next(t, kappa_sq):
    assert Landweber().iterations(kappa_sq / t, kappa_sq) == t
    assert NuMethod().iterations(kappa_sq / t**2, kappa_sq) == t


@few
@given(t=st.integers(1, 10**6), part=st.floats(0.001, 0.999))
def test_a_part_of_a_step_counts_as_a_step(t, part):
    assert Landweber().iterations(1 / (t + part)) == t + 1
    assert NuMethod().iterations(1 / (t + part) ** 2) == t + 1


def test_three_over_three_hundredths_is_a_hundred_steps():
    assert Landweber().iterations(0.03, 3.0) == 100
    assert NuMethod().iterations(0.0003, 3.0) == 100
    for k in range(1, 1000):
        assert Landweber().iterations(k / 1000, k / 10) == 100
        assert NuMethod().iterations(k / 1000, k / 10) == 10
    assert any(math.ceil((k / 10) / (k / 1000)) == 101 for k in range(1, 1000))  # what rounding would do


@pytest.mark.parametrize("t", [10**9, 2 * 10**9 + 1, 2**40])
def test_very_many_steps_are_still_the_number_asked_for(t):
    assert Landweber().iterations(1 / t) == t


@every_iteration
def test_a_lambda_beyond_kappa_squared_stands_for_one_step(filter_):
    assert filter_.iterations(5.0, 1.0) == 1
    assert filter_.iterations(1.0, 1.0) == 1


def test_filters_that_are_no_iterations_have_none():
    for filter_ in (Tikhonov(), IteratedTikhonov(), CutOff()):
        assert filter_.iterations(0.1) is None


@every_filter
@few
@given(seed=st.integers(0, 2**32 - 1), n_lams=st.integers(1, 6), kappa_sq=st.sampled_from([1.0, 5.0]))
def test_a_path_is_one_lambda_after_another_in_any_order(filter_, seed, n_lams, kappa_sq):
    rng = np.random.default_rng(seed)
    sigma = kappa_sq * rng.uniform(0, 1, 8)
    lams = kappa_sq * 10 ** rng.uniform(-4, 0, n_lams)
    lams[-1] = lams[0]  # a λ may come twice
    gs, residuals = filter_.path(sigma, lams, kappa_sq)
    assert gs.shape == residuals.shape == (n_lams, 8)
    for i, lam in enumerate(lams):
        np.testing.assert_allclose(gs[i], filter_.g(sigma, lam, kappa_sq), rtol=1e-14)
        np.testing.assert_allclose(residuals[i], filter_.residual(sigma, lam, kappa_sq), rtol=1e-14)


def test_a_new_filter_needs_g_alone():
    class Lavrentiev(Filter):
        def g(self, sigma, lam, kappa_sq=1.0):
            return 1 / (sigma + lam)

    sigma, lams = spectrum(1.0, 20), np.array([0.5, 0.01])
    for ours, theirs in zip(Lavrentiev().path(sigma, lams), Tikhonov().path(sigma, lams)):
        np.testing.assert_allclose(ours, theirs, atol=1e-15)
    mine = Lavrentiev()
    assert as_filter(mine) is mine
    with pytest.raises(ValueError, match="the filter Lavrentiev cannot be saved"):
        to_spec(mine)


def test_a_class_with_another_g_takes_over_no_faster_way_to_the_old_one():
    class Halved(Tikhonov):
        def g(self, sigma, lam, kappa_sq=1.0):
            return 0.5 / (sigma + lam)

        def residual(self, sigma, lam, kappa_sq=1.0):
            return 1.0 - sigma * self.g(sigma, lam, kappa_sq)

    class Renamed(Landweber):
        pass

    assert (Tikhonov().ridge_times, Halved().ridge_times) == (1, 0)
    assert (Landweber().has_steps, Renamed().has_steps, Halved().has_steps) == (True, True, False)
    X = np.random.default_rng(0).standard_normal((30, 2))
    whole, half = (
        SpectralRegressor(Gaussian(1.0), f, lam=0.1, fit_intercept=False).fit(X, X[:, 0])
        for f in (Tikhonov(), Halved())
    )
    np.testing.assert_allclose(half.predict(X), 0.5 * whole.predict(X), rtol=1e-10)


def test_a_descent_of_ones_own_is_run_step_by_step_and_gives_its_g():
    class Slow(Filter):
        """Landweber's descent with half the step."""

        has_steps = True

        def iterations(self, lam, kappa_sq=1.0):
            return math.ceil(kappa_sq / lam)

        def steps(self, n):
            return [(0.0, 0.5)] * n

        def g(self, sigma, lam, kappa_sq=1.0):
            x = 0.5 * sigma / kappa_sq
            return sum((1 - x) ** k for k in range(self.iterations(lam, kappa_sq))) * 0.5 / kappa_sq

    X = np.random.default_rng(0).standard_normal((300, 2))  # so many that ten products cost less than a decomposition
    by_steps = SpectralRegressor(Gaussian(1.0), Slow(), lam=0.1, fit_intercept=False).fit(X, X[:, 0])
    by_spectrum = SpectralRegressor(Gaussian(1.0), Slow(), lam=[0.1], fit_intercept=False).fit(X, X[:, 0])
    assert by_steps.solver_ != by_spectrum.solver_
    np.testing.assert_allclose(by_steps.predict(X), by_spectrum.predict(X), atol=1e-10)


# Names, parameters, descriptions


def test_every_filter_has_a_name():
    classes = {
        "tikhonov": Tikhonov,
        "iterated-tikhonov": IteratedTikhonov,
        "cutoff": CutOff,
        "landweber": Landweber,
        "nu": NuMethod,
    }
    for name, cls in classes.items():
        assert type(as_filter(name)) is cls
    given_filter = NuMethod(3.0)
    assert as_filter(given_filter) is given_filter


@pytest.mark.parametrize("wrong", ["ridge", "", None, 3, Tikhonov, ["tikhonov"]], ids=repr)
def test_what_is_no_filter_is_refused_with_the_names_there_are(wrong):
    with pytest.raises(ValueError, match=r"filter must be 'tikhonov', .*'nu' or a Filter object, got"):
        as_filter(wrong)


@pytest.mark.parametrize("times", [0, -1, 1.5, "2", None, math.nan], ids=repr)
def test_a_number_of_rounds_that_is_not_whole_is_refused(times):
    filter_ = IteratedTikhonov(times)
    uses = [
        lambda: filter_.g(np.ones(2), 0.1),
        lambda: filter_.residual(np.ones(2), 0.1),
        lambda: filter_.qualification,
        lambda: filter_.bound,
    ]
    for use in uses:
        with pytest.raises(ValueError, match="times must be a whole number of at least 1, got"):
            use()


@pytest.mark.parametrize("nu", [0.0, 0.49, -1.0, math.nan, math.inf, "1", None], ids=repr)
def test_a_nu_below_one_half_is_refused(nu):
    filter_ = NuMethod(nu)
    for use in (lambda: filter_.g(np.ones(2), 0.1), lambda: filter_.qualification, lambda: filter_.gamma(0.5)):
        with pytest.raises(ValueError, match="nu must be a number of at least 1/2, got"):
            use()


def test_parameters_may_be_numpy_numbers():
    sigma = spectrum(1.0, 20)
    np.testing.assert_array_equal(IteratedTikhonov(np.int64(3)).g(sigma, 0.1), IteratedTikhonov(3).g(sigma, 0.1))
    np.testing.assert_array_equal(NuMethod(np.float32(2)).g(sigma, 0.1), NuMethod(2.0).g(sigma, 0.1))


@pytest.mark.parametrize("filter_", [*FILTERS, IteratedTikhonov(np.int64(3)), NuMethod(np.float32(2))], ids=repr)
def test_a_filter_survives_the_way_through_json(filter_):
    restored = from_spec(json.loads(json.dumps(to_spec(filter_), allow_nan=False)))
    assert type(restored) is type(filter_)
    assert restored.get_params() == filter_.get_params() == clone(filter_).get_params()


@pytest.mark.parametrize(
    "spec",
    [None, 3, "nu", {}, {"filter": "ridge"}, {"filter": None}, {"filter": []}, {"filter": "nu", "times": 2}],
    ids=repr,
)
def test_a_description_of_no_filter_is_refused(spec):
    with pytest.raises(ValueError, match="does not describe a filter"):
        from_spec(spec)
