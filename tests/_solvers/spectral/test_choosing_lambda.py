"""λ chosen from one decomposition is the λ that refitting by brute force would choose.

Tests `_solvers/spectral/grid.py`.
"""

from __future__ import annotations

import pickle
from functools import partial
from io import BytesIO

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

from tests import reference
from tests.made_up import CUBE, regression
from unpooled import SpectralRegressor
from unpooled._linalg.operator import NotFinite
from unpooled._solvers.spectral import criteria
from unpooled.filters import IteratedTikhonov, Landweber, NuMethod
from unpooled.kernels import Gaussian, Linear, Matern, Polynomial

mpl.use("Agg")

few = settings(max_examples=20, deadline=None, derandomize=True)
fewer = settings(few, max_examples=6)
seeds = st.integers(0, 10**6)
FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
CRITERIA = ("loo", "gcv", "cv")
every_filter = pytest.mark.parametrize("filter", FILTERS)
centring = pytest.mark.parametrize("center", [False, True])
STEPS = (1, 2, 4, 8, 16)  # λ = 1/t²: t² steps of Landweber, t of the ν-method
GRID = np.array([1 / t**2 for t in STEPS])

data = partial(regression, n=20, between=CUBE, noise=0.3, offset=0.5, then=(7,))


def coefficients(filter, K, y, t, share=1.0):
    """Every filter at λ = 1/t² and κ = 1 by brute force, on share·𝕂/n in place of 𝕂/n (on λ/share for ridge)."""
    lam = 1 / t**2 / share
    if y.ndim == 2:
        return np.column_stack([coefficients(filter, K, column, t, share) for column in y.T])
    return {
        "tikhonov": lambda: reference.ridge_coefficients(K, y, lam),
        "iterated-tikhonov": lambda: reference.iterated_ridge_coefficients(K, y, lam, 2),
        "cutoff": lambda: reference.cutoff_coefficients(K, y, lam),
        "landweber": lambda: reference.landweber_coefficients(K, y, share, t**2),
        "nu": lambda: reference.nu_coefficients(K, y, share, t, 1.0),
    }[filter]()


def fitted(filter, K, K_new, y, t, center, share=1.0):
    """The values on new rows of the fit by brute force, centred or not."""
    if not center:
        return K_new @ coefficients(filter, K, y, t, share)
    H = reference.centering(len(K))
    K_new = (K_new - K.mean(axis=0)) @ H
    return K_new @ coefficients(filter, H @ K @ H, H @ y, t, share) + y.mean(axis=0)


def leave_one_out(filter, K, y, t, center):
    """The mean squared error of N refits without one row each, N·λ held fixed."""
    n = len(y)
    errors = []
    for i in range(n):
        rest = np.arange(n) != i
        value = fitted(filter, K[np.ix_(rest, rest)], K[i : i + 1, rest], y[rest], t, center, share=(n - 1) / n)
        errors.append((value[0] - y[i]) ** 2)
    return np.mean(errors, axis=0)


@centring
@pytest.mark.parametrize(("solver", "rtol"), [("eigh", 1e-8), ("banded", 1e-8), ("low-rank", 1e-5), ("mixed", 1e-3)])
@fewer
@given(seed=seeds)
def test_leave_one_out_of_ridge_is_n_refits(center, solver, rtol, seed):
    X, y, _ = data(seed)
    Y = np.column_stack([y, np.cos(4 * X[:, 1])])
    model = SpectralRegressor(Gaussian(0.7), lam=GRID, fit_intercept=center, solver=solver).fit(X, Y)
    expected = [leave_one_out("tikhonov", Gaussian(0.7)(X), Y, t, center) for t in STEPS]
    assert_allclose(model.path_.criterion, expected, rtol=rtol)
    assert model.lam_ == GRID[np.argmin(np.mean(expected, axis=1))]
    assert model.path_.exact
    assert model.solver_ == solver


