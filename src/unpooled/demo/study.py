"""The patients of four hospitals, dealt into public ones, those who stay, and those for testing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
