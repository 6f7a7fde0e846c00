"""Rounds of residual statistics in the span of a basis: LESS again, on the residuals of the current function.

In a round the sites send r = (1/n) Σ ψ(y - f(x)) φ(x), the negative gradient of J(a) = (1/n) Σ ρ(y - aᵀφ(x)), and

    a ← a + P r,     P = (C^u + λ)⁻¹ of the public sample.

From a = 0 with ψ(u) = u the first round is LESS and the rounds are iterated Tikhonov with a public preconditioner;
if the public sample is the rows, exactly the filter of that name. They converge to the least-squares solution in the
span (the one smallest in the P⁻¹-norm), or, with a term -λa in every r (``ridge``), to the ridge solution.

A full step contracts only while the largest eigenvalue of P·C^x is below 2, and nobody knows C^x. With the squared
loss, however, r is linear, r = d - C^x a. So the message at a point a + p reveals C^x p, and with it the best length of
that step: α = rᵀp / pᵀ(C^x + ridge)p, and J falls while α > 1/2. A column whose full step was too long (α ≤ 0.55) moves
to the best point that the messages so far determine: the minimiser of J over the span of every direction tried, of all
columns, since they share C^x. The next message is then computed a step P r further. J falls in every round, and the
rounds always converge: with one column these are conjugate gradients preconditioned by P, and with many λ side by side
they are a block version of them. With the steps "conjugate" all columns do so from the start, which takes the same
messages and far fewer rounds.

With another loss J itself is compared (sites send Σρ), and a step that does not lower it is shortened.

Messages with noise for privacy reveal neither C^x p nor J. Rounds then take full steps with the careful P, which knows
the spread of the features at fresh rows, and compare nothing.

The functions after the class work in the span of a basis: the preconditioners, the messages, and the conversion to
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
GOOD = 0.55  # a full step is kept if the best one is longer than this
ENOUGH = 1e-4  # the least fall of J, as a share of the decrease that the slope promises
_Map = Callable[[Floats], Floats]
STATE = ("point", "base", "r", "J", "step", "held", "first", "product", "asked", "told", "size", "drift")
NUMBERS = ("J", "step", "held", "first", "product", "size", "drift")  # of the state: one number per column


@dataclass
class Rounds:
    """The state of the rounds: the next message is needed at ``point``; ``result`` are the functions, (M, T).

    ``precondition`` maps r to P r. ``careful`` is the P for columns that do not take plain steps, if it differs.
    ``ridge`` is λ for every coefficient and column, or 0.
    """

    precondition: _Map = field(repr=False)
    point: Floats = field(repr=False)
    ridge: Floats = field(repr=False)
    quadratic: bool = True
    steps: str = "plain"
    careful: _Map | None = field(repr=False, default=None)
    kappa: float = 1.0  #: the largest |φ(x)|
    n_rows: float = 1.0  #: the rows over which a message is a mean
    noisy: bool = False  #: whether messages have noise: steps are full, and differences of messages are not used
    n_received: int = 0
    base: Any = None  #: the best point whose message is known, with r and, for other losses than squares, J there
    r: Any = None
    J: Any = None
    step: Any = None  #: from base to point, in units of P r; for other losses than squares
    held: Any = None  #: 1 for columns whose last full step was too long
    product: Any = None  #: rᵀP r at the base
    first: Any = None  #: rᵀP r at the start
    asked: Any = None  #: the point of the last message, and that message
    told: Any = None
    size: Any = 0.0  #: the largest root mean square of ψ so far
    drift: Any = None  #: how far off r may be
    known: Subspace | None = None

    def receive(self, message: Floats, square: Floats, loss: Floats | None = None) -> None:
        """Take in the message at ``point``, and move the point. ``square`` is the mean of ψ², ``loss`` that of ρ."""
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
        """Return the last point of full steps; for other columns, the best known point."""
        sure = (self.held > 0) & (self.n_received > 1) & (not self.noisy)
        return np.where(sure, self.base, self.point)

    @property
    def progress(self) -> float:
        """Return √(rᵀP r) relative to its first value, the largest over the columns."""
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
        """Learn C^x p from the message, for squares, and move to the best of all known points."""
        assert self.known is not None
        # Between two points with messages: their difference, and nothing that was computed from them.
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
            # r at the base, from the message here or as computed before, whichever is more accurate.
            product, off = self.known.product(self.point - self.base)
            off = np.hypot(off, here)
            exact = message + product - self.ridge * self.base
            further, left, lost = self.known.minimise(np.where(off < self.drift, exact, self.r), self.ridge)
            base = np.where(held > 0, self.base + further, self.point)
            r = np.where(held > 0, left - self.ridge * further, r)
            drift = np.where(held > 0, np.hypot(np.minimum(off, self.drift), lost), here)
            # If r is too small to be known without a message, the next message is at the base itself.
            stale = (drift > 0.1 * np.linalg.norm(r, axis=0)) & (drift > 10 * self._rounding(base))
            if not learned and np.any((held > 0) & np.isinf(off) & is_clear(noise, p, Cp, ridge)):
                # The same holds if what is known is too inexact to judge this step: everything begins again.
                self.known, stale = Subspace.empty(len(message)), held > 0
            step = np.where((held > 0) & stale, 0.0, 1.0)
        self._move(base, r, None, step, held)
        self.drift = drift

    def _rounding(self, point: Floats) -> Floats:
        """Return the error of a message: a mean of (y - aᵀφ)φ over rows, each rounded on the scale of y and aᵀφ."""
        scale = self.kappa * (self.size + self.kappa * np.linalg.norm(point, axis=0))
        return np.asarray(np.finfo(float).eps * scale / np.sqrt(self.n_rows))

    def _downhill(self, r: Floats, J: Any) -> None:
        """Keep a step that lowers J, for other losses than squares, and shorten one that does not."""
        p = self.point - self.base
        slope = _dot(self.r, p)
        lower = self.J - ENOUGH * slope >= J
        # To the point where the slope along p would vanish if J were a parabola.
        change = slope - _dot(r, p)
        share = np.divide(slope, change, out=np.full_like(slope, np.inf), where=change > 0)
        step = np.where(lower, np.minimum(1.0, 2.0 * self.step), np.clip(share, 0.1, 0.5) * self.step)
        base, r, J = (np.where(lower, new, old) for new, old in ((self.point, self.base), (r, self.r), (J, self.J)))
        self._move(base, r, J, step, np.where(lower, 0.0, 1.0))

    def restart(self) -> None:
        """Treat the next message as the first: the loss has changed."""
        self.base = self.r = self.J = self.product = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what another process needs to continue."""
        state = {f"rounds.{name}": np.asarray(v) for name in STATE if (v := getattr(self, name)) is not None}
        if self.known is not None and self.known.S.shape[1]:
            state |= {"rounds.S": self.known.S, "rounds.CS": self.known.CS, "rounds.E": self.known.E}
        return state

    def restore(self, arrays: dict[str, np.ndarray], n_received: int) -> Rounds:
        """Read what :meth:`to_arrays` gave into this object, and return it."""
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
    """Return Σ_i a_i b_i, column by column."""
    return np.sum(a * b, axis=0)


