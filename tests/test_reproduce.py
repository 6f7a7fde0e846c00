"""unpooled reproduce: every experiment runs, stops and goes on, tells what it found, and can find a claim wrong."""

import dataclasses
import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from cli_cases import answer_of, call, said
from unpooled import experiments
from unpooled.cli import codes
from unpooled.experiments import EXPERIMENTS, PAPERS, page, running
from unpooled.experiments.claims import spectral_rates
from unpooled.experiments.drawing import drawn, labels_of, words_for
from unpooled.experiments.experiment import Experiment
from unpooled.experiments.outcome import FAILS, HOLDS, UNDECIDED, Curve, Outcome, Panel, Table, Verdict
from unpooled.files import FileError

STATUSES = {HOLDS, FAILS, UNDECIDED}
TINY = {  # what is smaller than in the quick protocols
    "000-ridge": {"sizes": [16, 32], "repetitions": 3, "feature_repetitions": 2},
    "000-split": {"size": 12, "public": 20, "sources": [1, 3, 12], "repetitions": 2},
    "000-unlabeled": {"labels": 6, "factors": [1, 4], "repetitions": 2, "draws": 2},
    "000-floor": {"labels": 80, "public": [8, 24], "rounds": [1, 6], "repetitions": 2},
    "001-rates": {"sizes": [16, 32], "repetitions": 2, "draws": 2},
    "001-saturation": {"sizes": [16, 32], "repetitions": 2, "n_lams": 5, "bias_rows": 64, "bias_lams": [0.4, 0.2]},
    "001-blocks": {"cases": [["Brownian", 1.0, "tikhonov"]], "sizes": [32, 64], "repetitions": 2, "draws": 2},
    "001-whose-lambda": {"size": 48, "machines": [2, 4], "repetitions": 2, "draws": 2},
    "001-rules": {"sizes": [16, 32], "repetitions": 2},
    "002-constant": {"sizes": [20, 40], "repetitions": 2, "features_of": 60},
    "002-rate": {"sizes": [16, 32], "repetitions": 2, "regularities": [1.0]},
    "002-distributed": {"sizes": [16, 32], "repetitions": 2, "draws": 2},
    "002-unlabeled": {"size": 32, "machines": 4, "times": [1, 4], "tried": [2, 8], "most_rows": 64, "repetitions": 2},
    "003-robust": {"size": 24, "repetitions": 2, "scales": [1.0], "huber": [0.4], "stops": [4, 8]},
    "003-scale": {"sizes": [16, 32], "scales": [2.0, 4.0, 8.0], "repetitions": 2, "draws": 2},
    "003-distributed": {"sizes": [16, 32], "machines": [1, 4], "repetitions": 2, "draws": 2},
    "004-noise": {"sizes": [1000, 10_000]},
    "004-excess": {"sizes": [60, 120], "epsilons": [1.0], "repetitions": 2, "public": 30, "features": 20},
    "004-frontier": {"size": 120, "epsilons": [1.0], "repetitions": 2, "fresh": 60, "public": 40, "features": 20},
}
NOISED = {"004-excess", "004-frontier"}  # the noise that protects has no seed


@pytest.fixture(scope="module")
def tiny_outcomes():
    """Every experiment at a tiny size: its protocol, what it found, and how often it said that a step was done."""
    found = {}
    for name, experiment in EXPERIMENTS.items():
        if experiment.private and find_spec("opendp") is None:
            continue
        protocol, steps = {**experiment.quick, **TINY[name]}, []
        found[name] = (protocol, experiment.run(protocol, lambda steps=steps: steps.append(1)), len(steps))
    return found


def of(outcomes, name):
    if name not in outcomes:
        pytest.skip("private experiments need the extra privacy")
    return outcomes[name]


