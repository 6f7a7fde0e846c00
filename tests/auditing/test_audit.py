"""The audit: shipped mechanisms stay below their claims, planted faults are caught, and the bound is one.

Every verdict is wrong with probability 1e-7 at most; noise has no seed, so tests must not fail by chance either. Where
a fault has to be caught, the runs leave more than seven standard deviations.

Tests `auditing/mechanism.py` and `auditing/of_models.py`.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import unpooled as up
from tests.cases.cli import answer_of, call, said
from unpooled.auditing import FAULTS, SHIPPED, Mechanism, audit, lower_bound, worst_neighbours
from unpooled.auditing.audit import _makers
from unpooled.auditing.estimate import attainable
from unpooled.auditing.of_summaries import _find_furthest, _fit_public_basis
from unpooled.privacy import PrivacyRequest, epsilon_of, mu_for
from unpooled.privacy.release import check_request

FALSE_ALARM = 1e-8
CALLS = 30


@pytest.fixture(scope="module")
def table():
    pytest.importorskip("opendp")
    return up.audit(quick=True, progress=False)


def test_no_shipped_mechanism_exceeds_its_claim_and_every_planted_fault_is_caught(table):
    assert table.ok, str(table)
    assert len(table.rows) == len(SHIPPED) + len(FAULTS)
    assert [row.fault for row in table.rows] == [False] * len(SHIPPED) + [True] * len(FAULTS)


def test_the_bounds_come_near_the_claim_where_the_noise_is_tight(table):
    """6000 runs show about half of ε = 3 without any assumption, and about 2.2 with that of Gaussian privacy."""
    result = {row.name: row for row in table.rows}
    for name in ("discrete Gaussian noise, M = 3", "summary of order 1", "summary of order 2"):
        assert result[name].found > 0.5
        assert 1.2 < result[name].found_if_gaussian < 3.0
    assert result["PrivateSGDRegressor, paper"].found < 0.5, "its noise is far more than it needs"


def test_the_table_prints_and_goes_to_json(table):
    text = str(table)
    assert "planted faults" in text
    assert all(row.name in text for row in table.rows)
    content = json.loads(table.to_json())
    assert content["kept"] is True
    assert {row["verdict"] for row in content["rows"]} == {"within its claim", "caught"}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_mechanism_is_refuted_once_the_noise_is_taken_out(name, monkeypatch):
    """Or its line would be no evidence: the quick audit has to see a mechanism that adds nothing."""
    monkeypatch.setattr("unpooled.privacy.noise._add_discrete_gaussian", lambda units, _scale: units)
    mechanism = SHIPPED[name]()
    if mechanism.many is None:  # a fit without noise gives the same numbers every time, so a few are enough
        outputs = [np.stack([np.ravel(mechanism.release(data)) for _ in range(2)]) for data in mechanism.neighbours]
        for result in outputs:
            np.testing.assert_array_equal(result[0], result[1])
        each = {id(data): result[0] for data, result in zip(mechanism.neighbours, outputs)}
        mechanism = replace(mechanism, many=lambda data, runs: np.tile(each[id(data)], (runs, 1)))
    row = audit(mechanism, quick=True, progress=False).rows[0]
    assert row.attainable > 1.4 * row.epsilon
    assert row.verdict == "EXCEEDS ITS CLAIM", row


def test_runs_that_cannot_refute_a_claim_are_no_evidence_for_it():
    exact = Mechanism("exact", lambda x: x, (0.0, 1.0), 3.0, 0.01)
    for runs, verdict in ((100, "too few runs to refute"), (3000, "EXCEEDS ITS CLAIM")):
        result = audit(exact, runs=runs, progress=False)
        assert not result.ok
        assert result.rows[0].verdict == verdict
        assert result.rows[0].found == pytest.approx(result.rows[0].attainable)
    for runs, delta, confidence in ((30, 0.0, 0.9), (1000, 0.01, 0.999)):
        most = lower_bound(np.ones(runs), np.zeros(runs), delta, confidence).epsilon
        assert attainable(runs, delta, confidence) == pytest.approx(most)
    assert attainable(30, 0.999) == 0.0


@pytest.mark.parametrize("name", [*SHIPPED, *FAULTS])
def test_what_is_drawn_together_has_the_law_of_what_is_called(name):
    """Outputs of a few real calls against those that are made together: their means, and how they scatter."""
    pytest.importorskip("opendp")
    mechanism = (SHIPPED | FAULTS)[name]()
    if mechanism.many is None:
        pytest.skip("it is called in every run")
    data = mechanism.neighbours[0]
    called = np.stack([np.ravel(mechanism.release(data)) for _ in range(CALLS)])
    together = mechanism.outputs(data, 2000)
    assert called.shape[1] == together.shape[1]
    fixed = np.ptp(together, axis=0) == 0
    np.testing.assert_allclose(called[:, fixed], np.tile(together[0, fixed], (CALLS, 1)))
    middle, spread = together[:, ~fixed].mean(axis=0), together[:, ~fixed].std(axis=0)
    a, b = (called[:, ~fixed] - middle) / spread, (together[:, ~fixed] - middle) / spread
    assert np.max(np.abs(a.mean(axis=0))) < 7 / math.sqrt(CALLS)
    assert stats.ks_2samp(a.ravel(), b.ravel()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("order", [1, 2])
def test_the_search_finds_neighbours_as_far_apart_as_is_proved(order):
    question = check_request(_fit_public_basis(), order, None, "squared", None, PrivacyRequest(1.0, 1e-3, 1.0))
    result = _find_furthest(question)
    assert 0.99 < result.distance / question.noise.sensitivity <= 1 + 1e-9
    (X, y), (other_X, other_y) = result.first, result.second
    assert np.sum(np.any(other_X != X, axis=1) | (y != other_y)) == 1


def test_the_search_climbs_where_no_start_is_the_worst():
    """A sum of bumps: labels alone are not enough, the record has to be at its top."""
    result = worst_neighbours(lambda X, y: (y * np.exp(-((X[:, 0] - 1.0) ** 2))).sum(keepdims=True), 3, 1, 2.0)
    assert 3.99 < result.distance <= 4.0
    np.testing.assert_allclose(np.abs(result.direction), result.distance)


@pytest.mark.parametrize("mu", [0.5, 2.0])
@pytest.mark.parametrize("learned", [True, False])
def test_bounds_are_below_the_truth_and_near_it(mu, learned):
    rng = np.random.default_rng(0)
    direction = np.asarray([3.0, -4.0, 0.0]) / 5
    P, Q = rng.normal(size=(100_000, 3)) + mu * direction, rng.normal(size=(100_000, 3))
    result = lower_bound(P, Q, 0.01, direction=None if learned else direction)
    assert 0.9 * mu - 0.03 < result.mu <= mu
    truth = epsilon_of(mu, 0.01)
    assert 0.9 * truth - 0.1 < result.gaussian_epsilon <= truth
    assert 0.65 * truth < result.epsilon <= truth


def test_a_bound_is_seldom_too_large():
    """At a confidence of 90 % it may be above the truth once in ten times; a hundred times, with a margin."""
    rng = np.random.default_rng(1)
    truth = epsilon_of(1.0, 0.01)
    bounds = [lower_bound(rng.normal(size=(300, 1)) + 1, rng.normal(size=(300, 1)), 0.01, 0.9) for _ in range(100)]
    for name, value in (("mu", 1.0), ("epsilon", truth)):
        wrong = sum(getattr(result, name) > value for result in bounds)
        assert stats.binomtest(wrong, 100, 0.1, alternative="greater").pvalue > 1e-6


def test_equal_outputs_prove_nothing_and_different_ones_all_that_runs_can():
    ones = np.ones((3000, 2))
    assert lower_bound(ones, ones, 0.0).epsilon == 0.0
    result = lower_bound(ones, -ones, 0.0)
    none_in_2000 = 1 - (0.5e-7) ** (1 / 2000)
    assert result.epsilon == pytest.approx(math.log((1 - none_in_2000) / none_in_2000), rel=1e-6)


def test_noise_whose_size_depends_on_the_data_is_seen():
    rng = np.random.default_rng(2)
    result = lower_bound(rng.normal(size=(5000, 3)), 3 * rng.normal(size=(5000, 3)), 1e-3)
    assert result.epsilon > 2.0


def test_both_tails_are_looked_at():
    """Outputs that only S has, or only S': which data set comes first makes no difference."""
    rng = np.random.default_rng(3)
    often, seldom = (rng.random((20_000, 1)) < 0.5).astype(float), (rng.random((20_000, 1)) < 0.01).astype(float)
    for P, Q in ((often, seldom), (seldom, often), (1 - often, 1 - seldom)):
        assert 3.0 < lower_bound(P, Q, 0.0).epsilon < math.log(50)


