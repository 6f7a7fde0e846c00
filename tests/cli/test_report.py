"""``unpooled report``: what it reads, what it says when it cannot, and the commands of docs/report.md.

Tests `cli/inspect.py`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import unpooled as up
from tests.cases.cli import answer_of, call, said, write
from tests.cases.reports import Page
from tests.made_up import patients
from tests.paths import DOCS

PAGE = DOCS / "report.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study of two sites, and labeled rows of both."""
    folder = tmp_path_factory.mktemp("study")
    write(patients(1, 80).drop_columns(["stay", "w", "site", "id"]), folder, "public")
    call("basis", folder / "public.parquet", "-o", folder / "study.basis", "--n-features", 12)
    for seed, name in ((2, "site1"), (3, "site2")):
        (folder / name).mkdir()
        write(patients(seed, 120), folder / name, "rows")
        rows, sent = folder / name / "rows.parquet", folder / f"{name}.summary"
        call("summarize", folder / "study.basis", rows, "--target", "stay", "-o", sent, "--order", 2)
    call("fit", folder / "site1.summary", folder / "site2.summary", "-o", folder / "study.model")
    write(pa.concat_tables([patients(2, 40, 500), patients(3, 50, 600)]), folder, "test")
    return folder


@pytest.fixture
def study(made, monkeypatch):
    monkeypatch.chdir(made)
    for path in made.glob("*.html"):
        path.unlink()
    return made


def test_every_command_of_the_page_runs(study):
    commands = re.findall(r"^\$ unpooled (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        words = [str(p) for w in shlex.split(command) for p in (sorted(Path().glob(w)) if "*" in w else [w])]
        call(*words)
    found = Page(Path("report.html").read_text("utf-8"))
    assert {"strangers", "changes", "site-errors", "coverage"} <= set(found.ids)
    assert "site 2" in found.words


def test_every_way_to_give_summaries_gives_the_same_page(study):
    a, b = "site1.summary", "site2.summary"
    ways = [["--summaries", a, b], [a, b], ["--summaries", a, "--summaries", b]]
    pages = set()
    for way in ways:
        call("report", "study.model", "-o", "one.html", *way)
        pages.add(Path("one.html").read_text("utf-8"))
    assert len(pages) == 1


def test_csv_and_parquet_and_python_give_the_same_figures(study):
    for kind in ("csv", "parquet"):
        call("report", "study.model", "-o", f"{kind}.html", "--data", f"test.{kind}", "--sites", "site")
    one, two = (Page(Path(f"{kind}.html").read_text("utf-8")) for kind in ("csv", "parquet"))
    table = pyarrow.parquet.read_table("test.parquet")
    model = up.load("study.model")
    rmse = np.sqrt(
        np.mean((model.predict(table.select(list(model.feature_names_in_))) - table["stay"].to_numpy()) ** 2)
    )
    for page in (one, two):
        assert f"On the 90 rows given, the root mean square error is {rmse:.3g}" in page.words
    assert one.words == two.words


def test_the_answer_for_scripts(study):
    found = answer_of("report", "study.model", "-o", "json.html")
    assert found["bytes"] == Path("json.html").stat().st_size
    assert any("--summaries" in sentence for sentence in found["missing"])
    assert "not shown: " in call("report", "study.model", "-o", "text.html").stdout


def test_a_model_without_names_takes_the_columns_that_are_left(study):
    table = pyarrow.parquet.read_table("test.parquet")
    X = np.column_stack([table[name].to_numpy() for name in ("age", "dose", "pressure")])
    up.save(up.SpectralRegressor(lam=0.1, fit_intercept=False).fit(X, table["stay"].to_numpy()), "plain.model")
    pyarrow.parquet.write_table(table.drop_columns(["id", "w"]), "plain.parquet")
    call("report", "plain.model", "-o", "plain.html", "--data", "plain.parquet", "--sites", "site", "--target", "stay")
    assert "input 3" in Page(Path("plain.html").read_text("utf-8")).words
    sentence = said("report", "plain.model", "-o", "no.html", "--data", "test.parquet", "--target", "stay", code=3)
    assert "the model has 3 inputs without names" in sentence
    sentence = said("report", "plain.model", "-o", "no.html", "--data", "plain.parquet", code=2)
    assert sentence == "--target must name the column of the label, which this model does not know"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--sites", "site"], 2, "--sites names a column of --data: give the rows as well"),
        (
            ["--data", "test.parquet", "--target", "age"],
            2,
            "--target must be one of stay, or a number from 0 to 0, got",
        ),
        (
            ["--data", "test.parquet", "--sites", "Site"],
            3,
            "lacks what --sites asks for: 'Site' (did you mean 'site'?)",
        ),
        (["--data", "public.parquet"], 3, "public.parquet lacks what the report asks for: 'stay'"),
        (["--data", "nowhere.parquet"], 3, "nowhere.parquet"),
        (["--summaries", "study.model"], 4, "study.model holds a model instead of a summary"),
        (
            ["--summaries", "site1.summary", "site1.summary"],
            4,
            "which are the same: remove one, or rows would count twice",
        ),
        (["--basis", "study.model"], 4, "study.model holds a model instead of a basis"),
        (["-o", "study.model"], 2, "is one of the files that are read: choose another name"),
        (["-o", "nowhere/report.html"], 3, "there is no folder nowhere"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_and_nothing_is_written(study, words, code, sentence):
    output = [] if "-o" in words else ["-o", "no.html"]
    assert sentence in said("report", "study.model", *output, *words, code=code)
    assert list(study.glob("*.html")) == []
    assert list(study.glob(".no.html*")) == []


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("stay", None, "column 'stay' of bad.parquet has missing or infinite values: drop such rows first"),
        ("site", None, "column 'site' of bad.parquet has rows without a site: give every row its site"),
    ],
)
def test_values_that_are_missing_are_named(study, name, value, sentence):
    table = pyarrow.parquet.read_table("test.parquet")
    values = table[name].to_pylist()
    values[3] = value
    bad = table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))
    pyarrow.parquet.write_table(bad, "bad.parquet")
    words = ["report", "study.model", "-o", "no.html", "--data", "bad.parquet", "--sites", "site"]
    assert said(*words, code=3) == sentence


def test_text_in_the_place_of_labels_is_named(study):
    lines = Path("test.csv").read_text().splitlines()
    head = lines[0].replace('"', "").split(",")
    cells = lines[4].split(",")
    cells[head.index("stay")] = '"long"'
    Path("bad.csv").write_text("\n".join([*lines[:4], ",".join(cells), *lines[5:]]) + "\n")
    sentence = said("report", "study.model", "-o", "no.html", "--data", "bad.csv", code=3)
    assert sentence == "column 'stay' of bad.csv holds values that are not numbers"


def test_a_table_without_rows_is_said(study):
    pyarrow.parquet.write_table(pyarrow.parquet.read_table("test.parquet").slice(0, 0), "none.parquet")
    assert (
        said("report", "study.model", "-o", "no.html", "--data", "none.parquet", code=3) == "none.parquet has no rows"
    )
