"""Kernel gradient descent with a loss (Xie, Hu, Wang and Wang 2022, eq. (5)), many scales and iterations at once.

With weights w, Σ w_i = 1, and f = Σ c_i K_{x_i} from f = 0,

    f ← f - η_t Σ w_i ψ(f(x_i) - y_i) K_{x_i},      η_t = (step/κ²)·t^{-decay},  t = 1, 2, ...

**Pseudo-labels.** With ỹ_i = f(x_i) - ψ(f(x_i) - y_i) the same step reads f ← f - η_t (L_D f - Σ w_i ỹ_i K_{x_i}):
least squares on ỹ. Three things follow.

- *Jumps.* While ỹ does not change, m steps are one: in the eigenbasis of L_D, with q = 1 - ησ,
  a ← q^m a + ((1-q^m)/σ) ỹ. f moves with log t (component σ at t ≈ 1/(ησ)), so after the first few hundred steps
  ``jump``·t of them are taken at once, with ỹ linear over them: a predictor, then corrections with h_m below until they
  settle. This is exact for least squares, and stable for any m since ψ' ≤ 1 makes least squares on ỹ a majorant of the
  loss; for other losses the error is of order jump². T steps cost (1/jump)·log T products, a few times. ``jump=0``
  takes every step.
- *Unlabeled rows* U, which Xie et al. leave open. Wang (2018, eq. (3.22)) takes L over D* = D ∪ U, which knows the
  distribution of x better, and inflates the labels by |D*|/|D|. With ω_i = ψ(u_i)/u_i, the weight that the loss leaves
  row i, w* the weights of D*, and the mean ω̄ = Σ_D w_i ω_i for rows whose residual is unknown:

      f ← f - η_t [Σ_D ω_i (w*_i f(x_i) - w_i y_i) K_{x_i} + ω̄ Σ_U w*_j f(x_j) K_{x_j}]

  Without U this is the descent above. For σ → ∞, ω = 1, and it is the Landweber iteration on the labels
  times |D*|/|D| with 0 on U. As least squares on D*, the pseudo-labels are (1-ω_i) f(x_i) + ω_i y_i|D*|/|D| on D and
  (1-ω̄) f(x_j) on U: means of f and of labels, so nothing can diverge. (L_{D*} f - Σ_D w_i ỹ_i K_{x_i}, the obvious
  form, has the same limits, but L_{D*} - L_D is indefinite and acts alone where the loss rejects rows: it diverges.)
- *Centring.* The space of the centred kernel plus the constants has the kernel K̂ + κ², so the intercept is one more
  eigenvector, √w, with σ = κ²: b ← b - step·t^{-decay}·Σ w_i ψ. Labels enter minus an M-estimate of location
  of the same loss, so a shift of y moves the intercept only; for least squares that is their mean and b stays there.

**What may be dropped.** An eigencomponent with ησ·t ≤ ε, where t counts the steps so far, has moved f by at most ε of
the labels. Until then it is not followed; its coefficient is the sum of its inputs, exact to order ε.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..._base.arrays import Array, eps, is_numpy, like, namespace, to_numpy
from ..._linalg.low_rank import decompose
from ..._linalg.operator import build_dense, eigh
from ...kernels.base import Kernel
from ...losses import Loss
from ..spectral.problem import Job
from ..spectral.routes import LOW_RANK, PRODUCTS
from .robust import Candidates, location
from .steps import Operator, Products, Spectrum

JUMP = 0.02  # how many steps are taken at once, as a share of those done
FIRST = 500  # steps that are taken one by one at first
FOLLOWED = {8: 1e-10, 4: 1e-5}  # ε above, by the size of a number in bytes
COARSE = 1e-4  # ε of a search


@dataclass(frozen=True)
class Task:
    """One regression by descent, all arguments checked. X (N, d), Y (N, T), ``weights`` (N,) or None for equal ones.

    ``unlabeled`` is (M, d) or None, and each of its rows weighs ``unlabeled_weight`` on the scale of ``weights`` (1
    each if those are None). ``loss`` gives the shape of ψ; the scales come with the candidates.
    """

    kernel: Kernel
    X: Array
    Y: Array
    weights: Array | None
    center: bool
    kappa_sq: float
    loss: Loss
    step: float = 1.0
    decay: float = 0.0
    unlabeled: Array | None = None
    unlabeled_weight: float = 1.0
    jump: float = JUMP
    first: int = FIRST  #: steps taken one by one before the first jump
    corrections: int = 8  #: of a jump, at most
    start: np.ndarray | None = None  #: (T,) where the search for the intercept begins; None is the median of the labels

    @property
    def n(self) -> int:
        """The number of labeled rows."""
        return int(self.X.shape[0])

    def points(self) -> Array:
        """Return the rows of D*: labeled, then unlabeled."""
        return self.X if self.unlabeled is None else namespace(self.X).concat([self.X, self.unlabeled])

    def weights_of_points(self) -> Array | None:
        """Return the weights of D*, None if they are equal."""
        if self.unlabeled is None:
            return self.weights
        xp, X = namespace(self.X), self.X
        ones = xp.ones(self.n, dtype=X.dtype, device=X.device) if self.weights is None else self.weights
        rest = xp.full(self.unlabeled.shape[0], self.unlabeled_weight, dtype=X.dtype, device=X.device)
        return None if self.weights is None and self.unlabeled_weight == 1.0 else xp.concat([ones, rest])

    def weights_of_labels(self) -> Array:
        """Return w over D, with Σ w = 1."""
        xp, X = namespace(self.X), self.X
        w = xp.ones(self.n, dtype=X.dtype, device=X.device) if self.weights is None else self.weights
        return w / xp.sum(w)

    def for_search(self) -> Task:
        """Return the task for a search, which only has to rank candidates: long jumps, one correction."""
        return replace(self, jump=0.1, first=10, corrections=1)

    def part(self, rows: np.ndarray) -> Task:
        """Return the task on some of the labeled rows; the caller cuts a precomputed kernel."""
        take = _row_taker(self.X, rows)
        return replace(
            self, X=take(self.X), Y=take(self.Y), weights=None if self.weights is None else take(self.weights)
        )


class _Stop(NamedTuple):
    """The function f = Σ c_i K_{x_i} + intercept after ``t`` steps, for S scales and T targets; b is centred."""

    t: int
    coef: Array  #: (N*, S, T)
    intercept: Array  #: (S, T)
    b: Array  #: (S, T)


class _DescentResult(NamedTuple):
    """Coefficients (N*, C, T) over D*, intercepts (C, T) and b (C, T) of all candidates, and the route."""

    coef: Array
    intercept: Array
    b: Array
    solver: str


def descend(task: Task, candidates: Candidates) -> _DescentResult:
    """Run the descent of every candidate (scale, n_iter) at once, on one kernel matrix.

    ``candidates`` holds ``scale`` (C, T) and ``n_iter`` (C,); f of candidate j for target k is
    Σ_i coef[i, j, k] K(·, x_i) + intercept[j, k], x_i the rows of ``task.points()``.
    """
    scales, column = np.unique(candidates.scale, axis=0, return_inverse=True)
    column = column.reshape(-1)
    stops = np.unique(candidates.n_iter)
    operator = operator_of(task, int(stops[-1]))
    parts: list[tuple[Array, Array, Array]] = [None] * len(column)  # type: ignore[list-item]
    for stop in run(task, operator, scales, stops.tolist()):
        for j in np.flatnonzero(candidates.n_iter == stop.t):
            k = int(column[j])
            parts[j] = (stop.coef[:, k, :], stop.intercept[k, :], stop.b[k, :])
    xp = namespace(task.X)
    coef, intercept, b = (xp.stack([p[i] for p in parts], axis=1 if i == 0 else 0) for i in range(3))
    return _DescentResult(coef, intercept, b, operator.name)


def run(task: Task, operator: Operator, scales: np.ndarray, stops: Sequence[int]) -> Iterator[_Stop]:
    """Run the descents of scales (S, T); yield them at each of the rising ``stops``, which do not affect each other."""
    xp = namespace(task.X)
    n, n_targets = task.Y.shape
    n_columns = len(scales) * n_targets
    w = task.weights_of_labels()
    Y = xp.concat([task.Y] * len(scales), axis=1)
    loss = task.loss.at(like(scales.reshape(-1), task.Y))
    b = xp.zeros(n_columns, dtype=Y.dtype, device=Y.device)
    if task.center:
        start = None if task.start is None else like(np.tile(task.start, len(scales)), Y)
        b = location(Y, xp.astype(w, Y.dtype), loss, start)
    Y = xp.astype(Y - b, task.X.dtype)
    loss = task.loss.at(like(scales.reshape(-1), task.X))
    root = operator.coordinates.root
    n_points = operator.coordinates.n
    inflated = Y
    if n_points > n:  # w_i/w*_i, the same for all rows: |D*|/|D|
        inflated = Y * float(w[0] * (n_points if root is None else n_points / root[0] ** 2))

    def pseudo_labels(values: Array) -> Array:
        """Return √(N*w*) times the pseudo-labels of D*, from √(N*w*)·f."""
        f = values if root is None else values / root[:, None]
        if n_points == n:
            labels = f - loss.derivative(f - Y)
        else:
            on_D = f[:n, :]
            omega = loss.weight(on_D - Y)
            labels = xp.concat([on_D - omega * (on_D - inflated), (1.0 - w @ omega) * f[n:, :]])
        return labels if root is None else labels * root[:, None]

    state = operator.start(n_columns)
    for t in stops:
        # The grid of jumps does not depend on the stops: a stop between two of its points is a branch.
        while state.t + (m := _length(task, operator, state.t)) <= t:
            state = operator.advance(state, m, task, pseudo_labels)
        branch = state if state.t == t else operator.advance(state, t - state.t, task, pseudo_labels)
        a, moved = operator.solution(branch)
        c = operator.coordinates.coefficients(a / task.kappa_sq)
        shape = (len(scales), n_targets)
        b_now = b + xp.astype(moved, b.dtype)
        intercept = operator.coordinates.intercept(c, b_now)
        yield _Stop(t, xp.reshape(c, (n_points, *shape)), xp.reshape(intercept, shape), xp.reshape(b_now, shape))


def _length(task: Task, operator: Operator, t: int) -> int:
    """Return how many steps the next jump takes after t steps."""
    return max(1, int(task.jump * t)) if operator.jumps and t >= task.first else 1


def operator_of(task: Task, most: int, followed: float | None = None) -> Operator:
    """Return the cheapest way to ``most`` steps: low rank if certified, products if they are few, else eigh."""
    X, weights = task.points(), task.weights_of_points()
    n = X.shape[0]
    itemsize = 8 if eps(X) < 1e-10 else 4
    followed = FOLLOWED[itemsize] if followed is None else followed
    job = Job(
        int(n),
        int(X.shape[1]),
        itemsize,
        "numpy" if is_numpy(X) else "other",
        steps=most,
        positive_definite=task.kernel.positive_definite,
        by_columns=task.kernel.by_columns,
    )
    if LOW_RANK.pays(job):
        thin = decompose(task.kernel, X, weights, task.center, task.kappa_sq / most, LOW_RANK.columns(job))
        if thin is not None:
            decomposition, coordinates = thin
            return Spectrum("low-rank", decomposition.U, decomposition.sigma, coordinates, task, followed)
    M, coordinates = build_dense(task.kernel(X), weights, task.center)
    if PRODUCTS.pays(job):
        return Products(M, coordinates, task)
    decomposition = eigh(M, n, task.kappa_sq)
    U, sigma = namespace(X).flip(decomposition.U, axis=1), decomposition.sigma[::-1]
    return Spectrum("eigh", U, sigma, coordinates, task, followed)


def _row_taker(A: Array, rows: np.ndarray) -> Any:
    xp = namespace(A)
    index = like(rows, A, dtype=xp.int64)
    return lambda B: xp.take(B, index, axis=0)


def out_of_fold(
    task: Task,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    scales: np.ndarray,
    stops: Sequence[int],
    enough: Any,
) -> tuple[np.ndarray, list[int]]:
    """Return residuals f(x_i) - y_i of held-out rows (n, S, L, T), NaN for rows in no test part, and the L stops taken.

    All folds advance together, from stop to stop, until ``enough``, called with the residuals (n, S, T) at each stop,
    says that more steps will not help.
    """
    n, n_targets = task.Y.shape
    flows = [(test, *_fold(task.for_search(), train, test, scales, stops)) for train, test in folds]
    blocks: list[np.ndarray] = []
    for _ in stops:
        block = np.full((n, len(scales), n_targets), np.nan)
        for test, K, Y, flow in flows:
            stop = next(flow)
            c = namespace(K).reshape(stop.coef, (K.shape[1], -1))
            f = to_numpy(K @ c).reshape(len(test), len(scales), n_targets) + to_numpy(stop.intercept)[None]
            block[test] = f - to_numpy(Y)[:, None, :]
        blocks.append(block)
        if enough(block):
            break
    return np.stack(blocks, axis=2), list(stops[: len(blocks)])


def _fold(
    task: Task, train: np.ndarray, test: np.ndarray, scales: np.ndarray, stops: Sequence[int]
) -> tuple[Array, Array, Iterator[_Stop]]:
    """Return the kernel between held-out rows and D* of the others, the held-out labels, and the others' descent."""
    part, take = task.part(train), _row_taker(task.X, test)
    X_test = take(task.X)
    if task.kernel.anchors(task.X).shape[1] == 0:  # precomputed: the matrix is cut along rows and columns
        cut = _row_taker(task.X, train)
        part = replace(part, X=cut(part.X.T).T, kernel=type(task.kernel)())
        K = cut(X_test.T).T
    else:
        K = task.kernel(X_test, part.points())
    return K, take(task.Y), run(part, operator_of(part, int(stops[-1]), COARSE), scales, stops)
