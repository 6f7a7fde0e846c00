"""An answer by file: whole numbers under masks that cancel when a coordinator adds the files of all members.

Every two members i < j (by name) share a secret: X25519 of their one-time keys, then HKDF-SHA256, which binds the
study, the digest of the question, all members with their keys, and the pair. Half of it is the key of a ChaCha20
stream, the mask A(i, j); the other half is a confirmation that both put into their files. Site k sends

    x_k + Σ_{j > k} A(k, j) - Σ_{i < k} A(i, k)  modulo 2⁶⁴.

Over all members the masks cancel and Σ x remains. The confirmations of a pair are equal if the two saw the same
question and keys, so a swapped key is noticed and named before anything is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ..._base import files
from ..._base.files import FileError, PathLike
from ..._base.plain_json import encode_canonical
from ...summaries.contents import is_digest
from ..secure.keys import Identity, TrustError, check_hex, check_name, import_primitives, public_bytes, verify
from ..secure.masks import derive_secret
from .questions import OneTimeKey, Question

_PURPOSE = "answer by file"


class AnswerError(ValueError):
    """Files of answers that do not give the sum: some are missing, or do not belong to the question."""


def largest_number(n_members: int) -> int:
    """Return the largest magnitude that one member may send, so that no sum over all members overflows."""
    return int((2**63 - 1) // n_members)


def mask(question: Question, site: str, private: Any, whole: Any) -> tuple[np.ndarray, dict[str, str]]:
    """Return whole numbers under the masks of a site, and its confirmation for each other member.

    Parameters
    ----------
    question : the question
    site : the name of the site
    private : the private half of its one-time key
    whole : a vector of whole numbers, one for each entry of an answer
    """
    words = _check_whole(whole, question)
    if question.member(site).key != private.public_key().public_bytes_raw().hex():
        raise TrustError(f"the one-time key of {site} in this question is not the one that it offered")
    words, confirmations = words.copy(), {}
    for peer in question.members:
        if peer.site != site:
            secret = _derive(question, site, private, peer)
            stream = _make_stream(secret[:32], len(words))
            words = words + stream if site < peer.site else words - stream
            confirmations[peer.site] = secret[32:].hex()
    return words, confirmations


def _derive(question: Question, site: str, private: Any, peer: OneTimeKey) -> bytes:
    info = ["unpooled masks by file 1", question.study, question.digest, *sorted((site, peer.site))]
    return derive_secret(
        private, bytes.fromhex(peer.key), peer.site, bytes.fromhex(question.members_digest), encode_canonical(info)
    )


def _make_stream(secret: bytes, n: int) -> np.ndarray:
    ciphers = import_primitives("ciphers")
    # Each secret is used for one stream only, so the nonce may be constant.
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(secret, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * n)), dtype="<u8").astype(np.uint64)


def _check_whole(whole: Any, question: Question) -> np.ndarray:
    """Return whole numbers modulo 2⁶⁴, or raise a ValueError."""
    numbers = np.asarray(whole)
    if numbers.shape != (question.size,):
        raise ValueError(f"the question asks for {question.size} numbers, and the answer has shape {numbers.shape}")
    limit = largest_number(len(question.members))
    if numbers.dtype.kind == "f":
        if not np.all(np.isfinite(numbers)) or not np.all(numbers == np.rint(numbers)):
            raise ValueError("an answer by file must hold whole numbers, and at least one of these is not")
    elif numbers.dtype.kind not in "iu":
        raise ValueError(f"an answer by file must hold whole numbers, got {numbers.dtype}")
    if any(abs(int(extreme)) > limit for extreme in (numbers.min(), numbers.max())):
        raise ValueError(f"the numbers of one of {len(question.members)} members must be at most {limit} in magnitude")
    return numbers.astype(np.int64).view(np.uint64)


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer of one site to one question.

    Attributes
    ----------
    study, number, question, members : which question it answers: name, number, digest, digest of its members
    site : the name of the site
    next : its one-time key for the next question
    confirmations : for each other member, a text that this member must have as well
    words : the masked numbers
    signature : Ed25519 over all of this, hexadecimal
    """

    study: str
    number: int
    question: str
    members: str
    site: str
    next: OneTimeKey
    confirmations: Mapping[str, str]
    words: np.ndarray
    signature: str = ""

    def __post_init__(self) -> None:
        check_name(self.study, "the name of a study")
        check_name(self.site, "the name of a site")
        if type(self.number) is not int or not is_digest(self.question) or not is_digest(self.members):
            raise ValueError("it does not say which question it answers")
        if self.next.site != self.site or self.next.after != self.question:
            raise ValueError("its key for the next question does not belong to it")
        if not isinstance(self.confirmations, dict):
            raise ValueError("its confirmations must be an object")
        for text in self.confirmations.values():
            check_hex(text, 32, "confirmation")
        if self.words.dtype != np.uint64 or self.words.ndim != 1:
            raise ValueError("its words must be unsigned whole numbers of 64 bits, in a vector")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members that it was made for, in order."""
        return tuple(sorted({*self.confirmations, self.site}))

    def describe(self) -> str:
        """Describe the answer in words."""
        return "\n".join(
            [
                f"Answer of {self.site} to question {self.number} of the study {self.study}.",
                f"It holds whole numbers ({len(self.words)}) under masks: they say nothing without the answers of "
                f"{', '.join(sorted(self.confirmations))}.",
                f"It also offers {self.site}'s one-time key for the next question.",
            ]
        )

    def _header(self) -> dict[str, Any]:
        return {
            "study": self.study,
            "number": self.number,
            "question": self.question,
            "members": self.members,
            "site": self.site,
            "next": asdict(self.next),
            "confirmations": dict(self.confirmations),
        }

    def _signed_content(self) -> bytes:
        return files.digest(self._header(), {"words": self.words}).encode()

    def to_bytes(self, identity: Identity) -> bytes:
        """Return the bytes of the file, signed with the site's long-term key."""
        signature = identity.sign(_PURPOSE, self._signed_content()).hex()
        return files.to_bytes("answer", {**self._header(), "signature": signature}, {"words": self.words})

    def is_signed_by(self, identity: str) -> bool:
        """Return whether the site with this long-term key signed the answer."""
        return verify(identity, _PURPOSE, self._signed_content(), bytes.fromhex(self.signature))

    def equals(self, other: Answer) -> bool:
        """Return whether two answers have the same content."""
        return self._signed_content() == other._signed_content()

    @classmethod
    def load(cls, path: PathLike) -> Answer:
        """Read an answer; whose signature it has is checked when answers are gathered."""
        header, arrays = files.read(path, "answer")
        try:
            with files.open_content(header, arrays, "answer") as (entries, numbers):
                answer = cls(
                    study=entries["study"],
                    number=entries["number"],
                    question=entries["question"],
                    members=entries["members"],
                    site=entries["site"],
                    next=OneTimeKey.from_dict(entries["next"]),
                    confirmations=entries["confirmations"],
                    words=numbers["words"],
                    signature=check_hex(entries["signature"], 64, "signature").hex(),
                )
        except ValueError as error:
            raise FileError(f"{path} does not hold a valid answer: {error}") from None
        return answer


