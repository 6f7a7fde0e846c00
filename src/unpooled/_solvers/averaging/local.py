"""Local learners for averaging: each has candidates from one decomposition, scores them, and fits at the choice.

There are three kinds: a spectral filter, whose candidates are values of λ; a descent on a loss, whose candidates are
scales and iterations; and any other scikit-learn regressor, which has no candidates.

**Inflated labels.** Unlabeled rows take part by inflating the labels of the others (Wang 2018, eq. (3.22)). With |D|
labeled and |U| unlabeled rows, D* = D ∪ U carries the labels

    y* = (|D*|/|D|) y on D,   0 on U,   so that   (1/|D*|) Σ_{D*} y* K_x = (1/|D|) Σ_D y K_x:

the operator L_{D*} learns from every row and the right-hand side from the labeled ones. With an intercept the labels
are centred before they are inflated: b = mean(y) over D, and (y - b)|D*|/|D| on D. If y itself were inflated, a shift
of y would add a spike at the labeled rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..._base import threads
from ..._base.arrays import Array, Floats, like, namespace, to_numpy
from ..._base.rows import Rows
from ..._linalg.operator import Coordinates, root_of
from ...filters import Filter
from ...kernels import Kernel
from ..predictors import KernelExpansion
from ..spectral import criteria
from ..spectral.grid import coefficients_without_scores
from ..spectral.problem import Problem
from ..spectral.routes import fit_one


class _Predictor(Protocol):
    """A fitted function of rows."""

    def predict(self, X: Array) -> Array: ...


@dataclass
class Judgement:
    """Scores (C, T), the candidate to take for each target, and a value to compare with other partitions."""

    table: Floats
    index: np.ndarray
    value: float

    @classmethod
    def of(cls, table: Floats, index: np.ndarray) -> Judgement:
        """Make a judgement whose value is the chosen score, over all targets."""
        return cls(table, index, float(np.mean(table[index, np.arange(table.shape[1])])))


def _mean_squares(residuals: Floats, weights: Floats) -> Floats:
    """Return Σ_i w_i r_i² for every candidate and target."""
    return np.einsum("n,nct,nct->ct", weights, residuals, residuals)


@dataclass
class BlockFit:
    """The function f_j of one block, its intercept b_j, and its weight |D_j| (or |D*_j|) in the average."""

    name: str
    predictor: Any
    b: Array
    mass: float
    n_rows: int
    n_unlabeled: int = 0


class Local(ABC):
    """A learner that can work on blocks: importable and picklable, with all parameters learned from data filled in."""

    kernel: Kernel | None  #: the kernel that all blocks share, if there is one
    semisupervised = True  #: whether it learns from unlabeled rows

    @property
    @abstractmethod
    def n_candidates(self) -> int:
        """The number of candidates."""

    @property
    def has_choice(self) -> bool:
        """Return whether there is more than one candidate."""
        return self.n_candidates > 1

    @abstractmethod
    def candidates(self, rows: Rows, U: Array | None, single: bool) -> _Predictor:
        """Return a function with a column for each candidate and target, candidate by candidate."""

    @abstractmethod
    def judge(self, residuals: Floats, weights: Floats) -> Judgement:
        """Score the residuals (n, C, T) of the candidates and choose among them; ``weights`` (n,) sum to one."""

    @abstractmethod
    def choose(self, index: np.ndarray) -> Local:
        """Return the learner with only the given candidate of each target."""

    @abstractmethod
    def fit(self, rows: Rows, U: Array | None) -> tuple[Any, Array]:
        """Return the predictor at the choice, and the intercepts b."""

    def columns(self) -> dict[str, np.ndarray]:
        """Return the candidates' parameters by name: one value per candidate."""
        return {}

    def settings(self, one_target: bool) -> dict[str, Any]:
        """Return, after the choice, the attributes of the fitted estimator that report it."""
        return {}

    def can_use_single(self, judgement: Judgement | None) -> bool:
        """Return whether single precision can choose: before scoring (None), and once its scores are known."""
        return False

    def operations(self, n: int) -> float:
        """Estimate the floating-point operations of the candidates of n rows and the fit of 2n rows."""
        return 10.0 * n**3

    def memory(self, n: int) -> float:
        """Estimate the bytes of the same work."""
        return 24.0 * (2 * n) ** 2


