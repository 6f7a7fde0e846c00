"""What `make demo` runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

import unpooled
from unpooled import demo
from unpooled.cli import app


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    text = io.StringIO()
    rows = demo.run(out, Console(file=text, width=120))
    return rows, text.getvalue(), out


def test_the_demo_compares_five_filters_with_kernel_ridge(shown):
    rows, text, _ = shown
    for row in rows:
        assert row.name in text
        assert f"{row.rmse:.3f}" in text
    pooled = rows[:6]
    assert [row.name for row in pooled] == [*demo.FILTERS.values(), "KernelRidge + GridSearchCV"]
    for row in pooled:
        assert 1.0 < row.rmse < 4.0  # dB; the labels' standard deviation is 6.9
    assert pooled[0].rmse < 1.1 * pooled[-1].rmse


def test_the_demo_averages_blocks_and_survives_wrong_labels(shown):
    rows, _, _ = shown
    by_name = {row.name: row.rmse for row in rows}
    assert by_name["average of 4 blocks"] < 1.5 * by_name["Tikhonov (ridge)"]
    spoiled = by_name["wrong labels: KernelRidge + GridSearchCV"]
    assert by_name["wrong labels: correntropy"] < 0.5 * spoiled
    assert by_name["wrong labels: average of 4"] < 0.5 * spoiled


def test_the_demo_writes_a_page_with_its_plot(shown):
    rows, _, out = shown
    page = (out / "index.html").read_text(encoding="utf-8")
    assert all(row.name in page for row in rows)
    assert 'src="paths.png"' in page
    assert (out / "paths.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_line_knows_its_version_and_its_commands():
    run = CliRunner()
    assert run.invoke(app, ["version"]).output.strip() == unpooled.__version__
    assert "demo" in run.invoke(app, ["--help"]).output
