"""The guide to a consortium, followed to the letter: Flower's own processes, TLS, authenticated nodes, a secure study.

Server, nodes and apps are processes of their own on this machine; at the end none of them is left.
"""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("flwr")

import unpooled as up
from tests.cases.processes import Marked, free_ports
from tests.docs.guides import blocks, shell_script
from tests.paths import DOCS
from unpooled.federation import StudyRecord, read_status

PAGE = DOCS / "guides" / "consortium.md"
HOSPITALS = ["cleveland", "hungarian", "va"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc"),
]


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guide")
    assert len(blocks(PAGE, "sh")) == 8
    port = free_ports(4)
    script = shell_script(PAGE).replace("8000", str(port)).replace("8003", str(port + 3))
    processes = Marked()
    try:
        code, said = processes.bash(script, folder, timeout=900)
        logs = {path.name: path.read_text()[-2000:] for path in folder.glob("*.log")}
        left = processes.gone_within(30)
    finally:
        processes.kill()
    return folder, code, said, logs, left


def test_every_command_of_the_guide_works(followed):
    folder, code, said, logs, _ = followed
    assert code == 0, (said, logs)
    predicted = pyarrow.csv.read_csv(folder / "predictions.csv")
    truth, guess = (predicted[name].to_numpy() for name in ("heart_rate", "heart_rate_predicted"))
    assert np.mean((truth - guess) ** 2) < 0.85 * np.var(truth)


def test_the_model_is_that_of_the_pooled_rows(followed):
    folder, *_ = followed
    model = up.load(folder / "heart" / "results" / "study.model")
    pooled = pa.concat_tables([pq.read_table(folder / f"{name}.parquet") for name in HOSPITALS]).to_pandas()
    basis = up.bases.load(folder / "heart" / "study.basis")
    twin = up.SummaryRegressor(fit_intercept=True).fit_summary(up.Summary.of(basis, pooled, "heart_rate", order=2))
    assert model.lam_ == twin.lam_
    assert model.summary_.n_rows == len(pooled)
    assert np.max(np.abs(model.coef_ - twin.coef_)) < 2.0**-40 * np.max(np.abs(twin.coef_))


def test_the_record_says_who_is_in_it_and_that_sums_were_secure(followed):
    folder, *_ = followed
    record = StudyRecord.load(folder / "heart" / "results")
    assert record.outcome == "complete"
    assert record.study["secure"] is True
    assert [one.members for one in record.exchanges] == [HOSPITALS]
    assert record.failures == []
    assert read_status(folder / "heart" / "results").state == "done"


def test_every_hospital_has_logged_the_one_answer_that_left(followed):
    folder, *_ = followed
    for name in HOSPITALS:
        log = up.site.Log(folder / "heart" / "sites" / name / "unpooled-log.jsonl")
        assert [entry.event["what"] for entry in log.entries()] == ["left", "opened"]


def test_no_process_is_left(followed):
    *_, left = followed
    assert left == {}