@dataclass
class SpectralLocal(Local):
    """A local learner by a spectral filter g_λ with a kernel; its candidates are a grid of λ."""

    kernel: Kernel
    filter: Filter
    center: bool
    kappa_sq: float
    lams: Floats  #: the grid; after the choice one λ per target
    per_target: bool
    solver: str
    resolution: float = np.inf  #: the smallest λ that single precision can distinguish from zero
    origin: np.ndarray | float = 0.0  #: the origin of the rows in single precision

    @property
    def n_candidates(self) -> int:
        return len(self.lams)

    def _problem(self, rows: Rows, U: Array | None) -> tuple[Problem, Array | float]:
        X, Y, weights, b = rows.X, rows.Y, rows.weights, 0.0
        if U is not None and U.shape[0]:
            X, Y, weights, b = _inflate(X, Y, weights, U, self.center)
        weights_ = None if weights is None or np.all(weights == weights[0]) else like(weights / weights.max(), X)
        return Problem(self.kernel, X, Y, weights_, self.center, self.filter, self.kappa_sq), b

    def candidates(self, rows: Rows, U: Array | None, single: bool) -> _Predictor:
        problem, b = self._problem(rows, U)
        with threads.limit_blas_for(problem.n):
            coefs, intercepts = coefficients_without_scores(problem, self.lams, single)
        xp = namespace(coefs)
        columns = xp.reshape(xp.permute_dims(coefs, (1, 0, 2)), (problem.n, -1))
        points = problem.X
        intercepts = xp.reshape(intercepts + b, (-1,))
        if single:
            return _RoughExpansion(self.kernel, points, columns, intercepts, self.origin)
        return KernelExpansion(self.kernel, points, columns, intercepts)

    def judge(self, residuals: Floats, weights: Floats) -> Judgement:
        """Judge by the weighted mean square; the lowest is taken."""
        table = _mean_squares(residuals, weights)
        return Judgement.of(table, criteria.best_index(table, self.lams, self.per_target))

    def choose(self, index: np.ndarray) -> SpectralLocal:
        return replace(self, lams=self.lams[index])

    def fit(self, rows: Rows, U: Array | None) -> tuple[KernelExpansion, Array]:
        problem, b = self._problem(rows, U)
        with threads.limit_blas_for(problem.n):
            solutions = {float(lam): fit_one(problem, float(lam), self.solver) for lam in np.unique(self.lams)}
        xp = namespace(problem.X)
        by_target = [solutions[float(lam)] for lam in np.broadcast_to(self.lams, (problem.Y.shape[1],))]
        first = by_target[0]
        if len(solutions) == 1:
            coef, intercept, own = first.coef, first.intercept, first.b
        else:
            coef = xp.stack([s.coef[:, t] for t, s in enumerate(by_target)], axis=1)
            intercept = xp.stack([s.intercept[t] for t, s in enumerate(by_target)])
            own = first.b
        # The model keeps its own rows, even if the caller's change.
        return KernelExpansion(self.kernel, xp.asarray(problem.X, copy=True), coef, intercept + b), own + b

    def columns(self) -> dict[str, np.ndarray]:
        return {"lam": self.lams}

    def settings(self, one_target: bool) -> dict[str, Any]:
        several = self.per_target and not one_target and len(self.lams) > 1
        return {"lam_": self.lams.copy() if several else float(self.lams[0])}

    def can_use_single(self, judgement: Judgement | None) -> bool:
        """Return whether single precision can choose: scores must have risen above the λ that it resolves.

        The rule is that of a fit on one machine (:func:`unpooled._solvers.spectral.criteria.has_risen`).
        """
        trusted = self.lams >= self.resolution
        if judgement is None:
            return bool(np.sum(trusted) > 1)
        trusted &= np.all(np.isfinite(judgement.table), axis=1)
        if np.all(trusted) or not np.any(trusted):
            return bool(np.all(trusted))
        return criteria.has_risen(judgement.table, self.lams, judgement.index, trusted)

    def operations(self, n: int) -> float:
        """Count a reduction of n rows and a Cholesky factorisation of 2n, relative to the speed of matrix products."""
        return (8 / 3 + 8 / 3 * 1.5 if self.filter.ridge_times else 80.0) * n**3 + 400.0 * n**2

    def memory(self, n: int) -> float:
        return 8.0 * max(2.5 * n**2, 1.1 * (2 * n) ** 2)


