"""Locks: for one question the server gets the sum over one set of members, whatever it says about the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.federation.secure_cases import attempt, consortium, names_of, opened, sent, some, vectors
from unpooled.federation.secure.fixed_point import add_all, subtract
from unpooled.federation.secure.keys import TrustError
from unpooled.federation.secure.masks import unmask


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    return consortium(tmp_path_factory.mktemp("keys"), 8)


def open_all(members, this, got):
    """Ask each to open; who refuses has not."""
    for name, member in members.items():
        try:
            got[name] = member.open(this)
        except TrustError:
            continue


def forget(members):
    """Remove the notes of a site, as one that colludes with the server would."""
    for member in members.values():
        store = member._locks._store
        for note in store.names("", ".opened"):
            store.remove(note)


def sums_that_come_out(eight, n, kept, first_openers, insiders=()):
    """Two attempts at one question, all n sites and those kept, opened by whoever can be made to."""
    words, study = vectors(n, 3), attempt().study
    everybody, rest = some(eight, n), {name: eight[name] for name in sorted(kept)}
    bad = {name: eight[name] for name in insiders}
    first, second = attempt(study), attempt(study)
    messages, locks = [sent(everybody, first, words), None], ({}, {})
    early = {name for name in everybody if name in first_openers or name in insiders or name not in kept}
    open_all({name: eight[name] for name in early}, first, locks[0])
    forget(bad)
    messages[1] = sent(rest, second, words)
    open_all(rest, second, locks[1])
    open_all(everybody, first, locks[0])
    found = []
    for sent_words, opened_locks in zip(messages, locks):
        try:
            found.append(unmask(sent_words, opened_locks))
        except TrustError:
            found.append(None)
    return found, words


@settings(max_examples=40)
@given(st.data())
def test_of_one_question_the_sum_over_one_set_of_members_comes_out(eight, data):
    """This holds for any silent sites, any time of opening, and any helpers of the server but the last three."""
    n = data.draw(st.integers(4, 8))
    kept = data.draw(st.lists(st.sampled_from(names_of(n)), min_size=3, max_size=n - 1, unique=True))
    insiders = data.draw(st.lists(st.sampled_from(names_of(n)), max_size=n, unique=True))
    insiders = [name for name in insiders if name not in kept[:3]]
    found, _ = sums_that_come_out(eight, n, kept, data.draw(st.sets(st.sampled_from(kept))), insiders)
    assert sum(one is not None for one in found) <= 1


def test_with_two_who_do_not_help_the_server_it_gets_both_sums(eight):
    """The limit that docs/security.md states, and the test above would see if the rule were broken."""
    kept = ["site 0", "site 1", "site 2"]
    (everybody, fewer), words = sums_that_come_out(eight, 4, kept, {"site 0"}, insiders=["site 2"])
    assert np.array_equal(subtract(everybody, fewer), words["site 3"])


def test_a_late_message_does_not_tell_what_its_site_sent(eight):
    words, study = vectors(4, 3), "a late one"
    members, rest = some(eight, 4), some(eight, 3)
    first, second = attempt(study), attempt(study)
    late = sent(members, first, words)  # the server has all of it, and says that site 3 was silent
    messages = sent(rest, second, words)
    assert np.array_equal(unmask(messages, opened(rest, second)), add_all(words[name] for name in rest))
    for member in rest.values():
        with pytest.raises(TrustError, match="it sent no message in it, or a later message since"):
            member.open(first)
    with pytest.raises(TrustError, match="must open"):
        unmask(late, {"site 3": members["site 3"].open(first)})


def test_the_same_members_may_be_opened_again_and_other_ones_not(eight):
    words, study = vectors(5, 3), "opened twice"
    for _ in range(2):  # a server that lost the sum asks all of them again
        this = attempt(study)
        messages = sent(some(eight, 5), this, words)
        assert np.array_equal(unmask(messages, opened(some(eight, 5), this)), add_all(words.values()))
    fewer = attempt(study)
    sent(some(eight, 4), fewer, words)
    with pytest.raises(TrustError, match="has opened the sum over site 0, site 1, site 2, site 3, site 4 for this"):
        eight["site 0"].open(fewer)
    other = attempt(study)
    sent(some(eight, 4), other, words, asked="another question")
    eight["site 0"].open(other)


def test_nothing_opens_before_something_was_sent(eight):
    with pytest.raises(TrustError, match="it sent no message in it"):
        eight["site 0"].open(attempt("nothing yet"))
