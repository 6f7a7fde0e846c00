"""The server's side: it asks sites for a statistic, finds out who failed, and gets one sum; plain or secure.

An attempt is over when every site has answered or time is up. Whoever did not answer as asked is named and left out
for the rest of the study; the others go on if they are enough, with fresh masks where sums are secure.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ..secure.fixed_point import FixedPoint
from ..secure.keys import NotTrusted
from ..secure.masks import unmasked
from ..site.questions import question
from ..site.statistics import Statistic
from ..site.totals import length
from ..study.folder import Exchange, StudyError
from ..wire.transport import Failure, Message, as_file
from .session import Session, Trouble, refused, sentence

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
