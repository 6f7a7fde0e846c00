"""CorrentropyRegressor is the descent of Xie, Hu, Wang and Wang (2022): identities with a brute-force twin.

Tests `_solvers/descent/steps.py`.
"""

from __future__ import annotations

import math
import pickle
from functools import partial

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import unpooled as up
from tests import reference
from tests.made_up import regression, sine
from unpooled import CorrentropyRegressor, SpectralRegressor
from unpooled._base.arrays import to_numpy
from unpooled._solvers.descent.descent import Task, descend
from unpooled._solvers.descent.robust import Candidates
from unpooled.kernels import Gaussian, Laplacian, Linear
from unpooled.losses import Correntropy, Huber, Loss, Squared

few = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 10**6)
LOSSES = ("correntropy", "huber", "squared")
every_loss = pytest.mark.parametrize("loss", LOSSES)
centring = pytest.mark.parametrize("center", [False, True])
PSI = {
    "correntropy": lambda u, s: u * np.exp(-(u**2) / (2 * s**2)),
    "huber": lambda u, s: np.clip(u, -s, s),
    "squared": lambda u, _: u,
}


def kernel(X, Z):
    return 2.0 * np.exp(-np.sum((X[:, None] - Z[None]) ** 2, axis=2) / (2 * 0.7**2))


KERNEL = 2.0 * Gaussian(0.7)  # κ² = 2: the step must shrink by it


def median(y, w):
    """The middle of the points where half of the weight is reached."""
    order = np.argsort(y)
    mass = np.cumsum(w[order])
    return (y[order][np.argmax(mass >= 0.5 - 1e-12)] + y[order][np.argmax(mass > 0.5 + 1e-12)]) / 2


def twin(X, y, Z, loss, scale, n_iter, *, step=1.0, decay=0.0, center=False, weights=None, unlabeled=None):
    """f(Z) by the formulas, one step after the other, on the rows of D* = (X, unlabeled)."""

    def psi(u):
        return PSI[loss](u, scale)

    n = len(y)
    points = X if unlabeled is None else np.vstack([X, unlabeled])
    v = np.ones(n) if weights is None else weights
    w = v / v.sum()
    w_all = np.append(v, np.ones(len(points) - n))
    w_all = w_all / w_all.sum()
    K, K_new, b = kernel(points, points), kernel(Z, points), 0.0
    constant = 0.0
    if center:
        K, K_new = (reference.centered_kernel(kernel, A, points, points, w_all) for A in (points, Z))
        constant = 2.0  # the constants join with κ² as their kernel
        b = median(y, w)
        for _ in range(1000):
            omega = w * np.where(b == y, 1.0, psi(b - y) / np.where(b == y, 1.0, b - y))
            b = omega @ y / omega.sum()
    y = y - b
    c, beta = np.zeros(len(points)), 0.0
    for t in range(1, n_iter + 1):
        f = K @ c + beta
        u = f[:n] - y
        omega = np.where(u == 0, 1.0, psi(u) / np.where(u == 0, 1.0, u))
        gradient = np.append(omega * (w_all[:n] * f[:n] - w * y), (w @ omega) * w_all[n:] * f[n:])
        eta = step / 2.0 * t**-decay
        c, beta = c - eta * gradient, beta - eta * constant * gradient.sum()
    return K_new @ c + b + beta


data = partial(regression, n=14, function=sine(1), noise=0.3, outliers=0.2, others=(6,))


@every_loss
@centring
@few
@given(
    seed=seeds,
    n=st.integers(1, 20),
    n_iter=st.integers(1, 60),
    scale=st.floats(0.3, 30),
    step=st.floats(0.1, 1),
    decay=st.sampled_from([0.0, 0.3, 0.9]),
    weighted=st.booleans(),
    n_unlabeled=st.integers(0, 5),
)
def test_it_is_the_descent_written_out(loss, center, seed, n, n_iter, scale, step, decay, weighted, n_unlabeled):
    assume(n != 2 or loss != "correntropy" or not center)  # two labels far apart are two equally good intercepts
    X, y, Z = data(seed, n=n)
    rng = np.random.default_rng(seed + 1)
    weights = rng.uniform(0.2, 3, n) if weighted else None
    U = rng.normal(size=(n_unlabeled, 2)) if n_unlabeled else None
    model = CorrentropyRegressor(KERNEL, scale, n_iter, step, decay, loss=loss, center=center)
    got = model.fit(X, y, weights, unlabeled=U).predict(Z)
    options = {"step": step, "decay": decay, "center": center, "weights": weights, "unlabeled": U}
    assert_allclose(got, twin(X, y, Z, loss, scale, n_iter, **options), rtol=0, atol=1e-9 * np.abs(y).max())


