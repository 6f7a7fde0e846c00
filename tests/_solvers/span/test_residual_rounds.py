"""Rounds of residual statistics: the first is LESS, all are iterated Tikhonov, and they converge with either step.

Tests `_solvers/span/subspace.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

import unpooled as up
from tests import reference
from tests.made_up import regression
from unpooled import models
from unpooled.bases import EmpiricalFeatures, RandomFeatures
from unpooled.kernels import Gaussian, Linear, Matern
from unpooled.losses import Correntropy, Huber

pytestmark = pytest.mark.filterwarnings("ignore:.*public rows stand in for")
few = settings(max_examples=3, deadline=None, derandomize=True, phases=[Phase.generate])
seeds = st.integers(0, 10**6)
centring = pytest.mark.parametrize("center", [False, True])
stepping = pytest.mark.parametrize("steps", ["plain", "conjugate"])


def with_public(seed, n=50, n_public=15, spread=1.0, targets=1):
    """The public sample is ``spread`` times as wide as the rows."""
    X, y, Z, U = regression(
        seed,
        n,
        function=lambda X: np.sin(2 * X[:, 0]) + 2.0,
        noise=0.3,
        targets=targets,
        others=(7, n_public),
    )
    return X, y, spread * U, Z


def rounds(basis, X, y, T, **options):
    return up.LESSRegressor(basis=basis, rounds=T, **{"fit_intercept": False, "tol": 0.0, "lam": 1e-2, **options}).fit(
        X, y
    )


def exchanged(basis, X, y, T, loss="squared", **options):
    """Fit by summaries of three sites, round after round."""
    sites = [slice(i, None, 3) for i in range(3)]
    model = up.SummaryRegressor(lam=options.pop("lam", 1e-2), **{"fit_intercept": False, **options})
    model.fit_summary(sum(up.Summary.of(basis, X[s], y[s], loss=loss) for s in sites))
    for _ in range(T - 1):
        model.update(sum(up.Summary.of(basis, X[s], y[s], residuals_of=model, loss=loss) for s in sites))
    return model


@pytest.mark.parametrize("center", [False, True, "public"])
@stepping
@few
@given(seed=seeds, ridge=st.booleans())
def test_one_round_is_less(center, steps, seed, ridge):
    X, y, U, Z = with_public(seed)
    basis = EmpiricalFeatures(Matern(1.0)).fit(U)
    a, b = reference.less(basis.transform(X), y, np.ones(50), basis.eigenvalues_, basis.mean_, 1e-2, center)
    options = {"fit_intercept": center, "steps": steps, "ridge": ridge}
    for model in (rounds(basis, X, y, 1, **options), exchanged(basis, X, y, 1, **options)):
        assert_allclose(model.predict(Z), basis.transform(Z) @ a + b, atol=1e-9)
        assert model.n_rounds_ == 1


@few
@given(seed=seeds, T=st.integers(1, 6), ratio=st.floats(-2, 0).map(lambda u: 10.0**u))
def test_where_the_public_sample_is_the_rows_t_rounds_are_iterated_tikhonov(seed, T, ratio):
    X, y, _, Z = with_public(seed, n=25)
    K, K_new = reference.matern(X, X), reference.matern(Z, X)
    model = up.LESSRegressor(Matern(1.0), rounds=T, lam=ratio, tol=0.0, fit_intercept=False).fit(X, y)
    assert_allclose(model.predict(Z), K_new @ reference.iterated_ridge_coefficients(K, y, ratio, T), atol=1e-8)
    centred = up.LESSRegressor(Matern(1.0), rounds=T, lam=ratio, tol=0.0, fit_intercept=True).fit(X, y)
    H = reference.centering(25)
    c = H @ reference.iterated_ridge_coefficients(H @ K @ H, y - y.mean(), ratio, T)
    assert_allclose(centred.predict(Z), (K_new - K.mean(axis=0)) @ c + y.mean(), atol=1e-8)


@few
@given(seed=seeds, T=st.integers(1, 8))
def test_plain_steps_are_less_on_the_residuals_again_and_again(seed, T):
    X, y, U, _ = with_public(seed, n_public=40)
    basis = EmpiricalFeatures(Matern(1.0)).fit(U)
    phi, lam = basis.transform(X), 1.0
    top = np.linalg.eigvalsh(phi.T @ phi / 50 / np.sqrt(np.outer(*[basis.eigenvalues_ + lam] * 2)))[-1]
    assert top < 1.8  # so full steps are right
    a = np.zeros(basis.n_features_)
    for _ in range(T):
        a = a + phi.T @ (y - phi @ a) / 50 / (basis.eigenvalues_ + lam)
    for model in (rounds(basis, X, y, T, lam=lam), exchanged(basis, X, y, T, lam=lam)):
        assert_allclose(model.coef_, a, atol=1e-9)


@centring
@stepping
@few
@given(seed=seeds)
def test_many_rounds_are_least_squares_in_the_span(center, steps, seed):
    X, y, U, Z = with_public(seed, n_public=6)
    basis = EmpiricalFeatures(Matern(2.0)).fit(U)
    phi = basis.transform(X)
    design = np.column_stack([phi, np.ones(50)]) if center else phi
    best = np.linalg.lstsq(design, y)[0]
    expected = (np.column_stack([basis.transform(Z), np.ones(7)]) if center else basis.transform(Z)) @ best
    for model in (
        rounds(basis, X, y, 200, fit_intercept=center, steps=steps, lam=1e-3),
        exchanged(basis, X, y, 20 if steps == "conjugate" else 1, fit_intercept=center, steps=steps, lam=1e-3),
    ):
        if model.n_rounds_ > 1:
            assert_allclose(model.predict(Z), expected, atol=1e-4)


@stepping
@pytest.mark.parametrize("kind", ["few rows", "a line"])
def test_in_a_rank_deficient_span_it_is_the_solution_smallest_in_the_norm_of_the_preconditioner(steps, kind):
    rng = np.random.default_rng(0)
    U, Z = rng.normal(size=(12, 2)), rng.normal(size=(9, 2))
    X, lam = rng.normal(size=(6, 2)), 0.03
    if kind == "few rows":
        basis = EmpiricalFeatures(Matern(1.0)).fit(U)
    else:
        basis, X = EmpiricalFeatures(Linear()).fit(U), np.outer(rng.normal(size=6), [1.0, 2.0])
    y = rng.normal(size=6)
    phi, root = basis.transform(X), 1 / np.sqrt(basis.eigenvalues_ + lam)
    expected = root * (np.linalg.pinv(phi * root, rcond=1e-10) @ y)
    model = rounds(basis, X, y, 1500 if steps == "plain" else 60, steps=steps, lam=lam)
    assert_allclose(model.coef_, expected, atol=1e-5 * np.abs(expected).max())
    assert_allclose(model.predict(Z), basis.transform(Z) @ expected, atol=1e-5 * np.abs(expected).max())


@centring
@stepping
@pytest.mark.parametrize("kind", ["empirical", "random"])
@few
@given(seed=seeds, spread=st.sampled_from([0.5, 1.0]))
def test_with_the_ridge_term_kept_they_are_the_ridge_of_second_order(center, steps, kind, seed, spread):
    X, y, U, Z = with_public(seed, spread=spread, n_public=15 if kind == "empirical" else 60)
    # Waves that the public sample does not have, LESS does not use: there are fewer of them than rows.
    basis = (EmpiricalFeatures(Matern(1.0)) if kind == "empirical" else RandomFeatures(Gaussian(1.0), 20)).fit(U)
    a, b = reference.span_ridge(basis.transform(X), y, np.ones(50), 1e-2, center)
    options = {"fit_intercept": center, "steps": steps, "ridge": True}
    exact = up.SummaryRegressor(lam=1e-2, fit_intercept=center).fit_summary(up.Summary.of(basis, X, y, 2))
    assert_allclose(exact.predict(Z), basis.transform(Z) @ a + b, atol=1e-8)
    for model in (rounds(basis, X, y, 100, **options), exchanged(basis, X, y, 25, **options)):
        if steps == "conjugate" or model.n_rounds_ == 100:
            assert_allclose(model.predict(Z), exact.predict(Z), atol=1e-5)


@centring
@stepping
@pytest.mark.parametrize("ridge", [False, True])
@few
@given(seed=seeds)
def test_where_full_steps_would_diverge_the_loss_still_falls_in_every_round(center, steps, ridge, seed):
    X, y, U, _ = with_public(seed, spread=0.1)
    basis = EmpiricalFeatures(Gaussian(1.0)).fit(U)
    phi, lam = basis.transform(X), 1e-4
    C = (phi - center * phi.mean(axis=0)).T @ (phi - center * phi.mean(axis=0)) / 50
    Cu = np.diag(basis.eigenvalues_) - center * np.outer(basis.mean_, basis.mean_)
    top = np.max(np.linalg.eigvals(np.linalg.solve(Cu + lam * np.eye(len(Cu)), C)).real)
    assert top > 20
    values = [0.5 * np.var(y) if center else 0.5 * np.mean(y**2)]
    for T in range(2, 12):
        model = rounds(basis, X, y, T, fit_intercept=center, steps=steps, ridge=ridge, lam=lam)
        penalty = 0.5 * lam * np.sum(model.coef_**2) if ridge else 0.0
        values.append(0.5 * np.mean((y - model.predict(X)) ** 2) + penalty)
    assert np.all(np.diff(values) <= 1e-9 * values[0])
    assert values[-1] < 0.7 * values[0]


@stepping
@pytest.mark.parametrize("ridge", [False, True])
def test_more_rounds_than_rounding_can_use_do_no_harm(steps, ridge):
    X, y, U, _ = with_public(3, spread=0.3)
    basis = EmpiricalFeatures(Gaussian(1.0)).fit(U)
    errors = [
        np.mean((y - rounds(basis, X, y, T, steps=steps, ridge=ridge, lam=1e-6).predict(X)) ** 2) for T in (30, 60, 300)
    ]
    assert errors[2] <= errors[1] * (1 + 1e-6) <= errors[0] * (1 + 1e-5)


@pytest.mark.parametrize("seed", [10, 15, 17, 22, 37, 46, 75, 92])
def test_rounds_go_on_without_harm_whatever_the_public_sample_the_penalty_and_the_labels(seed):
    """Badly posed in many ways: sites send more messages than there is anything to learn from."""
    rng = np.random.default_rng(seed)
    spread, n_public = rng.choice([0.1, 0.3, 1.0, 3.0]), int(rng.choice([4, 6, 15, 40]))
    lam, center = 10.0 ** rng.uniform(-8, 0), [False, True, "public"][rng.integers(3)]
    ridge, steps = bool(rng.integers(2)), ["plain", "conjugate"][rng.integers(2)]
    shift, kernel = rng.choice([0, 0, 1e4]), [Matern(2.0), Gaussian(1.0), Gaussian(0.3)][rng.integers(3)]
    n, targets = int(rng.choice([5, 50])), int(rng.choice([1, 2]))
    X, Y, U, _ = with_public(seed, n=n, n_public=n_public, spread=spread, targets=targets)
    Y = np.reshape(Y, (len(X), -1)) + shift
    basis = EmpiricalFeatures(kernel).fit(U)
    model = exchanged(basis, X, Y, 1, lam=lam, fit_intercept=center, ridge=ridge, steps=steps)
    values = []
    for _ in range(25):
        model.update(sum(up.Summary.of(basis, X[i::3], Y[i::3], residuals_of=model) for i in range(3)))
        penalty = lam * np.sum(model.coef_**2) if ridge else 0.0
        values.append(0.5 * np.sum(np.mean((Y - model.predict(X)) ** 2, axis=0)) + 0.5 * penalty)
    scale = 0.5 * np.sum(np.var(Y, axis=0) if center is not False else np.mean(Y**2, axis=0))
    assert np.all(np.diff(values) <= 1e-6 * scale)


@stepping
@pytest.mark.parametrize("ridge", [False, True])
@pytest.mark.parametrize("spread", [0.2, 1.0])
def test_a_constant_added_to_the_labels_moves_the_intercept_and_nothing_else(steps, ridge, spread):
    X, y, U, Z = with_public(4, spread=spread)
    basis = EmpiricalFeatures(Gaussian(1.0)).fit(U)
    options = {"fit_intercept": True, "steps": steps, "ridge": ridge, "lam": 1e-3}
    for T in (2, 5):
        for fit in (rounds, exchanged):
            plain, shifted = (fit(basis, X, labels, T, **options) for labels in (y, y + 1e3))
            assert_allclose(shifted.predict(Z), plain.predict(Z) + 1e3, atol=1e-6)
            assert shifted.intercept_ - plain.intercept_ == pytest.approx(1e3, abs=1e-6)
    stopped = [rounds(basis, X, y + c, 500, **options | {"tol": 1e-3}).n_rounds_ for c in (0, 1e3)]
    assert stopped[0] == stopped[1]


@centring
@stepping
@pytest.mark.parametrize("loss", ["squared", Huber(0.5), Correntropy(2.0)], ids=repr)
def test_rounds_by_files_are_the_rounds_at_once(center, steps, loss, tmp_path):
    if loss != "squared" and center:
        pytest.skip("a robust fit at once begins at the median, which sites have not told here")
    X, y, U, Z = with_public(5, spread=0.5)
    basis = EmpiricalFeatures(Gaussian(1.0)).fit(U)
    basis.save(tmp_path / "study.basis")
    options = {"fit_intercept": center, "steps": steps}
    model = up.SummaryRegressor(lam=1e-2, **options).fit_summary(up.Summary.of(basis, X, y, loss=loss))
    for T in range(2, 6):
        up.save(model, tmp_path / "round.model")
        model = up.load(tmp_path / "round.model")
        for i in range(2):
            residuals = up.Summary.of(
                basis, X[i::2], y[i::2], residuals_of=up.load(tmp_path / "round.model"), loss=loss
            )
            residuals.save(tmp_path / f"{i}.summary")
        model.update(sum(up.Summary.load(tmp_path / f"{i}.summary") for i in range(2)))
        assert model.n_rounds_ == T
        at_once = rounds(basis, X, y, T, loss=loss, **options)
        assert_allclose(model.predict(Z), at_once.predict(Z), atol=1e-8)


def test_residuals_of_another_model_are_refused():
    X, y, U, _ = with_public(6)
    basis, other = EmpiricalFeatures(Matern(1.0)).fit(U), EmpiricalFeatures(Matern(1.1)).fit(U)
    model, second = (
        up.SummaryRegressor(lam=lam, fit_intercept=False).fit_summary(up.Summary.of(basis, X, y)) for lam in (0.1, 0.2)
    )
    mine, theirs = models.digest_of(model), models.digest_of(second)
    residuals = up.Summary.of(basis, X, y, residuals_of=model)
    with pytest.raises(
        ValueError, match=f"of this model, {theirs[:12]}, but this is a summary of the residuals of model {mine[:12]}"
    ):
        second.update(residuals)
    with pytest.raises(ValueError, match="residuals must be of this model, .*, but this is a summary of labels"):
        model.update(up.Summary.of(basis, X, y))
    with pytest.raises(ValueError, match="residuals are for the loss huber 1.0, but the model has squared"):
        model.update(up.Summary.of(basis, X, y, residuals_of=model, loss=Huber(1.0)))
    with pytest.raises(ValueError, match=f"to the basis {other.digest[:12]}, but the model has {basis.digest[:12]}"):
        model.update(up.Summary.of(other, X, y, residuals_of=model))
    with pytest.raises(ValueError, match="pass it to update"):
        up.SummaryRegressor(fit_intercept=False).fit_summary(residuals)
    before = model.coef_.copy()
    model.update(residuals)
    assert np.any(model.coef_ != before)
    with pytest.raises(ValueError, match=f"but this is a summary of the residuals of model {mine[:12]}"):
        model.update(residuals)  # which are of the model before
    exact = up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(up.Summary.of(basis, X, y, 2))
    with pytest.raises(ValueError, match="exact already"):
        exact.update(up.Summary.of(basis, X, y, residuals_of=exact))


def objective(loss, phi, y, center):
    def value(v):
        a, b = (v[:-1], v[-1]) if center else (v, 0.0)
        u = y - phi @ a - b
        gradient = -loss.derivative(u) @ phi / len(y)
        return np.mean(loss.value(u)), np.append(gradient, -np.mean(loss.derivative(u))) if center else gradient

    return value


@pytest.mark.parametrize("loss", [Huber(0.2), Huber(2.0), Correntropy(0.7), Correntropy(3.0)], ids=repr)
@pytest.mark.parametrize(("center", "spread"), [(False, 0.3), (True, 1.0)])
def test_robust_rounds_lower_the_loss_and_end_where_its_gradient_vanishes(center, loss, spread):
    X, y, U, _ = with_public(7, n_public=6, spread=spread)
    y = y - 2.0
    y[::9] += 30.0
    basis = EmpiricalFeatures(Matern(2.0)).fit(U)
    phi = basis.transform(X)
    J = objective(loss, phi, y, center)
    values, model = [], None
    for T in (8, 64, 700):
        model = rounds(basis, X, y, T, loss=loss, fit_intercept=center, lam=0.02, tol=1e-12)
        values.append(J(np.append(model.coef_, model.intercept_) if center else model.coef_)[0])
        losses = [entry["loss"] for entry in model.history_]
    assert values[-1] <= min(values) + 1e-9
    best = np.minimum.accumulate(losses)
    assert best[-1] < losses[0]
    point = np.append(model.coef_, model.intercept_) if center else model.coef_
    start = np.zeros_like(point)
    assert np.linalg.norm(J(point)[1]) < 1e-3 * np.linalg.norm(J(start)[1])
    if isinstance(loss, Huber):  # convex: there is one least value
        assert J(point)[0] == pytest.approx(minimize(J, start, jac=True, tol=1e-12).fun, rel=1e-3)


@stepping
@centring
def test_an_infinite_scale_is_least_squares(steps, center):
    X, y, U, Z = with_public(8)
    basis = EmpiricalFeatures(Matern(1.0)).fit(U)
    expected = rounds(basis, X, y, 4, steps=steps, fit_intercept=center).predict(Z)
    for loss in (Correntropy(np.inf), Huber(np.inf)):
        model = rounds(basis, X, y, 4, steps=steps, fit_intercept=center, loss=loss)
        assert_array_equal(model.predict(Z), expected)
        assert model.loss_ == "squared"


@pytest.mark.parametrize("loss", ["huber", "correntropy"])
@centring
@pytest.mark.parametrize("lam", [1e-2, "auto"])
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e6])
def test_gross_outliers_hardly_move_a_robust_fit_in_any_unit(loss, center, lam, unit):
    rng = np.random.default_rng(9)
    X = rng.uniform(-2, 2, size=(400, 1))
    truth = np.sin(2 * X[:, 0]) + (5.0 if center else 0.0)
    y = truth + 0.1 * rng.normal(size=400)
    y[:40] += 50.0
    options = {"rounds": 40, "lam": lam, "fit_intercept": center}
    model = up.LESSRegressor(Gaussian(0.5), loss=loss, **options).fit(X, unit * y)
    squares = up.LESSRegressor(Gaussian(0.5), **options).fit(X, unit * y)
    error, worse = (np.sqrt(np.mean((m.predict(X) / unit - truth) ** 2)) for m in (model, squares))
    assert error < 0.15
    assert error < worse / 10
    scale = float(model.loss_.split()[1]) / unit
    assert 0.1 < scale < 1.5


@stepping
def test_labels_are_independent_columns(steps):
    X, Y, U, Z = with_public(10, targets=3)
    basis = EmpiricalFeatures(Matern(1.0)).fit(U)
    together = rounds(basis, X, Y, 25, steps=steps, ridge=True)
    for t in range(3):
        assert_allclose(
            together.predict(Z)[:, t], rounds(basis, X, Y[:, t], 25, steps=steps, ridge=True).predict(Z), atol=1e-3
        )
    assert together.predict(Z).shape == (7, 3)


def test_rounds_end_when_they_have_converged():
    X, y, U, _ = with_public(11)
    basis = EmpiricalFeatures(Matern(1.0)).fit(U)
    model = rounds(basis, X, y, 500, ridge=True, steps="conjugate", tol=1e-6)
    assert model.n_rounds_ < 100
    assert [entry["round"] for entry in model.history_] == list(range(1, model.n_rounds_ + 1))
    assert model.history_[-1]["left"] <= 1e-6 < model.history_[-2]["left"]


def test_neither_the_order_of_rows_nor_their_sites_matter():
    X, y, U, Z = with_public(12, n=200)
    basis = EmpiricalFeatures(Matern(1.0)).fit(U)
    order = np.random.default_rng(0).permutation(200)
    fits = [
        up.LESSRegressor(basis=basis, rounds=5, fit_intercept=True).fit(X[rows], y[rows], sites=np.arange(200) % k)
        for rows, k in ((slice(None), 3), (order, 200))
    ]
    assert_allclose(fits[0].predict(Z), fits[1].predict(Z), atol=1e-8)
