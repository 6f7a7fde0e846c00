"""A federated model is the model of the pooled rows: to the grid of the encoding, with and without secure sums.

Tests `federation/server/running.py`.
"""

import math
import time
import warnings
from fractions import Fraction

import numpy as np
import pytest

import unpooled as up
from tests.cases.federation import Consortium
from unpooled.estimators.span import BasisAverage
from unpooled.federation import Study, run_study
from unpooled.federation.secure.fixed_point import FixedPoint, add_all, flatten, restore
from unpooled.federation.site.statistics import Sums
from unpooled.losses import Correntropy, Huber

GRID = 2.0**-40  # the coarsest that a study may have; the default is 2⁻⁶⁴
both = pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    return Consortium(tmp_path_factory.mktemp("consortium"))


def run(sites, tmp_path, **choices):
    study = sites.study(**choices)
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert record.outcome == "complete"
    return record, up.load(tmp_path / "study" / "study.model")


def frame(sites):
    return sites.pooled.to_pandas()


@both
@pytest.mark.parametrize("lam", [1e-3, "auto", "loo"])
def test_second_order_is_ridge_regression_on_the_pooled_rows(sites, tmp_path, secure, lam):
    record, model = run(sites, tmp_path, kind="second-order", lam=lam, secure=secure)
    pooled = up.Summary.of(sites.basis, frame(sites), "y", order=2)
    twin = up.SummaryRegressor(lam="auto" if lam == "loo" else lam, fit_intercept=True).fit_summary(pooled)
    if lam == "loo":
        scores = up.Scores.of(twin.candidates(), sites.basis, frame(sites), "y")
        twin.fit_summary(pooled, scores=scores)
    assert len(record.exchanges) == (2 if lam == "loo" else 1)
    assert model.lam_ == twin.lam_
    assert model.summary_.n_rows == len(frame(sites))
    assert np.max(np.abs(model.coef_ - twin.coef_)) < GRID * np.max(np.abs(twin.coef_))
    assert np.max(np.abs(model.predict(frame(sites)[["a", "b"]]) - twin.predict(frame(sites)[["a", "b"]]))) < GRID


@both
def test_less_is_less_of_the_pooled_rows(sites, tmp_path, secure):
    _, model = run(sites, tmp_path, kind="less", secure=secure)
    with pytest.warns(UserWarning, match="public rows stand in for"):
        twin = up.SummaryRegressor(fit_intercept=True).fit_summary(up.Summary.of(sites.basis, frame(sites), "y"))
    assert model.lam_ == twin.lam_
    assert np.max(np.abs(model.coef_ - twin.coef_)) < GRID


