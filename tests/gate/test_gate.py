"""The gate: nothing gets to its place unless the policy lets it, and not before the log has an entry for it."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

import unpooled as up
from tests.gate.releases import FINE, release
from tests.made_up import regression, sine
from unpooled.data.sources import open_labeled
from unpooled.gate import Gate, Log, LogError, Policy, Refused, facts, label_share
from unpooled.gate.gate import content_of


@pytest.fixture
def gate(tmp_path):
    return Gate(Policy.default(), Log(tmp_path / "log"))


def asking(gate, answer):
    return Gate(Policy(approve="ask"), gate.log, answer)


def test_what_may_leave_is_written_and_logged_with_its_hash(gate, tmp_path):
    entry = gate.write(tmp_path / "a.summary", b"sums", FINE)
    assert (tmp_path / "a.summary").read_bytes() == b"sums"
    assert entry == gate.log.entries()[-1]
    assert entry.event["what"] == "left"
    assert entry.event["sha256"] == hashlib.sha256(b"sums").hexdigest()
    assert entry.event["release"]["bytes"] == 4
    assert gate.log.releases() == [release(bytes=4)]


def test_what_is_refused_is_not_written_and_the_log_says_why(gate, tmp_path):
    (tmp_path / "a.summary").write_bytes(b"before")
    with pytest.raises(Refused, match="there are 3 rows, but at least 20") as caught:
        gate.write(tmp_path / "a.summary", b"sums", release(n_rows=3, numbers=3))
    assert (tmp_path / "a.summary").read_bytes() == b"before"
    (entry,) = gate.log.entries()
    assert entry.event["what"] == "refused"
    assert entry.event["reasons"] == caught.value.reasons
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.summary", "log"]


def test_a_person_is_asked_only_where_the_policy_asks_and_the_rules_are_kept(gate, tmp_path):
    asked = []

    def yes(facts):
        asked.append(facts)
        return True

    Gate(Policy.default(), gate.log, yes).write(tmp_path / "a", b"1", FINE)
    with pytest.raises(Refused, match="rows"):
        asking(gate, yes).write(tmp_path / "b", b"2", release(n_rows=3, numbers=3))
    assert asked == []
    asking(gate, yes).write(tmp_path / "c", b"3", FINE)
    assert asked == [release(bytes=1)]


@pytest.mark.parametrize("answer", [None, lambda _: False, lambda _: "yes"])
def test_without_a_plain_yes_nothing_leaves(gate, tmp_path, answer):
    with pytest.raises(Refused, match='the policy says approve = "ask", and'):
        asking(gate, answer).write(tmp_path / "a", b"1", FINE)
    assert not (tmp_path / "a").exists()
    assert gate.log.entries()[-1].event["what"] == "refused"


def test_a_broken_log_lets_nothing_leave(gate, tmp_path):
    gate.write(tmp_path / "a", b"1", FINE)
    gate.log.path.write_bytes(gate.log.path.read_bytes().replace(b"left", b"lost"))
    with pytest.raises(LogError, match="was changed after it was written"):
        gate.write(tmp_path / "b", b"2", FINE)
    assert not (tmp_path / "b").exists()


def test_a_place_that_cannot_be_written_to_is_found_before_the_log_says_that_anything_left(gate, tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot be written"):
        gate.write(tmp_path / "nowhere" / "a", b"1", FINE)
    assert gate.log.entries() == []


def test_the_log_has_its_entry_before_any_byte_is_at_the_place(gate, tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        gate.write(tmp_path / "a", b"1", FINE)
    assert [entry.event["what"] for entry in gate.log.entries()] == ["left"]
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_what_leaves_while_a_person_thinks_counts(gate, tmp_path):
    """Two files of 100 and 101 rows would show a record, also if both are made at once."""

    def slow(_):
        if not (tmp_path / "other").exists():
            Gate(Policy.default(), gate.log).write(tmp_path / "other", b"2", release(n_rows=101))
        return True

    with pytest.raises(Refused, match="the difference would reveal 1 record"):
        asking(gate, slow).write(tmp_path / "a", b"1", FINE)
    assert [entry.event["what"] for entry in gate.log.entries()] == ["left", "refused"]


def test_content_is_made_out_of_sight(tmp_path):
    places = []

    def save(place: Path):
        places.append(place)
        place.write_bytes(b"sums")

    assert content_of(save) == b"sums"
    assert not places[0].exists()
    assert not places[0].parent.exists()


# --- the facts --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, y = regression(rng, 300, function=sine(1))
    y[7] = 400.0
    weights = rng.uniform(0.5, 2.0, 300)
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 6).fit(rng.normal(size=(80, 2)))
    return basis, X, y, weights


@pytest.mark.filterwarnings("ignore:.*public rows stand in for")
def test_the_share_of_a_record_is_that_in_what_is_summed(rows):
    basis, X, y, weights = rows
    summary = up.Summary.of(basis, X, y, sample_weight=weights)
    assert summary.label_share == pytest.approx(label_share(y, weights), rel=1e-12)
    assert summary.label_share > 0.4
    model = up.SummaryRegressor(lam=1e-2, fit_intercept=False).fit_summary(summary)
    residual = y - model.predict(X)
    of_residuals = up.Summary.of(basis, X, y, residuals_of=model, sample_weight=weights)
    assert of_residuals.label_share == pytest.approx(label_share(residual, weights), rel=1e-12)
    limited = up.Summary.of(basis, X, y, residuals_of=model, loss=up.losses.Huber(0.5), sample_weight=weights)
    assert limited.label_share == pytest.approx(label_share(np.clip(residual, -0.5, 0.5), weights), rel=1e-12)
    assert limited.label_share < 0.05


def test_the_share_in_scores_is_that_in_the_errors_of_any_candidate(rows):
    basis, X, y, _ = rows
    candidates = up.SummaryRegressor(fit_intercept=False).fit_summary(up.Summary.of(basis, X, y, order=2)).candidates()
    found = facts.error_share_of(candidates, basis, open_labeled(basis, X, y, None))
    errors = candidates.errors(basis.transform(X), y[:, None], None)[:, :, 0]
    assert found == pytest.approx(max(label_share(e) for e in errors), rel=1e-12)
    assert found > 0.4


def test_the_facts_of_a_file_are_those_of_its_summary(rows):
    basis, X, y, _ = rows
    summary = up.Summary.of(basis, X, np.column_stack([y, y]), order=2)
    found = facts.of_summary(summary, 0.1)
    assert list(found.doubts()) == []
    assert (found.order, found.n_rows, found.n_features, found.n_targets) == (2, 300, 6, 2)
    assert found.numbers == 1 + 1 + 2 + 2 + 6 + 12 + 21
    assert not found.is_residual
    candidates = up.SummaryRegressor(fit_intercept=False).fit_summary(summary).candidates()
    scores = up.Scores.of(candidates, basis, X, np.column_stack([y, y]))
    found = facts.of_scores(scores, candidates, ("a", "b"), 0.1)
    assert list(found.doubts()) == []
    assert (found.kind, found.numbers) == ("scores", 2 + 28 * 2)
