"""PrivateRegressor is what it would be without noise where there is next to none, and of use where there is some.

Noise is never seeded: where it is drawn, a test asks for what fails with a probability far below one in a million.

Tests `estimators/private_model.py` and `estimators/public_rows.py`.
"""

from __future__ import annotations

import copy
import math
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import unpooled as up
from tests.cases.private_rounds import answered, basis_of, exact, frame_of, source_of
from tests.estimators.private_checks import without_noise
from tests.made_up import CUBE, points, regression
from unpooled import models
from unpooled.cli.inspect import describe_model
from unpooled.data.sources import UnreadRows
from unpooled.kernels import Gaussian, Matern, Polynomial
from unpooled.privacy.rounds.custodian import RowHolder, run_learner, sum_answer
from unpooled.privacy.rounds.learner import Budget, learn
from unpooled.privacy.rounds.questions import LabelCounts, Residuals
from unpooled.privacy.rounds.schedule import telling_features, widen_basis

MUCH = 1e10  # an ε at which noise is nothing
PUBLIC = 150

smooth = partial(
    regression,
    d=3,
    between=CUBE,
    function=lambda X: np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 1] * X[:, 2],
    noise=0.19,
)


X, y = smooth(n=2000)
U, _ = smooth(1, n=PUBLIC)
T, truth = smooth(2, n=500, noise=0.0)


def private(epsilon=1.0, label_bound=3.0, **how):
    return up.PrivateRegressor(epsilon, 1e-6, label_bound, **how)


@pytest.fixture(name="no_noise")
def _no_noise(monkeypatch):
    without_noise(monkeypatch)


# --- Without noise ---------------------------------------------------------------------------------------------------


def test_with_much_budget_it_is_as_good_as_a_fit_without_privacy():
    plain = up.SpectralRegressor(lam=1e-5, fit_intercept=False).fit(X, y).score(T, truth)
    assert plain > 0.995
    for model in (private(MUCH), private(MUCH, label_bound=None), private(MUCH, loss="correntropy")):
        assert model.fit(X, y, public=U).score(T, truth) > plain - 0.02
    # Made-up rows know less of the records than public ones, and more rounds are needed.
    assert private(MUCH, n_features=60, rounds=40).fit(X, y).score(T, truth) > plain - 0.03


def test_in_a_small_span_it_is_as_good_as_least_squares_there():
    """A bounded loss has a minimiser of its own, which is nearly as good."""
    model = private(MUCH, n_features=10, rounds=20).fit(X, y, public=U)
    phi, psi = (np.c_[np.ones(len(rows)), model.basis_.transform(rows)] for rows in (X, T))
    best = psi @ np.linalg.lstsq(phi, y, rcond=None)[0]
    assert np.mean((model.predict(T) - best) ** 2) < 0.01 * np.var(truth)


def learned(labels, label_bound, *, loss="huber", rounds=8, mu=5.0):
    """What the learner makes of answers without noise: the coroutine alone, no estimator around it."""
    frame = frame_of(basis_of(n_features=15))
    rows = points(4, 500, between=CUBE)
    values = labels(np.sin(3 * rows[:, 0]) + 0.3 * rows[:, 1] ** 2)
    told = exact(source_of(rows, values), 500, frame, frame, label_bound)
    found, spent = run_learner(learn(frame, 500, Budget(mu, rounds, 0.03, calibration=0.03), label_bound, loss), told)
    assert math.fsum(item.event.mu**2 for item in spent) <= mu**2 * (1 + 1e-12)
    return frame.coefficients(found.coef)


@pytest.mark.parametrize("scale", [8.0**-13, 0.125, 8.0**4, 8.0**13])  # as bins of labels without a bound go
@pytest.mark.parametrize("bound", [4.0, math.inf])
def test_a_scale_of_the_labels_is_a_scale_of_the_model(scale, bound):
    loss = "huber" if math.isfinite(bound) else "correntropy"
    coef, b = learned(lambda f: f, bound, loss=loss)
    scaled, scaled_b = learned(lambda f: scale * f, scale * bound, loss=loss)
    assert_allclose(scaled / scale, coef, rtol=1e-6, atol=1e-9 * np.abs(coef).max())
    assert scaled_b / scale == pytest.approx(b, rel=1e-6)


