"""A site that is killed anywhere while it answers by file sends two different answers under one key in no case.

The site is killed before, or just after, each of its writes. It then starts again with what is on disk, and is asked
the same question, with other noise. `federation/by_file/site.py` is what is tested.
"""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("cryptography")

from tests.federation.by_file_cases import FileStudy
from unpooled.federation.by_file import Answer, StaleKeyError, gather
from unpooled.federation.secure.fixed_point import from_whole_numbers, to_whole_numbers
from unpooled.federation.secure.keys import SiteStore
from unpooled.gate import Log
from unpooled.privacy import WeightedSums

WRITES = ("write", "claim", "remove")


class Killed(Exception):
    """The end of the process."""


def kill_at(monkeypatch, n, when):
    """Kill the process at the n-th write, and return the writes that were made."""
    made = []

    def wrap(owner, name):
        honest = getattr(owner, name)

        def write(self, *args, **named):
            if len(made) == n and when == "before":
                raise Killed
            made.append(name)
            result = honest(self, *args, **named)
            if len(made) == n + 1 and when == "after":
                raise Killed
            return result

        monkeypatch.setattr(owner, name, write)

    for name in WRITES:
        wrap(SiteStore, name)
    wrap(Log, "append")
    return made


def count_writes(folder):
    """How many writes one answer takes."""
    study = FileStudy(folder)
    question = study.question()
    with pytest.MonkeyPatch.context() as patch:
        made = kill_at(patch, 10**6, "before")
        study.answer("north", question)
    return len(made)


def test_an_answer_takes_a_few_writes(tmp_path):
    assert 5 <= count_writes(tmp_path) <= 10


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(8))
def test_a_site_killed_at_any_write_has_at_most_one_answer_under_a_key(tmp_path, n, when):
    study = FileStudy(tmp_path)
    question = study.question()
    place = tmp_path / "north" / "keys" / f"{question.digest}.answer"
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, n, when)
        with suppress(Killed):
            study.answer("north", question)
    left = place.read_bytes() if place.exists() else None
    study.sites["north"] = study.site("north")
    study.numbers["north"] = study.numbers["north"] + 7
    logged = [entry.event["sha256"] for entry in study.sites["north"].log.entries()]
    try:
        again = study.answer("north", question).read_bytes()
    except StaleKeyError:
        assert left is None  # the key is spent, and nothing of the first attempt has left
    else:
        assert left in (None, again)
        # An answer with the other numbers comes only if there never was a first one.
        assert left is not None or not logged
    assert not (tmp_path / "north" / "keys" / f"once-{question.member('north').key}.key").exists()
    assert len({entry.event["sha256"] for entry in study.sites["north"].log.entries()}) <= 1
    # In any case the study goes on: with the next key of the answer, or with a new enrolment.
    others = gather(question, study.answers(question, ["east", "south", "west"]))
    keys = {**others.keys, "north": Answer.load(place).next if place.exists() else study.sites["north"].enrol()}
    following = question.following(list(keys.values()), size=8, price=0.1, content={})
    following = following.sign(study.identities["coordinator"])
    paths = study.answers(following, place="following")
    assert np.array_equal(gather(following, paths).total(), sum(study.numbers.values()))


def test_two_processes_that_answer_at_once_send_one_answer(tmp_path):
    study = FileStudy(tmp_path)
    question = study.question()
    together = threading.Barrier(4)

    def answer(number):
        def compute(question):
            together.wait()
            return study.numbers["north"] + number

        try:
            return study.site("north").answer(question, compute)
        except StaleKeyError:
            return None

    with ThreadPoolExecutor(4) as pool:
        contents = set(pool.map(answer, range(4))) - {None}
    assert len(contents) == 1


def test_noised_sums_on_a_grid_come_out_of_masked_files_to_the_bit(tmp_path):
    weighted, grid = WeightedSums(6, kappa=1.3, label_bound=7.1, order=2, means=0.25, squares=True), 2.0**-20
    study = FileStudy(tmp_path, size=weighted.size)
    rng = np.random.default_rng(0)
    sums = {name: weighted.unpack(rng.integers(-(2**45), 2**45, weighted.size) * grid) for name in study.names}
    study.numbers = {name: to_whole_numbers(sums[name], weighted, grid) for name in study.names}
    question = study.question()
    total = gather(question, study.answers(question)).total()
    together = from_whole_numbers(total, weighted, grid)
    exact = weighted.unpack(sum(study.numbers.values()) * grid)
    assert all(np.array_equal(together[name], exact[name]) for name in exact)


def test_a_backup_made_between_two_answers_does_not_bring_a_used_key_back(tmp_path):
    """Every state of the folder that a backup could have caught gives the same answer, or none."""
    study = FileStudy(tmp_path)
    question = study.question()
    backups = []
    with pytest.MonkeyPatch.context() as patch:
        for name in WRITES:
            honest = getattr(SiteStore, name)

            def write(self, *args, honest=honest):
                result = honest(self, *args)
                backups.append(tmp_path / f"backup {len(backups)}")
                shutil.copytree(tmp_path / "north", backups[-1])
                return result

            patch.setattr(SiteStore, name, write)
        sent = study.answer("north", question).read_bytes()
    study.numbers["north"] = study.numbers["north"] + 7
    assert len(backups) >= 5
    for backup in backups:
        shutil.rmtree(tmp_path / "north")
        shutil.copytree(backup, tmp_path / "north")
        study.sites["north"] = study.site("north")
        try:
            assert study.answer("north", question).read_bytes() == sent
        except StaleKeyError as error:
            assert "new enrolment file" in str(error)
