"""A kernel is its formula, whatever the shape, the precision, the blocks, the threads or the way it was built."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    laplacian_kernel,
    pairwise_kernels,
    polynomial_kernel,
    rbf_kernel,
)
from threadpoolctl import threadpool_limits

import reference
from unpooled import kernels, threads
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
from unpooled.kernels.stationary import MEDIAN_ROWS


def named(value):
    """A test's name for a parameter: the same in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


few = settings(max_examples=30, deadline=None, derandomize=True)

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 12)
DTYPES = st.sampled_from([np.float32, np.float64])
TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}

# Each native kernel as (kernel of a length scale, the same in plain NumPy).
STATIONARY = {
    "gaussian": (Gaussian, reference.gaussian),
    "laplacian": (Laplacian, reference.laplacian),
    "matern 1/2": (lambda s: Matern(s, nu=0.5), lambda X, Z, s: reference.matern(X, Z, s, 0.5)),
    "matern 3/2": (lambda s: Matern(s, nu=1.5), lambda X, Z, s: reference.matern(X, Z, s, 1.5)),
    "matern 5/2": (lambda s: Matern(s, nu=2.5), lambda X, Z, s: reference.matern(X, Z, s, 2.5)),
}
OTHERS = {
    "linear": (Linear(), lambda X, Z: reference.polynomial(X, Z, 1, 1.0, 0.0)),
    "polynomial": (Polynomial(3, 0.5, 2.0), lambda X, Z: reference.polynomial(X, Z, 3, 0.5, 2.0)),
    "polynomial of degree 1": (Polynomial(1, 2.0, 0.0), lambda X, Z: reference.polynomial(X, Z, 1, 2.0, 0.0)),
    "polynomial of default gamma": (Polynomial(), lambda X, Z: reference.polynomial(X, Z, 3, 1 / X.shape[1], 1.0)),
    "sum": (Gaussian(0.7) + Linear(), lambda X, Z: reference.gaussian(X, Z, 0.7) + X @ Z.T),
    "product": (Laplacian(2.0) * Linear(), lambda X, Z: reference.laplacian(X, Z, 2.0) * (X @ Z.T)),
    "scaled": (2.5 * Matern(0.8), lambda X, Z: 2.5 * reference.matern(X, Z, 0.8)),
    "function of matrices": (FromFunction(lambda X, Z: (X @ Z.T) ** 2), lambda X, Z: (X @ Z.T) ** 2),
    "function of rows": (FromFunction(lambda x, z: float(np.dot(x, z)) ** 2), lambda X, Z: (X @ Z.T) ** 2),
}
BOUNDED = {  # kernel: κ
    "gaussian": (Gaussian(0.5), 1.0),
    "laplacian": (Laplacian(0.5), 1.0),
    "matern": (Matern(0.5, 2.5), 1.0),
    "scaled": (4.0 * Gaussian(), 2.0),
    "sum": (3.0 * Gaussian() + 6.0 * Laplacian(), 3.0),
    "product": ((4.0 * Gaussian()) * (9.0 * Matern()), 6.0),
    "rbf": (Pairwise("rbf"), 1.0),
    "manhattan laplacian": (Pairwise("laplacian"), 1.0),
    "cosine": (Pairwise("cosine"), 1.0),
}
UNBOUNDED = {
    "linear": Linear(),
    "polynomial": Polynomial(2, 0.5, 1.0),
    "sum": Gaussian() + Linear(),
    "product": Polynomial(2) * Linear(),
    "scaled": 3.0 * Linear(),
    "dot product of scikit-learn": as_kernel(gp.DotProduct()),
    "function": FromFunction(lambda X, Z: X @ Z.T),
}
GAUSSIAN_PROCESS = {
    "rbf": gp.RBF(0.7),
    "rbf of three scales": gp.RBF([0.7, 1.0, 2.0]),
    "rbf of one scale in a list": gp.RBF([0.7]),
    "matern 1/2": gp.Matern(0.7, nu=0.5),
    "matern 3/2": gp.Matern(0.7, nu=1.5),
    "matern 5/2": gp.Matern([0.7, 1.0, 2.0], nu=2.5),
    "matern of another order": gp.Matern(0.7, nu=0.8),
    "matern of infinite order": gp.Matern(0.7, nu=math.inf),
    "rational quadratic": gp.RationalQuadratic(0.7, 1.5),
    "periodic": gp.ExpSineSquared(1.0, 3.0),
    "dot product": gp.DotProduct(0.5),
    "constant times rbf": gp.ConstantKernel(2.5) * gp.RBF(0.7),
    "rbf times constant": gp.RBF(0.7) * gp.ConstantKernel(2.5),
    "constant": gp.ConstantKernel(2.5),
    "rbf plus white noise": gp.RBF(0.7) + gp.WhiteKernel(0.3),
    "product": gp.RBF(0.7) * gp.DotProduct(0.5),
    "power": gp.RBF(0.7) ** 2,
}