@centring
@pytest.mark.parametrize("kernel", [2.5 * Gaussian(0.7), Linear(), Polynomial(2)], ids=repr)
def test_leave_one_out_of_ridge_is_n_refits_with_any_kernel(center, kernel):
    X, y, _ = data(0)
    lam, n, K = 0.03, len(y), kernel(X)
    model = SpectralRegressor(kernel, lam=[lam], fit_intercept=center).fit(X, y)
    errors = []
    for i in range(n):
        rest = np.arange(n) != i
        refit = SpectralRegressor("precomputed", lam=lam * n / (n - 1), fit_intercept=center)
        errors.append(refit.fit(K[np.ix_(rest, rest)], y[rest]).predict(K[i : i + 1, rest])[0] - y[i])
    assert model.path_.criterion[0] == pytest.approx(np.mean(np.square(errors)), rel=1e-8)


@pytest.mark.parametrize("filter", [f for f in FILTERS if f != "tikhonov"])
@fewer
@given(seed=seeds)
def test_the_leave_one_out_shortcut_of_other_filters_is_near_where_it_is_lowest(filter, seed):
    """Within ten per cent at its minimum, thirty rows of one feature; far from the minimum it promises nothing."""
    X, y, _ = data(seed, n=30, d=1)
    model = SpectralRegressor(Gaussian(0.5), filter, lam=GRID, fit_intercept=False).fit(X, y)
    best = int(np.argmin(model.path_.criterion))
    brute_force = leave_one_out(filter, Gaussian(0.5)(X), y, STEPS[best], center=False)
    assert model.path_.criterion[best] == pytest.approx(brute_force, rel=0.1)
    assert not model.path_.exact


def test_only_leave_one_out_has_a_shortcut():
    X, y, _ = data(0)
    for criterion in ("gcv", "cv"):
        assert (
            SpectralRegressor(filter="landweber", lam=criterion, grid=GRID, fit_intercept=False).fit(X, y).path_.exact
        )


@every_filter
@centring
@pytest.mark.parametrize("solver", ["eigh", "low-rank"])
@fewer
@given(seed=seeds)
def test_gcv_and_df_are_those_of_the_hat_matrix(filter, center, solver, seed):
    X, y, _ = data(seed)
    n, K = len(y), Gaussian(0.7)(X)
    model = SpectralRegressor(Gaussian(0.7), filter, "gcv", center, grid=GRID, solver=solver).fit(X, y)
    for i, t in enumerate(STEPS):
        hat = fitted(filter, K, K, np.eye(n), t, center)
        df = np.trace(hat)
        gcv = np.mean((y - hat @ y) ** 2) / (1 - df / n) ** 2
        assert model.path_.df[i] == pytest.approx(df, rel=1e-5 if solver == "low-rank" else 1e-8, abs=1e-8)
        assert model.path_.criterion[i] == pytest.approx(gcv, rel=1e-4 if solver == "low-rank" else 1e-7)


@every_filter
@centring
@pytest.mark.parametrize(
    "cv",
    [3, 5, LeaveOneOut(), KFold(4), ShuffleSplit(3, test_size=0.4, random_state=1)],
    ids=["3", "5", "leave-one-out", "unshuffled", "overlapping"],
)
def test_cv_is_refitting_on_the_folds(filter, center, cv):
    X, y, _ = data(1)
    model = SpectralRegressor(Gaussian(0.7), filter, "cv", center, grid=GRID, cv=cv).fit(X, y)
    splitter = KFold(cv, shuffle=True, random_state=0) if isinstance(cv, int) else cv
    folds, K = list(splitter.split(X)), Gaussian(0.7)(X)
    for i, t in enumerate(STEPS):
        squares = [
            (fitted(filter, K[np.ix_(train, train)], K[np.ix_(test, train)], y[train], t, center) - y[test]) ** 2
            for train, test in folds
        ]
        assert model.path_.criterion[i] == pytest.approx(np.concatenate(squares).mean(), rel=1e-8)
    assert model.lam_ == GRID[np.argmin(model.path_.criterion)]


