"""After any fault of a site or a message the site is named, the others go on if they can, and no result is wrong.

Tests `federation/server/server.py`.
"""

import shutil
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unpooled as up
from tests.cases.federation import Consortium, Wire, damaged, lost, nth, rewritten
from unpooled._base import files
from unpooled.federation import LostMessage, Message, StudyError, StudyRecord, read_status, run_study
from unpooled.federation.secure.keys import Attempt, Identity, Offer, SingleUseKeys, SiteStore
from unpooled.federation.site.statistics import Sums
from unpooled.federation.wire.transport import as_array
from unpooled.summaries.passes import Functions

both = pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])


@pytest.fixture
def sites(tmp_path):
    return Consortium(tmp_path / "sites")


def of_others(sites, *names):
    """The model of the pooled rows of these sites."""
    pooled = up.Summary.of(sites.basis, sites.table(*names).to_pandas(), "y", order=2)
    return up.SummaryRegressor(lam=1e-3, fit_intercept=True).fit_summary(pooled)


def check_partial(sites, folder, record, failed, reason):
    """Named, left out, said to be partial, and the model is that of the others."""
    assert record.outcome == "partial"
    assert record.missing == {failed: [0]}
    assert [one.site for one in record.failures] == [failed]
    assert reason in record.failures[0].reason
    assert failed not in record.exchanges[0].members
    others = [name for name in sites.names if name != failed]
    model, twin = up.load(folder / "study.model"), of_others(sites, *others)
    assert model.summary_.n_rows == sites.table(*others).num_rows
    assert np.max(np.abs(model.coef_ - twin.coef_)) < 2.0**-40 * np.max(np.abs(twin.coef_))
    assert StudyRecord.load(folder).outcome == read_status(folder).state == "partial"


def spoiled(message):
    """Numbers that are none, in a message and a file whose hashes are right."""
    if "words" in message.arrays:
        return Message(message.kind, message.header, {"words": np.full(message.arrays["words"].shape, np.nan)})
    header, arrays = files.from_bytes(message.file("file"), "the summary")
    arrays["phi_y"] = np.full_like(arrays["phi_y"], np.nan)
    kept = {name: value for name, value in header.items() if name not in ("format", "kind", "unpooled")}
    return Message(message.kind, message.header, {"file": as_array(files.to_bytes("summary", kept, arrays))})


def shorter(message):
    if "words" in message.arrays:
        return Message(message.kind, message.header, {"words": message.arrays["words"][:-1]})
    return Message(message.kind, message.header, {"file": message.arrays["file"][:-8]})


FAULTS = {
    "killed before it joins": (("request", "join"), lost, "did not answer"),
    "killed before its reply": (("request", "ask"), lost, "did not answer"),
    "killed during its reply": (("reply", "answer"), lost, "did not answer"),
    "damaged reply": (("reply", "answer"), damaged, "damaged on its way"),
    "damaged request": (("request", "ask"), damaged, "damaged on its way"),
    "wrong digest of the study": (
        ("reply", "answer"),
        rewritten(lambda m: Message(m.kind, m.header | {"study": "0" * 64}, m.arrays)),
        "digest of the study",
    ),
    "wrong digest of the statistic": (
        ("reply", "answer"),
        rewritten(lambda m: Message(m.kind, m.header | {"statistic": "0" * 64}, m.arrays)),
        "digest of the statistic",
    ),
    "not a number": (("reply", "answer"), rewritten(spoiled), ""),
    "wrong shape": (("reply", "answer"), rewritten(shorter), ""),
    "another kind of message": (("reply", "answer"), rewritten(lambda m: Message("hello", m.header)), "not an answer"),
    "an empty answer": (("reply", "answer"), rewritten(lambda m: Message("answer", m.header)), ""),
}


@both
@pytest.mark.parametrize("fault", FAULTS)
def test_a_site_that_fails_is_named_and_left_out(sites, tmp_path, secure, fault):
    (way, kind), what, reason = FAULTS[fault]
    wire = Wire({("north", way, kind): what})
    study = sites.study(kind="second-order", lam=1e-3, secure=secure)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    check_partial(sites, tmp_path / "study", record, "north", reason)


@both
def test_a_late_site_is_left_out_after_the_timeout_and_not_much_later(sites, tmp_path, secure):
    over = threading.Event()

    def late(content):
        over.wait(30)
        raise LostMessage("too late to be heard")

    wire = Wire({("north", "request", "ask"): late})
    study = sites.study(kind="second-order", lam=1e-3, secure=secure, timeout=2.0)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    over.set()
    assert 2.0 <= record.failures[0].seconds < 20.0
    check_partial(sites, tmp_path / "study", record, "north", "no answer within 2 s")


