"""PrivateSGDRegressor moves no further than is proved, nothing private leaves by a side door, and it is of use.

Noise is never seeded: where it is drawn, a test asks for what fails with a probability far below one in a million.

Tests `estimators/private_sgd_plan.py`.
"""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from tests.cases.private_summaries import Unread
from tests.estimators.private_checks import without_noise
from tests.made_up import CUBE, points, regression, sine
from unpooled import models, privacy
from unpooled.data.sources import UnreadRows
from unpooled.estimators.private_sgd import weights_before_noise
from unpooled.kernels import Gaussian, Linear, Matern, Polynomial
from unpooled.privacy import noise

rng = np.random.default_rng(0)
X, U = points(rng, 400, between=CUBE), points(rng, 60, between=CUBE)
y = sine(3, slope=0.5)(X)
SMALL = {"kernel": Gaussian(1.0), "n_features": 12}
METHODS = {"tight": {}, "paper": {"n_steps": 300}}


def private(epsilon=1.0, **how):
    return up.PrivateSGDRegressor(
        epsilon, 1e-6, label_bound=2.0, **{"fit_intercept": how.get("method") != "paper", **SMALL, **how}
    )


@pytest.fixture(name="exact")
def _exact(monkeypatch):
    without_noise(monkeypatch)


def test_paper_004_has_its_own_features():
    basis = up.bases.CosineFeatures(Gaussian(0.7), 800).fit(U)
    phi = basis.features(U)
    assert_allclose(phi @ phi.T, Gaussian(0.7)(U), atol=0.25)
    waves = basis.map_
    assert_allclose(
        basis.map_.block(U), math.sqrt(2 / 800) * np.cos(U @ waves.frequencies.T + waves.phases), rtol=1e-9, atol=1e-12
    )
    assert basis.kappa_sq_ == pytest.approx(2.0)
    model = private(method="paper", n_steps=50).fit(X, y)
    assert isinstance(model.basis_, up.bases.CosineFeatures)
    assert model.schedule_.kappa == pytest.approx(math.sqrt(2))
    expected = privacy.sgd.wang_guo(400, 50, model.schedule_.step, 2.0, math.sqrt(2), gamma=5e-7)
    assert model.sensitivity_ == pytest.approx(expected, rel=1e-8)
    assert model.sigma_ == pytest.approx(expected * privacy.sigma_for(1.0, 5e-7), rel=1e-4)


# --- Privacy ---------------------------------------------------------------------------------------------------------

VARIANTS = {
    "one a step": {"batch_size": 1, "passes": 2},
    "batches": {"batch_size": 4, "passes": 3},
    "all at once": {"batch_size": 8, "passes": 5},
    "weight decay": {"batch_size": 2, "passes": 3, "weight_decay": 0.5},
    "averaged": {"batch_size": 2, "passes": 3, "averaged": True},
    "scaled coordinates": {"batch_size": 4, "passes": 3, "precondition": 0.05},
}


@pytest.mark.parametrize("kind", VARIANTS)
def test_no_neighbours_are_further_apart_than_proved_and_some_are_nearly_as_far(kind):
    how = {"precondition": None, "clip": 0.2, "shrink": False} | VARIANTS[kind]
    start = np.random.default_rng(3)
    rows, labels = start.normal(size=(8, 2)), start.uniform(-2, 2, 8)
    model = private(**how).fit(rows, labels)

    def outcome(data):
        return weights_before_noise(
            model, UnreadRows.of(model.basis_, data[:, :2], data[:, 2]), model.basis_, model.schedule_
        )

    def distance(pair):
        other = pair[:8].copy()
        other[record] = pair[8]
        return float(np.linalg.norm(outcome(pair[:8]) - outcome(other)))

    # The record that is visited first (averages) or last (the others) in its passes is felt most; try all.
    largest = 0.0
    for record in range(8):
        pair = np.concatenate([np.c_[rows, labels], [[*rows[record], -9.0]]])
        pair[record, 2] = 9.0  # labels far above and far below, which are moved to the bound
        best = distance(pair)
        for _ in range(40):
            tried = pair + start.normal(size=pair.shape) * (start.random(pair.shape) < 0.4)
            if (value := distance(tried)) > best:
                pair, best = tried, value
            anything = start.normal(size=pair.shape) * 10 ** start.uniform(-1, 3)
            largest = max(largest, distance(anything))
        largest = max(largest, best)
    assert 0.5 * model.sensitivity_ < largest <= model.sensitivity_ * (1 + 1e-9)


