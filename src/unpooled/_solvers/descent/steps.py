"""Steps of a descent on L_{D*}/κ²: by products with the matrix, or in its eigenvectors, where m steps are one.

The mathematics is in :mod:`.descent`. The coordinates are those of :mod:`unpooled._linalg.operator`, and a is κ² times
g(A)v there: a row of U, or of all rows, holds one column for every scale and target.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..._base.arrays import Array, eps, is_numpy, like, namespace
from ..._linalg.operator import Coordinates

SETTLED = 1e-5  # of a column's largest value: corrections end once they move every column by less
LONG = 1000  # above this, steps are no longer added up one by one

_PseudoLabels = Callable[[Array], Array]  #: from √(N*w*)·f to √(N*w*) times the labels of the next least-squares step


class _Steps(Protocol):
    """The part of a task that the steps need."""

    @property
    def kappa_sq(self) -> float: ...
    @property
    def step(self) -> float: ...
    @property
    def decay(self) -> float: ...
    @property
    def corrections(self) -> int: ...


@dataclass
class _State:
    """The descent after ``t`` steps: coordinates a, the sum of each row's inputs, and √(Nw)·f on D*."""

    t: int
    a: Array
    given: Array
    values: Array
    intercept: Array
    done: float = 0.0  #: κ² times the sum of η so far


class Operator(ABC):
    """The operator L_{D*}/κ² and the descent in it."""

    name: str
    jumps: bool
    coordinates: Coordinates

    @abstractmethod
    def start(self, n_columns: int) -> _State:
        """Return the state of f = 0."""

    @abstractmethod
    def advance(self, state: _State, m: int, task: _Steps, pseudo_labels: _PseudoLabels) -> _State:
        """Advance by m steps, in one jump if ``jumps`` says that it can."""

    @abstractmethod
    def solution(self, state: _State) -> tuple[Array, Array]:
        """Return a on all rows (N*, columns) and the intercept (columns,)."""


def _sum_of_steps(task: _Steps, t: int, m: int) -> float:
    """Return Σ_{s=t+1}^{t+m} step·s^{-decay}: κ² times the sum of η."""
    if task.decay == 0.0:
        return task.step * m
    if m > LONG:  # the midpoint rule, off by a share of 1/(24·t²) at most
        power = 1.0 - task.decay
        return task.step * ((t + m + 0.5) ** power - (t + 0.5) ** power) / power
    return task.step * float(np.sum(np.arange(t + 1.0, t + m + 1.0) ** -task.decay))


class Products(Operator):
    """The descent a ← a + η(v - A a), with one product with the matrix per step."""

    name, jumps = "products", False

    def __init__(self, M: Array, coordinates: Coordinates, task: _Steps) -> None:
        self.M, self.coordinates = M, coordinates
        self.unit = 1.0 / (task.kappa_sq * coordinates.n)
        self.mean = _unit_mean(coordinates, M) if coordinates.center else None

    def start(self, n_columns: int) -> _State:
        zeros = namespace(self.M).zeros((self.M.shape[0], n_columns), dtype=self.M.dtype, device=self.M.device)
        return _State(0, zeros, zeros, zeros, zeros[0, :])

    def advance(self, state: _State, m: int, task: _Steps, pseudo_labels: _PseudoLabels) -> _State:
        for _ in range(m):
            e = _sum_of_steps(task, state.t, 1)
            v = pseudo_labels(state.values)
            a, b = state.a, state.intercept
            if self.mean is None:
                a = a + e * (v - state.values)
                values = self.unit * (self.M @ a)
            else:
                # v has a mean, which affects only the intercept; values contain the intercept too.
                inside = self.mean @ v
                v = v - self.mean[:, None] * inside
                a = a + e * (v - (state.values - self.mean[:, None] * b))
                b = b + e * (inside - b)
                values = self.unit * (self.M @ a) + self.mean[:, None] * b
            state = _State(state.t + 1, a, state.given, values, b)
        return state

    def solution(self, state: _State) -> tuple[Array, Array]:
        return state.a, state.intercept / math.sqrt(self.coordinates.n)