def test_a_site_that_dies_after_its_masked_reply_is_in_the_sum(sites, tmp_path):
    """The sum includes its numbers, and the other sites can open the locks without it."""
    wire = Wire({("north", "request", "open"): lost})
    study = sites.study(kind="second-order", lam=1e-3, secure=True)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    assert record.outcome == "complete"
    assert record.exchanges[0].n_rows == sites.pooled.num_rows


def test_two_sites_that_die_after_their_masked_replies_end_the_study(sites, tmp_path):
    wire = Wire({(name, "request", "open"): lost for name in ("north", "west")})
    study = sites.study(kind="second-order", lam=1e-3, secure=True)
    with pytest.raises(StudyError, match="must open its locks"):
        run_study(study, sites.transport(wire), tmp_path / "study")
    assert not (tmp_path / "study" / "study.model").exists()


@both
def test_below_the_quorum_nothing_is_written_as_a_model(sites, tmp_path, secure):
    wire = Wire({("north", "reply", "answer"): lost, ("west", "reply", "answer"): damaged})
    study = sites.study(kind="second-order", secure=secure)
    with pytest.raises(StudyError, match="quorum is 3") as error:
        run_study(study, sites.transport(wire), tmp_path / "study")
    assert "north: the site did not answer" in str(error.value)
    assert "west: the message was damaged" in str(error.value)
    assert not (tmp_path / "study" / "study.model").exists()
    record = StudyRecord.load(tmp_path / "study")
    assert record.outcome == "failed"
    assert record.model is None
    assert {one.site for one in record.failures} == {"north", "west"}
    assert read_status(tmp_path / "study").state == "failed"


@both
def test_a_restarted_site_goes_on(sites, tmp_path, secure):
    """Between two rounds every site is restarted: nobody notices."""
    study = sites.study(kind="rounds", rounds=3, lam=1e-3, secure=secure)

    def restarting(site, way, content):
        if way == "request":
            sites.restart(site)
        return content

    record = run_study(study, sites.transport(restarting), tmp_path / "study")
    assert record.outcome == "complete"


@both
def test_a_site_that_has_lost_its_folder_joins_again(sites, tmp_path, secure):
    def forgetful(content):
        (sites.folder / "north" / "studies" / f"{study.digest}.study").unlink()
        sites.restart("north")
        return content

    wire = Wire({("north", "request", "ask"): nth(1, forgetful)})
    study = sites.study(kind="rounds", rounds=3, lam=1e-3, secure=secure)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    assert record.outcome == "complete"
    assert [len(one.attempts) for one in record.exchanges] == [1, 2, 1]


def test_a_site_whose_single_use_keys_are_gone_takes_part_again_with_fresh_ones(sites, tmp_path):
    def stolen(content):
        shutil.rmtree(sites.folder / "north" / "keys")
        sites.restart("north")
        return content

    wire = Wire({("north", "request", "ask"): nth(1, stolen)})
    study = sites.study(kind="rounds", rounds=3, lam=1e-3, secure=True)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    # It cannot answer that attempt, says so, and is left out: its key for the attempt is nowhere.
    assert record.outcome == "partial"
    assert record.missing == {"north": [1, 2]}
    assert "has no key for attempt" in record.failures[0].reason


def test_a_site_with_another_key_than_the_pinned_one_is_left_out(sites, tmp_path):
    sites.reconfigure("north", identity=Identity.create(tmp_path / "other.key"))
    study = sites.study(kind="second-order", lam=1e-3, secure=True)
    record = run_study(study, sites.transport(), tmp_path / "study")
    check_partial(sites, tmp_path / "study", record, "north", "not signed with the key that is pinned")


def test_a_server_that_puts_its_own_key_in_place_of_a_sites_gets_nothing(sites, tmp_path):
    """The server signs with its own identity, and the sites refuse before they use their keys or read their rows."""
    own = Identity.create(tmp_path / "server.key")

    def replaced(message):
        offers = []
        for content in message.header["offers"]:
            offer = Offer.from_dict(content)
            if offer.site == "north":
                offer = SingleUseKeys(SiteStore()).offer(own, "north", Attempt(**content["attempt"]))
            offers.append(offer.to_dict())
        return Message(message.kind, message.header | {"offers": offers}, message.arrays)

    faults = {(name, "request", "ask"): rewritten(replaced) for name in sites.names}
    with pytest.raises(StudyError):
        run_study(sites.study(quorum=4, secure=True), sites.transport(Wire(faults)), tmp_path / "study")
    for name in ("east", "south", "west"):
        assert sites.left(name) == []


