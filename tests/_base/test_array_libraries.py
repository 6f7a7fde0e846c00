"""Functions give equal numbers for NumPy arrays, torch tensors and strict array-API arrays, in their own library."""

from functools import partial

import array_api_strict
import numpy as np
import pytest
import torch
from sklearn.gaussian_process import kernels as gp

from tests.made_up import points
from unpooled import KernelExpansion
from unpooled._base import threads
from unpooled._base.arrays import (
    add_to_diagonal,
    clip_,
    eps,
    exp_,
    is_foreign,
    is_numpy,
    like,
    namespace,
    set_diagonal,
    sqrt_,
    to_numpy,
)
from unpooled.kernels import (
    Brownian,
    Centered,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Pairwise,
    Polynomial,
    Precomputed,
    as_kernel,
)

LIBRARIES = {"numpy": np.asarray, "torch": torch.asarray, "strict": array_api_strict.asarray}
KERNELS = [
    Gaussian(0.7),
    Gaussian([0.7]),
    Gaussian("median"),
    Laplacian(0.7),
    Matern(0.7, 0.5),
    Matern(0.7, 1.5),
    Matern([0.7], 2.5),
    Linear(),
    Polynomial(1, 0.5, 0.0),
    Polynomial(3, 0.5, 2.0),
    Brownian(),
    Gaussian(0.7) + Linear(),
    Laplacian() * Brownian(),
    2.5 * Matern("median"),
    Pairwise("rbf"),
    Centered(Gaussian(0.7), np.linspace(0, 1, 5)[:, None], np.arange(1.0, 6.0)),
]
every_library = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES.keys())
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: repr(kernel)[:60])

rows = partial(points, d=1, between=(0.0, 2.0))


def assert_same(actual, expected, reference):
    """``actual`` is of the library and the dtype of ``reference`` and holds the numbers ``expected``."""
    assert type(actual) is type(reference)
    assert actual.dtype == reference.dtype
    expected = to_numpy(expected)
    tolerance = 1e-5 if expected.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(to_numpy(actual), expected, rtol=tolerance, atol=tolerance)


# Kernels


@every_library
@every_dtype
@every_kernel
def test_a_kernel_gives_the_same_numbers_in_the_library_and_dtype_of_its_rows(kernel, library, dtype):
    X, Z = rows(n=7, dtype=dtype), rows(1, n=4, dtype=dtype)
    mine_X, mine_Z = library(X), library(Z)
    expected, mine = kernel.resolve(X), kernel.resolve(mine_X)
    assert_same(mine(mine_X, mine_Z), expected(X, Z), mine_X)
    assert_same(mine.block(mine_X, mine_Z), expected.block(X, Z), mine_X)
    assert_same(mine.diag(mine_X), expected.diag(X), mine_X)
    assert mine.kappa(mine_X) == pytest.approx(expected.kappa(X), rel=1e-6)
    whole = mine(mine_X)
    assert type(whole) is type(mine_X)
    assert whole.dtype == mine_X.dtype
    np.testing.assert_allclose(to_numpy(whole), expected(X), rtol=1e-5, atol=1e-5)  # a root near zero halves the digits
    np.testing.assert_allclose(np.diagonal(to_numpy(whole)), to_numpy(mine.diag(mine_X)), rtol=1e-6)


@every_library
@every_kernel
def test_rows_are_left_as_they_were(kernel, library):
    X = library(rows(n=5).copy())
    kernel = kernel.resolve(X)
    kernel(X)
    kernel(X, X)
    kernel.diag(X)
    np.testing.assert_array_equal(to_numpy(X), rows(n=5))


@every_library
@every_dtype
def test_a_median_is_the_same_plain_number_everywhere(library, dtype):
    X, weights = rows(n=9, dtype=dtype), np.arange(1.0, 10.0)
    for w in (None, library(weights)):
        median = Gaussian("median").resolve(library(X), w).length_scale
        assert type(median) is float
        assert median == pytest.approx(Gaussian("median").resolve(X, None if w is None else weights).length_scale)


@every_library
def test_a_length_scale_may_be_an_array_of_any_library(library):
    X, scale = np.hstack([rows(n=6), rows(1, n=6)]), np.array([0.5, 2.0])
    assert_same(Gaussian(library(scale))(library(X)), Gaussian(scale)(X), library(X))
    np.testing.assert_allclose(Gaussian(library(scale))(X), Gaussian(scale)(X))


@every_library
@every_dtype
def test_a_precomputed_kernel_is_the_matrix_given(library, dtype):
    X = rows(n=6, dtype=dtype)
    K = library(X @ X.T)
    assert_same(Precomputed()(K), X @ X.T, K)
    assert_same(Precomputed().diag(K), np.diagonal(X @ X.T), K)


