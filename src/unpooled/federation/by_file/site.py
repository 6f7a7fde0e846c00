"""A site that answers questions by file: it checks a question, masks its numbers, and never masks twice with one key.

The private half of a one-time key is used for one question, whose digest is on disk before anything of an answer is.
The answer is stored at the site, and the private half is removed. If the same question comes again, the site sends the
stored bytes, and computes nothing.

A site that was restored from a backup may hold a key again that it has already used. Two answers under one key would
give their difference away, so the key is only used if nothing speaks against it: the file of the key must be the very
one that was written when the key was offered (a restored file is a new one), and the site's log, which may live
elsewhere, must not have the key. If a whole disk was set back, nothing on it can tell; people who have done so must
discard all keys (:meth:`FileSite.enrol`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..._base.files import PathLike
from ..._base.text import quote
from ...gate.gate import LOG_NAME, Log
from ..secure.keys import (
    Identity,
    SiteStore,
    TrustError,
    add_own_key,
    check_name,
    file_name,
    import_primitives,
    public_bytes,
)
from ..secure.masks import FEWEST_MEMBERS
from ..secure.pinned import KEY_NAME, read_pinned
from ..site.config import CONFIG_NAME, SiteConfig
from .answers import Answer, mask
from .questions import OneTimeKey, Question

Compute = Callable[[Question], Any]  #: returns the whole numbers that answer a question


class StaleKeyError(TrustError):
    """A question for which a site has no key any more: it has to offer a new one, by an enrolment file."""


class FileSite:
    """A site as a member of studies by file.

    Parameters
    ----------
    name : the name by which the other members know it
    identity : its long-term key
    pinned : the long-term public keys of the sites that it trusts, by name
    folder : the folder for one-time keys and answers; None keeps them in memory
    log : the site's log; None means that nothing is logged
    colluding : the fewest members that may work together which a question must allow for
    fewest : the fewest members of a question that it answers; at least 3
    """

    def __init__(
        self,
        name: str,
        identity: Identity,
        pinned: Mapping[str, str],
        folder: PathLike | None = None,
        log: Log | None = None,
        colluding: int = 1,
        fewest: int = FEWEST_MEMBERS,
    ) -> None:
        check_name(name, "the name of a site")
        for what, value, least in (("colluding", colluding, 1), ("fewest", fewest, FEWEST_MEMBERS)):
            if type(value) is not int or value < least:
                raise ValueError(f"{what} must be a whole number of at least {least}, got {quote(value)}")
        self.name, self.colluding, self.fewest = name, colluding, fewest
        self.pinned = add_own_key(pinned, name, identity)
        self.log = log
        self._identity, self._store = identity, SiteStore(folder)

    @classmethod
    def from_folder(cls, folder: Path) -> FileSite:
        """Return the site of a folder with a key, pinned keys and, if there is one, a ``site.toml``."""
        if (folder / CONFIG_NAME).exists():
            config = SiteConfig.read(folder)
            if config.identity is None:
                raise TrustError(f'{folder / CONFIG_NAME} names no key: add key = "{KEY_NAME}"')
            assert config.log is not None  # the default is a file in the folder
            rules = {"colluding": config.colluding, "fewest": config.fewest}
            return cls(config.name, config.identity, config.pinned_keys, folder / "keys", Log(config.log), **rules)
        if not (folder / KEY_NAME).exists():
            raise TrustError(f"{folder} holds no key of a site: make one with `unpooled keys init {folder}`")
        identity, pinned = Identity.load(folder / KEY_NAME), read_pinned(folder)
        return cls(_find_own_name(folder, identity, pinned), identity, pinned, folder / "keys", Log(folder / LOG_NAME))

    def enrol(self, *, discard: bool = False) -> OneTimeKey:
        """Return a new one-time key, for the first question of a study or after the loss of a key.

        Keys that were restored from a backup are removed.

        Parameters
        ----------
        discard : remove all one-time keys that were offered before, because this machine was set back to an old state
        """
        for name in self._store.names("once-", ".key"):
            if discard or not self._is_as_written(name.removesuffix(".key")):
                self._store.remove(name)
        return self._offer("")

    def answer(self, question: Question, compute: Compute) -> bytes:
        """Return the bytes of the answer to a question; the same bytes if it was answered before.

        Parameters
        ----------
        question : the question
        compute : returns the whole numbers; called only if the question passes every check, and not for stored answers
        """
        self.check(question)
        place = _answer_name(question)
        own = question.member(self.name).key
        stored = self._store.read(place)
        if stored is not None:
            self._store.remove(f"once-{own}.key")  # after a crash
            return stored
        private = self._find_private(question, own)
        words, confirmations = mask(question, self.name, private, compute(question))
        if not self._store.claim(f"once-{own}.used", question.digest.encode()):
            raise self._stale_key(question)
        self._store.write(self._study_name(question), json.dumps(self._describe_study(question)).encode())
        answer = Answer(
            study=question.study,
            number=question.number,
            question=question.digest,
            members=question.members_digest,
            site=self.name,
            next=self._offer(question.digest),
            confirmations=confirmations,
            words=words,
        )
        content = answer.to_bytes(self._identity)
        if self.log is not None:
            event = {"study": question.study, "question": question.digest, "number": question.number, "key": own}
            sha256 = hashlib.sha256(content).hexdigest()
            self.log.append({"what": "answered", **event, "price": question.price, "sha256": sha256})
        self._store.write(place, content)
        self._store.remove(f"once-{own}.key")
        return content

    def check(self, question: Question) -> None:
        """Raise a TrustError, with the reason in one sentence, unless the site may answer the question."""
        question.check_signature()
        own = question.member(self.name)
        if public_bytes(own.identity) != public_bytes(self._identity.public):
            raise TrustError(f"the question names another long-term key for {self.name} than its own")
        if len(question.members) < self.fewest:
            raise TrustError(
                f"{self.name} answers questions to at least {self.fewest} members, and this one has "
                f"{len(question.members)}"
            )
        if question.colluding < self.colluding:
            raise TrustError(
                f"{self.name} answers only if {self.colluding} members may work together, and the noise of this "
                f"question allows for {question.colluding}: ask for colluding = {self.colluding}"
            )
        for member in question.members:
            if member.site not in self.pinned:
                raise TrustError(f"{member.site} is among the members, but {self.name} has pinned no key for it")
            if public_bytes(self.pinned[member.site]) != public_bytes(member.identity):
                raise TrustError(f"the key of {member.site} in the question is not the one that {self.name} has pinned")
        self._check_study(question)

    def _check_study(self, question: Question) -> None:
        """Compare with the last question of the study that was answered here."""
        stored = self._store.read(self._study_name(question))
        if stored is None or self._store.read(_answer_name(question)) is not None:
            return
        last, now = json.loads(stored), self._describe_study(question)
        if now["question"] == last["question"]:
            return  # killed while it answered: its key says the rest
        if now["number"] <= last["number"]:
            raise TrustError(
                f"{self.name} has answered question {last['number']} of {question.study}, and this is question "
                f"{now['number']} with another content"
            )
        for what in ("coordinator", "study_price"):
            if now[what] != last[what]:
                name = what.replace("study_price", "price of the whole study")
                raise TrustError(f"the {name} has changed since question {last['number']} of {question.study}")
        if now["spent"] > now["study_price"] ** 2 * (1 + 1e-9):
            raise TrustError(
                f"with this question the answers of {self.name} to {question.study} would cost "
                f"μ = {math.sqrt(now['spent']):.4g}, and the whole study may cost {now['study_price']:.4g}"
            )

    def _offer(self, after: str) -> OneTimeKey:
        """Create a key, store its private half, and return the signed public half."""
        private = import_primitives("asymmetric.x25519").X25519PrivateKey.generate()
        public = private.public_key().public_bytes_raw()
        name = f"once-{public.hex()}"
        self._store.write(f"{name}.key", private.private_bytes_raw())
        self._store.write(f"{name}.stamp", self._store.stamp(f"{name}.key").encode())
        return OneTimeKey.sign(self.name, self._identity, public, after)

    def _find_private(self, question: Question, own: str) -> Any:
        """Return the private half of the key that a question names, if it was certainly never used."""
        name = f"once-{own}"
        used_for = self._store.read(f"{name}.used")
        if used_for is not None:
            self._store.remove(f"{name}.key")  # after a crash
        if used_for is not None and used_for != question.digest.encode():
            raise StaleKeyError(
                f"{self.name} has used its one-time key in question {question.number} of {question.study} for another "
                "question: make the question with the key that came with its last answer"
            )
        raw = self._store.read(f"{name}.key")
        logged = self.log is not None and any(
            entry.event.get("what") == "answered" and entry.event.get("key") == own for entry in self.log.entries()
        )
        if used_for is not None or raw is None or logged or not self._is_as_written(name):
            raise self._stale_key(question)
        return import_primitives("asymmetric.x25519").X25519PrivateKey.from_private_bytes(raw)

    def _is_as_written(self, name: str) -> bool:
        """Return whether the file of a key is the one that was written here, and not a restored one."""
        return self._store.read(f"{name}.stamp") == self._store.stamp(f"{name}.key").encode()

    def _stale_key(self, question: Question) -> StaleKeyError:
        return StaleKeyError(
            f"the one-time key of {self.name} in question {question.number} of {question.study} is gone or was used "
            "already, perhaps because this site was restored from a backup or moved: send the coordinator a new "
            "enrolment file, so that a new question can be asked"
        )

    def _describe_study(self, question: Question) -> dict[str, Any]:
        """Describe a study as it is once this question is answered; ``spent`` are the squares of μ, which add up."""
        stored = self._store.read(self._study_name(question))
        before = 0.0 if stored is None else json.loads(stored)["spent"]
        facts = {name: getattr(question, name) for name in ("number", "coordinator", "study_price")}
        return {**facts, "question": question.digest, "spent": before + question.price**2}

    def _study_name(self, question: Question) -> str:
        return file_name(self.name, question.study, "study")


def _find_own_name(folder: Path, identity: Identity, pinned: Mapping[str, str]) -> str:
    """Return the name under which a site has pinned its own key."""
    for name, key in pinned.items():
        if public_bytes(key) == public_bytes(identity.public):
            return name
    raise TrustError(f"the pinned keys in {folder} do not hold the site's own: run `unpooled keys init` there")


def _answer_name(question: Question) -> str:
    return f"{question.digest}.answer"
