"""``unpooled reproduce``: what it prints, writes and answers, with extras and without, and what bad input gets.

Tests `cli/evidence.py`.
"""

import dataclasses
import sys

import pytest

from tests.cases.cli import answer_of, call, said
from tests.cases.experiments import OUTCOME, spoil, toy
from unpooled import reproduce as experiments
from unpooled.cli import console
from unpooled.reproduce import experiment as running
from unpooled.reproduce import page
from unpooled.reproduce.outcome import FAILS, HOLDS, Verdict


@pytest.fixture
def toys(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known = {name: toy(name, private=name == "private-toy") for name in ("less-toy", "spectral-toy", "private-toy")}
    monkeypatch.setattr(experiments, "EXPERIMENTS", known)
    return tmp_path


def test_the_command_prints_tables_and_verdicts_and_writes_a_page(toys):
    pytest.importorskip("matplotlib")
    shown = call("reproduce", "less", "spectral-toy", "--quick").stdout
    for words in (
        "A table",
        "20,000",
        "* HOLDS: A claim",
        "(known to be wrong): A misprint",
        "other figures",
        "A note.",
    ):
        assert words in shown
    assert "private-toy" not in shown
    html = (toys / "reproduce" / "index.html").read_text()
    for words in ("spectral-toy: A toy", "A panel", "HOLDS: A claim", "&quot;size&quot;: 3", "quick protocols", "<svg"):
        assert words in html
    assert (toys / "reproduce" / "plots" / "spectral-toy.png").read_bytes().startswith(b"\x89PNG")
    assert "stored" in call("reproduce", "less", "--quick").stdout


def test_json_is_one_object_with_everything(toys):
    found = answer_of("reproduce", "spectral", "--quick", "-o", "there")
    assert found["quick"] is True
    (one,) = found["experiments"]
    assert one["name"] == "spectral-toy"
    assert one["protocol"] == {"seed": 1, "size": 3}
    assert [v["status"] for v in one["verdicts"]] == [HOLDS, FAILS]
    assert one["tables"][0]["rows"][1] == [20_000, None]
    assert (toys / "there" / "index.html").exists()


def test_bad_arguments_are_a_sentence_and_write_nothing(toys):
    sentence = said("reproduce", "paper", code=console.USAGE)
    assert "there is no paper or experiment 'paper'" in sentence
    assert "spectral-toy" in sentence
    (toys / "taken").write_text("")
    assert "--output must be a folder" in said("reproduce", "-o", "taken", code=console.USAGE)
    assert [path.name for path in toys.iterdir()] == ["taken"]


def test_a_broken_result_stops_the_command_with_the_code_of_files(toys):
    call("reproduce", "spectral", "--quick")
    (path,) = (toys / "reproduce" / running.RESULTS).iterdir()
    spoil(path, "cut")
    assert path.name in said("reproduce", "spectral", "--quick", code=console.FILE)


def test_again_runs_what_has_a_result_and_mends_what_is_broken(toys):
    call("reproduce", "spectral", "--quick")
    (path,) = (toys / "reproduce" / running.RESULTS).iterdir()
    spoil(path, "figure")
    found = answer_of("reproduce", "spectral", "--quick", "--again")
    assert [one["stored"] for one in found["experiments"]] == [False]
    found = answer_of("reproduce", "spectral", "--quick")
    assert [one["stored"] for one in found["experiments"]] == [True]
    assert [verdict["evidence"] for verdict in found["experiments"][0]["verdicts"]] == ["figures", "other figures"]


def test_quick_and_full_results_live_side_by_side(toys):
    for options in (["--quick"], []):
        assert answer_of("reproduce", "spectral", *options)["experiments"][0]["stored"] is False
    for options, size in ((["--quick"], 3), ([], 30)):
        (found,) = answer_of("reproduce", "spectral", *options)["experiments"]
        assert (found["stored"], found["protocol"]["size"]) == (True, size)


def test_a_claim_that_does_not_hold_is_a_result_and_no_error(toys, monkeypatch):
    failing = dataclasses.replace(OUTCOME, verdicts=(Verdict("A claim", FAILS, "figures"),))
    monkeypatch.setitem(experiments.EXPERIMENTS, "spectral-toy", dataclasses.replace(toy(), judge=lambda *_: failing))
    assert "* DOES NOT HOLD: A claim" in call("reproduce", "spectral", "--quick", code=0).stdout


def test_without_the_privacy_extra_the_others_are_run_and_a_sentence_says_so(toys, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    found = answer_of("reproduce", "--quick")
    names = {one["name"]: one for one in found["experiments"]}
    assert "pip install" in names["private-toy"]["missing"]
    assert "tables" in names["spectral-toy"]
    assert any("private-toy was not run" in sentence for sentence in found["warnings"])
    assert (
        "Not run: OpenDP, which draws the privacy noise, is not installed"
        in (toys / "reproduce" / "index.html").read_text()
    )


def test_without_matplotlib_there_is_a_page_without_plots_and_a_sentence_says_so(toys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    found = answer_of("reproduce", "spectral", "--quick")
    assert any("the page has no plots: plots need matplotlib" in sentence for sentence in found["warnings"])
    assert "There is no plot here" in (toys / "reproduce" / "index.html").read_text()
    assert not (toys / "reproduce" / "plots").exists()


def test_a_list_says_what_there_is_and_runs_nothing(toys):
    assert "spectral-toy" in call("reproduce", "--list").stdout
    found = answer_of("reproduce", "spectral", "--list")
    assert [one["name"] for one in found["experiments"]] == ["spectral-toy"]
    assert not list(toys.iterdir())


def test_the_summary_counts_misprints_apart():
    known, unknown = Verdict("a", FAILS, "b", True), Verdict("c", FAILS, "d")
    assert page._count_verdicts([known, unknown, Verdict("e", HOLDS, "f")]) == ["1", "2 (1 known)", "0"]
    assert page._count_verdicts([]) == ["0", "0", "0"]
