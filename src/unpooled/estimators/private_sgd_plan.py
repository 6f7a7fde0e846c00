"""The plan of private descent, decided before any record is looked at: from n, ε, δ, c and the public sample alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.kinds import NOT_NEGATIVE, POSITIVE, Real, Sentences, Switch, Whole, Word, from_plain, parameter, to_plain
from .._solvers.descent.sgd import DescentVariant, Problem, find_best_stop, rounding_error
from ..bases import Basis
from ..privacy import mu_for, noise, sgd
from ..privacy.sensitivity import ROOM

REGULARITY, CAPACITY = 0.75, 0.8  # r and α of Wang and Guo (2024), Theorem 1, unless others are given
RIDGES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)  # λ₀ that are tried, in units of κ²
TRUSTED = 0.1  # λ₀ is at least this share of κ²/m: smaller eigenvalues of m public rows say little of other rows
CLIPS = (0.2, 0.1, 0.05)  # C that are tried, in units of c
LONGEST = 1.2  # rows are shrunk to this many times the mean squared length
LEAST_BATCH = 64  # so that what a batch misses of the mean gradient is small beside what noise does


POSITIVE_OR_NONE = Real("a positive, finite number or None", lambda value: 0 < value < math.inf, none=True)


@dataclass(frozen=True)
class DescentSchedule:
    """The schedule of private descent: all choices made before a record is read, all public, with their reasons.

    Attributes
    ----------
    method : "tight" or "paper"
    n_rows, size : records, and numbers that are released
    kappa : rows of features are shrunk to this length, the intercept's feature included
    step, steps, passes, batch_size : η, T, k and b; "paper" has no passes
    clip : C, where residuals are clipped
    weight_decay, averaged : weight decay, and whether the mean of all w is released
    ridge : λ₀; descent is in the coordinates φ_i/√(λ_i + λ₀), those of the basis themselves where it is None
    constant : the intercept's feature; 0 for none
    sensitivity, sigma : Δ, how far one record moves w, and the standard deviation of the noise on each number
    r2 : what the simulation reached, on average over made-up targets
    why : sentences
    """

    method: str = parameter(Word(("tight", "paper")))
    n_rows: int = parameter(Whole())
    size: int = parameter(Whole())
    kappa: float = parameter(POSITIVE)
    step: float = parameter(POSITIVE)
    steps: int = parameter(Whole())
    passes: int | None = parameter(Whole(none=True))
    batch_size: int = parameter(Whole())
    clip: float | None = parameter(POSITIVE_OR_NONE)
    weight_decay: float = parameter(NOT_NEGATIVE)
    averaged: bool = parameter(Switch())
    ridge: float | None = parameter(POSITIVE_OR_NONE)
    constant: float = parameter(NOT_NEGATIVE)
    sensitivity: float = parameter(POSITIVE)
    sigma: float = parameter(POSITIVE)
    r2: float | None = parameter(Real("a number or None", math.isfinite, none=True, double=True))
    why: tuple[str, ...] = parameter(Sentences(), repr=False)

    def __str__(self) -> str:
        return "\n".join([*self.why, f"one record moves w by at most {self.sensitivity:.3g}; noise {self.sigma:.3g}"])

    def _repr_html_(self) -> str:
        from .._base import html

        return html.bullets(str(self).splitlines())

    def to_dict(self) -> dict[str, Any]:
        """For the header of a file."""
        return to_plain(self)

    @classmethod
    def from_dict(cls, content: Any) -> DescentSchedule:
        """The inverse; a ValueError if it is not a schedule."""
        return from_plain(cls, content, "the schedule of a private descent")


def paper_plan(model: Any, basis: Basis, n: int) -> tuple[DescentSchedule, noise.GridGaussian]:
    """Algorithm 1 of Wang and Guo (2024), mended (docs/privacy/sgd.md, theorem 1).

    Their Theorem 1 has two schedules: η = 1/n, T = n^{(2r+α+1)/(2r+α)}, which is taken because it needs less noise, and
    η = n^{-2r/(2r+α)}, T = n^{(2r+1)/(2r+α)}. Both for η < 1/(κ²(log T + 1)), which only small n come near.
    """
    kappa, c, M = math.sqrt(basis.kappa_sq_), float(model.label_bound), basis.n_features_
    exponent = 2 * REGULARITY + CAPACITY
    T = model.n_steps or max(1, round(n ** ((exponent + 1) / exponent)))
    step = model.step or min(1.0 / n, 0.5 / (kappa**2 * (math.log(T) + 1)))
    delta = sgd.wang_guo(n, T, step, c, kappa * (1 + ROOM), gamma=model.delta / 2)
    W = math.sqrt(step * T) * c  # lemma 3
    gradient = c * kappa + kappa**2 * W
    a = rounding_error(T, M, 1, step=step, kappa=kappa, gradient=gradient, largest=W, label=c)
    added = noise.calibrate_noise(M, delta, mu_for(model.epsilon, model.delta / 2), 2 * W, inexact=a)
    why = (
        f"Algorithm 1 of Wang and Guo (2024) with its errors corrected: T = {T} steps of η = {step:.3g}, each on one "
        f"record, drawn from {n} with replacement",
        f"no record is drawn more than {sgd.most_visits(n, T, model.delta / 2):.4g} times except with probability δ/2, "
        "and the noise is private with the other δ/2",
    )
    schedule = DescentSchedule(
        "paper", n, M, kappa, step, T, None, 1, None, 0.0, False, None, 0.0, delta, added.sigma, None, why
    )
    return schedule, added


def tight_plan(
    model: Any, basis: Basis, n: int, phi: np.ndarray, sample: str
) -> tuple[DescentSchedule, noise.GridGaussian]:
    """Ridge, clip and time by simulation on public rows; then passes, batches and step that give that time.

    ``phi`` holds features of rows that are public, or made up, and ``sample`` says what they are.
    """
    c, mu = float(model.label_bound), mu_for(model.epsilon, model.delta)
    problem = Problem(phi, basis.spread_, n, mu, c)
    targets = problem.targets(np.random.default_rng(0))
    ways = [
        (ridge, _way(basis, ridge, clip, model))
        for ridge in _ridges(model.precondition, basis)
        for clip in ([float(model.clip)] if model.clip is not None else [share * c for share in CLIPS])
    ]
    ridge, way, outcome = min(
        ((ridge, way, find_best_stop(problem, way, targets)) for ridge, way in ways),
        key=lambda schedule: schedule[2].score,
    )
    kappa = way.kappa * (1 + ROOM)
    passes, b, step = _schedule(model, n, outcome.time, sgd.largest_step(kappa, way.lam) / 2)
    delta = sgd.shuffled_passes(
        n, passes, step, way.clip * kappa, kappa=kappa, batch_size=b, lam=way.lam, averaged=way.averaged
    )
    T, size = passes * -(-n // b), len(way.scale) + bool(way.constant)
    W = step * T * way.clip * kappa
    a = rounding_error(T, size, b, step=step, kappa=kappa, gradient=way.clip * kappa, largest=W, label=c)
    added = noise.calibrate_noise(size, delta, mu, 2 * W, inexact=a)
    scaled = "the features as they are" if ridge is None else f"features divided by √(λ_i + {ridge:.2g})"
    why = (
        f"{size} coordinates: {scaled}" + (", and a constant" if way.constant else ""),
        f"residuals clipped to ±{way.clip:.3g}; {passes} shuffled passes in batches of {b} with step {step:.3g}, "
        f"a total step ηT of {step * T:.3g}",
        f"chosen by simulating made-up targets on {sample}: R² of {outcome.r2:.2f} on average with this n, ε and δ",
    )
    schedule = DescentSchedule(
        "tight", n, size, way.kappa, step, T, passes, b, way.clip, way.lam, way.averaged, ridge, way.constant,
        delta, added.sigma, outcome.r2, why,
    )  # fmt: skip
    return schedule, added


def coordinate_scale(basis: Basis, ridge: float | None) -> np.ndarray:
    """1/√(λ_i + λ₀) for the directions in which there is something to learn; ones without λ₀.

    With noise that is alike in all coordinates this scale is the best one for a filter of about 1/(λ_i + λ₀): of all
    diagonal D with E|Dφ|² held fixed it makes Σ λ_i/((λ_i + λ₀)² D_i²), the noise in predictions, smallest.
    """
    if ridge is None:
        return np.ones(basis.n_features_)
    kept = max(1, int(np.sum(basis.eigenvalues_ >= 0.05 * ridge)))
    return 1.0 / np.sqrt(basis.spread_[:kept] + ridge)


def _way(basis: Basis, ridge: float | None, clip: float, model: Any) -> DescentVariant:
    scale = coordinate_scale(basis, ridge)
    if ridge is None:
        length_sq = basis.kappa_sq_
    else:  # what a fresh row's length is on average, with some room; but no longer than any row can be
        length_sq = LONGEST * float(np.sum(basis.spread_[: len(scale)] * scale**2))
        length_sq = min(length_sq, basis.kappa_sq_ / ridge)
    constant = (1.0 if ridge is not None else math.sqrt(basis.kappa_sq_)) if model.fit_intercept else 0.0
    kappa = math.sqrt(length_sq + constant**2)
    return DescentVariant(
        scale, constant, kappa, clip, float(model.weight_decay), bool(model.averaged), bool(model.shrink)
    )


def _ridges(precondition: Any, basis: Basis) -> list[float | None]:
    if precondition is None:
        return [None]
    if not isinstance(precondition, str):
        return [float(precondition)]
    least = TRUSTED / basis.n_public_
    return [share * basis.kappa_sq_ for share in RIDGES if share >= min(least, RIDGES[0])]


def _schedule(model: Any, n: int, time: float, longest: float) -> tuple[int, int, float]:
    """k, b and η with η·k·n/b about the time that was asked for; what the user gave stays."""
    steps = max(1, math.ceil(time / (float(model.step) if model.step is not None else longest)))
    b = model.batch_size
    if b is None:
        passes = model.passes or max(1, math.ceil(steps * min(LEAST_BATCH, n) / n))
        b = max(1, min(n, passes * n // steps))
    b = min(int(b), n)
    m = -(-n // b)
    passes = int(model.passes or max(1, math.ceil(steps / m)))
    step = float(model.step) if model.step is not None else min(time * b / (passes * n), longest)
    return passes, b, step
