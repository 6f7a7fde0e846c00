"""The way out for a summary in Python: the policy judges the bytes that leave, and the log has its entry first."""

import dataclasses
import hashlib
import os

import numpy as np
import pytest

import unpooled as up
from tests.made_up import CUBE, regression, sine
from unpooled._base.files import FileError
from unpooled.gate import POLICY_NAME, Log, LogError, Policy, PolicyError, Refused, label_share, release
from unpooled.gate.gate import LOG_NAME

X, Y = regression(3, 200, between=CUBE, function=sine(3, slope=0.5))
BASIS = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 8).fit(X[:60])
SHARE = label_share(Y)


def of(n=200, order=1):
    return up.Summary.of(BASIS, X[:n], Y[:n], order=order)


@pytest.fixture
def site(tmp_path):
    """A site's folder with the default policy, and a folder that others see."""
    for name in ("site", "shared"):
        (tmp_path / name).mkdir()
    Policy.write_template(tmp_path / "site" / POLICY_NAME)
    return tmp_path / "site"


@pytest.fixture
def place(tmp_path, site):
    return tmp_path / "shared" / "north.summary"


def log_of(site):
    return [entry.event["what"] for entry in Log(site / LOG_NAME).entries()]


def assert_kept(site, place, before=None):
    """Nothing has left, and no part of a file is about."""
    assert (place.read_bytes() if place.exists() else None) == before
    assert {path.name for path in place.parent.iterdir()} <= {place.name}
    assert {path.name for path in site.iterdir()} <= {POLICY_NAME, LOG_NAME, "other.jsonl"}


def test_what_keeps_the_rules_leaves_as_the_command_line_lets_it(site, place):
    seen = []
    entry = release(of(), place, policy=site / POLICY_NAME, label_share=SHARE, show=seen.append)
    assert entry == Log(site / LOG_NAME).entries()[-1]
    assert entry.event["sha256"] == hashlib.sha256(place.read_bytes()).hexdigest()
    assert (entry.event["file"], entry.event["what"]) == (str(place), "left")
    assert [facts.to_dict() for facts in seen] == [entry.event["release"]]
    assert np.array_equal(up.Summary.load(place).label_sum, of().label_sum)
    assert up.gate.release is release


def test_three_rows_do_not_leave_and_the_log_says_why(site, place):
    with pytest.raises(Refused, match="there are 3 rows, but at least 20 must be added up") as caught:
        release(of(3, order=2), place, policy=site, label_share=0.1)
    assert any("turned back into the rows" in reason for reason in caught.value.reasons)
    assert log_of(site) == ["refused"]
    assert_kept(site, place)


def test_a_file_that_was_there_stays_after_a_refusal_and_is_replaced_by_what_may_leave(site, place):
    place.write_bytes(b"before")
    with pytest.raises(Refused):
        release(of(10), place, policy=site, label_share=SHARE)
    assert_kept(site, place, b"before")
    release(of(), place, policy=site, label_share=SHARE)
    assert up.Summary.load(place).n_rows == 200


def test_a_link_is_replaced_and_what_it_points_to_is_left_alone(site, place, tmp_path):
    (tmp_path / "theirs").write_bytes(b"theirs")
    place.symlink_to(tmp_path / "theirs")
    release(of(), place, policy=site, label_share=SHARE)
    assert not place.is_symlink()
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


@pytest.mark.parametrize("name", [LOG_NAME, POLICY_NAME])
@pytest.mark.parametrize("how", ["itself", "a link", "a hard link", "another way"])
def test_neither_log_nor_policy_is_written_over(site, place, name, how):
    release(of(), place, policy=site, label_share=SHARE)
    target = before = site / name
    content = before.read_bytes()
    if how == "another way":
        target = site / ".." / "site" / name
    elif how != "itself":
        target = place.with_name("link")
        (target.symlink_to if how == "a link" else target.hardlink_to)(before)
    with pytest.raises(ValueError, match="of this site and would be overwritten: choose another name"):
        release(of(), target, policy=site, label_share=SHARE)
    assert before.read_bytes() == content
    assert log_of(site) == ["left"]


