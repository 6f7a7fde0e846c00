"""Centring a kernel on a sample takes its mean out of the space, and nothing else (Wang 2018, chapter 2).

Tests `kernels/centered.py`.
"""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from tests import reference
from tests.made_up import points
from unpooled import kernels
from unpooled.kernels import Brownian, Centered, Gaussian, Laplacian, Linear, Matern, Polynomial, as_kernel

few = settings(max_examples=30, deadline=None, derandomize=True)
KERNELS = {
    "gaussian": (Gaussian(0.7), lambda X, Z: reference.gaussian(X, Z, 0.7)),
    "laplacian": (Laplacian(0.7), lambda X, Z: reference.laplacian(X, Z, 0.7)),
    "matern": (Matern(0.7, 2.5), lambda X, Z: reference.matern(X, Z, 0.7, 2.5)),
    "linear": (Linear(), lambda X, Z: X @ Z.T),
    "polynomial": (Polynomial(2, 0.5, 1.0), lambda X, Z: reference.polynomial(X, Z, 2, 0.5, 1.0)),
    "brownian": (Brownian(), reference.brownian),
    "sum": (Gaussian(0.7) + 2.0 * Linear(), lambda X, Z: reference.gaussian(X, Z, 0.7) + 2 * X @ Z.T),
}
every_kernel = pytest.mark.parametrize(("kernel", "formula"), KERNELS.values(), ids=KERNELS.keys())