@both
@pytest.mark.parametrize(
    ("loss", "spec", "steps"),
    [
        ("squared", "squared", "conjugate"),
        (Huber(0.8), "huber 0.8", "plain"),
        (Correntropy(2.0), "correntropy 2.0", "plain"),
    ],
    ids=["squared", "huber", "correntropy"],
)
def test_rounds_of_residuals_are_those_of_the_pooled_rows(sites, tmp_path, secure, loss, spec, steps):
    choices = {"lam": 1e-3, "ridge": True, "steps": steps}
    record, model = run(sites, tmp_path, kind="rounds", rounds=4, loss=spec, secure=secure, **choices)
    twin = up.SummaryRegressor(fit_intercept=True, **choices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the floor, which rounds remove
        twin.fit_summary(up.Summary.of(sites.basis, frame(sites), "y", loss=loss))
    for _ in range(3):
        twin.update(up.Summary.of(sites.basis, frame(sites), "y", residuals_of=twin, loss=loss))
    assert model.n_rounds_ == twin.n_rounds_ == len(record.exchanges) == 4
    assert np.max(np.abs(model.coef_ - twin.coef_)) < GRID * np.max(np.abs(twin.coef_))
    assert abs(model.intercept_ - twin.intercept_) < GRID


@both
@pytest.mark.parametrize("score_by", ["rows", "sites"])
def test_averages_are_averages_of_each_sites_own_regression(sites, tmp_path, secure, score_by):
    grid = (1e-1, 1e-3, 1e-5)
    choices = {"kind": "average", "lam": "rule13", "grid": grid, "score_by": score_by}
    record, model = run(sites, tmp_path, secure=secure, **choices)
    assert [one.statistic for one in record.exchanges] == ["fits", "errors", "fits"]
    assert isinstance(model, BasisAverage)
    assert model.n_sites_ == 4
    assert model.lam_ in grid
    fits = [
        up.SummaryRegressor(lam=model.lam_, fit_intercept=True).fit_summary(
            up.Summary.of(sites.basis, t.to_pandas(), "y", order=2)
        )
        for t in sites.rows.values()
    ]
    sizes = [len(table) for table in sites.rows.values()]
    average = np.average([fit.coef_ for fit in fits], axis=0, weights=sizes)
    assert np.max(np.abs(model.coef_ - average)) < GRID * np.max(np.abs(average))
    assert model.lam_ == grid[int(np.argmin(model.validation_["error"][:, 0]))]
    mean_square = model.validation_["error"][:, 0]
    assert mean_square[1] < mean_square[0]


def test_rule_13_as_printed_weighs_sites_alike_and_14_rows(sites, tmp_path):
    errors = {}
    for score_by in ("rows", "sites"):
        choices = {"kind": "average", "lam": "rule13", "grid": (1e-1, 1e-3), "score_by": score_by}
        errors[score_by] = run(sites, tmp_path / score_by, **choices)[1].validation_["error"]
    assert not np.allclose(errors["rows"], errors["sites"], rtol=1e-6)
    assert np.allclose(errors["rows"], errors["sites"], rtol=0.2)


def fraction(pair, place):
    """The number that a sum holds as high + low."""
    return Fraction(float(pair.high[place])) + Fraction(float(pair.low[place]))


@pytest.mark.parametrize("bits", [40, 64])
def test_a_secure_sum_is_the_exact_sum_of_the_numbers_on_the_grid(sites, tmp_path, bits):
    """The total in the study's folder, as a fraction, is the sum over sites of what each has rounded to the grid."""
    study = sites.study(kind="second-order", lam=1e-3, secure=True, fraction_bits=bits)
    run_study(study, sites.transport(), tmp_path / "study")
    statistic = Sums(study, 0, None, "squared", 2)
    found = up.Summary.load(tmp_path / "study" / "exchanges" / "0000.total")
    parts = [up.Summary.of(sites.basis, sites.rows[name].to_pandas(), "y", order=2) for name in sites.names]
    for field in statistic.shapes():
        for place in np.ndindex(found.sums[field].high.shape):
            exact = [fraction(part.sums[field], place) * 2**bits for part in parts]
            nearest = [math.floor(number + Fraction(1, 2)) for number in exact]
            assert fraction(found.sums[field], place) * 2**bits == sum(nearest)


def test_masks_change_no_bit_of_the_model(sites, tmp_path):
    """Numbers that are encoded and added without masks give the same bits."""
    study = sites.study(kind="second-order", lam=1e-3, secure=True)
    run_study(study, sites.transport(), tmp_path / "study")
    model = up.load(tmp_path / "study" / "study.model")
    statistic, numbers = Sums(study, 0, None, "squared", 2), FixedPoint(4, 64)
    words = []
    for name in sites.names:
        part = up.Summary.of(sites.basis, sites.rows[name].to_pandas(), "y", order=2)
        words.append(numbers.encode(*flatten(part.n_rows, part.sums, statistic.shapes())))
    summary = statistic.from_sums(*restore(*numbers.decode(add_all(words)), statistic.shapes()), 4)
    twin = up.SummaryRegressor(lam=1e-3, fit_intercept=True).fit_summary(summary, basis=sites.basis)
    assert np.array_equal(model.coef_, twin.coef_)
    assert model.intercept_ == twin.intercept_


@both
def test_the_order_in_which_sites_answer_changes_no_bit(sites, tmp_path, secure):
    coefs = []
    for slow in ("east", "west"):

        def late(site, way, content, slow=slow):
            time.sleep(0.05 if site == slow and way == "reply" else 0.0)
            return content

        study = sites.study(kind="less", lam=1e-2, secure=secure)
        run_study(study, sites.transport(late), tmp_path / slow)
        coefs.append(up.load(tmp_path / slow / "study.model").coef_)
    assert np.array_equal(*coefs)


@pytest.mark.parametrize("n_sites", [3, 8])
def test_three_and_eight_sites(tmp_path, n_sites):
    sites = Consortium(tmp_path / "sites", names=[f"site {i}" for i in range(n_sites)], n_rows=80)
    study = sites.study(kind="rounds", rounds=3, lam=1e-3, secure=True)
    run_study(study, sites.transport(), tmp_path / "study")
    model = up.load(tmp_path / "study" / "study.model")
    assert model.summary_.n_rows == sites.pooled.num_rows


def test_csv_rows_and_several_targets(tmp_path):
    sites = Consortium(tmp_path / "sites")
    for name in sites.names:
        table = sites.rows[name].to_pandas()
        table["z"] = table.a - table.y
        table.to_csv(sites.folder / name / "rows.csv", index=False)
        sites.reconfigure(name, data=sites.folder / name / "rows.csv")
    study = Study("two", sites.basis, ("y", "z"), sites.names, 3, 10.0, kind="second-order", lam=1e-3, secure=True)
    run_study(study, sites.transport(), tmp_path / "study")
    model = up.load(tmp_path / "study" / "study.model")
    assert model.targets_ == ("y", "z")
    assert model.coef_.shape == (12, 2)
    rows = frame(sites)
    rows["z"] = rows.a - rows.y
    predicted = model.predict(rows[["a", "b"]])
    assert np.mean((predicted[:, 0] - rows.y) ** 2) < 0.1
    assert np.mean((predicted[:, 1] - rows.z) ** 2) < 0.1
