"""A server that dies goes on after the last complete exchange, with the same numbers, or says why it cannot."""

import json
import multiprocessing
import time

import numpy as np
import pytest

import unpooled as up
from tests.cases.federation import Consortium, Wire, lost, nth
from unpooled import models
from unpooled.federation import InProcess, Message, Site, Study, StudyError, StudyRecord, read_status, run_study

both = pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])


class PowerCut(BaseException):
    """An interruption that no code catches."""


@pytest.fixture
def sites(tmp_path):
    return Consortium(tmp_path / "sites")


def cut_after(n):
    """A progress display that pulls the plug after n complete exchanges."""

    def progress(status):
        if status.done == n and status.state == "asking":
            raise PowerCut

    return progress


@both
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_killed_server_resumes_at_the_last_complete_round(sites, tmp_path, secure, after):
    study = sites.study(kind="rounds", rounds=4, lam=1e-3, ridge=True, secure=secure)
    whole = run_study(study, sites.transport(), tmp_path / "whole")
    with pytest.raises(PowerCut):
        run_study(study, sites.transport(), tmp_path / "cut", progress=cut_after(after))
    assert not (tmp_path / "cut" / "study.model").exists()
    wire = Wire()
    record = run_study(study, sites.transport(wire), tmp_path / "cut")
    assert record.outcome == whole.outcome == "complete"
    assert len(wire.received("answer")) == 4 * (4 - after)  # nothing is asked twice
    first, second = (up.load(tmp_path / name / "study.model") for name in ("whole", "cut"))
    assert np.array_equal(first.coef_, second.coef_)
    assert [one.digest for one in record.exchanges] == [one.digest for one in whole.exchanges]


@both
def test_a_server_killed_in_the_middle_of_an_exchange_asks_that_one_again(sites, tmp_path, secure):
    """The server dies after all sites have answered and before it has stored the sum."""
    study = sites.study(kind="rounds", rounds=3, lam=1e-3, secure=secure)

    def cut(status):
        if status.state == "asking" and status.done == 1 and status.attempt == 1:
            raise PowerCut

    with pytest.raises(PowerCut):
        run_study(study, sites.transport(), tmp_path / "study", progress=cut)
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert record.outcome == "complete"


def test_a_process_that_is_really_killed_leaves_a_folder_that_can_be_gone_on_with(sites, tmp_path):
    """Killed wherever it is: another process finishes, and the model is the one of an undisturbed run."""
    sites.basis.save(tmp_path / "public.basis")
    study = sites.study(**KILLED)
    run_study(study, sites.transport(), tmp_path / "whole")
    paths = (sites.folder, sites.names, tmp_path / "public.basis", tmp_path / "cut")
    started = multiprocessing.get_context("spawn").Process(target=_serve, args=paths)
    started.start()
    until = time.monotonic() + 60
    while time.monotonic() < until and not (tmp_path / "cut" / "exchanges" / "0001.json").exists():
        time.sleep(0.002)
    started.kill()
    started.join()
    assert started.exitcode != 0
    assert not (tmp_path / "cut" / "study.model").exists()
    record = run_study(study, sites.transport(), tmp_path / "cut")
    assert record.outcome == "complete"
    first, second = (up.load(tmp_path / name / "study.model") for name in ("whole", "cut"))
    assert np.array_equal(first.coef_, second.coef_)


KILLED = {"kind": "rounds", "rounds": 6, "lam": 1e-3, "secure": True, "id": "the same"}


def _serve(folder, names, basis, place):
    def slowly(site, way, content):
        time.sleep(0.02)
        return content

    study = Study("days", basis, "y", names, 3, 10.0, **KILLED)
    run_study(study, InProcess([Site.from_folder(folder / name) for name in names], slowly), place)


@both
def test_sites_that_were_left_out_before_stay_out_after(sites, tmp_path, secure):
    study = sites.study(kind="rounds", rounds=3, lam=1e-3, secure=secure)
    wire = Wire({("west", "reply", "answer"): nth(0, lost)})
    with pytest.raises(PowerCut):
        run_study(study, sites.transport(wire), tmp_path / "study", progress=cut_after(1))
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert record.outcome == "partial"
    assert record.missing == {"west": [0, 1, 2]}
    assert [one.site for one in record.failures] == ["west"]


def test_a_study_below_its_quorum_goes_on_when_the_sites_are_back(sites, tmp_path):
    study = sites.study(kind="rounds", rounds=3, lam=1e-3, quorum=4, secure=True)
    wire = Wire({("west", "reply", "answer"): nth(1, lost)})
    with pytest.raises(StudyError, match="west: the site did not answer"):
        run_study(study, sites.transport(wire), tmp_path / "study")
    assert StudyRecord.load(tmp_path / "study").outcome == "failed"
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert record.outcome == "complete"
    assert record.missing == {}


