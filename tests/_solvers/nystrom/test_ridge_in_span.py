"""NystromRegressor: ridge regression in the span of kernel functions, whichever way it is found.

Tests `_solvers/nystrom/on_torch.py` and `_solvers/nystrom/sums.py`.
"""

import copy
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import unpooled as up
from tests.made_up import waves_and_slopes
from unpooled._base import memory, threads
from unpooled._solvers.nystrom import machine
from unpooled._solvers.nystrom.machine import ROUNDS, NumpyMachine, PlacedRows
from unpooled.bases.maps import KernelMap

KERNEL = up.kernels.Gaussian(1.0)


def direct(model, X, Y, lam, weights, center):
    """The minimiser of (1/W) Σ w (y - cᵀr - b)² + λ cᵀ(𝕂_zz + εI)c by dense algebra, with its df and mean error."""
    Z = model.predictor_.map.points
    Y = np.atleast_2d(Y.T).T
    w = np.ones(len(X)) if weights is None else weights
    W, R = w.sum(), KERNEL(X, Z)
    r, y = (w @ R) / W * center, (w @ Y) / W * center
    L = np.linalg.cholesky(KERNEL(Z) + model.jitter_ * np.eye(len(Z)))
    phi = np.linalg.solve(L, (R - r).T).T
    C = (phi * w[:, None]).T @ phi / W
    H = np.linalg.inv(C + lam * np.eye(len(Z)))
    a = H @ (phi * w[:, None]).T @ (Y - y) / W
    error = w @ (Y - y - phi @ a) ** 2 / W
    return (lambda new: np.linalg.solve(L, (KERNEL(new, Z) - r).T).T @ a + y), float(np.trace(C @ H)) + center, error


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("solver", ["gram", "rounds"])
@settings(max_examples=12)
@given(
    center=st.booleans(),
    T=st.integers(1, 3),
    weighted=st.booleans(),
    lam=st.sampled_from([1e-1, 1e-3, 1e-5]),
    M=st.integers(1, 40),
    seed=st.integers(0, 5),
)
def test_it_is_the_minimiser_in_the_span(device, solver, center, T, weighted, lam, M, seed):
    X, Y = waves_and_slopes(seed, targets=T)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, size=len(X)) if weighted else None
    model = up.NystromRegressor(KERNEL, M, lam, center=center, solver=solver, device=device, tol=1e-10)
    model.fit(X, Y, sample_weight=weights)
    f, _, _ = direct(model, X, Y, lam, weights, center)
    expected = f(X[:50])
    found = model.predict(X[:50]).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(Y).max())


@pytest.mark.parametrize("solver", ["gram", "rounds"])
@pytest.mark.parametrize("center", [False, True])
def test_every_lam_has_its_generalised_cross_validation_score(solver, center):
    X, y = waves_and_slopes(n=2000)
    lams = np.logspace(-2, -6, 7)
    model = up.NystromRegressor(KERNEL, 120, lams, center=center, solver=solver, tol=1e-8).fit(X, y)
    expected = []
    for lam in lams:
        _, df, error = direct(model, X, y, lam, None, center)
        expected.append(error[0] / (1 - df / len(X)) ** 2)
    # Rounds tell df from the fits of random signs.
    np.testing.assert_allclose(model.path_.criterion, expected, rtol=1e-5 if solver == "gram" else 0.02)
    assert model.lam_ == lams[np.argmin(model.path_.criterion)]


def test_it_agrees_with_second_order_summaries_of_the_same_span():
    X, y = waves_and_slopes(n=3000)
    model = up.NystromRegressor(KERNEL, 100, 1e-4, center=True).fit(X, y)
    basis = up.bases.EmpiricalFeatures(KERNEL).fit(model.predictor_.map.points)
    summary = up.SummaryRegressor(lam=1e-4, center=True).fit_summary(up.Summary.of(basis, X, y, order=2))
    np.testing.assert_allclose(model.predict(X), summary.predict(X), atol=0.02 * np.std(y - model.predict(X)))


def test_with_all_rows_as_points_it_is_kernel_ridge_regression():
    X, y = waves_and_slopes(n=300)
    model = up.NystromRegressor(KERNEL, 300, 1e-4, center=True).fit(X, y)
    exact = up.SpectralRegressor(KERNEL, lam=1e-4, center=True).fit(X, y)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=0.02 * np.std(y - model.predict(X)))


