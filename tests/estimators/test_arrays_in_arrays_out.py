"""NumPy, torch, the array API: a model answers in the library and precision it is asked in, with the same numbers."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as gp

from tests.made_up import regression
from unpooled import SpectralRegressor
from unpooled.kernels import Brownian, Centered, Gaussian, Laplacian, Linear, Matern, Polynomial

FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
MODES = (0.02, "loo", "gcv", "cv")
GRID = np.logspace(0, -2, 5)
every_filter = pytest.mark.parametrize("filter", FILTERS)
every_mode = pytest.mark.parametrize("lam", MODES)
centring = pytest.mark.parametrize("center", [False, True])
weighing = pytest.mark.parametrize("weighted", [False, True])
libraries = pytest.mark.parametrize("library", ["torch", "strict"])
precisions = pytest.mark.parametrize("dtype", ["float32", "float64"])

MAKE = {
    "numpy": np.asarray,
    "torch": lambda array: torch.from_numpy(array.copy()),
    "strict": array_api_strict.asarray,
}
KIND = {"numpy": np.ndarray, "torch": torch.Tensor, "strict": type(array_api_strict.asarray(1.0))}
CLOSE = {"float64": 1e-8, "float32": 2e-3}  # two float32 decompositions of one matrix


def cast_data(dtype="float64", d=2):
    X, Y, Z, w = regression(
        n=40,
        d=d,
        between=(0.0, 1.0),
        function=lambda X: np.column_stack([np.sin(6 * X[:, 0]), np.cos(4 * X[:, -1])]),
        targets=2,
        noise=0.2,
        offset=3,
        others=(9,),
        weights=[0.0, 1.0, 2.0, 3.0],
    )
    return X.astype(dtype), Y.astype(dtype), Z.astype(dtype), w


def numbers(array):
    if isinstance(array, torch.Tensor):
        return array.numpy()
    return array if isinstance(array, np.ndarray) else np.from_dlpack(array)


def is_of(library, dtype, array):
    namespace = {"numpy": np, "torch": torch, "strict": array_api_strict}[library]
    return isinstance(array, KIND[library]) and array.dtype == getattr(namespace, dtype)


@libraries
@precisions
@every_filter
@every_mode
@centring
@weighing
def test_arrays_of_a_library_give_arrays_of_that_library(library, dtype, filter, lam, center, weighted):
    X, Y, Z, w = cast_data(dtype)
    make = MAKE[library]
    options = {"filter": filter, "lam": lam, "center": center, "grid": GRID}
    expected = SpectralRegressor(Gaussian(0.5), **options).fit(X, Y, w if weighted else None)
    model = SpectralRegressor(Gaussian(0.5), **options).fit(make(X), make(Y), make(w) if weighted else None)
    values = model.predict(make(Z))
    assert is_of(library, dtype, values)
    assert is_of(library, dtype, model.predictor_.coef)
    assert model.lam_ == expected.lam_
    assert_allclose(numbers(values), expected.predict(Z), atol=CLOSE[dtype])
    assert_allclose(numbers(model.intercept_), expected.intercept_, rtol=1e-5)


@libraries
@precisions
def test_one_target_gives_one_dimension(library, dtype):
    X, Y, Z, _ = cast_data(dtype)
    make = MAKE[library]
    model = SpectralRegressor(Gaussian(0.5), center=True).fit(make(X), make(Y[:, 0].copy()))
    assert tuple(model.predict(make(Z)).shape) == (9,)
    assert isinstance(model.intercept_, float)
    assert isinstance(model.lam_, float)


@libraries
def test_each_target_may_choose_its_own_lam(library):
    X, Y, Z, _ = cast_data()
    make = MAKE[library]
    expected = SpectralRegressor(Gaussian(0.5), per_target=True).fit(X, Y)
    model = SpectralRegressor(Gaussian(0.5), per_target=True).fit(make(X), make(Y))
    assert_array_equal(model.lam_, expected.lam_)
    assert_allclose(numbers(model.predict(make(Z))), expected.predict(Z), atol=1e-7)


@libraries
@pytest.mark.parametrize(
    "kernel",
    [
        None,
        2.5 * Gaussian([0.3, 0.6]),
        Laplacian(0.5),
        Matern(0.5, nu=0.5),
        Matern(0.5, nu=1.5),
        Matern(0.5, nu=2.5),
        Linear(),
        Polynomial(2),
        Gaussian(0.5) + Linear(),
        Gaussian(0.5) * Polynomial(1),
        Centered(Gaussian(0.5), np.linspace(0, 1, 10).reshape(5, 2)),
        "rbf",
        "poly",
        "linear",
        gp.ConstantKernel(2.0) * gp.RBF(0.5),
    ],
    ids=repr,
)
def test_every_kernel_that_is_ours_works_on_every_library(library, kernel):
    X, Y, Z, w = cast_data()
    make = MAKE[library]
    for lam in (0.05, "loo"):
        expected = SpectralRegressor(kernel, lam=lam, center=True, grid=GRID).fit(X, Y, w)
        model = SpectralRegressor(kernel, lam=lam, center=True, grid=GRID).fit(make(X), make(Y), make(w))
        values = model.predict(make(Z))
        assert is_of(library, "float64", values)
        assert_allclose(numbers(values), expected.predict(Z), atol=1e-7)


@libraries
def test_the_brownian_kernel_and_a_precomputed_matrix_work_on_every_library(library):
    X, Y, Z, _ = cast_data(d=1)
    make = MAKE[library]
    expected = SpectralRegressor(Brownian()).fit(X, Y).predict(Z)
    K, K_new = Brownian()(X), Brownian()(Z, X)
    assert_allclose(numbers(SpectralRegressor(Brownian()).fit(make(X), make(Y)).predict(make(Z))), expected, atol=1e-7)
    by_matrix = SpectralRegressor("precomputed").fit(make(K), make(Y))
    assert_allclose(numbers(by_matrix.predict(make(K_new))), expected, atol=1e-7)


@libraries
@pytest.mark.parametrize("kernel", ["laplacian", "cosine", gp.RationalQuadratic()], ids=repr)
def test_a_kernel_that_is_scikit_learns_alone_says_that_it_wants_numpy(library, kernel):
    X, Y, _, _ = cast_data()
    with pytest.raises(ValueError, match="works on NumPy arrays only"):
        SpectralRegressor(kernel, lam=0.1).fit(MAKE[library](X), MAKE[library](Y))


@libraries
@every_filter
@centring
def test_rows_of_one_library_are_predicted_by_a_model_of_another(library, filter, center):
    X, Y, Z, _ = cast_data()
    make = MAKE[library]
    options = {"filter": filter, "center": center, "grid": GRID}
    ours = SpectralRegressor(Gaussian(0.5), **options).fit(X, Y)
    theirs = SpectralRegressor(Gaussian(0.5), **options).fit(make(X), make(Y))
    asked_here, asked_there = theirs.predict(Z), ours.predict(make(Z))
    assert is_of("numpy", "float64", asked_here)
    assert is_of(library, "float64", asked_there)
    assert_allclose(asked_here, ours.predict(Z), atol=1e-8)
    assert_allclose(numbers(asked_there), ours.predict(Z), atol=1e-8)


@pytest.mark.parametrize("fitted_on", MAKE)
@pytest.mark.parametrize("asked_in", MAKE)
def test_a_path_predicts_rows_of_any_library(fitted_on, asked_in):
    X, Y, Z, _ = cast_data()
    expected = SpectralRegressor(Gaussian(0.5), lam=GRID).fit(X, Y).path_.predict(Z)
    path = SpectralRegressor(Gaussian(0.5), lam=GRID).fit(MAKE[fitted_on](X), MAKE[fitted_on](Y)).path_
    values = path.predict(MAKE[asked_in](Z))
    assert is_of(asked_in, "float64", values)
    assert_allclose(numbers(values), expected, atol=1e-8)


@libraries
@pytest.mark.parametrize("labels", MAKE)
@pytest.mark.parametrize("weights", MAKE)
def test_labels_and_weights_follow_the_rows(library, labels, weights):
    X, Y, Z, w = cast_data()
    expected = SpectralRegressor(Gaussian(0.5), lam=0.02).fit(X, Y, w).predict(Z)
    model = SpectralRegressor(Gaussian(0.5), lam=0.02).fit(MAKE[library](X), MAKE[labels](Y), MAKE[weights](w))
    assert is_of(library, "float64", model.predict(MAKE[library](Z)))
    assert_allclose(numbers(model.predict(MAKE[library](Z))), expected, atol=1e-9)


@libraries
def test_labels_of_another_library_follow_numpy_rows(library):
    X, Y, Z, w = cast_data()
    expected = SpectralRegressor(Gaussian(0.5), lam=0.02).fit(X, Y, w).predict(Z)
    model = SpectralRegressor(Gaussian(0.5), lam=0.02).fit(X, MAKE[library](Y), MAKE[library](w))
    assert_array_equal(model.predict(Z), expected)


@libraries
def test_whole_numbers_become_double_precision(library):
    X, Y, _, _ = cast_data()
    whole = np.round(9 * X).astype(np.int64)
    model = SpectralRegressor(Gaussian(2.0), lam=0.02).fit(MAKE[library](whole), MAKE[library](Y))
    assert is_of(library, "float64", model.predict(MAKE[library](whole)))
    expected = SpectralRegressor(Gaussian(2.0), lam=0.02).fit(whole, Y).predict(whole)
    assert_allclose(numbers(model.predict(MAKE[library](whole))), expected, atol=1e-9)


@pytest.mark.parametrize("fitted", ["float32", "float64"])
@pytest.mark.parametrize("asked", ["float32", "float64"])
@pytest.mark.parametrize("library", MAKE)
def test_single_precision_comes_out_only_where_model_and_rows_are_single(library, fitted, asked):
    X, Y, _, _ = cast_data(fitted)
    Z = cast_data(asked)[2]
    model = SpectralRegressor(Gaussian(0.5)).fit(MAKE[library](X), MAKE[library](Y))
    both_single = fitted == asked == "float32"
    assert is_of(library, "float32" if both_single else "float64", model.predict(MAKE[library](Z)))


@every_filter
@every_mode
@centring
@weighing
def test_single_precision_stays_single_in_numpy(filter, lam, center, weighted):
    X, Y, Z, w = cast_data("float32")
    model = SpectralRegressor(Gaussian(0.5), filter, lam, center, grid=GRID).fit(X, Y, w if weighted else None)
    assert model.predictor_.coef.dtype == model.predictor_.intercept.dtype == np.float32
    assert model.predict(Z).dtype == np.float32
    if lam != 0.02:
        assert model.path_.predict(Z).dtype == np.float32
    double = SpectralRegressor(Gaussian(0.5), filter, model.lam_, center)
    double.fit(X.astype(float), Y.astype(float), w if weighted else None)
    assert_allclose(model.predict(Z), double.predict(Z.astype(float)), atol=CLOSE["float32"])


@pytest.mark.parametrize("solver", ["low-rank", "eigh", "banded", "cholesky"])
def test_single_precision_stays_single_on_every_route(solver):
    X, Y, Z, w = cast_data("float32", d=1)
    lam = 0.02 if solver == "cholesky" else GRID
    model = SpectralRegressor(Gaussian(0.5), lam=lam, center=True, solver=solver).fit(X, Y, w)
    assert model.solver_ == solver
    assert model.predictor_.coef.dtype == np.float32
    assert model.predict(Z).dtype == np.float32


@pytest.mark.parametrize(
    "kernel",
    [
        "rbf",
        "linear",
        "poly",
        "laplacian",
        "cosine",
        "chi2",
        Matern(0.5),
        Laplacian(0.5),
        Gaussian([0.3, 0.6]),
        2.5 * Gaussian(0.5) + Linear(),
        gp.RationalQuadratic(),
        lambda X, Z: np.exp(-((X[:, None].astype(float) - Z[None]) ** 2).sum(axis=2)),
        lambda x, z: float(np.exp(-np.sum((x - z) ** 2))),
    ],
    ids=lambda kernel: "a function" if callable(kernel) and not hasattr(kernel, "get_params") else repr(kernel),
)
def test_single_precision_stays_single_with_every_kernel(kernel):
    X, Y, Z, _ = cast_data("float32")
    for lam in (0.1, "loo"):
        model = SpectralRegressor(kernel, lam=lam, center=True, grid=GRID).fit(X, Y)
        assert model.predictor_.coef.dtype == np.float32
        assert model.predict(Z).dtype == np.float32


@libraries
def test_a_fit_leaves_the_arrays_of_a_library_as_they_were(library):
    X, Y, _, w = cast_data()
    made = [MAKE[library](array) for array in (X, Y, w)]
    K = MAKE[library](Gaussian(0.5)(X))
    SpectralRegressor(Gaussian(0.5), center=True).fit(*made)
    SpectralRegressor("precomputed", lam=0.1, center=True).fit(K, made[1])
    for array, before in zip((*made, K), (X, Y, w, Gaussian(0.5)(X))):
        assert_array_equal(numbers(array), before)


def test_torch_tensors_of_any_layout_are_numbers_like_any_other():
    X, Y, Z, _ = cast_data()
    expected = SpectralRegressor(Gaussian(0.5), center=True).fit(X, Y).predict(Z)
    across = torch.from_numpy(np.ascontiguousarray(X.T)).T
    every_other = torch.from_numpy(np.repeat(X, 2, axis=0))[::2]
    for rows in (across, every_other):
        model = SpectralRegressor(Gaussian(0.5), center=True).fit(rows, torch.from_numpy(Y.copy()))
        assert_allclose(model.predict(torch.from_numpy(Z.copy())).numpy(), expected, atol=1e-8)


def test_numpy_arrays_of_any_layout_are_numbers_like_any_other():
    X, Y, Z, w = cast_data()
    expected = SpectralRegressor(Gaussian(0.5), center=True).fit(X, Y, w).predict(Z)
    frozen = X.copy()
    frozen.setflags(write=False)
    for rows in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], frozen, X.astype(">f8")):
        model = SpectralRegressor(Gaussian(0.5), center=True).fit(rows, np.asfortranarray(Y), w[::-1][::-1])
        assert_allclose(model.predict(np.asfortranarray(Z)), expected, atol=1e-10)


@libraries
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_in_every_library(library, value):
    X, Y, _, _ = cast_data()
    bad = X.copy()
    bad[3, 1] = value
    kind = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=f"^X contains {kind}.*, first in row 3, column 1"):
        SpectralRegressor().fit(MAKE[library](bad), MAKE[library](Y))
    bad = Y.copy()
    bad[5, 0] = value
    with pytest.raises(ValueError, match=f"^y contains {kind}.*, first in row 5"):
        SpectralRegressor().fit(MAKE[library](X), MAKE[library](bad))


@libraries
def test_shapes_that_do_not_fit_are_refused_in_every_library(library):
    X, Y, _, w = cast_data()
    make = MAKE[library]
    model = SpectralRegressor(Gaussian(0.5), lam=0.1).fit(make(X), make(Y))
    with pytest.raises(ValueError, match=r"^X must be two-dimensional"):
        SpectralRegressor().fit(make(X[:, 0].copy()), make(Y))
    with pytest.raises(ValueError, match=r"^X has shape \(0, 2\)"):
        SpectralRegressor().fit(make(X[:0]), make(Y[:0]))
    with pytest.raises(ValueError, match=r"^X has 40 rows and y has 39"):
        SpectralRegressor().fit(make(X), make(Y[:-1]))
    with pytest.raises(ValueError, match=r"^y must have one column per target"):
        SpectralRegressor().fit(make(X), make(Y[:, :, None]))
    with pytest.raises(ValueError, match=r"y .*(column|target)"):
        SpectralRegressor().fit(make(X), make(Y[:, :0].copy()))
    with pytest.raises(ValueError, match=r"^X has 1 features, but SpectralRegressor is expecting 2"):
        model.predict(make(X[:, :1].copy()))
    with pytest.raises(ValueError, match=r"^sample_weight must be one number per row"):
        SpectralRegressor().fit(make(X), make(Y), make(w[:-1].copy()))
