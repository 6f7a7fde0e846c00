"""Studies that a site was asked to join, and the answers of its people, each in a file of the site's own folder.

A yes is to one study with all its terms, named by its digest: a study that differs in anything has to be asked for
again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ..._base.files import atomic
from ..._base.plain_json import readable
from ..._base.text import shown
from ...summaries.contents import is_digest

STATES = ("pending", "approved", "denied")


class RequestError(ValueError):
    """There is no such request, or its file was damaged."""


@dataclass(frozen=True)
class Request:
    """A study that asks to be joined, and the answer so far.

    Attributes
    ----------
    study : its digest
    described : what it asks for, in words
    state : "pending", "approved" or "denied"
    asked, answered : when, in UTC
    by : who answered
    """

    study: str
    described: str
    state: str = "pending"
    asked: str = ""
    answered: str = ""
    by: str = ""


class Requests:
    """All requests of a site, a file each.

    Parameters
    ----------
    folder : where the files are
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Request]:
        """Oldest first."""
        found = [self._read(path) for path in sorted(self.folder.glob("*.json"))]
        return sorted(found, key=lambda request: (request.asked, request.study))

    def get(self, study: str) -> Request | None:
        """The request of a study, by its digest."""
        path = self._path(study)
        return self._read(path) if path.exists() else None

    def ask(self, study: str, described: str) -> Request:
        """Note that a study asks, if it has not before."""
        known = self.get(study)
        return known if known is not None else self._write(Request(study, described, asked=_now()))

    def approve(self, study: str, by: str = "") -> Request:
        """Say yes to the study whose digest begins so."""
        return self._answer(study, "approved", by)

    def deny(self, study: str, by: str = "") -> Request:
        """Say no, also where the answer was yes before: nothing more leaves."""
        return self._answer(study, "denied", by)

    def _answer(self, study: str, state: str, by: str) -> Request:
        found = [request for request in self.all() if study and request.study.startswith(study.lower())]
        if len(found) != 1:
            many = "no study asks" if not found else f"{len(found)} studies ask"
            raise RequestError(f"{many} to be joined whose digest begins with {shown(study)}: look at the list")
        return self._write(replace(found[0], state=state, answered=_now(), by=by))

    def _path(self, study: str) -> Path:
        if not is_digest(study):
            raise RequestError(f"a study is named by its SHA-256, got {shown(study)}")
        return self.folder / f"{study}.json"

    def _write(self, request: Request) -> Request:
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic(self._path(request.study)) as file:
            file.write(readable(asdict(request)).encode())
        return request

    def _read(self, path: Path) -> Request:
        try:
            found = Request(**json.loads(path.read_bytes()))
            if found.state not in STATES or f"{found.study}.json" != path.name:
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            raise RequestError(f"{path} is not a request that a study can be joined by: remove it") from None
        return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