@centring
@few
@given(seed=seeds, n_iter=st.integers(1, 5000), weighted=st.booleans())
def test_an_infinite_scale_is_landweber(center, seed, n_iter, weighted):
    X, y, Z = data(seed)
    weights = np.random.default_rng(seed).uniform(0.2, 3, len(y)) if weighted else None
    expected = SpectralRegressor(KERNEL, "landweber", lam=2.0 / n_iter, center=center).fit(X, y, weights)
    for options in ({"scale": 1e9}, {"scale": math.inf}, {"loss": "squared"}, {"loss": "huber", "scale": 1e9}):
        model = CorrentropyRegressor(KERNEL, n_iter=n_iter, center=center, **options).fit(X, y, weights)
        assert_allclose(model.predict(Z), expected.predict(Z), rtol=0, atol=1e-8 * np.abs(y).max())
        assert model.intercept_ == pytest.approx(expected.intercept_, abs=1e-9 * np.abs(y).max())


@centring
@few
@given(seed=seeds, n_iter=st.integers(1, 500), n_unlabeled=st.integers(1, 9))
def test_with_an_infinite_scale_unlabeled_rows_are_labels_inflated(center, seed, n_iter, n_unlabeled):
    """Paper 002, (3.22): labels times |D*|/|D|, and zero for rows without."""
    X, y, Z = data(seed)
    U = np.random.default_rng(seed + 1).normal(size=(n_unlabeled, 2))
    b = y.mean() if center else 0.0
    inflated = np.append((y - b) * (len(y) + n_unlabeled) / len(y), np.zeros(n_unlabeled))
    expected = SpectralRegressor(KERNEL, "landweber", lam=2.0 / n_iter, center=center).fit(np.vstack([X, U]), inflated)
    model = CorrentropyRegressor(KERNEL, math.inf, n_iter, center=center).fit(X, y, unlabeled=U)
    assert_allclose(model.predict(Z), expected.predict(Z) + b, rtol=0, atol=1e-8 * np.abs(y).max())


@pytest.mark.parametrize("loss", ["correntropy", "huber"])
@pytest.mark.parametrize("decay", [0.0, 0.25])
@centring
def test_jumps_stay_near_the_steps_they_stand_for(loss, decay, center):
    X, y, Z = data(3, n=40)
    expected = twin(X, y, Z, loss, 1.0, 3000, center=center, decay=decay)
    options = {"scale": 1.0, "n_iter": 3000, "loss": loss, "center": center, "decay": decay}
    size = np.abs(expected).max()
    assert_allclose(CorrentropyRegressor(KERNEL, jump=0, **options).fit(X, y).predict(Z), expected, atol=1e-8 * size)
    errors = [
        np.abs(CorrentropyRegressor(KERNEL, jump=jump, **options).fit(X, y).predict(Z) - expected).max()
        for jump in (0.02, 0.1)
    ]
    assert errors[0] < 2e-3 * size
    assert errors[1] < 5e-2 * size


@pytest.mark.parametrize("route", ["low-rank", "products", "eigh"])
@centring
def test_every_route_leads_to_the_same_function(route, center):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000 if route != "eigh" else 300, 1))
    y = np.sin(X[:, 0]) + 5.0 * (rng.random(len(X)) < 0.2)
    Z = rng.normal(size=(6, 1))
    k, n_iter = (2.0 * Gaussian(0.7), 60) if route != "products" else (Laplacian(0.1), 60)
    model = CorrentropyRegressor(k, 1.0, n_iter, center=center).fit(X, y)
    assert model.solver_ == route
    plain = CorrentropyRegressor("precomputed", 1.0, n_iter, center=center).fit(k(X), y)
    assert plain.solver_ == "eigh"
    assert_allclose(model.predict(Z), plain.predict(k(Z, X)), atol=1e-7)
    if route != "products":
        assert_allclose(model.predict(Z), twin(X, y, Z, "correntropy", 1.0, n_iter, center=center), atol=1e-7)


