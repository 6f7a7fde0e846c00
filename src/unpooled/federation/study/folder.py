"""The folder of a study at the server: its exchanges, the record of what became of it, and how far it is.

An exchange is complete once its entry is there, which is written after the sum it names. So whatever happens to the
server, a study that is run again begins after the last complete exchange, with the same numbers.

The record says who was asked, who is in the sums, who failed and why, what it cost, and what came out. The status says
how far a study is: the progress display and ``unpooled federation status`` show it, from the study's folder.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..._base import files
from ..._base.files import PathLike, open_atomic
from ..._base.plain_json import encode_readable
from ..._base.text import quote
from ...privacy import Gaussian, composition, mu_for
from .study import Study


class StudyError(RuntimeError):
    """A study that cannot go on; no model was written."""


@dataclass(frozen=True)
class Failed:
    """A site that failed: when, how soon that was known, and why.

    Attributes
    ----------
    site : its name
    exchange, attempt : their numbers
    seconds : from the question to the knowledge
    reason : in a few words
    """

    site: str
    exchange: int
    attempt: int
    seconds: float
    reason: str


@dataclass
class Exchange:
    """One statistic and all attempts to get the sum of it.

    Attributes
    ----------
    number : from 0 on
    statistic : what it is called
    digest : of the statistic
    members : whose sums were added up
    n_rows : over all of them
    attempts : the sites that answered, an attempt after the other
    seconds : that it took
    sent, received : bytes
    failures : list of Failed
    sha256 : of the file with the sum
    """

    number: int
    statistic: str
    digest: str
    members: list[str] = field(default_factory=list)
    n_rows: int = 0
    attempts: list[list[str]] = field(default_factory=list)
    seconds: float = 0.0
    sent: int = 0
    received: int = 0
    failures: list[Failed] = field(default_factory=list)
    sha256: str = ""


class StudyFolder:
    """``study.json``, ``exchanges/``, ``state.json``, and in the end ``record.json`` and the model."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def model(self) -> Path:
        """Where the model comes to be."""
        return self.path / "study.model"

    def begin(self, study: Study) -> Study:
        """The study with the id it has here; a StudyError where the folder is of another."""
        (self.path / "exchanges").mkdir(parents=True, exist_ok=True)
        known = self.definition()
        if known is None:
            write_json(self.path / "study.json", study.definition())
            return study
        study = study.with_id(str(known.get("id")))
        if known != (own := study.definition()):
            different = sorted(name for name in {*known, *own} if known.get(name) != own.get(name))
            raise StudyError(
                f"{self.path} holds a study that differs in {', '.join(different)}: give the same study to go on with "
                "it, or another folder to begin anew"
            )
        return study

    def definition(self) -> dict[str, Any] | None:
        """What the study in the folder asks; None where there is none."""
        return read_json(self.path / "study.json")

    def exchange(self, number: int) -> Exchange | None:
        """A complete exchange; None where it is not. A StudyError where its file was damaged."""
        entry, total = self._entry(number), self.total(number)
        content = read_json(entry)
        if content is None:
            return None
        try:
            found = Exchange(**content | {"failures": [Failed(**failed) for failed in content["failures"]]})
            whole = hashlib.sha256(total.read_bytes()).hexdigest() == found.sha256 and found.number == number
        except (TypeError, KeyError, OSError):
            whole = False
        if not whole:
            raise StudyError(f"{entry} and {total.name} do not go together: remove both, and the exchange is repeated")
        return found

    def exchanges(self) -> list[Exchange]:
        """The complete ones, in order."""
        found: list[Exchange] = []
        while (one := self.exchange(len(found))) is not None:
            found.append(one)
        return found

    def complete(self, exchange: Exchange, result: Any) -> None:
        """Keep the sum of an exchange, and then say that it is complete."""
        total = self.total(exchange.number)
        result.save(total)
        exchange.sha256 = hashlib.sha256(total.read_bytes()).hexdigest()
        write_json(self._entry(exchange.number), asdict(exchange))

    def total(self, number: int) -> Path:
        """The file with the sum of an exchange."""
        return self.path / "exchanges" / f"{number:04d}.total"

    def _entry(self, number: int) -> Path:
        return self.path / "exchanges" / f"{number:04d}.json"


