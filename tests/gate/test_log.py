"""The site's log: a chain that shows every change to what it holds, and never loses an entry."""

import itertools
import json
import multiprocessing
import os
import threading

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.gate.releases import FINE, release
from unpooled._base import chain
from unpooled.gate import Log, LogError, describe_refusal, describe_release


@pytest.fixture
def log(tmp_path):
    """Five entries."""
    log = Log(tmp_path / "unpooled.log")
    log.append(describe_release(FINE, "site1.summary", "12" * 32))
    log.append(describe_refusal(release(n_rows=3), ["there are 3 rows, but at least 20 must be added up"]))
    for i in range(3):
        log.append({"what": "note", "Zürich": [i, 0.1, None, True, "a\nb"]})
    return log


def lines_of(log):
    return log.path.read_bytes().splitlines(keepends=True)


def test_entries_come_back_as_they_went_in(log):
    entries = log.entries()
    assert [entry.sequence for entry in entries] == list(range(5))
    assert entries[0].previous == "0" * 64
    assert all(b.previous == a.sha256 for a, b in itertools.pairwise(entries))
    assert entries[1].event["reasons"] == ["there are 3 rows, but at least 20 must be added up"]
    assert entries[4].event == {"what": "note", "Zürich": [2, 0.1, None, True, "a\nb"]}
    assert all(entry.time.endswith("+00:00") for entry in entries)
    assert log.append({}) == log.entries()[5]
    assert len(lines_of(log)) == 6


def test_a_whole_log_is_found_whole(log):
    checked = log.verify()
    assert checked.ok
    assert (checked.count, checked.head) == (5, log.entries()[-1].sha256)
    assert checked.head in str(checked)


def test_only_what_left_counts_as_released(log):
    assert log.releases() == [FINE]
    log.append(describe_release(release(n_rows=300, private={"epsilon": 0.5}), "site1.summary", "34" * 32))
    assert [found.n_rows for found in log.releases()] == [100, 300]


def test_an_entry_that_does_not_say_what_left_is_an_error(log):
    log.append({"what": "left", "release": {"n_rows": 3}})
    with pytest.raises(LogError, match="entry 5 of .* does not describe a release"):
        log.releases()


def test_where_there_is_no_log_nothing_has_left(tmp_path):
    log = Log(tmp_path / "unpooled.log")
    assert log.entries() == log.releases() == []
    assert not log.path.exists()
    assert "there is no log" in str(log.verify())


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_edited_byte_is_found(log, data):
    whole = log.path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    try:
        log.path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
        checked = log.verify()
        assert not checked.ok
        assert checked.line in (whole[:place].count(b"\n") + 1, whole[:place].count(b"\n") + 2)
        with pytest.raises(LogError, match="nothing is added to a damaged log"):
            log.append({})
        with pytest.raises(LogError):
            log.entries()
    finally:
        log.path.write_bytes(whole)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 4000), length=st.integers(0, 300), new=st.binary(max_size=40))
def test_any_splice_is_found_unless_it_cuts_whole_lines_off_the_end(log, start, length, new):
    whole = log.path.read_bytes()
    start = min(start, len(whole))
    spliced = whole[:start] + new + whole[start + length :]
    assume(not whole.startswith(spliced) or (spliced and not spliced.endswith(b"\n")))
    try:
        log.path.write_bytes(spliced)
        assert not log.verify().ok
    finally:
        log.path.write_bytes(whole)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.lists(st.integers(0, 4), max_size=7))
def test_lines_deleted_inserted_copied_or_moved_are_found(log, order):
    whole = lines_of(log)
    assume(order != list(range(len(order))))
    try:
        log.path.write_bytes(b"".join(whole[i] for i in order))
        checked = log.verify()
        assert not checked.ok
        assert str(checked).startswith(f"line {checked.line} of {log.path} has the number")
    finally:
        log.path.write_bytes(b"".join(whole))


def test_an_entry_forged_with_its_own_hash_breaks_the_next_link(log):
    whole = lines_of(log)
    content = json.loads(whole[2])
    forged = chain._entry(2, content["time"], content["previous"], {"what": "nothing"})
    whole[2] = chain.encode_canonical(chain.asdict(forged)) + b"\n"
    log.path.write_bytes(b"".join(whole))
    checked = log.verify()
    assert (checked.line, checked.count) == (4, 3)
    assert "does not follow from the line before" in str(checked)


def test_the_same_written_in_another_way_is_a_change(log):
    whole = lines_of(log)
    whole[1] = json.dumps(json.loads(whole[1])).encode() + b"\n"
    log.path.write_bytes(b"".join(whole))
    assert "line 2 of" in str(log.verify())


