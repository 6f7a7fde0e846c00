"""Files that version 0.1.0 wrote: each can be read, predicts what it predicted then, and is written again as it was.

Models are written again in format 2, with the digest that they had.

``python benchmarks/golden sample FOLDER`` has written them, with what they are expected to give.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from tests.cases.cli import answer_of
from unpooled._base import files, renames

FOLDER = Path(__file__).parent / "golden"
EXPECTED = json.loads((FOLDER / "predictions.json").read_text(encoding="utf-8"))
CLASSES = {
    "AveragedRegressor",
    "CorrentropyRegressor",
    "LESSRegressor",
    "NystromRegressor",
    "PrivateRegressor",
    "PrivateSGDRegressor",
    "SpectralRegressor",
    "SummaryRegressor",
}
CLOSE = 1e-9  # processors round differently

models = pytest.mark.parametrize("name", EXPECTED["models"])
bases = pytest.mark.parametrize("name", EXPECTED["bases"])
summaries = pytest.mark.parametrize("name", EXPECTED["summaries"])


def rows(named):
    """The rows to predict, with names of columns where a model knows them."""
    values = np.asarray(EXPECTED["rows"])
    return pd.DataFrame(values, columns=EXPECTED["columns"]) if named else values


def close(found, expected):
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE * np.max(np.abs(expected)))


def same_but_for_the_version(path, again):
    """Whether a file is, byte for byte, what was read, the version of the library and the SHA-256 over it left out."""
    return _without_version(path.read_bytes()) == _without_version(again.read_bytes())


def _without_version(content):
    length = int.from_bytes(content[:8], "little")
    about = json.loads(content[8 : 8 + length])
    text = about.pop("__metadata__")["unpooled"]
    found = json.loads(text)
    assert text == json.dumps(found, sort_keys=True, ensure_ascii=False)
    del found["sha256"], found["header"]["unpooled"]
    return list(about.items()), found, content[8 + length :]


def test_there_is_a_model_of_every_class_and_a_basis_of_every_kind():
    assert {facts["class"] for facts in EXPECTED["models"].values()} >= CLASSES
    assert {type(up.bases.load(path)).__name__ for path in FOLDER.glob("*.basis")} >= {
        "EmpiricalFeatures",
        "RandomFeatures",
        "CosineFeatures",
    }


@models
def test_a_model_predicts_what_it_predicted_when_it_was_saved(name):
    facts = EXPECTED["models"][name]
    model = up.load(FOLDER / f"{name}.model")
    assert type(model).__name__ == facts["class"]
    close(model.predict(rows(facts["named"])), facts["predictions"])


@models
def test_a_model_has_the_digest_it_had(name):
    assert answer_of("inspect", FOLDER / f"{name}.model")["digest"] == EXPECTED["models"][name]["digest"]


@models
def test_a_model_is_written_again_in_format_2_and_is_the_same_field_by_field(name, tmp_path):
    path = FOLDER / f"{name}.model"
    model = up.load(path)
    up.save(model, tmp_path / "a.model")
    header, arrays = files.read(path, "model")
    again, numbers = files.read(tmp_path / "a.model", "model")
    digest = EXPECTED["models"][name]["digest"]
    wanted = renames.translate(header) | {"format": 2, "unpooled": again["unpooled"], "digest": digest}
    assert again == wanted
    assert {key: (array.dtype, array.shape, array.tobytes()) for key, array in numbers.items()} == {
        key: (array.dtype, array.shape, array.tobytes()) for key, array in arrays.items()
    }
    named = rows(EXPECTED["models"][name]["named"])
    reloaded = up.load(tmp_path / "a.model")
    np.testing.assert_array_equal(reloaded.predict(named), model.predict(named))
    assert answer_of("inspect", tmp_path / "a.model")["digest"] == digest
    up.save(reloaded, tmp_path / "b.model")
    assert (tmp_path / "b.model").read_bytes() == (tmp_path / "a.model").read_bytes()


def test_a_model_whose_names_are_as_they_were_is_written_again_as_it_was(tmp_path):
    up.save(up.load(FOLDER / "study" / "study.model"), tmp_path / "a.model")
    assert same_but_for_the_version(FOLDER / "study" / "study.model", tmp_path / "a.model")


@bases
def test_a_basis_has_the_features_and_the_digest_it_had(name):
    facts, basis = EXPECTED["bases"][name], up.bases.load(FOLDER / f"{name}.basis")
    assert basis.digest == facts["digest"]
    close(basis.transform(rows(facts["named"])), facts["features"])


@bases
def test_a_basis_is_written_again_as_it_was(name, tmp_path):
    up.bases.load(FOLDER / f"{name}.basis").save(tmp_path / "a.basis")
    assert same_but_for_the_version(FOLDER / f"{name}.basis", tmp_path / "a.basis")


@summaries
def test_a_summary_is_read_and_written_again_as_it_was(name, tmp_path):
    summary = up.Summary.load(FOLDER / f"{name}.summary")
    assert {"n_rows": summary.n_rows, "weight": summary.weight} == EXPECTED["summaries"][name]
    assert summary.digest == EXPECTED["bases"]["study"]["digest"]
    summary.save(tmp_path / "a.summary")
    assert same_but_for_the_version(FOLDER / f"{name}.summary", tmp_path / "a.summary")


def test_candidates_and_scores_are_read_and_written_again_as_they_were(tmp_path):
    facts = EXPECTED["candidates"]
    candidates, scores = up.Candidates.load(FOLDER / "study.candidates"), up.Scores.load(FOLDER / "study.scores")
    assert candidates.digest == scores.candidates == facts["digest"]
    assert candidates.question == scores.question
    close(scores.mean, facts["mean of scores"])
    for one, name in ((candidates, "study.candidates"), (scores, "study.scores")):
        one.save(tmp_path / name)
        assert same_but_for_the_version(FOLDER / name, tmp_path / name)


def test_a_study_by_files_goes_on_with_the_files_it_has():
    """Sums become models, scores choose λ, and residuals take the model they are of one round further."""
    basis = up.bases.load(FOLDER / "study.basis")
    first, second, residuals = (
        up.Summary.load(FOLDER / f"{name}.summary") for name in ("order-1", "order-2", "residuals")
    )
    grid = up.Candidates.load(FOLDER / "study.candidates").lam
    regressor = {"filter": "tikhonov", "lam": "auto", "fit_intercept": True, "grid": grid}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*public rows stand in for")
        learned = {
            "a second exchange": up.SummaryRegressor(**regressor).fit_summary(
                first, scores=up.Scores.load(FOLDER / "study.scores"), basis=basis
            ),
            "second order": up.SummaryRegressor(**regressor).fit_summary(second, basis=basis),
            "one more round": up.load(FOLDER / "summary-rounds.model").update(residuals, basis=basis),
        }
    for name, facts in EXPECTED["learned"].items():
        assert learned[name].lam_ == facts["lam"]
        close(learned[name].predict(rows(named=True)), facts["predictions"])


def test_noise_and_guarantees_are_known_from_the_files_alone():
    alone, share = (up.Summary.load(FOLDER / f"{name}.summary").privacy for name in ("private", "share"))
    assert alone.is_complete
    assert not share.is_complete
    assert (share.parties, share.missing, share.shares) == (3, 1, 1)
    for name in ("private", "private-descent", "summary-private"):
        promise = up.load(FOLDER / f"{name}.model").privacy_
        assert (promise.delta, promise.neighbours) == (1e-6, up.privacy.NEIGHBOURS)


def test_a_ledger_is_whole_and_has_the_budget_left_that_it_had():
    ledger, facts = up.privacy.Ledger(FOLDER / "books.ledger"), EXPECTED["ledger"]
    assert ledger.verify().ok
    assert ledger.verify().head == facts["head"]
    assert [(one.purpose, one.is_released) for one in ledger.charges()] == [
        ("two means", True),
        ("a sum that never left", False),
    ]
    close([ledger.epsilon_spent(), ledger.mu_left()], [facts["spent"], facts["left"]])


def test_a_log_is_whole_and_says_what_left_and_what_did_not():
    log, facts = up.gate.Log(FOLDER / "site.log"), EXPECTED["log"]
    assert log.verify(facts["head"], facts["count"]).ok
    assert [entry.event["what"] for entry in log.entries()] == ["left", "refused"]
    (release,) = log.releases()
    assert (release.n_rows, release.targets) == (150, ("stay",))


def test_new_entries_continue_a_ledger_and_a_log_of_before(tmp_path):
    for name in ("books.ledger", "site.log"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    ledger, facts = up.privacy.Ledger(tmp_path / "books.ledger"), EXPECTED["ledger"]
    with ledger.charge(up.privacy.GaussianEvent(0.01), "a third"):
        pass
    assert ledger.verify(facts["head"]).ok
    assert ledger.epsilon_spent() > facts["spent"]
    assert [(one.purpose, one.is_released) for one in ledger.charges()][1:] == [
        ("a sum that never left", False),
        ("a third", True),
    ]
    log, facts = up.gate.Log(tmp_path / "site.log"), EXPECTED["log"]
    (release,) = log.releases()
    log.append(up.gate.describe_release(release, "again.summary", "0" * 64))
    log.append(up.gate.describe_refusal(release, ["no"]))
    assert log.verify(facts["head"], facts["count"]).ok
    first, second, *new = [entry.event for entry in log.entries()]
    assert [event["what"] for event in new] == ["left", "refused"]
    assert first.keys() == new[0].keys()
    assert second.keys() == new[1].keys()
    assert log.releases() == [release, release]


def test_the_template_of_a_policy_is_the_default_policy():
    assert up.gate.Policy.read(FOLDER / "policy.toml") == up.gate.Policy.default()


def test_the_record_of_a_study_is_whole_and_names_its_model():
    record, facts = up.federation.StudyRecord.load(FOLDER / "study"), EXPECTED["study"]
    assert (record.study_digest, record.outcome) == (facts["digest"], facts["outcome"])
    assert sum(exchange.n_rows for exchange in record.exchanges) == facts["rows"]
    model = FOLDER / "study" / "study.model"
    assert answer_of("inspect", model)["sha256"] == record.model["sha256"]
    assert answer_of("inspect", model)["digest"] == record.model["digest"]
    close(up.load(model).predict(rows(named=True)), facts["predictions"])
