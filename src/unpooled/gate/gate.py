"""The gate and its log: whatever leaves a site is judged by its policy, approved, logged, and only then let go.

The gate fails closed. A file stays wherever there is doubt about it, and a log that is not whole stops everything. The
log's entry is on disk before the file is at its place. :func:`release` is the way out for a summary, in Python and for
the command line.
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
from .._base.text import quote
from ..privacy.release import CheckedRequest
from ..summaries import Summary
from .facts import Release, of_guarantee, of_summary
from .policy import POLICY_NAME, Policy

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
    "release",
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


class NothingSpent(ValueError):
    """Refused by the policy before budget was charged and before a row was looked at."""


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
        self._check_place(path)
        with files.open_atomic(
            path
        ) as place:  # a place that cannot be written to is found before the log says anything
            entry = self.let_leave(content, release, os.fspath(path))
            place.write(content)
        return entry

    def let_leave(self, content: bytes, release: Release, name: str) -> Entry:
        """Judge, ask and log; only what this returns for may be sent. Raises :class:`Refused`, or a LogError."""
        release = replace(release, bytes=len(content))
        sha256 = hashlib.sha256(content).hexdigest()
        approved: bool | None = None
        while True:
            entries = self.log.shared_entries()
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

    def _check_place(self, path: files.PathLike) -> None:
        """Refuse a place that no file can take, and that of the log, which would be lost."""
        if os.path.isdir(path) and not os.path.islink(path):
            raise IsADirectoryError(f"{os.fspath(path)} is a folder, so no file can be written there: name a file")
        _check_apart(path, self.log.path, "log")

    def _ask(self, release: Release) -> bool:
        return self.approve is not None and self.approve(release) is True


def release(
    summary: Summary,
    path: files.PathLike,
    *,
    policy: Policy | files.PathLike,
    log: Log | files.PathLike | None = None,
    label_share: float | None = None,
    approve: Callable[[Release], bool] | None = None,
    show: Callable[[Release], None] | None = None,
) -> Entry:
    """Let a summary leave its site in a file if the site's policy allows it, as ``unpooled summarize`` does.

    The policy judges the bytes that will be written, so nothing that happens to ``summary`` afterwards counts. The log
    gets its entry first, whether the summary leaves or is refused. A refusal, or an error, leaves whatever was at
    ``path`` as it was.

    Parameters
    ----------
    summary : made of the site's rows
    path : the file to write; one that is there is replaced
    policy : the policy's file, the folder it is in, or a Policy, which then needs ``log``
    log : the site's log, or its path; None is ``unpooled-log.jsonl`` beside the policy's file
    label_share : one record's largest share in what was summed, as :func:`label_share` gives it for the labels (for a
        round of residuals: for ψ(y - f(x))); None takes what the summary has learned in the pass over its rows, which a
        file does not keep. With noise it does not count
    approve : asked with the facts where the policy says ``approve = "ask"``; None says no
    show : called with the facts before they are judged, or None

    Returns
    -------
    Entry, that of the log, with the file's SHA-256

    Raises
    ------
    Refused, with the reasons; a LogError or a PolicyError where log or policy cannot be used
    """
    if not isinstance(summary, Summary):
        raise ValueError(f"summary must be an up.Summary, got {quote(summary)}: nothing else leaves this way")
    if not isinstance(policy, Policy):
        source = Path(policy) / POLICY_NAME if os.path.isdir(policy) else Path(policy)
        _check_apart(path, source, "policy")
        policy, log = Policy.read(source), source.parent / LOG_NAME if log is None else log
    if log is None:
        raise ValueError("log must be the site's log or its path where policy is a Policy and no file")
    with tempfile.TemporaryDirectory(prefix="unpooled-") as folder:
        summary.save(Path(folder) / "content")
        content, judged = (Path(folder) / "content").read_bytes(), Summary.load(Path(folder) / "content")
    if judged.privacy is None and label_share is None and summary.shares is None:
        raise ValueError(
            "label_share must be given for a summary that was loaded and has no noise: up.site.label_share(y, weights) "
            "of the labels that were summed"
        )
    gate = Gate(policy, log if isinstance(log, Log) else Log(log), approve)
    share: Any = label_share if summary.shares is None else _stricter(summary.label_share, label_share)
    facts = replace(of_summary(judged, share), bytes=len(content))
    if show is not None:
        show(facts)
    return gate.write(path, content, facts)


def _stricter(own: float, given: Any) -> Any:
    """The larger of the share that the summary has learned of its rows and the one that was given, if any was.

    A share that is not between 0 and 1 is handed on, for the policy to refuse.
    """
    if given is None or not 0 <= own <= 1:
        return own
    return max(own, given) if isinstance(given, (int, float)) and 0 <= given <= 1 else given


def check_policy(policy: Policy, question: CheckedRequest) -> None:
    """Refuse what the policy would refuse of the noise in any case, before anything is spent."""
    if policy.approve == "never":
        raise NothingSpent('this may not leave: the policy says approve = "never", so nothing was spent')
    promised = question.privacy.record(question.bounds, question.noise, question.purpose).guarantee
    if reasons := policy.about_privacy(of_guarantee(promised)):
        raise NothingSpent(f"this may not leave, and nothing was spent: {'; '.join(reasons)}")


def _check_apart(path: files.PathLike, other: Path, called: str) -> None:
    """Refuse to write a file over the site's own log or policy, by whatever name or link it is called."""
    same = os.path.realpath(path) == os.path.realpath(other)
    if same or (os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)):
        raise ValueError(f"{os.fspath(path)} is the {called} of this site, and would be lost: choose another name")


def content_of(save: Callable[[Path], None]) -> bytes:
    """The bytes that ``save`` writes, by way of a folder that only this user can read."""
    with tempfile.TemporaryDirectory(prefix="unpooled-") as folder:
        place = Path(folder) / "content"
        save(place)
        return place.read_bytes()


_NO = 'the policy says approve = "ask", and the answer was no'
_NOBODY = 'the policy says approve = "ask", and nobody was there to say yes'
