"""LESSRegressor(engine=...) fits the rows of sites, which make the sums themselves."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import unpooled as up
from tests.cases.federation import Consortium, Wire, lost
from unpooled.federation import FederatedEngine, StudyError, StudyRecord
from unpooled.losses import Huber, Squared
from unpooled.summaries.contents import Contents
from unpooled.summaries.passes import Target
from unpooled.summaries.summary import SUMS

both = pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    return Consortium(tmp_path_factory.mktemp("consortium"))


def engine_of(sites, folder, hook=None, **choices):
    return FederatedEngine(sites.study(kind="estimator", **choices), sites.transport(hook), folder)


@both
@pytest.mark.filterwarnings("ignore:.*public rows stand in for:UserWarning")
@pytest.mark.parametrize(
    ("choices", "params"),
    [
        ({}, {"fit_intercept": True}),
        ({"order": 2}, {"order": 2}),
        ({"rounds": 5}, {"rounds": 5, "fit_intercept": True, "steps": "conjugate", "ridge": True}),
        ({"rounds": 3, "loss": "huber 0.8"}, {"rounds": 3, "loss": Huber(0.8)}),
    ],
    ids=["less", "second order", "rounds", "robust"],
)
def test_it_is_the_estimator_of_the_pooled_rows(sites, tmp_path, secure, choices, params):
    """λ too is chosen as on the pooled rows: by leave-one-out, or by GCV from many λ side by side."""
    engine = engine_of(sites, tmp_path / "study", secure=secure, **choices)
    model = up.LESSRegressor(basis=sites.basis, engine=engine, **{"fit_intercept": False, **params}).fit(
        engine.rows, "y"
    )
    pooled = sites.pooled.to_pandas()
    twin = up.LESSRegressor(basis=sites.basis, **{"fit_intercept": False, **params}).fit(pooled, "y")
    assert model.lam_ == twin.lam_
    assert model.n_rounds_ == twin.n_rounds_
    assert np.max(np.abs(model.coef_ - twin.coef_)) < 2.0**-40 * np.max(np.abs(twin.coef_))
    record = engine.finish(model)
    assert record.outcome == "complete"
    assert record.exchanges[0].n_rows == len(pooled)
    assert np.array_equal(up.load(tmp_path / "study" / "study.model").coef_, model.coef_)


def test_a_fit_that_was_cut_off_goes_on_with_the_sums_it_has(sites, tmp_path):
    """Fitting again in the same folder asks for nothing that is there."""
    engine = engine_of(sites, tmp_path / "study", rounds=3)
    first = up.LESSRegressor(basis=sites.basis, rounds=3, lam=1e-3, engine=engine, fit_intercept=False).fit(
        engine.rows, "y"
    )
    wire = Wire()
    again = engine_of(sites, tmp_path / "study", wire, rounds=3)
    second = up.LESSRegressor(basis=sites.basis, rounds=3, lam=1e-3, engine=again, fit_intercept=False).fit(
        again.rows, "y"
    )
    assert wire.seen == []
    assert np.array_equal(first.coef_, second.coef_)
    with pytest.raises(StudyError, match="answers another question"):
        up.LESSRegressor(basis=sites.basis, rounds=3, lam=1e-2, engine=again, fit_intercept=False).fit(again.rows, "y")


def test_functions_do_not_travel(sites, tmp_path):
    """A function that is not among the named statistics is refused here, before anything is sent."""
    wire = Wire()
    engine = engine_of(sites, tmp_path / "study", wire)
    with pytest.raises(ValueError, match="is not among the statistics that sites answer"):
        engine.map_reduce(print, [], max)
    rounds = engine_of(sites, tmp_path / "rounds", rounds=2, loss="huber 1.0")
    with pytest.raises(ValueError, match="count is not among the statistics that sites answer"):
        up.LESSRegressor(basis=sites.basis, rounds=2, loss="huber", engine=rounds, fit_intercept=False).fit(
            rounds.rows, "y"
        )
    assert wire.seen == []


def never_called(block, contents, target, secret):
    raise AssertionError


def test_a_statistic_is_asked_for_by_the_name_it_carries_whatever_function_is_called_elsewhere(sites, tmp_path):
    wire, secret = Wire(), "an argument that is not public"
    engine = engine_of(sites, tmp_path / "study", wire)
    engine.begin()
    contents = Contents(sites.basis.digest, sites.basis.n_features_, 1, 1)
    another = replace(SUMS, function=never_called)
    found = engine.map_reduce(another, [], max, args=(contents, Target(Squared()), secret))
    assert found.n_rows == len(sites.pooled)
    assert all(secret.encode() not in content for _, _, content in wire.seen)
    with pytest.raises(ValueError, match="sum_block is not among the statistics that sites answer"):
        engine.map_reduce(SUMS.function, [], max, args=(sites.basis, contents, Target(Squared())))


def test_rows_of_sites_cannot_be_read(sites, tmp_path):
    engine = engine_of(sites, tmp_path / "study")
    with pytest.raises(ValueError, match="stay at east"):
        engine.rows.pieces[0].read()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"y": "z"}, "y must be y"),
        ({"sample_weight": "w"}, "sample_weight must be None"),
        ({"kernel": up.kernels.Gaussian(1.0), "public": np.ones((9, 2))}, "basis must be the basis of the study"),
    ],
)
def test_what_the_study_is_not_about_is_refused(sites, tmp_path, wrong, sentence):
    engine = engine_of(sites, tmp_path / "study")
    given = {"kernel": wrong["kernel"]} if "kernel" in wrong else {"basis": sites.basis}
    model = up.LESSRegressor(engine=engine, fit_intercept=False, **given)
    others = {name: wrong[name] for name in ("sample_weight", "public") if name in wrong}
    with pytest.raises(ValueError, match=sentence):
        model.fit(engine.rows, wrong.get("y", "y"), **others)


def test_other_choices_than_the_studys_are_refused(sites, tmp_path):
    engine = engine_of(sites, tmp_path / "study", rounds=2)
    with pytest.raises(ValueError, match="do not belong to the study"):
        up.LESSRegressor(basis=sites.basis, order=2, engine=engine, fit_intercept=False).fit(engine.rows, "y")


def test_a_fit_below_the_quorum_fails_and_says_so_in_the_record(sites, tmp_path):
    wire = Wire({(name, "reply", "answer"): lost for name in ("north", "west")})
    engine = engine_of(sites, tmp_path / "study", wire)
    with pytest.raises(StudyError, match="the quorum is 3"):
        up.LESSRegressor(basis=sites.basis, engine=engine, fit_intercept=False).fit(engine.rows, "y")
    assert StudyRecord.load(tmp_path / "study").outcome == "failed"


def test_a_clone_works_on_the_same_engine_and_a_pickle_without(sites, tmp_path):
    engine = engine_of(sites, tmp_path / "study")
    model = up.LESSRegressor(basis=sites.basis, engine=engine, fit_intercept=False)
    assert clone(model).engine is engine
    assert pickle.loads(pickle.dumps(model)).engine is None
    assert engine.n_workers == 4


def test_only_estimator_studies_run_on_an_engine(sites, tmp_path):
    with pytest.raises(ValueError, match="estimator"):
        FederatedEngine(sites.study(), sites.transport(), tmp_path / "study")
    engine = engine_of(sites, tmp_path / "study")
    with pytest.raises(StudyError, match="there is no model yet"):
        engine.finish(None)
