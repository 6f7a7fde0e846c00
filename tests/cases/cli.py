"""A small study on disk, and the command line called without a new process."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from typer.testing import CliRunner

from unpooled.cli import app


def write(table, folder, name):
    """The same table as Parquet and as CSV."""
    pa.parquet.write_table(table, folder / f"{name}.parquet")
    pa.csv.write_csv(table, folder / f"{name}.csv")


def call(*args, code=0, answer=None):
    """The command; it must end with that exit code, and in no case with a traceback."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], input=answer)
    assert result.exit_code == code, (args, result.exit_code, result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def answer_of(*args, code=0):
    """What ``--json`` prints."""
    result = call(*args, "--json", code=code)
    found = json.loads(result.stdout)
    assert found["ok"] is (code == 0)
    return found


def said(*args, code):
    """The one line on standard error."""
    result = call(*args, code=code)
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert line.startswith("error: ")
    return line.removeprefix("error: ")
