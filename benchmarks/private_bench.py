"""What the methods of the private frontier share: ε and δ, features that are made once, and R²."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import unpooled as up
from private_data import Problem

DELTA = 1e-6
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SIZES = (15, 30, 60, 100, 200, 400, 1000)  # numbers of features that peers choose among
KINDS = ("empirical", "random")
Record = dict[str, Any]


@dataclass(eq=False)  # arrays are told apart by what they are, not by what they hold
class Features:
    """Features of a problem's rows, without a constant, and what the public sample says of them."""

    train: np.ndarray
    test: np.ndarray
    kappa: float
    eigenvalues: np.ndarray  # of the public sample's E φφᵀ, which is diagonal
    mean: np.ndarray
    spread: np.ndarray

    @property
    def size(self) -> int:
        return self.train.shape[1]

    @cached_property
    def standardised(self) -> tuple[np.ndarray, np.ndarray]:
        """Each feature brought to mean 0 and variance 1, as practitioners do, and as the public sample knows them."""
        # Features were fitted to the public rows; on others the smallest are larger, and spread tells by how much.
        deviation = np.sqrt(np.maximum(self.spread - self.mean**2, 1e-3 * self.spread))
        return tuple(((part - self.mean) / deviation).astype(np.float32) for part in (self.train, self.test))

    def first(self, size: int) -> Features:
        """The first features, by public eigenvalue."""
        keep = slice(size)
        return Features(
            np.ascontiguousarray(self.train[:, keep]),
            np.ascontiguousarray(self.test[:, keep]),
            self.kappa,
            self.eigenvalues[keep],
            self.mean[keep],
            self.spread[keep],
        )


@dataclass
class Bench:
    """A problem with its features, each kind and size made once."""

    data: Problem
    made: dict[tuple[str, int], Features] = field(default_factory=dict)

    def features(self, kind: str, size: int) -> Features:
        key = (kind, size)
        if key not in self.made:
            if kind == "empirical":  # fewer of them are the first of many
                most = max(SIZES)
                made = self._make(up.bases.EmpiricalFeatures(None, most)) if size == most else None
                self.made[key] = made or self.features(kind, most).first(size)
            else:
                self.made[key] = self._make(up.bases.RandomFeatures(None, size, seed=0))
        return self.made[key]

    def _make(self, basis: Any) -> Features:
        basis.fit(self.data.public)
        train, test = (
            np.concatenate(
                [basis.transform(block).astype(np.float32) for block in np.array_split(X, len(X) // 5000 + 1)]
            )
            for X in (self.data.X, self.data.X_test)
        )
        return Features(train, test, math.sqrt(basis.kappa_sq_), basis.eigenvalues_, basis.mean_, basis.spread_)


def explained(predicted: np.ndarray, y: np.ndarray) -> np.ndarray:
    """R² of each column, -∞ where it left the finite numbers."""
    found = 1.0 - np.mean((y[:, None] - predicted.astype(float)) ** 2, axis=0) / np.var(y)
    return np.where(np.isfinite(found), found, -np.inf)
