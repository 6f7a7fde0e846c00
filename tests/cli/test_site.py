"""A site's side of the command line: its policy decides, its log remembers.

Tests `cli/records.py`.
"""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cases.cli import answer_of, call, said, write
from tests.made_up import COLUMNS, patients
from unpooled.cli import summarize
from unpooled.gate import Log


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with the basis of a study, and a site's folder with its data."""
    monkeypatch.chdir(tmp_path)
    write(patients(1, 60), tmp_path, "public")
    (tmp_path / "site").mkdir()
    write(patients(2, 90), tmp_path / "site", "rows")
    columns = ",".join(COLUMNS)
    call("basis", "public.csv", "-o", "study.basis", "--columns", columns, "--n-features", 6)
    call("basis", "public.csv", "-o", "large.basis", "--columns", columns, "--n-features", 30)
    return tmp_path


SUMMARIZE = ("summarize", "study.basis", "site/rows.csv", "--target", "stay", "-o", "out.summary")


def rules(text, folder="site"):
    Path(folder, "unpooled-policy.toml").write_text(text)


def refused(*args):
    """The reasons; nothing was written, and the log has them."""
    found = answer_of(*args, code=5)
    entry = Log("site/unpooled-log.jsonl").entries()[-1]
    assert entry.event["what"] == "refused"
    assert entry.event["reasons"] == found["reasons"]
    assert [path for path in Path().iterdir() if "out" in path.name] == []
    return found["reasons"]


def test_what_leaves_is_shown_and_logged(site):
    shown = call(*SUMMARIZE).stdout
    assert "A first-order summary of 90 rows" in shown
    assert "judged by the default policy" in shown
    assert "at least 20" in shown
    found = answer_of("log", "show", "site")
    (entry,) = found["entries"]
    assert entry["event"]["what"] == "left"
    assert entry["event"]["file"] == "out.summary"
    assert entry["event"]["sha256"] == hashlib.sha256((site / "out.summary").read_bytes()).hexdigest()
    assert "out.summary" in "".join(call("log", "show", "site/unpooled-log.jsonl").stdout.split())


def test_too_few_rows(site):
    write(patients(2, 12), site / "site", "rows")
    (reason, *_) = refused(*SUMMARIZE)
    assert reason == "there are 12 rows, but at least 20 must be added up"


def test_second_order_with_too_many_features(site):
    reasons = refused("summarize", "large.basis", "site/rows.csv", "-t", "stay", "-o", "out.summary", "--order", 2)
    assert any("can be turned back into the rows" in reason for reason in reasons)


def test_one_record_that_is_most_of_the_label(site):
    stays = patients(2, 90)["stay"].to_numpy().copy()
    stays[5] = 1e4
    write(patients(2, 90).set_column(4, "stay", pa.array(stays)), site / "site", "rows")
    (reason,) = refused(*SUMMARIZE)
    assert reason.startswith("one record has 95.")


def test_an_order_or_a_round_that_is_not_allowed(site):
    rules("orders = [1]\nresidual_rounds = false\n")
    (reason,) = refused(*SUMMARIZE, "--order", 2)
    assert reason == "the summary is of order 2, but the policy allows order 1"
    call(*SUMMARIZE[:-1], "ok.summary")
    call("fit", "ok.summary", "-o", "first.model")
    (reason,) = refused(*SUMMARIZE, "--residuals-of", "first.model")
    assert "residual round" in reason


def test_targets_and_bases_that_are_not_listed(site):
    rules('targets = ["age"]\nbases = ["abc"]\n')
    reasons = refused(*SUMMARIZE)
    assert any("'stay' may not be a target here" in reason for reason in reasons)
    assert any("is not one of those that the policy lists" in reason for reason in reasons)