@centring
def test_cv_is_refitting_on_the_folds_with_weights(center):
    X, y, _ = data(2)
    w = np.random.default_rng(2).uniform(0.2, 3, size=len(y))
    model = SpectralRegressor(Gaussian(0.7), lam="cv", fit_intercept=center, grid=GRID, cv=4).fit(X, y, w)
    for lam, score in zip(GRID, model.path_.criterion):
        total = 0.0
        for train, test in KFold(4, shuffle=True, random_state=0).split(X):
            refit = SpectralRegressor(Gaussian(0.7), lam=lam, fit_intercept=center).fit(X[train], y[train], w[train])
            total += w[test] @ (refit.predict(X[test]) - y[test]) ** 2
        assert score == pytest.approx(total / w.sum(), rel=1e-8)


def test_random_state_shuffles_the_folds_and_nothing_else():
    X, y, _ = data(3)

    def score(**options):
        return (
            SpectralRegressor(Gaussian(0.7), grid=GRID, **{"fit_intercept": False, **options}).fit(X, y).path_.criterion
        )

    assert_array_equal(score(lam="cv", random_state=1), score(lam="cv", random_state=1))
    assert np.any(score(lam="cv", random_state=1) != score(lam="cv", random_state=2))
    assert_array_equal(score(lam="loo", random_state=1), score(lam="loo", random_state=2))


@pytest.mark.parametrize("criterion", CRITERIA)
@every_filter
@centring
def test_each_target_alone_chooses_as_with_per_target(criterion, filter, center):
    X, y, Z = data(4)
    Y = np.column_stack([y, 100 * np.random.default_rng(4).normal(size=len(y)), np.cos(X[:, 1])])
    options = {"filter": filter, "lam": criterion, "fit_intercept": center, "grid": GRID}
    together = SpectralRegressor(Gaussian(0.7), per_target=True, **options).fit(X, Y)
    alone = [SpectralRegressor(Gaussian(0.7), **options).fit(X, column) for column in Y.T]
    assert_array_equal(together.lam_, [model.lam_ for model in alone])
    assert_allclose(together.predict(Z), np.column_stack([model.predict(Z) for model in alone]), rtol=1e-8, atol=1e-8)
    assert_allclose(together.path_.criterion, np.column_stack([m.path_.criterion for m in alone]), rtol=1e-8)


@pytest.mark.parametrize("solver", ["mixed", "banded", "low-rank"])
def test_each_target_alone_chooses_as_with_per_target_on_the_other_routes(solver):
    X, y, Z = data(4)
    Y = np.column_stack([y, 100 * np.random.default_rng(4).normal(size=len(y)), np.cos(X[:, 1])])
    together = SpectralRegressor(Gaussian(0.7), lam=GRID, per_target=True, solver=solver, fit_intercept=False).fit(X, Y)
    alone = [
        SpectralRegressor(Gaussian(0.7), lam=GRID, solver=solver, fit_intercept=False).fit(X, column) for column in Y.T
    ]
    assert_array_equal(together.lam_, [model.lam_ for model in alone])
    assert_allclose(together.predict(Z), np.column_stack([model.predict(Z) for model in alone]), rtol=1e-6, atol=1e-6)


@every_filter
def test_one_lam_for_all_targets_has_the_lowest_mean_score(filter):
    X, y, _ = data(5)
    model = SpectralRegressor(Gaussian(0.7), filter, lam=GRID, fit_intercept=False).fit(
        X, np.column_stack([y, 3 * np.cos(X[:, 1])])
    )
    assert isinstance(model.lam_, float)
    assert model.lam_ == GRID[np.argmin(model.path_.criterion.mean(axis=1))]


