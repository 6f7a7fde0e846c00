"""Rounds of residual statistics in the span of a basis: LESS again, on what the function so far has not explained.

In a round the sites send r = (1/n) Σ ψ(y - f(x)) φ(x), the negative gradient of J(a) = (1/n) Σ ρ(y - aᵀφ(x)), and

    a ← a + P r,     P = (C^u + λ)⁻¹ of the public sample.

From a = 0 with ψ(u) = u the first round is LESS and the rounds are iterated Tikhonov with a public preconditioner;
where the public sample is the rows, the filter of that name exactly. They converge to the least-squares solution in the
span (the one smallest in the P⁻¹-norm), or, with a term -λa in every r (``ridge``), to the ridge solution.

A full step contracts only while the largest eigenvalue of P·C^x is below 2, and nobody knows C^x. With the squared
loss, however, r is linear, r = d - C^x a. So the message at a point a + p tells C^x p, and with that how far it was
right to go: α = rᵀp / pᵀ(C^x + ridge)p, and J falls while α > 1/2. A column whose full step was too long (α ≤ 0.55)
takes the best point of all those that messages have told about instead: the minimiser of J over the span of every
direction tried, of all columns, since they share C^x. Then P r from there is the next point to ask about. J falls in
every round, and the rounds always converge: with one column these are conjugate gradients preconditioned by P, and with
many λ side by side they are a block of them. With the steps "conjugate" all columns do so from the start, which takes
the same messages and far fewer rounds.

With another loss J itself is compared (sites send Σρ), and a step that does not lower it is shortened.

Messages with noise for privacy tell neither C^x p nor J. Rounds then take full steps with the careful P, which knows
the spread of the features at fresh rows, and compare nothing.

The functions after the rounds are for the span of a basis: the preconditioners, the messages, and the way to
coefficients and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._base.arrays import Floats
from ...filters import Filter
from .moments import Means, System, limit_rank, make_system
from .subspace import Subspace, is_clear

STEPS = ("plain", "conjugate")
GOOD = 0.55  # a full step is kept where the best one is longer than this
ENOUGH = 1e-4  # of the decrease that the slope promises: what J must fall by
Map = Callable[[Floats], Floats]
STATE = ("point", "base", "r", "J", "step", "held", "first", "product", "asked", "told", "size", "drift")
NUMBERS = ("J", "step", "held", "first", "product", "size", "drift")  # of it, one a column


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
    kappa: float = 1.0  #: the largest |φ(x)|
    n_rows: float = 1.0  #: that a message is a mean of
    noisy: bool = False  #: messages have noise: steps are full, and nothing is learned from differences of messages
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
    size: Any = 0.0  #: the largest root mean square of ψ so far
    drift: Any = None  #: how far off r may be
    known: Subspace | None = None

    def receive(self, message: Floats, square: Floats, loss: Floats | None = None) -> None:
        """Take in the message at ``point``, and move it. ``square`` is the mean of ψ², ``loss`` that of ρ."""
        self.n_received += 1
        self.size = np.maximum(self.size, np.sqrt(square))
        point = self.point
        r = message - self.ridge * point
        J = None if loss is None else loss + 0.5 * np.sum(self.ridge * point * point, axis=0)
        if self.base is None:
            self.known = Subspace.empty(len(message))
            held = float(self.steps == "conjugate") if self.quadratic else 0.0
            self._move(point, r, J, np.ones(r.shape[1]), np.full(r.shape[1], held))
            self.drift = self._rounding(point)
        elif self.noisy:
            self._move(point, r, None, np.ones(r.shape[1]), np.ones(r.shape[1]))
            self.drift = self._rounding(point)
        elif self.quadratic:
            self._learn(message, r)
        else:
            self._downhill(r, J)
        self.asked, self.told = point, message

    @property
    def result(self) -> Floats:
        """The last point of full steps; for other columns the best that is known."""
        sure = (self.held > 0) & (self.n_received > 1) & (not self.noisy)
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
        here = self._rounding(self.point)
        noise = self._rounding(self.asked) + here
        ridge = float(np.min(np.max(self.ridge, axis=0)))
        learned = self.known.add(p, Cp, noise, ridge)
        slope, curvature = _dot(self.told - self.ridge * self.asked, p), _dot(p, Cp + self.ridge * p)
        best = np.divide(slope, curvature, out=np.full_like(slope, np.inf), where=curvature > 0)
        held = np.maximum(self.held, best <= GOOD)
        base, step, drift = self.point, np.ones(len(held)), here
        if np.any(held > 0):
            # r at the base, from the message here or as it was computed before: whichever is known better.
            product, off = self.known.product(self.point - self.base)
            off = np.hypot(off, here)
            told = message + product - self.ridge * self.base
            further, left, lost = self.known.minimise(np.where(off < self.drift, told, self.r), self.ridge)
            base = np.where(held > 0, self.base + further, self.point)
            r = np.where(held > 0, left - self.ridge * further, r)
            drift = np.where(held > 0, np.hypot(np.minimum(off, self.drift), lost), here)
            # Where r has become too small to be known without asking, the next question is about the base itself.
            stale = (drift > 0.1 * np.linalg.norm(r, axis=0)) & (drift > 10 * self._rounding(base))
            if not learned and np.any((held > 0) & np.isinf(off) & is_clear(noise, p, Cp, ridge)):
                # And so it is where what is known is too inexact to tell what this step has done: all begins again.
                self.known, stale = Subspace.empty(len(message)), held > 0
            step = np.where((held > 0) & stale, 0.0, 1.0)
        self._move(base, r, None, step, held)
        self.drift = drift

    def _rounding(self, point: Floats) -> Floats:
        """How far off a message can be: it is a mean of (y - aᵀφ)φ over rows, each of which rounds by itself on the
        scale of y and aᵀφ, however small the mean has become."""
        scale = self.kappa * (self.size + self.kappa * np.linalg.norm(point, axis=0))
        return np.asarray(np.finfo(float).eps * scale / np.sqrt(self.n_rows))

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
            found |= {"rounds.S": self.known.S, "rounds.CS": self.known.CS, "rounds.E": self.known.E}
        return found

    def restored(self, arrays: dict[str, np.ndarray], n_received: int) -> Rounds:
        """The inverse, into this one."""
        for name in STATE:
            if f"rounds.{name}" in arrays:
                setattr(self, name, arrays[f"rounds.{name}"])
        if n_received:
            empty = np.zeros((len(self.point), 0))
            parts = (arrays.get("rounds.S", empty), arrays.get("rounds.CS", empty), arrays.get("rounds.E", np.zeros(0)))
            self.known = Subspace(*parts)
        self.n_received = n_received
        return self


def _dot(a: Floats, b: Floats) -> Any:
    """Column by column."""
    return np.sum(a * b, axis=0)


def public_system(basis: Any, center: bool | str, n_features: Any = "all") -> System:
    """The public sample's covariance, decomposed; without a right-hand side."""
    M = basis.n_features_
    nothing = Means(1.0, 1.0, np.zeros(1), np.zeros(1), basis.mean_, np.zeros((M, 1)), None)
    found = make_system(nothing, basis, center, own=False)
    return found if isinstance(n_features, str) else limit_rank(found, int(n_features))