@every_loss
@few
@given(seed=seeds, shift=st.sampled_from([1.0, -1e3, 1e6]))
def test_a_shift_of_the_labels_moves_the_intercept_only(loss, seed, shift):
    X, y, Z = data(seed)
    model = CorrentropyRegressor(KERNEL, 1.0, 700, loss=loss, center=True).fit(X, y)
    moved = clone(model).fit(X, y + shift)
    tolerance = 1e-9 * (np.abs(y).max() + abs(shift))
    assert_allclose(moved.predict(Z), model.predict(Z) + shift, rtol=0, atol=tolerance)
    assert moved.intercept_ == pytest.approx(model.intercept_ + shift, abs=tolerance)
    assert_allclose(moved.predictor_.coef, model.predictor_.coef, rtol=0, atol=tolerance)


@every_loss
@centring
@few
@given(seed=seeds, unit=st.sampled_from([1e-4, 3.0, 1e5]))
def test_another_unit_of_the_labels_is_another_unit_of_the_predictions(loss, center, seed, unit):
    X, y, Z = data(seed)
    model = CorrentropyRegressor(KERNEL, 1.5, 40, loss=loss, center=center).fit(X, y)
    scaled = CorrentropyRegressor(KERNEL, 1.5 * unit, 40, loss=loss, center=center).fit(X, unit * y)
    assert_allclose(scaled.predict(Z), unit * model.predict(Z), rtol=1e-9, atol=1e-10 * unit)


@few
@given(seed=seeds)
@centring
def test_how_far_off_a_gross_outlier_is_does_not_matter(center, seed):
    X, y, Z = data(seed, far=0.0)
    off = np.arange(len(y)) % 5 == 0
    near, far = (CorrentropyRegressor(KERNEL, 1.0, 50, center=center).fit(X, np.where(off, v, y)) for v in (1e3, -1e6))
    rest = CorrentropyRegressor(KERNEL, 1.0, 50, center=center).fit(X, y, sample_weight=None)
    assert_allclose(near.predict(Z), far.predict(Z), atol=1e-6 if center else 1e-12)
    assert not np.allclose(near.predict(Z), rest.predict(Z))


@every_loss
@centring
@few
@given(
    seed=seeds, counts=st.lists(st.integers(0, 4), min_size=14, max_size=14).filter(any), n_unlabeled=st.integers(0, 3)
)
def test_weights_are_repeated_rows_beside_unlabeled_ones(loss, center, seed, counts, n_unlabeled):
    X, y, Z = data(seed)
    U = np.random.default_rng(seed).normal(size=(n_unlabeled, 2))
    model = CorrentropyRegressor(KERNEL, 1.0, 40, loss=loss, center=center)
    expected = model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), unlabeled=U).predict(Z)
    got = clone(model).fit(X, y, np.array(counts), unlabeled=U).predict(Z)
    assert_allclose(got, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(y).max()))


def test_only_ratios_of_weights_matter_without_unlabeled_rows():
    X, y, Z = data(0)
    w = np.linspace(0.1, 1, 14)
    model = CorrentropyRegressor(KERNEL, 1.0, 40)
    assert_allclose(clone(model).fit(X, y, 1e6 * w).predict(Z), clone(model).fit(X, y, w).predict(Z), rtol=1e-12)
    equal = clone(model).fit(X, y, np.full(14, 3.0), unlabeled=Z)
    assert_allclose(equal.predict(Z), clone(model).fit(np.tile(X, (3, 1)), np.tile(y, 3), unlabeled=Z).predict(Z))


def test_no_unlabeled_rows_are_none():
    X, y, Z = data(0)
    expected = CorrentropyRegressor(scale=1.0, n_iter=30, center=True).fit(X, y).predict(Z)
    for none in (None, [], np.empty((0, 2)), torch.empty((0, 2)), pd.DataFrame({"a": [], "b": []})):
        model = CorrentropyRegressor(scale=1.0, n_iter=30, center=True).fit(X, y, unlabeled=none)
        assert_array_equal(model.predict(Z), expected)


