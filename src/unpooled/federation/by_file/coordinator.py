"""The coordinator's side of a study by file: a folder of questions and answers, from which a learner goes on.

A learner is a coroutine that yields what it wants to ask and is sent the complete answers. It is run from its beginning
each time, with the answers in the folder, so a study that was left half-finished is taken up where it was, and the
state of the study is nowhere but in signed files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..._base import files
from ..._base.files import PathLike, open_atomic
from ..._base.plain_json import encode_readable
from ..secure.keys import Identity, TrustError
from .answers import AnswerError, AnswerSet, gather
from .questions import OneTimeKey, Question


@dataclass(frozen=True)
class Inquiry:
    """One thing that a learner wants to ask all members."""

    content: Mapping[str, Any]
    size: int
    price: float
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def is_asked_by(self, question: Question) -> bool:
        """Return whether a question asks this."""
        facts = (self.size, self.price, files.digest(dict(self.content), dict(self.arrays)))
        return facts == (question.size, question.price, files.digest(dict(question.content), dict(question.arrays)))


FileLearner = Generator[Inquiry, AnswerSet, Any]


@dataclass(frozen=True, eq=False)
class StudyStep:
    """The state of a study by file.

    Attributes
    ----------
    question, path : the question that waits for answers, and its file; None once the study has ended
    missing, problems : the members that have not answered it, and a sentence for each file that cannot be used
    result : of the learner, once the study has ended
    """

    question: Question | None = None
    path: Path | None = None
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    result: Any = None


class Coordinator:
    """A study by file in a folder of its coordinator.

    Parameters
    ----------
    folder : of the study, as :meth:`create` made it
    identity : the long-term key of the coordinator, if it has one
    """

    def __init__(self, folder: Path, identity: Identity | None = None) -> None:
        self.folder, self._identity = folder, identity
        self._facts = json.loads((folder / "study.json").read_bytes())

    @classmethod
    def create(
        cls,
        folder: Path,
        study: str,
        enrolments: Sequence[OneTimeKey],
        *,
        colluding: int,
        study_price: float,
        identity: Identity | None = None,
    ) -> Coordinator:
        """Create the folder of a new study.

        Parameters
        ----------
        folder : a new folder
        study : a name that none of the members has met before
        enrolments : the one-time key of each member
        colluding : t, the number of members that may work together
        study_price : μ of the whole study
        identity : the long-term key of the coordinator, if it has one
        """
        Question(study, 1, "", tuple(enrolments), colluding, 1, 0.0, study_price)  # raises what a question would
        for name in ("members", "questions", "answers"):
            (folder / name).mkdir(parents=True)
        for number, key in enumerate(enrolments):
            key.save(folder / "members" / f"{number}.key")
        with open_atomic(folder / "study.json") as file:
            facts = {"study": study, "colluding": colluding, "study_price": study_price}
            file.write(encode_readable(facts).encode())
        return cls(folder, identity)

    def proceed(self, make_learner: Callable[[], FileLearner], paths: Iterable[PathLike] = ()) -> StudyStep:
        """Take answers in, and write the next question, or return the learner's result.

        Parameters
        ----------
        make_learner : returns the learner at its beginning; with equal answers it asks equal questions
        paths : files of answers to the question that waits; answers to earlier questions are left alone
        """
        learner, asked = make_learner(), self._read_questions()
        problems = self._take_in([question for question, _ in asked], paths) if asked else ()
        try:
            ask = next(learner)
            for i, (question, path) in enumerate(asked):
                if i + 1 < len(asked) and _is_again(asked[i + 1][1]):
                    continue
                if not ask.is_asked_by(question):
                    raise ValueError(f"the learner does not ask what {path} asks: has the study been changed?")
                answers = self._gather(question)
                if answers.missing or answers.problems:
                    return StudyStep(question, path, answers.missing, (*problems, *answers.problems))
                ask = learner.send(answers)
        except StopIteration as end:
            return StudyStep(problems=problems, result=end.value)
        keys = self._gather(asked[-1][0]).keys.values() if asked else self._read_enrolments()
        return replace(self._write(asked, tuple(keys), ask), problems=problems)

    def repeat(self, without: Sequence[str] = (), enrolments: Sequence[OneTimeKey] = ()) -> StudyStep:
        """Ask the question that waits again, as a new one, which costs afresh.

        Parameters
        ----------
        without : the members that are left out, because they stay away
        enrolments : new one-time keys of members that have lost theirs
        """
        asked = self._read_questions()
        if not asked:
            raise AnswerError("no question has been asked yet: there is nothing to repeat")
        question = asked[-1][0]
        answers, fresh = self._gather(question), {key.site: key for key in enrolments}
        for name in (*without, *fresh):
            question.member(name)
        if not answers.missing and not answers.problems:
            raise AnswerError(f"question {question.number} has all its answers: go on with the study")
        keys = {member.site: member for member in question.members} | answers.keys | fresh
        members = tuple(key for name, key in keys.items() if name not in without)
        return self._write(
            asked, members, Inquiry(question.content, question.size, question.price, question.arrays), True
        )

    def _write(
        self, asked: Sequence[tuple[Question, Path]], members: tuple[OneTimeKey, ...], ask: Inquiry, again: bool = False
    ) -> StudyStep:
        facts = {name: getattr(ask, name) for name in ("size", "price", "content", "arrays")}
        number, before = (asked[-1][0].number + 1, asked[-1][0].digest) if asked else (1, "")
        question = Question(number=number, before=before, members=members, **self._facts, **facts)
        if self._identity is not None:
            question = question.sign(self._identity)
        path = self.folder / "questions" / f"round-{number}{'-again' if again else ''}.question"
        question.save(path)
        return StudyStep(question, path, question.names)

    def _read_questions(self) -> list[tuple[Question, Path]]:
        """Return all questions with their files, in order, each of which must follow the one before."""
        asked = [(Question.load(path), path) for path in (self.folder / "questions").glob("*.question")]
        asked.sort(key=lambda one: one[0].number)
        for (before, _), (after, path) in pairwise(asked):
            if after.before != before.digest:
                raise TrustError(f"{path} does not follow question {before.number}: a file was removed or replaced")
        return asked

    def _read_enrolments(self) -> list[OneTimeKey]:
        return [OneTimeKey.load(path) for path in sorted((self.folder / "members").iterdir())]

    def _place(self, question: Question) -> Path:
        return self.folder / "answers" / question.digest

    def _gather(self, question: Question) -> AnswerSet:
        return gather(question, sorted(self._place(question).glob("*.answer")))

    def _take_in(self, asked: Sequence[Question], paths: Iterable[PathLike]) -> tuple[str, ...]:
        """Store the answers to the last question, and return a sentence for each file that answers none of them."""
        problems: list[str] = []
        place = self._place(asked[-1])
        place.mkdir(exist_ok=True)
        for path in paths:
            one = gather(asked[-1], [path])
            if one.problems and any(gather(question, [path]).answers for question in asked[:-1]):
                continue
            problems += one.problems
            if one.answers:
                content = Path(path).read_bytes()
                with open_atomic(place / f"{hashlib.sha256(content).hexdigest()}.answer") as file:
                    file.write(content)
        return tuple(problems)


def _is_again(path: Path) -> bool:
    """Return whether a question repeats the one before it, which is then given up."""
    return path.stem.endswith("-again")
