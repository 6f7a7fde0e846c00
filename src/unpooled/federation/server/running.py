"""A study from its beginning, or from its last complete exchange, to a model and a record.

For each kind of study a function makes the model from sums; it gets them through ``ask``, which brings the sum of a
statistic.

A study is replayed and not restored. Each complete exchange is a sum and an entry on disk, of which the entry is
written last. A restarted server runs the same code again and takes sums from the folder as far as they go. If a
question differs from the one on disk, it is refused.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ... import models
from ..._base import declared
from ..._base.files import PathLike, __version__
from ..._base.text import join_lines
from ..._solvers.spectral import criteria
from ...estimators import SummaryRegressor
from ...estimators.span import BasisAverage
from ...summaries import Summary
from ...summaries.passes import Functions
from ..site.questions import Errors, Fits
from ..site.statistics import LeaveOneOut, Statistic, Sums
from ..study.folder import StudyError, StudyFolder, StudyRecord, missing_in, spent_in
from ..study.study import Study
from ..wire.transport import Transport
from .server import Progress, Server

Ask = Callable[[Statistic], Any]


def fitted(study: Study, ask: Ask) -> Any:
    """The model of a study."""
    return _average(study, ask) if study.kind == "average" else _from_sums(study, ask)


def _from_sums(study: Study, ask: Ask) -> SummaryRegressor:
    """LESS or second order; with more than one round each asks for the residuals of the model so far."""
    basis = study.basis
    summary: Summary = ask(Sums(study, 0, None, study.loss, study.order))
    lam = "auto" if study.lam == "loo" else study.lam
    model = SummaryRegressor(study.filter, lam, study.center, ridge=study.ridge, steps=study.steps, grid=study.grid)
    model.fit_summary(summary, basis=basis)
    if study.lam == "loo":
        scores = ask(LeaveOneOut(study, model.candidates(basis=basis)))
        model.fit_summary(summary, scores=scores, basis=basis)
    for number in range(1, study.rounds):
        known = model.coefficients_in(basis)
        assert known is not None
        residuals: Summary = ask(Sums(study, number, Functions(*known), study.loss, study.order))
        # Sites know the function by its own digest; to the model it is the digest of all of it that counts.
        contents = replace(residuals.contents, model=declared.digest_of(model))
        model.update(replace(residuals, contents=contents), basis=basis)
    return model


def _average(study: Study, ask: Ask) -> BasisAverage:
    """Each site's own ridge regression, averaged; λ by the validation errors of averages of halves."""
    basis, lam, path = study.basis, study.lam, {}
    if isinstance(lam, str):
        grid = criteria.default_grid(basis.kappa_sq_, float(np.finfo(float).eps)) if study.grid is None else study.grid
        tried = np.asarray(grid, dtype=float)
        coef, intercept, _ = _mean(ask(Fits(study, tried, halves=True)))
        n_lam, M, T = coef.shape
        functions = Functions(coef.transpose(1, 0, 2).reshape(M, n_lam * T), intercept.reshape(-1))
        sums = ask(Errors(study, functions)).sums
        errors = sums["square"].high / sums["weight"].high
        lam = float(tried[criteria.best_index(errors, tried, per_target=False)[0]])
        path = {"lam": tried, "error": errors}
    final = Fits(study, np.asarray([lam]), halves=False)
    coef, intercept, n_sites = _mean(ask(final))
    return BasisAverage().settle(basis, coef[0], intercept[0], lam, study.targets, n_sites, path)


def _mean(total: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """(L, M, T) coefficients, (L, T) intercepts, and over how many sites."""
    W = float(total.sums["weight"].high[0])
    sites = int(total.sums["sites"].high[0])
    return total.sums["coef"].high / W, total.sums["intercept"].high / W, sites


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
        problem = f"no model can be made of these sums: {join_lines(error)}"
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
        about = {"file": path.name, "sha256": sha256, "digest": declared.digest_of(model)}
        missing = missing_in(self.study, self.folder.exchanges())
        if self.study.secure and any(0 not in numbers for numbers in missing.values()):
            notes = [*notes, _DIFFERENCE]
        return self._record("partial" if missing else "complete", about, model, notes=notes)

    def failed(self, problem: str) -> None:
        """No model, and a record that says why."""
        self.folder.model.unlink(missing_ok=True)
        self._record("failed", None, None, problem=problem)

    def _record(self, outcome: str, about: dict[str, str] | None, model: Any, **others: Any) -> StudyRecord:
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
