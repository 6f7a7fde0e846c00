"""A coordinator's study by file goes on from its folder, says who is missing, and repeats a question without a member.

Tests `federation/by_file/coordinator.py`.
"""

import numpy as np
import pytest

pytest.importorskip("cryptography")

from tests.federation.by_file_cases import FileStudy
from unpooled.federation.by_file import AnswerError, StaleKeyError
from unpooled.federation.by_file.coordinator import Coordinator, Inquiry
from unpooled.federation.secure.keys import TrustError

ROUNDS = 3


def learner():
    """Three questions, each of which holds the sum before it; the result is all sums with their members."""
    sums = []
    for number in range(ROUNDS):
        arrays = {"before": np.array(sums[-1][1] if sums else [0])}
        answers = yield Inquiry({"round": number}, 8, 0.1, arrays)
        sums.append((answers.question.names, answers.total().tolist()))
    return sums


@pytest.fixture
def study(tmp_path):
    study = FileStudy(tmp_path / "sites")
    study.place = tmp_path / "study"
    Coordinator.create(study.place, "heart", list(study.keys.values()), colluding=1, study_price=0.5)
    study.coordinator = lambda: Coordinator(study.place, study.identities["coordinator"])  # a new process each time
    return study


def total(study, names=None):
    return sum(study.numbers[name] for name in names or study.names).tolist()


def test_a_study_goes_on_to_its_result(study):
    step = study.coordinator().proceed(learner)
    for number in range(1, ROUNDS + 1):
        assert step.path.name == f"round-{number}.question"
        assert step.missing == study.names
        again = study.coordinator().proceed(learner)
        assert again.question.digest == step.question.digest
        step = study.coordinator().proceed(learner, study.answers(step.question, place=f"answers {number}"))
    assert step.question is None
    assert step.result == [(study.names, total(study))] * ROUNDS
    assert study.coordinator().proceed(learner).result == step.result


def test_answers_to_all_questions_may_lie_in_one_folder(study):
    step = study.coordinator().proceed(learner)
    paths = []
    for number in range(1, ROUNDS + 1):
        paths += study.answers(step.question, place=f"answers {number}")
        step = study.coordinator().proceed(learner, paths)
        assert step.problems == ()
    assert step.result == [(study.names, total(study))] * ROUNDS


def test_answers_may_come_one_by_one(study):
    question = study.coordinator().proceed(learner).question
    for i, name in enumerate(study.names[:-1]):
        step = study.coordinator().proceed(learner, [study.answer(name, question)])
        assert step.missing == study.names[i + 1 :]
    step = study.coordinator().proceed(learner, [study.answer(study.names[-1], question)])
    assert step.question.number == 2


def test_a_file_that_does_not_belong_is_named_and_not_taken_in(study):
    question = study.coordinator().proceed(learner).question
    paths = study.answers(question)
    content = bytearray(paths[0].read_bytes())
    content[-1] ^= 1
    paths[0].write_bytes(content)
    step = study.coordinator().proceed(learner, paths)
    assert step.missing == ("east",)
    assert "east.answer is damaged" in step.problems[0]
    assert study.coordinator().proceed(learner, [study.answer("east", question)]).question.number == 2


def test_a_question_is_repeated_without_a_member_that_stays_away(study):
    question = study.coordinator().proceed(learner).question
    others = study.coordinator().proceed(learner, study.answers(question, ["east", "north", "south"]))
    assert others.missing == ("west",)
    step = study.coordinator().repeat(without=["west"])
    assert step.path.name == "round-2-again.question"
    assert (step.question.number, step.question.before) == (2, question.digest)
    # A late answer to the question that was given up changes nothing.
    late = study.coordinator().proceed(learner, [study.answer("west", question)])
    assert (late.question.digest, late.problems) == (step.question.digest, ())
    three = ("east", "north", "south")
    for number in range(2, ROUNDS + 2):
        step = study.coordinator().proceed(learner, study.answers(step.question, place=f"answers {number}"))
    assert step.result == [(three, total(study, three))] * ROUNDS


def test_below_three_members_no_question_is_repeated(study):
    question = study.coordinator().proceed(learner).question
    study.coordinator().proceed(learner, study.answers(question, ["east", "north"]))
    with pytest.raises(TrustError, match="at least 3 members, and this has 2"):
        study.coordinator().repeat(without=["west", "south"])


def test_a_member_that_lost_its_key_comes_back_with_an_enrolment(study):
    question = study.coordinator().proceed(learner).question
    study.coordinator().proceed(learner, study.answers(question, ["east", "north", "south"]))
    fresh = study.sites["west"].enrol(discard=True)
    with pytest.raises(StaleKeyError, match="new enrolment file"):
        study.answer("west", question)
    step = study.coordinator().repeat(enrolments=[fresh])
    step = study.coordinator().proceed(learner, study.answers(step.question, place="again"))
    assert (step.question.number, step.question.names) == (3, study.names)


def test_there_must_be_something_to_repeat(study):
    with pytest.raises(AnswerError, match="no question has been asked yet"):
        study.coordinator().repeat()
    question = study.coordinator().proceed(learner).question
    with pytest.raises(TrustError, match="far is not among the members"):
        study.coordinator().repeat(without=["far"])
    (study.place / "answers" / question.digest).mkdir()
    for path in study.answers(question):
        (study.place / "answers" / question.digest / path.name).write_bytes(path.read_bytes())
    with pytest.raises(AnswerError, match="question 1 has all its answers"):
        study.coordinator().repeat()


def test_a_question_that_was_removed_or_changed_is_noticed(study):
    question = study.coordinator().proceed(learner).question
    step = study.coordinator().proceed(learner, study.answers(question))

    def other():
        yield Inquiry({"round": "other"}, 8, 0.1)

    with pytest.raises(ValueError, match="the learner does not ask what .*round-1.question asks"):
        study.coordinator().proceed(other)
    study.coordinator().proceed(learner, study.answers(step.question, place="second"))
    step.path.unlink()
    with pytest.raises(TrustError, match="round-3.question does not follow question 1"):
        study.coordinator().proceed(learner)


def test_a_study_that_no_question_could_be_made_for_is_not_created(study, tmp_path):
    with pytest.raises(TrustError, match="at least 3 members"):
        Coordinator.create(tmp_path / "two", "heart", [study.keys["east"]], colluding=1, study_price=0.5)
    assert not (tmp_path / "two").exists()
