"""The commands of docs/cli.md do what the page says, in its order."""

import re
import shlex
from pathlib import Path

import pyarrow.csv

from cli_cases import call, table_of, write
from unpooled.cli import codes

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"


def test_every_command_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = {"public": 100, "new": 30, "few": 8, "site1/rows": 150, "site2/rows": 200}
    for seed, (name, n) in enumerate(sizes.items()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(table_of(n, seed).drop_columns(["w"]), (tmp_path / name).parent, Path(name).name)
    commands = re.findall(r"^\$ unpooled (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) > 15
    for command in commands:
        words, _, comment = command.partition("#")
        call(*shlex.split(words), code=int(comment.split()[-1]) if comment else 0)
    predicted = pyarrow.csv.read_csv("predictions.csv")
    assert predicted.column_names == ["id", "stay_predicted"]
    assert not (tmp_path / "few.summary").exists()


def test_the_page_has_every_exit_code():
    text = PAGE.read_text()
    for code, words in codes.WORDS.items():
        assert f"| {code} | {words}" in text