def test_a_shift_of_the_labels_is_a_shift_of_the_model(no_noise):
    one = private(1e4, label_bound=30.0).fit(X, y, public=U).predict(T)
    for shift in (-20.0, 7.0):
        moved = private(1e4, label_bound=30.0).fit(X, y + shift, public=U).predict(T)
        assert np.sqrt(np.mean((moved - shift - one) ** 2)) < 0.01 * np.std(y)


@pytest.mark.parametrize("how", [{}, {"public": U}])
def test_sites_do_not_matter_where_the_noise_is_of_the_total(how, no_noise):
    sites = np.asarray(["north", "south", "east"])[np.arange(len(X)) % 3]
    one, other = private(n_features=20).fit(X, y, **how), private(n_features=20).fit(X, y, sites=sites, **how)
    assert_array_equal(one.coef_, other.coef_)
    assert one.sites_ == []
    assert other.sites_ == [
        {"name": "east", "rows": 666},
        {"name": "north", "rows": 667},
        {"name": "south", "rows": 667},
    ]
    assert "provided that nothing but sums over all sites is seen" in str(other.privacy_)
    assert "provided" not in str(one.privacy_)


def test_a_file_is_as_good_as_the_arrays_in_it(no_noise, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    pq.write_table(pa.table(columns | {"y": y}), tmp_path / "rows.parquet", row_group_size=300)
    public = pd.DataFrame(U, columns=list("abc"))
    frame = pd.DataFrame(columns)
    for sample in (public, None):
        one = private(n_features=30).fit(frame, y, public=sample)
        other = private(n_features=30).fit(str(tmp_path / "rows.parquet"), "y", public=sample)
        assert list(other.feature_names_in_) == list(one.feature_names_in_) == ["a", "b", "c"]
        assert_allclose(other.coef_, one.coef_, rtol=1e-6, atol=1e-9)
    # And piece by piece: the sums that leave are those of the arrays.
    basis = one.basis_
    source = UnreadRows.of(basis, str(tmp_path / "rows.parquet"), "y").read()
    M = basis.n_features_
    at = frame_of(basis)
    ones = np.ones(M + 1)
    for question in (
        LabelCounts(np.linspace(-1, 1, 9)),
        Residuals(ones, up.losses.Huber(1.0), ones, 1.0, 2.0, ones[:1], 0.3),
    ):
        from_file = sum_answer(question, source, at, at, 3.0, up.engines.as_engine(None))
        assert_allclose(from_file, answered(question, X, y, at, at, 3.0), rtol=1e-10, atol=1e-10)


def test_every_engine_gives_the_same(no_noise):
    found = [
        private(n_features=10, engine=engine).fit(X, y, public=U).coef_ for engine in (None, "threads", "processes")
    ]
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])


# --- With noise ------------------------------------------------------------------------------------------------------


def test_it_is_of_use_at_an_ordinary_budget():
    """R² is about .981 ± .006, .996 ± .001 (twice) and .965 ± .003 here."""
    assert private().fit(X, y, public=U).score(T, truth) > 0.9
    assert private(10.0, label_bound=300.0).fit(X, y, public=U).score(T, truth) > 0.95
    assert private(30.0, label_bound=None).fit(X, y, public=U).score(T, truth) > 0.95
    assert private(10.0, n_features=60).fit(X, y).score(T, truth) > 0.8


@pytest.mark.parametrize(("scale", "offset"), [(1e-6, 0.0), (1.0, 1e3), (1e3, -1e5), (1e9, 1e10)])
def test_without_a_bound_labels_may_have_any_scale_and_offset(scale, offset):
    model = private(30.0, label_bound=None).fit(X, scale * y + offset, public=U)
    assert model.score(T, scale * truth + offset) > 0.95  # about .998
    assert model.schedule_.loss == "correntropy"


def test_without_a_bound_gross_outliers_do_not_matter():
    far = y.copy()
    far[::10], far[5::20] = 1e6, -1e300
    model = private(30.0, label_bound=None).fit(X, far, public=U)
    assert model.score(T, truth) > 0.95  # about .997


