"""The demo of `make demo`: four hospitals, the files between them, and the claims its page makes."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

import unpooled as up
from unpooled import demo
from unpooled.cli import app
from unpooled.demo import _methods, _open_folders, page
from unpooled.demo.study import HOSPITALS, TARGET, DemoResults, divide_into_studies
from unpooled.gate import Log

NAMES = {
    "own": "each hospital its own",
    "less": "LESS, first order",
    "rounds": "LESS, 5 residual rounds",
    "second": "second order, 15 features",
    "averaged": "average of functions",
    "second large": "second order, 30 features",
    "pooled": "kernel ridge, rows pooled",
    "unaware": "the same, hospital unknown",
}


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    text = io.StringIO()
    lines = demo.run(out, Console(file=text, width=80))
    return lines, text.getvalue(), out


@pytest.fixture(scope="module")
def error(demo_run):
    by_name = {line["name"]: line["rmse"] for line in demo_run[0]}
    return {key: by_name[name] for key, name in NAMES.items()}


def test_the_table_has_every_method_and_fits_a_narrow_terminal(demo_run):
    lines, text, _ = demo_run
    assert len(lines) == 12
    for line in lines:
        assert re.search(rf"{re.escape(line['name'])} +{line['rmse']:.2f} ", text)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_every_patient_is_tested_once_and_never_learned_from():
    data = up.datasets.load_heart()
    tested = np.zeros(len(data.y), dtype=int)
    for study in divide_into_studies(data):
        tested += study.test
        assert np.array_equal(study.public.astype(int) + study.private + study.test, np.ones(len(data.y)))
        assert all((study.test & (data.sites == site)).any() for site in HOSPITALS)
        assert TARGET not in study.inputs(study.public).column_names
    assert np.all(tested == 1)


def test_one_hospitals_model_does_not_serve_the_others(demo_run, error):
    for line in demo_run[0][:4]:
        assert line["rmse"] > 1.1 * error["own"]


def test_residual_rounds_come_close_to_pooled_rows_and_averaging_does_not(error):
    assert error["pooled"] < error["rounds"] < error["less"] < error["averaged"]
    assert error["rounds"] < 1.03 * error["pooled"]
    assert error["averaged"] > 1.1 * error["pooled"]


def test_second_order_equals_pooled_rows_where_policies_allow_it_and_suffers_where_not(error):
    assert error["second large"] < 1.01 * error["pooled"]
    assert error["second large"] < error["second"] < error["averaged"]


def test_a_model_that_does_not_know_the_hospital_is_worse_even_with_all_rows(error):
    assert error["unaware"] > 1.05 * error["pooled"]
    assert error["unaware"] > error["own"]


def test_these_data_promise_no_hospital_a_large_gain(error):
    assert abs(error["rounds"] / error["own"] - 1) < 0.03
    assert 0 < error["own"] - error["pooled"] < 0.5


def test_what_a_hospital_sends_is_small_beside_its_rows(demo_run):
    sent = {line["name"]: line["numbers_sent"] for line in demo_run[0]}
    assert sent[NAMES["less"]] == 2 * 30 + 4
    assert sent[NAMES["rounds"]] == 64 + 4 * 65
    assert sent[NAMES["second"]] == 15 * 16 // 2 + 2 * 15 + 4
    assert sent[NAMES["rounds"]] < sent[NAMES["pooled"]] / 5
    assert all(line["numbers_sent"] == 0 for line in demo_run[0][:5])


def test_the_models_are_made_of_the_files_that_were_sent(demo_run):
    folder = demo_run[2] / "study-3"
    basis = up.bases.load(folder / "consortium" / "study.basis")
    sent = [up.Summary.load(folder / site / "less.summary") for site in HOSPITALS]
    again = up.SummaryRegressor(lam=up.load(folder / "consortium" / "less.model").lam_, fit_intercept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the floor
        again.fit_summary(sum(sent), basis=basis)
    public = pq.read_table(folder / "consortium" / "public.parquet")
    model = up.load(folder / "consortium" / "less.model")
    assert np.allclose(again.predict(public), model.predict(public), rtol=1e-12)
    rows = [pq.read_metadata(folder / site / "patients.parquet").num_rows for site in HOSPITALS]
    assert [summary.n_rows for summary in sent] == rows


def test_the_smallest_hospital_refuses_second_order_and_its_log_says_so(demo_run):
    out = demo_run[2]
    for number in range(1, 6):
        assert not (out / f"study-{number}" / "switzerland" / "second.summary").exists()
        for site in HOSPITALS:
            log = Log(out / f"study-{number}" / site / "unpooled-log.jsonl")
            assert log.verify().ok
            refused = [entry.event for entry in log.entries() if entry.event["what"] == "refused"]
            assert len(refused) == (site == "switzerland")
            assert len(log.releases()) == 6 - (site == "switzerland")
    assert "turned back into the rows" in (out / "index.html").read_text(encoding="utf-8")


def test_the_page_needs_nothing_but_itself_and_says_what_was_sent(demo_run):
    lines, _, out = demo_run
    text = (out / "index.html").read_text(encoding="utf-8")
    assert all(line["name"].replace("'", "&#x27;") in text for line in lines)
    assert "<svg" in text
    assert not re.search(r'(src|href)="(?!#)', text)
    for site, name in HOSPITALS.items():
        assert name in text
        described = up.Summary.load(out / "study-1" / site / "less.summary").describe()
        assert described in text


def test_the_commands_on_the_page_do_what_it_says(demo_run, tmp_path, monkeypatch):
    folder = tmp_path / "study-1"
    shutil.copytree(demo_run[2] / "study-1", folder)
    monkeypatch.chdir(folder)
    for command in page.COMMANDS:
        ran = CliRunner().invoke(app, shlex.split(command)[1:])
        assert ran.exit_code == (5 if "no.summary" in command else 0), ran.output
    assert (folder / "my.basis").read_bytes() == (folder / "consortium" / "study.basis").read_bytes()
    assert (folder / "my.summary").read_bytes() == (folder / "va" / "less.summary").read_bytes()
    assert up.load(folder / "my.model").lam_ == up.load(folder / "consortium" / "less.model").lam_


def test_a_second_run_replaces_its_own_folders_and_no_others(tmp_path):
    study = next(divide_into_studies(up.datasets.load_heart()))
    first = _open_folders(study, tmp_path / "study-1")
    again = _open_folders(study, tmp_path / "study-1")
    assert again.folder == first.folder
    mine = tmp_path / "study-2" / "consortium"
    mine.mkdir(parents=True)
    with pytest.raises(FileExistsError):
        _open_folders(study, tmp_path / "study-2")
    assert mine.exists()


def test_the_page_does_without_a_plot_where_there_is_no_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    data = up.datasets.load_heart()
    methods = _methods(data)
    for method in methods.values():
        method.predicted[:] = data.y.mean()
    assert "pip install" in page._plot(DemoResults(data, methods, None, 0.0))


def test_the_command_line_knows_its_version_and_its_commands():
    run = CliRunner()
    assert run.invoke(app, ["--version"]).output.strip() == up.__version__
    assert "demo" in run.invoke(app, ["--help"]).output