def test_every_paper_has_experiments_whose_protocols_say_their_seed():
    assert set(TINY) == set(EXPERIMENTS)
    assert {experiment.paper for experiment in EXPERIMENTS.values()} == set(PAPERS)
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        for protocol in (experiment.quick, experiment.full):
            assert json.loads(json.dumps(dict(protocol))) == dict(protocol)  # plain data, lists and no tuples
            assert isinstance(protocol["seed"], int)
            assert TINY[name].keys() <= protocol.keys()
        assert set(experiment.quick) == set(experiment.full)
    seeds = [experiment.quick["seed"] for experiment in EXPERIMENTS.values()]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_runs_and_tells_of_it_in_tables_panels_and_verdicts(tiny_outcomes, name):
    protocol, outcome, steps = of(tiny_outcomes, name)
    assert steps == EXPERIMENTS[name].steps(protocol)
    assert outcome.tables
    assert outcome.panels
    assert outcome.verdicts
    for table in outcome.tables:
        assert all(len(row) == len(table.heads) for row in table.cells())
        assert all("nan" not in cell for row in table.cells() for cell in row)
    for panel in outcome.panels:
        for curve in panel.curves:
            assert len(curve.x) == len(curve.y) > 0
            assert np.all(np.isfinite(curve.y))
    for verdict in outcome.verdicts:
        assert verdict.status in STATUSES
        assert verdict.claim
        assert verdict.evidence
        assert "\n" not in verdict.claim + verdict.evidence
    assert any(panel.title in words_for(outcome) for panel in outcome.panels)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_was_found_is_the_same_from_its_file(tiny_outcomes, name, tmp_path):
    protocol, outcome, _ = of(tiny_outcomes, name)
    path = running.path_of(tmp_path, EXPERIMENTS[name], protocol)
    running.write(path, EXPERIMENTS[name], protocol, outcome, 1.5)
    assert running.read(path, EXPERIMENTS[name], protocol) == (outcome, 1.5)


@pytest.mark.parametrize("name", ["000-split", "001-rules", "003-robust"])
def test_a_protocol_gives_the_same_figures_again(tiny_outcomes, name):
    protocol, outcome, _ = tiny_outcomes[name]
    assert name not in NOISED
    assert EXPERIMENTS[name].run(protocol, lambda: None) == outcome


def test_every_experiment_can_be_drawn(tiny_outcomes):
    pytest.importorskip("matplotlib")
    for _, outcome, _ in tiny_outcomes.values():
        figure = drawn(outcome.panels)
        titles = [ax.get_title() for ax in figure.axes if ax.axison]
        assert titles == [panel.title for panel in outcome.panels]
        for ax, panel in zip(figure.axes, outcome.panels):
            labels = [text.get_text() for text in ax.get_legend().get_texts()]
            assert labels == labels_of(panel)
            assert len(set(labels)) == len(labels)
            assert {curve.label for curve in panel.curves} | {label for label, _ in panel.marks} == set(labels)


def test_identities_and_errata_come_out_at_any_size(tiny_outcomes):
    """What no chance enters: centring, the split, u = x, and the formulas that are known to be misprinted."""
    verdicts = {v.claim: v for _, outcome, _ in tiny_outcomes.values() for v in outcome.verdicts}
    known = [v for v in verdicts.values() if v.known_wrong]
    assert len(known) >= 5
    assert all(v.status == FAILS for v in known)
    for start in ("The centred kernel makes", "(7): the split", "With u = x", "Theorem 2 as its proof", "(22): the"):
        (verdict,) = [v for claim, v in verdicts.items() if claim.startswith(start)]
        assert verdict.status == HOLDS


PLANTED = {**EXPERIMENTS["001-rates"].quick, "cases": [["Sobolev 1", 1.0, "tikhonov"]], "sizes": [32, 64, 128, 256]}


def test_a_rate_that_is_wrong_is_found_wrong(monkeypatch):
    """λ that does not fall leaves the bias where it is: Theorem 2 then fails, with the exponent as evidence."""
    good = spectral_rates.run(PLANTED, lambda: None)
    assert [v.status for v in good.verdicts] == [HOLDS, HOLDS]
    monkeypatch.setattr(spectral_rates.Case, "lam", lambda *_: 1.0)
    bad = spectral_rates.run(PLANTED, lambda: None)
    assert [v.status for v in bad.verdicts] == [FAILS, FAILS]
    assert "slower, beyond the interval" in bad.verdicts[0].evidence