def test_a_log_cut_off_is_found_by_the_head_or_the_number_that_was_noted(log):
    noted = log.verify()
    log.append({"what": "more"})
    for expected in ({"expected_head": noted.head}, {"expected_count": noted.count}):
        assert log.verify(**expected).ok
    assert log.verify(noted.head, noted.count).ok
    log.path.write_bytes(b"".join(lines_of(log)[:4]))
    assert log.verify().ok, "the file alone does not show it"
    assert "lacks the head that was noted" in str(log.verify(noted.head))
    assert "has 4 entries, but 5 were noted: its end was cut off" in str(log.verify(expected_count=5))
    for _ in range(3):
        log.append({"what": "covering up"})
    assert log.verify(expected_count=5).ok
    assert not log.verify(noted.head, 5).ok
    assert not log.verify(log.entries()[3].sha256, 5).ok, "the head of another place"


@pytest.mark.parametrize("kept", [1, 100, -1])
def test_a_line_half_written_is_an_error_that_says_so(log, kept):
    whole = lines_of(log)
    log.path.write_bytes(b"".join(whole[:4]) + whole[4][:kept])
    for use in (lambda: log.append({}), log.entries, log.releases):
        with pytest.raises(LogError, match="line 5 of .* is incomplete, as after a power cut"):
            use()
    checked = log.verify()
    assert (checked.ok, checked.line, checked.count) == (False, 5, 4)
    log.path.write_bytes(b"".join(whole[:4]))
    assert log.append({}).sequence == 4


def test_a_line_that_does_not_fit_on_the_disk_is_taken_back(log, monkeypatch):
    whole, write = log.path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda file, line: write(file, line[:10]))
    with pytest.raises(LogError, match="cannot be written .*: nothing may leave without it"):
        log.append({})
    assert log.path.read_bytes() == whole


@pytest.mark.parametrize("event", [{"a": float("nan")}, {"a": object()}, {"a": b"bytes"}, {1: 1, "1": 1}])
def test_events_are_made_of_json(log, event):
    with pytest.raises(LogError, match="event must contain only what JSON can hold"):
        log.append(event)
    assert log.verify().count == 5


def test_a_log_that_cannot_be_opened(tmp_path):
    with pytest.raises(LogError, match="cannot be opened"):
        Log(tmp_path / "nowhere" / "unpooled.log").append({})
    with pytest.raises(LogError, match="cannot be opened"):
        Log(tmp_path).append({})
    with pytest.raises(LogError, match="cannot be read|cannot be opened"):
        Log(tmp_path).entries()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.binary(max_size=200), st.just(b"[" * 100_000 + b"\n"), st.just(b"1" * 5000 + b"\n")))
def test_any_other_file_is_not_a_log_and_never_a_crash(tmp_path, text):
    path = tmp_path / "unpooled.log"
    path.write_bytes(text)
    assert Log(path).verify().ok == (text == b"")


def test_only_lines_that_were_added_since_are_taken_apart_again(log, monkeypatch):
    taken = []
    whole = chain._entry_of
    monkeypatch.setattr(chain, "_entry_of", lambda line, *place: (taken.append(line), whole(line, *place))[1])
    for _ in range(3):
        log.entries()
        log.append({"what": "note"})
    assert taken == []
    Log(log.path).append({"what": "another program has added this"})
    taken.clear()
    assert len(log.entries()) == 9
    assert len(taken) == 1
    assert log.verify().count == 9
    assert len(taken) == 10, "a check on request takes nothing for granted"


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_log_that_was_read_before_is_judged_as_if_it_had_not_been(log, data):
    """Whatever takes its place between two looks, with the size and the times of the file that was there."""
    whole = log.path.read_bytes()
    log.entries()
    lines = whole.splitlines(keepends=True)
    change = data.draw(st.sampled_from(["byte", "lines", "cut", "file"]))
    if change == "byte":
        place = data.draw(st.integers(0, len(whole) - 1))
        other = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    elif change == "lines":
        other = b"".join(lines[i] for i in data.draw(st.lists(st.integers(0, 4), max_size=6)))
    elif change == "cut":
        other = whole[: data.draw(st.integers(0, len(whole)))]
    else:
        other = b"".join(lines).replace(b"site1", b"site2")
    times = os.stat(log.path)
    new = log.path.with_suffix(".new")
    new.write_bytes(other)
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(new, log.path)
    try:
        fresh = Log(log.path)
        assert log.verify() == fresh.verify()
        if fresh.verify().ok:
            assert log.entries() == fresh.entries()
        else:
            for used in (log.entries, lambda: log.append({})):
                with pytest.raises(LogError, match="line"):
                    used()
            assert log.path.read_bytes() == other
    finally:
        log.path.write_bytes(whole)


def _append_many(path, name, n):
    log = Log(path)
    for i in range(n):
        log.append({"who": name, "what": i})


def test_two_processes_at_once_leave_one_chain(tmp_path):
    path = tmp_path / "unpooled.log"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_many, args=(path, name, 200)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert (Log(path).verify().ok, Log(path).verify().count) == (True, 400)
    for name in "ab":
        assert [e.event["what"] for e in Log(path).entries() if e.event["who"] == name] == list(range(200))


def test_threads_at_once_leave_one_chain(tmp_path):
    path = tmp_path / "unpooled.log"
    writers = [threading.Thread(target=_append_many, args=(path, name, 30)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert Log(path).verify().count == len(Log(path).entries()) == 90