def write_json(path: Path, content: Any) -> None:
    """Readable, and all of it or nothing."""
    with open_atomic(path) as file:
        file.write((encode_readable(content) + "\n").encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """What :func:`write_json` wrote; None where there is no file."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise StudyError(f"{path} is damaged: it is not the JSON that was written")
    return content


RECORD = "record.json"
OUTCOMES = ("complete", "partial", "failed")


@dataclass
class StudyRecord:
    """What is kept of a study; a record that was changed is refused.

    Attributes
    ----------
    outcome : "complete" where every sum is over all members, "partial" where a site is missing in one of them,
        "failed" where there is no model
    study, study_digest : its definition, and the digest of that
    started, finished : when, in UTC
    exchanges : list of Exchange
    failures : list of Failed, of all exchanges
    missing : members that are not in every sum, with the exchanges they are not in
    model : its file, the SHA-256 of that and the model's digest; None where there is none
    privacy : what a private study has cost, the model and every site; else None
    seconds : that it took
    sent, received : bytes
    problem : why there is no model
    notes : what was warned of
    unpooled : the version that ran it
    digest : over all the rest
    """

    outcome: str
    study: dict[str, Any]
    study_digest: str
    started: str
    finished: str
    exchanges: list[Exchange]
    failures: list[Failed]
    missing: dict[str, list[int]]
    model: dict[str, str] | None
    privacy: dict[str, Any] | None
    seconds: float
    sent: int
    received: int
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    unpooled: str = ""
    digest: str = ""

    @property
    def partial(self) -> bool:
        """Whether a sum lacks a member."""
        return self.outcome == "partial"

    def signed_off(self) -> StudyRecord:
        """With its digest."""
        self.digest = files.digest(self._content(), {})
        return self

    def save(self, folder: Path) -> None:
        """Write ``record.json``."""
        write_json(folder / RECORD, asdict(self.signed_off()))

    @classmethod
    def load(cls, folder: files.PathLike) -> StudyRecord:
        """The record in the folder of a study; a StudyError where there is none, or it was changed."""
        path = Path(folder) / RECORD
        content = read_json(path)
        if content is None:
            raise StudyError(f"there is no record {path}: the study was not run to its end")
        try:
            exchanges = [Exchange(**one | {"failures": _failures(one["failures"])}) for one in content["exchanges"]]
            found = cls(**content | {"exchanges": exchanges, "failures": _failures(content["failures"])})
        except (TypeError, KeyError) as error:
            raise StudyError(f"{path} is not a record of a study: {quote(error)}") from None
        if found.digest != files.digest(found._content(), {}) or found.outcome not in OUTCOMES:
            raise StudyError(f"{path} was changed after it was written: it does not match its digest")
        return found

    def _content(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "digest"}


def missing_in(study: Study, exchanges: list[Exchange]) -> dict[str, list[int]]:
    """Members that are not in every sum, with the exchanges they are not in."""
    found = {name: [one.number for one in exchanges if name not in one.members] for name in study.members}
    return {name: numbers for name, numbers in found.items() if numbers}


def spent_in(study: Study, exchanges: list[Exchange], model: Any) -> dict[str, Any] | None:
    """What a private study has cost: the model, and each site, whose noise is new in every attempt it answers."""
    if study.privacy is None:
        return None
    one_round = study.private(0)
    mu = mu_for(one_round.epsilon, one_round.delta)
    releases = {name: sum(name in answered for one in exchanges for answered in one.attempts) for name in study.members}
    delta = study.privacy.delta
    sites = {
        name: {"releases": n, "epsilon": composition.epsilon([Gaussian(mu)] * n, delta) if n else 0.0}
        for name, n in releases.items()
    }
    guarantee = None if model is None else model.privacy_
    return {
        "epsilon": study.privacy.epsilon,
        "delta": delta,
        "model": None if guarantee is None else guarantee.to_dict(),
        "sites": sites,
    }


def _failures(content: Any) -> list[Failed]:
    return [Failed(**one) for one in content]


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