def test_algorithm_1_stays_below_its_bound(exact):
    model = private(method="paper", n_steps=200).fit(X[:20], y[:20])
    rows = np.c_[X[:20], y[:20]]

    def outcome(data):
        return weights_before_noise(
            model, UnreadRows.of(model.basis_, data[:, :2], data[:, 2]), model.basis_, model.schedule_
        )

    for i in range(20):
        other = rows.copy()
        other[i] = [*rng.normal(size=2) * 3, -2.0]
        rows[i, 2] = 2.0
        assert np.linalg.norm(outcome(rows) - outcome(other)) <= model.sensitivity_


def test_noise_is_calibrated_and_has_the_size_it_says():
    model = private(epsilon=0.5, shrink=False, precondition=None, fit_intercept=False, n_features=400)
    found = np.concatenate([model.fit(X, y).coef_ for _ in range(10)])
    assert model.sigma_ == pytest.approx(model.sensitivity_ * privacy.sigma_for(0.5, 1e-6), rel=1e-4)
    spread = np.concatenate([found.reshape(10, -1) - found.reshape(10, -1).mean(axis=0)]).ravel()
    ratio = float(np.sum(spread**2)) / model.sigma_**2 / (9 * 400)  # χ² of 3600 degrees of freedom, over them
    assert abs(ratio - 1) < 6 * math.sqrt(2 / 3600)  # but with probability 1e-8


def test_with_much_budget_it_is_the_learner_without_noise(monkeypatch):
    how = {"clip": 0.5, "precondition": 0.01, "passes": 5, "batch_size": 20, "step": 0.05}
    noisy = private(epsilon=1e8, **how).fit(X, y, public=U)
    without_noise(monkeypatch)
    plain = private(epsilon=1e8, shrink=False, **how).fit(X, y, public=U)
    assert_allclose(noisy.predict(X), plain.predict(X), atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_every_attribute_is_public_or_made_of_noisy_numbers(method, monkeypatch):
    """Two data sets that share nothing but n: what is not made of the noisy weights is the same bit for bit."""
    seen = []

    def add(self, values):
        seen.append(values)
        return np.arange(1.0, self.size + 1)  # the same "noisy weights" for all

    monkeypatch.setattr(noise.GridGaussian, "add", add)
    monkeypatch.setattr("unpooled.estimators.private_sgd.draw_rows", lambda n, steps: np.arange(steps) % n)
    fits = [
        private(method=method, **METHODS[method]).fit(data, labels, public=U)
        for data, labels in ((X, y), (100 * rng.normal(size=X.shape), 1e6 * rng.normal(size=400)))
    ]
    assert not np.array_equal(*seen)
    one, other = (vars(model) for model in fits)
    assert one.keys() == other.keys()
    known = {
        "privacy_",
        "schedule_",
        "sensitivity_",
        "sigma_",
        "coef_",
        "coef_matrix_",
        "intercept_",
        "basis_",
        "kernel_",
    }
    known |= {"basis_digest_", "predictor_", "one_target_", "n_features_in_"}
    assert {name for name in one if name.endswith("_")} == known
    assert pickle.dumps(one) == pickle.dumps(other)


def test_labels_are_moved_to_the_bound_without_a_word(exact):
    far = np.where(np.arange(400) % 7 == 0, 1e300, y)
    one = private().fit(X, far, public=U)
    other = private().fit(X, np.clip(far, -2, 2), public=U)
    assert_array_equal(one.coef_, other.coef_)
    assert np.abs(private(epsilon=0.01).fit(X, y).predict(X)).max() <= 2.0


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Linear(), Polynomial(3)])
def test_rows_of_any_size_are_taken_without_a_word(kernel):
    """A warning or an error that depends on a value would tell of a record; warnings are errors here."""
    far = np.tile(X, (20, 1))
    far[5], far[7000], far[-1] = 1e300, -1e160, 1e-300
    labels = np.tile(y, 20)
    labels[17], labels[18] = -1e308, 5e-324
    models = [private(kernel=None, basis=up.bases.EmpiricalFeatures(kernel, 12).fit(U))]
    models += [private(kernel=kernel, method=method, **how) for method, how in METHODS.items()]
    for model in models if isinstance(kernel, Gaussian) else models[:1]:
        assert np.isfinite(model.fit(far, labels).coef_).all()


def test_the_seed_is_not_that_of_the_noise_nor_of_algorithm_1():
    for method, how in METHODS.items():
        one, other = (private(method=method, random_state=5, **how).fit(X, y, public=U) for _ in range(2))
        assert one.basis_digest_ == other.basis_digest_
        assert one.schedule_ == other.schedule_
        assert not np.array_equal(one.coef_, other.coef_)
        assert private(method=method, random_state=6, **how).fit(X, y).basis_digest_ != one.basis_digest_


