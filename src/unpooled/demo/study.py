"""The patients of four hospitals, dealt into public ones, those who stay, and those for testing.

The line of a way of learning in the table has its errors, and what it made the hospitals send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..datasets import SiteDataset

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
