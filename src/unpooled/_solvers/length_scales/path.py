"""The path from one length scale for all features to one for each, along which a penalty falls.

It begins with one length scale for all features, each in units of its spread, ℓ_k = e^{θ_0} s_k, the minimum of

    log L(θ) + β(θ_0 - log m)²,

m being the median distance in these units. The second term keeps the search where L does not ask it to go elsewhere: a
rough kernel hardly tells a longer ℓ from a smaller λ, and a smooth function is as well served by any long ℓ. From there
the path minimises

    log L(θ) + α Σ_k φ(θ_k - θ_0),      φ(δ) = δ² for δ < 0,  log(1 + δ²) for δ > 0,

for falling α: more attention to a feature costs its square, and leaving a feature out costs little. Rows that L has not
seen judge the points of the path, and end it where it gets worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._base.arrays import Floats
from .scaled_kernel import Penalty, ScaledKernel

ALPHAS = (0.1, 0.03, 0.01, 0.003, 0.001)
BETA = 0.01
RISES = 2  # points in a row, each worse than the one before, that end the path
LAMS = math.log(10.0) * np.arange(-7.0, 0.5, 2.0)  # log λ/κ² to start from
APART = 3.0  # the ratio of the length scales that two free parts of one kernel start with
ALIKE = 2e-3  # a share of the error that makes no difference

ALL, MEDIAN = "one for all", "median"


@dataclass
class Split:
    """A kernel on rows to learn from, and rows to judge it by."""

    model: ScaledKernel
    X: Floats
    Y: Floats
    weights: Floats


@dataclass
class Point:
    """A place on the path: its α, θ on every split, the squared errors at all rows held out and their mean."""

    name: str
    alpha: float
    thetas: list[Floats]
    errors: Floats
    mean: float


def walk(splits: list[Split], start: Floats, at_median: Floats, advance: Callable[[], None]) -> list[Point]:
    """The median, one length scale for all, then α after α until the rows held out object."""
    weights = normalised(np.concatenate([split.weights for split in splits]))

    def point(name: str, alpha: float, thetas: list[Floats]) -> Point:
        each = [split.model.squared_errors(theta, split.X, split.Y) for split, theta in zip(splits, thetas)]
        errors = np.concatenate(each)
        advance()
        return Point(name, alpha, thetas, errors, float(weights @ errors))

    common = [one_for_all(split.model, with_best_lam(split.model, start), start) for split in splits]
    found = [
        point(MEDIAN, math.inf, [with_best_lam(split.model, at_median) for split in splits]),
        point(ALL, math.inf, common),
    ]
    thetas, rises = common, 0
    for alpha in ALPHAS:
        thetas = [
            split.model.minimum(theta, np.arange(len(theta)), shrinking(alpha, one))
            for split, theta, one in zip(splits, thetas, common)
        ]
        found.append(point(f"α = {alpha:g}", alpha, thetas))
        rises = rises + 1 if found[-1].mean > found[-2].mean else 0
        if rises == RISES:
            break
    return found


def beginning(model: ScaledKernel, middle: float) -> Floats:
    """The median distance in units of spread for the first free part; shorter and longer ones for the others."""
    steps = [0, *(sign * (i + 1) for i in range(len(model.parts)) for sign in (-1, 1))][: len(model.parts)]
    lengths = math.log(middle) + math.log(APART) * np.repeat(np.asarray(steps, dtype=float), model.X.shape[1])
    return np.append(lengths, 0.0)


def with_best_lam(model: ScaledKernel, theta: Floats) -> Floats:
    """θ with the λ of the lowest L."""
    tried = [np.append(theta[:-1], lam) for lam in LAMS]
    best = min(tried, key=lambda point: model(point)[0])
    return model.minimum(best, np.append(np.full(len(theta) - 1, -1), 0))


def one_for_all(model: ScaledKernel, start: Floats, middle: Floats) -> Floats:
    """One length scale for the features of every free part, and λ."""
    n_parts, d = len(model.parts), model.X.shape[1]

    def staying(theta: Floats) -> tuple[float, Floats]:
        delta = theta - middle
        delta[-1] = 0.0
        return BETA / d * float(delta @ delta), 2.0 * BETA / d * delta

    return model.minimum(start, np.append(np.repeat(np.arange(n_parts), d), n_parts), staying)


def shrinking(alpha: float, centre: Floats) -> Penalty:
    """α Σ_k φ(θ_k - θ_0) and its gradient; λ is free."""

    def penalty(theta: Floats) -> tuple[float, Floats]:
        delta = theta - centre
        delta[-1] = 0.0
        square = delta * delta
        longer = delta > 0
        value = np.where(longer, np.log1p(square), square)
        return alpha * float(np.sum(value)), alpha * np.where(longer, 2.0 * delta / (1.0 + square), 2.0 * delta)

    return penalty


def preferred(points: list[Point], weights: Floats) -> Point:
    """The first point, thus that of the strongest penalty, that is as good as the best: beyond may be a precipice."""
    best = min(points, key=lambda point: point.mean)
    return next(point for point in points if point is best or not worse(point.errors, best.errors, weights, 0.5))


def worse(errors: Floats, others: Floats, weights: Floats, times: float = 1.0) -> bool:
    """Whether errors are larger than others by so many standard deviations of the difference, and enough to matter."""
    weights = normalised(weights)
    with np.errstate(invalid="ignore"):
        difference = errors - others
        gap = float(weights @ difference)
        noise = math.sqrt(float(weights**2 @ (difference - gap) ** 2))
        return not gap <= max(times * noise, ALIKE * float(weights @ others))


def normalised(weights: Floats) -> Floats:
    """Weights that sum to one."""
    return np.asarray(weights / np.sum(weights))
