"""Secure sums: masks cancel to the bit, and where anything is not as agreed no sum comes out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.federation.secure_cases import (
    attempt,
    consortium,
    names_of,
    offers_of,
    opened,
    secure_total,
    sent,
    some,
    vectors,
)
from unpooled.federation.secure import masks
from unpooled.federation.secure.fixed_point import FixedPoint, add_all
from unpooled.federation.secure.keys import TrustError
from unpooled.federation.secure.masks import Members, unmask


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    return consortium(tmp_path_factory.mktemp("keys"), 8)


@settings(max_examples=25)
@given(st.integers(3, 8), st.integers(0, 50), st.randoms())
def test_masks_cancel_to_the_bit_whatever_the_order(eight, n, size, random):
    members, words, this = some(eight, n), vectors(n, size), attempt()
    messages, locks = sent(members, this, words), opened(members, this)
    mixed = {name: messages[name] for name in random.sample(sorted(messages), n)}
    enough = {name: locks[name] for name in random.sample(sorted(locks), n - 1)}
    assert np.array_equal(unmask(mixed, enough), add_all(words.values()))


def test_numbers_come_out_as_without_masks(eight):
    numbers, rng = FixedPoint(8), np.random.default_rng(0)
    words = {name: numbers.encode(rng.normal(size=300) * 1e6) for name in names_of(8)}
    secure, plain = numbers.decode(secure_total(eight, words)), numbers.decode(add_all(words.values()))
    assert all(np.array_equal(a, b) for a, b in zip(secure, plain))


def test_sites_that_were_told_different_things_give_no_sum(eight):
    words = vectors(8, 4)

    def messages(change):
        this = attempt()
        offers = offers_of(some(eight, 4), this)
        found = {}
        for name in names_of(4):
            listed, asked = change(name, offers)
            if listed is not None:
                found[name] = eight[name].mask(this, listed, words[name], asked)
        return found, opened({name: eight[name] for name in found}, this)

    cases = [
        lambda name, offers: (offers, f"for {name == 'site 0'}"),  # another question
        lambda name, offers: (offers[:3] if name == "site 0" else offers, "a question"),  # another list
        lambda name, offers: (None if name == "site 3" else offers, "a question"),  # one did not answer
    ]
    for change in cases:
        with pytest.raises(TrustError, match="do not cancel|have sent different secrets|has sent an invalid lock"):
            unmask(*messages(change))
    assert np.array_equal(
        unmask(*messages(lambda _, offers: (offers[::-1], "a question"))),
        add_all(words[name] for name in names_of(4)),
    )


@pytest.fixture(scope="module")
def three_messages(eight):
    members, this = some(eight, 3), attempt("a study of three")
    return sent(members, this, vectors(3, 4)), opened(members, this)


@settings(max_examples=40)
@given(st.integers(0, 2), st.integers(0, 4), st.integers(0, 127))
def test_a_message_with_one_bit_changed_gives_no_sum(three_messages, site, row, bit):
    messages, locks = three_messages
    changed = {name: message.copy() for name, message in messages.items()}
    changed[f"site {site}"][row, bit // 64] ^= np.uint64(1 << bit % 64)
    with pytest.raises(TrustError, match="do not cancel"):
        unmask(changed, locks)
    unmask(messages, locks)


def test_locks_that_are_wrong_or_missing_give_no_sum(three_messages):
    messages, locks = three_messages
    with pytest.raises(TrustError, match="site 1 or site 2 must open"):
        unmask(messages, {"site 0": locks["site 0"]})
    with pytest.raises(TrustError, match="site 0 or site 1 must open"):
        unmask(messages, {})
    other = {**locks["site 0"], "site 1": "00" * 32}
    with pytest.raises(TrustError, match="site 0 and site 1 have sent different secrets"):
        unmask(messages, {**locks, "site 0": other})
    with pytest.raises(TrustError, match="do not cancel"):
        unmask(messages, {"site 0": other, "site 2": locks["site 2"]})
    for bad in ("", "zz" * 32, None, 5, [], {}):
        with pytest.raises(TrustError, match="has sent an invalid lock"):
            unmask(messages, {"site 0": {**locks["site 0"], "site 1": bad}, "site 2": locks["site 2"]})


def test_secrets_depend_on_everything_that_was_agreed(eight):
    members, this = some(eight, 3), attempt()
    found = Members.of(this, offers_of(members, this), eight["site 0"]._pinned)
    private, public = eight["site 0"]._keys.take("site 0", this), found.keys["site 1"]
    cases = [
        ("site 0", "site 1", found, "a question"),
        ("site 0", "site 1", found, "another question"),
        ("site 0", "site 2", found, "a question"),
        ("site 0", "site 1", replace(found, digest="00" * 32), "a question"),
        *(
            ("site 0", "site 1", replace(found, attempt=replace(this, **change)), "a question")
            for change in ({"study": "another"}, {"round": 2}, {"name": "another"})
        ),
    ]
    secrets = [one for about in cases for one in masks._derive_secrets(private, public, *about)]
    assert len(set(secrets)) == 2 * len(cases)


def test_a_key_that_gives_no_secret_is_refused(eight):
    members, this = some(eight, 3), attempt()
    found = Members.of(this, offers_of(members, this), eight["site 0"]._pinned)
    private = eight["site 0"]._keys.take("site 0", this)
    zero = replace(found, keys={**found.keys, "site 2": bytes(32)})
    with pytest.raises(TrustError, match="the key of site 2 is one of the weak keys"):
        masks.mask(vectors(3, 2)["site 0"], "site 0", private, zero, "a question")