def test_noise_at_every_site_is_the_noise_of_all_of_them():
    question = LabelCounts(np.linspace(-2, 2, 3000))
    plain, shared = (RowHolder([source_of(X, y)], len(X), 3.0, up.engines.as_engine(None), sites) for sites in (1, 4))
    exact_shares = answered(question, X, y, None) / len(X)
    for custodian, sites in ((plain, 1), (shared, 4)):
        values, sigma = custodian.ask(question, 0.2)
        assert sigma == pytest.approx(math.sqrt(2.0 * sites) / 0.2 / len(X), rel=1e-4)
        ratio = float(np.mean(((values - exact_shares) / sigma) ** 2))  # χ² of 3001 degrees of freedom, over them
        assert abs(ratio - 1) < 6 * math.sqrt(2 / 3001)  # but with probability 1e-8
    sites = np.arange(len(X)) % 4
    model = private(noise="site").fit(X, y, public=U, sites=sites)
    assert "4 sites add all of the noise each" in str(model.schedule_)
    assert "provided" not in str(model.privacy_)


# --- Odd data, manners -----------------------------------------------------------------------------------------------

ODD = {
    "two rows": (X[:2], y[:2]),
    "one row": (X[:1], y[:1]),
    "five rows": (X[:5], y[:5]),
    "labels all alike": (X, np.full(len(X), 1.5)),
    "labels all zero": (X, np.zeros(len(X))),
    "a column all alike": (np.c_[X[:, :2], np.ones(len(X))], y),
    "rows all alike": (np.ones_like(X), y),
    "far rows": (np.where(np.arange(len(X))[:, None] % 99 == 0, 1e300, X), y),
    "whole numbers": (np.rint(3 * X).astype(int), np.rint(y).astype(int)),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("bound", [3.0, None])
@pytest.mark.parametrize("epsilon", [0.1, MUCH])
def test_odd_data_give_finite_predictions_and_not_a_word(kind, bound, epsilon):
    rows, labels = ODD[kind]
    for public in (U, None):
        model = private(epsilon, bound, n_features=15).fit(rows, labels, public=public)
        assert np.all(np.isfinite(model.predict(T)))
        if bound is not None:
            assert np.abs(model.predict(T)).max() <= bound


@pytest.mark.parametrize("public", [U[:1], U[:2], np.ones((20, 3)), np.c_[U[:, :2], np.zeros(PUBLIC)]])
def test_odd_public_rows_will_do(public):
    assert np.all(np.isfinite(private().fit(X, y, public=public).predict(T)))


@pytest.mark.parametrize("kernel", [Matern(1.0), "cosine", Gaussian(0.5) + 0.5 * Matern(2.0, nu=0.5)])
def test_any_bounded_kernel_will_do(kernel):
    assert private(100.0, kernel=kernel).fit(X, y, public=U).score(T, truth) > 0.3


def test_a_basis_of_public_rows_is_taken_as_it_is_whatever_its_kernel():
    far = X.copy()
    far[3], far[4] = 1e300, -1e160  # features of these are not even numbers
    basis = up.bases.EmpiricalFeatures(Polynomial(3), 20).fit(U)
    model = private(100.0, basis=basis).fit(far, y)
    assert model.basis_ is basis
    assert model.score(T, truth) > 0.8
    assert clone(model).basis is basis


def test_labels_beyond_the_bound_are_moved_to_it_without_a_word(no_noise):
    far = np.where(np.arange(len(y)) % 7 == 0, 1e300, y)
    one = private(n_features=20).fit(X, far, public=U)
    assert_array_equal(one.coef_, private(n_features=20).fit(X, np.clip(far, -3, 3), public=U).coef_)


def test_a_large_budget_has_all_features_that_tell_of_other_rows_and_never_fewer_than_the_usual():
    rng = np.random.default_rng(3)
    for d, more in ((1, False), (8, True)):
        public = rng.standard_normal((300, d))
        usual = up.bases.EmpiricalFeatures(n_features=150, standardize=True).fit(public)
        wide = widen_basis(usual, public)
        everything = up.bases.EmpiricalFeatures(n_features=1000, standardize=True).fit(public)
        telling = telling_features(everything.eigenvalues_, everything.spread_)
        assert wide.n_features_ == max(usual.n_features_, telling)
        assert (wide.n_features_ > usual.n_features_) == more
    assert telling_features(np.ones(4), np.asarray([1.0, 50.0, 101.0, 1.0])) == 2
    assert telling_features(np.ones(4), np.ones(4)) == 4


def test_no_fit_of_many_is_far_off():
    """Coordinates that hardly vary have noise without end in their units: what they seem to tell must not count.

    Far off is half of what a constant leaves. The noise is real: 98 of 100 fits are below 0.002, and one of some
    hundred is near 0.01 without being far off.
    """
    rng = np.random.default_rng(0)
    X, public = rng.random((2000, 1)), rng.random((200, 1))
    truth = np.sin(6 * X[:, 0])
    labels = 0.4 * truth + 0.15 * rng.standard_normal(2000)
    for _ in range(25):
        model = up.PrivateRegressor(1.0, 1e-5, 1.0, up.kernels.Gaussian(0.2), standardize=False)
        model.fit(X, labels, public=public)
        assert np.mean((model.predict(X) - 0.4 * truth) ** 2) < np.var(0.4 * truth) / 2


def test_two_fits_share_the_plan_and_the_basis_of_public_rows_and_not_the_noise():
    one, other = (private(n_features=30).fit(X, y, public=U) for _ in range(2))
    assert one.schedule_ == other.schedule_
    assert one.basis_digest_ == other.basis_digest_
    assert not np.array_equal(one.coef_, other.coef_)
    assert "the basis" not in str(private(n_features=30).fit(X, y).privacy_)  # which is of noised counts there


def test_it_says_what_it_did():
    model = private().fit(X, y, public=U)
    said = str(model.privacy_)
    assert "ε = 1 and δ = 1e-06 (neighbours: replace one record, n public)" in said
    assert "public: the number of records, the basis and how it was made, the label bound 3" in said
    assert "round 8 of residuals (Gaussian noise, μ" in said
    assert "75 features of 150 public rows" in str(model.schedule_)
    told = [entry["round"] for entry in model.history_]
    assert set(told) <= set(range(1, model.schedule_.rounds + 1))
    assert len(told) == len(set(told)) > 0
    assert repr(model) == "PrivateRegressor(delta=1e-06, epsilon=1.0, label_bound=3.0)"
    assert repr(clone(model)) == repr(model)
    assert str(model.privacy_) in describe_model(model)  # what the command line says of its file
    assert str(model.schedule_) in describe_model(model)


@pytest.mark.parametrize("public", [U, None])
def test_a_file_keeps_the_model_its_guarantee_and_its_plan(public, tmp_path):
    sites = np.arange(len(X)) % 2
    for model in (private(engine="threads", n_features=12), private(label_bound=None, n_features=12, rounds=2)):
        model.fit(X, y, public=public, sites=sites)
        up.save(model, tmp_path / "a.model")
        read = up.load(tmp_path / "a.model")
        assert_array_equal(read.predict(T), model.predict(T))
        for name in ("privacy_", "schedule_", "history_", "sites_", "intercept_", "basis_digest_", "n_features_in_"):
            assert getattr(read, name) == getattr(model, name), name
        assert models.digest_of(read) == models.digest_of(model)
        assert_array_equal(pickle.loads(pickle.dumps(model)).predict(T), model.predict(T))
        assert np.isfinite(read.fit(X, y, public=public).predict(T)).all()


def test_a_forged_file_is_refused():
    model = private(n_features=5, rounds=2).fit(X, y, public=U)
    header, arrays = model._to_parts()
    for place, value, says in [
        (("privacy", "epsilon"), 0.01, "more than the promised"),
        (("params", "epsilon"), 9.0, "does not match its epsilon"),
        (("params", "rounds"), 0, "rounds must be"),
        (("params", "loss"), "squared", "loss must be"),
        (("params", "noise"), [1], "noise must be"),
        (("plan", "mu"), -1.0, "mu must be"),
        (("plan", "labels"), 1.0, "share below 1"),
        (("plan", "loss"), "squared", "loss must be"),
        (("plan", "why"), "because", "sentences"),
        (("lists", "history_"), [1], "history_ must be"),
        (("lists", "sites_"), [{"rows": [1]}], "sites_ must be"),
        (("lists", "other"), [], "lists are not history_ and sites_"),
    ]:
        forged = copy.deepcopy(header)
        forged[place[0]][place[1]] = value
        with pytest.raises(ValueError, match=says):
            up.PrivateRegressor._from_parts(forged, arrays)


def test_frames_keep_their_names():
    rows, public = (pd.DataFrame(values, columns=["age", "dose", "time"]) for values in (X, U))
    for sample in (public, None):
        model = private(n_features=12).fit(rows, y, public=sample)
        assert list(model.feature_names_in_) == list(model.basis_.feature_names_in_) == ["age", "dose", "time"]
        with pytest.raises(ValueError, match="feature names"):
            model.predict(rows[["dose", "age", "time"]])
    named = private(n_features=12).fit(rows.assign(y=y), "y", public=public)
    assert list(named.feature_names_in_) == ["age", "dose", "time"]