class Spectrum(Operator):
    """The descent in eigenvectors U (N*, r) with x = σ/κ² falling: a row of ``state.a`` for each that is followed."""

    jumps = True

    def __init__(
        self, name: str, U: Array, sigma: np.ndarray, coordinates: Coordinates, task: _Steps, followed: float
    ) -> None:
        x = np.clip(np.asarray(sigma, dtype=float) / task.kappa_sq, 0.0, 1.0)
        rank = int(np.sum(x > 4 * eps(U)))  # what lies below is rounding, and √w if centred
        self.name, self.coordinates, self.followed = name, coordinates, followed
        U, self.x = U[:, :rank], x[:rank]
        if coordinates.center:
            U = namespace(U).concat([_unit_mean(coordinates, U)[:, None], U], axis=1)
            self.x = np.append(1.0, self.x)
        self.U = np.asfortranarray(U) if is_numpy(U) else U

    def start(self, n_columns: int) -> _State:
        xp, U = namespace(self.U), self.U
        zeros = xp.zeros((U.shape[0], n_columns), dtype=U.dtype, device=U.device)
        return _State(0, zeros[:0, :], zeros, zeros, zeros[0, :])

    def advance(self, state: _State, m: int, task: _Steps, pseudo_labels: _PseudoLabels) -> _State:
        xp = namespace(self.U)
        total = _sum_of_steps(task, state.t, m)
        done = state.done + total
        r = max(int(np.searchsorted(-self.x * done, -self.followed)), state.a.shape[0], int(self.coordinates.center))
        U, x = self.U[:, :r], self.x[:r]
        new = U[:, state.a.shape[0] :].T @ state.given  # the inputs of those that were not followed so far
        e = total / m
        # q^m, (1-q^m)/x and h_m = (1/m) Σ_s s·e·q^{m-1-s} = (m - (1-q^m)/(ex))/(mx), q = 1 - ex.
        with np.errstate(divide="ignore", under="ignore"):
            decayed = m * np.log1p(-e * x)
        q, g = np.exp(decayed), -np.expm1(decayed) / x
        v = pseudo_labels(state.values)
        a = like(q, U)[:, None] * xp.concat([state.a, new]) + like(g, U)[:, None] * (U.T @ v)
        given = state.given + total * v
        values = U @ (like(x, U)[:, None] * a)
        if m > 1:
            z = m * e * x
            series = e * (m - 1) / 2 * (1 - e * x * (m - 2) / 3 * (1 - e * x * (m - 3) / 4 * (1 - e * x * (m - 4) / 5)))
            h = np.where(z < 1e-2, series, (m - g / e) / (m * x))
            predicted, reach = a, xp.max(xp.abs(values), axis=0)
            for _ in range(task.corrections):
                change, before = pseudo_labels(values) - v, values
                a = predicted + like(h, U)[:, None] * (U.T @ change)
                values = U @ (like(x, U)[:, None] * a)
                moved = xp.max(xp.abs(values - before), axis=0)
                if task.corrections > 1 and bool(xp.all(moved <= SETTLED * reach)):
                    break
            given = given + (total * (m - 1) / (2 * m)) * change
        return _State(state.t + m, a, given, values, state.intercept, done)

    def solution(self, state: _State) -> tuple[Array, Array]:
        first = int(self.coordinates.center)
        U = self.U[:, : state.a.shape[0]]
        outside = state.given - U @ (U.T @ state.given)
        b = state.a[0, :] / math.sqrt(self.coordinates.n) if first else state.intercept
        return U[:, first:] @ state.a[first:, :] + outside, b


def _unit_mean(coordinates: Coordinates, reference: Array) -> Array:
    """Return √w, the unit vector of a constant."""
    return coordinates.weights(reference) ** 0.5
