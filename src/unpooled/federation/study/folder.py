"""The folder of a study at the server: its exchanges, its record and its status.

An exchange is complete once its entry exists, which is written after its sum. Whatever happens to the server, a study
that is run again therefore continues after the last complete exchange, with the same numbers.

The record says which sites were asked, which are in the sums, which failed and why, the cost, and the outcome. The
status says how far a study has got; the progress display and ``unpooled federation status`` show it.
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
from ...privacy import GaussianEvent, composition
from .study import INTERCEPT, Study


class StudyError(RuntimeError):
    """An error that ends a study without a model."""


@dataclass(frozen=True)
class SiteFailure:
    """The failure of a site.

    Attributes
    ----------
    site : the name of the site
    exchange, attempt : the numbers of the exchange and the attempt
    seconds : the time from the question until the failure was known
    reason : the reason in a few words
    """

    site: str
    exchange: int
    attempt: int
    seconds: float
    reason: str


@dataclass
class Exchange:
    """One statistic and all attempts to get its sum.

    Attributes
    ----------
    number : the number of the exchange, from 0
    statistic : the name of the statistic
    digest : the digest of the statistic
    members : the sites in the sum
    n_rows : the number of rows of these sites
    attempts : the sites that answered, for each attempt
    seconds : the duration
    sent, received : the numbers of bytes
    failures : list of SiteFailure
    sha256 : the SHA-256 of the file with the sum
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
    failures: list[SiteFailure] = field(default_factory=list)
    sha256: str = ""


class StudyFolder:
    """The folder with ``study.json``, ``exchanges/``, ``state.json``, and at the end ``record.json`` and the model."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def model(self) -> Path:
        """The path of the model."""
        return self.path / "study.model"

    def begin(self, study: Study) -> Study:
        """Return the study with the id that it has in this folder; another study here raises a StudyError."""
        (self.path / "exchanges").mkdir(parents=True, exist_ok=True)
        known = self.definition()
        if known is None:
            _write_json(self.path / "study.json", study.definition())
            return study
        study = study.with_id(str(known.get("id")))
        if known != (own := study.definition()):
            different = sorted(name for name in {*known, *own} if known.get(name) != own.get(name))
            different = ["fit_intercept" if name == INTERCEPT else name for name in different]
            raise StudyError(
                f"{self.path} holds a study that differs in {', '.join(different)}: give the same study to continue "
                "it, or choose another folder to start again"
            )
        return study

    def definition(self) -> dict[str, Any] | None:
        """Return the definition of the study in the folder, or None if there is none."""
        return _read_json(self.path / "study.json")

    def exchange(self, number: int) -> Exchange | None:
        """Return an exchange, or None if it is not complete; a damaged file raises a StudyError."""
        entry, total = self._entry(number), self.total(number)
        content = _read_json(entry)
        if content is None:
            return None
        try:
            exchange = Exchange(**content | {"failures": _read_failures(content["failures"])})
            is_whole = hashlib.sha256(total.read_bytes()).hexdigest() == exchange.sha256 and exchange.number == number
        except (TypeError, KeyError, OSError):
            is_whole = False
        if not is_whole:
            raise StudyError(f"{entry} does not match {total.name}: remove both files to repeat the exchange")
        return exchange

    def exchanges(self) -> list[Exchange]:
        """Return the complete exchanges, in order."""
        exchanges: list[Exchange] = []
        while (one := self.exchange(len(exchanges))) is not None:
            exchanges.append(one)
        return exchanges

    def complete(self, exchange: Exchange, result: Any) -> None:
        """Write the sum of an exchange, and then the entry that marks it as complete."""
        total = self.total(exchange.number)
        result.save(total)
        exchange.sha256 = hashlib.sha256(total.read_bytes()).hexdigest()
        _write_json(self._entry(exchange.number), asdict(exchange))

    def total(self, number: int) -> Path:
        """Return the path of the sum of an exchange."""
        return self.path / "exchanges" / f"{number:04d}.total"

    def _entry(self, number: int) -> Path:
        return self.path / "exchanges" / f"{number:04d}.json"


def _write_json(path: Path, content: Any) -> None:
    """Write readable JSON, either the whole file or nothing."""
    with open_atomic(path) as file:
        file.write((encode_readable(content) + "\n").encode())


def _read_json(path: Path) -> dict[str, Any] | None:
    """Return the content that :func:`_write_json` wrote, or None if there is no file."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise StudyError(f"{path} is damaged: it does not hold a JSON object")
    return content


RECORD = "record.json"
_OUTCOMES = ("complete", "partial", "failed")


