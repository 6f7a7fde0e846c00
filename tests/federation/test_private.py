"""Private studies: ledgers are charged first, noise has the size that was promised, the record says what it cost."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unpooled as up
from tests.cases.federation import Consortium, Wire, lost, nth
from unpooled.federation import StudyError, StudyPrivacy, run_study
from unpooled.privacy import Ledger, epsilon_of, mu_for
from unpooled.summaries.contents import unpack_triangle

pytest.importorskip("opendp")

BUDGET = StudyPrivacy(1.0, 1e-6, label_bound=8.0)  # no label of these is beyond
both = pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
kinds = pytest.mark.parametrize(
    "choices",
    [
        {"kind": "less"},
        {"kind": "second-order"},
        {"kind": "rounds", "rounds": 3},
        {"kind": "rounds", "rounds": 2, "loss": "huber 1.0"},
        {"kind": "rounds", "rounds": 2, "loss": "correntropy 2.0"},
    ],
    ids=lambda choices: " ".join(map(str, choices.values())),
)


@pytest.fixture
def sites(tmp_path):
    found = Consortium(tmp_path / "sites")
    found.ledgers(1.0, 1e-6)
    return found


def ledger(sites, name):
    return Ledger(sites.configs[name].ledger)


@both
@kinds
def test_a_study_spends_its_budget_and_no_more(sites, tmp_path, secure, choices):
    """A ledger with just the budget of the study is enough for all its rounds, and then it is spent."""
    study = sites.study(privacy=BUDGET, secure=secure, **choices)
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert record.outcome == "complete"
    for name in sites.names:
        books = ledger(sites, name)
        assert len(books.charges()) == study.rounds
        assert all(charge.is_released and "days, round" in charge.purpose for charge in books.charges())
        assert 0.7 < books.epsilon_spent() <= 1.0  # the grid of the noise rounds upwards
        assert record.privacy["sites"][name] == {"releases": study.rounds, "epsilon": pytest.approx(1.0)}
    model = up.load(tmp_path / "study" / "study.model")
    assert model.privacy_.epsilon == pytest.approx(1.0)
    assert record.privacy["model"] == model.privacy_.to_dict()
    assert (record.privacy["epsilon"], record.privacy["delta"]) == (1.0, 1e-6)
    again = sites.study(privacy=BUDGET, secure=secure, **choices)
    with pytest.raises(StudyError, match="the privacy budget of this site does not allow it"):
        run_study(again, sites.transport(), tmp_path / "again")


def test_rounds_split_the_budget_so_that_together_they_cost_it():
    one, all_of_it = BUDGET.request_for_round(7, 1, 0, "a round"), mu_for(1.0, 1e-6)
    assert mu_for(one.epsilon, one.delta) * np.sqrt(7) == pytest.approx(all_of_it)
    assert epsilon_of(mu_for(one.epsilon, one.delta) * np.sqrt(7), 1e-6) == pytest.approx(1.0)


def noise_in(sites, folder, secure):
    """Return the noise in each number of the sum, in units of the standard deviation that the summary states."""
    study = sites.study(kind="second-order", privacy=BUDGET, secure=secure)
    run_study(study, sites.transport(), folder)
    found = up.Summary.load(folder / "exchanges" / "0000.total")
    exact = up.Summary.of(sites.basis, sites.pooled.to_pandas(), "y", order=2)
    sigma, values = found.privacy.sigma, []
    assert found.n_rows == exact.n_rows
    for name in ("phi_y", "phi", "y", "yy"):
        values.append(((found.sums[name].high - exact.sums[name].high) / sigma[name]).ravel())
    M = sites.basis.n_features_
    apart = unpack_triangle(found.sums["gram"].high - exact.sums["gram"].high, M) / sigma["gram"]
    values += [np.diag(apart), np.sqrt(2.0) * apart[np.tril_indices(M, -1)]]
    return np.concatenate(values), sigma, found.privacy


@both
def test_the_noise_of_the_sum_has_the_size_that_is_said(tmp_path, secure):
    sites = Consortium(tmp_path / "sites")
    sites.ledgers(50.0, 1e-4)
    values = np.concatenate([noise_in(sites, tmp_path / f"study {i}", secure)[0] for i in range(5)])
    assert len(values) > 500
    assert abs(np.mean(values)) < 5 / np.sqrt(len(values))
    assert abs(np.mean(values**2) - 1.0) < 5 * np.sqrt(2.0 / len(values))


def test_shares_make_one_noise_and_sites_that_stand_alone_make_four(tmp_path):
    """One of four sites may be missing and one may subtract its share: the variance is 4/2 of that needed."""
    sites = Consortium(tmp_path / "sites")
    sites.ledgers(50.0, 1e-4)
    _, shared, said = noise_in(sites, tmp_path / "shared", True)
    _, alone, _ = noise_in(sites, tmp_path / "alone", False)
    assert (said.parties, said.missing, said.shares) == (4, 2, 4)
    for name, value in shared.items():
        assert (alone[name] / value) ** 2 == pytest.approx(2.0, rel=1e-3)


def test_a_repeated_attempt_has_fresh_noise_and_is_paid_for_again(tmp_path):
    """A site that answered both attempts has spent twice; the record says so, and that the sum is partial."""
    sites = Consortium(tmp_path / "sites")
    sites.ledgers(2.0, 1e-6)
    wire = Wire({("north", "reply", "answer"): nth(0, lost)})
    study = sites.study(kind="less", privacy=BUDGET, secure=True)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    assert record.outcome == "partial"
    assert [len(ledger(sites, name).charges()) for name in sites.names] == [2, 1, 2, 2]
    spent = record.privacy["sites"]
    assert spent["east"]["releases"] == 2
    assert spent["east"]["epsilon"] == pytest.approx(epsilon_of(np.sqrt(2) * mu_for(1.0, 1e-6), 1e-6))
    found = up.Summary.load(tmp_path / "study" / "exchanges" / "0000.total")
    assert (found.privacy.shares, found.privacy.shares_needed) == (3, 2)


def test_more_shares_missing_than_planned_make_no_model(sites, tmp_path):
    wire = Wire({(name, "reply", "answer"): lost for name in ("north", "west")})
    with pytest.raises(StudyError, match="the quorum is 3"):
        run_study(sites.study(privacy=BUDGET, secure=True), sites.transport(wire), tmp_path / "study")
    assert not (tmp_path / "study" / "study.model").exists()


@both
def test_what_the_policy_forbids_costs_nothing(sites, tmp_path, secure):
    sites.policy("north", max_epsilon=0.5)
    study = sites.study(privacy=BUDGET, secure=secure)
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert "at most 0.5 is allowed" in record.failures[0].reason
    assert ledger(sites, "north").charges() == []


def test_a_policy_that_wants_noise_lets_a_private_study_pass(sites, tmp_path):
    for name in sites.names:
        sites.policy(name, privacy="required")
    assert run_study(sites.study(privacy=BUDGET), sites.transport(), tmp_path / "study").outcome == "complete"


def test_the_ledger_is_charged_before_a_row_is_looked_at(sites, tmp_path):
    """A label that is no number is found after the charge: it was paid for, and nothing was released."""
    rows = sites.rows["north"].to_pandas()
    rows.loc[3, "y"] = np.nan
    pq.write_table(pa.Table.from_pandas(rows), sites.folder / "north" / "rows.parquet")
    record = run_study(sites.study(privacy=BUDGET), sites.transport(), tmp_path / "study")
    assert record.missing == {"north": [0]}
    (charge,) = ledger(sites, "north").charges()
    assert not charge.is_released


def test_a_site_without_a_ledger_or_with_weights_does_not_join(sites, tmp_path):
    sites.reconfigure("north", ledger=None)
    record = run_study(sites.study(privacy=BUDGET), sites.transport(), tmp_path / "study")
    assert "has no ledger" in record.failures[0].reason


@pytest.mark.parametrize(
    "choices",
    [{"kind": "average", "lam": 0.1}, {"lam": "loo"}, {"kind": "estimator"}],
    ids=lambda choices: str(choices),
)
def test_what_has_no_private_form_is_no_private_study(tmp_path, choices):
    sites = Consortium(tmp_path / "sites", secure_keys=False)
    with pytest.raises(ValueError, match="have no private form"):
        sites.study(privacy=BUDGET, **choices)


def test_a_private_study_needs_a_bound(tmp_path):
    sites = Consortium(tmp_path / "sites", secure_keys=False)
    with pytest.raises(ValueError, match="label_bound"):
        sites.study(privacy=StudyPrivacy(1.0, 1e-6))
    sites.study(kind="rounds", rounds=2, loss="huber 1.0", privacy=StudyPrivacy(1.0, 1e-6))
