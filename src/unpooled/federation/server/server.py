"""The server's side of a study: it keeps track of the sites, asks for statistics, and gets one sum, plain or secure.

:class:`Session` tracks the sites that are still in the study: they join, receive messages, and are dropped if they
fail.

An attempt ends when every site has answered or the time is up. A site that did not give a valid answer is named and
dropped for the rest of the study, and the others go on if there are enough of them. Plain sums keep the answers of the
others; secure sums are requested again with new masks. The record says which sites are missing from which exchanges.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._base.text import join_lines
from ...gate.gate import content_of
from ..secure.fixed_point import FixedPoint, vector_length
from ..secure.keys import Attempt, Offer, TrustError
from ..secure.masks import unmask
from ..site.questions import ask_message
from ..site.statistics import Statistic
from ..study.folder import Exchange, SiteFailure, Status, StudyError, StudyFolder, save_status
from ..study.study import Study
from ..wire.transport import Failure, Message, Transport, as_array, as_file

Progress = Callable[[Status], None]


@dataclass
class _Trouble:
    """A problem with an answer: the site to be dropped for it, and whether joining again would help."""

    reason: str
    blamed: str  #: the site to be dropped
    unknown: bool = False  #: whether the site does not know the study (yet), so that joining again would help
    waits: bool = False  #: whether the site waits for the approval of its staff


@dataclass
class Session:
    """One run of a study; the names of its attempts are different from those of any other run."""

    study: Study
    transport: Transport
    folder: StudyFolder
    progress: Progress | None = None
    alive: list[str] = field(default_factory=list)  #: the sites that are still in the study
    failures: list[SiteFailure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alive = list(self.study.members)
        self.offers: dict[str, Offer] = {}  #: the key of each site for the next attempt, where sums are secure
        self.attempt = 0  #: the number of the next attempt
        self.steady = 0  #: the number of sites that must stay, if the study is steady
        self._run, self._joined, self._seconds_taken = secrets.token_hex(4), False, 0.0
        study = self.study
        self.status = Status(study.name, study.digest, study.kind, "joining", study.exchanges, started=time.time())

    def join(self, exchange: Exchange) -> None:
        """Send the study to all its sites, and wait for those whose staff must approve it first."""
        if self._joined:
            return
        waiting, until, tries = dict.fromkeys(self.alive, True), time.monotonic() + self.study.patience, 0
        while True:
            self.attempt, tries = self.attempt + 1, tries + 1  # the keys offered now are for this attempt
            troubles = self._ask_to_join(waiting, exchange)
            # A site that has the study and waits for its staff does not need the basis again.
            waiting = {site: not trouble.waits for site, trouble in troubles.items() if trouble.unknown}
            self.status.sites |= dict.fromkeys(waiting, "is waited for")
            self._leave_out({site: trouble for site, trouble in troubles.items() if not trouble.unknown}, exchange)
            if not waiting or time.monotonic() >= until:
                break
            self.report_state("joining")
            time.sleep(min(self.study.poll, max(0.0, until - time.monotonic())))
        self._leave_out({site: troubles[site] for site in waiting}, exchange)
        if tries > 1 and self.study.secure:  # all sites need keys for the same attempt
            self.attempt += 1
            self._leave_out(self._ask_to_join(dict.fromkeys(self.alive, False), exchange), exchange)
        self._check_quorum(exchange)
        self._joined = True

    def _ask_to_join(self, sites: Mapping[str, bool], exchange: Exchange) -> dict[str, _Trouble]:
        """Ask sites to join, with or without the basis, and return the problems of those that did not join."""
        study = self.study
        known = Message("join", {"digest": study.digest, "next": self.attempt_name(self.attempt)})
        content = {"basis": as_array(content_of(study.basis.save))}
        if study.kind == "private":
            content |= {"rotation": study.frame.rotation, "shift": study.frame.shift}
        whole = Message("join", known.header | {"study": study.definition()}, content)
        troubles: dict[str, _Trouble] = {}
        messages = {site: whole if with_basis else known for site, with_basis in sites.items()}
        for site, reply in self.exchange(messages, exchange).items():
            if isinstance(reply, Failure):
                troubles[site] = _Trouble(reply.reason, site, unknown=True)
            elif reply.kind == "waiting":
                troubles[site] = _Trouble("it waits for the approval of its people", site, unknown=True, waits=True)
            elif reply.kind != "joined" or reply.header.get("study") != study.digest:
                troubles[site] = _read_refusal(reply, site)
            elif study.secure and (wrong := self.keep_offer(site, reply, self.attempt)):
                troubles[site] = _Trouble(wrong, site)
            else:
                self.status.sites[site] = "has joined"
        return troubles

    def keep_offer(self, site: str, reply: Message, attempt: int) -> str:
        """Keep a site's key for the next attempt; return the problem with it, or an empty text."""
        try:
            offer = Offer.from_dict(reply.header.get("offer"))
            if offer.site != site or offer.attempt != Attempt(self.study.digest, **self.attempt_name(attempt)):
                raise TrustError("the key is for another site or attempt")
        except (TrustError, ValueError) as error:
            return f"it offers no valid key for the next attempt: {_error_sentence(error)}"
        self.offers[site] = offer
        return ""

    def drop_failed_sites(
        self, troubles: Mapping[str, _Trouble], exchange: Exchange, answered: list[str], again: bool
    ) -> None:
        """Drop the sites that failed in an attempt; those that did not know the study may join again, once."""
        exchange.attempts.append(answered)
        forgot = [site for site, trouble in troubles.items() if trouble.unknown]
        final = {site: trouble for site, trouble in troubles.items() if not (trouble.unknown and again)}
        if forgot and again:
            final |= self._ask_to_join(dict.fromkeys(forgot, True), exchange)
        self._leave_out(final, exchange)
        self._check_quorum(exchange)
        self.report_state("asking", exchange=exchange)

    def _leave_out(self, troubles: Mapping[str, _Trouble], exchange: Exchange) -> None:
        for trouble in troubles.values():
            if trouble.blamed in self.alive:
                self.alive.remove(trouble.blamed)
                seconds = round(self._seconds_taken, 3)
                exchange.failures.append(
                    SiteFailure(trouble.blamed, exchange.number, len(exchange.attempts), seconds, trouble.reason)
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
        """Send messages and receive the answers, in the order of the sites' names, and count the bytes."""
        if not messages:
            return {}
        began = time.monotonic()
        size = sum(len(message.to_bytes()) for message in messages.values())
        replies = self.transport.exchange(messages, self.study.timeout)
        self._seconds_taken = time.monotonic() - began
        exchange.sent += size
        silent = Failure("the transport brought no answer")
        answers = {site: replies.get(site, silent) for site in sorted(messages)}
        exchange.received += sum(len(reply.to_bytes()) for reply in answers.values() if isinstance(reply, Message))
        return answers

    def attempt_name(self, attempt: int) -> dict[str, Any]:
        """Return the name of an attempt for messages, which no other run uses."""
        return {"round": attempt, "name": f"{self._run}-{attempt}"}

    def report_state(self, state: str, exchange: Exchange | None = None, done: int | None = None) -> None:
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
        """Write the status to disk, and show it."""
        save_status(self.folder.path, self.status)
        if self.progress is not None:
            self.progress(self.status)


def _read_refusal(reply: Message, site: str) -> _Trouble:
    """Return the problem in a refusal, which may blame another site whose key is not the pinned one."""
    reason, about = reply.header.get("reason"), reply.header.get("about")
    text = f"it refuses: {join_lines(reason)[:500]}" if reply.kind == "refusal" else "its reply is not an answer"
    if isinstance(about, str) and about != site:
        return _Trouble(f"{site} does not trust its key: {join_lines(reason)[:500]}", about)
    return _Trouble(text, site, unknown=reply.header.get("unknown") is True)


def _error_sentence(error: BaseException) -> str:
    """Return the message of an error on one line."""
    return join_lines(error)[:500]


_TRIES = 2  # attempts at a sum whose masks do not cancel although every member has answered


@dataclass
class Server(Session):
    """The server of a study, which asks for one statistic after the other."""

    number: int = 0  #: the number of the next exchange
    prices: list[float] = field(default_factory=list)  #: μ of each exchange so far

    def ask(self, statistic: Statistic) -> Any:
        """Return the sum of a statistic over the sites; an exchange that is complete is read from the folder."""
        number, self.number = self.number, self.number + 1
        self.prices.append(statistic.price)
        done = self.folder.exchange(number)
        if done is not None:
            if done.digest != statistic.digest:
                raise StudyError(
                    f"exchange {number} in {self.folder.path} answers another question, because the study or the "
                    "version of unpooled has changed: start again in another folder"
                )
            self.alive, self.failures = list(done.members), [*self.failures, *done.failures]
            self.report_state("asking", exchange=done, done=number + 1)
            return statistic.load(self.folder.total(number), len(done.members))
        exchange = Exchange(number, statistic.name, statistic.digest)
        self.steady = len(self.alive) if self.study.steady and number else 0
        began = time.monotonic()
        try:
            self.join(exchange)
            self.report_state("asking", exchange=exchange)
            total = self._sum_secure(statistic, exchange) if self.study.secure else self._sum_plain(statistic, exchange)
        finally:
            self.failures += exchange.failures
        exchange.members, exchange.n_rows = list(self.alive), int(total.n_rows)
        exchange.seconds = time.monotonic() - began
        self.folder.complete(exchange, total)
        self.report_state("asking", exchange=exchange, done=number + 1)
        return total

    def _sum_plain(self, statistic: Statistic, exchange: Exchange) -> Any:
        """Return the sum of the files that the sites send, in the order of their names."""
        parts: dict[str, Any] = {}
        again = True
        while wanted := [site for site in self.alive if site not in parts]:
            self.attempt += 1
            message = ask_message(statistic, attempt=self.attempt_name(self.attempt))
            replies, troubles = self.exchange(dict.fromkeys(wanted, message), exchange), {}
            for site, reply in replies.items():
                part = self._read_part(statistic, site, reply)
                if isinstance(part, _Trouble):
                    troubles[site] = part
                else:
                    parts[site] = part
            self.drop_failed_sites(troubles, exchange, sorted(set(replies) - set(troubles)), again)
            again = False
        total, *others = (parts[site] for site in sorted(parts))
        for other in others:
            total = total + other
        return total

    def _read_part(self, statistic: Statistic, site: str, reply: Message | Failure) -> Any:
        if (trouble := self._find_trouble(statistic, self.attempt, site, reply)) is not None:
            return trouble
        assert isinstance(reply, Message)
        try:
            return as_file(reply.file("file"), statistic.load)
        except (ValueError, OSError) as error:
            return _Trouble(f"its answer cannot be used: {_error_sentence(error)}", site)

    def _sum_secure(self, statistic: Statistic, exchange: Exchange) -> Any:
        """Return the sum of masked vectors, repeating the attempt with new masks until all of its sites answer."""
        again, tries = True, 0
        while True:
            attempt, members = self.attempt, list(self.alive)
            self.attempt += 1
            offers = [self.offers[site].to_dict() for site in members]
            message = ask_message(
                statistic, attempt=self.attempt_name(attempt), next=self.attempt_name(self.attempt), offers=offers
            )
            words, troubles = {}, {}
            replies = self.exchange(dict.fromkeys(members, message), exchange)
            for site, reply in replies.items():
                trouble = self._find_trouble(statistic, attempt, site, reply) or self._check_words(
                    statistic, site, reply
                )
                if trouble is not None:
                    troubles[site] = trouble
                elif isinstance(reply, Message):
                    words[site] = reply.arrays["words"]
                stays = trouble is None or trouble.blamed != site
                if stays and isinstance(reply, Message) and (wrong := self.keep_offer(site, reply, self.attempt)):
                    troubles[site] = _Trouble(wrong, site)
            self.drop_failed_sites(troubles, exchange, sorted(words), again)
            again = False
            if troubles:
                continue
            try:
                numbers = FixedPoint(len(members), self.study.fraction_bits)
                high, low = numbers.decode(unmask(words, self._collect_locks(attempt, members, exchange)))
                return statistic.from_sums(*statistic.from_vector(high, low), len(members))
            except (TrustError, ValueError) as error:
                tries += 1
                if tries >= _TRIES:
                    raise StudyError(
                        f"the sum over {', '.join(members)} cannot be used: {_error_sentence(error)}"
                    ) from None

    def _check_words(self, statistic: Statistic, site: str, reply: Message | Failure) -> _Trouble | None:
        words = reply.arrays.get("words") if isinstance(reply, Message) else None
        shape = (vector_length(statistic.shapes()) + 1, 2)
        if words is None or str(words.dtype) != "uint64" or words.shape != shape:
            return _Trouble("its answer is not the masked vector of the question", site)
        return None

    def _collect_locks(self, attempt: int, members: list[str], exchange: Exchange) -> dict[str, Any]:
        """Return the locks that members open; all except one are enough. Silent sites are asked once more."""
        opened: dict[str, Any] = {}
        for _ in range(_TRIES):
            header = {"study": self.study.digest, "attempt": self.attempt_name(attempt)}
            wanted = [site for site in members if site not in opened]
            replies = self.exchange(dict.fromkeys(wanted, Message("open", header)), exchange)
            for site, reply in replies.items():
                locks = reply.header.get("locks") if isinstance(reply, Message) and reply.kind == "opened" else None
                if isinstance(locks, dict):
                    opened[site] = locks
            if len(opened) >= len(members) - 1:
                break
        return opened

    def _find_trouble(self, statistic: Statistic, attempt: int, site: str, reply: Message | Failure) -> _Trouble | None:
        """Return the problem with an answer, as far as its header shows, or None."""
        if isinstance(reply, Failure):
            return _Trouble(reply.reason, site)
        if reply.kind != "answer":
            return _read_refusal(reply, site)
        wanted = {"study": self.study.digest, "statistic": statistic.digest}
        for name, value in wanted.items():
            if reply.header.get(name) != value:
                return _Trouble(f"it answers another question: the digest of the {name} does not match", site)
        if reply.header.get("attempt") != self.attempt_name(attempt):
            return _Trouble("it answers an attempt that is over", site)
        return None
