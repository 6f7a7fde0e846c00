"""Keys for secure sums: whoever bends the rules gets nothing, with a sentence that says why."""

import os
import stat
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.federation.secure_cases import attempt, consortium, identity, offers_of, opened, sent, some, vectors
from unpooled.federation.secure.fixed_point import add_all
from unpooled.federation.secure.keys import Attempt, Identity, Offer, TrustError, public_bytes, verify
from unpooled.federation.secure.masks import Member, Members, unmask


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    return consortium(tmp_path_factory.mktemp("keys"), 8)


def test_offers_travel_as_plain_dictionaries(eight):
    this = attempt()
    offer = eight["site 0"].offer(this)
    assert Offer.from_dict(offer.to_dict()) == offer
    good = offer.to_dict()
    for bad in (
        None,
        [],
        {},
        {**good, "more": 1},
        {**good, "key": good["key"][2:]},
        {**good, "key": good["key"].upper() + "zz"},
        {**good, "signature": 7},
        {**good, "site": " site 0"},
        {**good, "site": 3},
        {**good, "attempt": {"study": "x"}},
        {**good, "attempt": {**good["attempt"], "round": -1}},
        {**good, "attempt": {**good["attempt"], "round": True}},
    ):
        with pytest.raises(TrustError, match="does not hold a valid offer of a key"):
            Offer.from_dict(bad)


def refused(eight, offers, this, words=None, name="site 0", asked="a question"):
    words = vectors(8, 4)[name] if words is None else words
    with pytest.raises(TrustError) as error:
        eight[name].mask(this, offers, words, asked)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_server_cannot_put_a_key_of_its_own_in_the_place_of_a_site_s(eight, tmp_path):
    this = attempt()
    offers = offers_of(some(eight, 4), this)
    mallory = Member("site 3", identity(tmp_path, "mallory"), {})
    forged = mallory.offer(this)
    assert "site 3 is not signed with the key that is pinned" in refused(eight, [*offers[:3], forged], this)
    swapped = replace(offers[3], key=forged.key)
    assert "not signed" in refused(eight, [*offers[:3], swapped], this)
    renamed = replace(offers[2], site="site 4")
    assert "site 4 is not signed" in refused(eight, [*offers[:3], renamed], this)
    stranger = replace(forged, site="mallory")
    assert "no key is pinned for it" in refused(eight, [*offers[:3], stranger], this)


