"""Any proper subset of the answers to a question by file passes for random words, also after adding what it can add.

The tests look at every byte, every bit, and neighbouring words, and raise an alarm where masks are random once in 10⁹
runs. Planted faults show that they do raise it.
"""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("cryptography")

from tests.federation.by_file_cases import NAMES, FileStudy
from unpooled.federation.by_file import answers as by_file
from unpooled.federation.by_file.answers import Answer, largest_number

SIZE = 20_000
FALSE_ALARMS = 1e-9

CONTENTS = {
    "zeros": np.zeros(SIZE, dtype=np.int64),
    "small numbers": np.random.default_rng(0).integers(-50, 50, SIZE),
    "the largest": np.full(SIZE, largest_number(4)),
}


def alarm(words):
    """Return whether words are clearly not uniform: the smallest p-value times their number is tiny."""
    content = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), 8)
    p_values = []
    for position in content.T:  # the 256 values of each of the 8 bytes
        counts = np.bincount(position, minlength=256)
        p_values.append(stats.chi2.sf(np.sum((counts - len(words) / 256) ** 2) / (len(words) / 256), 255))
    bits = np.unpackbits(content, axis=1) * 2.0 - 1.0
    for step in (bits, bits[1:] * bits[:-1], bits[:, 1:] * bits[:, :-1]):
        p_values.extend(2 * stats.norm.sf(np.abs(step.sum(axis=0) / np.sqrt(len(step)))))
    return min(p_values) * len(p_values) < FALSE_ALARMS


def words_of(folder, whole, **choices):
    """The masked words of all members that hold the same numbers."""
    study = FileStudy(folder, size=SIZE, stored=False)
    study.numbers = dict.fromkeys(NAMES, whole)
    question = study.question(**choices)
    return {name: Answer.load(study.answer(name, question)).words for name in NAMES}


def proper_subsets():
    return [names for size in (1, 2, 3) for names in combinations(NAMES, size)]


@pytest.mark.parametrize("what", CONTENTS)
def test_the_words_of_any_proper_subset_and_all_their_sums_are_uniform(tmp_path, what):
    words = words_of(tmp_path, CONTENTS[what])
    for names in proper_subsets():
        together = np.concatenate([words[name] for name in names])
        assert not alarm(together), names
        assert not alarm(sum(words[name] for name in names)), names
        assert not alarm(words[names[0]] - sum(words[name] for name in names[1:])), names
    assert np.array_equal(sum(words.values()).view(np.int64), 4 * CONTENTS[what])


def test_two_questions_have_nothing_in_common(tmp_path):
    first = words_of(tmp_path / "first", CONTENTS["zeros"])
    second = words_of(tmp_path / "second", CONTENTS["zeros"])
    for name in NAMES:
        assert np.intersect1d(first[name], second[name]).size == 0
        assert not alarm(first[name] - second[name])


def test_a_question_that_differs_in_anything_has_other_masks_under_the_same_keys(tmp_path):
    """A site answers only one of these; if it answered two, their difference would still be random."""
    study = FileStudy(tmp_path, size=SIZE, stored=False)
    name = "north"
    site = study.sites[name]
    questions = [study.question(**change) for change in ({}, {"price": 0.2}, {"content": {}}, {"study": "kidney"})]
    private = site._find_private(questions[0], study.keys[name].key)
    words = [by_file.mask(question, name, private, CONTENTS["zeros"])[0] for question in questions]
    for a, b in combinations(words, 2):
        assert not alarm(a - b)


@pytest.mark.parametrize("fault", ["no mask", "one mask for all pairs", "half a mask", "the same word throughout"])
def test_planted_faults_raise_the_alarm(tmp_path, monkeypatch, fault):
    honest = by_file._make_stream
    streams = {
        "no mask": lambda _, n: np.zeros(n, dtype=np.uint64),
        "one mask for all pairs": lambda _, n: honest(bytes(32), n),
        "half a mask": lambda secret, n: honest(secret, n) & np.uint64(2**32 - 1),
        "the same word throughout": lambda secret, n: np.full(n, honest(secret, 1)[0]),
    }
    monkeypatch.setattr(by_file, "_make_stream", streams[fault])
    words = words_of(tmp_path, CONTENTS["small numbers"])
    sums = [sum(words[name] for name in names) for names in proper_subsets()]
    assert any(alarm(total) for total in sums)