def public_system(basis: Any, center: bool | str, n_features: Any = "all") -> System:
    """Return the public sample's covariance, decomposed; without a right-hand side."""
    M = basis.n_features_
    nothing = Means(1.0, 1.0, np.zeros(1), np.zeros(1), basis.mean_, np.zeros((M, 1)), None)
    system = make_system(nothing, basis, center, same_sample=False)
    return system if isinstance(n_features, str) else limit_rank(system, int(n_features))


def preconditioners(
    public: System, filter: Filter, lams: Floats, n_features: Any, with_intercept: bool
) -> tuple[Any, Any]:
    """Return r ↦ g_λ(C^u) r, a λ for each column, and r ↦ (q+λ)⁻¹ r, q the spread at fresh rows.

    The intercept's row is unchanged. The second map knows that the smallest public eigenvalues are too small for other
    rows.
    """
    g, _ = filter.path(public.sigma, lams, public.kappa_sq)
    if isinstance(n_features, str) and n_features == "rule":
        g = np.where(public.sigma[None, :] > public.kappa_sq * lams[:, None], g, 0.0)
    M = len(public.shift)

    def weigh(weights: Floats) -> Any:
        def apply(r: Floats) -> Floats:
            t = r[: len(public.sigma)] if public.vectors is None else public.vectors.T @ r[:M]
            out = public.lift(weights.T * t)
            return np.concatenate([out, r[M:]]) if with_intercept else out

        return apply

    return weigh(g), weigh(np.where(g > 0, 1.0 / (public.spread + lams[:, None]), 0.0))


def ridge_term(lams: Floats, M: int, with_intercept: bool) -> Floats:
    """Return λ for every coefficient (a row) and column, 0 for the intercept."""
    rows = np.broadcast_to(lams, (M, len(lams)))
    return np.concatenate([rows, np.zeros((1, len(lams)))]) if with_intercept else np.array(rows)


def centred_message(means: Means, shift: Floats, with_intercept: bool) -> Floats:
    """Return (1/n) Σ ψ (φ - shift), and (1/n) Σ ψ for the intercept."""
    message = means.phi_y - np.outer(shift, means.y)
    return np.concatenate([message, means.y[None]]) if with_intercept else message


def message_at_mean(rounds: Rounds, message: Floats) -> Floats:
    """Return the message at the mean of y, where the rounds then begin, from the one at zero.

    With features centred on the rows the mean of y is the best intercept for every a. If it were one more coordinate
    of the first step, a shift of y would affect the length of that step.
    """
    rounds.point[-1] = message[-1]
    return np.concatenate([message[:-1], np.zeros_like(message[-1:])])


def to_coefficients(point: Floats, shift: Floats, with_intercept: bool) -> tuple[Floats, Floats]:
    """Return a and b of f = aᵀφ + b from f = (φ - shift)ᵀa + b'."""
    if not with_intercept:
        return point.copy(), np.zeros(point.shape[1])
    coef = point[:-1].copy()
    return coef, point[-1] - shift @ coef