def points(seed, n, d, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def cases(table):
    return pytest.mark.parametrize("case", table.values(), ids=table.keys())


def assert_close(actual, expected, dtype=np.float64):
    """Within rounding of ``dtype``, on the scale of the largest value."""
    expected = np.asarray(expected)
    scale = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE[np.dtype(dtype)] * scale)


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
    with pytest.raises(ValueError, match="X ≥ 0"):
        Brownian()(np.array([[-0.1], [0.5]]))
    with pytest.raises(ValueError, match="one feature, X has 2"):
        Brownian()(np.ones((3, 2)))


def test_a_matrix_of_kernel_values_is_symmetric_and_has_the_exact_diagonal():
    X = np.vstack([points(0, 60, 3), points(0, 20, 3)])  # with repeated rows
    for kernel in (Gaussian(0.5), Laplacian(0.5), Matern(0.5), Polynomial(), Linear(), Gaussian() + Linear()):
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
    blocks = threads.row_blocks(n, m)
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


@cases({"gaussian": Gaussian(0.7), "sum": 2.0 * Laplacian() + Linear() * Matern(), "polynomial": Polynomial()})
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
    [Gaussian(0.7), 2.0 * Laplacian() + Linear(), Pairwise("laplacian"), as_kernel(gp.DotProduct())],
    ids=named,
)
def test_a_large_matrix_cut_into_blocks_equals_one_block(kernel, dtype, n_threads):
    X, Z = points(0, LARGE, 3, dtype), points(1, LARGE, 3, dtype)
    with threadpool_limits(n_threads):
        K = kernel(X, Z)
    assert K.dtype == dtype
    assert_close(K, kernel.block(X, Z), dtype)


def test_a_large_symmetric_matrix_has_the_exact_diagonal():
    X = points(0, LARGE, 3)
    for kernel in (Laplacian(), as_kernel(gp.RBF() + gp.WhiteKernel(0.5))):
        np.testing.assert_array_equal(np.diagonal(kernel(X)), kernel.diag(X))


@pytest.mark.parametrize("n", [5, LARGE])
@pytest.mark.parametrize("kernel", [Gaussian(2.0), Matern(2.0), Linear(), Polynomial(2)], ids=named)
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
    assert not (Gaussian() + Pairwise("sigmoid")).positive_definite
    assert not (2.0 * Pairwise("sigmoid")).positive_definite


def test_kernels_that_are_never_negative_say_so():
    X = points(0, 30, 3)
    for kernel in (Gaussian(), Laplacian(), Matern(), Gaussian() * Laplacian(), 2.0 * Gaussian() + Matern()):
        assert kernel.nonnegative
        assert np.min(kernel(X)) >= 0
    assert not Linear().nonnegative
    assert not (Gaussian() + Linear()).nonnegative


# Twins in scikit-learn


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(PAIRWISE_KERNEL_FUNCTIONS))
def test_a_name_means_what_scikit_learn_means_by_it(name, dtype):
    X, Z = abs(points(0, 8, 3, dtype)), abs(points(1, 6, 3, dtype))
    kernel = as_kernel(name)
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


def test_the_name_laplacian_keeps_the_manhattan_norm():
    X = points(0, 6, 3)
    np.testing.assert_allclose(as_kernel("laplacian")(X), laplacian_kernel(X), rtol=1e-12)
    assert np.max(np.abs(as_kernel("laplacian")(X) - Laplacian(3.0)(X))) > 0.01


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

    def remembered(X, Z):
        return kept.setdefault((X.tobytes(), Z.tobytes()), X @ Z.T)

    (3.0 * FromFunction(remembered))(X)
    np.testing.assert_allclose(remembered(X, X), X @ X.T, atol=1e-12)


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
    given_kernel = Matern()
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
    k = Gaussian()
    for operation in (lambda: k + 1.0, lambda: k * "2", lambda: k * True):
        with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
            operation()


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, "2", None])
def test_a_scale_that_is_not_positive_is_refused(scale):
    for use in (lambda k: k(np.ones((2, 1))), lambda k: k.diag(np.ones((2, 1))), lambda k: k.kappa()):
        with pytest.raises(ValueError, match="scaled by a positive number only, got"):
            use(Scaled(scale, Gaussian()))