@dataclass(frozen=True, eq=False)
class AnswerSet:
    """The answers to one question so far.

    Attributes
    ----------
    question : the question
    answers : the answers that belong to it, by site
    problems : a sentence for each file that does not, and for each pair of members whose keys do not agree
    """

    question: Question
    answers: Mapping[str, Answer]
    problems: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The members without an answer that can be added."""
        return tuple(name for name in self.question.names if name not in self.answers)

    @property
    def keys(self) -> dict[str, OneTimeKey]:
        """The one-time keys for the next question of all members that have answered."""
        return {name: answer.next for name, answer in self.answers.items()}

    def total(self) -> np.ndarray:
        """Return the sum of the whole numbers of all members; raise an AnswerError unless it is complete."""
        reasons = list(self.problems)
        if self.missing:
            reasons.append(f"there is no answer yet from {', '.join(self.missing)}")
        if reasons:
            raise AnswerError(f"the answers to question {self.question.number} do not add up: {'; '.join(reasons)}")
        words = np.zeros(self.question.size, dtype=np.uint64)
        for answer in self.answers.values():
            words += answer.words
        return words.view(np.int64)


def gather(question: Question, paths: Iterable[PathLike]) -> AnswerSet:
    """Read the files of answers to a question and check each of them, and all of them against one another.

    Parameters
    ----------
    question : the question
    paths : of the files, in any order; the same answer may be there twice
    """
    answers: dict[str, Answer] = {}
    problems: list[str] = []
    twice: set[str] = set()
    for path in paths:
        name = Path(path).name
        try:
            answer = Answer.load(path)
        except FileError as error:
            problems.append(str(error))
            continue
        if problem := _find_problem(question, answer, name):
            problems.append(problem)
        elif not answers.setdefault(answer.site, answer).equals(answer):
            twice.add(answer.site)
    for site in sorted(twice):
        problems.append(f"{site} has sent two different answers to this question: ask its people, and ask anew")
        del answers[site]
    problems += _compare_confirmations(answers)
    problems += _find_repeated_keys(question, answers)
    return AnswerSet(question, dict(sorted(answers.items())), tuple(problems))


def _find_problem(question: Question, answer: Answer, name: str) -> str:
    """Say why an answer does not belong to a question; an empty text if it does."""
    if answer.study != question.study:
        return f"{name} belongs to the study {answer.study}, and not to {question.study}"
    if answer.site not in question.names:
        return f"{name} is from {answer.site}, which is not among the members: {', '.join(question.names)}"
    member = question.member(answer.site)
    if public_bytes(answer.next.identity) != public_bytes(member.identity):
        return f"{name} has another long-term key of {answer.site} than the question: the key was swapped"
    if not answer.is_signed_by(member.identity):
        return f"{name} is not signed with the key of {answer.site}: it was changed, or somebody else made it"
    if answer.question != question.digest:
        if answer.names != question.names:
            names = f"{', '.join(answer.names)} and not to {', '.join(question.names)}"
            return f"{name} answers a question to other members: to {names}"
        if answer.number != question.number:
            return f"{name} answers question {answer.number}, and not question {question.number}"
        return f"{name} answers another version of question {question.number}"
    if answer.names != question.names or len(answer.words) != question.size:
        return f"{name} does not hold {question.size} numbers and a confirmation for each other member"
    try:
        answer.next.check()
    except TrustError as error:
        return f"{name} cannot be used: {error}"
    return ""


def _compare_confirmations(answers: Mapping[str, Answer]) -> list[str]:
    """Return a sentence for each site, or pair of sites, whose keys for the masks do not agree with the others'."""
    said = {name: answer.confirmations for name, answer in answers.items()}
    wrong = [(a, b) for a, b in combinations(sorted(said), 2) if said[a][b] != said[b][a]]
    for site in sorted(answers):
        pairs = [pair for pair in wrong if site in pair]
        if len(pairs) == len(wrong) == len(answers) - 1 >= 2:
            return [f"{site} does not share its keys with any other member: a key of {site} was swapped"]
    return [f"{a} and {b} have used different keys for their mask: a key was swapped" for a, b in wrong]


def _find_repeated_keys(question: Question, answers: Mapping[str, Answer]) -> list[str]:
    """Return a sentence for each key for the next question that was there before."""
    seen = {member.key: member.site for member in question.members}
    problems = []
    for site, answer in sorted(answers.items()):
        other = seen.setdefault(answer.next.key, "")
        if other:
            problems.append(f"{site} offers a key for the next question that {other} has offered before")
        seen[answer.next.key] = site
    return problems