@centring
def test_unlabeled_rows_do_not_run_away_with_what_the_loss_rejects(center):
    X, y, Z = data(0, n=30)
    y[::3] += 50.0
    sizes = [
        np.abs(CorrentropyRegressor(KERNEL, 0.5, n, center=center).fit(X, y, unlabeled=Z).predict(X)).max()
        for n in (100, 10**4, 10**6)
    ]
    assert max(sizes) < 10 * np.abs(np.delete(y, np.s_[::3])).max()


def test_unlabeled_rows_go_with_a_search():
    X, y, Z = data(0, n=40)
    model = CorrentropyRegressor(KERNEL, center=True).fit(X, y, unlabeled=Z)
    assert model.predictor_.n_points == 46
    assert np.all(np.isfinite(model.predict(Z)))


@every_loss
@centring
def test_each_target_is_fitted_as_if_alone(loss, center):
    X, y, Z = data(0, n=30)
    Y = np.column_stack([y, 100 * np.cos(X[:, 1])])
    for options in ({"scale": 1.0, "n_iter": 50}, {"scale": [1.0, 90.0], "n_iter": [50, 9]}, {}):
        both = CorrentropyRegressor(KERNEL, loss=loss, center=center, **options).fit(X, Y)
        for t in range(2):
            own = {name: value[t] if isinstance(value, list) else value for name, value in options.items()}
            one = CorrentropyRegressor(KERNEL, loss=loss, center=center, **own).fit(X, Y[:, t])
            size = np.abs(Y[:, t]).max()
            # Past the single steps, the columns of one run settle together.
            assert_allclose(both.predict(Z)[:, t], one.predict(Z), rtol=0, atol=1e-5 * size)
            assert_allclose(np.broadcast_to(both.scale_, 2)[t], one.scale_, rtol=1e-9)
            assert np.broadcast_to(both.n_iter_, 2)[t] == one.n_iter_


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{"scale": 1e-3, "n_iter": 30}, {}])
def test_labels_any_number_of_scales_off_raise_no_alarm(dtype, options):
    X, y, Z = (a.astype(dtype) for a in data(0, n=30))
    y[3] = 1e14 if dtype == "float32" else 1e145
    for center in (False, True):
        model = CorrentropyRegressor(KERNEL, center=center, **options).fit(X, y)
        assert np.all(np.abs(model.predict(Z)) < 10)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_any_number_of_steps_can_be_asked_for(decay):
    """σ = ∞ after t steps of sizes t^{-decay} is Landweber after as many unit steps as they add up to."""
    X, y, Z = data(0, far=0.0)
    n_iter = 10**9
    total = n_iter if decay == 0 else 2 * math.sqrt(n_iter)
    expected = SpectralRegressor(KERNEL, "landweber", lam=2.0 / total).fit(X, y)
    got = CorrentropyRegressor(KERNEL, math.inf, n_iter, decay=decay).fit(X, y).predict(Z)
    assert_allclose(got, expected.predict(Z), rtol=0, atol=1e-3)


def test_a_loss_of_ones_own_takes_part():
    class LogCosh(Loss):
        """log cosh u."""

        def value(self, u):
            return np.log(np.cosh(u))

        def derivative(self, u):
            return np.tanh(u)

        @property
        def bound(self):
            return 1.0

    PSI["own"] = lambda u, _: np.tanh(u)
    X, y, Z = data(0)
    for center in (False, True):
        model = CorrentropyRegressor(KERNEL, n_iter=50, loss=LogCosh(), center=center).fit(X, y)
        assert_allclose(model.predict(Z), twin(X, y, Z, "own", None, 50, center=center), atol=1e-9)
    assert CorrentropyRegressor(KERNEL, loss=LogCosh()).fit(X, y).n_iter_ >= 1


def test_a_loss_object_brings_its_scale():
    X, y, Z = data(0)
    for name, loss in (("correntropy", Correntropy(0.7)), ("huber", Huber(0.7)), ("squared", Squared())):
        by_object = CorrentropyRegressor(KERNEL, n_iter=30, loss=loss).fit(X, y)
        by_name = CorrentropyRegressor(KERNEL, 0.7, 30, loss=name).fit(X, y)
        assert_array_equal(by_object.predict(Z), by_name.predict(Z))
        assert by_object.scale_ == by_name.scale_ == (0.7 if name != "squared" else math.inf)


