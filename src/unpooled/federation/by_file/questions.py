"""A question by file: who is asked, with which one-time keys, at which price, and any content.

The digest of a question covers everything in it except the coordinator's signature, and so also the digest of the
question before it. All masks depend on the digest, so two members who saw different questions have different masks.

A one-time key is an X25519 key of a site for one question. Its public half is signed with the site's long-term key, so
that a coordinator can only pass it on. A site sends the first one in a file of its own (an enrolment), and each further
one with an answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from ..._base import files
from ..._base.files import FileError, PathLike
from ..._base.plain_json import encode_canonical, encode_header
from ..._base.text import quote
from ...summaries.contents import is_digest
from ..secure.keys import Identity, TrustError, check_hex, check_name, public_bytes, verify
from ..secure.masks import FEWEST_MEMBERS

_KEY_PURPOSE = "one-time key by file"
_QUESTION_PURPOSE = "question by file"


@dataclass(frozen=True)
class OneTimeKey:
    """The public half of a site's key for one question, signed with the site's long-term key.

    Attributes
    ----------
    site : the name of the site
    identity : its long-term public key
    key : the one-time public key, X25519, hexadecimal
    after : the digest of the question whose answer brought the key; "" for an enrolment
    signature : Ed25519, hexadecimal
    """

    site: str
    identity: str
    key: str
    after: str
    signature: str

    def __post_init__(self) -> None:
        check_name(self.site, "the name of a site")
        public_bytes(self.identity)
        check_hex(self.key, 32, "one-time key")
        check_hex(self.signature, 64, "signature")
        if self.after != "" and not is_digest(self.after):
            raise ValueError(f"after must be the digest of a question, got {quote(self.after)}")

    @classmethod
    def sign(cls, site: str, identity: Identity, key: bytes, after: str = "") -> OneTimeKey:
        """Return the signed key of a site."""
        signature = identity.sign(_KEY_PURPOSE, encode_canonical([site, key.hex(), after]))
        return cls(site, identity.public, key.hex(), after, signature.hex())

    def check(self) -> None:
        """Raise a TrustError unless the key is signed with the long-term key beside it."""
        content = encode_canonical([self.site, self.key, self.after])
        if not verify(self.identity, _KEY_PURPOSE, content, bytes.fromhex(self.signature)):
            raise TrustError(f"the one-time key of {self.site} is not signed with the long-term key of this site")

    @classmethod
    def from_dict(cls, content: Any) -> OneTimeKey:
        """Return the key in a header; a ValueError says what is wrong with it."""
        try:
            return cls(**content)
        except TypeError:
            raise ValueError(f"it does not hold a valid one-time key: {quote(content)}") from None

    def save(self, path: PathLike) -> None:
        """Write an enrolment file."""
        files.write(path, "enrolment", asdict(self), {})

    @classmethod
    def load(cls, path: PathLike) -> OneTimeKey:
        """Read an enrolment file and check its signature."""
        header, arrays = files.read(path, "enrolment")
        try:
            with files.open_content(header, arrays, "enrolment") as (entries, _):
                key = cls(*(entries[name] for name in ("site", "identity", "key", "after", "signature")))
        except ValueError as error:
            raise FileError(f"{path} does not hold a valid enrolment: {error}") from None
        key.check()
        return key


@dataclass(frozen=True, eq=False)
class Question:
    """A question to the members of a study, each of which answers with a vector of whole numbers.

    Parameters
    ----------
    study : its name
    number : 1 for the first question of the study, and one more for each that follows
    before : the digest of the question before; "" for the first
    members : the one-time key of each member for this question, with its name and long-term key
    colluding : t, the number of members that may work together without the noise of the others becoming too small
    size : the length of an answer
    price : μ of this question
    study_price : μ of the whole study
    content, arrays : what is asked, in any form
    coordinator : the long-term public key of the coordinator; "" if it has none
    signature : of the coordinator, hexadecimal
    """

    study: str
    number: int
    before: str
    members: tuple[OneTimeKey, ...]
    colluding: int
    size: int
    price: float
    study_price: float
    content: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    coordinator: str = ""
    signature: str = ""

    def __post_init__(self) -> None:
        check_name(self.study, "the name of a study")
        for name, least in (("number", 1), ("colluding", 1), ("size", 1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value < 2**31:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {quote(value)}")
        if not (self.before == "" if self.number == 1 else is_digest(self.before)):
            raise ValueError(f"before must be the digest of the question before, got {quote(self.before)}")
        for name in ("price", "study_price"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not (isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a number of at least 0, got {quote(value)}")
            object.__setattr__(self, name, float(value))
        if self.price > self.study_price:
            raise ValueError(f"price must be at most study_price, which is {self.study_price:g}, got {self.price:g}")
        # The content as every reader will see it, so that all of them compute the same digest.
        object.__setattr__(self, "content", json.loads(encode_header(dict(self.content))))
        for name in self.arrays:
            check_name(name, "the name of an array")  # a line break in it would let two questions have one digest
        object.__setattr__(self, "arrays", {name: _normalize(a) for name, a in self.arrays.items()})
        object.__setattr__(self, "members", tuple(sorted(self.members, key=lambda member: member.site)))
        self._check_members()
        if self.coordinator != "":
            public_bytes(self.coordinator)
        elif self.signature != "":
            raise ValueError("the question has a signature, and names no coordinator whose it is")

    def _check_members(self) -> None:
        if len(self.members) < FEWEST_MEMBERS:
            raise TrustError(f"a question needs at least {FEWEST_MEMBERS} members, and this has {len(self.members)}")
        if self.colluding >= len(self.members):
            raise TrustError(
                f"a question to {len(self.members)} members must allow for fewer than that who work together, "
                f"got colluding = {self.colluding}"
            )
        for i, member in enumerate(self.members):
            for other in self.members[:i]:
                if other.site == member.site:
                    raise TrustError(f"{member.site} is listed twice among the members")
                for kind, same in (
                    ("long-term key", public_bytes(other.identity) == public_bytes(member.identity)),
                    ("one-time key", other.key == member.key),
                ):
                    if same:
                        raise TrustError(f"{other.site} and {member.site} have the same {kind}: each needs its own")
        for member in self.members:
            member.check()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members, in order."""
        return tuple(member.site for member in self.members)

    def member(self, name: str) -> OneTimeKey:
        """Return the entry of a member; a TrustError says that it is none."""
        for member in self.members:
            if member.site == name:
                return member
        raise TrustError(f"{name} is not among the members of this question, which are {', '.join(self.names)}")

    @cached_property
    def members_digest(self) -> str:
        """The SHA-256 over names, long-term keys and one-time keys of all members."""
        content = [[member.site, public_bytes(member.identity).hex(), member.key] for member in self.members]
        return hashlib.sha256(encode_canonical(content)).hexdigest()

    @cached_property
    def digest(self) -> str:
        """The SHA-256 over everything except the signature."""
        return files.digest(self._header(), dict(self.arrays))

    def _header(self) -> dict[str, Any]:
        return {
            "study": self.study,
            "number": self.number,
            "before": self.before,
            "members": [asdict(member) for member in self.members],
            "colluding": self.colluding,
            "size": self.size,
            "price": self.price,
            "study_price": self.study_price,
            "content": self.content,
            "coordinator": self.coordinator,
        }

    def sign(self, coordinator: Identity) -> Question:
        """Return this question with the key and the signature of a coordinator."""
        named = replace(self, coordinator=coordinator.public)
        return replace(named, signature=coordinator.sign(_QUESTION_PURPOSE, named.digest.encode()).hex())

    def check_signature(self) -> None:
        """Raise a TrustError if the question names a coordinator who did not sign it."""
        if not self.coordinator:
            return
        try:
            signature = check_hex(self.signature, 64, "signature")
        except ValueError:
            signature = bytes(64)
        if not verify(self.coordinator, _QUESTION_PURPOSE, self.digest.encode(), signature):
            raise TrustError(
                f"question {self.number} of {self.study} is not signed with the key of the coordinator that it names"
            )

    def describe(self) -> str:
        """Describe the question in words, without its content."""
        few = "one member works" if self.colluding == 1 else f"{self.colluding} members work"
        signer = f"signed with the key {self.coordinator}" if self.coordinator else "not signed by any coordinator"
        return "\n".join(
            [
                f"Question {self.number} of the study {self.study}, {signer}.",
                f"Members: {', '.join(self.names)}. Each answers with whole numbers ({self.size}) under masks; only "
                "the sum over all members can be read.",
                f"The noise is enough as long as no more than {few} together with the coordinator.",
                f"It costs μ = {self.price:g}, and the whole study costs μ = {self.study_price:g}.",
            ]
        )

    def following(
        self, keys: Sequence[OneTimeKey], *, size: int, price: float, content: Mapping[str, Any], **more: Any
    ) -> Question:
        """Return the next question of the study, to the sites with these keys; it has yet to be signed."""
        return replace(
            self,
            number=self.number + 1,
            before=self.digest,
            members=tuple(keys),
            size=size,
            price=price,
            content=content,
            signature="",
            **{"arrays": {}, **more},
        )

    def save(self, path: PathLike) -> None:
        """Write the question to a file."""
        files.write(path, "question", {**self._header(), "signature": self.signature}, dict(self.arrays))

    @classmethod
    def load(cls, path: PathLike) -> Question:
        """Read a question and check every signature in it."""
        header, arrays = files.read(path, "question")
        try:
            with files.open_content(header, arrays, "question") as (entries, numbers):
                members = entries["members"]
                if not isinstance(members, list) or not isinstance(entries["content"], dict):
                    raise ValueError("its members must be a list, and its content an object")
                question = cls(
                    study=entries["study"],
                    number=entries["number"],
                    before=entries["before"],
                    members=tuple(map(OneTimeKey.from_dict, members)),
                    colluding=entries["colluding"],
                    size=entries["size"],
                    price=entries["price"],
                    study_price=entries["study_price"],
                    content=entries["content"],
                    arrays={name: numbers[name] for name in arrays},
                    coordinator=entries["coordinator"],
                    signature=entries["signature"],
                )
        except TrustError:
            raise
        except ValueError as error:
            raise FileError(f"{path} does not hold a valid question: {error}") from None
        question.check_signature()
        return question


def _normalize(array: np.ndarray) -> np.ndarray:
    """Return an array in the byte order of files, so that its digest is the same before and after."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
