"""docs/guides/files.md: every command does what the page says, and the models are those it says they are."""

import runpy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

import unpooled as up
from tests.cases.cli import call
from tests.docs.guides import blocks, commands, save_scripts, shows
from tests.paths import DOCS

PAGE = DOCS / "guides" / "files.md"
NUMBERS = {"va": "154", "switzerland-1": "34", "switzerland-2": "35", "switzerland-3": "35"}  # in some of the files


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder after the last command, and what every command said."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in save_scripts(PAGE, folder):
            runpy.run_path(name)
        screens = {" ".join(words[:2]): call(*words, code=code).output for words, code in commands(PAGE)}
    return folder, screens


def patients(folder, *hospitals):
    return pa.concat_tables([csv.read_csv(folder / name / "patients.csv") for name in hospitals])


def error_at(folder, model, hospital):
    new = csv.read_csv(folder / "new.csv")
    off = up.load(folder / model).predict(folder / "new.csv") - new["heart_rate"].to_numpy()
    return float(np.sqrt(np.mean(off[np.asarray(new["hospital"].to_pylist()) == hospital] ** 2)))


def test_switzerland_is_refused_at_second_order_and_the_log_says_so(study):
    folder, _ = study
    assert not (folder / "switzerland.summary").exists()
    log = up.site.Log(folder / "switzerland" / "unpooled-log.jsonl")
    assert [entry.event["what"] for entry in log.entries()] == ["refused", "left", "left", "left"]


def test_inspect_shows_what_the_page_shows(study):
    _, screens = study
    ((_, expected),) = blocks(PAGE, "text")
    assert shows(expected, screens["inspect va.summary"])


def test_the_model_of_three_is_that_of_their_patients_in_one_table(study):
    folder, _ = study
    model, basis = up.load(folder / "three.model"), up.bases.load(folder / "study.basis")
    rows = patients(folder, "cleveland", "hungarian", "va").to_pandas()
    assert f"the {len(rows)} patients" in PAGE.read_text()
    twin = up.SummaryRegressor(fit_intercept=True).fit_summary(up.Summary.of(basis, rows, "heart_rate", order=2))
    np.testing.assert_allclose(model.coef_, twin.coef_, rtol=1e-9)


def test_the_numbers_that_left_are_those_on_the_page(study):
    folder, _ = study
    text = PAGE.read_text()
    counts = {name: up.Summary.load(folder / f"{name}.summary").describe().split(" numbers")[0] for name in NUMBERS}
    assert {name: count.split()[-1] for name, count in counts.items()} == NUMBERS
    for said in ("sends 34 numbers", "Three times 35 numbers", "takes 154 at once"):
        assert said in text


def test_rounds_help_the_hospital_that_was_left_out_and_cost_the_others_little(study):
    folder, _ = study
    assert error_at(folder, "study.model", "switzerland") < 0.95 * error_at(folder, "three.model", "switzerland")
    for hospital in ("cleveland", "hungarian", "va"):
        assert error_at(folder, "study.model", hospital) < 1.06 * error_at(folder, "three.model", hospital)


def test_predictions_and_reports_are_there_and_no_patient_is_in_the_model(study):
    folder, _ = study
    predicted = csv.read_csv(folder / "predictions.csv")
    assert predicted.column_names == ["heart_rate", "hospital", "heart_rate_predicted"]
    assert len(Path(folder / "report.html").read_text()) > 10_000
    points = up.load(folder / "study.model").predictor_.map.points
    basis = up.bases.load(folder / "study.basis")
    np.testing.assert_array_equal(points, basis.map_.points)
