"""The message of a site looks like random words for any numbers, and no two attempts have anything in common.

The tests look at every byte, every bit, and neighbouring words, and raise an alarm where masks are random once in 10⁹
runs. Planted faults show that they do raise it: a mask left out, a mask used twice, half a mask.
"""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from tests.federation.secure_cases import attempt, consortium, names_of, offers_of, opened, sent
from unpooled.federation.secure import masks
from unpooled.federation.secure.fixed_point import FixedPoint, add, subtract
from unpooled.federation.secure.masks import Members

SIZE = 20_000
FALSE_ALARMS = 1e-9


def alarm(words):
    """Return whether words are clearly not uniform: the smallest p-value times their number is tiny."""
    content = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), 16)
    p_values = []
    for position in content.T:  # the 256 values of each of the 16 bytes
        counts = np.bincount(position, minlength=256)
        p_values.append(stats.chi2.sf(np.sum((counts - len(words) / 256) ** 2) / (len(words) / 256), 255))
    bits = np.unpackbits(content, axis=1) * 2.0 - 1.0
    steps = [bits, bits[1:] * bits[:-1], bits[:, 1:] * bits[:, :-1]]  # ones; bits of neighbours below, and beside
    for step in steps:
        z = step.sum(axis=0) / np.sqrt(len(step))
        p_values.extend(2 * stats.norm.sf(np.abs(z)))
    return min(p_values) * len(p_values) < FALSE_ALARMS


def related(a, b):
    """Return whether two messages share words, have a difference that is not uniform, or have correlated bits."""
    shared = np.intersect1d(a.ravel(), b.ravel()).size
    bits = [np.unpackbits(np.ascontiguousarray(x).view(np.uint8)) * 2.0 - 1.0 for x in (a, b)]
    z = abs(np.sum(bits[0] * bits[1])) / np.sqrt(len(bits[0]))
    return shared > 0 or alarm(subtract(a, b)) or 2 * stats.norm.sf(z) < FALSE_ALARMS


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    return consortium(tmp_path_factory.mktemp("keys"), 4)


CONTENTS = {
    "zeros": np.zeros(SIZE),
    "ones": np.ones(SIZE),
    "a row count and sums": np.concatenate([[100_000.0], np.random.default_rng(0).normal(size=SIZE - 1) * 1e5]),
    "the largest": np.full(SIZE, FixedPoint(4).largest),
}


def everywhere(values):
    return dict.fromkeys(names_of(4), FixedPoint(4).encode(values))


@pytest.mark.parametrize("content", list(CONTENTS))
def test_a_masked_message_is_indistinguishable_from_uniform(members, content):
    words, this = everywhere(CONTENTS[content]), attempt()
    assert alarm(words["site 0"])  # the words themselves are anything but
    for message in sent(members, this, words).values():
        assert not alarm(message)


def test_messages_of_several_sites_together_are_too(members):
    messages = list(sent(members, attempt(), everywhere(CONTENTS["zeros"])).values())
    for k in (2, 3, 4):  # all four as well: the sum over all members is still locked
        for some in combinations(messages, k):
            together = some[0]
            for message in some[1:]:
                together = add(together, message)
            assert not alarm(together)
    for a, b in combinations(messages, 2):
        assert not related(a, b)


def test_two_attempts_share_no_mask(members):
    words = everywhere(CONTENTS["zeros"])
    first, second = (sent(members, attempt("one study"), words) for _ in range(2))
    for name in names_of(4):
        assert not related(first[name], second[name])


def without_locks(message, name, locks):
    """Return a message without its locks, as the server sees it once everything is open."""
    for peer, secret in locks.items():
        if name < peer:
            message = masks._apply_stream(message, bytes.fromhex(secret), subtract)
    return message