@settings(max_examples=10)
@given(shift=st.floats(-1e3, 1e3), solver=st.sampled_from(["gram", "rounds"]))
def test_a_shift_of_y_moves_only_the_intercept(shift, solver):
    X, y = waves_and_slopes(n=400)
    models = [
        up.NystromRegressor(KERNEL, 40, 1e-3, center=True, solver=solver, tol=1e-9).fit(X, labels)
        for labels in (y, y + shift)
    ]
    np.testing.assert_allclose(models[1].predict(X), models[0].predict(X) + shift, atol=1e-6)


def test_weights_count_as_repeated_rows():
    X, y = waves_and_slopes(n=300)
    weights = np.random.default_rng(0).integers(1, 4, size=300)
    points = up.NystromRegressor(KERNEL, 30, 1e-3).fit(X, y, sample_weight=weights)
    f, _, _ = direct(points, np.repeat(X, weights, axis=0), np.repeat(y, weights), 1e-3, None, False)
    np.testing.assert_allclose(points.predict(X), f(X)[:, 0], atol=1e-5)


def test_parts_one_after_the_other_are_the_whole():
    X, y = waves_and_slopes(n=900)
    parts = up.NystromRegressor(KERNEL, 50, center=True)
    for i in range(0, 900, 300):
        parts.partial_fit(X[i : i + 300], y[i : i + 300])
    lam, Z = parts.lam_, parts.predictor_.map.points
    f, _, _ = direct(parts, X, y, lam, None, True)
    assert all(any(np.array_equal(z, x) for x in X[:300]) for z in Z)
    np.testing.assert_allclose(parts.predict(X), f(X)[:, 0], atol=1e-5)
    with pytest.raises(ValueError, match="y has 2 label"):
        parts.partial_fit(X, np.column_stack([y, y]))


@pytest.mark.parametrize("solver", ["gram", "rounds"])
def test_files_and_arrays_give_the_same_model(tmp_path, solver):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = waves_and_slopes(n=2500)
    columns = {f"x{j}": X[:, j] for j in range(3)} | {"y": y}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=700)
    model = up.NystromRegressor(KERNEL, 60, 1e-4, center=True, solver=solver, tol=1e-9)
    kept = clone(model).fit(X, y)
    read = model.fit(tmp_path / "rows.parquet", "y")
    assert list(read.feature_names_in_) == ["x0", "x1", "x2"]
    np.testing.assert_allclose(read.predict(tmp_path / "rows.parquet"), kept.predict(X), atol=1e-5)


def test_labels_named_in_a_frame_are_no_inputs():
    import pandas as pd

    X, y = waves_and_slopes(n=200)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    model = up.NystromRegressor(KERNEL, 20).fit(frame, "y")
    assert list(model.feature_names_in_) == ["a", "b", "c"]


@pytest.mark.parametrize("solver", ["gram", "rounds"])
def test_single_kernel_values_cost_no_digits_that_matter(solver):
    X, y = waves_and_slopes(n=3000)
    lams = np.logspace(-2, -6, 5)
    double = up.NystromRegressor(KERNEL, 100, lams, solver=solver, tol=1e-8).fit(X, y)
    single = up.NystromRegressor(KERNEL, 100, lams, solver=solver, tol=1e-8).fit(X.astype(np.float32), y)
    assert (double.precision_, single.precision_) == ("double", "single")
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), double.predict(X), atol=0.02 * np.std(y))
    np.testing.assert_allclose(single.path_.criterion, double.path_.criterion, rtol=1e-3)
    # An offset that single precision would round away is taken out before.
    far = up.NystromRegressor(KERNEL, 100, 1e-3, device="cpu", precision="single").fit(X + 1e5, y)
    near = up.NystromRegressor(KERNEL, 100, 1e-3, device="cpu", precision="single").fit(X, y)
    np.testing.assert_allclose(far.predict(X + 1e5), near.predict(X), atol=1e-3)


