"""Rounds of residual statistics: LESS again, on what the function so far has not explained.

In a round the sites send r = (1/n) Σ ψ(y - f(x)) φ(x), the negative gradient of J(a) = (1/n) Σ ρ(y - aᵀφ(x)), and

    a ← a + P r,     P = (C^u + λ)⁻¹ of the public sample.

From a = 0 with ψ(u) = u the first round is LESS and the rounds are iterated Tikhonov with a public preconditioner;
where the public sample is the rows, the filter of that name exactly. They converge to the least-squares solution in
the span (the one smallest in the P⁻¹-norm), from which -λa in every r (``ridge``) makes the ridge solution.

A full step contracts only while the largest eigenvalue of P·C^x is below 2, and nobody knows C^x. But with squares r is
linear, r = d - C^x a, so the message at a point a + p tells C^x p, and with that how far it was right to go:
α = rᵀp / pᵀ(C^x + ridge)p, J falling while α > 1/2. A column whose full step was too long (α ≤ 0.55) takes the best
point of all those that messages have told about instead: the minimiser of J over the span of every direction tried,
of all columns, since they share C^x. Then P r from there is the next point to ask about. J falls in every round, and
they converge always: with one column these are conjugate gradients preconditioned by P, with many λ side by side a
block of them. With the steps "conjugate" all columns do so from the start: the same messages, far fewer rounds.

With another loss J itself is compared (sites send Σρ), and a step that does not lower it is shortened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..filters import Floats
from .subspace import Subspace

STEPS = ("plain", "conjugate")
GOOD = 0.55  # a full step is kept where the best one is longer than this
ENOUGH = 1e-4  # of the decrease that the slope promises: what J must fall by
Map = Callable[[Floats], Floats]
STATE = ("point", "base", "r", "J", "step", "held", "first", "product", "asked", "told")
NUMBERS = ("J", "step", "held", "first", "product")  # of it, one a column


@dataclass
class Rounds:
    """``point`` is where the next message is wanted, ``result`` the functions so far; (M, T) arrays, one a column.

    ``precondition`` maps r to P r. ``careful`` is the P of columns that do not take plain steps, where any will do.
    ``ridge`` is λ for every coefficient and column, or 0.
    """

    precondition: Map = field(repr=False)
    point: Floats = field(repr=False)
    ridge: Floats = field(repr=False)
    quadratic: bool = True
    steps: str = "plain"
    careful: Map | None = field(repr=False, default=None)
    n_received: int = 0
    base: Any = None  #: the best point whose message is known, with r and, other than for squares, J there
    r: Any = None
    J: Any = None
    step: Any = None  #: from base to point, in P r; other than for squares
    held: Any = None  #: 1 for columns whose last full step was too long
    product: Any = None  #: rᵀP r at the base
    first: Any = None  #: rᵀP r at the start
    asked: Any = None  #: the point of the last message, and that message
    told: Any = None
    known: Subspace | None = None

    def receive(self, message: Floats, loss: Floats | None = None) -> None:
        """Take in the message at ``point``, and move it."""
        self.n_received += 1
        point = self.point
        r = message - self.ridge * point
        J = None if loss is None else loss + 0.5 * np.sum(self.ridge * point * point, axis=0)
        if self.base is None:
            self.known = Subspace.empty(len(message))
            held = float(self.steps == "conjugate") if self.quadratic else 0.0
            self._move(point, r, J, np.ones(r.shape[1]), np.full(r.shape[1], held))
        elif self.quadratic:
            self._learn(message, r)
        else:
            self._downhill(r, J)
        self.asked, self.told = point, message

    @property
    def result(self) -> Floats:
        """The last point of full steps; for other columns the best that is known."""
        sure = (self.held > 0) & (self.n_received > 1)
        return np.where(sure, self.base, self.point)

    @property
    def progress(self) -> float:
        """√(rᵀP r) beside what it was at the start, the largest over the columns."""
        if self.product is None:
            return np.inf
        ratio = np.divide(self.product, self.first, out=np.zeros_like(self.product), where=self.first > 0)
        return float(np.sqrt(np.max(ratio, initial=0.0)))

    def _move(self, base: Floats, r: Floats, J: Any, step: Floats, held: Floats) -> None:
        plain = self.precondition(r)
        ahead = plain
        if self.careful is not None and self.n_received > 1 and np.any(held > 0):
            ahead = np.where(held > 0, self.careful(r), plain)
        self.base, self.r, self.J, self.step, self.held = base, r, J, step, held
        self.product = np.maximum(_dot(r, plain), 0.0)
        self.first = self.product if self.first is None else self.first
        self.point = base + step * ahead

    def _learn(self, message: Floats, r: Floats) -> None:
        """Squares: the message tells C^x p, and the best point of all that are known follows."""
        assert self.known is not None
        # Between two points that were asked about: a difference of messages, and of nothing that was computed of them.
        p, Cp = self.point - self.asked, self.told - message
        rounding = np.finfo(float).eps * (np.linalg.norm(self.told, axis=0) + np.linalg.norm(message, axis=0))
        self.known.add(p, Cp, rounding)
        slope, curvature = _dot(self.told - self.ridge * self.asked, p), _dot(p, Cp + self.ridge * p)
        best = np.divide(slope, curvature, out=np.full_like(slope, np.inf), where=curvature > 0)
        held = np.maximum(self.held, best <= GOOD)
        base = self.point
        if np.any(held > 0):
            # From this point, whose r is a message and not a sum of earlier ones: what those got wrong is mended.
            further, left = self.known.minimise(r, self.ridge)
            base = np.where(held > 0, self.point + further, self.point)
            r = np.where(held > 0, left - self.ridge * further, r)
        self._move(base, r, None, np.ones(len(held)), held)

    def _downhill(self, r: Floats, J: Any) -> None:
        """Other losses: a step that lowers J is kept, one that does not is shortened."""
        p = self.point - self.base
        slope = _dot(self.r, p)
        lower = self.J - ENOUGH * slope >= J
        # To where the slope along p would vanish, were J a parabola.
        change = slope - _dot(r, p)
        share = np.divide(slope, change, out=np.full_like(slope, np.inf), where=change > 0)
        step = np.where(lower, np.minimum(1.0, 2.0 * self.step), np.clip(share, 0.1, 0.5) * self.step)
        base, r, J = (np.where(lower, new, old) for new, old in ((self.point, self.base), (r, self.r), (J, self.J)))
        self._move(base, r, J, step, np.where(lower, 0.0, 1.0))

    def restart(self) -> None:
        """Take the next message as the first: the loss has changed."""
        self.base = self.r = self.J = self.product = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What another process needs to go on."""
        found = {f"rounds.{name}": np.asarray(v) for name in STATE if (v := getattr(self, name)) is not None}
        if self.known is not None and self.known.S.shape[1]:
            found |= {"rounds.S": self.known.S, "rounds.CS": self.known.CS}
        return found

    def restored(self, arrays: dict[str, np.ndarray], n_received: int) -> Rounds:
        """The inverse, into this one."""
        for name in STATE:
            if f"rounds.{name}" in arrays:
                setattr(self, name, arrays[f"rounds.{name}"])
        if n_received:
            empty = np.zeros((len(self.point), 0))
            self.known = Subspace(arrays.get("rounds.S", empty), arrays.get("rounds.CS", empty))
        self.n_received = n_received
        return self


def _dot(a: Floats, b: Floats) -> Any:
    """Column by column."""
    return np.sum(a * b, axis=0)