@every_filter
def test_an_array_as_lam_is_leave_one_out_on_that_grid(filter):
    X, y, Z = data(6)
    by_array = SpectralRegressor(Gaussian(0.7), filter, lam=list(GRID), fit_intercept=False).fit(X, y)
    by_name = SpectralRegressor(Gaussian(0.7), filter, lam="loo", grid=GRID, fit_intercept=False).fit(X, y)
    assert by_array.lam_ == by_name.lam_
    assert by_array.path_.criterion_name == "loo"
    assert_array_equal(by_array.predict(Z), by_name.predict(Z))


@pytest.mark.parametrize("criterion", CRITERIA)
@every_filter
@centring
@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_path_predicts_what_a_fit_at_each_lam_predicts(criterion, filter, center, n_targets):
    X, y, Z = data(7)
    Y = y if n_targets == 1 else np.column_stack([y, y**2])
    options = {"filter": filter, "fit_intercept": center}
    model = SpectralRegressor(Gaussian(0.7), lam=criterion, grid=GRID, **options).fit(X, Y)
    each = [SpectralRegressor(Gaussian(0.7), lam=lam, **options).fit(X, Y).predict(Z) for lam in GRID]
    assert_allclose(model.path_.predict(Z), each, atol=1e-8)
    assert_allclose(model.predict(Z), each[int(np.flatnonzero(model.lam_ == GRID)[0])], atol=1e-8)


@pytest.mark.parametrize("criterion", CRITERIA)
@every_filter
@centring
def test_among_equal_scores_the_larger_lam_wins_whatever_the_order_of_the_grid(criterion, filter, center):
    X, _, _ = data(8)
    for grid in (GRID, GRID[::-1], GRID[[2, 0, 4, 1, 3]]):
        model = SpectralRegressor(Gaussian(0.7), filter, criterion, center, grid=grid).fit(X, np.zeros(len(X)))
        assert model.lam_ == GRID.max()