def test_a_theory_that_promises_too_much_is_found_wrong(monkeypatch):
    monkeypatch.setattr(spectral_rates.theory, "rate", lambda n, *_, **__: n**-0.9)
    assert spectral_rates.run(PLANTED, lambda: None).verdicts[0].status == FAILS


# --- stopping, going on, and files that are wrong ---------------------------------------------------------------------

OUTCOME = Outcome(
    (Table("A table", ("x", "y"), ((1, 0.5), (20_000, None))),),
    (Panel("A panel", "x", "y", (Curve("c", (1.0, 2.0), (1.0, 0.5), (0.9, 0.4), (1.1, 0.6)),), (("here", 1.5),)),),
    (Verdict("A claim", HOLDS, "figures"), Verdict("A misprint", FAILS, "other figures", True)),
    ("A note.",),
)


def toy(name="001-toy", quick=None, private=False, ran=None):
    """An experiment that counts its runs."""

    def run(protocol, advance):
        advance()
        if ran is not None:
            ran.append((name, dict(protocol)))
        return OUTCOME

    quick = {"seed": 1, "size": 3} if quick is None else quick
    return Experiment(name, "A toy", "Does it run?", quick, {"seed": 1, "size": 30}, lambda _: 1, run, private)


def results_of(folder, *toys, **options):
    return list(running.run(toys, folder, quick=True, progress=False, **options))


def test_a_second_run_reads_what_the_first_has_written(tmp_path):
    ran = []
    (first,) = results_of(tmp_path, toy(ran=ran))
    (second,) = results_of(tmp_path, toy(ran=ran))
    assert len(ran) == 1
    assert (first.stored, second.stored) == (False, True)
    assert first.outcome == second.outcome == OUTCOME
    assert second.seconds == pytest.approx(first.seconds, abs=1e-3)
    results_of(tmp_path, toy(ran=ran), again=True)
    assert len(ran) == 2


def test_a_changed_protocol_or_version_is_run_again_and_the_other_result_stays(tmp_path, monkeypatch):
    ran = []
    results_of(tmp_path, toy(ran=ran))
    results_of(tmp_path, toy(ran=ran, quick={"seed": 2, "size": 3}))
    list(running.run([toy(ran=ran)], tmp_path, quick=False, progress=False))
    assert len(ran) == 3
    monkeypatch.setattr("unpooled.__version__", "0+other")
    results_of(tmp_path, toy(ran=ran))
    assert len(ran) == 4
    monkeypatch.undo()
    results_of(tmp_path, toy(ran=ran))
    assert len(ran) == 4
    assert len(list((tmp_path / running.RESULTS).iterdir())) == 4


def test_a_run_that_was_stopped_goes_on_where_it_stopped(tmp_path):
    ran = []

    def stopped(protocol, advance):
        raise KeyboardInterrupt

    first, second = toy("001-first", ran=ran), toy("001-second", ran=ran)
    with pytest.raises(KeyboardInterrupt):
        results_of(tmp_path, first, dataclasses.replace(second, run=stopped))
    files = [path.name for path in (tmp_path / running.RESULTS).iterdir()]
    assert len(files) == 1  # and no half of another
    assert files[0].startswith("001-first-")
    both = results_of(tmp_path, first, second)
    assert [result.stored for result in both] == [True, False]
    assert [name for name, _ in ran] == ["001-first", "001-second"]


def spoil(path, how):
    content = json.loads(path.read_text())
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    elif how == "empty":
        path.write_text("")
    elif how == "list":
        path.write_text("[1, 2]")
    elif how == "figure":
        path.write_text(path.read_text().replace('"figures"', '"better figures"'))
    else:
        del content["sha256"]
        path.write_text(json.dumps(content))


@pytest.mark.parametrize("how", ["cut", "empty", "list", "figure", "unsigned"])
def test_a_broken_result_is_refused_in_a_sentence_that_names_it(tmp_path, how):
    results_of(tmp_path, toy())
    (path,) = (tmp_path / running.RESULTS).iterdir()
    spoil(path, how)
    with pytest.raises(FileError, match="delete it to run the experiment again") as caught:
        results_of(tmp_path, toy())
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    (result,) = results_of(tmp_path, toy(), again=True)
    assert result.outcome == OUTCOME