def test_the_path_holds_what_shorter_descents_give():
    X, y, Z = data(0, n=40)
    for center in (False, True):
        model = CorrentropyRegressor(KERNEL, 1.0, 1500, center=center).fit(X, y)
        path = model.path_.predict(Z)
        assert path.shape == (len(model.path_), 6)
        assert_allclose(path[-1], model.predict(Z), atol=1e-12)
        assert model.path_.n_iter[-1] == 1500
        for i in (0, 5, len(model.path_) - 2):
            shorter = clone(model).set_params(n_iter=int(model.path_.n_iter[i])).fit(X, y)
            assert_allclose(path[i], shorter.predict(Z), atol=1e-8)
        assert list(model.path_.as_dict()) == ["n_iter"]


def test_many_candidates_in_one_run_are_as_many_fits():
    X, y, Z = data(0, n=30)
    Y = np.column_stack([y, 10 * y])
    U = Z + 0.1
    candidates = Candidates(
        np.array([[0.5, 5.0], [math.inf, 20.0], [0.5, 5.0], [2.0, 7.0]]), np.array([30, 7, 700, 30])
    )
    task = Task(KERNEL, X, Y, None, True, 2.0, Correntropy(), unlabeled=U)
    out = descend(task, candidates)
    assert out.coef.shape == (36, 4, 2)
    assert out.intercept.shape == out.b.shape == (4, 2)
    for j in range(4):
        model = CorrentropyRegressor(KERNEL, candidates.scale[j], int(candidates.n_iter[j]), center=True)
        expected = model.fit(X, Y, unlabeled=U).predict(Z)
        f = kernel(Z, task.points()) @ out.coef[:, j, :] + out.intercept[j]
        # Past the single steps, the columns of one run settle together: to 1e-6, each in its unit.
        assert np.all(np.abs(f - expected) <= 1e-5 * np.abs(Y).max(axis=0))


LIBRARIES = {"torch": torch.asarray, "strict": array_api_strict.asarray}


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES.keys())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@every_loss
@pytest.mark.parametrize(
    "options", [{"scale": 1.0, "n_iter": 40}, {"scale": 1.0, "n_iter": 2}, {"cv": 2, "n_iter": 60}]
)
def test_other_arrays_give_the_same_numbers_and_stay_what_they_are(library, dtype, loss, options):
    X, y, Z = (a.astype(dtype) for a in data(1, n=24))
    model = CorrentropyRegressor(Gaussian(0.7), loss=loss, center=True, **options)
    expected = clone(model).fit(X, y, np.linspace(0.1, 1, 24), unlabeled=Z)
    assert expected.predict(Z).dtype == expected.predictor_.coef.dtype == dtype
    theirs = model.fit(library(X), library(y), np.linspace(0.1, 1, 24), unlabeled=library(Z))
    got = theirs.predict(library(Z))
    assert type(got) is type(library(Z))
    assert to_numpy(got).dtype == dtype
    assert theirs.n_iter_ == expected.n_iter_
    assert_allclose(to_numpy(got), expected.predict(Z), rtol=0, atol=2e-3 if dtype == "float32" else 1e-8)


def test_other_arrays_choose_the_same():
    X, y, Z = data(1, n=24)
    expected = CorrentropyRegressor(Gaussian(0.7), cv=2, center=True).fit(X, y)
    theirs = CorrentropyRegressor(Gaussian(0.7), cv=2, center=True).fit(torch.asarray(X), torch.asarray(y))
    assert (theirs.scale_, theirs.n_iter_) == (expected.scale_, expected.n_iter_)
    assert_allclose(theirs.predict(torch.asarray(Z)).numpy(), expected.predict(Z), rtol=0, atol=1e-8)


def same(a, b, Z):
    assert_array_equal(a.predict(Z), b.predict(Z), strict=True)
    for name in ("scale_", "n_iter_", "intercept_"):
        assert type(getattr(a, name)) is type(getattr(b, name))
        assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.solver_, a.kernel_, a.n_features_in_) == (b.solver_, b.kernel_, b.n_features_in_)
    assert type(a.loss_) is type(b.loss_)
    for name, column in a.path_.as_dict().items():
        assert_array_equal(column, b.path_.as_dict()[name])


