"""The search for a length scale of every feature by the exact leave-one-out error, judged on held-out rows.

The judge is ridge regression in the span of a few points: it learns from many rows, tries every λ, and is scored on
held-out rows.

With d features the leave-one-out error has d + 1 parameters, and its minimum over them is too optimistic: for 1000
rows of a hundred features, new rows may show no gain at all. So the search follows a path (:mod:`.path`) that held-out
rows judge. From its best point it continues with all rows of the search. If there are many more rows, which may
support shorter length scales, all length scales are then multiplied by the factor that does best there. Both times the
median distance is tried as well, and it is taken if it does better by more than the noise of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from ..._base import threads
from ..._base.arrays import Floats
from ..._linalg.operator import NotPositiveDefinite
from ...bases.empirical import find_independent_rows
from ...bases.maps import Scaling
from ...kernels.base import Kernel
from ...kernels.parts import find_free_parts, replace_length_scales
from ...kernels.stationary import median_distance
from . import path
from .path import ALL, LONGEST, MEDIAN, Point, ScaledKernel, Split

LAMS = np.logspace(0, -7, 15)  # λ/κ²; sums over very many rows cannot resolve smaller ones


@dataclass
class Rows:
    """Inputs, labels and weights of some rows."""

    X: Floats
    Y: Floats
    weights: Floats


def squared_errors(kernel: Kernel, n_points: int, seen: Rows, held: Rows) -> Floats:
    """Return Σ_t (y_t - f_t(x))² at held-out rows, with the λ that is best there; infinite if there is no fit.

    The fit is f = aᵀψ + b, ψ = L⁻¹K(p, ·), 𝕂_pp = LLᵀ for the first rows p: orthonormal functions with the ridge λ|a|².
    """
    try:
        points, L = find_independent_rows(kernel(seen.X[:n_points]), seen.X[:n_points])
    except (NotPositiveDefinite, ValueError):
        return np.full(len(held.X), np.inf)

    def psi(X: Floats) -> Floats:
        return scipy.linalg.solve_triangular(L, kernel(points, X), lower=True, overwrite_b=True, check_finite=False)

    w = seen.weights / np.sum(seen.weights)
    features = psi(seen.X)
    mean, b = features @ w, w @ seen.Y
    features -= mean[:, None]
    d = features @ (w[:, None] * (seen.Y - b))
    features *= np.sqrt(w)
    sigma, V = scipy.linalg.eigh(features @ features.T, check_finite=False, overwrite_a=True, driver="evd")
    beside, turned = V.T @ (psi(held.X) - mean[:, None]), V.T @ d
    kappa_sq = float(np.mean(kernel.diag(points))) or 1.0
    fits = [beside.T @ (turned / (np.maximum(sigma, 0.0) + lam * kappa_sq)[:, None]) + b for lam in LAMS]
    errors = [np.sum((held.Y - f) ** 2, axis=1) for f in fits]
    return min(errors, key=lambda error: float(held.weights @ error))


MOST_ROWS = 1500  # rows for which L is computed
MOST_HELD_OUT = 1500  # further rows that are held out
FEWEST_ROWS = 20  # fewer rows cannot distinguish single features
FOLDED = 600  # up to this many rows, each is held out in turn
FOLDS = 3
LARGE, MANY = 5000, 12_000  # from and up to this many rows, the effect of many rows on length scales is measured
POINTS = 1000  # points whose kernel functions span the functions of that measurement
TIMES = (1.0, 2.0, 0.5, 0.25)  # factors that are tried on all length scales
IRRELEVANT = (4.0, 10.0, 30.0)  # multiples of the common length scale above which features are left out on trial
UNMISSED = 1e-3  # how much log L may rise without them
STAGES = len(path.ALPHAS) + 4  #: of a search, for its progress bar

EACH = "each feature"


@dataclass
class Search:
    """The record of a search for length scales: what was tried and what was taken.

    Attributes
    ----------
    taken : "each feature", "one for all" (in units of the features' spread) or "median"
    why : a sentence that gives the reason
    held_out : dict
        The mean squared error on held-out rows, as a share of the variance of y: of "median", "one for all", each α.
    leave_one_out : float or None
        The leave-one-out error of the result on the rows of the search, as a share of the variance of y.
    lam : float or None
        The λ of that error.
    many_rows : dict
        The error on held-out rows where many are there to learn from: of "median", and of the result times each factor.
    n_rows : int, rows used in the search
    n_evaluations : int, evaluations of the leave-one-out error
    """

    taken: str
    why: str
    held_out: dict[str, float] = field(default_factory=dict)
    leave_one_out: float | None = None
    lam: float | None = None
    many_rows: dict[str, float] = field(default_factory=dict)
    n_rows: int = 0
    n_evaluations: int = 0


def search(
    kernel: Kernel,
    X: Floats,
    Y: Floats,
    weights: Floats | None,
    random_state: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Kernel, Search]:
    """Return the kernel with numbers (or "median") for every "auto", and the record of the search. Weights are > 0."""
    parts = find_free_parts(kernel)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaling, Y = Scaling.of(X, weights), _standardise(Y, weights)
    constant = np.ptp(X, axis=0) == 0
    median = replace_length_scales(kernel, parts, [MEDIAN] * len(parts))
    if useless := _reason_not_to_search(len(X), Y, constant, scaling):
        return median, Search(MEDIAN, useless, n_rows=len(X))
    order = draw_rows(scaling.apply(X), MANY, random_state)
    rows, w = order[: MOST_ROWS + MOST_HELD_OUT], np.ones(len(X)) if weights is None else weights
    numbers = replace_length_scales(kernel, parts, [1.0] * len(parts)).resolve(X, weights)

    def on(some: np.ndarray) -> ScaledKernel:
        return ScaledKernel(numbers, parts, scaling.scale, X[some], Y[some], None if weights is None else w[some])

    whole = on(rows[:MOST_ROWS])
    splits = [Split(on(seen), X[held], Y[held], w[held]) for seen, held in _splits(rows)]
    distance = median_distance(X, weights)
    at_median = np.append(np.tile(np.log(distance / scaling.scale), len(parts)), 0.0)
    start = path.find_start(whole, median_distance(scaling.apply(whole.X), whole.weights))
    with threads.one_blas_thread:  # two libraries with their own threads would wait for each other
        points = path.walk(splits, start, at_median, advance)
        best, report = _judge(points, splits, len(whole.X))
        if report.taken == MEDIAN:
            return median, report
        theta = _refit(whole, best, points[1], start, report)
        lengths = np.exp(theta[:-1].reshape(len(parts), -1)) * scaling.scale
        lengths[:, constant] = LONGEST
        advance()
        if len(order) >= LARGE:
            cut = 2 * len(order) // 3
            seen, held = (Rows(X[some], Y[some], w[some]) for some in (order[:cut], order[cut:]))
            kernels = {t: replace_length_scales(numbers, parts, list(t * lengths)) for t in TIMES}
            plain = replace_length_scales(numbers, parts, [distance] * len(parts))
            lengths = lengths * _rescale_for_many_rows(kernels, plain, seen, held, report)
        advance()
    if report.taken == MEDIAN:
        return median, report
    return replace_length_scales(kernel, parts, list(lengths)), report


def _judge(points: list[Point], splits: list[Split], n_rows: int) -> tuple[Point, Search]:
    """Return the point that the held-out rows prefer, and their verdict; the median is the first of the points."""
    weights, n_targets = np.concatenate([split.weights for split in splits]), splits[0].Y.shape[1]
    median, best = points[0], path.choose_point(points[1:], weights)
    objection = path.is_worse(best.errors, median.errors, weights)
    taken = MEDIAN if objection else ALL if best.name == ALL else EACH
    left, left_by_median = best.mean / n_targets, median.mean / n_targets
    why = f"on held-out rows, {best.name} left {left:.3g} of the variance of y unexplained, "
    why += f"the median distance {left_by_median:.3g}"
    held_out = {point.name: point.mean / n_targets for point in points}
    evaluations = sum(split.model.evaluations for split in splits)
    return best, Search(taken, why, held_out, n_rows=n_rows, n_evaluations=evaluations)


def _refit(whole: ScaledKernel, best: Point, at_all: Point, start: Floats, report: Search) -> Floats:
    """Return θ at the chosen α on all the rows of the search; features that hardly matter are left out."""
    one = theta = path.fit_common_scale(whole, np.mean(at_all.thetas, axis=0), start)
    if best is not at_all:
        near = one + best.thetas[0] - at_all.thetas[0]
        theta = whole.minimise(near, np.arange(len(one)), path.make_penalty(best.alpha, one))
        theta = _drop_irrelevant(whole, theta, one)
    report.leave_one_out = math.exp(whole(theta)[0]) / whole.Y.shape[1]
    report.lam = whole.lam(theta)
    report.n_evaluations += whole.evaluations
    return theta


def _drop_irrelevant(model: ScaledKernel, theta: Floats, one: Floats) -> Floats:
    """Return θ with the longest length scale for every feature whose absence L tolerates."""
    reached = model(theta)[0]
    for times in IRRELEVANT:
        far = np.append(theta[:-1] - one[:-1] > math.log(times), False)
        without = np.where(far, math.log(LONGEST), theta)
        if np.any(far) and model(without)[0] <= reached + UNMISSED:
            return without
    return theta


def _rescale_for_many_rows(
    kernels: dict[float, Kernel], plain: Kernel, seen: Rows, held: Rows, report: Search
) -> float:
    """Return the factor for the length scales that does best with many rows to learn from."""
    weights = path.normalise(held.weights)
    tried = {times: squared_errors(kernel, POINTS, seen, held) for times, kernel in kernels.items()}
    at_median = squared_errors(plain, POINTS, seen, held)
    named = {MEDIAN: at_median, **{f"{times:g} times": errors for times, errors in tried.items()}}
    report.many_rows = {name: float(weights @ errors) / held.Y.shape[1] for name, errors in named.items()}
    best = min(tried, key=lambda times: float(weights @ tried[times]))
    if path.is_worse(tried[best], at_median, weights):
        report.taken = MEDIAN
        report.why += f"; with {len(seen.X)} rows to learn from, the median distance was better"
    return best


def _splits(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give rows to learn from and held-out rows: each in turn if they are few, else half of the search, and more."""
    if len(rows) > FOLDED:
        seen = min(len(rows), MOST_ROWS) // 2
        yield rows[:seen], rows[seen:]
        return
    for i in range(FOLDS):
        held = np.arange(len(rows)) % FOLDS == i
        yield rows[~held], rows[held]


def draw_rows(Z: Floats, most: int, random_state: int) -> np.ndarray:
    """Draw at most ``most`` rows in random order, independently of their labels.

    Positions are drawn in the order of |z|, for the scaled rows z: the order of rows and columns does not matter.
    """
    order = np.argsort(np.einsum("ik,ik->i", Z, Z), kind="stable")
    return order[np.random.default_rng(random_state).permutation(len(Z))[:most]]


def _standardise(Y: Floats, weights: Floats | None) -> Floats:
    """Return the labels that vary, with mean zero and variance one."""
    return np.asarray(Scaling.of(Y, weights).apply(Y)[:, np.ptp(Y, axis=0) > 0])


def _reason_not_to_search(n_rows: int, Y: Floats, constant: np.ndarray, scaling: Scaling) -> str:
    """Return why there is nothing to search for, or an empty text if there is something."""
    if n_rows < FEWEST_ROWS:
        return f"fewer than {FEWEST_ROWS} rows say too little about single features"
    if Y.shape[1] == 0 or np.all(constant):
        return "all labels or all rows are the same"
    if not np.all(np.isfinite(scaling.scale)):
        return "the squares of the features are out of range"
    return ""
