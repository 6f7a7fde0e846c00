"""A study from its beginning, or from its last complete exchange, to a model and a record."""

from __future__ import annotations

import hashlib
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import models
from ..files import PathLike
from .fitting import fitted
from .folder import StudyError, StudyFolder
from .record import StudyRecord, missing_in, spent_in
from .server import Server
from .session import Progress
from .study import Study
from .transport import Transport


def run_study(study: Study, transport: Transport, folder: PathLike, progress: Progress | None = None) -> StudyRecord:
    """Ask the sites, fit the model, and write both it (``study.model``) and the record (``record.json``).

    A :class:`StudyError` says why there is no model; the record then says so too.

    Parameters
    ----------
    study : what is asked
    transport : what carries messages to its sites
    folder : the study's own. One that holds a part of this very study is gone on with; one that holds all of it is
        left as it is
    progress : called with a :class:`Status` whenever something has changed, or None

    Returns
    -------
    StudyRecord
    """
    if study.kind == "estimator":
        raise StudyError("a study of the kind 'estimator' is run by fitting the estimator on a FederatedEngine")
    place = StudyFolder(Path(folder))
    study = place.begin(study)
    if (known := _finished(place, study)) is not None:
        return known
    run = Run(study, transport, place, progress)
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            model = fitted(study, run.server.ask)
    except StudyError as error:
        run.failed(str(error))
        raise
    except (ValueError, ArithmeticError) as error:
        problem = f"no model can be made of these sums: {' '.join(str(error).split())}"
        run.failed(problem)
        raise StudyError(problem) from error
    return run.finished(model, list(dict.fromkeys(str(one.message) for one in noted)))


class Run:
    """A study that is under way, and how it ends."""

    def __init__(self, study: Study, transport: Transport, folder: StudyFolder, progress: Progress | None) -> None:
        self.study, self.folder = study, folder
        self.server = Server(study, transport, folder, progress)
        self._began, self._clock = _now(), time.monotonic()
        self.server.report()

    def finished(self, model: Any, notes: list[str]) -> StudyRecord:
        """The model first, then the record that says whether it is of all members."""
        path = self.folder.model
        models.save(model, path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        about = {"file": path.name, "sha256": sha256, "digest": models.digest_of(model)}
        missing = missing_in(self.study, self.folder.exchanges())
        if self.study.secure and any(0 not in numbers for numbers in missing.values()):
            notes = [*notes, _DIFFERENCE]
        return self._record("partial" if missing else "complete", about, model, notes=notes)

    def failed(self, problem: str) -> None:
        """No model, and a record that says why."""
        self.folder.model.unlink(missing_ok=True)
        self._record("failed", None, None, problem=problem)

    def _record(self, outcome: str, about: dict[str, str] | None, model: Any, **others: Any) -> StudyRecord:
        from .. import __version__

        study, exchanges = self.study, self.folder.exchanges()
        record = StudyRecord(
            outcome,
            study.definition(),
            study.digest,
            self._began,
            _now(),
            exchanges,
            self.server.failures,
            missing_in(study, exchanges),
            about,
            spent_in(study, exchanges, model),
            round(time.monotonic() - self._clock, 3),
            sum(one.sent for one in exchanges),
            sum(one.received for one in exchanges),
            unpooled=__version__,
            **others,
        )
        record.save(self.folder.path)
        status = self.server.status
        status.state, status.problem = ("done" if outcome == "complete" else outcome), record.problem
        self.server.report()
        return record


_DIFFERENCE = (
    "a site was lost after the first sum: its number of rows and its Σφ follow from the difference of two sums; give "
    "the study steady=True where that must not be"
)


def _finished(folder: StudyFolder, study: Study) -> StudyRecord | None:
    """The record of a study that has its model already, and has it unchanged."""
    try:
        record = StudyRecord.load(folder.path)
    except StudyError:
        return None
    if record.study_digest != study.digest or record.model is None or not folder.model.exists():
        return None
    same = hashlib.sha256(folder.model.read_bytes()).hexdigest() == record.model["sha256"]
    return record if same else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