def test_lam_too_small_for_single_precision_is_worked_out_in_double():
    X, y = waves_and_slopes(n=300)
    model = up.NystromRegressor(KERNEL, 30, 1e-10).fit(X.astype(np.float32), y)
    assert (model.precision_, model.solver_) == ("double", "rounds")
    with pytest.raises(ValueError, match="accurate for lam down to"):
        up.NystromRegressor(KERNEL, 30, 1e-10, solver="gram").fit(X, y)


def test_rounds_are_as_few_as_the_choice_of_route_expects():
    X, y = waves_and_slopes(n=20_000, d=5)
    model = up.NystromRegressor(up.kernels.Gaussian(2.0), 200, np.logspace(-1, -7, 5), solver="rounds").fit(X, y)
    assert model.n_rounds_ <= 2 * max(ROUNDS.values())


def test_the_cheaper_route_depends_on_points_and_columns():
    few, many = (NumpyMachine(KernelMap(KERNEL, np.zeros((m, 2))), False) for m in (500, 20_000))
    assert few.prefers_gram(10**6, 40)
    assert not many.prefers_gram(10**6, 40)


@pytest.mark.parametrize("kernel", [up.kernels.Matern(1.5), up.kernels.Linear(), up.kernels.Gaussian("median")])
def test_other_kernels(kernel):
    X, y = waves_and_slopes(n=500)
    for solver in ("gram", "rounds"):
        model = up.NystromRegressor(kernel, 60, center=True, solver=solver).fit(X, y)
        assert model.score(X, y) > 0.3


def test_copies_of_a_row_as_points_do_no_harm():
    X, y = waves_and_slopes(n=200)
    X[:150] = X[0]
    for solver in ("gram", "rounds"):
        model = up.NystromRegressor(KERNEL, 200, 1e-3, solver=solver, center=True).fit(X, y)
        assert np.all(np.isfinite(model.predict(X)))