@every_kernel
@every_dtype
def test_values_stay_on_the_device_of_the_rows(kernel, dtype):
    device = array_api_strict.Device("device1")
    X = array_api_strict.asarray(rows(n=6, dtype=dtype), device=device)
    kernel = kernel.resolve(X)
    assert kernel(X).device == kernel.block(X, X[:2, :]).device == kernel.diag(X).device == device


@pytest.mark.parametrize("kernel", ["laplacian", "cosine", gp.RationalQuadratic(), gp.DotProduct()], ids=repr)
def test_a_kernel_that_knows_numpy_only_says_so(kernel):
    kernel, X = as_kernel(kernel), torch.ones(3, 2)
    for use in (lambda: kernel(X), lambda: kernel.block(X, X)):
        with pytest.raises(ValueError, match=f"{type(kernel).__name__} works on NumPy arrays only: give X as one"):
            use()


@pytest.mark.parametrize("kernel", ["cosine", gp.DotProduct()], ids=repr)
def test_the_diagonal_of_a_kernel_that_knows_numpy_only_says_so_too(kernel):
    with pytest.raises(ValueError, match="works on NumPy arrays only: give X as one"):
        as_kernel(kernel).diag(torch.ones(3, 2))


# Predictions


@every_library
@every_dtype
@every_kernel
@pytest.mark.parametrize("block_elements", [threads.BLOCK_ELEMENTS, 16])
def test_an_expansion_predicts_the_same_numbers(kernel, library, dtype, block_elements, monkeypatch):
    monkeypatch.setattr(threads, "BLOCK_ELEMENTS", block_elements)  # 16: three rows a block
    points, X = rows(n=5), rows(1, n=11, dtype=dtype)
    kernel = kernel.resolve(points)
    coef, intercept = np.random.default_rng(2).standard_normal((5, 2)), np.array([3.0, -1.0])
    expansion = KernelExpansion(kernel, points, coef, intercept)
    mine = library(X)
    values = expansion.predict(mine)
    assert values.shape == (11, 2)
    assert_same(values, (kernel(X.astype(float), points) @ coef + intercept).astype(dtype), mine)


@every_library
@pytest.mark.parametrize("home", LIBRARIES.values(), ids=[f"model in {name}" for name in LIBRARIES])
def test_a_model_of_one_library_predicts_for_rows_of_another(home, library):
    points, coef, intercept, X = rows(n=5), rows(2, n=5), np.ones(1), rows(1, n=4)
    expansion = KernelExpansion(Gaussian(), home(points), home(coef), home(intercept))
    assert_same(expansion.predict(library(X)), Gaussian()(X, points) @ coef + 1, library(X))


@every_library
def test_no_rows_have_no_predictions(library):
    expansion = KernelExpansion(Gaussian(), rows(n=5), rows(2, n=5), np.ones(1))
    values = expansion.predict(library(rows(n=0, dtype=np.float32)))
    assert values.shape == (0, 1)
    assert values.dtype == library(rows(n=1, dtype=np.float32)).dtype


@pytest.mark.parametrize("n", [0, 4])
def test_predictions_stay_on_the_device_of_the_rows(n):
    device = array_api_strict.Device("device1")
    expansion = KernelExpansion(Gaussian(), rows(n=5), rows(2, n=5), np.ones(1))
    assert expansion.predict(array_api_strict.asarray(rows(n=n), device=device)).device == device


@every_library
def test_whole_numbers_are_read_as_floats(library):
    X = np.array([[0], [1], [2]])
    expansion = KernelExpansion(Gaussian(), rows(n=5), rows(2, n=5), np.full(1, 0.5))
    np.testing.assert_allclose(to_numpy(expansion.predict(library(X))), expansion.predict(X.astype(float)))


# Helpers


@every_library
@every_dtype
def test_like_takes_the_library_and_the_dtype_of_the_reference(library, dtype):
    reference = library(np.zeros(2, dtype))
    for source in LIBRARIES.values():
        array = source(np.array([[1.0, 2.0], [3.0, 4.0]]))
        assert_same(like(array, reference), np.array([[1, 2], [3, 4]], dtype), reference)
        assert to_numpy(like(array, reference, dtype=namespace(reference).int64)).dtype == np.int64


@every_library
def test_like_takes_the_device_of_the_reference(library):
    device = array_api_strict.Device("device1")
    reference = array_api_strict.zeros(2, device=device)
    moved = like(library(np.ones(3)), reference)
    assert moved.device == device
    np.testing.assert_array_equal(to_numpy(moved), np.ones(3))


def read_only():
    array = np.arange(4.0)
    array.flags.writeable = False
    return array