def test_a_log_that_does_not_exist_yet_is_not_written_over_either(site):
    with pytest.raises(ValueError, match="is the log of this site"):
        release(of(), site / LOG_NAME, policy=site, label_share=SHARE)
    assert not (site / LOG_NAME).exists()


def test_a_folder_is_no_place_for_a_file_and_is_found_before_the_log_says_anything(site, place):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        release(of(), place.parent, policy=site, label_share=SHARE)
    with pytest.raises(FileNotFoundError, match="cannot be written"):
        release(of(), place.parent / "nowhere" / "a", policy=site, label_share=SHARE)
    assert log_of(site) == []


def test_no_policy_is_found_by_accident(site, place, tmp_path, monkeypatch):
    """Neither in the folder that is written to, nor where Python was started, nor by leaving it out."""
    for folder in (place.parent, tmp_path):
        (folder / POLICY_NAME).write_text("minimum_rows = 1\nmax_label_share = 1.0\nmax_features_per_row = 100\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match="policy"):
        release(of(3), place, label_share=0.1)
    (tmp_path / "elsewhere").mkdir()
    for nowhere in (tmp_path / "elsewhere", tmp_path / "nowhere.toml"):
        with pytest.raises(PolicyError, match="nothing leaves without it"):
            release(of(3), place, policy=nowhere, label_share=0.1)
    with pytest.raises(Refused):
        release(of(3), place, policy=site, label_share=0.1)
    assert not place.exists()


def test_a_policy_of_another_folder_has_its_own_log_unless_the_log_is_named(site, place, tmp_path):
    """Whoever judges by another policy names the log of the site, and so what has left before still counts."""
    release(of(), place, policy=site, label_share=SHARE)
    Policy.write_template(tmp_path / POLICY_NAME)
    with pytest.raises(Refused, match="the difference would reveal 1 record"):
        release(of(199), place, policy=tmp_path, log=site / LOG_NAME, label_share=SHARE)
    assert log_of(site) == ["left", "refused"]
    with pytest.raises(ValueError, match="log must be the site's log"):
        release(of(), place, policy=Policy.default(), label_share=SHARE)
    release(of(), place, policy=Policy.default(), log=Log(site / "other.jsonl"), label_share=SHARE)


def test_a_policy_that_cannot_be_read_lets_nothing_leave(site, place):
    (site / POLICY_NAME).write_text("minimum_rows = 'many'\n")
    with pytest.raises(PolicyError, match="minimum_rows must be a whole number"):
        release(of(), place, policy=site, label_share=SHARE)
    assert_kept(site, place)


@pytest.mark.parametrize("share", [float("nan"), -1.0, 2.0, "small"])
def test_the_share_of_a_record_must_be_known(site, place, share):
    of().save(site / "loaded.summary")
    with pytest.raises(ValueError, match="label_share must be given for a summary that was loaded"):
        release(up.Summary.load(site / "loaded.summary"), place, policy=site)
    (site / "loaded.summary").unlink()
    with pytest.raises(Refused, match="the largest share of one record in the labels is not known"):
        release(of(), place, policy=site, label_share=share)
    with pytest.raises(Refused, match="one record has 50% of the total"):
        release(of(), place, policy=site, label_share=0.5)
    assert_kept(site, place)


def test_a_summary_of_rows_knows_the_share_itself(site, place):
    entry = release(of(), place, policy=site)
    assert entry.event["release"]["largest_label_share"] == pytest.approx(SHARE, rel=1e-12)
    one = Y[:200].copy()
    one[7] = 1e6
    with pytest.raises(Refused, match="one record has"):
        release(up.Summary.of(BASIS, X[:200], one), place, policy=site)


def test_noise_makes_the_share_not_count(site, place):
    pytest.importorskip("opendp")
    noisy = up.Summary.of(BASIS, X, Y, privacy=up.privacy.PrivacyRequest(1.0, 1e-6, label_bound=3.0))
    entry = release(noisy, place, policy=site)
    assert entry.event["release"]["largest_label_share"] == 0.0
    assert entry.event["release"]["private"]["epsilon"] == 1.0


@pytest.mark.parametrize("moment", ["show", "approve"])
def test_a_summary_that_is_changed_while_it_is_judged_leaves_as_it_was_judged(site, place, moment):
    (site / POLICY_NAME).write_text('approve = "ask"\n')
    summary, expected = of(), of().label_sum.copy()

    def change(_):
        summary.sums["y"].high[:] = 12345.0
        object.__setattr__(summary, "n_rows", 1)
        return True

    how = {"approve": lambda _: True, moment: change}
    release(summary, place, policy=site, label_share=SHARE, **how)
    left = up.Summary.load(place)
    assert np.array_equal(left.label_sum, expected)
    assert left.n_rows == 200


def test_the_facts_are_those_of_the_bytes_and_not_of_an_object_that_says_otherwise(site, place):
    class Boasting(up.Summary):
        def __repr__(self):
            return "a summary of a million rows"

        def save(self, path):
            of(3).save(path)

    boasting = Boasting(**{field.name: getattr(of(), field.name) for field in dataclasses.fields(up.Summary)})
    with pytest.raises(Refused, match="there are 3 rows"):
        release(boasting, place, policy=site, label_share=SHARE)
    broken = of()
    broken.sums["y"].high[:] = np.nan
    with pytest.raises(FileError, match="does not hold a complete summary"):
        release(broken, place, policy=site, label_share=SHARE)
    with pytest.raises(ValueError, match=r"summary must be an up\.Summary"):
        release(BASIS, place, policy=site, label_share=SHARE)
    assert_kept(site, place)


def test_a_log_that_cannot_be_written_or_is_not_whole_keeps_the_file_here(site, place):
    (site / LOG_NAME).mkdir()
    with pytest.raises(LogError):
        release(of(), place, policy=site, label_share=SHARE)
    (site / LOG_NAME).rmdir()
    (site / LOG_NAME).write_text("not a log\n")
    with pytest.raises(LogError):
        release(of(), place, policy=site, label_share=SHARE)
    assert not place.exists()


def test_ctrl_c_between_log_and_file_leaves_an_entry_and_no_file(site, place, monkeypatch):
    place.write_bytes(b"before")

    replace = os.replace

    def stopped(source, target):
        if os.fspath(target) == os.fspath(place):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        release(of(), place, policy=site, label_share=SHARE)
    assert log_of(site) == ["left"]
    assert_kept(site, place, b"before")


def test_ctrl_c_before_the_log_leaves_nothing(site, place, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Log, "append", stopped)
    with pytest.raises(KeyboardInterrupt):
        release(of(), place, policy=site, label_share=SHARE)
    assert log_of(site) == []
    assert_kept(site, place)


def test_a_smaller_share_than_the_summary_knows_is_not_believed(site, place):
    labels = Y[:200].copy()
    labels[7] = 1e6
    with pytest.raises(Refused, match="one record has"):
        release(up.Summary.of(BASIS, X[:200], labels), place, policy=site, label_share=0.0)
    assert log_of(site) == ["refused"]


def test_what_a_caller_does_to_an_entry_decides_nothing(site, place, tmp_path):
    log = Log(site / LOG_NAME)
    policy = Policy.read(site / POLICY_NAME)
    entry = release(of(150), place, policy=policy, log=log)
    with pytest.raises(Refused):
        release(of(151), place, policy=policy, log=log)  # one record more would tell of that record
    for one in (entry, *log.entries()):
        if one.event["what"] == "left":
            one.event["release"]["n_rows"] = 5000
    with pytest.raises(Refused):
        release(of(151), place, policy=policy, log=log)
    assert log.verify().ok
