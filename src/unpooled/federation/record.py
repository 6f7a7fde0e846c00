"""The record of a study: who was asked, who is in the sums, who failed and why, what it cost, what came out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import files
from ..messages import shown
from ..privacy import Gaussian, composition, mu_for
from .folder import Exchange, Failed, StudyError, read_json, write_json
from .study import Study

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
            raise StudyError(f"{path} is not a record of a study: {shown(error)}") from None
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
    guarantee = getattr(model, "privacy_", None)
    return {
        "epsilon": study.privacy.epsilon,
        "delta": delta,
        "model": None if guarantee is None else guarantee.to_dict(),
        "sites": sites,
    }


def _failures(content: Any) -> list[Failed]:
    return [Failed(**one) for one in content]