def test_a_result_under_the_name_of_another_is_refused(tmp_path):
    results_of(tmp_path, toy())
    (path,) = (tmp_path / running.RESULTS).iterdir()
    other = toy("001-other")
    path.rename(running.path_of(path.parent, other, other.quick))
    with pytest.raises(FileError, match="of another experiment or protocol than its name says"):
        results_of(tmp_path, other)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def toys(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known = {name: toy(name, private=name == "004-toy") for name in ("000-toy", "001-toy", "004-toy")}
    monkeypatch.setattr(experiments, "EXPERIMENTS", known)
    return tmp_path


def test_the_command_prints_tables_and_verdicts_and_writes_a_page(toys):
    pytest.importorskip("matplotlib")
    shown = call("reproduce", "000", "001-toy", "--quick").stdout
    for words in (
        "A table",
        "20,000",
        "* HOLDS: A claim",
        "(known to be wrong): A misprint",
        "other figures",
        "A note.",
    ):
        assert words in shown
    assert "004-toy" not in shown
    html = (toys / "reproduce" / "index.html").read_text()
    for words in ("001-toy: A toy", "A panel", "HOLDS: A claim", "&quot;size&quot;: 3", "quick protocols", "<svg"):
        assert words in html
    assert (toys / "reproduce" / "plots" / "001-toy.png").read_bytes().startswith(b"\x89PNG")
    assert "stored" in call("reproduce", "000", "--quick").stdout


def test_json_is_one_object_with_everything(toys):
    found = answer_of("reproduce", "001", "--quick", "-o", "there")
    assert found["quick"] is True
    (one,) = found["experiments"]
    assert one["name"] == "001-toy"
    assert one["protocol"] == {"seed": 1, "size": 3}
    assert [v["status"] for v in one["verdicts"]] == [HOLDS, FAILS]
    assert one["tables"][0]["rows"][1] == [20_000, None]
    assert (toys / "there" / "index.html").exists()


def test_bad_arguments_are_a_sentence_and_write_nothing(toys):
    sentence = said("reproduce", "005", code=codes.USAGE)
    assert "there is no paper or experiment '005'" in sentence
    assert "001-toy" in sentence
    (toys / "taken").write_text("")
    assert "--output must be a folder" in said("reproduce", "-o", "taken", code=codes.USAGE)
    assert [path.name for path in toys.iterdir()] == ["taken"]


def test_a_broken_result_stops_the_command_with_the_code_of_files(toys):
    call("reproduce", "001", "--quick")
    (path,) = (toys / "reproduce" / running.RESULTS).iterdir()
    spoil(path, "cut")
    assert path.name in said("reproduce", "001", "--quick", code=codes.FILE)


def test_without_the_privacy_extra_the_others_are_run_and_a_sentence_says_so(toys, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    found = answer_of("reproduce", "--quick")
    names = {one["name"]: one for one in found["experiments"]}
    assert "pip install" in names["004-toy"]["missing"]
    assert "tables" in names["001-toy"]
    assert any("004-toy was not run" in sentence for sentence in found["warnings"])
    assert "Not run: privacy noise is drawn by OpenDP" in (toys / "reproduce" / "index.html").read_text()


def test_without_matplotlib_there_is_a_page_without_plots_and_a_sentence_says_so(toys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    found = answer_of("reproduce", "001", "--quick")
    assert any("the page has no plots: plots need matplotlib" in sentence for sentence in found["warnings"])
    assert "There is no plot here" in (toys / "reproduce" / "index.html").read_text()
    assert not (toys / "reproduce" / "plots").exists()


def test_a_list_says_what_there_is_and_runs_nothing(toys):
    assert "001-toy" in call("reproduce", "--list").stdout
    found = answer_of("reproduce", "001", "--list")
    assert [one["name"] for one in found["experiments"]] == ["001-toy"]
    assert not list(toys.iterdir())


def test_the_summary_counts_misprints_apart():
    known, unknown = Verdict("a", FAILS, "b", True), Verdict("c", FAILS, "d")
    assert page.counts([known, unknown, Verdict("e", HOLDS, "f")]) == ["1", "2 (1 known)", "0"]
    assert page.counts([]) == ["0", "0", "0"]
