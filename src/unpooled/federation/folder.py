"""The folder of a study at the server: what was asked, what is complete, and what has come out of it.

An exchange is complete once its entry is there, which is written after the sum it names. So whatever happens to the
server, a study that is run again begins after the last complete exchange, with the same numbers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..files import atomic
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
    with atomic(path) as file:
        file.write((json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


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