DISTINCT = [
    Gaussian(),
    Gaussian(2.0),
    Gaussian([1.0, 2.0]),
    Gaussian([2.0, 1.0]),
    Gaussian("median"),
    Laplacian(),
    Matern(nu=0.5),
    Matern(),
    Polynomial(),
    Polynomial(gamma=1.0),
    Linear(),
    Brownian(),
    Precomputed(),
    Pairwise("laplacian"),
    Pairwise("laplacian", gamma=1.0),
    Pairwise("chi2"),
    Gaussian() + Linear(),
    Linear() + Gaussian(),
    Gaussian() * Linear(),
    2.0 * Gaussian(),
    3.0 * Gaussian(),
    2.0 * (Matern() + 3.0 * Laplacian("median")),
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
    assert Gaussian() != "Gaussian"
    assert Gaussian() != None  # noqa: E711


@pytest.mark.parametrize("kernel", [*DISTINCT, FromFunction(np.dot)], ids=named)
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
        Gaussian().set_params(width=1.0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Polynomial(degree=0), "degree must be a whole number"),
        (Polynomial(degree=1.5), "degree must be a whole number"),
        (Polynomial(gamma=0.0), "gamma must be a positive number or None"),
        (Polynomial(gamma=math.nan), "gamma must be a positive number or None"),
        (Polynomial(gamma=math.inf), "gamma must be a positive number or None"),
        (Polynomial(gamma="scale"), "gamma must be a positive number or None"),
        (Polynomial(coef0=-1.0), "coef0 must not be negative"),
        (Polynomial(coef0=math.nan), "coef0 must not be negative"),
        (Matern(nu=1.0), "nu must be 0.5, 1.5 or 2.5, got 1.0"),
        (Matern(nu="1.5"), "nu must be 0.5, 1.5 or 2.5, got '1.5'"),
    ],
    ids=named,
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
        (2.0 * Gaussian(0.7) + Matern()) * (0.5 * Laplacian()),
    ],
    ids=named,
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
        Gaussian() + Linear(),
        Linear() + Gaussian(),
        Gaussian() * Polynomial(),
        2.0 * Linear(),
        Centered(Gaussian(), np.ones((3, 2))),
    ],
    ids=named,
)
def test_a_kernel_that_is_not_stationary_has_no_frequencies(kernel):
    with pytest.raises(ValueError, match="is not stationary, so it has no random frequencies: use Gaussian"):
        sample_frequencies(kernel, 5, 2, np.random.default_rng(0))


def test_frequencies_of_an_unresolved_median_ask_for_data():
    with pytest.raises(ValueError, match=r"length_scale='median' needs data: call kernel.resolve\(X\) first"):
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
    with pytest.raises(ValueError, match=r"length_scale='median' needs data: call kernel.resolve\(X\) first"):
        Gaussian("median")(points(0, 3, 2))


@pytest.mark.parametrize("kernel_class", [Gaussian, Laplacian, Matern])
@pytest.mark.parametrize(
    "length_scale",
    [0.0, -1.0, math.nan, math.inf, [1.0, -1.0, 1.0], np.ones((1, 3)), "wide", "1.5", None, 1j],
    ids=named,
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
        with pytest.raises(ValueError, match="length_scale has 2 numbers and the data 3 features"):
            use()


# Descriptions in files


def through_json(kernel):
    return from_spec(json.loads(json.dumps(to_spec(kernel), allow_nan=False)))


@pytest.mark.parametrize("kernel", DISTINCT, ids=named)
def test_a_kernel_survives_the_way_through_json(kernel):
    restored = through_json(kernel)
    assert type(restored) is type(kernel)
    assert restored == kernel


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(np.float32(0.5)), Gaussian(np.array([1, 2])), np.float32(2.0) * Linear(), Polynomial(np.int64(2))],
    ids=named,
)
def test_numpy_numbers_are_written_as_plain_numbers(kernel):
    assert through_json(kernel) == kernel


@cases(GAUSSIAN_PROCESS)
def test_a_gaussian_process_kernel_survives_json_or_is_refused_by_name(case):
    X = points(0, 5, 3)
    kernel = as_kernel(case)
    if isinstance(case, gp.Exponentiation):
        with pytest.raises(ValueError, match="scikit-learn's kernel Exponentiation cannot be saved"):
            to_spec(kernel)
    else:
        np.testing.assert_array_equal(through_json(kernel)(X), kernel(X))


@pytest.mark.parametrize(
    "kernel", [FromFunction(np.dot), 2.0 * FromFunction(np.dot), Linear() + FromFunction(np.dot)], ids=named
)
def test_a_function_cannot_be_saved(kernel):
    with pytest.raises(ValueError, match="the kernel FromFunction cannot be saved"):
        to_spec(kernel)


def test_a_kernel_of_the_users_own_cannot_be_saved_under_a_known_name():
    impostor = type("Gaussian", (Linear,), {})()
    with pytest.raises(ValueError, match="the kernel Gaussian cannot be saved"):
        to_spec(impostor)


def altered(kernel, old, new):
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
        *(altered(Linear(), '"Linear"', nothing) for nothing in ("null", "3", "[]", "{}")),
        altered(Linear(), "Linear", "FromFunction"),
        altered(Linear(), "Linear", "os.system"),
        altered(Gaussian(), "length_scale", "width"),
        altered(Gaussian() + Linear(), "Linear", "Centered"),
        altered(Gaussian() + Linear(), json.dumps(to_spec(Linear())), "1.0"),
        altered(GaussianProcessKernel(gp.RationalQuadratic()), "RationalQuadratic", "CompoundKernel"),
        altered(GaussianProcessKernel(gp.RationalQuadratic()), "alpha", "beta"),
    ],
    ids=named,
)
def test_a_description_of_no_kernel_is_refused(spec):
    with pytest.raises(
        ValueError, match=r"does not describe a kernel|not a kernel of scikit-learn that a file may name"
    ):
        from_spec(spec)