def test_members_who_were_told_different_things_give_no_sum(sites, tmp_path):
    """One site is asked a little else than the others: its digest of the question makes the masks not cancel."""

    def other(message):
        M = sites.basis.n_features_
        statistic = Sums(study, 1, Functions(np.ones((M, 1)), np.zeros(1)), "squared", 1)
        about, arrays = statistic.to_parts()
        return Message("ask", message.header | {"about": about, "digest": statistic.digest}, arrays)

    wire = Wire({("north", "request", "ask"): nth(1, rewritten(other))})
    study = sites.study(kind="rounds", rounds=2, lam=1e-3, secure=True)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    assert "digest of the statistic" in record.failures[0].reason


def test_changed_masked_words_are_noticed_though_nobody_can_be_named(sites, tmp_path):
    def nudged(message):
        words = message.arrays["words"].copy()
        words[3, 0] += np.uint64(1)
        return Message(message.kind, message.header, {"words": words})

    always = Wire({("north", "reply", "answer"): rewritten(nudged)})
    with pytest.raises(StudyError, match="masks do not cancel"):
        run_study(sites.study(secure=True), sites.transport(always), tmp_path / "always")
    assert not (tmp_path / "always" / "study.model").exists()
    once = Wire({("north", "reply", "answer"): nth(0, rewritten(nudged))})
    record = run_study(sites.study(secure=True), sites.transport(once), tmp_path / "once")
    assert record.outcome == "complete"
    assert len(record.exchanges[0].attempts) == 2


@both
def test_a_site_that_fails_in_a_later_round_is_missing_from_then_on(sites, tmp_path, secure):
    wire = Wire({("west", "reply", "answer"): nth(2, lost)})
    study = sites.study(kind="rounds", rounds=4, lam=1e-3, secure=secure)
    record = run_study(study, sites.transport(wire), tmp_path / "study")
    assert record.missing == {"west": [2, 3]}
    assert [len(one.members) for one in record.exchanges] == [4, 4, 3, 3]
    assert [len(one.attempts) for one in record.exchanges] == [1, 1, 2 if secure else 1, 1]


@both
def test_a_steady_study_ends_where_a_site_is_lost_after_the_first_sum(sites, tmp_path, secure):
    """Two sums that differ by one site tell that site's: whoever minds says so, and else the record says it."""
    choices = {"kind": "rounds", "rounds": 3, "lam": 1e-3, "secure": secure}
    later = Wire({("west", "reply", "answer"): nth(1, lost)})
    with pytest.raises(StudyError, match="the study is to keep 4: west"):
        run_study(sites.study(steady=True, **choices), sites.transport(later), tmp_path / "later")
    first = Wire({("west", "reply", "answer"): nth(0, lost)})
    record = run_study(sites.study(steady=True, **choices), sites.transport(first), tmp_path / "first")
    assert record.missing == {"west": [0, 1, 2]}
    assert not any("follow from the difference" in note for note in record.notes)
    later = Wire({("west", "reply", "answer"): nth(1, lost)})
    record = run_study(sites.study(**choices), sites.transport(later), tmp_path / "not steady")
    assert any("follow from the difference" in note for note in record.notes) == secure
    totals = [up.Summary.load(tmp_path / "not steady" / "exchanges" / f"000{i}.total") for i in (0, 1)]
    assert totals[0].n_rows - totals[1].n_rows == sites.rows["west"].num_rows  # as the note says


def test_an_answer_to_an_attempt_that_is_over_is_not_taken(sites, tmp_path):
    old = rewritten(lambda m: Message(m.kind, m.header | {"attempt": {"round": 0, "name": "before"}}, m.arrays))
    wire = Wire({("north", "reply", "answer"): old})
    record = run_study(sites.study(kind="second-order", lam=1e-3), sites.transport(wire), tmp_path / "study")
    check_partial(sites, tmp_path / "study", record, "north", "an attempt that is over")


def test_a_site_nobody_can_reach_is_a_failure_of_the_transport(sites, tmp_path):
    study = sites.study(members=(*sites.names, "moon"), quorum=4, kind="less", lam=1e-2)
    record = run_study(study, sites.transport(), tmp_path / "study")
    assert record.missing == {"moon": [0]}
    assert "no such site" in record.failures[0].reason


def test_data_that_break_a_sum_are_a_refusal_that_tells_nothing_of_them(sites, tmp_path):
    """NaN in a site's rows: the server learns that the site could not answer, the site's log which column it is."""
    rows = sites.rows["north"].to_pandas()
    rows.loc[7, "y"] = np.nan
    pq.write_table(pa.Table.from_pandas(rows), sites.folder / "north" / "rows.parquet")
    wire = Wire()
    record = run_study(sites.study(kind="less", lam=1e-2, secure=True), sites.transport(wire), tmp_path / "study")
    (failure,) = record.failures
    assert failure.reason == "it refuses: this site could not compute the answer; its log says why"
    assert "'y'" in sites.said("north")[-1]["detail"]
