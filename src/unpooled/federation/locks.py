"""The rule by which a site opens: for one question, the sum over one set of members.

A server may have to repeat an attempt without a site that fell silent. If the first attempt could be opened as well,
because the site was only late, or because the server only said that it was silent, the two sums would differ by just
that site's numbers. So every message is locked, and the first time a site opens it notes for which members; for the
same question it opens no other set of members afterwards. The same set it does open again: that gives the same sum.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from .drawer import Drawer
from .keys import NotTrusted, canonical
from .masks import Members
from .single_use import Attempt


class Locks:
    """The locks of the latest message of each study, and what has been opened."""

    def __init__(self, drawer: Drawer) -> None:
        self._drawer = drawer

    def keep(self, site: str, members: Members, asked: str, locks: dict[str, str]) -> None:
        """Remember the locks of a message before it is sent; those of the message before are forgotten."""
        content = {"attempt": asdict(members.attempt), "asked": asked, "members": sorted(members.keys), "locks": locks}
        self._drawer.write(_place(site, members.attempt.study, "lock"), json.dumps(content).encode())

    def open(self, site: str, attempt: Attempt) -> dict[str, str]:
        """The secrets of the locks of an attempt, by the member they are shared with; or a NotTrusted."""
        content = self._drawer.read(_place(site, attempt.study, "lock"))
        kept = None if content is None else json.loads(content)
        if kept is None or Attempt(**kept["attempt"]) != attempt:
            raise NotTrusted(f"{site} has sent nothing in attempt {attempt}, or something since: nothing can be opened")
        note = _place(site, attempt.study, kept["asked"], "opened")
        members = ", ".join(kept["members"])
        if not self._drawer.claim(note, members.encode()):
            before = (self._drawer.read(note) or b"others").decode()
            if before != members:
                raise NotTrusted(
                    f"{site} has opened the sum over {before} for this question, and with that over {members} the"
                    " difference would be known: ask the same members again, or start a new study"
                )
        return dict(kept["locks"])


def _place(site: str, *what: str) -> str:
    return hashlib.sha256(canonical([site, *what[:-1]])).hexdigest()[:40] + "." + what[-1]
