"""A hospital in the demo: patients who never leave its folder, a policy, a log, and answers to what it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from .. import bases, models
from ..site import POLICY_NAME, Gate, Log, Policy, Refused, facts
from ..site.gate import content_of
from ..sources import open_labeled
from ..summaries import Summary
from .study import TARGET

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
        share = facts.label_share_of(basis, open_labeled(basis, patients, TARGET, None), model)
        gate = Gate(Policy.read(self.folder / POLICY_NAME), Log(self.folder / LOG_NAME))
        try:
            gate.write(path, content_of(summary.save), facts.of_summary(summary, share))
        except Refused as refused:
            self.refusals[called] = refused.reasons
            return None
        self.sent.append(path)
        return path