def test_the_ledger_is_charged_before_the_data_are_looked_at(tmp_path):
    path = tmp_path / "clinic.ledger"
    ledger = privacy.Ledger.create(path, 1.0, 1e-6, "clinic")
    first = private(ledger=str(path)).fit(X, y)
    assert [charge.is_released for charge in ledger.charges()] == [True]
    assert ledger.events() == [first.privacy_.spent_on[0].event]
    for method, how in METHODS.items():
        with pytest.raises(privacy.Overspend, match="would bring clinic"):
            private(method=method, ledger=ledger, **how).fit(Unread(400, 2), Unread(400))
    assert len(ledger.charges()) == 1
    other = privacy.Ledger.create(tmp_path / "other.ledger", 5.0, 1e-5, "other")
    with pytest.raises(AssertionError, match="looked at"):
        private(ledger=other).fit(Unread(400, 2), Unread(400))
    assert [charge.is_released for charge in other.charges()] == [False]  # spent, and nothing has left
    private(method="paper", n_steps=20, ledger=other).fit(X, y)
    assert other.events()[1] == privacy.ApproximateEvent(1.0, 1e-6)


BAD = [
    ({"epsilon": 0.0}, {}, "epsilon must be a positive"),
    ({"epsilon": -1}, {}, "epsilon must be a positive"),
    ({"delta": 0.0}, {}, "delta must lie between 0 and 1"),
    ({"delta": 1.0}, {}, "delta must lie between 0 and 1"),
    ({"label_bound": 0.0}, {}, "label_bound must be a positive"),
    ({"label_bound": -2.0}, {}, "label_bound must be a positive"),
    ({"label_bound": None}, {}, "label_bound must be a positive"),
    ({"method": "fast"}, {}, "method must be 'tight' or 'paper'"),
    ({"kernel": Linear()}, {}, "Linear has no bound"),
    ({"kernel": Polynomial(2)}, {"public": U}, "Polynomial has no bound"),
    ({"kernel": Gaussian("median")}, {}, "without a public sample the kernel cannot be used"),
    ({"kernel": "cosine"}, {}, "without a public sample the kernel cannot be used"),
    ({"kernel": "unknown"}, {}, "is not known"),
    ({"standardize": True}, {}, "standardize=True needs"),
    ({}, {"public": U[:, :1]}, "X has 2 features, but"),
    ({}, {"public": np.full((3, 2), np.nan)}, "public: X contains NaN"),
    ({"n_features": 0}, {}, "n_features must be a positive whole number"),
    ({"step": -0.1}, {}, "step must be a positive"),
    ({"step": 9.0}, {}, "step must be at most"),
    ({"step": 9.0, "method": "paper", "fit_intercept": False}, {}, "step must be at most"),
    ({"passes": 0}, {}, "passes must be a whole number"),
    ({"batch_size": 1.5}, {}, "batch_size must be a whole number"),
    ({"clip": 0}, {}, "clip must be a positive"),
    ({"weight_decay": -1}, {}, "weight_decay must be a finite number"),
    ({"precondition": "yes"}, {}, "precondition must be 'auto'"),
    ({"precondition": 0.0}, {}, "precondition must be a positive"),
    ({"n_steps": 5}, {}, "n_steps belongs to method='paper'"),
    ({"method": "paper", "clip": 1.0, "averaged": True}, {}, "has no clip, averaged: leave that out"),
    ({"ledger": 5}, {}, "ledger must be a Ledger"),
    ({"random_state": None}, {}, "random_state must be a whole number"),
    ({}, {"y": None}, "requires y to be passed"),
    ({}, {"y": Unread(399)}, "X has 400 rows and y has 399"),
    ({}, {"y": Unread(400, 2)}, "y must have one label for each row"),
]


@pytest.mark.parametrize(("how", "given", "says"), BAD)
def test_bad_input_is_refused_in_a_sentence_before_data_are_read_or_budget_is_charged(how, given, says, tmp_path):
    ledger = privacy.Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    params = {"epsilon": 1.0, "delta": 1e-6, "label_bound": 2.0, "n_features": 12, "ledger": ledger, **how}
    with pytest.raises(ValueError, match=says) as error:
        up.PrivateSGDRegressor(**params).fit(Unread(400, 2), **{"y": Unread(400), **given})
    assert "\n" not in str(error.value)
    assert ledger.charges() == []


def test_values_that_are_no_numbers_are_refused_on_reading():
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="y contains NaN or infinity"):
            private().fit(X, np.where(np.arange(400) == 7, bad, y))
        with pytest.raises(ValueError, match="X contains"):
            private().fit(np.where(np.arange(800).reshape(400, 2) == 7, bad, X), y)


def test_a_delta_above_one_in_n_is_warned_of():
    with pytest.warns(UserWarning, match="delta = 0.01 is above 1/n"):
        up.PrivateSGDRegressor(1.0, 0.01, 2.0, **SMALL).fit(X, y)


