"""The commands of docs/cli.md do what the page says, in its order."""

from pathlib import Path

import pyarrow.csv

from tests.cases.cli import call, write
from tests.docs.guides import commands
from tests.made_up import patients
from tests.paths import DOCS
from unpooled.cli import console

PAGE = DOCS / "cli.md"


def test_every_command_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = {"public": 100, "new": 30, "few": 8, "site1/rows": 150, "site2/rows": 200}
    for seed, (name, n) in enumerate(sizes.items()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(patients(seed, n).drop_columns(["w"]), (tmp_path / name).parent, Path(name).name)
    assert len(commands(PAGE)) > 15
    for words, code in commands(PAGE):
        call(*words, code=code)
    predicted = pyarrow.csv.read_csv("predictions.csv")
    assert predicted.column_names == ["id", "stay_predicted"]
    assert not (tmp_path / "few.summary").exists()


def test_the_page_has_every_exit_code():
    text = PAGE.read_text()
    for code, words in console.EXIT_CODES.items():
        assert f"| {code} | {words}" in text
