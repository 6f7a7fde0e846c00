"""Length scales for every feature by the exact leave-one-out error, and how far to believe it.

With d features the error has d + 1 parameters, and its minimum over them promises too much: on a thousand rows of a
hundred features new rows may show no gain at all. So the search goes along a path. It begins with one length scale for
all features, each in units of its spread, ℓ_k = e^{θ_0} s_k. From there it minimises

    log L(θ) + α Σ_k φ(θ_k - θ_0),      φ(δ) = δ² for δ < 0,  log(1 + δ²) for δ > 0,

for falling α: more attention to a feature costs its square, and leaving a feature out costs little. Rows that L has
not seen judge the points of the path, and beside them the kernel with the median distance of the rows as they are. The
best α is taken; where the median does better by more than the noise of the comparison, the median is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .. import threads
from ..bases.scaling import Scaling
from ..filters import Floats
from ..kernels.base import Kernel
from ..kernels.stationary import median_distance
from .scaled_kernel import LONGEST, Penalty, ScaledKernel, free_parts, with_length_scales

MOST_ROWS = 1500  # that L is computed on
MOST_HELD_OUT = 1500  # rows beyond those
FEWEST_ROWS = 20  # that say anything about single features
FOLDED = 600  # rows up to which each is held out in its turn
FOLDS = 3
ALPHAS = (0.1, 0.03, 0.01, 0.003, 0.001)
RISES = 2  # points in a row, each worse than the one before, that end the path
LAMS = math.log(10.0) * np.arange(-8.0, 0.5, 2.0)  # log λ/κ² to start from
APART = 3.0  # the ratio of the length scales that two free parts of one kernel start with
IRRELEVANT = (4.0, 10.0, 30.0)  # times the common length scale: from there features are tried without
UNMISSED = 1e-3  # what log L may rise by
STAGES = len(ALPHAS) + 3  #: of a search, for those who wait

EACH, ALL, MEDIAN = "each feature", "one for all", "median"


@dataclass
class Search:
    """What a search for length scales has tried and taken.

    Attributes
    ----------
    taken : "each feature", "one for all" (in units of the features' spread) or "median"
    why : a sentence
    held_out : dict
        The mean squared error on rows held out, as a share of the variance of y: of "median", "one for all", each α.
    leave_one_out : float or None
        The leave-one-out error of what was taken, on the rows searched on, as a share of the variance of y.
    lam : float or None
        The λ that went with it.
    n_rows : int, rows searched on
    n_evaluations : int, of the leave-one-out error
    """

    taken: str
    why: str
    held_out: dict[str, float] = field(default_factory=dict)
    leave_one_out: float | None = None
    lam: float | None = None
    n_rows: int = 0
    n_evaluations: int = 0


@dataclass
class Split:
    """A kernel on rows to learn from, and rows to judge it by."""

    model: ScaledKernel
    X: Floats
    Y: Floats
    weights: Floats


@dataclass
class Point:
    """A place on the path: its α, θ on every split, and the squared errors at all rows held out."""

    name: str
    alpha: float
    thetas: list[Floats]
    errors: Floats
    mean: float


def search(
    kernel: Kernel,
    X: Floats,
    Y: Floats,
    weights: Floats | None,
    random_state: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Kernel, Search]:
    """The kernel with numbers (or "median") in the place of every "auto", and the way there. Weights are positive."""
    parts = free_parts(kernel)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaling, Y = Scaling.of(X, weights), _of_variance_one(Y, weights)
    constant = np.ptp(X, axis=0) == 0
    median = with_length_scales(kernel, parts, [MEDIAN] * len(parts))
    if useless := _why_not(len(X), Y, constant, scaling):
        return median, Search(MEDIAN, useless, n_rows=len(X))
    resolved = with_length_scales(kernel, parts, [1.0] * len(parts)).resolve(X, weights)
    rows = drawn(scaling.apply(X), MOST_ROWS + MOST_HELD_OUT, random_state)
    w = np.ones(len(X)) if weights is None else weights

    def on(some: np.ndarray) -> ScaledKernel:
        return ScaledKernel(resolved, parts, scaling.scale, X[some], Y[some], None if weights is None else w[some])

    whole = on(rows[:MOST_ROWS])
    splits = [Split(on(seen), X[held], Y[held], w[held]) for seen, held in _splits(rows)]
    at_median = np.tile(np.log(median_distance(X, weights) / scaling.scale), len(parts))
    middle = median_distance(scaling.apply(whole.X), whole.weights)
    with threads.one_blas_thread:  # two libraries with threads of their own would wait for each other
        points = _walk(splits, _start(whole, middle), np.append(at_median, 0.0), advance)
        report = _verdict(points, splits, len(whole.X))
        if report.taken == MEDIAN:
            return median, report
        theta = _finished(whole, points, report)
    advance()
    lengths = np.exp(theta[:-1].reshape(len(parts), -1))
    lengths[:, constant] = LONGEST
    return with_length_scales(kernel, parts, list(lengths * scaling.scale)), report


def _walk(splits: list[Split], start: Floats, at_median: Floats, advance: Callable[[], None]) -> list[Point]:
    """The median, one length scale for all, then α after α until the rows held out object."""
    weights = _weights(splits)

    def point(name: str, alpha: float, thetas: list[Floats]) -> Point:
        each = [split.model.squared_errors(theta, split.X, split.Y) for split, theta in zip(splits, thetas)]
        errors = np.concatenate(each)
        advance()
        return Point(name, alpha, thetas, errors, float(weights @ errors))

    common = [_common(split.model, _with_best_lam(split.model, start)) for split in splits]
    found = [
        point(MEDIAN, math.inf, [_with_best_lam(split.model, at_median) for split in splits]),
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


def _best(points: list[Point]) -> Point:
    return min(points[1:], key=lambda point: point.mean)


def _verdict(points: list[Point], splits: list[Split], n_rows: int) -> Search:
    """What the rows held out say, the median being the first of the points."""
    median, best, weights = points[0], _best(points), _weights(splits)
    n_targets = splits[0].Y.shape[1]
    with np.errstate(invalid="ignore"):
        worse = best.errors - median.errors
        gap = float(weights @ worse)
        noise = math.sqrt(float(weights**2 @ (worse - gap) ** 2))
    taken = (ALL if best.name == ALL else EACH) if gap <= noise else MEDIAN
    shares = f"{best.mean / n_targets:.3g} of the variance of y, the median distance {median.mean / n_targets:.3g}"
    why = f"on rows held out {best.name} missed {shares}"
    held_out = {point.name: point.mean / n_targets for point in points}
    return Search(taken, why, held_out, n_rows=n_rows, n_evaluations=sum(s.model.evaluations for s in splits))


def _weights(splits: list[Split]) -> Floats:
    weights = np.concatenate([split.weights for split in splits])
    return np.asarray(weights / np.sum(weights))


def _finished(whole: ScaledKernel, points: list[Point], report: Search) -> Floats:
    """θ at the chosen α on all the rows of the search; features that hardly count are left out."""
    best, at_all = _best(points), points[1]
    one = theta = _common(whole, np.mean(at_all.thetas, axis=0))
    if best is not at_all:
        near = one + best.thetas[0] - at_all.thetas[0]
        theta = whole.minimum(near, np.arange(len(one)), shrinking(best.alpha, one))
        theta = _left_out(whole, theta, one)
    report.leave_one_out = math.exp(whole(theta)[0]) / whole.Y.shape[1]
    report.lam = whole.lam(theta)
    report.n_evaluations += whole.evaluations
    return theta


def _left_out(model: ScaledKernel, theta: Floats, one: Floats) -> Floats:
    """θ with the longest length scale for features that are not missed: as many as L lets go."""
    reached = model(theta)[0]
    for times in IRRELEVANT:
        far = np.append(theta[:-1] - one[:-1] > math.log(times), False)
        without = np.where(far, math.log(LONGEST), theta)
        if np.any(far) and model(without)[0] <= reached + UNMISSED:
            return without
    return theta


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


def _start(model: ScaledKernel, middle: float) -> Floats:
    """The median distance in units of spread for the first free part; shorter and longer ones for the others."""
    steps = [0, *(sign * (i + 1) for i in range(len(model.parts)) for sign in (-1, 1))][: len(model.parts)]
    lengths = math.log(middle) + math.log(APART) * np.repeat(np.asarray(steps, dtype=float), model.X.shape[1])
    return np.append(lengths, 0.0)


def _with_best_lam(model: ScaledKernel, theta: Floats) -> Floats:
    """θ with the λ of the lowest L."""
    tried = [np.append(theta[:-1], lam) for lam in LAMS]
    best = min(tried, key=lambda point: model(point)[0])
    return model.minimum(best, np.append(np.full(len(theta) - 1, -1), 0))


def _common(model: ScaledKernel, start: Floats) -> Floats:
    """One length scale for the features of every free part, and λ."""
    n_parts = len(model.parts)
    return model.minimum(start, np.append(np.repeat(np.arange(n_parts), (len(start) - 1) // n_parts), n_parts))


def _splits(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows held out: each in its turn where they are few, else half of the search, and more."""
    if len(rows) > FOLDED:
        seen = min(len(rows), MOST_ROWS) // 2
        yield rows[:seen], rows[seen:]
        return
    for i in range(FOLDS):
        held = np.arange(len(rows)) % FOLDS == i
        yield rows[~held], rows[held]


def drawn(Z: Floats, most: int, random_state: int) -> np.ndarray:
    """At most so many rows in random order, drawn without a look at labels.

    Places are drawn in the order of |z|, of the scaled rows: how rows and columns are arranged has no say.
    """
    order = np.argsort(np.einsum("ik,ik->i", Z, Z), kind="stable")
    return order[np.random.default_rng(random_state).permutation(len(Z))[:most]]


def _of_variance_one(Y: Floats, weights: Floats | None) -> Floats:
    """The labels that vary, of mean zero and variance one."""
    return np.asarray(Scaling.of(Y, weights).apply(Y)[:, np.ptp(Y, axis=0) > 0])


def _why_not(n_rows: int, Y: Floats, constant: np.ndarray, scaling: Scaling) -> str:
    """Why there is nothing to search for; nothing where there is."""
    if n_rows < FEWEST_ROWS:
        return f"fewer than {FEWEST_ROWS} rows say too little about single features"
    if Y.shape[1] == 0 or np.all(constant):
        return "labels or rows are all the same"
    if not np.all(np.isfinite(scaling.scale)):
        return "the squares of the features are out of range"
    return ""
