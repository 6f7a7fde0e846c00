"""A kernel is its formula, whatever the shape, the precision, the blocks, the threads or the way it was built.

Tests `kernels/adapters.py` and `kernels/pointwise.py`.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    laplacian_kernel,
    pairwise_kernels,
    polynomial_kernel,
    rbf_kernel,
)
from threadpoolctl import threadpool_limits

from tests import reference
from tests.cases.kernels import (
    BOUNDED,
    DTYPES,
    GAUSSIAN_PROCESS,
    OTHERS,
    SEEDS,
    SIZES,
    STATIONARY,
    UNBOUNDED,
    assert_close,
    cases,
    few,
    name_of,
)
from tests.made_up import points
from unpooled import kernels
from unpooled._base import threads
from unpooled.kernels import (
    Brownian,
    FromFunction,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Pairwise,
    Polynomial,
    Precomputed,
    as_kernel,
)

# Values


@cases(STATIONARY)
@few
@given(seed=SEEDS, n=SIZES, m=SIZES, d=st.integers(1, 5), dtype=DTYPES, vector=st.booleans())
def test_stationary_kernel_equals_its_formula_on_every_pair(case, seed, n, m, d, dtype, vector):
    make, formula = case
    X, Z = points(seed, n, d, dtype), points(seed + 1, m, d, dtype)
    length_scale = np.random.default_rng(seed).uniform(0.5, 3.0, size=d if vector else None)
    K = make(length_scale)(X, Z)
    assert K.shape == (n, m)
    assert K.dtype == dtype
    assert_close(K, formula(X.astype(float), Z.astype(float), length_scale), dtype)


@cases(OTHERS)
@few
@given(seed=SEEDS, n=SIZES, m=SIZES, d=st.integers(1, 5), dtype=DTYPES)
def test_kernel_equals_its_formula_on_every_pair(case, seed, n, m, d, dtype):
    kernel, formula = case
    X, Z = points(seed, n, d, dtype), points(seed + 1, m, d, dtype)
    K = kernel(X, Z)
    assert K.shape == (n, m)
    assert K.dtype == dtype
    assert_close(K, formula(X.astype(float), Z.astype(float)), dtype)


@few
@given(seed=SEEDS, n=SIZES, m=SIZES, dtype=DTYPES)
def test_brownian_is_one_plus_the_smaller_coordinate(seed, n, m, dtype):
    X, Z = abs(points(seed, n, 1, dtype)), abs(points(seed + 1, m, 1, dtype))
    K = Brownian()(X, Z)
    assert K.dtype == dtype
    assert_close(K, reference.brownian(X, Z), dtype)


def test_brownian_refuses_negative_numbers_and_several_features():
    with pytest.raises(ValueError, match="^X must not be negative"):
        Brownian()(np.array([[-0.1], [0.5]]))
    with pytest.raises(ValueError, match="^X must have one feature for the kernel Brownian, but it has 2"):
        Brownian()(np.ones((3, 2)))


def test_a_matrix_of_kernel_values_is_symmetric_and_has_the_exact_diagonal():
    X = np.vstack([points(0, 60, 3), points(0, 20, 3)])  # with repeated rows
    for kernel in (Gaussian(0.5), Laplacian(0.5), Matern(0.5), Polynomial(), Linear(), Gaussian(1.0) + Linear()):
        K = kernel(X)
        np.testing.assert_allclose(K, K.T, rtol=1e-7, atol=1e-7)
        np.testing.assert_array_equal(np.diagonal(K), kernel.diag(X))


@cases(STATIONARY)
def test_repeated_rows_have_kernel_value_one(case):
    X = points(0, 50, 4)
    K = case[0](0.7)(X, X.copy())
    np.testing.assert_allclose(np.diagonal(K), 1.0, rtol=0, atol=1e-7)


@cases({**{name: make(0.7) for name, (make, _) in STATIONARY.items()}, **{name: k for name, (k, _) in OTHERS.items()}})
def test_arguments_are_left_as_they_were(case):
    X, Z = points(0, 5, 3), points(1, 4, 3)
    X_before, Z_before = X.copy(), Z.copy()
    case(X, Z)
    case(X)
    case.diag(X)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(Z, Z_before)


# Blocks and threads


@few
@given(n=st.integers(0, 10**6), m=st.integers(0, 10**7))
def test_row_blocks_cover_every_row_once_and_in_order(n, m):
    blocks = threads.cut_row_blocks(n, m)
    edges = [0, *(block.stop for block in blocks)]
    assert edges[-1] == n
    assert [block.start for block in blocks] == edges[:-1]
    assert all((b.stop - b.start) * m <= threads.BLOCK_ELEMENTS or b.stop - b.start == 1 for b in blocks)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_in_one_block_reaches_the_caller(n_threads):
    def work(rows):
        if rows.start == 2:
            raise ArithmeticError("in the third block")

    with threadpool_limits(n_threads), pytest.raises(ArithmeticError, match="in the third block"):
        threads.for_each(work, [slice(i, i + 1) for i in range(5)])


@cases({"gaussian": Gaussian(0.7), "sum": 2.0 * Laplacian(1.0) + Linear() * Matern(1.0), "polynomial": Polynomial()})
@few
@given(seed=SEEDS, cut=st.integers(0, 9))
def test_blocks_stacked_equal_the_whole_matrix(case, seed, cut):
    X, Z = points(seed, 9, 3), points(seed + 1, 7, 3)
    stacked = np.vstack([case.block(X[:cut], Z), case.block(X[cut:], Z)])
    np.testing.assert_allclose(stacked, case(X, Z), rtol=1e-9, atol=1e-9)


LARGE = 1500
assert LARGE**2 > 2 * threads.BLOCK_ELEMENTS


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kernel",
    [Gaussian(0.7), 2.0 * Laplacian(1.0) + Linear(), Pairwise("laplacian"), as_kernel(gp.DotProduct())],
    ids=name_of,
)
def test_a_large_matrix_cut_into_blocks_equals_one_block(kernel, dtype, n_threads):
    X, Z = points(0, LARGE, 3, dtype), points(1, LARGE, 3, dtype)
    with threadpool_limits(n_threads):
        K = kernel(X, Z)
    assert K.dtype == dtype
    assert_close(K, kernel.block(X, Z), dtype)


def test_a_large_symmetric_matrix_has_the_exact_diagonal():
    X = points(0, LARGE, 3)
    for kernel in (Laplacian(1.0), as_kernel(gp.RBF() + gp.WhiteKernel(0.5))):
        np.testing.assert_array_equal(np.diagonal(kernel(X)), kernel.diag(X))


@pytest.mark.parametrize("n", [5, LARGE])
@pytest.mark.parametrize("kernel", [Gaussian(2.0), Matern(2.0), Linear(), Polynomial(2)], ids=name_of)
def test_whole_numbers_are_read_as_floats(kernel, n):
    X = np.random.default_rng(0).integers(0, 5, (n, 2))
    K = kernel(X)
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, kernel(X.astype(float)), rtol=1e-12)


# Diagonal, κ, positive semi-definiteness


@cases({**BOUNDED, **{f"unbounded {name}": (kernel, None) for name, kernel in UNBOUNDED.items()}})
@few
@given(seed=SEEDS, n=SIZES, dtype=DTYPES)
def test_diag_is_the_diagonal(case, seed, n, dtype):
    kernel = case[0]
    X = points(seed, n, 3, dtype)
    diag = kernel.diag(X)
    assert diag.dtype == dtype
    np.testing.assert_array_equal(diag, np.diagonal(kernel(X)))
    assert_close(diag, np.diagonal(kernel.block(X, X)), np.float32)  # a root near zero halves the digits


@cases(BOUNDED)
def test_kappa_of_a_bounded_kernel_is_exact_with_or_without_data(case):
    kernel, kappa = case
    X = points(0, 20, 3)
    assert kernel.kappa() == pytest.approx(kappa)
    assert kernel.kappa(X) == pytest.approx(kappa)
    assert math.sqrt(np.max(kernel.diag(X))) == pytest.approx(kappa)


@cases(UNBOUNDED)
@few
@given(seed=SEEDS, n=SIZES)
def test_kappa_of_an_unbounded_kernel_bounds_the_rows_given(case, seed, n):
    X = points(seed, n, 3)
    assert case.kappa() == math.inf
    assert math.sqrt(np.max(case.diag(X))) <= case.kappa(X) * (1 + 1e-12) < math.inf


@cases(
    {
        **{f"bounded {name}": kernel for name, (kernel, _) in BOUNDED.items()},
        **UNBOUNDED,
        # scikit-learn's periodic kernel is one in one dimension only
        **{f"gp {name}": as_kernel(kernel) for name, kernel in GAUSSIAN_PROCESS.items() if name != "periodic"},
    }
)
@settings(few, max_examples=10)
@given(seed=SEEDS)
def test_kernel_matrices_are_positive_semi_definite(case, seed):
    assert case.positive_definite or isinstance(case, FromFunction)  # of a function nobody knows
    X = np.vstack([points(seed, 15, 3), points(seed, 3, 3)])  # with repeated rows: singular matrices
    K = case(X)
    assert np.linalg.eigvalsh((K + K.T) / 2)[0] >= -1e-7 * np.trace(K)


def test_kernels_that_are_not_positive_definite_say_so():
    assert not Pairwise("sigmoid").positive_definite
    assert not (Gaussian(1.0) + Pairwise("sigmoid")).positive_definite
    assert not (2.0 * Pairwise("sigmoid")).positive_definite


def test_kernels_that_are_never_negative_say_so():
    X = points(0, 30, 3)
    for kernel in (
        Gaussian(1.0),
        Laplacian(1.0),
        Matern(1.0),
        Gaussian(1.0) * Laplacian(1.0),
        2.0 * Gaussian(1.0) + Matern(1.0),
    ):
        assert kernel.nonnegative
        assert np.min(kernel(X)) >= 0
    assert not Linear().nonnegative
    assert not (Gaussian(1.0) + Linear()).nonnegative


# Twins in scikit-learn

SCIKIT_LEARNS = [as_kernel(name) for name in ("rbf", "chi2", "additive_chi2", "sigmoid", "cosine", "poly")]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [*SCIKIT_LEARNS, *map(Pairwise, PAIRWISE_KERNEL_FUNCTIONS)], ids=repr)
def test_a_kernel_of_scikit_learn_keeps_its_values_and_defaults(kernel, dtype):
    name = kernel.metric if isinstance(kernel, Pairwise) else type(kernel).__name__.lower()
    X, Z = abs(points(0, 8, 3, dtype)), abs(points(1, 6, 3, dtype))
    K = kernel(X, Z)
    assert K.dtype == dtype
    assert kernel(X).dtype == dtype
    assert_close(K, pairwise_kernels(X.astype(float), Z.astype(float), metric=name), dtype)
    assert_close(kernel.diag(X), np.diagonal(pairwise_kernels(X.astype(float), metric=name)), dtype)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "chi2", "polynomial", "sigmoid"])
def test_gamma_of_a_named_kernel_is_scikit_learns_gamma(name):
    X, Z = abs(points(0, 8, 3)), abs(points(1, 6, 3))
    expected = pairwise_kernels(X, Z, metric=name, gamma=0.4)
    np.testing.assert_allclose(Pairwise(name, gamma=0.4)(X, Z), expected, rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan])
def test_a_named_kernel_refuses_a_gamma_that_is_not_positive(gamma):
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        Pairwise("rbf", gamma=gamma)(points(0, 4, 2))


@few
@given(seed=SEEDS, length_scale=st.floats(0.3, 5.0))
def test_kernels_agree_with_their_scikit_learn_twins(seed, length_scale):
    X, Z = points(seed, 7, 3), points(seed + 1, 5, 3)
    twins = [
        (Gaussian(length_scale), rbf_kernel(X, Z, gamma=1 / (2 * length_scale**2))),
        (Gaussian(length_scale), gp.RBF(length_scale)(X, Z)),
        (Laplacian(length_scale), gp.Matern(length_scale, nu=0.5)(X, Z)),
        *((Matern(length_scale, nu), gp.Matern(length_scale, nu=nu)(X, Z)) for nu in (0.5, 1.5, 2.5)),
        (Polynomial(3, length_scale, 0.5), polynomial_kernel(X, Z, degree=3, gamma=length_scale, coef0=0.5)),
        (Polynomial(), polynomial_kernel(X, Z)),
    ]
    for kernel, expected in twins:
        np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cls", [Gaussian, Laplacian, Matern, Linear, Polynomial, Brownian])
def test_the_name_of_a_kernel_of_ours_is_that_kernel_with_its_defaults(cls):
    assert as_kernel(cls.__name__.lower()) == cls()


def test_scikit_learns_laplacian_takes_the_manhattan_norm_and_is_no_name_of_ours():
    X = points(0, 6, 3)
    np.testing.assert_allclose(Pairwise("laplacian")(X), laplacian_kernel(X), rtol=1e-12)
    assert np.max(np.abs(Pairwise("laplacian")(X) - Laplacian(3.0)(X))) > 0.01


@cases(GAUSSIAN_PROCESS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gaussian_process_kernel_keeps_its_values(case, dtype):
    X, Z = points(0, 9, 3, dtype), points(1, 6, 3, dtype)
    kernel = as_kernel(case)
    assert kernel(X).dtype == kernel(X, Z).dtype == kernel.diag(X).dtype == dtype
    assert_close(kernel(X), case(X.astype(float)), dtype)
    assert_close(kernel(X, Z), case(X.astype(float), Z.astype(float)), dtype)
    assert_close(kernel.diag(X), case.diag(X.astype(float)), dtype)


def test_white_noise_is_on_the_diagonal_and_in_no_column():
    kernel = as_kernel(gp.RBF() + gp.WhiteKernel(0.5))
    X = points(0, 5, 2)
    np.testing.assert_allclose(kernel(X) - kernel(X, X), 0.5 * np.eye(5), atol=1e-12)
    assert not kernel.by_columns


# Functions and matrices as kernels


@few
@given(seed=SEEDS, n=st.integers(1, 5), m=st.integers(1, 5), d=st.integers(1, 5))
def test_a_function_of_rows_is_told_from_a_function_of_matrices_whatever_the_shape(seed, n, m, d):
    X, Z = points(seed, n, d), points(seed + 1, m, d)
    of_rows = [np.dot, lambda x, z: x @ z, lambda x, z: np.sum(x * z), lambda x, z: np.inner(x, z)]
    of_matrices = [lambda X, Z: X @ Z.T, lambda X, Z: pairwise_kernels(X, Z, metric="linear")]
    for function in (*of_rows, *of_matrices):
        np.testing.assert_allclose(FromFunction(function)(X, Z), X @ Z.T, atol=1e-12)


def test_a_function_of_doubles_leaves_single_precision_single():
    X = points(0, 5, 3, np.float32)
    assert FromFunction(lambda X, Z: X.astype(float) @ Z.astype(float).T)(X).dtype == np.float32


def test_an_array_that_a_function_keeps_is_never_overwritten():
    X = points(0, 4, 2)
    kept = {}

    def remember(X, Z):
        return kept.setdefault((X.tobytes(), Z.tobytes()), X @ Z.T)

    (3.0 * FromFunction(remember))(X)
    np.testing.assert_allclose(remember(X, X), X @ X.T, atol=1e-12)


def test_a_precomputed_kernel_returns_a_fresh_copy_of_the_matrix():
    X = points(0, 6, 2)
    K = X @ X.T
    kernel = Precomputed()
    out = kernel(K)
    np.testing.assert_array_equal(out, K)
    assert not np.shares_memory(out, K)
    np.testing.assert_array_equal(kernel.diag(K), np.diagonal(K))
    assert kernel.kappa(K) == pytest.approx(math.sqrt(np.max(np.diagonal(K))))
    np.testing.assert_array_equal(kernel.block(K[:2], kernel.anchors(K)), K[:2])


def test_a_precomputed_kernel_refuses_a_wrong_number_of_columns():
    with pytest.raises(ValueError, match="one column per training row: expected 6, got 5"):
        Precomputed().block(np.ones((2, 5)), np.ones((6, 0)))


def test_what_is_no_kernel_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"'rfb' is not known: use one of .*rbf"):
        as_kernel("rfb")
    with pytest.raises(ValueError, match=r"not the class Gaussian: write Gaussian\(\)"):
        as_kernel(Gaussian)
    with pytest.raises(ValueError, match=r"kernel must be a Kernel.*got 3"):
        as_kernel(3)
    with pytest.raises(TypeError, match=r"must define block\(X, Z\)"):
        kernels.Kernel()(np.ones((2, 2)))


def test_every_way_to_name_a_kernel_gives_a_kernel():
    given_kernel = Matern(1.0)
    assert as_kernel(given_kernel) is given_kernel
    assert as_kernel(None) == Gaussian("median")
    assert as_kernel("precomputed") == Precomputed()
    assert as_kernel("linear") == Linear()
    assert as_kernel("poly") == as_kernel("polynomial") == Polynomial()
    assert as_kernel(gp.RBF(2.0)) == Gaussian(2.0)
    assert as_kernel(gp.Matern(2.0, nu=2.5)) == Matern(2.0, 2.5)


# Large offsets and far rows


@cases(STATIONARY)
@pytest.mark.parametrize(("dtype", "offset", "tolerance"), [(np.float64, 1e6, 1e-11), (np.float32, 1e3, 1e-5)])
@pytest.mark.parametrize("length_scale", [1.0, 0.3, np.array([0.3, 0.7, 1.1])], ids=["one", "scalar", "vector"])
def test_a_large_offset_costs_no_digits(case, length_scale, dtype, offset, tolerance):
    make, formula = case
    X, Z = ((points(seed, 12, 3) + offset).astype(dtype) for seed in (0, 1))  # differences of these are exact
    expected = formula(X.astype(float) - offset, Z.astype(float) - offset, length_scale)
    np.testing.assert_allclose(make(length_scale)(X, Z), expected, rtol=0, atol=tolerance)


@cases(STATIONARY)
def test_one_far_row_costs_the_others_no_digits(case):
    make, formula = case
    near = points(0, 20, 3)
    X = np.vstack([near, np.full((1, 3), 1e6)])
    np.testing.assert_allclose(make(1.0)(X)[:-1, :-1], formula(near, near, 1.0), rtol=0, atol=1e-7)


@cases(STATIONARY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_far_apart_have_kernel_value_zero(case, dtype):
    K = case[0](1e-4)(points(0, 6, 3, dtype))
    np.testing.assert_array_equal(K, np.eye(6))