def preconditioners(
    public: System, filter: Filter, lams: Floats, n_features: Any, with_intercept: bool
) -> tuple[Any, Any]:
    """r ↦ g_λ(C^u) r, a λ for each column, and r ↦ (q+λ)⁻¹ r, q the spread at fresh rows; the intercept's row stays.

    The second knows that the smallest public eigenvalues are too small for other rows.
    """
    g, _ = filter.path(public.sigma, lams, public.kappa_sq)
    if isinstance(n_features, str) and n_features == "rule":
        g = np.where(public.sigma[None, :] > public.kappa_sq * lams[:, None], g, 0.0)
    M = len(public.shift)

    def applying(weights: Floats) -> Any:
        def apply(r: Floats) -> Floats:
            t = r[: len(public.sigma)] if public.vectors is None else public.vectors.T @ r[:M]
            out = public.lifted(weights.T * t)
            return np.concatenate([out, r[M:]]) if with_intercept else out

        return apply

    return applying(g), applying(np.where(g > 0, 1.0 / (public.spread + lams[:, None]), 0.0))


def ridge_term(lams: Floats, M: int, with_intercept: bool) -> Floats:
    """λ for every coefficient (a row) and column, 0 for the intercept."""
    rows = np.broadcast_to(lams, (M, len(lams)))
    return np.concatenate([rows, np.zeros((1, len(lams)))]) if with_intercept else np.array(rows)


def centred_message(means: Means, shift: Floats, with_intercept: bool) -> Floats:
    """(1/n) Σ ψ (φ - shift), and (1/n) Σ ψ for the intercept."""
    message = means.phi_y - np.outer(shift, means.y)
    return np.concatenate([message, means.y[None]]) if with_intercept else message


def from_mean(rounds: Rounds, message: Floats) -> Floats:
    """The message at the mean of y, where the rounds then begin, from the one at zero.

    With features centred on the rows the mean of y is the best intercept whatever a is. Were it one more coordinate of
    the first step, a shift of y would have a say in how long that step is.
    """
    rounds.point[-1] = message[-1]
    return np.concatenate([message[:-1], np.zeros_like(message[-1:])])


def from_point(point: Floats, shift: Floats, with_intercept: bool) -> tuple[Floats, Floats]:
    """a and b of f = aᵀφ + b from f = (φ - shift)ᵀa + b'."""
    if not with_intercept:
        return point.copy(), np.zeros(point.shape[1])
    coef = point[:-1].copy()
    return coef, point[-1] - shift @ coef
