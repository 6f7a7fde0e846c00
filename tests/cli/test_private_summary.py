"""Private summaries on the command line: a ledger, a policy that demands noise, files, and a model."""

import json

import pytest

from tests.cases.cli import answer_of, call, said, write
from tests.made_up import patients
from unpooled._base import files

pytest.importorskip("opendp")
ASK = ("--epsilon", 1, "--delta", 1e-6, "--label-bound", 10)


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(patients(0, 120), tmp_path, "public")
    write(patients(1, 400), tmp_path, "rows")
    write(patients(2, 300), tmp_path, "others")
    call("basis", "public.parquet", "-o", "study.basis", "--drop", "id,stay,site,w", "--n-features", 8)
    call("ledger", "create", "rows.ledger", "--epsilon", 1.2, "--delta", 1e-6, "--dataset", "rows")
    return tmp_path


def summarize(*more, data="rows.csv", output="a.summary"):
    return ("summarize", "study.basis", data, "--target", "stay", "-o", output, *more)


def test_from_the_ledger_to_the_model(study):
    first = call(*summarize(*ASK, "--ledger", "rows.ledger", "--order", 2))
    assert "For this site only: 0 of 400 labels were clipped" in first.output
    assert "Differentially private with ε = 1" in first.output
    call(*summarize(*ASK, "--order", 2, data="others.parquet", output="b.summary"))
    assert "Differentially private" in call("inspect", "a.summary").output
    assert "sum over 2 sites" in call("merge", "a.summary", "b.summary", "-o", "all.summary").output
    found = answer_of("fit", "all.summary", "-o", "study.model")
    assert found["privacy"]["epsilon"] == 1.0
    assert "Differentially private" in call("inspect", "study.model").output
    (charge,) = answer_of("ledger", "show", "rows.ledger")["charges"]
    assert charge["released"]
    call("ledger", "verify", "rows.ledger")


def test_the_count_of_moved_labels_stays_at_the_terminal(study):
    asked = ("--epsilon", 1, "--delta", 1e-6, "--label-bound", 5)
    result = call(*summarize(*asked))
    assert "labels were clipped to the label bound" in result.output
    header, _ = files.read_any(study / "a.summary")
    assert "moved" not in json.dumps(header)
    assert "moved" not in (study / "unpooled-log.jsonl").read_text()
    assert "moved" not in call(*summarize(*asked, output="c.summary"), "--json").stdout


def test_the_budget_is_not_overspent_and_nothing_is_written(study):
    call(*summarize(*ASK, "--ledger", "rows.ledger"))
    sentence = said(*summarize(*ASK, "--ledger", "rows.ledger", output="b.summary"), code=5)
    assert "its budget is ε = 1.2" in sentence
    assert not (study / "b.summary").exists()
    assert "there is no ledger" in said(*summarize(*ASK, "--ledger", "none.ledger"), code=6)
    assert "is a ledger already" in said(
        "ledger", "create", "rows.ledger", "--epsilon", 9, "--delta", 1e-6, "--dataset", "rows", code=6
    )


def test_a_policy_can_demand_noise_and_enough_of_it(study):
    policy = study / "unpooled-policy.toml"
    policy.write_text('privacy = "required"\nmax_epsilon = 0.5\n')
    assert 'privacy = "required"' in said(*summarize(), code=5)
    sentence = said(*summarize(*ASK, "--ledger", "rows.ledger"), code=5)
    assert "its ε is 1.0, but at most 0.5 is allowed" in sentence
    assert answer_of("ledger", "show", "rows.ledger")["spent"] == 0.0
    policy.write_text('privacy = "required"\nmax_epsilon = 1.0\nmax_label_share = 0.0001\n')
    found = answer_of(*summarize(*ASK, "--ledger", "rows.ledger"))
    assert found["release"]["private"]["epsilon"] == 1.0
    assert found["release"]["largest_label_share"] == 0.0  # that would tell of the records
    policy.write_text('approve = "never"\n')
    assert "nothing was spent" in said(*summarize(*ASK), code=5)


def test_rounds_of_residuals_in_shares(study):
    asked = ("--epsilon", 5, "--delta", 1e-6, "--parties", 2)
    files = ("rows.csv", "others.csv")
    for name, data in zip("ab", files):
        call(*summarize(*asked, "--loss", "huber", "--scale", 2, data=data, output=f"{name}.summary"))
    assert "holds 1 of 2 shares" in said("fit", "a.summary", "-o", "x.model", code=2)
    call("fit", "a.summary", "b.summary", "-o", "one.model", "--lam", 0.1)
    for name, data in zip("cd", files):
        call("summarize", "study.basis", data, "--residuals-of", "one.model", "-o", f"{name}.summary", *asked)
    found = answer_of("fit", "c.summary", "d.summary", "-o", "two.model")
    assert found["rounds"] == 2
    assert len(found["privacy"]["spent_on"]) == 2


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--epsilon", 1), 2, "needs both --epsilon and --delta"),
        (("--label-bound", 1), 2, "needs both --epsilon and --delta"),
        (("--parties", 2), 2, "needs both --epsilon and --delta"),
        (("--epsilon", 0, "--delta", 1e-6, "--label-bound", 1), 2, "epsilon must be a positive"),
        (("--epsilon", 1, "--delta", 2, "--label-bound", 1), 2, "delta must lie between"),
        (("--epsilon", 1, "--delta", 1e-6), 3, "have no bound"),
        ((*ASK, "--sample-weight", "w"), 2, "--sample-weight counts rows several times"),
        ((*ASK, "--target", "dose"), 2, "a private summary has one --target"),
        ((*ASK, "--parties", 2, "--missing", 2), 2, "missing must be less than"),
    ],
)
def test_what_cannot_be_asked_for_is_one_sentence(study, options, code, sentence):
    assert sentence in said(*summarize(*options), code=code)
