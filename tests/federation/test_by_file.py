"""Masked answers by file: the sum is exact and complete or not there, and every slip is named in a sentence.

Tests `federation/by_file/questions.py`, `federation/by_file/answers.py` and `federation/by_file/site.py`.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography")

from tests.cases.cli import answer_of
from tests.federation.by_file_cases import NAMES, FileStudy
from unpooled._base import files
from unpooled._base.files import FileError
from unpooled.federation.by_file import answers as by_file
from unpooled.federation.by_file.answers import AnswerError, gather, largest_number
from unpooled.federation.by_file.questions import OneTimeKey, Question
from unpooled.federation.by_file.site import FileSite, StaleKeyError
from unpooled.federation.secure.keys import Identity, TrustError, import_primitives


@pytest.fixture
def study(tmp_path):
    return FileStudy(tmp_path)


def sentence(error) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


def refused(study, name, question, kind=TrustError) -> str:
    """The sentence with which a site refuses; nothing of the site has changed, and nothing was computed."""
    before, computed = study.files(name), list(study.computed)
    with pytest.raises(kind) as error:
        study.sites[name].answer(question, study.numbers_of(name))
    assert study.files(name) == before
    assert study.computed == computed
    return sentence(error)


def problem(question, paths) -> str:
    with pytest.raises(AnswerError) as error:
        gather(question, paths).total()
    return sentence(error)


# The sum


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_sum_of_masked_files_is_the_sum_without_masks_to_the_bit(tmp_path_factory, data):
    n = data.draw(st.integers(3, 7), "members")
    size = data.draw(st.integers(1, 40), "size")
    limit = largest_number(n)
    study = FileStudy(tmp_path_factory.mktemp("study"), [f"site {i}" for i in range(n)], size, stored=False)
    whole = st.lists(st.integers(-limit, limit) | st.integers(-9, 9), min_size=size, max_size=size)
    study.numbers = {name: np.array(data.draw(whole)) for name in study.names}
    question = study.question(colluding=data.draw(st.integers(1, n - 1)))
    paths = data.draw(st.permutations(study.answers(question)))
    exact = [sum(int(study.numbers[name][i]) for name in study.names) for i in range(size)]
    assert gather(question, paths).total().tolist() == exact


def test_questions_follow_one_another_with_the_keys_that_came_with_the_answers(study):
    question = study.question()
    for number in range(1, 5):
        assert question.number == number
        answers = gather(question, study.answers(question, place=f"answers {number}"))
        assert np.array_equal(answers.total(), sum(study.numbers.values()))
        following = question.following(list(answers.keys.values()), size=8, price=0.1, content={"round": number})
        assert following.before == question.digest
        assert {m.key for m in following.members}.isdisjoint(m.key for m in question.members)
        question = following.sign(study.identities["coordinator"])


def test_a_question_and_an_enrolment_come_back_from_their_files(study, tmp_path):
    question = study.question(content={"b": [1, 2.5], "ä": None})
    question.save(tmp_path / "1.question")
    again = Question.load(tmp_path / "1.question")
    assert (again.digest, again.signature, again.content) == (question.digest, question.signature, question.content)
    study.keys["north"].save(tmp_path / "north.key")
    assert OneTimeKey.load(tmp_path / "north.key") == study.keys["north"]


def test_a_private_key_is_gone_once_it_is_used(study):
    question = study.question()
    own = question.member("north").key
    assert f"keys/once-{own}.key" in study.files("north")
    raw = study.files("north")[f"keys/once-{own}.key"]
    study.answer("north", question)
    left = study.files("north")
    assert f"keys/once-{own}.key" not in left
    assert not any(raw in content for content in left.values())


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ([0.5] * 8, "must hold whole numbers"),
        ([np.nan] * 8, "must hold whole numbers"),
        ([1] * 7, "asks for 8 numbers"),
        ([2**62] * 8, "must be at most 2305843009213693951"),
        ([-(2**63)] * 8, "must be at most"),
        (["1"] * 8, "must hold whole numbers"),
    ],
)
def test_numbers_that_cannot_be_added_are_refused(study, numbers, why):
    study.numbers["north"] = np.array(numbers)
    with pytest.raises(ValueError, match=why):
        study.answer("north", study.question())
    assert not list(study.folder.glob("answers/*"))


# Files that are lost, late, damaged or foreign


def test_a_lost_file_is_named_and_a_late_one_completes_the_sum(study):
    question = study.question()
    paths = study.answers(question, ["east", "south", "west"])
    assert gather(question, paths).missing == ("north",)
    assert "there is no answer yet from north" in problem(question, paths)
    late = study.answer("north", question)
    assert np.array_equal(gather(question, [*paths, late]).total(), sum(study.numbers.values()))


def test_without_a_member_a_new_question_goes_to_the_others(study):
    question = study.question()
    answers = gather(question, study.answers(question, ["east", "south", "west"]))
    others = question.following(list(answers.keys.values()), size=8, price=0.1, content={})
    others = others.sign(study.identities["coordinator"])
    paths = study.answers(others, place="others")
    assert np.array_equal(gather(others, paths).total(), sum(study.numbers[name] for name in others.names))
    # A late file completes the sum of the first question, which every member has paid for, and none of the second.
    late = study.answer("north", question)
    assert "north.answer is from north, which is not among the members" in problem(others, [*paths, late])
    first = [study.folder / "answers" / f"{name}.answer" for name in NAMES]
    assert np.array_equal(gather(question, first).total(), sum(study.numbers.values()))


def test_the_same_file_twice_is_one_answer(study):
    question = study.question()
    paths = study.answers(question)
    assert np.array_equal(gather(question, [*paths, paths[0]]).total(), sum(study.numbers.values()))


def test_a_damaged_file_is_named(study):
    question = study.question()
    paths = study.answers(question)
    content = bytearray(paths[1].read_bytes())
    content[-1] ^= 1
    paths[1].write_bytes(content)
    said = problem(question, paths)
    assert "north.answer is damaged" in said
    assert "no answer yet from north" in said


def test_a_file_that_is_no_answer_is_named(study):
    question = study.question()
    paths = study.answers(question)
    question.save(paths[0])
    assert "holds a question, not an answer" in problem(question, paths)


def test_a_foreign_file_is_named(study, tmp_path):
    question = study.question()
    paths = study.answers(question)
    stranger = FileStudy(tmp_path / "other", ["a", "b", "far"])
    foreign = stranger.answer("far", stranger.question())
    assert "far.answer is from far, which is not among the members" in problem(question, [*paths, foreign])
    elsewhere = stranger.answer("a", stranger.question(study="kidney"))
    assert "a.answer belongs to the study kidney, and not to heart" in problem(question, [*paths, elsewhere])


def test_an_answer_to_an_earlier_question_is_named(study):
    question = study.question()
    answers = gather(question, paths := study.answers(question))
    second = question.following(list(answers.keys.values()), size=8, price=0.1, content={})
    second = second.sign(study.identities["coordinator"])
    assert "east.answer answers question 1, and not question 2" in problem(second, paths[:1])


def test_two_sets_of_members_are_named(study):
    three = study.question(["east", "north", "south"])
    paths = study.answers(three)
    four = study.question()
    said = problem(four, paths)
    assert "answers a question to other members: to east, north, south and not to east, north, south, west" in said


def rewrite(path, change, identity):
    """Change the content of an answer, and sign it again."""
    answer = change(by_file.Answer.load(path))
    path.write_bytes(answer.to_bytes(identity))


def test_two_answers_of_one_site_are_named_and_neither_is_used(study, tmp_path):
    question = study.question()
    paths = study.answers(question)
    other = tmp_path / "other.answer"
    shutil.copy(paths[1], other)
    rewrite(other, lambda a: replace(a, words=a.words + np.uint64(1)), study.identities["north"])
    answers = gather(question, [*paths, other])
    assert answers.missing == ("north",)
    assert "north has sent two different answers" in problem(question, [*paths, other])


@pytest.mark.parametrize("whose", ["east", "coordinator"])
def test_a_signature_of_somebody_else_is_named(study, whose):
    question = study.question()
    paths = study.answers(question)
    rewrite(paths[1], lambda a: replace(a, words=a.words + np.uint64(1)), study.identities[whose])
    assert "north.answer is not signed with the key of north" in problem(question, paths)


def test_a_swapped_key_is_named_by_the_confirmations(study, monkeypatch):
    question = study.question()
    paths = study.answers(question, ["east", "south", "west"])
    # north makes its masks with a key that is not the one in the question.
    swapped = import_primitives("asymmetric.x25519").X25519PrivateKey.generate()
    honest = by_file._derive
    monkeypatch.setattr(by_file, "_derive", lambda q, site, _, peer: honest(q, site, swapped, peer))
    paths.append(study.answer("north", question))
    assert "a key of north was swapped" in problem(question, paths)


def test_one_pair_with_different_keys_is_named(study, monkeypatch):
    question = study.question()
    paths = study.answers(question, ["east", "south", "west"])
    swapped = import_primitives("asymmetric.x25519").X25519PrivateKey.generate()
    honest = by_file._derive
    monkeypatch.setattr(
        by_file, "_derive", lambda q, s, private, p: honest(q, s, swapped if p.site == "west" else private, p)
    )
    paths.append(study.answer("north", question))
    assert "north and west have used different keys for their mask" in problem(question, paths)


def test_an_answer_with_another_long_term_key_is_named(study, tmp_path):
    question = study.question()
    paths = study.answers(question)
    other = Identity.create(tmp_path / "other.pem")
    key = OneTimeKey.sign("north", other, bytes(range(32)), question.digest)
    rewrite(paths[1], lambda a: replace(a, next=key), other)
    assert "another long-term key of north than the question: the key was swapped" in problem(question, paths)


def test_a_key_that_is_offered_twice_is_named(study):
    question = study.question()
    paths = study.answers(question)
    mine = bytes.fromhex(question.member("north").key)
    key = OneTimeKey.sign("north", study.identities["north"], mine, question.digest)
    rewrite(paths[1], lambda a: replace(a, next=key), study.identities["north"])
    assert "north offers a key for the next question that north has offered before" in problem(question, paths)


# Questions that a site refuses


def test_no_two_questions_share_a_digest_by_the_name_of_an_array(study):
    """A name with line breaks could look like the end of one array and the beginning of another."""
    two = study.question(arrays={"a": np.frombuffer(b"12345678", "<f8"), "b": np.ones(1)})
    with pytest.raises(ValueError, match="the name of an array"):
        study.question(arrays={"a <f8 (1,)\n12345678\nb": np.ones(1)})
    forged = {"a <f8 (1,)\n12345678\nb": np.ones(1)}
    assert files.digest(two._header(), dict(two.arrays)) == files.digest(two._header(), forged)


def test_members_with_the_same_key_or_name_are_refused(study):
    north, south = study.keys["north"], study.keys["south"]
    members = [study.keys["east"], north, south]
    with pytest.raises(TrustError, match="north is listed twice"):
        study.question(members=(*members, north))
    copied = OneTimeKey.sign("west", study.identities["west"], bytes.fromhex(north.key))
    with pytest.raises(TrustError, match="north and west have the same one-time key"):
        study.question(members=(*members, copied))
    blank = replace(OneTimeKey.sign("west", study.identities["north"], bytes(range(32))), identity=f" {north.identity}")
    with pytest.raises(TrustError, match="north and west have the same long-term key"):
        study.question(members=(*members, blank))
    renamed = OneTimeKey.sign("west", study.identities["north"], bytes(range(32)))
    with pytest.raises(TrustError, match="north and west have the same long-term key"):
        study.question(members=(*members, renamed))


def test_a_one_time_key_that_its_site_did_not_sign_is_refused(study):
    forged = replace(study.keys["south"], key=study.keys["north"].key)
    with pytest.raises(TrustError, match="the one-time key of south is not signed"):
        study.question(members=(study.keys["east"], forged, study.keys["west"]))


def test_a_site_refuses_a_key_that_it_has_not_pinned(study, tmp_path):
    mallory = Identity.create(tmp_path / "mallory.pem")
    study.keys["south"] = OneTimeKey.sign("south", mallory, bytes(range(32)))
    assert "the key of south in the question is not the one that north has pinned" in refused(
        study, "north", study.question()
    )
    study.keys["far"] = OneTimeKey.sign("far", Identity.create(tmp_path / "far.pem"), bytes(range(32)))
    assert "north has pinned no key for it" in refused(study, "north", study.question(["east", "far", "north"]))


def test_a_site_refuses_a_question_to_others(study):
    assert "north is not among the members" in refused(study, "north", study.question(["east", "south", "west"]))
    study.keys["north"] = OneTimeKey.sign("north", study.identities["coordinator"], bytes(range(32)))
    assert "another long-term key for north than its own" in refused(study, "north", study.question())


def test_a_question_to_fewer_than_three_members_is_refused(study, tmp_path):
    with pytest.raises(TrustError, match="at least 3 members, and this has 2"):
        study.question(["east", "north"])
    strict = FileStudy(tmp_path / "strict", fewest=4)
    said = refused(strict, "north", strict.question(["east", "north", "south"]))
    assert "north answers questions to at least 4 members" in said
    with pytest.raises(ValueError, match="fewest must be a whole number of at least 3"):
        FileSite("north", study.identities["north"], {}, fewest=2)


def test_a_question_that_allows_for_too_few_who_collude_is_refused(study, tmp_path):
    strict = FileStudy(tmp_path / "strict", colluding=2)
    assert "answers only if 2 members may work together" in refused(strict, "north", strict.question(colluding=1))
    strict.answer("north", strict.question(colluding=2))
    with pytest.raises(ValueError, match="colluding must be a whole number of at least 1"):
        study.question(colluding=0)
    with pytest.raises(TrustError, match="must allow for fewer"):
        study.question(colluding=4)


@pytest.mark.parametrize("change", [{"price": 0.2}, {"colluding": 2}, {"content": {}}, {"signature": "x"}])
def test_a_question_that_was_changed_is_refused(study, tmp_path, change):
    question = replace(study.question(), **change)
    assert "is not signed with the key of the coordinator" in refused(study, "north", question)
    question.save(tmp_path / "changed.question")
    with pytest.raises(TrustError, match="not signed"):
        Question.load(tmp_path / "changed.question")


def test_a_coordinator_without_a_key_may_ask_but_nobody_may_take_its_place(study):
    unsigned = replace(study.question(), coordinator="", signature="")
    study.answer("north", unsigned)
    signed = study.question(number=2, before=unsigned.digest)
    assert "the coordinator has changed since question 1 of heart" in refused(study, "north", signed)


def test_the_price_of_the_whole_study_stays_what_it_was(study):
    first = study.question()
    answers = gather(first, study.answers(first))
    dearer = first.following(list(answers.keys.values()), size=8, price=0.1, content={}, study_price=0.6)
    dearer = dearer.sign(study.identities["coordinator"])
    assert "the price of the whole study has changed since question 1" in refused(study, "north", dearer)
    with pytest.raises(ValueError, match="price must be at most study_price"):
        study.question(price=0.6)


def test_the_questions_of_a_study_cost_no_more_than_the_study(study):
    question = study.question(price=0.3)
    for number in (1, 2):
        keys = gather(question, study.answers(question, place=f"answers {number}")).keys
        question = question.following(list(keys.values()), size=8, price=0.3 if number == 1 else 0.27, content={})
        question = question.sign(study.identities["coordinator"])
    said = refused(study, "north", question)
    assert "would cost μ = 0.5029, and the whole study may cost 0.5" in said
    study.answer("north", replace(question, price=0.26).sign(study.identities["coordinator"]))


@pytest.mark.parametrize("change", [{"members": 3}, {"size": "8"}, {"more": 1}, {"before": "x"}, {"price": None}])
def test_a_file_that_holds_no_valid_question_is_refused(study, tmp_path, change):
    path = tmp_path / "1.question"
    study.question().save(path)
    header, arrays = files.read(path, "question")
    files.write(path, "question", {**header, **change}, arrays)
    with pytest.raises(FileError, match=r"1\.question does not hold a valid question"):
        Question.load(path)


# One key, one question


def test_asked_the_same_question_again_a_site_sends_the_bytes_that_it_stored(study):
    question = study.question()
    first = study.answer("north", question).read_bytes()
    study.numbers["north"] = study.numbers["north"] + 1
    study.sites["north"] = study.site("north")
    assert study.answer("north", question).read_bytes() == first
    assert study.computed == ["north"]


def test_another_question_under_the_same_keys_is_refused(study):
    study.answer("north", first := study.question())
    said = refused(study, "north", study.question(content={"sums": "other"}))
    assert "has answered question 1 of heart, and this is question 1 with another content" in said
    second = study.question(number=2, before=first.digest)
    assert "has used its one-time key" in refused(study, "north", second, StaleKeyError)
    assert "has used its one-time key" in refused(study, "north", study.question(study="kidney"), StaleKeyError)


def test_a_computation_that_fails_uses_no_key(study):
    question = study.question()

    def fails(question):
        raise ValueError("no rows")

    before = study.files("north")
    with pytest.raises(ValueError, match="no rows"):
        study.sites["north"].answer(question, fails)
    assert study.files("north") == before
    study.answer("north", question)


def restore(study, name, kept):
    """Put the folder of a site back to an older copy."""
    shutil.rmtree(study.folder / name)
    shutil.copytree(kept, study.folder / name)
    study.sites[name] = study.site(name)


@pytest.mark.parametrize("when", ["before it answered", "after it answered"])
def test_a_site_restored_from_a_backup_begins_a_new_attempt(study, tmp_path, when):
    question = study.question()
    if when == "after it answered":
        study.answers(question)
        question = question.following(
            list(gather(question, study.folder.glob("answers/*")).keys.values()), size=8, price=0.1, content={}
        ).sign(study.identities["coordinator"])
    shutil.copytree(study.folder / "north", tmp_path / "backup")
    paths = study.answers(question, place="second")
    restore(study, "north", tmp_path / "backup")
    said = refused(study, "north", question, StaleKeyError)
    assert "restored from a backup" in said
    assert "new enrolment file" in said
    # A new attempt: the others' next keys, and a fresh one of the restored site, which removes what it got back.
    keys = gather(question, paths).keys | {"north": study.sites["north"].enrol()}
    assert f"keys/once-{question.member('north').key}.key" not in study.files("north")
    again = question.following(list(keys.values()), size=8, price=0.1, content={})
    again = again.sign(study.identities["coordinator"])
    total = gather(again, study.answers(again, place="again")).total()
    assert np.array_equal(total, sum(study.numbers.values()))


def test_a_log_that_was_not_restored_speaks_against_a_key(study, monkeypatch):
    """Even where a restored file cannot be told from the one that was written, as after a snapshot of one folder."""
    monkeypatch.setattr("unpooled.federation.secure.keys.SiteStore.stamp", lambda *_: "")
    study = FileStudy(study.folder / "snapshot")
    question = study.question()
    shutil.copytree(study.folder / "north" / "keys", study.folder / "backup")
    study.answer("north", question)
    shutil.rmtree(study.folder / "north" / "keys")
    shutil.copytree(study.folder / "backup", study.folder / "north" / "keys")
    assert "gone or was used already" in refused(study, "north", question, StaleKeyError)


def test_a_site_that_was_set_back_can_discard_all_its_keys(study):
    study.sites["north"].enrol(discard=True)
    assert "gone or was used already" in refused(study, "north", study.question(), StaleKeyError)


def test_the_log_has_an_entry_for_each_answer_before_it_leaves(study):
    question = study.question()
    study.answer("north", question)
    study.answer("north", question)
    events = [entry.event for entry in study.sites["north"].log.entries()]
    assert [(event["what"], event["question"], event["price"]) for event in events] == [
        ("answered", question.digest, 0.1)
    ]


def test_questions_and_answers_are_described_in_words(study, tmp_path):
    question = study.question(colluding=2)
    text = question.describe()
    for part in ("Question 1 of the study heart", "east, north, south, west", "more than 2 members", "μ = 0.1", "0.5"):
        assert part in text
    place = tmp_path / "1.question"
    question.save(place)
    assert answer_of("inspect", place)["description"] == text
    described = answer_of("inspect", study.answer("north", question))["description"]
    assert "they say nothing without the answers of east, south, west" in described
    study.keys["north"].save(tmp_path / "north.key")
    assert "The one-time key of north" in answer_of("inspect", tmp_path / "north.key")["description"]


# Files that somebody made up

ODD = [None, True, -1, 2**62, 0.5, "", "x", "ä", [], {}, [[]], {"a": 1}, "0" * 64, "site:x"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A study with the files of a question, of its answers and of an enrolment."""
    study = FileStudy(tmp_path_factory.mktemp("written"), stored=False)
    study.first = study.question()
    study.paths = study.answers(study.first)
    study.originals = {kind: study.folder / f"original.{kind}" for kind in ("question", "enrolment")}
    study.first.save(study.originals["question"])
    study.keys["north"].save(study.originals["enrolment"])
    study.originals["answer"] = study.paths[0]
    return study


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_made_up_file_is_refused_in_a_sentence_and_never_added(written, data):
    study = written
    kind = data.draw(st.sampled_from(["question", "answer", "enrolment"]))
    path = study.folder / f"made up.{kind}"
    header, arrays = files.read(study.originals[kind], kind)
    place, name = header, data.draw(st.sampled_from(sorted(set(header) - files.ENVELOPE)))
    if isinstance(header[name], dict) and header[name] and data.draw(st.booleans()):
        place, name = header[name], data.draw(st.sampled_from(sorted(header[name])))
    value = data.draw(st.sampled_from(ODD))
    place[name], before = value, place[name]
    files.write(path, kind, header, arrays)
    if value == before:
        return
    if kind == "answer":
        said = problem(study.first, [path, *study.paths[1:]])
        assert "made up.answer" in said
    else:
        with pytest.raises((FileError, TrustError)) as error:
            (Question if kind == "question" else OneTimeKey).load(path)
        sentence(error)