def test_the_order_of_the_grid_is_kept_and_changes_nothing():
    X, y, Z = data(9)
    shuffled = GRID[[2, 0, 4, 1, 3]]
    model = SpectralRegressor(Gaussian(0.7), lam=GRID, fit_intercept=False).fit(X, y)
    other = SpectralRegressor(Gaussian(0.7), lam=shuffled, fit_intercept=False).fit(X, y)
    assert_array_equal(other.path_.lam, shuffled)
    assert other.lam_ == model.lam_
    assert_allclose(other.predict(Z), model.predict(Z), rtol=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
@every_filter
@pytest.mark.parametrize("value", [0.0, 3.0, 0.1, 1e6])
def test_constant_labels_are_fitted(criterion, filter, value):
    X, _, Z = data(10)
    y = np.full(len(X), value)
    grid = np.logspace(0, -6, 7)
    centred = SpectralRegressor(Gaussian(0.7), filter, criterion, fit_intercept=True, grid=grid).fit(X, y)
    assert_allclose(centred.predict(Z), value, rtol=1e-12)
    plain = SpectralRegressor(Gaussian(0.7), filter, criterion, grid=grid, fit_intercept=False).fit(X, y)
    assert_allclose(plain.predict(X), value, rtol=0.05)


@every_filter
@centring
def test_one_row_with_a_given_lam_is_fitted(filter, center):
    model = SpectralRegressor(Gaussian(0.7), filter, lam=0.25, fit_intercept=center).fit([[1.0, 2.0]], [3.0])
    expected = 3.0 if center else fitted(filter, np.ones((1, 1)), np.ones((1, 1)), np.array([3.0]), 2, False)[0]
    assert model.predict([[1.0, 2.0]])[0] == pytest.approx(expected)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_choosing_lam_from_one_row_is_refused(criterion):
    with pytest.raises(ValueError, match=f"^lam='{criterion}' needs at least 2 rows.*: give lam as a number$"):
        SpectralRegressor(lam=criterion, fit_intercept=False).fit([[1.0, 2.0]], [3.0])


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@centring
def test_two_rows_are_enough_to_choose_from(criterion, center):
    model = SpectralRegressor(Gaussian(1.0), lam=criterion, fit_intercept=center).fit([[0.0], [1.0]], [0.0, 1.0])
    assert np.all(np.isfinite(model.predict([[0.5]])))


def test_the_default_grid_reaches_from_kappa_squared_nine_decades_down():
    X, y, _ = data(11)
    for kernel in (Gaussian(0.7), 2.5 * Gaussian(0.7), Linear()):
        kappa_sq = kernel.kappa(X) ** 2
        grid = SpectralRegressor(kernel, fit_intercept=False).fit(X, y).path_.lam
        assert (grid.max(), grid.min()) == (pytest.approx(kappa_sq), pytest.approx(1e-9 * kappa_sq))


def neighbours(grid, a, b):
    places = np.searchsorted(np.sort(grid), [a, b])
    return abs(int(places[0]) - int(places[1])) <= 1


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@centring
def test_choosing_in_single_precision_and_solving_in_double_is_as_good_as_double(criterion, center):
    X, y, Z = data(12, n=1000)
    Y = np.column_stack([y, y[::-1] + np.cos(5 * X[:, 1])])
    mixed = SpectralRegressor(Matern(0.5), "tikhonov", criterion, center).fit(X, Y)
    direct = SpectralRegressor(Matern(0.5), "tikhonov", criterion, center, solver="eigh").fit(X, Y)
    assert (mixed.solver_, direct.solver_) == ("mixed", "eigh")
    assert neighbours(direct.path_.lam, mixed.lam_, direct.lam_)
    same = SpectralRegressor(Matern(0.5), "tikhonov", mixed.lam_, center, solver="eigh").fit(X, Y)
    assert_allclose(mixed.predict(Z), same.predict(Z), atol=1e-9)
    assert_allclose(mixed.path_.df[:12], direct.path_.df[:12], rtol=1e-3)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("filter", ["tikhonov", "iterated-tikhonov"])
def test_without_noise_single_precision_does_not_stop_short_of_the_best_lam(criterion, filter):
    X, _, _ = data(12, n=1000)
    y = np.cos(5 * X[:, 1])
    auto = SpectralRegressor(Matern(0.5), filter, criterion, fit_intercept=True).fit(X, y)
    direct = SpectralRegressor(Matern(0.5), filter, criterion, fit_intercept=True, solver="eigh").fit(X, y)
    chosen = int(np.flatnonzero(direct.path_.lam == auto.lam_)[0])
    assert direct.path_.criterion[chosen] <= 1.1 * direct.path_.criterion.min()


@pytest.mark.parametrize("grid", [[1e-12], [1e-8], [1e-7, 1e-8], [1e-3, 1e-9]])
def test_a_grid_too_small_for_single_precision_is_left_to_double(grid):
    X, y, Z = data(13, n=1000)
    auto = SpectralRegressor(Matern(0.3), lam=grid, fit_intercept=False).fit(X, y)
    direct = SpectralRegressor(Matern(0.3), lam=grid, solver="eigh", fit_intercept=False).fit(X, y)
    assert auto.lam_ == direct.lam_
    assert_allclose(auto.predict(Z), direct.predict(Z), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-140, 1e-30, 1e30, 1e140])
