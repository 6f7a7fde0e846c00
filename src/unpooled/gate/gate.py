"""The gate and its log: whatever leaves a site is judged by its policy, approved, logged, and only then let go.

The gate fails closed. A file stays wherever there is doubt about it, and a log that is not whole stops everything. The
log's entry is on disk before the file is at its place.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._base import files
from .._base.chain import START, Chain, ChainError, ChainGrown, Entry, Verification
from .policy import Policy
from .release import Release

__all__ = [
    "LOG_NAME",
    "START",
    "Entry",
    "Log",
    "LogError",
    "LogGrown",
    "Verification",
    "left",
    "refused",
    "releases_in",
]

LOG_NAME = "unpooled-log.jsonl"
LogError = ChainError
LogGrown = ChainGrown


def left(release: Release, file: str, sha256: str) -> dict[str, Any]:
    """The event of a file that leaves, with the SHA-256 of its bytes.

    Parameters
    ----------
    release : its facts
    file : its name
    sha256 : of its bytes
    """
    return {"what": "left", "release": release.to_dict(), "file": file, "sha256": sha256}


def refused(release: Release, reasons: Sequence[str]) -> dict[str, Any]:
    """The event of a file that may not leave.

    Parameters
    ----------
    release : its facts
    reasons : why
    """
    return {"what": "refused", "release": release.to_dict(), "reasons": list(reasons)}


def releases_in(entries: Sequence[Entry], path: Path) -> list[Release]:
    """What left, by these entries of the log at ``path``."""
    found = []
    for entry in entries:
        if entry.event.get("what") == "left":
            try:
                found.append(Release.from_dict(entry.event.get("release")))
            except ValueError as error:
                raise LogError(f"entry {entry.sequence} of {path} does not say what left: {error}") from None
    return found


class Log(Chain):
    """The chain of a site, with what it says of releases.

    Parameters
    ----------
    path : the file; it is made at the first entry
    """

    def releases(self) -> list[Release]:
        """What has left so far, for a policy to compare with."""
        return releases_in(self.entries(), self.path)


class Refused(ValueError):
    """The site's policy, or the person it asks, does not let a file leave; the log has an entry that says so.

    Parameters
    ----------
    release : the facts of the file
    reasons : a sentence for each rule that it breaks
    """

    def __init__(self, release: Release, reasons: Sequence[str]) -> None:
        super().__init__(f"this may not leave: {'; '.join(reasons)}")
        self.release, self.reasons = release, list(reasons)


@dataclass(frozen=True)
class Gate:
    """A policy, a log, and whom to ask where the policy says ``approve = "ask"`` (None: nobody, so nothing leaves).

    Parameters
    ----------
    policy : what may leave
    log : what has left
    approve : asked of every release, or None
    """

    policy: Policy
    log: Log
    approve: Callable[[Release], bool] | None = None

    def write(self, path: files.PathLike, content: bytes, release: Release) -> Entry:
        """Let a file leave: it gets to its place, whole, after the log has an entry for it.

        The place may be one that others see, or that is sent on by itself: if the file is refused, or anything fails,
        no part of it was ever there.
        """
        with files.atomic(path) as place:  # a place that cannot be written to is found before the log says anything
            entry = self.let_leave(content, release, os.fspath(path))
            place.write(content)
        return entry

    def let_leave(self, content: bytes, release: Release, name: str) -> Entry:
        """Judge, ask and log; only what this returns for may be sent. Raises :class:`Refused`, or a LogError."""
        release = replace(release, bytes=len(content))
        sha256 = hashlib.sha256(content).hexdigest()
        approved: bool | None = None
        while True:
            entries = self.log.entries()
            reasons = self.policy.refusals(release, releases_in(entries, self.log.path))
            if not reasons and self.policy.asks:
                approved = self._ask(release) if approved is None else approved
                if not approved:
                    reasons = [_NOBODY if self.approve is None else _NO]
            event = refused(release, reasons) if reasons else left(release, name, sha256)
            try:
                entry = self.log.append(event, after=entries[-1].sha256 if entries else START)
            except LogGrown:  # what left meanwhile counts
                continue
            if reasons:
                raise Refused(release, reasons)
            return entry

    def _ask(self, release: Release) -> bool:
        return self.approve is not None and self.approve(release) is True


def content_of(save: Callable[[Path], None]) -> bytes:
    """The bytes that ``save`` writes, by way of a folder that only this user can read."""
    with tempfile.TemporaryDirectory(prefix="unpooled-") as folder:
        place = Path(folder) / "content"
        save(place)
        return place.read_bytes()


_NO = 'the policy says approve = "ask", and the answer was no'
_NOBODY = 'the policy says approve = "ask", and nobody was there to say yes'
