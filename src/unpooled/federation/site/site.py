"""The site of a study, which answers questions about the studies that it has joined, or refuses them with one sentence.

A site decides by its own data, policy, ledger, log, key and pinned keys, and by the approval of its staff.

A site depends on nothing in memory. Studies, keys, approvals and the log of its releases are on its disk, so a node may
be a new process for every message.

A refusal gives only reasons that follow from the question. Reasons that follow from the rows are written into the
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
from ..secure.keys import Attempt, Offer, TrustError
from ..secure.masks import Member
from ..study.study import ConfigError, Study
from ..wire.transport import Message, MessageError, as_array, as_file, make_refusal
from .config import Request, RequestError, Requests, SiteConfig, SiteData
from .questions import expected_release, read_statistic
from .statistics import SiteAnswer, Statistic


class DeclinedError(ValueError):
    """A refusal whose reason may be told, because it follows from the question and from public facts."""

    def __init__(self, reason: str, **header: Any) -> None:
        super().__init__(reason)
        self.header = header


class Site:
    """One site of a federation; a transport only needs its ``answer``.

    Parameters
    ----------
    config : the settings of the site
    """

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        assert config.log is not None  # the default is a file in the folder
        self.log = Log(config.log)
        self.requests = Requests(config.folder / "requests")
        self._member = None
        if config.identity is not None:
            self._member = Member(config.name, config.identity, config.peers, config.folder / "keys", config.fewest)
        self._studies_folder = config.folder / "studies"
        self._studies: dict[str, Study] = {}
        self._data: SiteData | None = None
        self._one_at_a_time = threading.Lock()

    @classmethod
    def from_folder(cls, folder: PathLike) -> Site:
        """Return the site with the settings of ``site.toml`` in a folder."""
        return cls(SiteConfig.read(Path(folder)))

    @property
    def name(self) -> str:
        """The name by which the other sites know it."""
        return self.config.name

    def approve(self, study: str, by: str = "") -> Request:
        """Approve a study by the start of its digest; the approval is logged."""
        return self._log_decision(self.requests.approve(study, by))

    def deny(self, study: str, by: str = "") -> Request:
        """Deny a study, even one that was approved before; the denial is logged."""
        return self._log_decision(self.requests.deny(study, by))

    def _log_decision(self, request: Request) -> Request:
        self.log.append({"what": request.state, "study": request.study, "by": request.by})
        return request

    def answer(self, message: Message) -> Message:
        """Return the answer to any message, which may be a refusal with one sentence; never raise an exception."""
        with self._one_at_a_time:
            try:
                return self._answer(message)
            except Exception as error:
                return self._refuse(message, error)

    def _answer(self, message: Message) -> Message:
        if message.kind == "join":
            return self._join(message)
        if message.kind == "ask":
            return self._answer_question(message)
        if message.kind == "open":
            return self._open(message)
        raise DeclinedError(f"this site does not know messages of the kind {quote(message.kind)}")

    def _refuse(self, message: Message, error: Exception) -> Message:
        """Return a refusal with no more than may be told, and log the full reason."""
        header: dict[str, Any] = {"site": self.name}
        public = isinstance(error, (DeclinedError, TrustError, MessageError, NothingSpent))
        if isinstance(error, DeclinedError):
            header |= error.header
        reason = join_lines(error) if public else _public_reason(error)
        try:
            detail = f"{type(error).__name__}: {join_lines(error)[:1000]}"
            if not isinstance(error, Refused):  # the gate has logged its own refusals
                study = message.header.get("study")
                about = study if isinstance(study, str) else quote(study)
                self.log.append({"what": "declined", "study": about[:64], "reason": reason[:500], "detail": detail})
            offer = self._next_offer(message)
        except Exception:
            offer = None  # even if the log or the message is broken, the reason is sent
        return make_refusal(reason, **header, **({} if offer is None else {"offer": offer}))

    def _join(self, message: Message) -> Message:
        known = "basis" not in message.arrays  # the server sends the basis only with a new study
        study = self._find_study(message.header.get("digest")) if known else self._read_study(message)
        config, rules = self.config, self.config.current_policy
        if self.name not in study.members:
            raise DeclinedError(f"{self.name} is not a member of the study")
        if reasons := rules.refusals(expected_release(study)):
            raise DeclinedError("; ".join(reasons))
        if study.privacy is not None and config.ledger is None:
            raise DeclinedError("the study is private, but this site has no ledger")
        if study.privacy is not None and study.secure and study.privacy.colluding < config.colluding:
            raise DeclinedError(
                f"the noise allows {study.privacy.colluding} sites to collude, and this site asks for at least "
                f"{config.colluding}"
            )
        if study.secure:
            missing = [name for name in study.members if name not in config.pinned_keys]
            if missing:
                raise DeclinedError(
                    f"the study has secure sums, but this site has pinned no key for {', '.join(missing)}"
                )
        if not known:
            self._keep(study, message)
        if rules.asks:
            request = self.requests.ask(study.digest, study.describe())
            if request.state == "denied":
                raise DeclinedError("the people of this site have denied the study")
            if request.state == "pending":
                return Message("waiting", {"site": self.name, "study": study.digest})
        header = {"site": self.name, "study": study.digest}
        return Message("joined", header | self._offer(study, message))

    def _read_study(self, message: Message) -> Study:
        try:
            basis = as_file(message.file("basis"), bases.load)
            study = Study.from_definition(message.header.get("study"), basis)
            if study.kind == "private":
                study.take_frame(message.arrays.get("rotation"), message.arrays.get("shift"))
        except (MessageError, FileError, ValueError, TypeError) as error:
            raise DeclinedError(f"the study cannot be read: {join_lines(error)}") from None
        if message.header.get("digest") != study.digest:
            raise DeclinedError("the study does not match its digest")
        return study

    def _keep(self, study: Study, message: Message) -> None:
        """Keep a study on disk, so that a restart changes nothing."""
        self._studies_folder.mkdir(parents=True, exist_ok=True)
        path = self._studies_folder / f"{study.digest}.study"
        if not path.exists():
            with open_atomic(path) as file:
                file.write(message.to_bytes())
        self._studies[study.digest] = study

    def _find_study(self, digest: Any) -> Study:
        if is_digest(digest) and digest not in self._studies:
            path = self._studies_folder / f"{digest}.study"
            if path.exists():
                self._studies[digest] = self._read_study(Message.from_bytes(path.read_bytes()))
        if not isinstance(digest, str) or digest not in self._studies:
            raise DeclinedError("this site has not joined that study", unknown=True)
        return self._studies[digest]

    def _answer_question(self, message: Message) -> Message:
        study = self._find_study(message.header.get("study"))
        gate = self._gate(study)
        statistic = read_statistic(study, message)
        asked_for = self._digests_sent(study) | {statistic.digest}
        if len(asked_for) > study.exchanges:
            raise DeclinedError(f"the study may ask for at most {study.exchanges} statistics, and this is one more")
        offers = self._read_offers(study, message) if study.secure else []
        # The attempt is checked before the ledger is charged.
        attempt = _read_attempt(study, message.header.get("attempt")) if study.secure else None
        result = statistic.compute(self._site_rows(gate))
        header: dict[str, Any] = {"study": study.digest, "statistic": statistic.digest, "site": self.name}
        header["attempt"] = message.header.get("attempt")
        if attempt is not None:
            words = self._mask_words(study, statistic, result, attempt, offers)
            answer = Message("answer", header | self._offer(study, message), {"words": words})
        else:
            answer = Message("answer", header, {"file": as_array(content_of(result.part.save))})
        name = f"{study.name} {study.digest}/{statistic.digest}"
        try:
            with result.spending or nullcontext() as spending:
                entry = gate.let_leave(answer.to_bytes(), result.release, name)
                if spending is not None:
                    spending.note(n_rows=result.part.n_rows, sha256=entry.event["sha256"])
        except Refused:
            public = gate.policy.refusals(expected_release(study))
            raise DeclinedError("; ".join(public) or _RECORDS) from None
        if len(asked_for) == study.exchanges:
            self._site_rows(gate).forget()
        return answer

    def _gate(self, study: Study) -> Gate:
        rules = self.config.current_policy
        request = self.requests.get(study.digest) if rules.asks else None
        approved = request is not None and request.state == "approved"
        if rules.asks and not approved:  # checked before anything is computed or charged
            raise DeclinedError("the people of this site have not approved the study")
        return Gate(rules, self.log, lambda _: approved)

    def _digests_sent(self, study: Study) -> set[str]:
        """Return the digests of the statistics of a study that have left this site, by its log."""
        names = [str(entry.event.get("file")) for entry in self.log.entries() if entry.event.get("what") == "left"]
        places = [name.rpartition(" ")[2].split("/") for name in names]
        return {place[1] for place in places if place[0] == study.digest and len(place) == 2}

    def _site_rows(self, gate: Gate) -> SiteData:
        config = self.config
        if self._data is None:
            cache = config.folder / "cache"
            self._data = SiteData(config.data, gate.policy, config.ledger, config.weight, cache)
        self._data.policy = gate.policy
        return self._data

    def _read_offers(self, study: Study, message: Message) -> list[Offer]:
        """Return the keys of all sites in the sum, each checked; a refusal names a key that is wrong."""
        given, pinned = message.header.get("offers"), self.config.pinned_keys
        offers = [Offer.from_dict(item) for item in given] if isinstance(given, list) else []
        sites = {offer.site for offer in offers}
        if not {self.name} <= sites <= set(study.members) or len(sites) < study.quorum:
            raise DeclinedError("the sites in the sum are not the members of the study, or fewer than its quorum")
        for offer in offers:
            try:
                offer.check(pinned.get(offer.site, ""))
            except TrustError as error:
                raise DeclinedError(str(error), about=offer.site) from None
        return offers

    def _mask_words(
        self, study: Study, statistic: Statistic, result: SiteAnswer, attempt: Attempt, offers: list[Offer]
    ) -> np.ndarray:
        words = FixedPoint(len(offers), study.fraction_bits).encode(*statistic.to_vector(result.part))
        return self._as_member().mask(attempt, offers, words, statistic.digest)

    def _open(self, message: Message) -> Message:
        """Return the secrets of this site's locks, once the server has a message of every member."""
        study = self._find_study(message.header.get("study"))
        gate = self._gate(study)  # a denial since then keeps the sum locked
        if reasons := gate.policy.refusals(expected_release(study)):
            raise DeclinedError("; ".join(reasons))
        given = message.header.get("attempt")
        attempt = _read_attempt(study, given)
        locks = self._as_member().open(attempt)
        self.log.append({"what": "opened", "study": study.digest, "attempt": str(attempt)})
        return Message("opened", {"study": study.digest, "attempt": given, "site": self.name, "locks": locks})

    def _offer(self, study: Study, message: Message) -> dict[str, Any]:
        """Return a signed key for the next attempt, if sums are secure."""
        if not study.secure:
            return {}
        return {"offer": self._as_member().offer(_read_attempt(study, message.header.get("next"))).to_dict()}

    def _as_member(self) -> Member:
        if self._member is None:
            raise DeclinedError("the study has secure sums, but this site has no key")
        return self._member

    def _next_offer(self, message: Message) -> Any:
        """Return a key for the attempt after a refusal, which may go on without the site that caused it."""
        study = self._find_study(message.header.get("study")) if message.kind == "ask" else None
        return None if study is None or not study.secure else self._offer(study, message)["offer"]


def _read_attempt(study: Study, given: Any) -> Attempt:
    try:
        return Attempt(study.digest, given["round"], given["name"])
    except (TypeError, KeyError, ValueError):
        raise DeclinedError("the message does not name its attempt") from None


def _public_reason(error: Exception) -> str:
    """Return a reason that may be told for an error that may reveal something about the rows or the machine."""
    for kinds, sentence in _SENTENCES:
        if isinstance(error, kinds):
            return sentence
    return "this site could not compute the answer; its log says why"


_RECORDS = "a rule of this site about its records does not allow the answer to leave; its log says which"
_SENTENCES: list[tuple[tuple[type[Exception], ...], str]] = [
    ((Overspend,), "the privacy budget of this site does not allow it"),
    ((LogError,), "the log or the ledger of this site is damaged or cannot be written, so nothing leaves"),
    ((PolicyError, ConfigError, RequestError), "the policy or the configuration of this site cannot be read"),
    ((ImportError,), "this site lacks a library that the study needs; its log says which"),
    ((MemoryError,), "this site does not have enough memory for the answer"),
]
