"""The server's side of a study: it keeps track of the sites, asks for a statistic, and gets one sum, plain or secure.

:class:`Session` has the sites that are still in the study: they join, are sent messages, and are left out where they
fail.

An attempt is over when every site has answered or time is up. A site that did not answer as asked is named and left out
for the rest of the study, and the others go on if they are enough. Plain sums keep the answers of the others. Secure
sums are asked for again, with fresh masks. The record says which exchanges lack which sites.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._base.text import join_lines
from ...gate.gate import content_of
from ..secure.fixed_point import FixedPoint, length
from ..secure.keys import Attempt, NotTrusted, Offer
from ..secure.masks import unmasked
from ..site.questions import question
from ..site.statistics import Statistic
from ..study.folder import Exchange, Failed, Status, StudyError, StudyFolder, save_status
from ..study.study import Study
from ..wire.transport import Failure, Message, Transport, as_array, as_file

Progress = Callable[[Status], None]


@dataclass
class Trouble:
    """What is wrong with an answer: who is left out for it, and whether joining again would help."""

    reason: str
    blamed: str
    unknown: bool = False
    waits: bool = False  #: for the approval of its people


@dataclass
class Session:
    """One run of a study; no two runs name an attempt alike."""

    study: Study
    transport: Transport
    folder: StudyFolder
    progress: Progress | None = None
    alive: list[str] = field(default_factory=list)  #: the sites that are still in it
    failures: list[Failed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alive = list(self.study.members)
        self.offers: dict[str, Offer] = {}  #: the key of each site for the next attempt, where sums are secure
        self.attempt = 0  #: the number of the next
        self.steady = 0  #: how many sites must stay, where the study says so
        self._run, self._joined, self._took = secrets.token_hex(4), False, 0.0
        study = self.study
        self.status = Status(study.name, study.digest, study.kind, "joining", study.exchanges, started=time.time())

    def join(self, exchange: Exchange) -> None:
        """Bring the study to all sites that are in it, and wait for those whose people have to be asked."""
        if self._joined:
            return
        waiting, until, tries = dict.fromkeys(self.alive, True), time.monotonic() + self.study.patience, 0
        while True:
            self.attempt, tries = self.attempt + 1, tries + 1  # the keys that are offered now are for this one
            troubles = self._joining(waiting, exchange)
            # A site that has the study already, and waits for its people, need not be sent the basis again.
            waiting = {site: not trouble.waits for site, trouble in troubles.items() if trouble.unknown}
            self.status.sites |= dict.fromkeys(waiting, "is waited for")
            self._leave_out({site: trouble for site, trouble in troubles.items() if not trouble.unknown}, exchange)
            if not waiting or time.monotonic() >= until:
                break
            self.tell("joining")
            time.sleep(min(self.study.poll, max(0.0, until - time.monotonic())))
        self._leave_out({site: troubles[site] for site in waiting}, exchange)
        if tries > 1 and self.study.secure:  # all need keys for one and the same attempt
            self.attempt += 1
            self._leave_out(self._joining(dict.fromkeys(self.alive, False), exchange), exchange)
        self._check_quorum(exchange)
        self._joined = True

    def _joining(self, sites: Mapping[str, bool], exchange: Exchange) -> dict[str, Trouble]:
        """Ask sites to join, with the basis or without; what came of it where they did not (``unknown``: yet)."""
        study = self.study
        known = Message("join", {"digest": study.digest, "next": self.name(self.attempt)})
        content = {"basis": as_array(content_of(study.basis.save))}
        whole = Message("join", known.header | {"study": study.definition()}, content)
        found = {}
        messages = {site: whole if with_basis else known for site, with_basis in sites.items()}
        for site, reply in self.exchange(messages, exchange).items():
            if isinstance(reply, Failure):
                found[site] = Trouble(reply.reason, site, unknown=True)
            elif reply.kind == "waiting":
                found[site] = Trouble("it waits for the approval of its people", site, unknown=True, waits=True)
            elif reply.kind != "joined" or reply.header.get("study") != study.digest:
                found[site] = refused(reply, site)
            elif study.secure and (wrong := self.keep_offer(site, reply, self.attempt)):
                found[site] = Trouble(wrong, site)
            else:
                self.status.sites[site] = "has joined"
        return found

    def keep_offer(self, site: str, reply: Message, attempt: int) -> str:
        """Keep a site's key for the next attempt; what is wrong with it, where something is."""
        try:
            offer = Offer.from_dict(reply.header.get("offer"))
            if offer.site != site or offer.attempt != Attempt(self.study.digest, **self.name(attempt)):
                raise NotTrusted("it is of another site or attempt")
        except (NotTrusted, ValueError) as error:
            return f"it offers no key for the next attempt: {sentence(error)}"
        self.offers[site] = offer
        return ""

    def after(self, troubles: Mapping[str, Trouble], exchange: Exchange, answered: list[str], again: bool) -> None:
        """After an attempt: who did not know the study joins again, once; all others in trouble are left out."""
        exchange.attempts.append(answered)
        forgot = [site for site, trouble in troubles.items() if trouble.unknown]
        final = {site: trouble for site, trouble in troubles.items() if not (trouble.unknown and again)}
        if forgot and again:
            final |= self._joining(dict.fromkeys(forgot, True), exchange)
        self._leave_out(final, exchange)
        self._check_quorum(exchange)
        self.tell("asking", exchange=exchange)

    def _leave_out(self, troubles: Mapping[str, Trouble], exchange: Exchange) -> None:
        for trouble in troubles.values():
            if trouble.blamed in self.alive:
                self.alive.remove(trouble.blamed)
                seconds = round(self._took, 3)
                exchange.failures.append(
                    Failed(trouble.blamed, exchange.number, len(exchange.attempts), seconds, trouble.reason)
                )
                self.status.sites[trouble.blamed] = f"left out: {trouble.reason}"

    def _check_quorum(self, exchange: Exchange) -> None:
        least = max(self.study.quorum, self.steady)
        if len(self.alive) < least:
            reasons = "; ".join(f"{one.site}: {one.reason}" for one in [*self.failures, *exchange.failures])
            raise StudyError(
                f"{len(self.alive)} of {len(self.study.members)} sites are left, and the "
                f"{'study is to keep' if self.steady else 'quorum is'} {least}: {reasons}"
            )

    def exchange(self, messages: Mapping[str, Message], exchange: Exchange) -> dict[str, Message | Failure]:
        """Send and receive, in the order of the names; what went over the line is counted."""
        if not messages:
            return {}
        began = time.monotonic()
        size = sum(len(message.to_bytes()) for message in messages.values())
        replies = self.transport.exchange(messages, self.study.timeout)
        self._took = time.monotonic() - began
        exchange.sent += size
        silent = Failure("the transport brought no answer")
        found = {site: replies.get(site, silent) for site in sorted(messages)}
        exchange.received += sum(len(reply.to_bytes()) for reply in found.values() if isinstance(reply, Message))
        return found

    def name(self, attempt: int) -> dict[str, Any]:
        """An attempt as messages name it; no two runs share a name."""
        return {"round": attempt, "name": f"{self._run}-{attempt}"}

    def tell(self, state: str, exchange: Exchange | None = None, done: int | None = None) -> None:
        status = self.status
        status.state = state
        if exchange is not None:
            status.attempt = len(exchange.attempts)
            if done is not None:
                status.done, status.working = done, status.working + exchange.seconds
                status.sent, status.received = status.sent + exchange.sent, status.received + exchange.received
                status.sites |= dict.fromkeys(exchange.members, f"in exchange {done}")
        self.report()

    def report(self) -> None:
        """Keep the status on disk, and show it."""
        save_status(self.folder.path, self.status)
        if self.progress is not None:
            self.progress(self.status)