def test_scores_go_through_the_same_gate(site):
    call(*SUMMARIZE[:-1], "ok.summary")
    call("fit", "ok.summary", "-o", "first.model", "--candidates", "first.models")
    rules("minimum_rows = 100\n")
    validate = ("validate", "first.models", "site/rows.csv", "-o", "out.scores")
    (reason,) = refused(*validate)
    assert "90 rows, but at least 100" in reason
    rules("minimum_rows = 50\n")
    assert answer_of(*validate)["release"]["kind"] == "scores"


def test_a_file_that_differs_by_few_rows_from_one_that_left_is_refused(site):
    call(*SUMMARIZE[:-1], "ok.summary")
    write(patients(2, 90).slice(0, 89), site / "site", "rows")
    (reason,) = refused(*SUMMARIZE)
    assert "the difference would reveal 1 record" in reason


def test_a_policy_that_cannot_be_read_lets_nothing_leave(site):
    rules("minimum_rows = 'many'\n")
    assert "minimum_rows must be a whole number" in said(*SUMMARIZE, code=5)
    assert not (site / "out.summary").exists()


def test_asking_needs_somebody_or_yes(site):
    rules('approve = "ask"\n')
    (reason,) = refused(*SUMMARIZE)
    assert reason == 'the policy says approve = "ask", and nobody was there to answer'
    assert answer_of(*SUMMARIZE, "--yes")["entry"] == 1


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 5), ("\n", 5)])
def test_a_person_at_the_terminal_is_asked(site, monkeypatch, answer, code):
    rules('approve = "ask"\n')
    monkeypatch.setattr(summarize, "is_interactive", lambda: True)
    assert "Let it leave? [y/N]" in call(*SUMMARIZE, code=code, answer=answer).stdout
    assert (site / "out.summary").exists() is (code == 0)


def test_never_is_never(site):
    rules('approve = "never"\n')
    (reason,) = refused(*SUMMARIZE, "--yes")
    assert "nothing leaves this site" in reason


def test_the_policy_may_be_named_and_the_log_be_elsewhere(site):
    (site / "strict.toml").write_text("minimum_rows = 1000\n")
    found = answer_of(*SUMMARIZE, "--policy", "strict.toml", "--log", "my.jsonl", code=5)
    assert "at least 1000" in found["error"]
    assert Log("my.jsonl").entries()[-1].event["what"] == "refused"
    assert not (site / "site" / "unpooled-log.jsonl").exists()
    (site / "strict.toml").write_text("minimum_rows = 10\n")
    assert answer_of(*SUMMARIZE, "--policy", "strict.toml")["log"] == "unpooled-log.jsonl"


def test_a_policy_is_written_once_and_checked(site):
    found = answer_of("policy", "init", "site")
    assert found["policy"] == "site/unpooled-policy.toml"
    assert "exists already" in said("policy", "init", "site", code=5)
    call("policy", "init", "site", "--overwrite")
    checked = answer_of("policy", "check", "site")
    assert checked["rules"]["minimum_rows"] == 20
    assert "minimum_rows" in call("policy", "check", "site/unpooled-policy.toml").stdout
    rules("minimum_row = 5\n")
    assert "unknown rules: minimum_row" in said("policy", "check", "site", code=5)


def test_a_log_that_was_changed_or_cut_does_not_verify(site):
    for _ in range(3):
        call(*SUMMARIZE[:-1], "ok.summary")
    path = site / "site" / "unpooled-log.jsonl"
    noted = answer_of("log", "verify", "site")
    assert noted["count"] == 3
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"n_rows":90', b'"n_rows":91', 1))
    assert "line 1 of" in said("log", "verify", "site", code=6)
    assert "was changed" in said(*SUMMARIZE, code=6)
    assert not (site / "out.summary").exists()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    call("log", "verify", "site")
    options = ("--head", noted["head"], "--count", noted["count"])
    assert "2 entries, but 3 were noted" in said("log", "verify", "site", *options, code=6)
    path.write_bytes(whole)
    call("log", "verify", "site", *options)


def test_json_is_all_that_is_on_standard_output(site):
    result = call(*SUMMARIZE, "--json")
    assert json.loads(result.stdout)["n_rows"] == 90
    assert result.stderr == ""
