"""A run that was stopped goes on where it stopped, runs again what was made otherwise, and trusts no broken file."""

import dataclasses
import signal
import subprocess
import sys

import pytest

from tests.cases.experiments import OUTCOME, results_of, spoil, toy
from unpooled._base import threads
from unpooled._base.files import FileError
from unpooled.reproduce import EXPERIMENTS, experiment
from unpooled.reproduce import experiment as running


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
    monkeypatch.setattr("unpooled.reproduce.experiment.__version__", "0+other")
    results_of(tmp_path, toy(ran=ran))
    assert len(ran) == 4
    monkeypatch.undo()
    results_of(tmp_path, toy(ran=ran))
    assert len(ran) == 4
    assert len(list((tmp_path / running.RESULTS).iterdir())) == 4


def test_a_run_that_was_stopped_goes_on_where_it_stopped(tmp_path):
    ran = []

    def stopped(protocol, setting):
        raise KeyboardInterrupt

    first, second = toy("001-first", ran=ran), toy("001-second", ran=ran)
    with pytest.raises(KeyboardInterrupt):
        results_of(tmp_path, first, dataclasses.replace(second, measure=stopped))
    files = [path.name for path in (tmp_path / running.RESULTS).iterdir()]
    assert len(files) == 1  # and no half of another
    assert files[0].startswith("001-first-")
    both = results_of(tmp_path, first, second)
    assert [result.stored for result in both] == [True, False]
    assert [name for name, _ in ran] == ["001-first", "001-second"]


KILLED = """
import sys, time
from pathlib import Path
from unpooled.reproduce import Outcome, experiment as running
from unpooled.reproduce.experiment import Experiment

def judge(protocol, found):
    if protocol["blocks"] and sys.argv[2] == "first":
        time.sleep(60)
    return Outcome((), (), (), (protocol["word"],))

def toy(name, **protocol):
    return Experiment(name, "A toy", "Does it run?", {"seed": 1, **protocol}, judge, repetitions=lambda _: 1)

toys = [toy("001-done", word="done", blocks=False), toy("001-killed", word="killed", blocks=True)]
for result in running.run(toys, Path(sys.argv[1]), progress=False):
    print(result.experiment.name, result.stored, result.outcome.notes[0], flush=True)
"""


def test_a_process_that_was_killed_leaves_what_was_done_and_nothing_half_done(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command, folder = [sys.executable, str(script), str(tmp_path / "there")], tmp_path / "there" / running.RESULTS
    with subprocess.Popen([*command, "first"], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline().split() == ["001-done", "False", "done"]
        first.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    assert first.returncode != 0
    assert [path.name[:9] for path in folder.iterdir()] == ["001-done-"]
    (folder / ".001-killed-0123.json.abc").write_text("half of a res")  # as if the kill had come while it was written
    second = subprocess.run([*command, "second"], capture_output=True, text=True, check=True, timeout=60)
    assert second.stdout.splitlines() == ["001-done True done", "001-killed False killed"]


def test_a_result_is_named_by_the_code_of_the_experiment_and_of_all_it_judges_with(tmp_path, monkeypatch):
    code = experiment._modules(EXPERIMENTS["000-unlabeled"].judge.__module__)
    here = "unpooled.reproduce"
    assert {f"{here}.{name}" for name in ("claims.less", "problems", "inference")} <= set(code)
    assert f"{here}.claims.spectral" not in code
    ran = []
    results_of(tmp_path, toy(ran=ran))
    monkeypatch.setattr(experiment, "_modules", lambda name: {name: "another"})
    results_of(tmp_path, toy(ran=ran))
    results_of(tmp_path, toy(ran=ran))
    assert len(ran) == 2


@pytest.mark.parametrize("quick", [True, False])
def test_quick_protocols_hold_blas_to_one_thread_and_give_back_what_was_allowed(tmp_path, quick):
    seen = []

    def look(protocol, found):
        seen.append(threads.count_threads())
        return OUTCOME

    before = threads.count_threads()
    list(running.run([dataclasses.replace(toy(), judge=look)], tmp_path, quick=quick, progress=False))
    assert seen == [1 if quick else before]
    assert threads.count_threads() == before


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
