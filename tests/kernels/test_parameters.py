"""Kernels as objects: their algebra, parameters, random frequencies, length scales, and descriptions in files."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from tests import reference
from tests.cases.kernels import (
    GAUSSIAN_PROCESS,
    SEEDS,
    cases,
    few,
    name_of,
)
from tests.made_up import points
from unpooled import SpectralRegressor, kernels
from unpooled.kernels import (
    Brownian,
    Centered,
    FromFunction,
    Gaussian,
    GaussianProcessKernel,
    Laplacian,
    Linear,
    Matern,
    Pairwise,
    Polynomial,
    Precomputed,
    Product,
    Scaled,
    Sum,
    as_kernel,
    sample_frequencies,
)
from unpooled.kernels.specs import from_spec, to_spec
from unpooled.kernels.stationary import MEDIAN_ROWS, median_distance

# Algebra, equality, scikit-learn's parameters


@few
@given(seed=SEEDS, s=st.floats(0.01, 100))
def test_the_algebra_of_kernels_is_the_algebra_of_their_matrices(seed, s):
    X, Z = points(seed, 5, 2), points(seed + 1, 4, 2)
    a, b = Gaussian(0.7), Polynomial(2)
    np.testing.assert_allclose((a + b)(X, Z), a(X, Z) + b(X, Z), rtol=1e-12)
    np.testing.assert_allclose((a * b)(X, Z), a(X, Z) * b(X, Z), rtol=1e-12)
    np.testing.assert_allclose((s * a)(X, Z), s * a(X, Z), rtol=1e-12)
    np.testing.assert_allclose((s * (a + b) * a)(X), s * (a(X) + b(X)) * a(X), rtol=1e-12)
    assert s * a == a * s == np.float64(s) * a == Scaled(s, a)
    assert a + b == Sum(a, b)
    assert a * b == Product(a, b)


def test_what_cannot_be_added_or_multiplied_is_refused():
    k = Gaussian(1.0)
    for operation in (lambda: k + 1.0, lambda: k * "2", lambda: k * True):
        with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
            operation()


@pytest.mark.parametrize("cls", [Gaussian, Laplacian, Matern])
def test_the_median_distance_is_the_length_scale_of_a_kernel_that_is_given_none(cls):
    X = points(0, 30, 3)
    assert cls() == cls("median") == as_kernel(cls.__name__.lower())
    assert cls().resolve(X) == cls("median").resolve(X) == cls(median_distance(X))
    y = np.sin(X[:, 0])
    twin = SpectralRegressor(cls("median"), lam=0.1).fit(X, y).predict(X)
    np.testing.assert_array_equal(SpectralRegressor(cls(), lam=0.1).fit(X, y).predict(X), twin)


@pytest.mark.parametrize("make", [lambda k: k, lambda k: 2.0 * k + Linear(), lambda k: Centered(k, np.ones((3, 2)))])
def test_a_kernel_by_itself_has_no_values_until_its_length_scale_is_a_number(make):
    X = points(0, 6, 2)
    for use in (lambda k: k(X), lambda k: k.block(X, X)):
        with pytest.raises(ValueError, match="^length_scale='median' needs rows from which to take"):
            use(make(Gaussian()))
    assert make(Gaussian()).resolve(X)(X).shape == (6, 6)


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(),
        Matern(),
        Matern(0.3, 2.5),
        Laplacian("auto"),
        Gaussian(np.array([0.1, 2.0])),
        Matern(np.float64(0.1)),
        Polynomial(2, gamma=0.3),
        Pairwise("chi2"),
        2.5 * Gaussian() + Linear() * Brownian(),
    ],
    ids=name_of,
)
def test_the_text_of_a_kernel_makes_an_equal_kernel(kernel):
    assert eval(repr(kernel), vars(kernels)) == kernel
    assert repr(kernel) in repr(SpectralRegressor(kernel)).replace("\n", " ")


def test_the_text_of_a_kernel_shows_its_length_scale_where_it_is_the_default_too():
    assert repr(Matern()) == "Matern(length_scale='median', nu=1.5)"
    assert "<array of shape (50, 2)>" in repr(Centered(Gaussian(), np.ones((50, 2))))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, "2", None])
def test_a_scale_that_is_not_positive_is_refused(scale):
    for use in (lambda k: k(np.ones((2, 1))), lambda k: k.diag(np.ones((2, 1))), lambda k: k.kappa()):
        with pytest.raises(ValueError, match="^scale must be a positive number that multiplies the kernel, got"):
            use(Scaled(scale, Gaussian(1.0)))


DISTINCT = [
    Gaussian(1.0),
    Gaussian(2.0),
    Gaussian([1.0, 2.0]),
    Gaussian([2.0, 1.0]),
    Gaussian("median"),
    Laplacian(1.0),
    Matern(1.0, nu=0.5),
    Matern(1.0),
    Polynomial(),
    Polynomial(gamma=1.0),
    Linear(),
    Brownian(),
    Precomputed(),
    Pairwise("laplacian"),
    Pairwise("laplacian", gamma=1.0),
    Pairwise("chi2"),
    Gaussian(1.0) + Linear(),
    Linear() + Gaussian(1.0),
    Gaussian(1.0) * Linear(),
    2.0 * Gaussian(1.0),
    3.0 * Gaussian(1.0),
    2.0 * (Matern(1.0) + 3.0 * Laplacian("median")),
    GaussianProcessKernel(gp.RationalQuadratic()),
    GaussianProcessKernel(gp.RationalQuadratic(alpha=2.0)),
    GaussianProcessKernel(gp.ExpSineSquared()),
]


def test_kernels_are_equal_where_class_and_parameters_are():
    for i, a in enumerate(DISTINCT):
        for j, b in enumerate(DISTINCT):
            assert (a == b) == (i == j)
            assert (a != b) == (i != j)
    assert Gaussian(np.array([1.0, 2.0])) == Gaussian([1.0, 2.0])
    assert Gaussian(1.0) != "Gaussian"
    assert Gaussian(1.0) != None  # noqa: E711


@pytest.mark.parametrize("kernel", [*DISTINCT, FromFunction(np.dot)], ids=name_of)
def test_clone_gives_an_equal_kernel_with_parameters_of_its_own(kernel):
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    for name, value in kernel.get_params(deep=True).items():
        if isinstance(value, kernels.Kernel):
            assert copy.get_params()[name] is not value


def test_nested_parameters_have_scikit_learns_names():
    kernel = 2.0 * (Gaussian(0.5) + Matern(0.7, 2.5))
    params = kernel.get_params()
    assert params["scale"] == 2.0
    assert params["kernel__left__length_scale"] == 0.5
    assert params["kernel__right__nu"] == 2.5
    kernel.set_params(scale=3.0, kernel__left__length_scale=0.9, kernel__right__nu=1.5)
    assert kernel == 3.0 * (Gaussian(0.9) + Matern(0.7, 1.5))
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        Gaussian(1.0).set_params(width=1.0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Polynomial(degree=0), "degree must be a whole number"),
        (Polynomial(degree=1.5), "degree must be a whole number"),
        (Polynomial(gamma=0.0), "gamma must be a positive number or None"),
        (Polynomial(gamma=math.nan), "gamma must be a positive number or None"),
        (Polynomial(gamma=math.inf), "gamma must be a positive number or None"),
        (Polynomial(gamma="scale"), "gamma must be a positive number or None"),
        (Polynomial(coef0=-1.0), "coef0 must be a number of at least 0"),
        (Polynomial(coef0=math.nan), "coef0 must be a number of at least 0"),
        (Matern(1.0, nu=1.0), "nu must be 0.5, 1.5 or 2.5, got 1.0"),
        (Matern(1.0, nu="1.5"), "nu must be 0.5, 1.5 or 2.5, got '1.5'"),
    ],
    ids=name_of,
)
def test_a_bad_parameter_is_named_in_the_error(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(np.ones((2, 2)))


def test_a_degree_may_come_from_a_numpy_grid():
    X = points(0, 4, 2)
    for degree in np.arange(1, 4):
        np.testing.assert_allclose(Polynomial(degree)(X), Polynomial(int(degree))(X))


# Random frequencies


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(0.7),
        Gaussian([0.5, 2.0]),
        Laplacian(1.3),
        Matern(0.8, 0.5),
        Matern(0.8, 1.5),
        Matern([0.5, 2.0], 2.5),
        Gaussian(0.7) + 3.0 * Laplacian(2.0),
        Gaussian(0.7) * Matern(1.5),
        2.5 * Gaussian(0.7),
        (2.0 * Gaussian(0.7) + Matern(1.0)) * (0.5 * Laplacian(1.0)),
    ],
    ids=name_of,
)
def test_the_mean_cosine_over_random_frequencies_is_the_kernel(kernel):
    n = 100_000
    w = sample_frequencies(kernel, n, 2, np.random.default_rng(0))
    assert w.shape == (n, 2)
    differences = points(1, 12, 2)
    cosines = kernel.kappa() ** 2 * np.cos(w @ differences.T)
    standard_error = cosines.std(axis=0) / math.sqrt(n)
    gap = cosines.mean(axis=0) - kernel(differences, np.zeros((1, 2)))[:, 0]
    assert np.max(np.abs(gap) / standard_error) < 4.5


@pytest.mark.parametrize(
    "kernel",
    [
        Linear(),
        Polynomial(),
        Brownian(),
        Precomputed(),
        FromFunction(np.dot),
        Gaussian(1.0) + Linear(),
        Linear() + Gaussian(1.0),
        Gaussian(1.0) * Polynomial(),
        2.0 * Linear(),
        Centered(Gaussian(1.0), np.ones((3, 2))),
    ],
    ids=name_of,
)
def test_a_kernel_that_is_not_stationary_has_no_frequencies(kernel):
    with pytest.raises(ValueError, match="is not stationary, so it has no random frequencies: use Gaussian"):
        sample_frequencies(kernel, 5, 2, np.random.default_rng(0))


def test_frequencies_of_an_unresolved_median_ask_for_data():
    with pytest.raises(
        ValueError, match=r"^length_scale='median' needs rows.* call kernel.resolve\(X\), or give the kernel"
    ):
        sample_frequencies(Gaussian("median"), 5, 2, np.random.default_rng(0))


# Length scales


@few
@given(seed=SEEDS, n=st.integers(2, 15), weighted=st.booleans(), offset=st.sampled_from([0.0, 1e6]))
def test_median_is_the_weighted_median_distance_of_distinct_rows(seed, n, weighted, offset):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 2)) * 0.37 + offset  # many ties and repeated rows
    weights = rng.uniform(0.1, 3.0, n) if weighted else None
    r, mass = reference.distances_and_masses(X, weights)
    median = Gaussian("median").resolve(X, weights).length_scale
    if len(r) == 0:
        assert median == 1.0
    else:
        slack = 1e-9 * mass.sum()
        assert mass[r < median * (1 - 1e-6)].sum() <= mass.sum() / 2 + slack
        assert mass[r > median * (1 + 1e-6)].sum() <= mass.sum() / 2 + slack


@few
@given(seed=SEEDS, n=st.integers(2, 10))
def test_whole_weights_give_the_median_of_repeated_rows(seed, n):
    rng = np.random.default_rng(seed)
    X, weights = rng.standard_normal((n, 3)), rng.integers(1, 5, n)
    repeated = Gaussian("median").resolve(np.repeat(X, weights, axis=0))
    weighted = Gaussian("median").resolve(X, weights)
    assert weighted.length_scale == pytest.approx(repeated.length_scale, rel=1e-9)


@pytest.mark.parametrize("X", [np.full((7, 3), 1e6 / 3), np.zeros((4, 1)), np.ones((1, 2))], ids=["far", "zero", "one"])
def test_rows_that_are_all_the_same_have_length_scale_one(X):
    assert Gaussian("median").resolve(X).length_scale == 1.0


def test_one_far_row_does_not_become_the_median():
    X = points(0, 30, 3)
    far = np.vstack([X, np.full((1, 3), 1e9)])
    assert Gaussian("median").resolve(far).length_scale == pytest.approx(
        Gaussian("median").resolve(X).length_scale, rel=0.2
    )


def test_the_median_of_many_rows_looks_at_rows_spread_over_all_of_them():
    X = np.repeat([[0.0], [1.0]], 2 * MEDIAN_ROWS, axis=0)
    assert Gaussian("median").resolve(X).length_scale == pytest.approx(1.0)


def test_resolve_fills_every_median_in_and_leaves_the_kernel_as_it_was():
    X = points(0, 20, 2)
    median = Gaussian("median").resolve(X).length_scale
    kernel = 2.0 * (Gaussian("median") + Matern("median", 2.5) * Laplacian("median")) + Linear()
    before = clone(kernel)
    expected = 2.0 * (Gaussian(median) + Matern(median, 2.5) * Laplacian(median)) + Linear()
    assert kernel.resolve(X) == expected
    assert kernel == before


def test_an_unresolved_median_asks_for_data():
    with pytest.raises(
        ValueError, match=r"^length_scale='median' needs rows.* call kernel.resolve\(X\), or give the kernel"
    ):
        Gaussian("median")(points(0, 3, 2))


@pytest.mark.parametrize("kernel_class", [Gaussian, Laplacian, Matern])
@pytest.mark.parametrize(
    "length_scale",
    [0.0, -1.0, math.nan, math.inf, [1.0, -1.0, 1.0], np.ones((1, 3)), "wide", "1.5", None, 1j],
    ids=name_of,
)
def test_a_bad_length_scale_is_refused_in_one_sentence(kernel_class, length_scale):
    X = points(0, 4, 3)
    kernel = kernel_class(length_scale)
    uses = [
        lambda: kernel(X),
        lambda: kernel.resolve(X),
        lambda: sample_frequencies(kernel, 2, 3, np.random.default_rng(0)),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=r"length_scale must be a positive number.* or 'median', got"):
            use()


def test_a_length_scale_vector_of_the_wrong_length_is_refused():
    kernel = Gaussian([1.0, 2.0])
    X = points(0, 4, 3)
    uses = [
        lambda: kernel(X),
        lambda: kernel.resolve(X),
        lambda: sample_frequencies(kernel, 2, 3, np.random.default_rng(0)),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="length_scale has 2 numbers and X has 3 features"):
            use()


# Descriptions in files


def convert_through_json(kernel):
    return from_spec(json.loads(json.dumps(to_spec(kernel), allow_nan=False)))


@pytest.mark.parametrize("kernel", DISTINCT, ids=name_of)
def test_a_kernel_survives_the_way_through_json(kernel):
    restored = convert_through_json(kernel)
    assert type(restored) is type(kernel)
    assert restored == kernel


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(np.float32(0.5)), Gaussian(np.array([1, 2])), np.float32(2.0) * Linear(), Polynomial(np.int64(2))],
    ids=name_of,
)
def test_numpy_numbers_are_written_as_plain_numbers(kernel):
    assert convert_through_json(kernel) == kernel


@cases(GAUSSIAN_PROCESS)
def test_a_gaussian_process_kernel_survives_json_or_is_refused_by_name(case):
    X = points(0, 5, 3)
    kernel = as_kernel(case)
    if isinstance(case, gp.Exponentiation):
        with pytest.raises(ValueError, match="scikit-learn's kernel Exponentiation cannot be saved"):
            to_spec(kernel)
    else:
        np.testing.assert_array_equal(convert_through_json(kernel)(X), kernel(X))


@pytest.mark.parametrize(
    "kernel", [FromFunction(np.dot), 2.0 * FromFunction(np.dot), Linear() + FromFunction(np.dot)], ids=name_of
)
def test_a_function_cannot_be_saved(kernel):
    with pytest.raises(ValueError, match="the kernel FromFunction cannot be saved"):
        to_spec(kernel)


def test_a_kernel_of_the_users_own_cannot_be_saved_under_a_known_name():
    impostor = type("Gaussian", (Linear,), {})()
    with pytest.raises(ValueError, match="the kernel Gaussian cannot be saved"):
        to_spec(impostor)


def replace_in_spec(kernel, old, new):
    """The description of a kernel with one word changed."""
    text = json.dumps(to_spec(kernel))
    assert old in text
    return json.loads(text.replace(old, new))


@pytest.mark.parametrize(
    "spec",
    [
        None,
        3,
        "Gaussian",
        [],
        {},
        *(replace_in_spec(Linear(), '"Linear"', nothing) for nothing in ("null", "3", "[]", "{}")),
        replace_in_spec(Linear(), "Linear", "FromFunction"),
        replace_in_spec(Linear(), "Linear", "os.system"),
        replace_in_spec(Gaussian(1.0), "length_scale", "width"),
        replace_in_spec(Gaussian(1.0) + Linear(), "Linear", "Centered"),
        replace_in_spec(Gaussian(1.0) + Linear(), json.dumps(to_spec(Linear())), "1.0"),
        replace_in_spec(GaussianProcessKernel(gp.RationalQuadratic()), "RationalQuadratic", "CompoundKernel"),
        replace_in_spec(GaussianProcessKernel(gp.RationalQuadratic()), "alpha", "beta"),
    ],
    ids=name_of,
)
def test_a_description_of_no_kernel_is_refused(spec):
    with pytest.raises(
        ValueError, match=r"does not describe a kernel|not a kernel of scikit-learn that a file may name"
    ):
        from_spec(spec)