# --- Use -------------------------------------------------------------------------------------------------------------


def smooth(X):
    return np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * np.cos(2 * X[:, 4])


def test_the_default_is_of_use_on_a_smooth_problem_and_says_what_it_did():
    data, labels = regression(n=12_000, d=5, between=CUBE, function=smooth, noise=0.19)
    model = up.PrivateSGDRegressor(1.0, 1e-6, label_bound=3.0).fit(data[2000:], labels[2000:], public=data[:1000])
    assert model.score(data[1000:2000], labels[1000:2000]) > 0.88  # about 0.93
    alone = up.PrivateSGDRegressor(1.0, 1e-6, label_bound=3.0).fit(data[2000:], labels[2000:])
    assert alone.score(data[1000:2000], labels[1000:2000]) > 0.7  # about 0.84
    said = str(model.privacy_)
    assert "ε = 1 and δ = 1e-06" in said
    assert "replace one record, n public" in said
    assert "public: the number of records" in said
    assert "the weights of a regression (Gaussian noise, μ" in said
    assert "simulating made-up targets on 500 public rows" in str(model.schedule_)


def test_any_bounded_kernel_or_a_basis_of_public_rows_will_do():
    for kernel in (Matern(1.0), Gaussian(0.5) + 0.5 * Matern(2.0, nu=0.5), "cosine"):
        assert np.all(np.isfinite(private(kernel=kernel).fit(X, y, public=U).predict(X)))
    for basis in (up.bases.EmpiricalFeatures(Linear()).fit(U), up.bases.RandomFeatures(Gaussian(1.0), 20).fit(U)):
        model = private(epsilon=100.0, kernel=None, basis=basis).fit(X, y)
        assert model.basis_ is basis
        assert model.score(X, y) > 0.1
        with pytest.raises(ValueError, match="leave public out"):
            model.fit(X, y, public=U)


def test_one_row_and_one_public_row_are_enough():
    for method, how in METHODS.items():
        model = private(method=method, **how)
        assert np.isfinite(model.fit(X[:1], y[:1]).predict(X[:2])).all()
        assert np.isfinite(model.set_params(kernel=None).fit(X[:3], y[:3], public=U[:1]).predict(X[:2])).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_file_keeps_the_model_its_guarantee_and_its_plan(method, tmp_path):
    model = private(method=method, ledger=None, **METHODS[method]).fit(X, y, public=U)
    up.save(model, tmp_path / "a.model")
    read = up.load(tmp_path / "a.model")
    assert_array_equal(read.predict(X), model.predict(X))
    assert (read.privacy_, read.schedule_) == (model.privacy_, model.schedule_)
    assert (read.sigma_, read.sensitivity_, read.intercept_) == (model.sigma_, model.sensitivity_, model.intercept_)
    assert repr(read) == repr(model)
    assert models.digest_of(read) == models.digest_of(model)
    assert np.isfinite(read.fit(X, y, public=U).predict(X)).all()


def test_a_forged_file_is_refused(tmp_path):
    model = private().fit(X, y, public=U)
    header, arrays = model._to_parts()

    def forged(**changes):
        return up.PrivateSGDRegressor._from_parts({**header, **changes}, arrays)

    weaker = privacy.Guarantee(9.0, 1e-6, "noise").to_dict()
    for changes, says in [
        ({"privacy": weaker}, "does not match its epsilon"),
        ({"privacy": {**header["privacy"], "epsilon": 0.01}}, "more than the promised"),
        ({"plan": {**header["plan"], "kappa": -1.0}}, "kappa must be"),
        ({"plan": {}}, "not the schedule"),
        ({"params": {**header["params"], "epsilon": 0.0}}, "epsilon must be"),
        ({"params": {**header["params"], "clip": [1]}}, "clip must be"),
        ({"numbers": {**header["numbers"], "sigma_": 0.0}}, "sigma_ must be"),
        ({"numbers": {"sigma_": 1.0}}, "numbers are not sensitivity_ and sigma_"),
        ({"numbers": {**header["numbers"], "other": 1.0}}, "numbers are not sensitivity_ and sigma_"),
        ({"feature_names": ["a"]}, "names of its columns"),
        ({"one_target": 1}, "how many labels"),
    ]:
        with pytest.raises(ValueError, match=says):
            forged(**changes)


def test_rows_may_come_from_a_file(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), tmp_path / "rows.parquet")
    public = pa.table({"a": U[:, 0], "b": U[:, 1]})
    for sample in (None, public):
        model = private(epsilon=100.0).fit(str(tmp_path / "rows.parquet"), "y", public=sample)
        assert list(model.feature_names_in_) == ["a", "b"]
        assert model.schedule_.n_rows == 400