@dataclass
class StudyRecord:
    """The record of a study; a record that was changed afterwards is refused.

    Attributes
    ----------
    outcome : "complete" if every sum is over all members, "partial" if a site is missing from one, "failed" if there is
        no model
    study, study_digest : the definition of the study, and its digest
    started, finished : the times in UTC
    exchanges : list of Exchange
    failures : list of SiteFailure, of all exchanges
    missing : the members that are missing from a sum, with the numbers of these exchanges
    model : the file of the model, its SHA-256 and the digest of the model; None without a model
    privacy : the privacy cost to the model and to every site; None without noise
    seconds : the duration
    sent, received : the numbers of bytes
    problem : the reason why there is no model
    notes : the warnings of the fit
    unpooled : the version that ran the study
    digest : the digest of everything else in the record
    """

    outcome: str
    study: dict[str, Any]
    study_digest: str
    started: str
    finished: str
    exchanges: list[Exchange]
    failures: list[SiteFailure]
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
    def is_partial(self) -> bool:
        """Whether a member is missing from a sum."""
        return self.outcome == "partial"

    def sign_off(self) -> StudyRecord:
        """Set the digest of the record, and return it."""
        self.digest = files.digest(self._content(), {})
        return self

    def save(self, folder: Path) -> None:
        """Write ``record.json``."""
        _write_json(folder / RECORD, asdict(self.sign_off()))

    @classmethod
    def load(cls, folder: files.PathLike) -> StudyRecord:
        """Return the record in the folder of a study; a missing or changed record raises a StudyError."""
        path = Path(folder) / RECORD
        content = _read_json(path)
        if content is None:
            raise StudyError(f"there is no record {path}: the study has not finished")
        try:
            exchanges = [
                Exchange(**one | {"failures": _read_failures(one["failures"])}) for one in content["exchanges"]
            ]
            record = cls(**content | {"exchanges": exchanges, "failures": _read_failures(content["failures"])})
        except (TypeError, KeyError) as error:
            raise StudyError(f"{path} is not the record of a study: {quote(error)}") from None
        if record.digest != files.digest(record._content(), {}) or record.outcome not in _OUTCOMES:
            raise StudyError(f"{path} was changed after it was written, because it does not match its digest")
        return record

    def _content(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "digest"}


def find_missing_sites(study: Study, exchanges: list[Exchange]) -> dict[str, list[int]]:
    """Return the members that are missing from a sum, with the numbers of these exchanges."""
    missing = {name: [one.number for one in exchanges if name not in one.members] for name in study.members}
    return {name: numbers for name, numbers in missing.items() if numbers}


def account_for_privacy(
    study: Study, exchanges: list[Exchange], prices: list[float], model: Any
) -> dict[str, Any] | None:
    """Return the privacy cost to the model and to each site, which adds new noise in every attempt that it answers.

    ``prices`` holds μ of each exchange; one without noise, such as the count of rows, costs nothing.
    """
    if study.privacy is None:
        return None
    delta, sites = study.privacy.delta, {}
    for name in study.members:
        answered = zip(exchanges, prices)
        spent = [GaussianEvent(mu) for one, mu in answered for names in one.attempts if mu and name in names]
        sites[name] = {"releases": len(spent), "epsilon": composition.epsilon(spent, delta) if spent else 0.0}
    guarantee = None if model is None else model.privacy_
    return {
        "epsilon": study.privacy.epsilon,
        "delta": delta,
        "model": None if guarantee is None else guarantee.to_dict(),
        "sites": sites,
    }


def _read_failures(content: Any) -> list[SiteFailure]:
    return [SiteFailure(**one) for one in content]


STATE = "state.json"


@dataclass
class Status:
    """The status of a study at one moment.

    Attributes
    ----------
    study, digest, kind : the name, digest and kind of the study
    state : "joining", "asking", "done", "partial" or "failed"
    exchanges : the largest number of exchanges
    done : the number of complete exchanges
    attempt : the number of the attempt at the current exchange
    sites : the state of each site
    sent, received : the numbers of bytes
    started, updated : times in seconds since 1970
    working : the seconds spent on the complete exchanges
    problem : the reason why there is no model, if there is none
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
        """The seconds since the study was started."""
        return max(0.0, self.updated - self.started)

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds left, from the mean of the exchanges so far; None before the first, 0 at the end."""
        if self.state not in ("joining", "asking"):
            return 0.0
        return None if not self.done else self.working / self.done * max(0, self.exchanges - self.done)

    def __str__(self) -> str:
        sites = ", ".join(f"{name} {state}" for name, state in self.sites.items())
        left = "" if self.seconds_left is None else f", about {self.seconds_left:.0f} s left"
        text = f"{self.study} ({self.digest[:12]}): {self.state}, exchange {self.done} of {self.exchanges}"
        text += f"; {self.received} bytes received, {self.sent} sent, {self.seconds:.0f} s{left}; {sites}"
        return text + (f"; {self.problem}" if self.problem else "")


def save_status(folder: Path, status: Status) -> None:
    """Write the status to the file that :func:`read_status` reads."""
    status.updated = time.time()
    _write_json(folder / STATE, asdict(status))


def read_status(folder: PathLike) -> Status:
    """Return the status of the study in a folder; a folder without a study raises a StudyError.

    Parameters
    ----------
    folder : the folder of the study, at the server

    Returns
    -------
    Status
    """
    path = Path(folder)
    content: dict[str, Any] | None = _read_json(path / STATE)
    if content is None:
        known = StudyFolder(path).definition()
        raise StudyError(f"there is no study in {path}" if known is None else f"the study in {path} has never been run")
    try:
        return Status(**content)
    except TypeError:
        raise StudyError(f"{path / STATE} was written by another version of unpooled") from None
