"""What goes wrong on the command line is one sentence on standard error, an exit code, and nothing half written.

Tests `__main__.py`.
"""

import gc
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import unpooled as up
from tests.cases.cli import answer_of, call, said, write
from tests.made_up import COLUMNS, patients
from unpooled.cli import app, console, summarize
from unpooled.cli.console import to_plain


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(patients(1, 60), tmp_path, "public")
    write(patients(2, 90), tmp_path, "north")
    write(patients(3, 130), tmp_path, "south")
    for name, more in (("study", ()), ("other", ("--length-scale", "0.9"))):
        call("basis", "public.parquet", "-o", f"{name}.basis", "--columns", ",".join(COLUMNS), "--n-features", 6, *more)
    for site in ("north", "south"):
        call("summarize", "study.basis", f"{site}.csv", "--target", "stay", "-o", f"{site}.summary")
    call("fit", "north.summary", "south.summary", "-o", "study.model", "--candidates", "study.models")
    return tmp_path


def untouched(folder, *args, code):
    """The sentence, where the folder is as it was (a log may grow)."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".jsonl"}
    sentence = said(*args, code=code)
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".jsonl"}
    assert before == after
    assert "X=up." not in sentence
    return sentence


def renamed(**names):
    table = patients(2, 90)
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    write(table, Path(), "renamed")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("new", "guess"), [("Age", "did you mean 'Age'?"), ("ages", "'ages'?"), ("zzz", "'age';")])
def test_a_renamed_column_is_named_with_the_one_it_may_be(study, kind, new, guess):
    renamed(age=new)
    for command in (
        ("summarize", "study.basis", f"renamed.{kind}", "--target", "stay", "-o", "x.summary"),
        ("validate", "study.models", f"renamed.{kind}", "-o", "x.scores"),
        ("predict", "study.model", f"renamed.{kind}", "-o", "x.csv"),
    ):
        sentence = untouched(study, *command, code=3)
        assert f"renamed.{kind} lacks what the " in sentence
        assert "'age'" in sentence
        assert guess in sentence


def test_a_target_or_weight_that_is_not_there_is_named(study):
    base = ("summarize", "study.basis", "north.csv", "-o", "x.summary")
    assert "lacks what --target asks for: 'stya' (did you mean 'stay'?)" in untouched(
        study, *base, "--target", "stya", code=3
    )
    assert "lacks what --sample-weight asks for: 'v'" in untouched(
        study, *base, "--target", "stay", "--sample-weight", "v", code=3
    )
    assert "--target must name the column" in untouched(study, *base, code=2)


def test_columns_that_hold_no_numbers_are_named_with_advice(study):
    for kind in ("csv", "parquet"):
        sentence = untouched(study, "basis", f"public.{kind}", "-o", "x.basis", code=3)
        assert "site" in sentence
        assert "leave them out with --drop" in sentence
    sentence = untouched(study, "summarize", "study.basis", "north.parquet", "--target", "site", "-o", "x", code=3)
    assert "column 'site' of north.parquet, which --target asks for, holds string and not numbers" in sentence
    assert "--drop asks for: 'sites' (did you mean 'site'?)" in untouched(
        study, "basis", "public.csv", "-o", "x.basis", "--drop", "sites", code=3
    )


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_value_that_is_missing_is_named(study, value):
    table = patients(2, 90)
    ages = table["age"].to_pylist()
    ages[3] = value
    write(table.set_column(1, "age", pa.array(ages, pa.float64())), study, "holes")
    for kind in ("csv", "parquet"):
        sentence = untouched(
            study, "summarize", "study.basis", f"holes.{kind}", "--target", "stay", "-o", "x.summary", code=3
        )
        assert f"column 'age' of holes.{kind}" in sentence
        assert "drop or impute" in sentence
        assert "column 'age'" in untouched(study, "predict", "study.model", f"holes.{kind}", "-o", "x.csv", code=3)


def test_a_missing_truth_value_is_named(study):
    table = patients(2, 90).set_column(1, "age", pa.array([None] + [True] * 89))
    pa.parquet.write_table(table, "holes.parquet")
    sentence = untouched(study, "summarize", "study.basis", "holes.parquet", "-t", "stay", "-o", "x.summary", code=3)
    assert "column 'age' of holes.parquet (row group 0) has missing" in sentence


def test_files_that_are_not_there_or_not_what_they_should_be(study):
    for command, code, words in [
        (("inspect", "nothing"), 3, "nothing does not exist"),
        (("inspect", "north.csv"), 4, "north.csv is not a file of unpooled"),
        (("summarize", "study.model", "north.csv", "-t", "stay", "-o", "x"), 4, "holds a model, not a basis"),
        (("summarize", "study.basis", "nothing.csv", "-t", "stay", "-o", "x"), 3, "there is no file nothing.csv"),
        (("summarize", "study.basis", "study.model", "-t", "stay", "-o", "x"), 3, "is not a Parquet file"),
        (("fit", "study.model", "-o", "x.model"), 4, "holds a model, not a summary"),
        (("fit", "nothing.summary", "-o", "x.model"), 3, "nothing.summary does not exist"),
        (("merge", "study.basis", "-o", "x.summary"), 4, "only summaries or scores can be added up"),
        (("merge", "north.summary", "study.basis", "-o", "x.summary"), 4, "holds a basis, not a summary"),
        (("predict", "study.basis", "north.csv", "-o", "x.csv"), 4, "holds a basis, not a model"),
        (("validate", "study.model", "north.csv", "-o", "x.scores"), 4, "holds a model, not candidates"),
        (("predict", "study.model", "north.csv", "-o", "no/x.csv"), 3, "there is no folder no"),
        (("predict", "study.model", "north.csv", "-o", "x.txt"), 2, "must end in .parquet or .csv"),
        (("predict", "study.model", "north.csv", "-o", "x.csv", "--keep", "ident"), 3, "--keep asks for: 'ident'"),
        (("log", "verify", "nothing.jsonl"), 3, "there is no log at nothing.jsonl"),
        (("policy", "check", "nothing.toml"), 5, "cannot be read (No such file or directory)"),
    ]:
        assert words in untouched(study, *command, code=code)


def test_a_damaged_file_is_refused(study):
    content = bytearray((study / "north.summary").read_bytes())
    content[-9] ^= 1
    (study / "bad.summary").write_bytes(content)
    for command in (("inspect", "bad.summary"), ("merge", "bad.summary", "south.summary", "-o", "x.summary")):
        assert "bad.summary is damaged: its content does not match its SHA-256" in untouched(study, *command, code=4)


def test_summaries_that_do_not_add_up_are_named_with_their_digests(study):
    call("summarize", "other.basis", "south.csv", "--target", "stay", "-o", "foreign.summary")
    digests = [up.bases.load(f"{name}.basis").digest[:12] for name in ("study", "other")]
    for command in ("merge", "fit"):
        sentence = untouched(study, command, "north.summary", "foreign.summary", "-o", "x.model", code=4)
        assert "north.summary" in sentence
        assert "foreign.summary" in sentence
        assert all(digest in sentence for digest in digests)
    call("summarize", "study.basis", "south.csv", "--target", "stay", "-o", "second.summary", "--order", 2)
    sentence = untouched(study, "merge", "north.summary", "second.summary", "-o", "x.summary", code=4)
    assert "order 1" in sentence
    assert "order 2" in sentence


def test_a_summary_counts_once(study):
    (study / "copy.summary").write_bytes((study / "north.summary").read_bytes())
    sentence = untouched(study, "merge", "north.summary", "copy.summary", "-o", "x.summary", code=4)
    assert sentence == "north.summary and copy.summary are the same file: its rows would count twice"


def test_a_basis_or_model_that_does_not_belong_is_named(study):
    wrong = ("fit", "north.summary", "-o", "x.model", "--basis", "other.basis")
    assert "belongs to the basis" in untouched(study, *wrong, code=4)
    call("fit", "south.summary", "-o", "wrong.model")
    command = ("summarize", "study.basis", "north.csv", "-o", "x.summary", "--residuals-of")
    call(*command, "study.model")
    assert "wrong.model is model" in untouched(
        study, "fit", "x.summary", "-o", "y.model", "--model", "wrong.model", code=4
    )
    assert "is a model in the basis" in untouched(
        study, "summarize", "other.basis", "north.csv", "-o", "y.summary", "--residuals-of", "study.model", code=4
    )
    (study / "study.model").rename(study / "study.elsewhere")
    assert "was not found among the .model files in this folder" in untouched(
        study, "fit", "x.summary", "-o", "y.model", code=4
    )
    call("fit", "x.summary", "-o", "y.model", "--model", "study.elsewhere")


def test_a_basis_that_is_nowhere_near_is_asked_for(study):
    (study / "study.basis").unlink()
    gc.collect()
    sentence = untouched(study, "fit", "north.summary", "-o", "x.model", code=4)
    assert "was not found among the .basis files in this folder: give it with --basis" in sentence


def test_later_rounds_go_on_as_the_first_began(study):
    call("summarize", "study.basis", "north.csv", "-o", "x.summary", "--residuals-of", "study.model")
    for option in (
        ("--lam", 0.1),
        ("--ridge",),
        ("--steps", "conjugate"),
        ("--no-fit-intercept",),
        ("--filter", "cutoff"),
    ):
        sentence = untouched(study, "fit", "x.summary", "-o", "y.model", *option, code=2)
        assert f"{option[0].replace('no-', '')} was decided in the first round" in sentence
    assert "first round" in untouched(study, "fit", "x.summary", "-o", "y.model", "--candidates", "c", code=2)
    assert "--order 1" in untouched(
        study, "summarize", "study.basis", "north.csv", "-o", "y", "--residuals-of", "study.model", "--order", 2, code=2
    )
    assert "leave --loss out" in untouched(
        *(study, "summarize", "study.basis", "north.csv", "-o", "y", "--residuals-of", "study.model"),
        *("--loss", "huber", "--scale", 1),
        code=4,
    )


def test_scores_of_other_candidates_are_refused(study):
    call("validate", "study.models", "north.csv", "-o", "north.scores")
    sentence = untouched(study, "fit", "north.summary", "-o", "x.model", "--scores", "north.scores", code=4)
    assert "score the candidates of this very summary" in sentence
    assert "leave --lam out" in untouched(
        study, "fit", "north.summary", "-o", "x.model", "--scores", "north.scores", "--lam", 1, code=2
    )


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--lam", "small"), "--lam must be auto or a positive number, got 'small'"),
        (("--lam", "-1"), "--lam must be auto or a positive number"),
        (("--lam", "nan"), "--lam must be auto or a positive number"),
        (("--filter", "ridge"), "--filter must be tikhonov, iterated-tikhonov, cutoff, landweber or nu, got 'ridge'"),
        (("--steps", "big"), "--steps must be plain or conjugate, got 'big'"),
        (("--model", "study.model"), "--model belongs to summaries of residuals"),
    ],
)
def test_options_of_fit_that_cannot_be(study, option, words):
    assert words in untouched(study, "fit", "north.summary", "-o", "x.model", *option, code=2)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--kernel", "gauss"), "--kernel must be gaussian, laplacian, matern, linear, polynomial,"),
        (("--kernel", "linear", "--length-scale", "2"), "the kernel linear has no length scale"),
        (("--length-scale", "0"), "--length-scale must be median or a positive number"),
        (("--n-features", "2.5"), "--n-features must be auto or a positive whole number"),
        (("--random", "--n-features", "0"), "--n-features must be auto or a positive whole number"),
    ],
)
def test_options_of_basis_that_cannot_be(study, option, words):
    assert words in untouched(study, "basis", "public.csv", "-o", "x.basis", "--columns", "age", *option, code=2)


def test_a_loss_needs_its_scale(study):
    base = ("summarize", "study.basis", "north.csv", "--target", "stay", "-o", "x.summary")
    for option in (("--loss", "huber"), ("--loss", "squared", "--scale", 1), ("--loss", "huber", "--scale", -1)):
        assert "need --scale, a positive number" in untouched(study, *base, *option, code=2)
    assert "--scale belongs to --loss" in untouched(study, *base, "--scale", 1, code=2)


def test_what_is_read_is_not_written_over(study):
    for command in (
        ("summarize", "study.basis", "north.csv", "--target", "stay", "-o", "north.csv"),
        ("merge", "north.summary", "south.summary", "-o", "south.summary"),
        ("fit", "north.summary", "-o", "./north.summary"),
        ("predict", "study.model", "north.csv", "-o", "north.csv"),
    ):
        assert "is one of the files that are read" in untouched(study, *command, code=2)


def test_usage_is_explained(study):
    for command in (("fit",), ("summarize", "study.basis"), ("nothing",), ("fit", "--nothing")):
        call(*command, code=2)


def test_an_error_in_json_is_one_object(study):
    found = answer_of("fit", "nothing.summary", "-o", "x.model", code=3)
    assert found["exit_code"] == 3
    assert "nothing.summary does not exist" in found["error"]


def test_the_unexpected_is_one_line_and_a_way_to_more(study, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(summarize, "summarize_source", broken)
    base = ("summarize", "study.basis", "north.csv", "--target", "stay", "-o", "x.summary")
    assert said(*base, code=1) == "unexpected RuntimeError: two lines (run the command again with --debug to see where)"
    shown = CliRunner().invoke(app, [*base, "--debug"])
    assert shown.exit_code == 1
    assert "Traceback" in shown.stderr


def test_stopping_from_the_keyboard_writes_nothing(study, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(summarize, "summarize_source", stop)
    base = ("summarize", "study.basis", "north.csv", "--target", "stay", "-o", "x.summary")
    assert untouched(study, *base, code=130) == "stopped"


def test_a_full_disk_leaves_the_old_file(study, monkeypatch):
    (study / "p.csv").write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert untouched(study, "predict", "study.model", "north.csv", "-o", "p.csv", code=3) == "No space left on device"


def test_warnings_are_a_line_each_and_in_the_json(study):
    result = call("fit", "north.summary", "-o", "x.model", "--lam", "1e-7")
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: 60 public rows stand in for 90")
    found = answer_of("fit", "north.summary", "-o", "x.model", "--lam", "1e-7")
    assert found["warnings"] == [line.removeprefix("warning: ")]


def test_a_lam_at_the_edge_of_the_grid_is_said_in_words(study):
    table = patients(2, 90)
    rng = np.random.default_rng(0)
    write(table.set_column(4, "stay", pa.array(rng.normal(size=90))), study, "noise")
    call("summarize", "study.basis", "noise.csv", "--target", "stay", "-o", "noise.summary", "--order", 2)
    found = answer_of("fit", "noise.summary", "-o", "x.model")
    assert found["path"]["at_edge"]
    assert any("the chosen λ is the largest that was tried" in warning for warning in found["warnings"])


def test_json_has_no_numbers_that_json_lacks():
    assert to_plain({"a": float("nan"), "b": np.float64(2.0), "c": [np.inf, np.arange(2)]}) == {
        "a": None,
        "b": 2.0,
        "c": [None, [0, 1]],
    }


def test_semicolons_and_tabs_are_commas_too(study):
    text = (study / "north.csv").read_text()
    for name, delimiter in (("semi", ";"), ("tab", "\t")):
        Path(f"{name}.csv").write_text(text.replace(",", delimiter))
        call("predict", "study.model", f"{name}.csv", "-o", f"p.{name}.csv", "--keep", "id")
    call("predict", "study.model", "north.csv", "-o", "p.csv", "--keep", "id")
    assert Path("p.semi.csv").read_bytes() == Path("p.tab.csv").read_bytes() == Path("p.csv").read_bytes()


def test_every_exit_code_is_in_the_help():
    text = " ".join(call("--help").stdout.split())
    for code in console.EXIT_CODES:
        assert f"{code}: " in text
    assert sorted(console.EXIT_CODES) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 130]


def test_the_commands_are_listed_in_the_order_of_their_use():
    lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output.splitlines()
    listed = [line.split()[1] for line in lines if line.startswith("│ ") and line[2].islower()]
    assert " ".join(listed) == (
        "data plan predict basis policy summarize merge fit validate log keys federation forecast ledger audit "
        "inspect report demo reproduce"
    )


def test_the_help_of_a_command_explains_its_arguments_and_folds_its_text():
    shown = CliRunner().invoke(app, ["summarize", "--help"], env={"COLUMNS": "300"}).output
    assert "The study's .basis file." in shown
    assert "Rows: a .csv" in shown
    assert "no other column is read. The command shows what is about to leave, and writes nothing" in shown
