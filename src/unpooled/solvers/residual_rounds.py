"""Rounds of residual statistics: LESS again, on what the function so far has not explained.

In a round the sites send r = (1/n) Σ ψ(y - f(x)) φ(x), the negative gradient of J(a) = (1/n) Σ ρ(y - aᵀφ(x)), and

    a ← a + s P r,     P = (C^u + λ)⁻¹ of the public sample.

From a = 0, with s = 1 and ψ(u) = u, the first round is LESS and the rounds are iterated Tikhonov with a public
preconditioner; where the public sample is the rows, the filter of that name exactly. They converge to the
least-squares solution in the span, from which -λa in every r (``ridge``) makes the ridge solution.

A full step contracts only while the largest eigenvalue of P·C^x is below 2, and nobody knows C^x. But the message at
a + p, p = P r, tells how far it was right to go. With squares J is a parabola along p and r is linear, so the best step
α = rᵀp / (r - r')ᵀp is known exactly, r' being the new message. J falls while α > 1/2. A full step that was too long
(α ≤ 0.55) becomes α, with r interpolated so that no message is lost, and from there the rounds go on as conjugate
gradients preconditioned by P, which take the best step every time: J falls in every round, and they converge always.
With the steps "conjugate" they do so from the start; the same messages, far fewer rounds.
With another loss J itself is compared (sites send Σρ), and a step that does not lower it is shortened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..filters import Floats

_STATE = ("point", "base", "r", "J", "direction", "step", "product", "held", "first")
STEPS = ("plain", "conjugate")
GOOD = 0.55  # a full step is kept where the best one is longer than this
ENOUGH = 1e-4  # of the decrease that the slope promises: what J must fall by


@dataclass
class Rounds:
    """Where the next message is wanted (``point``), and what the messages so far have told. Columns are independent.

    ``precondition`` maps an (M, T) array r to P r; ``lam`` is the ridge term kept in every round, one a column, or 0.
    """

    precondition: Callable[[Floats], Floats] = field(repr=False)
    lam: Floats | float = 0.0
    quadratic: bool = True
    steps: str = "plain"
    n_received: int = 0
    point: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    base: Any = None  #: the last point that was accepted, with its r, J and the step tried from it
    r: Any = None
    J: Any = None
    direction: Any = None
    step: Any = None
    product: Floats | None = None  #: rᵀP r at the base
    held: Floats | None = None  #: columns whose full steps were too long, 1 or 0
    first: Floats | None = None  #: rᵀP r at the start

    def receive(self, message: Floats, loss: Floats | None = None) -> None:
        """Take in the message at ``point``, and move it."""
        r = message - self.lam * self.point
        J = None if loss is None else loss + 0.5 * np.sum(self.lam * self.point * self.point, axis=0)
        self.n_received += 1
        if self.base is None:
            self._accept(self.point, r, J, np.ones(r.shape[1]))
        elif self.quadratic:
            self._along_parabola(r)
        else:
            self._downhill(r, J)

    @property
    def progress(self) -> float:
        """√(rᵀP r) beside what it was at the start, the largest over the columns."""
        if self.product is None or self.first is None:
            return np.inf
        ratio = np.divide(self.product, self.first, out=np.zeros_like(self.product), where=self.first > 0)
        return float(np.sqrt(np.max(ratio, initial=0.0)))

    def _accept(self, base: Floats, r: Floats, J: Floats | None, step: Floats) -> None:
        z = self.precondition(r)
        product = np.maximum(_dot(r, z), 0.0)
        if self.product is not None and self.direction is not None and self.held is not None:
            beta = np.divide(product, self.product, out=np.zeros_like(product), where=self.product > 0)
            z = z + self.held * beta * self.direction
        self.base, self.r, self.J, self.direction, self.product, self.step = base, r, J, z, product, step
        self.first = product if self.first is None else self.first
        self.point = base + step * z

    def _along_parabola(self, r: Floats) -> None:
        base, old, direction, step = self.base, self.r, self.direction, self.step
        slope, curvature = _dot(old, direction), _dot(old - r, direction) / step
        known = (curvature > 0) & (slope > 0)
        best = np.divide(slope, curvature, out=np.zeros_like(slope), where=known)
        held = np.ones_like(best) if self.steps == "conjugate" or self.held is None else self.held
        held = np.zeros_like(best) if self.steps == "plain" and self.held is None else held
        self.held = np.maximum(held, best <= GOOD)
        taken = np.where(self.held > 0, best, 1.0)
        following = np.where((self.held > 0) & known, np.minimum(best, 1.0), 1.0)
        self._accept(base + taken * direction, old + taken / step * (r - old), None, following)

    def _downhill(self, r: Floats, J: Any) -> None:
        base, old, step = self.base, self.r, self.step
        slope = _dot(old, self.direction)
        lower = self.J - ENOUGH * step * slope >= J
        # A column that did not fall stays where it was, and tries a shorter step: where the slope would vanish.
        change = slope - _dot(r, self.direction)
        guess = np.divide(step * slope, change, out=np.full_like(slope, np.inf), where=change > 0)
        shorter = np.clip(guess, 0.1 * step, 0.5 * step)
        following = np.where(lower, np.minimum(1.0, 2.0 * step), shorter)
        point = np.where(lower, self.point, base)
        self._accept(point, np.where(lower, r, old), np.where(lower, J, self.J), following)

    def restart(self) -> None:
        """Take the next message as the first: the loss has changed."""
        self.base = self.r = self.J = self.direction = self.product = self.held = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What another process needs to go on."""
        return {f"rounds.{name}": np.asarray(v) for name in _STATE if (v := getattr(self, name)) is not None}

    def restored(self, arrays: dict[str, np.ndarray], n_received: int) -> Rounds:
        """The inverse, into this one."""
        for name in _STATE:
            if f"rounds.{name}" in arrays:
                setattr(self, name, arrays[f"rounds.{name}"])
        self.n_received = n_received
        return self


def _dot(a: Floats, b: Floats) -> Any:
    """Column by column."""
    return np.sum(a * b, axis=0)
