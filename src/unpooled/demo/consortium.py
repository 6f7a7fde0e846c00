"""The consortium in the demo and its hospitals: a basis goes out, summaries come back, and their sums make models.

Everything they exchange is a file. A hospital has patients who never leave its folder, a policy, a log, and answers to
what it is asked.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from .. import bases, models
from ..estimators import SummaryRegressor
from ..gate import POLICY_NAME, Gate, Log, Policy, Refused, facts
from ..gate.gate import content_of
from ..summaries import Summary, merge
from .study import TARGET, Study

LOG_NAME = "unpooled-log.jsonl"


@dataclass
class Hospital:
    """What happens behind its door: it reads a basis or a model, and writes a summary if its policy allows it."""

    name: str
    folder: Path
    sent: list[Path] = field(default_factory=list)
    refusals: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, name: str, folder: Path, patients: Any) -> Hospital:
        """A folder with the patients and the policy that a site starts with."""
        folder.mkdir(parents=True)
        pq.write_table(patients, folder / "patients.parquet")
        Policy.write_template(folder / POLICY_NAME)
        return cls(name, folder)

    def answer(self, basis_file: Path, called: str, order: int = 1, residuals_of: Path | None = None) -> Path | None:
        """The summary of its patients as a file, or None where its policy says no; the log has it either way."""
        basis = bases.load(basis_file)
        model = None if residuals_of is None else models.load(residuals_of)
        patients, path = self.folder / "patients.parquet", self.folder / f"{called}.summary"
        summary = Summary.of(basis, patients, TARGET, order=order, residuals_of=model)
        gate = Gate(Policy.read(self.folder / POLICY_NAME), Log(self.folder / LOG_NAME))
        try:
            gate.write(path, content_of(summary.save), facts.of_summary(summary, summary.label_share))
        except Refused as refused:
            self.refusals[called] = refused.reasons
            return None
        self.sent.append(path)
        return path


FEATURES = 30  # of the basis for first-order messages
FEATURES_SECOND = 15  # for second-order messages: what a policy of five patients a feature allows at the third largest
ROUNDS = 5


@dataclass
class Consortium:
    """Its folder and the hospitals it can ask."""

    folder: Path
    hospitals: list[Hospital]

    def publish(self, study: Study) -> None:
        """The bases, made of public patients without labels."""
        self.folder.mkdir(parents=True)
        pq.write_table(study.inputs(study.public), self.folder / "public.parquet")
        public = pq.read_table(self.folder / "public.parquet")
        for name, size in (("study", FEATURES), ("small", FEATURES_SECOND)):
            basis = bases.EmpiricalFeatures(n_features=size, standardize=True).fit(public)
            basis.save(self.folder / f"{name}.basis")

    def collect(self, called: str, basis: str = "study", order: int = 1, residuals_of: Path | None = None) -> Summary:
        """Ask every hospital, and add up what comes back."""
        asked = [h.answer(self.folder / f"{basis}.basis", called, order, residuals_of) for h in self.hospitals]
        merge([Summary.load(path) for path in asked if path is not None]).save(self.folder / f"{called}.summary")
        return Summary.load(self.folder / f"{called}.summary")

    def less(self) -> Path:
        """LESS: one exchange of first-order sums, λ from the sums alone."""
        return self._fit("less", self.collect("less"))

    def rounds(self) -> Path:
        """Residual rounds from the same sums: each model goes out, the sums of its errors come back."""
        summary = Summary.load(self.folder / "less.summary")
        latest = self._fit("round-1", summary, ridge=True, steps="conjugate")
        for number in range(2, ROUNDS + 1):
            residuals = self.collect(f"round-{number}", residuals_of=latest)
            model = models.load(latest).update(residuals, basis=bases.load(self.folder / "study.basis"))
            latest = self._save(f"round-{number}", model)
        return latest

    def second_order(self) -> Path:
        """One exchange of second-order sums."""
        return self._fit("second", self.collect("second", "small", order=2))

    def _fit(self, called: str, summary: Summary, **how: Any) -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the floor of LESS, which the report gives in words
            return self._save(called, SummaryRegressor(center=True, **how).fit_summary(summary))

    def _save(self, called: str, model: Any) -> Path:
        path = self.folder / f"{called}.model"
        models.save(model, path)
        return path


def predictions(model: Path, study: Study) -> np.ndarray:
    """What a model file says of the test patients."""
    return np.asarray(models.load(model).predict(study.inputs(study.test)))
