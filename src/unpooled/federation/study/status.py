"""How far a study is: what the progress display and ``unpooled federation status`` show, from the study's folder."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..._base.files import PathLike
from .folder import StudyError, StudyFolder, read_json, write_json

STATE = "state.json"


@dataclass
class Status:
    """A study at one moment.

    Attributes
    ----------
    study, digest, kind : which study it is
    state : "joining", "asking", "done", "partial" or "failed"
    exchanges : how many there will be at most
    done : how many are complete
    attempt : at the current one
    sites : what is known of each
    sent, received : bytes
    started, updated : seconds since 1970
    working : seconds spent on the exchanges that are complete
    problem : why there is no model, where there is none
    """

    study: str
    digest: str
    kind: str
    state: str
    exchanges: int
    done: int = 0
    attempt: int = 0
    sites: dict[str, str] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    started: float = 0.0
    updated: float = 0.0
    working: float = 0.0
    problem: str = ""

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return max(0.0, self.updated - self.started)

    @property
    def seconds_left(self) -> float | None:
        """By the mean of the exchanges so far; None before the first, 0 at the end."""
        if self.state not in ("joining", "asking"):
            return 0.0
        return None if not self.done else self.working / self.done * max(0, self.exchanges - self.done)

    def __str__(self) -> str:
        sites = ", ".join(f"{name} {state}" for name, state in self.sites.items())
        left = "" if self.seconds_left is None else f", about {self.seconds_left:.0f} s left"
        said = f"{self.study} ({self.digest[:12]}): {self.state}, exchange {self.done} of {self.exchanges}"
        said += f"; {self.received} bytes received, {self.sent} sent, {self.seconds:.0f} s{left}; {sites}"
        return said + (f"; {self.problem}" if self.problem else "")


def save_status(folder: Path, status: Status) -> None:
    """Keep it where :func:`status_of` finds it."""
    status.updated = time.time()
    write_json(folder / STATE, asdict(status))


def status_of(folder: PathLike) -> Status:
    """How far the study in a folder is; a StudyError where there is none.

    Parameters
    ----------
    folder : of the study, at the server

    Returns
    -------
    Status
    """
    path = Path(folder)
    content: dict[str, Any] | None = read_json(path / STATE)
    if content is None:
        known = StudyFolder(path).definition()
        raise StudyError(f"there is no study in {path}" if known is None else f"the study in {path} was never run")
    try:
        return Status(**content)
    except TypeError:
        raise StudyError(f"{path / STATE} is not of this version of unpooled") from None