def test_anyone_can_audit_their_own():
    rng = np.random.default_rng(4)

    def release(x):
        return x + rng.normal()

    honest = audit(release, neighbours=(0.0, mu_for(3.0, 0.01)), epsilon=3.0, delta=0.01, runs=4000, progress=False)
    assert honest.ok
    assert honest.rows[0].name == "release"
    careless = audit(release, neighbours=(0.0, 4.0), epsilon=1.0, delta=0.01, runs=4000, progress=False)
    assert not careless.ok
    assert careless.rows[0].verdict == "EXCEEDS ITS CLAIM"
    planted = Mechanism("planted", release, (0.0, 0.1), 1.0, 0.01, fault=True)
    assert audit([planted], runs=300, progress=False).rows[0].verdict == "NOT CAUGHT"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nothing",), "there is no mechanism 'nothing': the names are noise"),
        ((3,), "mechanisms must be a name"),
        ((len,), "its claim is needed: give neighbours, epsilon, delta"),
        (("noise", {"epsilon": 1.0}), "epsilon state the claim of a function, and mechanisms is not one"),
        (("noise", {"runs": 3}), "runs must be a whole number, at least 30"),
        (("noise", {"confidence": 1.5}), "confidence must lie between"),
        ((len, {"neighbours": (1, 2), "epsilon": -1.0, "delta": 0.1}), "epsilon must be a positive"),
        ((len, {"neighbours": [1, 2], "epsilon": 1.0, "delta": 0.1}), "neighbours must be a tuple of two"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_a_sentence(arguments, sentence):
    *plain, named = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(ValueError, match=sentence):
        audit(*plain, **named)


@pytest.mark.parametrize(
    ("P", "Q", "sentence"),
    [
        (np.zeros(10), np.zeros(10), "runs must be at least 30"),
        (np.zeros(100), np.zeros(90), "first and second must have the same shape"),
        (np.full(100, np.nan), np.zeros(100), "must be finite"),
    ],
)
def test_outputs_that_say_nothing_are_refused(P, Q, sentence):
    with pytest.raises(ValueError, match=sentence):
        lower_bound(P, Q, 0.01)


def test_names_are_looked_up_before_anything_runs():
    assert len(_makers(None, None, None, None)) == len(SHIPPED) + len(FAULTS)
    with pytest.raises(ValueError, match="there is no mechanism"):
        audit(["noise", "typo"])


def test_the_command_prints_the_table_and_its_exit_code_is_the_verdict():
    pytest.importorskip("opendp")
    assert "within its claim" in call("audit", "--runs", "1000", "noise", "summary-1").stdout
    assert said("audit", "noise", "--runs", "100", code=7).startswith("discrete Gaussian noise, M = 3: too few runs")
    result = answer_of("audit", "--quick", "noise-small-epsilon")
    assert result["kept"] is True
    assert result["rows"][0]["runs"] == 6000
    assert said("audit", "half-noise", "--runs", "100", code=7).startswith("half the noise: not caught")
    assert answer_of("audit", "half-noise", "--runs", "100", code=7)["reasons"]
    assert said("audit", "typo", code=2).startswith("there is no mechanism typo")
