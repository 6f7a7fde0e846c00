"""A site's log of what left and what was refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._base.chain import START, Chain, ChainError, ChainGrown, Entry, Verification
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