@every_library
@pytest.mark.parametrize(
    "array",
    [np.arange(4.0)[::-1], np.arange(8.0)[::2], np.asfortranarray(np.eye(3)), read_only()],
    ids=["reversed", "every other", "fortran", "read-only"],
)
def test_like_takes_numpy_arrays_of_any_layout_without_a_warning(library, array):
    assert_same(like(array, library(np.zeros(2))), array.astype(float), library(np.zeros(2)))


@every_library
@every_dtype
def test_to_numpy_gives_the_same_numbers_in_the_same_dtype(library, dtype):
    array = np.array([[1.0, 2.5], [-3.0, 4.0]], dtype)
    out = to_numpy(library(array))
    assert is_numpy(out)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, array)


def test_to_numpy_takes_a_tensor_that_keeps_gradients():
    np.testing.assert_array_equal(to_numpy(torch.ones(3, requires_grad=True)), np.ones(3))


def test_foreign_arrays_are_those_of_other_libraries():
    assert is_foreign(torch.ones(2))
    assert is_foreign(array_api_strict.ones(2))
    for ours in (np.ones(2), np.float64(1.0), 1.0, [1.0], "median", None):
        assert not is_foreign(ours)


@every_library
@every_dtype
def test_eps_is_the_rounding_unit_of_the_dtype(library, dtype):
    assert eps(library(np.ones(1, dtype))) == np.finfo(dtype).eps


@every_library
@every_dtype
@pytest.mark.parametrize(
    ("in_place", "expected"),
    [
        (exp_, np.exp),
        (sqrt_, np.sqrt),
        (lambda a: clip_(a, None, 1.0), lambda a: np.clip(a, None, 1.0)),
        (lambda a: clip_(a, 0.5, None), lambda a: np.clip(a, 0.5, None)),
        (lambda a: clip_(a, 0.5, 1.0), lambda a: np.clip(a, 0.5, 1.0)),
    ],
    ids=["exp", "sqrt", "from above", "from below", "both sides"],
)
def test_functions_in_place_give_the_usual_numbers_and_use_no_second_array(in_place, expected, library, dtype):
    values = np.array([[0.0, 0.25, 1.0], [2.0, 4.0, 0.5]], dtype)
    array = library(values.copy())
    out = in_place(array)
    assert_same(out, expected(values), array)
    if library is not array_api_strict.asarray:  # the strict library has no way to work in place
        assert out is array


@pytest.mark.parametrize("shape", [(0, 5), (3, 4), (8191,), (8192,), (8193,), (2, 8192), (100, 999)])
@every_dtype
def test_clipping_is_numpys_for_every_size_layout_and_nan(shape, dtype):
    values = np.random.default_rng(0).normal(size=shape).astype(dtype)
    values.flat[:1] = np.nan
    for low, high in ((None, 0.0), (-0.5, None), (-0.5, 0.5), (None, 1e15)):
        for array in (values.copy(), values.copy().T, np.repeat(values, 2, axis=-1)[..., ::2]):
            expected = np.clip(array, low, high)
            assert clip_(array, low, high) is array
            np.testing.assert_array_equal(array, expected)
            assert array.dtype == dtype


def matrices():
    """Square matrices of every memory layout."""
    return {
        "C order": lambda: np.zeros((4, 4)),
        "Fortran order": lambda: np.zeros((4, 4), order="F"),
        "part of a larger one": lambda: np.zeros((6, 9))[1:5, 2:6],
        "every other entry": lambda: np.zeros((8, 8))[::2, ::2],
    }


@every_library
@pytest.mark.parametrize("make", matrices().values(), ids=matrices().keys())
def test_the_diagonal_is_written_in_place(make, library):
    matrix = library(make())
    set_diagonal(matrix, library(np.arange(4.0)))
    np.testing.assert_array_equal(to_numpy(matrix), np.diag(np.arange(4.0)))
    set_diagonal(matrix, 7.0)
    np.testing.assert_array_equal(to_numpy(matrix), 7 * np.eye(4))


@every_library
@pytest.mark.parametrize("make", matrices().values(), ids=matrices().keys())
def test_a_number_is_added_to_the_diagonal_in_place(make, library):
    matrix = library(make())
    add_to_diagonal(matrix, 2.0)
    add_to_diagonal(matrix, 0.5)
    np.testing.assert_array_equal(to_numpy(matrix), 2.5 * np.eye(4))


@every_library
@every_dtype
def test_the_diagonal_keeps_the_dtype_of_the_matrix(library, dtype):
    matrix = library(np.ones((3, 3), dtype))
    set_diagonal(matrix, library(np.zeros(3, dtype)))
    add_to_diagonal(matrix, 0.5)
    assert_same(matrix, np.ones((3, 3), dtype) - 0.5 * np.eye(3, dtype=dtype), library(np.ones(1, dtype)))