@st.composite
def samples(draw):
    """(rows u_1..u_n ≥ 0 of one feature, weights of any scale or None)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 12))
    kind = draw(st.sampled_from(["none", "any", "some zero"]))
    weights = None if kind == "none" else rng.uniform(0.1, 50.0, n)
    if kind == "some zero":
        weights[rng.permutation(n)[: n // 2]] = 0.0
    return rng.uniform(0, 3, (n, 1)), weights


other_rows = partial(points, d=1, between=(0.0, 3.0))


def shares(sample, weights):
    w = np.ones(len(sample)) if weights is None else weights
    return w / w.sum()


@every_kernel
@few
@given(drawn=samples())
def test_blocks_equal_the_definition_on_every_pair(kernel, formula, drawn):
    sample, weights = drawn
    X, Z = other_rows(1, n=6), other_rows(2, n=4)
    centred = Centered(kernel, sample, weights)
    expected = reference.centered_kernel(formula, X, Z, sample, weights)
    np.testing.assert_allclose(centred(X, Z), expected, atol=1e-9)
    np.testing.assert_allclose(centred.block(X, Z), expected, atol=1e-9)
    np.testing.assert_allclose(centred(X), reference.centered_kernel(formula, X, X, sample, weights), atol=1e-7)


@every_kernel
@few
@given(drawn=samples())
def test_on_its_own_sample_it_is_the_doubly_centred_matrix(kernel, formula, drawn):
    sample, weights = drawn
    H = reference.centering(len(sample), weights)
    np.testing.assert_allclose(
        Centered(kernel, sample, weights)(sample), H @ formula(sample, sample) @ H.T, rtol=0, atol=1e-7
    )


@every_kernel
@few
@given(drawn=samples())
def test_the_weighted_rows_of_the_sample_sum_to_zero(kernel, formula, drawn):
    sample, weights = drawn
    centred = Centered(kernel, sample, weights)
    w = shares(sample, weights)
    np.testing.assert_allclose(w @ centred(sample, other_rows(1, n=5)), 0.0, atol=1e-9)
    np.testing.assert_allclose(w @ centred(sample), 0.0, atol=1e-7)


@every_kernel
@few
@given(drawn=samples())
def test_centring_twice_on_the_same_sample_is_centring_once(kernel, formula, drawn):
    sample, weights = drawn
    once = Centered(kernel, sample, weights)
    twice = Centered(once, sample, weights)
    X = other_rows(1, n=5)
    np.testing.assert_allclose(twice(X, sample), once(X, sample), atol=1e-9)
    np.testing.assert_allclose(twice.diag(X), once.diag(X), atol=1e-9)


@every_kernel
@few
@given(drawn=samples())
def test_eigenvalues_interlace_those_of_the_kernel(kernel, formula, drawn):
    # (2.1) of Wang (2018) for the operators on L²(w), that is the matrices √w_i K(u_i, u_j) √w_j.
    sample, weights = drawn
    root = np.sqrt(shares(sample, weights))
    plain, centred = (
        np.linalg.eigvalsh(root[:, None] * K * root)[::-1]
        for K in (kernel(sample), Centered(kernel, sample, weights)(sample))
    )
    slack = 1e-7 * max(1.0, plain[0])
    assert np.all(plain >= centred - slack)
    assert np.all(centred[:-1] >= plain[1:] - slack)
    assert centred[-1] == pytest.approx(0.0, abs=slack)  # the constant


@every_kernel
@few
@given(drawn=samples(), seed=st.integers(0, 2**32 - 1))
def test_whole_weights_equal_repeated_rows_of_the_sample(kernel, formula, drawn, seed):
    sample, _ = drawn
    times = np.random.default_rng(seed).integers(0, 4, len(sample))
    times[0] += 1
    X = other_rows(1, n=5)
    weighted, repeated = Centered(kernel, sample, times), Centered(kernel, np.repeat(sample, times, axis=0))
    np.testing.assert_allclose(weighted(X, sample), repeated(X, sample), atol=1e-9)
    np.testing.assert_allclose(weighted.diag(X), repeated.diag(X), atol=1e-9)


@few
@given(drawn=samples(), scale=st.floats(1e-3, 1e3))
def test_only_the_ratios_of_the_weights_matter(drawn, scale):
    sample, weights = drawn
    weights = np.ones(len(sample)) if weights is None else weights
    X = other_rows(1, n=5)
    np.testing.assert_allclose(
        Centered(Gaussian(1.0), sample, scale * weights)(X), Centered(Gaussian(1.0), sample, weights)(X), atol=1e-12
    )


@every_kernel
@few
@given(drawn=samples())
def test_diag_is_the_diagonal_and_kappa_is_never_exceeded(kernel, formula, drawn):
    sample, weights = drawn
    centred = Centered(kernel, sample, weights)
    X = np.vstack([other_rows(1, n=8), sample])
    diag = centred.diag(X)
    np.testing.assert_allclose(diag, np.diagonal(centred(X)), atol=1e-9)
    np.testing.assert_allclose(diag, np.diagonal(centred.block(X, X)), atol=1e-6)
    assert np.min(diag) >= -1e-9
    assert math.sqrt(max(0.0, np.max(diag))) <= centred.kappa(X)
    assert centred.kappa(X) <= centred.kappa()


def test_the_bound_on_kappa_is_two_kappa_or_the_root_of_two_where_the_kernel_is_never_negative():
    sample = other_rows(1, n=6)
    assert Centered(Gaussian(1.0), sample).kappa() == pytest.approx(math.sqrt(2))
    assert Centered(4.0 * Gaussian(1.0), sample).kappa() == pytest.approx(2 * math.sqrt(2))
    assert Centered(as_kernel("cosine"), sample).kappa() == 2.0
    assert Centered(Linear(), sample).kappa() == math.inf
    assert Centered(Linear(), sample).kappa(sample / 2) == pytest.approx(2 * np.max(sample))


def test_the_bound_on_kappa_cannot_be_lowered():
    far = np.array([[0.0], [1e3]])  # K(x, u) = 0 and one point of the sample has all the weight: K̂(x, x) = 2
    centred = Centered(Gaussian(1.0), far, np.array([1.0, 0.0]))
    assert math.sqrt(centred.diag(far)[1]) == pytest.approx(centred.kappa())
    opposite = np.array([[-1.0], [1.0]])  # K(x, u) = -κ²: K̂(x, x) = 4κ²
    centred = Centered(Linear(), opposite, np.array([1.0, 0.0]))
    assert math.sqrt(centred.diag(opposite)[1]) == pytest.approx(centred.kappa(opposite))


@few
@given(drawn=samples(), constant=st.floats(0.1, 100.0))
def test_adding_a_constant_to_the_kernel_changes_nothing(drawn, constant):
    sample, weights = drawn
    X = other_rows(1, n=5)
    raised = Gaussian(0.7) + as_kernel(gp.ConstantKernel(constant))
    np.testing.assert_allclose(
        Centered(raised, sample, weights)(X, sample), Centered(Gaussian(0.7), sample, weights)(X, sample), atol=1e-11
    )


@few
@given(drawn=samples())
def test_the_centred_linear_kernel_is_linear_in_centred_rows(drawn):
    sample, weights = drawn
    X, mean = other_rows(1, n=5), shares(sample, weights) @ sample
    np.testing.assert_allclose(
        Centered(Linear(), sample, weights)(X, sample), (X - mean) @ (sample - mean).T, atol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_of_the_rows_is_kept_whatever_that_of_the_sample(dtype):
    centred = Centered(Gaussian(1.0), other_rows(1, n=6), np.arange(1.0, 7.0))
    X = other_rows(1, n=5).astype(dtype)
    assert centred(X).dtype == centred.block(X, X).dtype == centred.diag(X).dtype == dtype
    np.testing.assert_allclose(centred(X), centred(X.astype(float)), atol=1e-6)


def test_a_large_matrix_cut_into_blocks_equals_one_block():
    X = other_rows(1, n=1500)
    centred = Centered(Gaussian(1.0), other_rows(1, n=20))
    np.testing.assert_allclose(centred(X), centred.block(X, X), atol=1e-12)


def test_weights_may_be_a_list():
    sample, X = other_rows(1, n=3), other_rows(2, n=5)
    np.testing.assert_array_equal(
        Centered(Gaussian(1.0), sample, [1, 2, 3])(X), Centered(Gaussian(1.0), sample, np.array([1.0, 2.0, 3.0]))(X)
    )


@pytest.mark.parametrize(
    "weights",
    [
        np.ones(3),
        np.ones((4, 1)),
        np.array(1.0),
        np.zeros(4),
        np.array([1.0, -1.0, 1.0, 1.0]),
        np.array([1.0, math.nan, 1.0, 1.0]),
        np.array([1.0, math.inf, 1.0, 1.0]),
        np.array(["a", "b", "c", "d"]),
    ],
    ids=repr,
)
def test_bad_weights_are_refused_in_one_sentence(weights):
    X = other_rows(1, n=4)
    centred = Centered(Gaussian(1.0), X, weights)
    for use in (lambda: centred(X), lambda: centred.block(X, X), lambda: centred.diag(X)):
        with pytest.raises(ValueError, match="weights must be 4 non-negative numbers, one per row of sample"):
            use()


def test_arguments_are_left_as_they_were():
    sample, weights, X = other_rows(1, n=4), np.arange(1.0, 5.0), other_rows(2, n=3)
    before = sample.copy(), weights.copy(), X.copy()
    centred = Centered(Gaussian(1.0), sample, weights)
    centred(X, sample)
    centred(X)
    centred.diag(X)
    for now, then in zip((sample, weights, X), before):
        np.testing.assert_array_equal(now, then)


def test_it_is_a_kernel_like_any_other():
    sample, X = other_rows(1, n=6), other_rows(2, n=5)
    centred = Centered(Gaussian("median"), sample, np.arange(1.0, 7.0))
    assert isinstance(centred, kernels.Kernel)
    assert clone(centred) == centred
    assert centred != Centered(Gaussian("median"), sample)
    assert centred.resolve(sample) == Centered(Gaussian("median").resolve(sample), sample, np.arange(1.0, 7.0))
    resolved = centred.resolve(sample)
    np.testing.assert_allclose((2.0 * resolved + Linear())(X), 2 * resolved(X) + X @ X.T, atol=1e-12)


def test_it_answers_as_the_kernel_inside_does():
    sample = other_rows(1, n=4)
    sigmoid = as_kernel("sigmoid")
    assert Centered(Gaussian(1.0), sample).positive_definite
    assert not Centered(sigmoid, sample).positive_definite
    assert not Centered(Gaussian(1.0), sample).by_columns  # every column would cost the mean anew
    assert not Centered(Gaussian(1.0), sample).nonnegative