def _inflate(
    X: Array, Y: Array, weights: np.ndarray | None, U: Array, center: bool
) -> tuple[Array, Array, np.ndarray | None, Array]:
    """Return X*, Y*, w* and the intercepts b. A row of weight w counts as w rows, an unlabeled one as one row."""
    xp: Any = namespace(X)
    n = int(X.shape[0])
    labeled = float(n) if weights is None else float(np.sum(weights))
    total = labeled + U.shape[0]
    root = None if weights is None else root_of(like(weights, Y), n)
    _, b = Coordinates(n, root, center).targets(Y, Y.dtype)
    zeros = xp.zeros((U.shape[0], Y.shape[1]), dtype=Y.dtype, device=Y.device)
    Y_star = xp.concat([(Y - b) * (total / labeled), zeros])
    w_star = None if weights is None else np.concatenate([weights, np.ones(U.shape[0])])
    return xp.concat([X, like(U, X)]), Y_star, w_star, b


class _RoughExpansion:
    """The function Σ_i c_i K(·, x_i) + b with kernel values in single precision; offsets and scales in double."""

    def __init__(
        self,
        kernel: Kernel,
        points: np.ndarray,
        columns: np.ndarray,
        intercepts: np.ndarray,
        origin: np.ndarray | float,
    ) -> None:
        tiny = float(np.finfo(np.float64).tiny)
        self.origin, self.intercepts = origin, intercepts
        self.size = np.maximum(np.nan_to_num(np.abs(columns), nan=0.0).max(axis=0), tiny)
        zeros = np.zeros(columns.shape[1], dtype=np.float32)
        near = (points - origin).astype(np.float32)
        self.scaled = KernelExpansion(kernel, near, (columns / self.size).astype(np.float32), zeros)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict in double precision, with the accuracy of single."""
        rough = self.scaled.predict((X - self.origin).astype(np.float32))
        return rough.astype(np.float64) * self.size + self.intercepts


@dataclass
class OpaqueLocal(Local):
    """A local learner by any scikit-learn regressor, fitted to each block; only the blocks can be chosen."""

    estimator: Any
    one_target: bool
    kernel: Kernel | None = None
    weighted: bool = field(init=False)

    semisupervised = False

    def __post_init__(self) -> None:
        self.weighted = has_fit_parameter(self.estimator, "sample_weight")

    @property
    def n_candidates(self) -> int:
        return 1

    def candidates(self, rows: Rows, U: Array | None, single: bool) -> _Columns:
        return _Columns(self._fit_estimator(rows))

    def judge(self, residuals: Floats, weights: Floats) -> Judgement:
        """Judge the only candidate by its weighted mean square."""
        return Judgement.of(_mean_squares(residuals, weights), np.zeros(residuals.shape[2], dtype=int))

    def choose(self, index: np.ndarray) -> OpaqueLocal:
        return self

    def fit(self, rows: Rows, U: Array | None) -> tuple[Any, Array]:
        estimator = self._fit_estimator(rows)
        expansion = getattr(estimator, "predictor_", None)
        b = np.atleast_1d(to_numpy(getattr(estimator, "intercept_", 0.0)))
        is_ours = isinstance(expansion, KernelExpansion)
        return (expansion, b) if is_ours else (_Columns(estimator), np.zeros(rows.Y.shape[1]))  # type: ignore[union-attr]

    def _fit_estimator(self, rows: Rows) -> Any:
        if rows.weights is not None and not self.weighted:
            raise ValueError(f"{type(self.estimator).__name__} does not support sample_weight: leave it out")
        options = {} if rows.weights is None else {"sample_weight": rows.weights}
        y = rows.Y[:, 0] if self.one_target else rows.Y  # type: ignore[index]
        return clone(self.estimator).fit(rows.X, y, **options)


@dataclass
class _Columns:
    """An estimator whose predictions always have one column per target."""

    estimator: Any

    def predict(self, X: Array) -> Array:
        values = self.estimator.predict(X)
        return values[:, None] if values.ndim == 1 else values