MODELS = {
    "chosen": {},
    "centred": {"center": True, "kernel": Linear()},
    "fixed": {"scale": 0.5, "n_iter": 20, "step": 0.5, "decay": 0.2},
    "infinite": {"scale": math.inf, "n_iter": 20},
    "one a target": {"scale": [1.0, math.inf], "n_iter": [3, 20]},
    "huber": {"loss": "huber", "n_iter": 50},
    "squared": {"loss": "squared"},
    "an object": {"loss": Huber(2.0), "n_iter": 9, "jump": 0.0},
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_saved_model_comes_back_exactly(name, dtype, tmp_path):
    X, y, Z = (a.astype(dtype) for a in data(2, n=25))
    Y = np.column_stack([y, 2 + y * y])
    for labels in (Y,) if "target" in name else (y, Y):
        model = CorrentropyRegressor(**MODELS[name]).fit(X, labels)
        up.save(model, tmp_path / "a.model")
        again = up.load(tmp_path / "a.model")
        same(model, again, Z)
        up.save(again, tmp_path / "b.model")
        same(model, up.load(tmp_path / "b.model"), Z)
        assert_array_equal(clone(again).fit(X, labels).predict(Z), model.predict(Z))
        same(model, pickle.loads(pickle.dumps(model)), Z)
    with pytest.raises(ValueError, match="predicts after its last iteration only"):
        again.path_.predict(Z)


def test_a_precomputed_matrix_is_the_kernel_on_the_rows():
    X, y, Z = data(0, n=30)
    w = np.arange(30) % 4 * 1.0
    for options in ({}, {"scale": 1.0, "n_iter": 300}):
        direct = CorrentropyRegressor(KERNEL, center=True, **options).fit(X, y, w)
        by_matrix = CorrentropyRegressor("precomputed", center=True, **options).fit(KERNEL(X), y, w)
        assert_allclose(by_matrix.predict(KERNEL(Z, X)), direct.predict(Z), atol=1e-6)
        assert by_matrix.path_.predict(KERNEL(Z, X)).shape == (len(by_matrix.path_), 6)


X0, y0, Z0 = data(0)
BAD = {
    "scale": [0, -1.0, math.nan, "big", None, True, [1.0, 2.0], [], [[1.0]], 1j, {}],
    "n_iter": [0, -1, 1.5, math.nan, math.inf, "many", None, True, [1, 2], 1j, {}],
    "step": [0, -0.5, 1.1, math.nan, "1", None, True, [0.5]],
    "decay": [1.0, -0.1, math.nan, "0", None, True],
    "jump": [-0.1, 0.6, math.nan, "0", None, True],
    "loss": ["l1", None, 3, Huber],
    "cv": [0, 1, -3, "x", [], [([], [1])]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_parameter_that_cannot_be_right_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name) as caught:
        CorrentropyRegressor(**{name: value}).fit(X0, y0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("unlabeled", "match"),
    [
        (np.full((2, 2), np.nan), "^unlabeled cannot be used: X contains NaN"),
        (np.ones((3, 5)), "^unlabeled cannot be used.*5 features"),
        (np.ones(3), "^unlabeled cannot be used"),
        ("rows", "^unlabeled cannot be used"),
        (torch.ones((3, 5)), "^unlabeled cannot be used.*5 features"),
    ],
)
def test_unlabeled_rows_that_do_not_fit_are_refused(unlabeled, match):
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        CorrentropyRegressor(scale=1.0, n_iter=3).fit(X0, y0, unlabeled=unlabeled)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_done_is_said():
    with pytest.raises(ValueError, match="unlabeled rows need a kernel"):
        CorrentropyRegressor("precomputed", 1.0, 3).fit(np.eye(14), y0, unlabeled=X0)
    with pytest.raises(ValueError, match="'auto' needs at least 2 rows.*n_samples = 1"):
        CorrentropyRegressor().fit(X0[:1], y0[:1])
    with pytest.raises(ValueError, match="'auto' needs at least 2 rows"):
        CorrentropyRegressor().fit(X0, y0, np.arange(14) == 3)
    with pytest.raises(ValueError, match="scale must be .*y has 1, got 2"):
        CorrentropyRegressor(scale=[1.0, 2.0]).fit(X0, y0)
    with pytest.raises(NotFittedError):
        CorrentropyRegressor().predict(X0)
    with pytest.raises(ValueError, match="positive semi-definite"):
        CorrentropyRegressor(lambda A, B: -A @ B.T, 1.0, 50).fit(X0, y0)