def test_labels_of_any_size_choose_the_same_lam_in_single_precision(scale):
    X, y, _ = data(14, n=1000)
    plain, scaled = (SpectralRegressor(Matern(0.3), fit_intercept=False).fit(X, labels) for labels in (y, scale * y))
    assert plain.solver_ == scaled.solver_ == "mixed"
    assert scaled.lam_ == plain.lam_
    assert_allclose(scaled.predict(X[:5]) / scale, plain.predict(X[:5]), rtol=1e-8)


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@every_filter
@centring
def test_the_certified_low_rank_route_chooses_and_predicts_as_the_full_decomposition(criterion, filter, center):
    X, y, Z = data(15, n=1000, d=1)
    options = {"filter": filter, "lam": criterion, "fit_intercept": center, "grid": np.logspace(0, -5, 11)}
    thin = SpectralRegressor(Gaussian(0.5), **options).fit(X, y)
    full = SpectralRegressor(Gaussian(0.5), solver="eigh", **options).fit(X, y)
    assert (thin.solver_, full.solver_) == ("low-rank", "eigh")
    assert neighbours(full.path_.lam, thin.lam_, full.lam_)
    assert_allclose(thin.path_.predict(Z), full.path_.predict(Z), atol=1e-6 * np.abs(y).max())
    assert_allclose(thin.path_.criterion, full.path_.criterion, rtol=1e-6)
    assert_allclose(thin.path_.df, full.path_.df, rtol=1e-5)


@every_filter
def test_a_fixed_lam_on_a_large_smooth_sample_takes_the_low_rank_route(filter):
    X, y, Z = data(16, n=1000, d=1)
    thin = SpectralRegressor(Gaussian(0.5), filter, lam=1e-3, fit_intercept=False).fit(X, y)
    full = SpectralRegressor(Gaussian(0.5), filter, lam=1e-3, solver="eigh", fit_intercept=False).fit(X, y)
    assert thin.solver_ == "low-rank"
    assert_allclose(thin.predict(Z), full.predict(Z), atol=1e-6 * np.abs(y).max())


@pytest.mark.parametrize("criterion", ["loo", "gcv"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@centring
@pytest.mark.parametrize("n", [64, 65, 700])  # one block, a second of one row, and more panels than are held at a time
def test_a_banded_reduction_scores_and_solves_as_the_full_decomposition(criterion, dtype, center, n):
    X, y, Z = (array.astype(dtype) for array in data(22, n=n))
    Y, w = np.column_stack([y, y[::-1]]), np.random.default_rng(22).uniform(0.2, 3, size=n)
    options = {"lam": criterion, "fit_intercept": center, "grid": np.logspace(0, -3, 4)}
    banded = SpectralRegressor(Matern(0.5), solver="banded", **options).fit(X, Y, w)
    direct = SpectralRegressor(Matern(0.5), solver="eigh", **options).fit(X, Y, w)
    close = 1e-8 if dtype == np.float64 else 1e-2
    assert banded.solver_ == "banded"
    assert banded.lam_ == direct.lam_
    assert_allclose(banded.path_.criterion, direct.path_.criterion, rtol=close)
    assert_allclose(banded.path_.df, direct.path_.df, rtol=close)
    assert_allclose(banded.path_.predict(Z), direct.path_.predict(Z), atol=close)


def test_every_lam_of_a_large_path_can_be_predicted_with():
    X, y, Z = data(23, n=1000)
    large = SpectralRegressor(Matern(2.0), fit_intercept=False).fit(X, y)
    direct = SpectralRegressor(Matern(2.0), solver="eigh", fit_intercept=False).fit(X, y)
    assert large.solver_ == "mixed"
    assert_allclose(large.path_.predict(Z), direct.path_.predict(Z), atol=1e-6 * np.abs(y).max())


def test_a_path_as_columns_has_one_row_a_lam():
    X, y, _ = data(17)
    path = SpectralRegressor(Gaussian(0.7), "landweber", lam="gcv", grid=GRID, fit_intercept=False).fit(X, y).path_
    assert list(path.as_dict()) == ["lam", "df", "iterations", "gcv"]
    assert {len(column) for column in path.as_dict().values()} == {len(path)} == {len(GRID)}
    assert_array_equal(path.as_dict()["iterations"], [t**2 for t in STEPS])
    two = SpectralRegressor(Gaussian(0.7), lam=GRID, fit_intercept=False).fit(X, np.column_stack([y, y])).path_
    assert list(two.as_dict()) == ["lam", "df", "loo_0", "loo_1"]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("tikhonov", None),
        (IteratedTikhonov(3), None),
        ("cutoff", None),
        (Landweber(), [t**2 for t in STEPS]),
        (NuMethod(2), list(STEPS)),
    ],
    ids=FILTERS,
)
def test_iterations_are_counted_where_lam_stands_for_a_number_of_them(filter, expected):
    X, y, _ = data(18)
    iterations = SpectralRegressor(Gaussian(0.7), filter, lam=GRID, fit_intercept=False).fit(X, y).path_.iterations
    assert iterations is None if expected is None else list(iterations) == expected