def test_opened_locks_leave_every_message_masked(members):
    this = attempt()
    messages, locks = sent(members, this, everywhere(CONTENTS["zeros"])), opened(members, this)
    bare = {name: without_locks(messages[name], name, locks[name]) for name in messages}
    for message in bare.values():
        assert not alarm(message)
    assert not alarm(add(bare["site 0"], bare["site 1"]))
    assert not any(np.any(part) for part in _sum(bare.values()))  # and the sum over all is the sum of zeros


def _sum(messages):
    first, *others = messages
    for other in others:
        first = add(first, other)
    return first


def attempt_with_keys(members, this):
    """The members of an attempt, and their private keys, which only this test sees."""
    found = Members.of(this, offers_of(members, this), members["site 0"]._pinned)
    return found, {name: member._keys.take(name, this) for name, member in members.items()}


def test_a_server_and_all_sites_but_two_learn_the_sum_of_the_two_alone(members):
    this, numbers = attempt(), FixedPoint(4)
    found, private = attempt_with_keys(members, this)
    rng = np.random.default_rng(1)
    mine = {name: numbers.encode(rng.normal(size=SIZE)) for name in ("site 0", "site 1")}
    left = {}
    for name, words in mine.items():
        message, locks = masks.mask(words, name, private[name], found, "a question")
        message = without_locks(message, name, locks)
        for insider in ("site 2", "site 3"):  # who know the masks that they share with the two
            mask, _ = masks._derive_secrets(private[insider], found.keys[name], insider, name, found, "a question")
            message = masks._apply_stream(message, mask, subtract if name < insider else add)
        left[name] = message[:-1]
    assert not alarm(left["site 0"])
    assert not alarm(left["site 1"])
    assert np.array_equal(add(left["site 0"], left["site 1"]), add(mine["site 0"], mine["site 1"]))


def test_a_mask_used_twice_is_noticed(members):
    found, private = attempt_with_keys(members, attempt())
    words = everywhere(CONTENTS["a row count and sums"])["site 0"]
    other = FixedPoint(4).encode(CONTENTS["ones"])
    twice = [masks.mask(x, "site 0", private["site 0"], found, "a question")[0] for x in (words, other)]
    assert not alarm(twice[0])  # each by itself is as good as ever
    assert not alarm(twice[1])
    assert related(*twice)
    again = masks.mask(other, "site 0", private["site 0"], found, "another question")[0]
    assert not related(twice[1], again)  # another question has other masks, even under the same keys


@pytest.mark.parametrize("fault", ["no stream", "half a stream", "a short stream that repeats", "63 bits of 64"])
def test_a_mask_that_is_not_one_is_noticed(members, monkeypatch, fault):
    real = masks._apply_stream

    def faulty(words, secret, combine):
        stream = real(np.zeros_like(words), secret, add)
        if fault == "no stream":
            stream[:] = 0
        elif fault == "half a stream":
            stream[:, 1] = 0
        elif fault == "a short stream that repeats":
            stream = np.resize(stream[:16], stream.shape)
        else:
            stream &= np.uint64(2**63 - 1)
        return combine(words, stream)

    monkeypatch.setattr(masks, "_apply_stream", faulty)
    messages = sent(members, attempt(), everywhere(CONTENTS["zeros"]))
    assert alarm(messages["site 3"])


def locks_taken_for_masks(members, this):
    """A message after everything is open, less what the masks would be if their secrets were those of the locks."""
    messages, locks = sent(members, this, everywhere(CONTENTS["zeros"])), opened(members, this)
    left = without_locks(messages["site 0"], "site 0", locks["site 0"])
    return without_locks(left, "site 0", locks["site 0"])


def test_locks_tell_nothing_of_masks_and_the_test_would_see_it(members, monkeypatch):
    assert not alarm(locks_taken_for_masks(members, attempt()))
    secrets = masks._derive_secrets
    monkeypatch.setattr(masks, "_derive_secrets", lambda *about: (secrets(*about)[1],) * 2)
    assert alarm(locks_taken_for_masks(members, attempt()))