def test_what_is_saved_comes_back(tmp_path):
    X, Y = waves_and_slopes(n=300, targets=2)
    model = up.NystromRegressor(KERNEL, 40, center=True, standardize=True).fit(X, Y)
    up.save(model, tmp_path / "m.model")
    again = up.load(tmp_path / "m.model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert (again.lam_, again.solver_, again.precision_) == (model.lam_, model.solver_, model.precision_)
    np.testing.assert_array_equal(again.path_.criterion, model.path_.criterion)


def test_tensors_in_tensors_out():
    torch = pytest.importorskip("torch")
    X, y = waves_and_slopes(n=400)
    model = up.NystromRegressor(KERNEL, 50, 1e-3).fit(torch.tensor(X), torch.tensor(y))
    found = model.predict(torch.tensor(X))
    assert isinstance(found, torch.Tensor)
    expected = up.NystromRegressor(KERNEL, 50, 1e-3).fit(X, y).predict(X)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_features": 0}, "n_features must be"),
        ({"lam": -1.0}, "lam must be"),
        ({"lam": "loo"}, "lam must be a positive number, an array of them or 'gcv'; got 'loo'"),
        ({"solver": "cg"}, "solver must be"),
        ({"precision": "half"}, "precision must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"max_rounds": 0}, "max_rounds must be"),
        ({"center": "yes"}, "center must be"),
        ({"device": "nowhere"}, "device='nowhere' cannot be used"),
        ({"kernel": "precomputed"}, "kernel is precomputed"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, sentence):
    X, y = waves_and_slopes(n=30)
    with pytest.raises(ValueError, match=sentence):
        up.NystromRegressor(**arguments).fit(X, y)


@pytest.mark.parametrize("model", [up.NystromRegressor(), up.NystromRegressor(solver="rounds", center=True, lam=1e-3)])
def test_scikit_learn_finds_nothing_wrong(model):
    check_estimator(model)


@pytest.mark.parametrize(("options", "matrices"), [({"solver": "gram"}, 5.5), ({"solver": "rounds", "lam": 1e-3}, 3)])
def test_points_that_would_not_fit_are_refused_before_a_row_is_worked_on(monkeypatch, options, matrices):
    X, y = waves_and_slopes()
    model = up.NystromRegressor(KERNEL, 50, **options)
    monkeypatch.setattr(memory, "CHECKED_FROM", 0)
    monkeypatch.setattr(NumpyMachine, "gram_matrices", 2.0)
    monkeypatch.setattr(memory, "_meminfo", lambda _: iter([]))
    monkeypatch.setattr(memory, "available_memory", lambda: matrices * 8.0 * 50**2)
    model.fit(X, y)
    monkeypatch.setattr(memory, "available_memory", lambda: matrices * 8.0 * 50**2 - 1)
    monkeypatch.setattr(NumpyMachine, "add_gram", None)  # which would be what is done with rows
    monkeypatch.setattr(NumpyMachine, "cross", None)
    with pytest.raises(MemoryError, match=f"n_features=50 points with solver='{options['solver']}' needs about"):
        model.fit(X, y)


def test_rounds_are_taken_where_there_is_no_room_for_a_gram_matrix(monkeypatch):
    X, y = waves_and_slopes()
    model = up.NystromRegressor(KERNEL, 50, lam=1e-3)
    assert model.fit(X, y).solver_ == "gram"
    expected = model.predict(X)
    monkeypatch.setattr(memory, "CHECKED_FROM", 0)
    monkeypatch.setattr(memory, "_meminfo", lambda _: iter([]))
    monkeypatch.setattr(memory, "available_memory", lambda: 4 * 8.0 * 50**2)
    assert model.fit(X, y).solver_ == "rounds"
    np.testing.assert_allclose(model.predict(X), expected, atol=0.02)
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * 8.0 * 50**2)
    with pytest.raises(MemoryError, match="n_features=50 points with solver='rounds' needs about"):
        model.fit(X, y)


@pytest.mark.parametrize("n_threads", [1, 2, 8])
@pytest.mark.parametrize("center", [False, True])
def test_a_gram_pass_holds_as_many_matrices_as_it_says(monkeypatch, n_threads, center):
    monkeypatch.setattr(machine, "GRAM_ROWS", 64)
    monkeypatch.setattr(threads, "count_threads", lambda: n_threads)
    X, y = waves_and_slopes(n=1000)
    model = up.NystromRegressor(KERNEL, 400, [1e-2, 1e-3], center=center, solver="gram")
    model.fit(X, y)  # what is imported once is not counted
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    said = max(machine.SOLVING[False], machine.matrices_of_threads(n_threads, 400))
    assert 0.5 * said < peak / (8 * 400**2) < 1.1 * said


@settings(max_examples=20)
@given(n=st.integers(2, 400), n_threads=st.integers(1, 5), weighted=st.booleans(), single=st.booleans())
def test_however_rows_are_cut_the_gram_pass_sums_the_same(n, n_threads, weighted, single):
    X, y = waves_and_slopes(n=n)
    dtype = np.float32 if single else np.float64
    weights = np.random.default_rng(n).uniform(0.5, 2.0, size=n) if weighted else None
    on = NumpyMachine(KernelMap(KERNEL, X[:20]), single)
    rows = PlacedRows(X.astype(dtype), y[:, None], weights)
    some = mock.patch.object(threads, "count_threads", return_value=n_threads)
    with mock.patch.object(machine, "GRAM_ROWS", 32), some:
        cross, products = on.add_gram(rows, y[:, None], None)
        found = on.gram(products)
    K = KERNEL.block(X.astype(dtype), X[:20].astype(dtype)).astype(np.float64)
    w = np.ones(n) if weights is None else weights
    C = K - on.means
    np.testing.assert_allclose(
        found, (C * w[:, None]).T @ C, rtol=1e-4 if single else 1e-11, atol=1e-4 if single else 0
    )
    np.testing.assert_allclose(cross, C.T @ y[:, None], rtol=1e-4, atol=1e-4 * n)
    np.testing.assert_array_equal(found, found.T)


def test_rows_that_cannot_be_added_leave_the_model_as_it_was():
    X, y = waves_and_slopes(n=300)
    model, other = (up.NystromRegressor(KERNEL, 40, 1e-3) for _ in range(2))
    model.partial_fit(X, y)
    other.partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="sums of y overflow"):
        model.partial_fit(X, np.full(300, 1e120), sample_weight=np.full(300, 1e90))
    np.testing.assert_array_equal(model.predict(X), before)
    twin = copy.copy(model)
    twin.partial_fit(X + 1.0, y)
    model.partial_fit(X[:100], y[:100])
    other.partial_fit(X[:100], y[:100])
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
