"""Private rounds over sites: the bits of one process, ledgers charged exactly, hostile questions refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

import unpooled as up
from tests.cases.federation import Consortium, Wire, lost, nth, rewritten
from unpooled._base.rows import ArraySource, Rows
from unpooled.engines import as_engine
from unpooled.estimators.private import run_rounds
from unpooled.federation import Message, SiteConfig, StudyError, StudyPrivacy, run_study
from unpooled.federation.server.rounds import _plan_rounds
from unpooled.federation.site.questions import ask_message
from unpooled.federation.site.rounds import RoundQuestion, RowCount, _purpose_of
from unpooled.federation.study.new_study import NewStudy
from unpooled.federation.study.privacy import LIVE_ROUNDS
from unpooled.federation.study.study import Study, read_study
from unpooled.losses import Huber
from unpooled.privacy import Ledger, epsilon_of, mu_for, noise
from unpooled.privacy.gaussian import GaussianEvent
from unpooled.privacy.ledger import Spending
from unpooled.privacy.rounds.custodian import RowHolder
from unpooled.privacy.rounds.questions import LabelCounts, Residuals

pytest.importorskip("opendp")

NAMES = ("east", "north", "south")
BUDGET = StudyPrivacy(8.0, 1e-6, label_bound=8.0)
both = pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])


@pytest.fixture
def sites(tmp_path):
    found = Consortium(tmp_path / "sites", NAMES)
    found.ledgers(8.0, 1e-6)
    return found


@pytest.fixture
def same_noise(monkeypatch):
    """Noise that follows from the number of numbers and its scale alone: every party adds the same."""

    def add(units, scale):
        return units + np.rint(np.random.default_rng(len(units)).normal(size=len(units)) * scale).astype(np.int64)

    monkeypatch.setattr(noise, "_add_discrete_gaussian", add)


def private_study(sites, **choices):
    return sites.study(**{"kind": "private", "privacy": BUDGET, **choices})


def in_one_place(sites, names=NAMES):
    tables = [sites.rows[name].to_pandas() for name in sorted(names)]
    X = np.concatenate([table[["a", "b"]].to_numpy() for table in tables])
    y = np.concatenate([table["y"].to_numpy() for table in tables])
    return X, y, np.repeat(sorted(names), [len(table) for table in tables])


def ledger(sites, name):
    return Ledger(sites.configs[name].ledger)


def spent(sites, name):
    return math.sqrt(math.fsum(event.mu**2 for event in ledger(sites, name).events()))


# --- One seam ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [4, "auto"])
def test_sites_with_noise_of_their_own_give_the_bits_of_one_process(sites, tmp_path, same_noise, rounds):
    record = run_study(private_study(sites, rounds=rounds), sites.transport(), tmp_path / "study")
    assert record.outcome == "complete"
    found = up.load(tmp_path / "study" / "study.model")
    X, y, labels = in_one_place(sites)
    basis = up.PrivateRegressor(8.0, 1e-6, 8.0, basis=sites.basis, rounds=rounds, noise="site")
    names = {"a": X[:, 0], "b": X[:, 1]}
    import pandas as pd

    wanted = basis.fit(pd.DataFrame(names), y, sites=labels)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    assert found.intercept_ == wanted.intercept_
    assert found.history_ == wanted.history_
    assert found.schedule_ == wanted.schedule_
    assert found.privacy_.spent_on == wanted.privacy_.spent_on


def test_shares_under_masks_give_the_bits_of_one_process(sites, tmp_path, same_noise):
    study = private_study(sites, secure=True, rounds=5)
    run_study(study, sites.transport(), tmp_path / "study")
    found = up.load(tmp_path / "study" / "study.model")
    X, y, labels = in_one_place(sites)
    plan = _plan_rounds(study, len(X), 3)
    sources = [ArraySource(Rows(X[labels == name], y[labels == name, None])) for name in sorted(NAMES)]
    custodian = RowHolder(sources, len(X), 8.0, as_engine(None), 3, *study.shares)
    custodian.map_rows(study.frame)
    learned, _ = run_rounds(plan, study.frame, custodian)
    np.testing.assert_array_equal(found.coef_, study.frame.coefficients(learned.coef)[0])
    assert study.shares == (3, 1)
    assert plan.sites == 1.5


# --- A study from its beginning to its end ----------------------------------------------------------------------------


@both
def test_a_study_ends_with_a_model_and_its_guarantee(tmp_path, secure):
    sites = Consortium(tmp_path / "sites", NAMES, n_rows=1500)
    sites.ledgers(8.0, 1e-6)
    record = run_study(private_study(sites, secure=secure), sites.transport(), tmp_path / "study")
    model = up.load(tmp_path / "study" / "study.model")
    assert record.outcome == "complete"
    assert (model.privacy_.epsilon, model.privacy_.delta) == (8.0, 1e-6)
    assert record.privacy["model"] == model.privacy_.to_dict()
    assert ("nobody sees more than the sum over 3 sites" in str(model.privacy_)) == secure
    assert model.schedule_.rounds == LIVE_ROUNDS == 16
    X, y, _ = in_one_place(sites)
    import pandas as pd

    rows = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    assert model.score(rows, y) > 0.85
    mu = mu_for(8.0, 1e-6)
    for name in NAMES:
        charges = ledger(sites, name).charges()
        assert len(charges) == len(record.exchanges) - 1 == len(model.privacy_.spent_on)
        assert all(charge.is_released for charge in charges)
        prices = [charge.events[0].mu for charge in charges]
        np.testing.assert_allclose(prices, [item.event.mu for item in model.privacy_.spent_on], rtol=1e-9)
        assert spent(sites, name) <= mu * (1 + 1e-12)
        assert spent(sites, name) > 0.98 * mu  # not every look at the labels need be taken
        assert record.privacy["sites"][name]["releases"] == len(charges)
        assert record.privacy["sites"][name]["epsilon"] <= 8.0 * (1 + 1e-9)
    with pytest.raises(StudyError, match="the privacy budget of this site does not allow it"):
        run_study(private_study(sites, secure=secure), sites.transport(), tmp_path / "again")
    assert len(ledger(sites, "east").charges()) == len(record.exchanges) - 1  # that was found out before a question


class PowerCut(BaseException):
    """An interruption that no code catches."""


def cut_at(done, attempt):
    """A progress display that pulls the plug after so many exchanges, and so many attempts at the next one."""
    seen = []

    def progress(status):
        if (status.state, status.done) == ("asking", done):
            seen.append(status.attempt)
            if 0 in seen and status.attempt == attempt:
                raise PowerCut

    return progress


@both
@pytest.mark.parametrize("attempt", [0, 1], ids=["between", "within"])
def test_a_study_that_was_stopped_continues_with_the_same_questions(sites, tmp_path, secure, attempt):
    """Within an exchange the answer is given again with fresh noise, and is paid for again."""
    study = private_study(sites, secure=secure, rounds=4, privacy=StudyPrivacy(6.0, 1e-6, label_bound=8.0))
    with pytest.raises(PowerCut):
        run_study(study, sites.transport(), tmp_path / "study", progress=cut_at(5, attempt))
    for name in NAMES:
        sites.restart(name)
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert record.outcome == "complete"
    n_questions = len(record.exchanges) - 1
    counts = [len(ledger(sites, name).charges()) for name in NAMES]
    assert counts == [n_questions + attempt] * 3
    again = run_study(study, sites.transport(), tmp_path / "study")
    assert again.digest == record.digest
    assert [len(ledger(sites, name).charges()) for name in NAMES] == counts
    assert len(up.load(tmp_path / "study" / "study.model").privacy_.spent_on) == n_questions


def test_a_site_that_drops_out_leaves_a_partial_study(tmp_path):
    """Four sites with a quorum of three: shares of a half, so one may drop out and one collude."""
    sites = Consortium(tmp_path / "sites")
    sites.ledgers(20.0, 1e-6)
    wire = Wire({("north", "reply", "answer"): nth(5, lost)})
    study = private_study(sites, secure=True, rounds=4)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    assert record.outcome == "partial"
    assert study.shares == (4, 2)
    assert record.missing["north"] == list(range(5, len(record.exchanges)))
    counts = {name: len(ledger(sites, name).charges()) for name in sites.names}
    assert counts["east"] == len(record.exchanges) - 1 + 1  # the question that was asked again is paid for again


# --- Hostile questions ------------------------------------------------------------------------------------------------


def joined(sites, study):
    """Return a site that has joined a study."""
    wire = Wire()
    run_study(study, sites.transport(wire), sites.folder / "joined")
    return sites.sites["east"]


def residuals(study, **changes):
    M = study.basis.n_features_
    asked = Residuals(np.zeros(M + 1), Huber(1.0), np.ones(M + 1), 1.0, 1.0, np.asarray([0.5, 1.0]), 0.1)
    return replace(asked, **changes)


def reason(site, message):
    answer = site.answer(message)
    assert answer.kind == "refusal"
    return answer.header["reason"]


def test_hostile_questions_are_refused_and_cost_nothing(tmp_path):
    sites = Consortium(tmp_path / "sites", NAMES)
    sites.ledgers(50.0, 1e-6)
    study = private_study(sites, rounds=2)
    site = joined(sites, study)
    before = len(ledger(sites, "east").charges())
    mu = 0.1
    good = ask_message(RoundQuestion(study, residuals(study), mu), attempt={"round": 1, "name": "x"})

    def changed(about=(), header=(), **arrays):
        inner = {**good.header["about"], **dict(header), "about": {**good.header["about"]["about"], **dict(about)}}
        return Message("ask", {**good.header, "about": inner}, {**good.arrays, **arrays})

    wrong = [
        (changed(about={"length": 1e300}), "length must be"),
        (changed(about={"loss": "squared"}), "the loss must be"),
        (changed(about={"kappa": 0.001}), "must have exactly"),
        (changed(about={"question": "rows"}), "not among the questions"),
        (changed(header={"mu": 1e6}), "mu must be at most"),
        (changed(header={"mu": math.nan}), "mu must be at most"),
        (changed(header={"mu": -1.0}), "mu must be at most"),
        (changed(header={"frame": "0" * 64}), "coordinates"),
        (changed(edges=np.asarray([1.0, 0.5])), "edges must increase"),
        (changed(coef=np.full(3, 1.0)), "coef must have"),
        (changed(weights=np.full(study.basis.n_features_ + 1, np.nan)), "finite"),
        (changed(about={"counts_weight": 0.2}), "does not match its digest"),
    ]
    for message, words in wrong:
        assert words in reason(site, message)
    assert len(ledger(sites, "east").charges()) == before


def test_no_order_of_questions_costs_more_than_the_study(tmp_path):
    """A server that asks what no learner would ask is stopped at the price that the people approved."""
    sites = Consortium(tmp_path / "sites", NAMES)
    sites.ledgers(50.0, 1e-6)
    study = private_study(sites, rounds=40)
    with pytest.raises(PowerCut):
        run_study(study, sites.transport(), tmp_path / "study", progress=cut_at(0, 0))
    site, mu = sites.sites["east"], study.mu / 3
    for i in range(9):
        edges = np.asarray([float(i), i + 1.0])
        question = RoundQuestion(study, LabelCounts(edges), mu)
        assert site.answer(ask_message(question, attempt={"round": 1, "name": "x"})).kind == "answer"
    last = RoundQuestion(study, LabelCounts(np.asarray([0.5])), mu)
    assert "all that it was to cost" in reason(site, ask_message(last, attempt={"round": 1, "name": "x"}))
    assert spent(sites, "east") <= study.mu


def test_the_same_question_cannot_be_asked_until_the_ledger_is_empty(tmp_path):
    """Fresh noise each time would average out; all answers of a study cost √2·μ at most, and people are told."""
    sites = Consortium(tmp_path / "sites", NAMES)
    sites.ledgers(50.0, 1e-6)
    study = private_study(sites, rounds=40)
    with pytest.raises(PowerCut):
        run_study(study, sites.transport(), tmp_path / "study", progress=cut_at(0, 0))
    site, question = sites.sites["east"], RoundQuestion(study, LabelCounts(np.asarray([0.0])), study.mu / 3)
    message = ask_message(question, attempt={"round": 1, "name": "x"})
    assert [site.answer(message).kind for _ in range(18)] == ["answer"] * 18
    assert "asked again as often as it may" in reason(site, message)
    assert spent(sites, "east") <= math.sqrt(2) * study.mu * (1 + 1e-9)
    assert f"ε = {epsilon_of(spent(sites, 'east'), 1e-6):.3g} at most" in study.describe()


def test_a_question_that_another_process_has_overtaken_is_not_answered(tmp_path, monkeypatch):
    sites = Consortium(tmp_path / "sites", NAMES)
    sites.ledgers(50.0, 1e-6)
    study = private_study(sites, rounds=40)
    with pytest.raises(PowerCut):
        run_study(study, sites.transport(), tmp_path / "study", progress=cut_at(0, 0))
    mine, other = (RoundQuestion(study, LabelCounts(np.asarray([x])), 0.9 * study.mu) for x in (0.0, 1.0))
    charge = Spending.charge

    def overtaken(spending):
        ledger(sites, "east").charge(GaussianEvent(other.noise.mu), _purpose_of(other))
        charge(spending)

    monkeypatch.setattr(Spending, "charge", overtaken)
    answer = reason(sites.sites["east"], ask_message(mine, attempt={"round": 1, "name": "x"}))
    assert "so nothing leaves" in answer


def test_coordinates_are_the_servers_and_must_fit_the_basis(sites, tmp_path):
    study = private_study(sites, rounds=2)

    def forged(message):
        message.arrays["rotation"] = np.zeros((2, 2))
        return Message(message.kind, message.header, message.arrays)

    wire = Wire({("east", "request", "join"): rewritten(forged)})
    with pytest.raises(StudyError, match="coordinates of the study do not match its basis"):
        run_study(study, sites.transport(wire), tmp_path / "study")


def test_a_site_asks_for_its_own_number_of_colluders(tmp_path):
    sites = Consortium(tmp_path / "sites")
    sites.ledgers(8.0, 1e-6)
    sites.reconfigure("east", colluding=2)
    study = private_study(sites, secure=True, rounds=2)
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert "allows 1 sites to collude" in record.failures[0].reason
    two = private_study(sites, secure=True, rounds=2, quorum=4, privacy=replace(BUDGET, colluding=2))
    assert two.shares == (4, 2)


def test_what_the_policy_forbids_is_refused_before_the_study(sites, tmp_path):
    sites.policy("north", max_epsilon=0.5)
    with pytest.raises(StudyError, match="at most 0.5 is allowed"):
        run_study(private_study(sites, rounds=2), sites.transport(), tmp_path / "study")
    assert ledger(sites, "north").charges() == []


@pytest.mark.parametrize("rules", [{"minimum_rows": 1000}, {"max_numbers_per_row": 0.01}, {"residual_rounds": False}])
def test_what_a_rule_about_rows_forbids_costs_nothing_either(sites, tmp_path, rules):
    """The number of rows is public and known before a row is read."""
    sites.policy("north", **rules)
    with pytest.raises(StudyError, match="north: it refuses"):
        run_study(private_study(sites, rounds=2), sites.transport(), tmp_path / "study")
    assert ledger(sites, "north").charges() == []


# --- The definition ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"privacy": None}, "privacy with epsilon and delta"),
        ({"lam": 0.1}, "lam must be left out"),
        ({"fit_intercept": False}, "fit_intercept must be left out"),
        ({"loss": "huber 1.0"}, "loss must be"),
        ({"rounds": -1}, "rounds"),
        ({"secure": True, "privacy": replace(BUDGET, colluding=3)}, "quorum must be more than"),
    ],
)
def test_a_private_study_says_what_it_cannot_have(sites, choices, words):
    with pytest.raises(ValueError, match=words):
        private_study(sites, **choices)


def test_kernels_whose_errors_follow_from_rows_are_refused(tmp_path):
    basis = up.bases.EmpiricalFeatures("chi2", n_features=5).fit(np.random.default_rng(0).uniform(size=(40, 2)))
    with pytest.raises(ValueError, match="cannot have the kernel"):
        Study("days", basis, "y", ["a"], 1, 1.0, kind="private", privacy=BUDGET)


def test_a_definition_comes_back_and_older_digests_stay(sites):
    study = private_study(sites, rounds="auto", privacy=replace(BUDGET, colluding=2))
    again = Study.from_definition(study.definition(), sites.basis)
    assert again.digest == study.digest
    assert again.promise.colluding == 2
    assert "colluding" not in sites.study(kind="less", privacy=BUDGET).definition()["privacy"]
    assert RowCount(study).digest == RowCount(again).digest
    with pytest.raises(ValueError, match="do not belong"):
        RowCount(sites.study(kind="less"))


def test_a_new_private_study_is_ready_but_for_its_rows_and_ledgers(sites, tmp_path):
    folder = tmp_path / "new"
    NewStudy(folder, NAMES, ["y"], "private").write()
    sites.basis.save(folder / "study.basis")
    study = read_study(folder)
    assert (study.kind, study.rounds, study.secure, study.quorum) == ("private", LIVE_ROUNDS, True, 3)
    assert (study.promise.epsilon, study.promise.delta, study.promise.colluding) == (8.0, 1e-6, 1)
    assert SiteConfig.read(folder / "sites" / "east").ledger == folder / "sites" / "east" / "rows.ledger"
    text = (folder / "study.toml").read_text().replace("rounds = 16", 'rounds = "auto"')
    (folder / "study.toml").write_text(text)
    assert read_study(folder).exchanges > study.exchanges