@pytest.mark.parametrize(
    "change", [{"rounds": 4}, {"lam": 1e-2}, {"quorum": 4}, {"secure": True}, {"loss": "huber 1.0"}], ids=str
)
def test_a_changed_study_is_not_gone_on_with(sites, tmp_path, change):
    choices = {"kind": "rounds", "rounds": 3, "lam": 1e-3}
    with pytest.raises(PowerCut):
        run_study(sites.study(**choices), sites.transport(), tmp_path / "study", progress=cut_after(1))
    with pytest.raises(StudyError, match=f"differs in {next(iter(change))}"):
        run_study(sites.study(**choices | change), sites.transport(), tmp_path / "study")
    assert run_study(sites.study(**choices, timeout=9.0), sites.transport(), tmp_path / "study").outcome == "complete"


def test_another_basis_is_another_study(sites, tmp_path):
    with pytest.raises(PowerCut):
        run_study(sites.study(), sites.transport(), tmp_path / "study", progress=cut_after(1))
    sites.basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.5), n_features=12).fit(
        sites.rows["east"].select(["a", "b"])
    )
    with pytest.raises(StudyError, match="differs in basis"):
        run_study(sites.study(), sites.transport(), tmp_path / "study")


def test_a_finished_study_is_left_as_it_is(sites, tmp_path):
    study = sites.study(lam=1e-2)
    first = run_study(study, sites.transport(), tmp_path / "study")
    wire = Wire()
    assert run_study(study, sites.transport(wire), tmp_path / "study") == first
    assert wire.seen == []
    (tmp_path / "study" / "study.model").write_bytes(b"not what the record says")
    again = run_study(study, sites.transport(wire), tmp_path / "study")
    assert again.model == first.model
    assert wire.seen == []  # the sums were all there


@pytest.mark.parametrize("broken", ["0001.total", "0001.json"])
def test_a_damaged_exchange_is_noticed(sites, tmp_path, broken):
    study = sites.study(kind="rounds", rounds=3, lam=1e-3)
    with pytest.raises(PowerCut):
        run_study(study, sites.transport(), tmp_path / "study", progress=cut_after(2))
    path = tmp_path / "study" / "exchanges" / broken
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(StudyError, match="does not match|damaged"):
        run_study(study, sites.transport(), tmp_path / "study")
    for name in ("0001.total", "0001.json"):
        (tmp_path / "study" / "exchanges" / name).unlink()
    assert run_study(study, sites.transport(), tmp_path / "study").outcome == "complete"


def test_the_record_says_it_all_and_cannot_be_changed(sites, tmp_path):
    study = sites.study(kind="second-order", lam="loo", secure=True)
    record = run_study(study, sites.transport(), tmp_path / "study")
    found = StudyRecord.load(tmp_path / "study")
    assert found == record
    assert found.study == study.definition()
    assert found.study_digest == study.digest
    assert [one.statistic for one in found.exchanges] == ["sums", "leave-one-out"]
    assert all(one.sent > 0 and one.received > 0 and one.seconds > 0 for one in found.exchanges)
    assert found.sent == sum(one.sent for one in found.exchanges)
    assert found.model["digest"] == models.digest_of(up.load(tmp_path / "study" / "study.model"))
    path = tmp_path / "study" / "record.json"
    content = json.loads(path.read_text())
    for change in ({"outcome": "partial"}, {"missing": {"west": [0]}}, {"sent": 1}, {"digest": "0" * 64}, {"x": 1}):
        path.write_text(json.dumps(content | change))
        with pytest.raises(StudyError, match="was changed|is not the record"):
            StudyRecord.load(tmp_path / "study")


def test_status_of_a_study_under_way_and_done(sites, tmp_path):
    with pytest.raises(StudyError, match="there is no study"):
        read_status(tmp_path)
    shown = []
    study = sites.study(kind="rounds", rounds=3, lam=1e-3)
    run_study(study, sites.transport(), tmp_path / "study", progress=lambda status: shown.append(str(status)))
    last = read_status(tmp_path / "study")
    assert last.state == "done"
    assert (last.done, last.exchanges) == (3, 3)
    assert last.seconds_left == 0.0
    assert set(last.sites) == set(sites.names)
    assert "joining, exchange 0 of 3" in shown[0]
    assert any("asking, exchange 1 of 3" in text and "s left" in text for text in shown)
    wire_bytes = StudyRecord.load(tmp_path / "study")
    assert (last.sent, last.received) == (wire_bytes.sent, wire_bytes.received)


def test_bytes_in_the_record_are_those_on_the_line(sites, tmp_path):
    wire = Wire()
    record = run_study(sites.study(lam="loo", secure=True), sites.transport(wire), tmp_path / "study")
    for way, counted in (("request", record.sent), ("reply", record.received)):
        assert counted == sum(len(content) for _, how, content in wire.seen if how == way)


def test_how_many_exchanges_there_are(sites, tmp_path):
    """One to join; then one a round, and with secure sums one more in which members open what they have sent."""
    for secure in (False, True):
        count = Wire()
        study = sites.study(kind="rounds", rounds=10, lam=1e-3, secure=secure)
        run_study(study, sites.transport(count), tmp_path / str(secure))
        kinds = [
            Message.from_bytes(content).kind for site, way, content in count.seen if way == "request" and site == "east"
        ]
        assert len(kinds) == (21 if secure else 11)
        assert kinds[0] == "join"
