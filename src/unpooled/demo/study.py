"""The study of the demo: the patients of four hospitals, divided into three parts, and the files they exchange.

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
    """One division of the rows into three disjoint parts, as masks over the data set."""

    number: int
    data: SiteDataset
    public: np.ndarray
    private: np.ndarray
    test: np.ndarray

    def at(self, hospital: str) -> np.ndarray:
        """Return a mask of the private rows of one hospital."""
        return self.private & (self.data.sites == hospital)

    def inputs(self, rows: np.ndarray) -> Any:
        """Return a table of inputs, with a column for each hospital that says whose patient it is.

        Hospitals differ in more than their patients, and a model that knows the hospital can allow for that.
        """
        names = [*self.data.feature_names, *(f"at_{site}" for site in HOSPITALS)]
        at = [(self.data.sites[rows] == site).astype(float) for site in HOSPITALS]
        return pa.table(dict(zip(names, [*self.data.X[rows].T, *at])))

    def patients(self, rows: np.ndarray) -> Any:
        """Return a table of inputs and the label."""
        return self.inputs(rows).append_column(TARGET, pa.array(self.data.y[rows]))


def divide_into_studies(data: SiteDataset) -> Iterator[Study]:
    """Yield five divisions, with two tenths of every hospital public and two for testing; all are tested once."""
    for k in range(N_STUDIES):
        test = np.isin(data.fold, [2 * k, 2 * k + 1])
        public = np.isin(data.fold, [(2 * k + 2) % 10, (2 * k + 3) % 10])
        yield Study(k + 1, data, public, ~test & ~public, test)


STAYS = "nothing leaves"
SUMS = "sums leave"
REFUSED = "for comparison: refused"


@dataclass
class Method:
    """A row of the table. Only test patients are predicted, whom the model has not seen."""

    name: str
    group: str
    exchanges: int
    data: SiteDataset
    predicted: np.ndarray = field(repr=False)
    numbers: list[int] = field(default_factory=list, repr=False)  #: sent by a hospital in a study, all exchanges
    bytes: list[int] = field(default_factory=list, repr=False)

    def note_sent(self, numbers: Sequence[int], sizes: Sequence[int]) -> None:
        """Note what the hospitals sent in one study."""
        self.numbers += numbers
        self.bytes += sizes

    @property
    def rmse(self) -> float:
        """The root mean square error over the test patients of all hospitals."""
        return self._rmse(np.ones(len(self.predicted), dtype=bool))

    @property
    def by_hospital(self) -> dict[str, float]:
        """The root mean square error over the test patients of each hospital."""
        return {site: self._rmse(self.data.sites == site) for site in HOSPITALS}

    @property
    def mean_numbers(self) -> float:
        """The mean number of numbers that a hospital sends in a study."""
        return float(np.mean(self.numbers)) if self.numbers else 0.0

    @property
    def mean_bytes(self) -> float:
        """The mean number of bytes that a hospital sends in a study."""
        return float(np.mean(self.bytes)) if self.bytes else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data for JSON."""
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
    """A hospital, which reads a basis or a model and writes a summary of its patients if its policy allows it."""

    name: str
    folder: Path
    sent: list[Path] = field(default_factory=list)
    refusals: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, name: str, folder: Path, patients: Any) -> Hospital:
        """Make a folder with the patients and the policy that a site starts with."""
        folder.mkdir(parents=True)
        pq.write_table(patients, folder / "patients.parquet")
        Policy.write_template(folder / POLICY_NAME)
        return cls(name, folder)

    def answer(self, basis_file: Path, name: str, order: int = 1, residuals_of: Path | None = None) -> Path | None:
        """Write a summary of its patients to a file; return None if its policy refuses. The log notes both."""
        basis = bases.load(basis_file)
        model = None if residuals_of is None else models.load(residuals_of)
        patients, path = self.folder / "patients.parquet", self.folder / f"{name}.summary"
        summary = Summary.of(basis, patients, TARGET, order=order, residuals_of=model)
        gate = Gate(Policy.read(self.folder / POLICY_NAME), Log(self.folder / LOG_NAME))
        try:
            gate.write(path, content_of(summary.save), facts.of_summary(summary, summary.label_share))
        except Refused as refused:
            self.refusals[name] = refused.reasons
            return None
        self.sent.append(path)
        return path


FEATURES = 30  # of the basis for first-order messages
FEATURES_SECOND = (
    15  # for second-order messages: as many as the policy, five patients per feature, allows the third largest
)
ROUNDS = 5


@dataclass
class Consortium:
    """The consortium: its folder and its hospitals."""

    folder: Path
    hospitals: list[Hospital]

    def publish(self, study: Study) -> None:
        """Fit the bases to the public patients, without labels."""
        self.folder.mkdir(parents=True)
        pq.write_table(study.inputs(study.public), self.folder / "public.parquet")
        public = pq.read_table(self.folder / "public.parquet")
        for name, size in (("study", FEATURES), ("small", FEATURES_SECOND)):
            basis = bases.EmpiricalFeatures(n_features=size, standardize=True).fit(public)
            basis.save(self.folder / f"{name}.basis")

    def collect(self, name: str, basis: str = "study", order: int = 1, residuals_of: Path | None = None) -> Summary:
        """Ask every hospital for a summary and add up those that come back."""
        asked = [h.answer(self.folder / f"{basis}.basis", name, order, residuals_of) for h in self.hospitals]
        merge([Summary.load(path) for path in asked if path is not None]).save(self.folder / f"{name}.summary")
        return Summary.load(self.folder / f"{name}.summary")

    def less(self) -> Path:
        """Fit LESS in one exchange of first-order sums; λ is chosen from the sums alone."""
        return self._fit("less", self.collect("less"))

    def rounds(self) -> Path:
        """Fit residual rounds from the same sums: each model goes out, and the sums of its errors come back."""
        summary = Summary.load(self.folder / "less.summary")
        latest = self._fit("round-1", summary, ridge=True, steps="conjugate")
        for number in range(2, ROUNDS + 1):
            residuals = self.collect(f"round-{number}", residuals_of=latest)
            model = models.load(latest).update(residuals, basis=bases.load(self.folder / "study.basis"))
            latest = self._save(f"round-{number}", model)
        return latest

    def second_order(self) -> Path:
        """Fit in one exchange of second-order sums."""
        return self._fit("second", self.collect("second", "small", order=2))

    def _fit(self, name: str, summary: Summary, **how: Any) -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about the floor of LESS, which the page explains
            return self._save(name, SummaryRegressor(**how).fit_summary(summary))

    def _save(self, name: str, model: Any) -> Path:
        path = self.folder / f"{name}.model"
        models.save(model, path)
        return path


def predict_test(model: Path, study: Study) -> np.ndarray:
    """Predict the test patients by a model file."""
    return np.asarray(models.load(model).predict(study.inputs(study.test)))


@dataclass
class DemoResults:
    """The results of all studies, as the page needs them."""

    data: SiteDataset
    methods: dict[str, Method]
    first: Consortium  #: of the first study, whose files the report shows
    floor: float  #: the error that LESS expects from its small public sample, the mean over studies