def refused(reply: Message, site: str) -> Trouble:
    """A refusal may blame another site, whose key is not the one that was pinned."""
    reason, about = reply.header.get("reason"), reply.header.get("about")
    said = f"it refuses: {join_lines(reason)[:500]}" if reply.kind == "refusal" else "its answer is no answer"
    if isinstance(about, str) and about != site:
        return Trouble(f"{site} does not trust its key: {join_lines(reason)[:500]}", about)
    return Trouble(said, site, unknown=reply.header.get("unknown") is True)


def sentence(error: BaseException) -> str:
    """An error on one line."""
    return join_lines(error)[:500]


TRIES = 2  # at a sum whose masks do not cancel though every member has answered


@dataclass
class Server(Session):
    """Asks for one statistic after the other."""

    number: int = 0  #: of the next exchange

    def ask(self, statistic: Statistic) -> Any:
        """The sum of a statistic over the sites, from the folder where it is complete already."""
        number, self.number = self.number, self.number + 1
        done = self.folder.exchange(number)
        if done is not None:
            if done.digest != statistic.digest:
                raise StudyError(
                    f"exchange {number} in {self.folder.path} is of another question: the study, or the version of "
                    "unpooled, has changed since; begin anew in another folder"
                )
            self.alive, self.failures = list(done.members), [*self.failures, *done.failures]
            self.tell("asking", exchange=done, done=number + 1)
            return statistic.loaded(self.folder.total(number), len(done.members))
        exchange = Exchange(number, statistic.called, statistic.digest)
        self.steady = len(self.alive) if self.study.steady and number else 0
        began = time.monotonic()
        try:
            self.join(exchange)
            self.tell("asking", exchange=exchange)
            total = self._secure(statistic, exchange) if self.study.secure else self._plain(statistic, exchange)
        finally:
            self.failures += exchange.failures
        exchange.members, exchange.n_rows = list(self.alive), int(total.n_rows)
        exchange.seconds = time.monotonic() - began
        self.folder.complete(exchange, total)
        self.tell("asking", exchange=exchange, done=number + 1)
        return total

    def _plain(self, statistic: Statistic, exchange: Exchange) -> Any:
        """The sum of the files that sites send, in the order of their names."""
        found: dict[str, Any] = {}
        again = True
        while wanted := [site for site in self.alive if site not in found]:
            self.attempt += 1
            message = question(statistic, attempt=self.name(self.attempt))
            replies, troubles = self.exchange(dict.fromkeys(wanted, message), exchange), {}
            for site, reply in replies.items():
                part = self._part(statistic, site, reply)
                if isinstance(part, Trouble):
                    troubles[site] = part
                else:
                    found[site] = part
            self.after(troubles, exchange, sorted(set(replies) - set(troubles)), again)
            again = False
        total, *others = (found[site] for site in sorted(found))
        for other in others:
            total = total + other
        return total

    def _part(self, statistic: Statistic, site: str, reply: Message | Failure) -> Any:
        if (trouble := self._trouble(statistic, self.attempt, site, reply)) is not None:
            return trouble
        assert isinstance(reply, Message)
        try:
            return as_file(reply.file("file"), statistic.loaded)
        except (ValueError, OSError) as error:
            return Trouble(f"its answer cannot be used: {sentence(error)}", site)

    def _secure(self, statistic: Statistic, exchange: Exchange) -> Any:
        """The sum of masked vectors; repeated with fresh masks until every site that is in it has answered."""
        again, tries = True, 0
        while True:
            attempt, members = self.attempt, list(self.alive)
            self.attempt += 1
            offers = [self.offers[site].to_dict() for site in members]
            message = question(statistic, attempt=self.name(attempt), next=self.name(self.attempt), offers=offers)
            words, troubles = {}, {}
            replies = self.exchange(dict.fromkeys(members, message), exchange)
            for site, reply in replies.items():
                trouble = self._trouble(statistic, attempt, site, reply) or self._wrong_words(statistic, site, reply)
                if trouble is not None:
                    troubles[site] = trouble
                elif isinstance(reply, Message):
                    words[site] = reply.arrays["words"]
                stays = trouble is None or trouble.blamed != site
                if stays and isinstance(reply, Message) and (wrong := self.keep_offer(site, reply, self.attempt)):
                    troubles[site] = Trouble(wrong, site)
            self.after(troubles, exchange, sorted(words), again)
            again = False
            if troubles:
                continue
            try:
                numbers = FixedPoint(len(members), self.study.fraction_bits)
                high, low = numbers.decode(unmasked(words, self._opened(attempt, members, exchange)))
                return statistic.result(*statistic.from_vector(high, low), len(members))
            except (NotTrusted, ValueError) as error:
                tries += 1
                if tries >= TRIES:
                    raise StudyError(f"the sum over {', '.join(members)} cannot be used: {sentence(error)}") from None

    def _wrong_words(self, statistic: Statistic, site: str, reply: Message | Failure) -> Trouble | None:
        words = reply.arrays.get("words") if isinstance(reply, Message) else None
        shape = (length(statistic.fields()) + 1, 2)
        if words is None or str(words.dtype) != "uint64" or words.shape != shape:
            return Trouble("its answer is not the masked vector that was asked for", site)
        return None

    def _opened(self, attempt: int, members: list[str], exchange: Exchange) -> dict[str, Any]:
        """The locks that members open; all but one are enough. Who is silent is asked once more."""
        found: dict[str, Any] = {}
        for _ in range(TRIES):
            header = {"study": self.study.digest, "attempt": self.name(attempt)}
            wanted = [site for site in members if site not in found]
            replies = self.exchange(dict.fromkeys(wanted, Message("open", header)), exchange)
            for site, reply in replies.items():
                locks = reply.header.get("locks") if isinstance(reply, Message) and reply.kind == "opened" else None
                if isinstance(locks, dict):
                    found[site] = locks
            if len(found) >= len(members) - 1:
                break
        return found

    def _trouble(self, statistic: Statistic, attempt: int, site: str, reply: Message | Failure) -> Trouble | None:
        """What is wrong with an answer, as far as its header tells."""
        if isinstance(reply, Failure):
            return Trouble(reply.reason, site)
        if reply.kind != "answer":
            return refused(reply, site)
        wanted = {"study": self.study.digest, "statistic": statistic.digest}
        for name, value in wanted.items():
            if reply.header.get(name) != value:
                return Trouble(f"it answers another question: the digest of the {name} is not the one asked for", site)
        if reply.header.get("attempt") != self.name(attempt):
            return Trouble("it answers an attempt that is over", site)
        return None
