"""The gate and its log: every file is judged by the site's policy, approved and logged before it leaves.

The gate fails closed. A file stays wherever there is doubt about it, and a damaged log stops everything. The entry of
the log is on disk before the file is at its place. A summary leaves by :func:`release`, in Python and at the command
line.
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
    "describe_refusal",
    "describe_release",
    "read_releases",
    "release",
]

LOG_NAME = "unpooled-log.jsonl"
LogError = ChainError
LogGrown = ChainGrown


def describe_release(release: Release, file: str, sha256: str) -> dict[str, Any]:
    """Describe a release, with the SHA-256 of the bytes that leave, as an event for the log.

    Parameters
    ----------
    release : the facts of the release
    file : the name of the file
    sha256 : the SHA-256 of its bytes
    """
    return {"what": "left", "release": release.to_dict(), "file": file, "sha256": sha256}


def describe_refusal(release: Release, reasons: Sequence[str]) -> dict[str, Any]:
    """Describe a refusal, with its reasons, as an event for the log.

    Parameters
    ----------
    release : the facts of the release
    reasons : the reasons
    """
    return {"what": "refused", "release": release.to_dict(), "reasons": list(reasons)}


def read_releases(entries: Sequence[Entry], path: Path) -> list[Release]:
    """Read the releases from these entries of the log at ``path``."""
    releases = []
    for entry in entries:
        if entry.event.get("what") == "left":
            try:
                releases.append(Release.from_dict(entry.event.get("release")))
            except ValueError as error:
                raise LogError(f"entry {entry.sequence} of {path} does not describe a release: {error}") from None
    return releases


class Log(Chain):
    """The log of a site: a chain of entries on what left and what was refused.

    Parameters
    ----------
    path : the file, which is created with the first entry
    """

    def releases(self) -> list[Release]:
        """List the releases so far, for a policy to compare with."""
        return read_releases(self.entries(), self.path)


class NothingSpent(ValueError):
    """A refusal by the policy before any budget was charged and any row was read."""


class Refused(ValueError):
    """A refusal by the site's policy, or by the person it asks; the log has an entry about it.

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
    """A policy, a log, and a function that asks a person if the policy says ``approve = "ask"``.

    Parameters
    ----------
    policy : the rules about what may leave
    log : the record of what has left
    approve : called with every release that needs a yes; None means that nobody is asked and the answer is no
    """

    policy: Policy
    log: Log
    approve: Callable[[Release], bool] | None = None

    def write(self, path: files.PathLike, content: bytes, release: Release) -> Entry:
        """Let a file leave: write it to its place after the log has an entry for it.

        The place may be a folder that others see or that is sent on automatically. If the file is refused, or anything
        fails, no part of it was ever there.
        """
        self._check_place(path)
        # Opened first, so that a place that cannot be written to is found before the log says anything.
        with files.open_atomic(path) as place:
            entry = self.let_leave(content, release, os.fspath(path))
            place.write(content)
        return entry

    def let_leave(self, content: bytes, release: Release, name: str) -> Entry:
        """Judge a release, ask if necessary, and log it; raise Refused or a LogError if it may not leave.

        Only content for which this method returns may be sent.
        """
        release = replace(release, bytes=len(content))
        sha256 = hashlib.sha256(content).hexdigest()
        approved: bool | None = None
        while True:
            entries = self.log.shared_entries()
            reasons = self.policy.refusals(release, read_releases(entries, self.log.path))
            if not reasons and self.policy.asks:
                approved = self._ask(release) if approved is None else approved
                if not approved:
                    reasons = [_NOBODY if self.approve is None else _NO]
            event = describe_refusal(release, reasons) if reasons else describe_release(release, name, sha256)
            try:
                entry = self.log.append(event, after=entries[-1].sha256 if entries else START)
            except LogGrown:  # what left meanwhile counts
                continue
            if reasons:
                raise Refused(release, reasons)
            return entry

    def _check_place(self, path: files.PathLike) -> None:
        """Refuse a place where no file can be, and the place of the log, which would be lost."""
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

    The policy judges the bytes that will be written, so later changes of ``summary`` have no effect. The log gets its
    entry first, whether the summary leaves or is refused. After a refusal or an error, a file at ``path`` is as it was.

    Parameters
    ----------
    summary : a summary of the site's rows
    path : the file to write; an existing one is replaced
    policy : the policy's file, the folder it is in, or a Policy, which then needs ``log``
    log : the site's log, or its path; None is ``unpooled-log.jsonl`` beside the policy's file
    label_share : the largest share of one record in the sums, as :func:`label_share` computes it for the labels, or
        for ψ(y - f(x)) in a round of residuals. None takes the share that the summary learned in the pass over its
        rows; files do not keep it. It is ignored if there is noise
    approve : called with the facts if the policy says ``approve = "ask"``; None means no
    show : called with the facts before they are judged, or None

    Returns
    -------
    The entry of the log, with the file's SHA-256

    Raises
    ------
    Refused, with the reasons; a LogError or a PolicyError if log or policy cannot be used
    """
    if not isinstance(summary, Summary):
        raise ValueError(f"summary must be an up.Summary, got {quote(summary)}: only summaries leave this way")
    if not isinstance(policy, Policy):
        source = Path(policy) / POLICY_NAME if os.path.isdir(policy) else Path(policy)
        _check_apart(path, source, "policy")
        policy, log = Policy.read(source), source.parent / LOG_NAME if log is None else log
    if log is None:
        raise ValueError("log must be the site's log or its path, because policy is a Policy and not a file")
    with tempfile.TemporaryDirectory(prefix="unpooled-") as folder:
        summary.save(Path(folder) / "content")
        content, judged = (Path(folder) / "content").read_bytes(), Summary.load(Path(folder) / "content")
    if judged.privacy is None and label_share is None and summary.shares is None:
        raise ValueError(
            "label_share must be given for a summary that was loaded from a file and has no noise: compute it as "
            "up.gate.label_share(y, weights) from the labels that were summed"
        )
    gate = Gate(policy, log if isinstance(log, Log) else Log(log), approve)
    share: Any = label_share if summary.shares is None else _larger_share(summary.label_share, label_share)
    facts = replace(of_summary(judged, share), bytes=len(content))
    if show is not None:
        show(facts)
    return gate.write(path, content, facts)


def _larger_share(own: float, given: Any) -> Any:
    """Choose the larger of the share that the summary learned and the one that was given, if any.

    A share that is not between 0 and 1 is passed on, for the policy to refuse.
    """
    if given is None or not 0 <= own <= 1:
        return own
    return max(own, given) if isinstance(given, (int, float)) and 0 <= given <= 1 else given


def check_policy(policy: Policy, question: CheckedRequest) -> None:
    """Refuse a request whose noise the policy would refuse in any case, before anything is spent."""
    if policy.approve == "never":
        raise NothingSpent('this may not leave: the policy says approve = "never", so nothing was spent')
    promised = question.privacy.record(question.bounds, question.noise, question.purpose).guarantee
    if reasons := policy.list_privacy_refusals(of_guarantee(promised)):
        raise NothingSpent(f"this may not leave, and nothing was spent: {'; '.join(reasons)}")


def _check_apart(path: files.PathLike, other: Path, called: str) -> None:
    """Refuse to write a file over the site's own log or policy, by whatever name or link it is called."""
    same = os.path.realpath(path) == os.path.realpath(other)
    if same or (os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)):
        raise ValueError(
            f"{os.fspath(path)} is the {called} of this site and would be overwritten: choose another name"
        )


def content_of(save: Callable[[Path], None]) -> bytes:
    """Return the bytes that ``save`` writes, by way of a folder that only this user can read."""
    with tempfile.TemporaryDirectory(prefix="unpooled-") as folder:
        place = Path(folder) / "content"
        save(place)
        return place.read_bytes()


_NO = 'the policy says approve = "ask", and the answer was no'
_NOBODY = 'the policy says approve = "ask", and nobody was there to answer'
