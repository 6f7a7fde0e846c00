"""The site's own side: it is asked for a statistic of a study it has joined, and answers, or says no in a sentence.

Everything it decides by is its own: data, policy, ledger, log, key, the keys it has pinned and the yes of its people.

A site keeps nothing in memory that it needs. Studies, keys, approvals and the log of what has left are on its disk, so
a node may be a new process for every message.

Reasons stay at home. A refusal tells only what follows from the question. Reasons that follow from the rows go into the
site's own log.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ... import bases
from ..._base.files import FileError, PathLike, open_atomic
from ..._base.text import join_lines, quote
from ...gate import Gate, Log, LogError, PolicyError, Refused
from ...gate.gate import NothingSpent, content_of
from ...privacy import Overspend
from ...summaries.contents import is_digest
from ..secure.fixed_point import FixedPoint
from ..secure.keys import Attempt, NotTrusted, Offer
from ..secure.masks import Member
from ..study.study import ConfigError, Study
from ..wire.transport import Message, MessageError, as_array, as_file, refusal
from .config import Request, RequestError, Requests, SiteConfig, SiteData
from .questions import planned, statistic_of
from .statistics import Made, Statistic


class Declined(ValueError):
    """A no whose reason may be told: it follows from the question and from what the site has published."""

    def __init__(self, reason: str, **header: Any) -> None:
        super().__init__(reason)
        self.header = header


class Site:
    """One site of a federation; ``answer`` is all that a transport needs.

    Parameters
    ----------
    config : where it has what
    """

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        assert config.log is not None  # where nothing is said it is in the folder
        self.log = Log(config.log)
        self.requests = Requests(config.folder / "requests")
        self._member = None
        if config.identity is not None:
            self._member = Member(config.name, config.identity, config.peers, config.folder / "keys", config.fewest)
        self._joined = config.folder / "studies"
        self._studies: dict[str, Study] = {}
        self._data: SiteData | None = None
        self._one_at_a_time = threading.Lock()

    @classmethod
    def from_folder(cls, folder: PathLike) -> Site:
        """The site that ``site.toml`` in a folder describes."""
        return cls(SiteConfig.read(Path(folder)))

    @property
    def name(self) -> str:
        """By which the others know it."""
        return self.config.name

    def approve(self, study: str, by: str = "") -> Request:
        """Say yes to a study that waits, by the beginning of its digest; the log has an entry."""
        return self._decided(self.requests.approve(study, by))

    def deny(self, study: str, by: str = "") -> Request:
        """Say no to a study, also to one that was approved."""
        return self._decided(self.requests.deny(study, by))

    def _decided(self, request: Request) -> Request:
        self.log.append({"what": request.state, "study": request.study, "by": request.by})
        return request

    def answer(self, message: Message) -> Message:
        """The answer to any message; a refusal with one sentence is one too. Never an exception."""
        with self._one_at_a_time:
            try:
                return self._answer(message)
            except Exception as error:
                return self._no(message, error)

    def _answer(self, message: Message) -> Message:
        if message.kind == "join":
            return self._join(message)
        if message.kind == "ask":
            return self._asked(message)
        if message.kind == "open":
            return self._open(message)
        raise Declined(f"this site does not know what {quote(message.kind)} means")

    def _no(self, message: Message, error: Exception) -> Message:
        """A refusal that tells no more than may be told, with all of it in the log."""
        header: dict[str, Any] = {"site": self.name}
        public = isinstance(error, (Declined, NotTrusted, MessageError, NothingSpent))
        if isinstance(error, Declined):
            header |= error.header
        reason = join_lines(error) if public else _told(error)
        try:
            detail = f"{type(error).__name__}: {join_lines(error)[:1000]}"
            if not isinstance(error, Refused):  # of which the gate has made an entry
                study = message.header.get("study")
                about = study if isinstance(study, str) else quote(study)
                self.log.append({"what": "declined", "study": about[:64], "reason": reason[:500], "detail": detail})
            offer = self._next_offer(message)
        except Exception:
            offer = None  # a log that is broken, or a message that is: the reason goes out all the same
        return refusal(reason, **header, **({} if offer is None else {"offer": offer}))

    def _join(self, message: Message) -> Message:
        known = "basis" not in message.arrays  # a study that was brought before
        study = self._study(message.header.get("digest")) if known else self._study_in(message)
        config, rules = self.config, self.config.rules
        if self.name not in study.members:
            raise Declined(f"{self.name} is not among the members of the study")
        if reasons := rules.refusals(planned(study)):
            raise Declined("; ".join(reasons))
        if study.privacy is not None and config.ledger is None:
            raise Declined("the study is private, and this site keeps no ledger")
        if study.secure:
            missing = [name for name in study.members if name not in config.pinned]
            if missing:
                raise Declined(f"the sums are to be secure, and this site has no key pinned for {', '.join(missing)}")
        if not known:
            self._keep(study, message)
        if rules.asks:
            request = self.requests.ask(study.digest, study.describe())
            if request.state == "denied":
                raise Declined("the people of this site said no to the study")
            if request.state == "pending":
                return Message("waiting", {"site": self.name, "study": study.digest})
        header = {"site": self.name, "study": study.digest}
        return Message("joined", header | self._offer(study, message))

    def _study_in(self, message: Message) -> Study:
        try:
            basis = as_file(message.file("basis"), bases.load)
            study = Study.from_definition(message.header.get("study"), basis)
        except (MessageError, FileError, ValueError, TypeError) as error:
            raise Declined(f"the study cannot be read: {join_lines(error)}") from None
        if message.header.get("digest") != study.digest:
            raise Declined("the study is not the one that its digest says")
        return study

    def _keep(self, study: Study, message: Message) -> None:
        """On disk, so that a restart changes nothing."""
        self._joined.mkdir(parents=True, exist_ok=True)
        path = self._joined / f"{study.digest}.study"
        if not path.exists():
            with open_atomic(path) as file:
                file.write(message.to_bytes())
        self._studies[study.digest] = study

    def _study(self, digest: Any) -> Study:
        if is_digest(digest) and digest not in self._studies:
            path = self._joined / f"{digest}.study"
            if path.exists():
                self._studies[digest] = self._study_in(Message.from_bytes(path.read_bytes()))
        if not isinstance(digest, str) or digest not in self._studies:
            raise Declined("this site has not joined that study", unknown=True)
        return self._studies[digest]

    def _asked(self, message: Message) -> Message:
        study = self._study(message.header.get("study"))
        gate = self._gate(study)
        statistic = statistic_of(study, message)
        asked_for = self._left(study) | {statistic.digest}
        if len(asked_for) > study.exchanges:
            raise Declined(f"the study asks for at most {study.exchanges} statistics, and this would be one more")
        offers = self._offers(study, message) if study.secure else []
        attempt = _attempt(study, message.header.get("attempt")) if study.secure else None  # before anything is charged
        made = statistic.made(self._rows(gate))
        header: dict[str, Any] = {"study": study.digest, "statistic": statistic.digest, "site": self.name}
        header["attempt"] = message.header.get("attempt")
        if attempt is not None:
            words = self._words(study, statistic, made, attempt, offers)
            answer = Message("answer", header | self._offer(study, message), {"words": words})
        else:
            answer = Message("answer", header, {"file": as_array(content_of(made.part.save))})
        name = f"{study.name} {study.digest}/{statistic.digest}"
        try:
            with made.spending or nullcontext() as spending:
                entry = gate.let_leave(answer.to_bytes(), made.release, name)
                if spending is not None:
                    spending.note(n_rows=made.part.n_rows, sha256=entry.event["sha256"])
        except Refused:
            public = gate.policy.refusals(planned(study))
            raise Declined("; ".join(public) or _RECORDS) from None
        if len(asked_for) == study.exchanges:
            self._rows(gate).forget()
        return answer

    def _gate(self, study: Study) -> Gate:
        rules = self.config.rules
        request = self.requests.get(study.digest) if rules.asks else None
        approved = request is not None and request.state == "approved"
        if rules.asks and not approved:  # before anything is computed, or charged for
            raise Declined("the people of this site have not said yes to the study")
        return Gate(rules, self.log, lambda _: approved)

    def _left(self, study: Study) -> set[str]:
        """The statistics of a study that have left, by the log."""
        names = [str(entry.event.get("file")) for entry in self.log.entries() if entry.event.get("what") == "left"]
        places = [name.rpartition(" ")[2].split("/") for name in names]
        return {place[1] for place in places if place[0] == study.digest and len(place) == 2}

    def _rows(self, gate: Gate) -> SiteData:
        config = self.config
        if self._data is None:
            cache = config.folder / "cache"
            self._data = SiteData(config.data, gate.policy, config.ledger, config.weight, cache)
        self._data.policy = gate.policy
        return self._data

    def _offers(self, study: Study, message: Message) -> list[Offer]:
        """The keys of all whom the sum is over, each checked; a refusal names the one that is wrong."""
        given, pinned = message.header.get("offers"), self.config.pinned
        offers = [Offer.from_dict(item) for item in given] if isinstance(given, list) else []
        sites = {offer.site for offer in offers}
        if not {self.name} <= sites <= set(study.members) or len(sites) < study.quorum:
            raise Declined("the sum is to be over other sites than the study says")
        for offer in offers:
            try:
                offer.check(pinned.get(offer.site, ""))
            except NotTrusted as error:
                raise Declined(str(error), about=offer.site) from None
        return offers

    def _words(
        self, study: Study, statistic: Statistic, made: Made, attempt: Attempt, offers: list[Offer]
    ) -> np.ndarray:
        words = FixedPoint(len(offers), study.fraction_bits).encode(*statistic.vector(made.part))
        return self._as_member().masked(attempt, offers, words, statistic.digest)

    def _open(self, message: Message) -> Message:
        """The secrets of this site's locks, once the server has a message of every member."""
        study = self._study(message.header.get("study"))
        gate = self._gate(study)  # whoever has said no since then keeps the sum locked
        if reasons := gate.policy.refusals(planned(study)):
            raise Declined("; ".join(reasons))
        given = message.header.get("attempt")
        attempt = _attempt(study, given)
        locks = self._as_member().open(attempt)
        self.log.append({"what": "opened", "study": study.digest, "attempt": str(attempt)})
        return Message("opened", {"study": study.digest, "attempt": given, "site": self.name, "locks": locks})

    def _offer(self, study: Study, message: Message) -> dict[str, Any]:
        """A signed key for the next attempt, where sums are secure."""
        if not study.secure:
            return {}
        return {"offer": self._as_member().offer(_attempt(study, message.header.get("next"))).to_dict()}

    def _as_member(self) -> Member:
        if self._member is None:
            raise Declined("the sums are to be secure, and this site has no key")
        return self._member

    def _next_offer(self, message: Message) -> Any:
        """After a no: for the next attempt, which may be without whoever was in the way."""
        study = self._study(message.header.get("study")) if message.kind == "ask" else None
        return None if study is None or not study.secure else self._offer(study, message)["offer"]


def _attempt(study: Study, given: Any) -> Attempt:
    try:
        return Attempt(study.digest, given["round"], given["name"])
    except (TypeError, KeyError, ValueError):
        raise Declined("the message does not say which attempt it is") from None


def _told(error: Exception) -> str:
    """What may be told of an error that may say something about the rows, or about this machine."""
    for kinds, sentence in _SENTENCES:
        if isinstance(error, kinds):
            return sentence
    return "this site could not work the answer out; its log says why"


_RECORDS = "a rule of this site about its records does not let the answer leave; its log says which"
_SENTENCES: list[tuple[tuple[type[Exception], ...], str]] = [
    ((Overspend,), "the privacy budget of this site does not allow it"),
    ((LogError,), "the log or the ledger of this site is not whole or cannot be written, so nothing leaves"),
    ((PolicyError, ConfigError, RequestError), "the policy or the configuration of this site cannot be read"),
    ((ImportError,), "this site lacks a library that the study needs; its log says which"),
    ((MemoryError,), "this site does not have enough memory for the answer"),
]
