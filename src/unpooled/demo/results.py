"""What each way of learning came to: its errors, and what it made the hospitals send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..datasets import SiteDataset
from .study import HOSPITALS

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
