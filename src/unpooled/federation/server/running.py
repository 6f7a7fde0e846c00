"""Runs of a study from its beginning, or from its last complete exchange, to a model and a record.

For each kind of study a function makes the model from sums, which it gets by calling ``ask`` with a statistic.

A study is replayed, not restored. Each complete exchange is a sum and an entry on disk, and the entry is written last.
A restarted server runs the same code again and takes the sums from the folder as far as they go. If a question differs
from the one on disk, the study stops with an error.
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
from ..site.questions import SiteFits, ValidationErrors
from ..site.statistics import LeaveOneOut, Statistic, Sums
from ..study.folder import StudyError, StudyFolder, StudyRecord, account_for_privacy, find_missing_sites
from ..study.study import Study
from ..wire.transport import Transport
from .rounds import fit_private
from .server import Progress, Server

Ask = Callable[[Statistic], Any]


def _fit_study(study: Study, ask: Ask) -> Any:
    """Return the model of a study."""
    fits = {"average": _fit_average, "private": fit_private}
    return fits.get(study.kind, _fit_from_sums)(study, ask)


def _fit_from_sums(study: Study, ask: Ask) -> SummaryRegressor:
    """Fit LESS or a second-order model; each further round asks for sums of the residuals of the model so far."""
    basis = study.basis
    summary: Summary = ask(Sums(study, 0, None, study.loss, study.order))
    lam = "auto" if study.lam == "loo" else study.lam
    model = SummaryRegressor(
        study.filter, lam, study.fit_intercept, ridge=study.ridge, steps=study.steps, grid=study.grid
    )
    model.fit_summary(summary, basis=basis)
    if study.lam == "loo":
        scores = ask(LeaveOneOut(study, model.candidates(basis=basis)))
        model.fit_summary(summary, scores=scores, basis=basis)
    for number in range(1, study.rounds):
        known = model.coefficients_in(basis)
        assert known is not None
        residuals: Summary = ask(Sums(study, number, Functions(*known), study.loss, study.order))
        # Sites identify the function by its own digest, but the model is identified by the digest of all its parts.
        contents = replace(residuals.contents, model=declared.digest_of(model))
        model.update(replace(residuals, contents=contents), basis=basis)
    return model


def _fit_average(study: Study, ask: Ask) -> BasisAverage:
    """Average the sites' own ridge regressions, with λ by the validation errors of averages of halves."""
    basis, lam, path = study.basis, study.lam, {}
    if isinstance(lam, str):
        grid = criteria.default_grid(basis.kappa_sq_, float(np.finfo(float).eps)) if study.grid is None else study.grid
        tried = np.asarray(grid, dtype=float)
        coef, intercept, _ = _mean_of_fits(ask(SiteFits(study, tried, halves=True)))
        n_lam, M, T = coef.shape
        functions = Functions(coef.transpose(1, 0, 2).reshape(M, n_lam * T), intercept.reshape(-1))
        sums = ask(ValidationErrors(study, functions)).sums
        errors = sums["square"].high / sums["weight"].high
        lam = float(tried[criteria.best_index(errors, tried, per_target=False)[0]])
        path = {"lam": tried, "error": errors}
    final = SiteFits(study, np.asarray([lam]), halves=False)
    coef, intercept, n_sites = _mean_of_fits(ask(final))
    return BasisAverage().settle(basis, coef[0], intercept[0], lam, study.targets, n_sites, path)


def _mean_of_fits(total: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the mean coefficients (L, M, T), the mean intercepts (L, T), and the number of sites."""
    W = float(total.sums["weight"].high[0])
    sites = int(total.sums["sites"].high[0])
    return total.sums["coef"].high / W, total.sums["intercept"].high / W, sites


def run_study(study: Study, transport: Transport, folder: PathLike, progress: Progress | None = None) -> StudyRecord:
    """Ask the sites, fit the model, and write the model (``study.model``) and the record (``record.json``).

    If no model can be made, a :class:`StudyError` and the record say why.

    Parameters
    ----------
    study : the study
    transport : the transport to its sites
    folder : the folder of the study. If it holds part of this study, the study continues from there; if it holds a
        finished study, nothing is repeated
    progress : a function that is called with a :class:`Status` after each change, or None

    Returns
    -------
    StudyRecord
    """
    if study.kind == "estimator":
        raise StudyError(
            "a study of the kind 'estimator' has no model of its own: fit an estimator with engine=FederatedEngine(...)"
        )
    place = StudyFolder(Path(folder))
    study = place.begin(study)
    if (known := _load_finished(place, study)) is not None:
        return known
    run = Run(study, transport, place, progress)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            model = _fit_study(study, run.server.ask)
    except StudyError as error:
        run.fail(str(error))
        raise
    except (ValueError, ArithmeticError) as error:
        problem = f"no model can be made of these sums: {join_lines(error)}"
        run.fail(problem)
        raise StudyError(problem) from error
    return run.finish(model, list(dict.fromkeys(str(one.message) for one in warned)))


class Run:
    """One run of a study, which ends with a record."""

    def __init__(self, study: Study, transport: Transport, folder: StudyFolder, progress: Progress | None) -> None:
        self.study, self.folder = study, folder
        self.server = Server(study, transport, folder, progress)
        self._began, self._clock = _now(), time.monotonic()
        self.server.report()

    def finish(self, model: Any, notes: list[str]) -> StudyRecord:
        """Write the model, and then the record, which says whether all members are in it."""
        path = self.folder.model
        models.save(model, path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        about = {"file": path.name, "sha256": sha256, "digest": declared.digest_of(model)}
        missing = find_missing_sites(self.study, self.folder.exchanges())
        if self.study.secure and any(0 not in numbers for numbers in missing.values()):
            notes = [*notes, _DIFFERENCE]
        return self._record("partial" if missing else "complete", about, model, notes=notes)

    def fail(self, problem: str) -> None:
        """Write a record that says why there is no model."""
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
            find_missing_sites(study, exchanges),
            about,
            account_for_privacy(study, exchanges, self.server.prices, model),
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
    "a site dropped out after the first sum, so its number of rows and its Σφ follow from the difference of two sums; "
    "use steady=True for a study in which that must not happen"
)


def _load_finished(folder: StudyFolder, study: Study) -> StudyRecord | None:
    """Return the record of a study that has already finished, if its model is unchanged."""
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