@given(st.integers(0, 511))
@settings(max_examples=30)
def test_a_signature_with_one_bit_changed_is_none(eight, bit):
    offer = eight["site 1"].offer(attempt())
    pinned = eight["site 1"]._identity.public
    changed = bytearray.fromhex(offer.signature)
    changed[bit // 8] ^= 1 << bit % 8
    offer.check(pinned)
    with pytest.raises(TrustError, match="not signed"):
        replace(offer, signature=changed.hex()).check(pinned)


def test_a_signature_is_for_one_purpose_one_site_and_one_attempt(eight):
    offer = eight["site 1"].offer(attempt())
    pinned = eight["site 1"]._identity.public
    assert verify(pinned, "a", b"content", eight["site 1"]._identity.sign("a", b"content"))
    assert not verify(pinned, "b", b"content", eight["site 1"]._identity.sign("a", b"content"))
    for changed in (
        replace(offer, site="site 2"),
        replace(offer, attempt=replace(offer.attempt, round=2)),
        replace(offer, attempt=replace(offer.attempt, study="another")),
        replace(offer, attempt=replace(offer.attempt, name="another")),
    ):
        with pytest.raises(TrustError, match="not signed"):
            changed.check(pinned)


def test_lists_of_members_that_cannot_be_right_are_refused(eight):
    this, before = attempt(), attempt()
    old = eight["site 2"].offer(before)
    offers = offers_of(some(eight, 4), this)
    assert "at least 3 members here, but this one has 2" in refused(eight, offers[:2], this)
    assert "site 1 is listed twice" in refused(eight, [*offers, offers[1]], this)
    assert "site 0 is not among the members" in refused(eight, offers[1:], this)
    assert f"the key of site 2 is for attempt {before}" in refused(eight, [*offers[:2], old], this)
    eight["site 0"].mask(this, offers, vectors(8, 4)["site 0"], "a question")  # none of that cost the key


def test_two_names_with_one_identity_are_not_two_members(eight, tmp_path):
    one = eight["site 1"]._identity
    two = Member("site 9", one, {})
    pinned = {**eight["site 0"]._pinned, "site 9": one.public.upper().replace("SITE", "site")}
    this = attempt()
    with pytest.raises(TrustError, match="two of the members have the same key"):
        Members.of(this, [*offers_of(some(eight, 3), this), two.offer(this)], pinned)


def test_a_site_may_want_more_members_than_three(tmp_path):
    members, this = consortium(tmp_path, 5, fewest=5), attempt()
    offers = offers_of(members, this)
    assert "at least 5 members here, but this one has 4" in refused(members, offers[:4], this)
    for bad in (2, 2.5, None):
        with pytest.raises(ValueError, match="fewest must be a whole number of at least 3"):
            Member("a", members["site 0"]._identity, {}, fewest=bad)


def test_a_key_is_used_once(eight):
    members, this, words = some(eight, 4), attempt(), vectors(8, 4)
    offers = offers_of(members, this)
    eight["site 0"].mask(this, offers, words["site 0"], "a question")
    for again in (offers, offers[:3]):
        assert "it was used already, or never offered" in refused(eight, again, this)
    with pytest.raises(TrustError, match="has already offered a key for attempt"):
        eight["site 0"].offer(this)


def test_one_attempt_of_a_study_is_open_at_a_time(eight):
    first, second, other = attempt("a study"), attempt("a study"), attempt("another study")
    offers = offers_of(some(eight, 3), first)
    elsewhere = offers_of(some(eight, 3), other)
    eight["site 0"].offer(second)
    assert "start a new attempt" in refused(eight, offers, first)
    eight["site 0"].mask(other, elsewhere, vectors(8, 4)["site 0"], "a question")


def test_after_a_restart_a_used_key_is_still_used_and_an_offered_one_still_there(tmp_path):
    members, this, words = consortium(tmp_path, 3, stored=True), attempt(), vectors(3, 4)
    offers = offers_of(members, this)

    def restarted(name):
        old = members[name]
        return Member(name, old._identity, old._pinned, tmp_path / name)

    messages = {name: restarted(name).mask(this, offers, words[name], "a question") for name in members}
    for name in members:
        assert not list((tmp_path / name).glob("*.key"))
        with pytest.raises(TrustError, match="used already"):
            restarted(name).mask(this, offers, words[name], "a question")
        with pytest.raises(TrustError, match="has already offered"):
            restarted(name).offer(this)
    locks = {name: restarted(name).open(this) for name in members}
    assert np.array_equal(unmask(messages, locks), add_all(words.values()))


def test_a_site_killed_while_it_strikes_a_key_out_does_not_use_it(tmp_path):
    members, this = consortium(tmp_path, 3, stored=True), attempt()
    offers = offers_of(members, this)
    (key,) = (tmp_path / "site 0").glob("*.key")
    key.with_suffix(".used").touch()  # the note is there, the key not yet gone
    assert "used already" in refused(members, offers, this)


@pytest.mark.parametrize("stored", [False, True])
def test_of_many_who_ask_at_once_one_gets_an_answer(tmp_path, stored):
    members, this, words = consortium(tmp_path, 3, stored=stored), attempt(), vectors(3, 4)
    offers, answers = offers_of(members, this), []
    start = threading.Barrier(8)

    def ask():
        start.wait()
        try:
            answers.append(members["site 0"].mask(this, offers, words["site 0"], "a question"))
        except TrustError:
            answers.append(None)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert sum(answer is not None for answer in answers) == 1


def test_secrets_are_for_their_owner_alone(tmp_path):
    members, this = consortium(tmp_path, 3, stored=True), attempt()
    sent(members, this, vectors(3, 4))
    members["site 0"].offer(attempt())
    opened({"site 1": members["site 1"]}, this)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in kept} == {".pem", ".key", ".used", ".lock", ".opened"}
    if os.name == "posix":
        assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_a_public_key_with_a_slip_is_noticed(eight):
    public = eight["site 0"]._identity.public
    assert public_bytes(f" {public.upper().replace('SITE', 'site')} ") == public_bytes(public)
    assert len(public) == 61
    for i in range(5, len(public)):
        slipped = public[:i] + ("a" if public[i] != "a" else "b") + public[i + 1 :]
        with pytest.raises(TrustError, match="must be site: and 56"):
            public_bytes(slipped)
    for bad in ("", "site:", public[5:], public[:-1], 7, None, public + "a"):
        with pytest.raises(TrustError, match="must be site: and 56"):
            Member("site 0", eight["site 0"]._identity, {"site 1": bad})


def test_a_site_whose_own_pinned_key_is_another_is_told_so(eight):
    with pytest.raises(TrustError, match="the key pinned for site 0 must be its own"):
        Member("site 0", eight["site 0"]._identity, {"site 0": eight["site 1"]._identity.public})


def test_identities_are_kept_in_files_that_nobody_else_reads(tmp_path):
    made = Identity.create(tmp_path / "a.pem")
    assert Identity.load(tmp_path / "a.pem").public == made.public
    assert "_private" not in repr(made)
    with pytest.raises(FileExistsError, match="a site should keep its key"):
        Identity.create(tmp_path / "a.pem")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Identity.load(tmp_path / "b.pem")
    content = (tmp_path / "a.pem").read_bytes()
    (tmp_path / "a.pem").write_bytes(content[:60] + b"!!" + content[62:])
    with pytest.raises(TrustError, match="does not hold a private key in PEM format, or is damaged"):
        Identity.load(tmp_path / "a.pem")
    from cryptography.hazmat.primitives import serialization as formats
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    other = X25519PrivateKey.generate()
    pem = other.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
    (tmp_path / "a.pem").write_bytes(pem)
    with pytest.raises(TrustError, match="a key of another kind"):
        Identity.load(tmp_path / "a.pem")


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_an_identity_that_others_may_read_is_refused(tmp_path):
    Identity.create(tmp_path / "a.pem")
    (tmp_path / "a.pem").chmod(0o640)
    with pytest.raises(TrustError, match="others may read it: chmod 600"):
        Identity.load(tmp_path / "a.pem")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (("", 1, "x"), "the study of an attempt must be"),
        (("s", 1, "x\n"), "the name of an attempt must be"),
        (("s", 1, "x" * 201), "the name of an attempt must be"),
        (("s", 1.0, "x"), "the round of an attempt must be a whole number"),
    ],
)
def test_attempts_have_plain_names(content, words):
    with pytest.raises(ValueError, match=words):
        Attempt(*content)


def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.startswith("cryptography.hazmat.primitives")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'unpooled\[flower\]'"):
        Identity.create(tmp_path / "a.pem")