def test_a_choice_at_the_end_of_the_grid_is_said_so():
    X, y, _ = data(19)
    inside = SpectralRegressor(Gaussian(0.7), fit_intercept=False).fit(X, y)
    assert not inside.path_.at_edge
    lam = inside.lam_
    assert SpectralRegressor(Gaussian(0.7), lam=[lam, 10 * lam], fit_intercept=False).fit(X, y).path_.at_edge
    assert SpectralRegressor(Gaussian(0.7), lam=[lam, lam / 10], fit_intercept=False).fit(X, y).path_.at_edge
    assert not SpectralRegressor(Gaussian(0.7), lam=[lam], fit_intercept=False).fit(X, y).path_.at_edge


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_path_can_be_plotted(n_targets, criterion):
    X, y, _ = data(20)
    Y = y if n_targets == 1 else np.column_stack([y, y**2])
    path = SpectralRegressor(Gaussian(0.7), lam=criterion, per_target=True, fit_intercept=False).fit(X, Y).path_
    given_axes = Figure().subplots()
    assert path.plot(given_axes) is given_axes
    assert given_axes.get_xscale() == "log"
    assert len(given_axes.lines) >= n_targets
    assert given_axes.get_xlabel()
    assert given_axes.get_ylabel()
    given_axes.figure.savefig(BytesIO())


def test_a_fixed_lam_has_no_path_and_forgets_an_earlier_one():
    X, y, _ = data(21)
    model = SpectralRegressor(Gaussian(0.7), fit_intercept=False).fit(X, y)
    assert model.path_ is not None
    assert not hasattr(model.set_params(lam=0.1).fit(X, y), "path_")
    assert model.lam_ == 0.1


def test_gcv_of_sums_is_its_definition_and_infinite_where_nothing_is_left():
    error, df = np.asarray([[4.0, 1.0], [2.0, 0.0], [1.0, 1.0]]), np.asarray([5.0, 10.0, 12.0])
    assert_array_equal(criteria.gcv(error, df, 10), [[16.0, 4.0], [np.inf, np.inf], [np.inf, np.inf]])


@few
@given(st.integers(1, 30), st.booleans(), seeds)
def test_fits_of_random_signs_have_the_degrees_of_freedom_as_their_mean(n, weighted, seed):
    """Over all 2ⁿ signs of few rows the mean of zᵀHz is tr H, whatever the weights are."""
    rng, n = np.random.default_rng(seed), 1 + n % 8
    H, weights = rng.normal(size=(n, n)), rng.uniform(0.5, 2.0, n) if weighted else None
    every = (np.arange(2**n)[None, :] >> np.arange(n)[:, None]) & 1
    z = criteria.random_signs(every, weights)
    w = np.ones(n) if weights is None else weights
    products = np.einsum("ik,i,ij,jk->k", z, np.sqrt(w), H, np.sqrt(w)[:, None] * z)
    labels = rng.normal(size=3)
    found = criteria.trace_by_signs(np.concatenate([labels, products])[None, :], 2**n)
    assert_allclose(found, [np.trace(H)], atol=1e-10)


def test_values_that_are_not_finite_are_the_same_error_after_a_trip_between_processes():
    error = pickle.loads(pickle.dumps(NotFinite()))
    assert type(error) is NotFinite
    assert str(error) == str(NotFinite())
