"""The study of the demo: the patients of four hospitals, dealt into three parts, and the files that are exchanged.

Some patients are public, some stay at their hospital, and some are for testing. A basis goes out, summaries come back,
and their sums make models. A hospital has a folder that its patients never leave, a policy, a log, and answers to the
questions that it is asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .. import bases, models
from ..datasets import SiteDataset
from ..estimators import SummaryRegressor
from ..gate import POLICY_NAME, Gate, Log, Policy, Refused, facts
from ..gate.gate import content_of
from ..summaries import Summary, merge

TARGET = "max_heart_rate"
HOSPITALS = {"cleveland": "Cleveland", "hungarian": "Hungary", "switzerland": "Switzerland", "va": "VA Long Beach"}
N_STUDIES = 5


@dataclass(frozen=True)
class Study:
    """One deal of the rows: masks over the data set. No row is in two of the three."""

    number: int
    data: SiteDataset
    public: np.ndarray
    private: np.ndarray
    test: np.ndarray

    def at(self, hospital: str) -> np.ndarray:
        """The private rows of one hospital."""
        return self.private & (self.data.sites == hospital)

    def inputs(self, rows: np.ndarray) -> Any:
        """Inputs with their names. A column for each hospital says whose patient it is: hospitals differ in more than
        their patients, and a model that knows the hospital can allow for that."""
        names = [*self.data.feature_names, *(f"at_{site}" for site in HOSPITALS)]
        at = [(self.data.sites[rows] == site).astype(float) for site in HOSPITALS]
        return pa.table(dict(zip(names, [*self.data.X[rows].T, *at])))

    def patients(self, rows: np.ndarray) -> Any:
        """Inputs and label."""
        return self.inputs(rows).append_column(TARGET, pa.array(self.data.y[rows]))


def studies(data: SiteDataset) -> Iterator[Study]:
    """Five deals: two tenths of every hospital are tested on, two tenths are public; every patient is tested once."""
    for k in range(N_STUDIES):
        test = np.isin(data.fold, [2 * k, 2 * k + 1])
        public = np.isin(data.fold, [(2 * k + 2) % 10, (2 * k + 3) % 10])
        yield Study(k + 1, data, public, ~test & ~public, test)


STAYS = "nothing leaves"
SUMS = "sums leave"
REFUSED = "for comparison: refused"


@dataclass
class Method:
    """A line of the table. Predictions are of test patients only: those that were no part of the learning."""

    name: str
    group: str
    exchanges: int
    data: SiteDataset
    predicted: np.ndarray = field(repr=False)
    numbers: list[int] = field(default_factory=list, repr=False)  #: sent by a hospital in a study, all exchanges
    bytes: list[int] = field(default_factory=list, repr=False)

    def sends(self, numbers: Sequence[int], sizes: Sequence[int]) -> None:
        """What the hospitals sent in one study."""
        self.numbers += numbers
        self.bytes += sizes

    @property
    def rmse(self) -> float:
        """Over the test patients of all hospitals."""
        return self._rmse(np.ones(len(self.predicted), dtype=bool))

    @property
    def by_hospital(self) -> dict[str, float]:
        """Over the test patients of each."""
        return {site: self._rmse(self.data.sites == site) for site in HOSPITALS}

    @property
    def mean_numbers(self) -> float:
        """Numbers that a hospital sends, the mean over hospitals and studies."""
        return float(np.mean(self.numbers)) if self.numbers else 0.0

    @property
    def mean_bytes(self) -> float:
        """The same in bytes."""
        return float(np.mean(self.bytes)) if self.bytes else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "group": self.group,
            "rmse": self.rmse,
            "rmse_by_hospital": self.by_hospital,
            "numbers_sent": self.mean_numbers,
            "bytes_sent": self.mean_bytes,
            "exchanges": self.exchanges,
        }

    def _rmse(self, rows: np.ndarray) -> float:
        return float(np.sqrt(np.mean((self.data.y[rows] - self.predicted[rows]) ** 2)))


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


def predict_test(model: Path, study: Study) -> np.ndarray:
    """What a model file says of the test patients."""
    return np.asarray(models.load(model).predict(study.inputs(study.test)))


@dataclass
class DemoResults:
    """Everything the report needs."""

    data: SiteDataset
    methods: dict[str, Method]
    first: Consortium  #: of the first study, whose files the report shows
    floor: float  #: what LESS is expected to be off by for its small public sample, the mean over studies
