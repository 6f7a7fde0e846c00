"""Distributed correntropy (Xie, Hu, Wang and Wang 2022, section 1): blocks descend on the loss and share σ and T.

f̄ = Σ_j (|D_j|/|D|) f_{T,D_j}, each f_{T,D_j} by eq. (5). The scale and the iteration are chosen for the average, and
robustly: by rule (13) with the criterion of :mod:`unpooled._solvers.descent.robust` in place of squares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._base import threads
from ..._base.arrays import Array, Floats, like, namespace
from ..._base.rows import Rows
from ...kernels import Kernel
from ...losses import Loss
from ..descent import robust
from ..descent.descent import Task, descend
from ..descent.robust import Candidates
from ..predictors import KernelExpansion
from .local import Judgement, Local


@dataclass
class DescentLocal(Local):
    """A local learner by kernel gradient descent with a loss; scale and number of steps are among candidates."""

    kernel: Kernel
    center: bool
    kappa_sq: float
    loss: Loss
    step: float
    decay: float
    jump: float
    start: np.ndarray  #: (T,) the median of all labels: a block where more than half are wrong still starts well
    options: Candidates
    settled: bool = False  #: whether one option is left, or one per target: target t takes scale[t, t] and n_iter[t]

    @property
    def n_candidates(self) -> int:
        return len(self.options.n_iter)

    @property
    def has_choice(self) -> bool:
        return not self.settled and self.n_candidates > 1

    def _task(self, rows: Rows, U: Array | None) -> Task:
        return Task(
            self.kernel,
            rows.X,
            rows.Y,
            None if rows.weights is None else like(rows.weights, rows.X),
            self.center,
            self.kappa_sq,
            self.loss,
            self.step,
            self.decay,
            None if U is None else like(U, rows.X),
            1.0,
            self.jump,
            start=self.start,
        )

    def candidates(self, rows: Rows, U: Array | None, single: bool) -> KernelExpansion:
        task = self._task(rows, U).for_search()
        with threads.limit_blas_for(int(task.points().shape[0])):
            descent = descend(task, self.options)
        xp = namespace(rows.X)
        coef = xp.reshape(descent.coef, (descent.coef.shape[0], -1))
        return KernelExpansion(self.kernel, task.points(), coef, xp.reshape(descent.intercept, (-1,)))

    def judge(self, residuals: Floats, weights: Floats) -> Judgement:
        """Judge by the robust criterion; between numbers of blocks, by the robust spread of the residuals."""
        index, table = robust.score_candidates(residuals, weights, self.options, self.loss)
        if self.settled:
            index = np.arange(residuals.shape[2]) % self.n_candidates
        spreads = [robust.residual_spread(residuals[:, i, t], weights) for t, i in enumerate(index)]
        return Judgement(table, index, float(np.mean(np.square(spreads))))

    def choose(self, index: np.ndarray) -> DescentLocal:
        chosen = Candidates(self.options.scale[index], self.options.n_iter[index])
        return self if self.settled else replace(self, options=chosen, settled=True)

    def fit(self, rows: Rows, U: Array | None) -> tuple[KernelExpansion, Array]:
        task = self._task(rows, U)
        scale, n_iter = self._chosen_options(int(rows.Y.shape[1]))  # type: ignore[union-attr]
        # Every target's number of steps, each with all targets' scales; target t is taken from the t-th.
        with threads.limit_blas_for(int(task.points().shape[0])):
            descent = descend(task, Candidates(np.tile(scale, (len(n_iter), 1)), n_iter))
        xp = namespace(rows.X)
        targets = range(len(n_iter))
        coef = xp.stack([descent.coef[:, t, t] for t in targets], axis=1)
        intercept = xp.stack([descent.intercept[t, t] for t in targets])
        points = xp.asarray(task.points(), copy=True)  # the model needs rows of its own
        return KernelExpansion(self.kernel, points, coef, intercept), xp.stack([descent.b[t, t] for t in targets])

    def _chosen_options(self, n_targets: int) -> tuple[np.ndarray, np.ndarray]:
        """Return one scale and one number of steps for each target."""
        scale, n_iter = self.options
        if len(n_iter) == 1:
            return scale[0], np.repeat(n_iter, n_targets)
        return np.diagonal(scale).copy(), n_iter

    def columns(self) -> dict[str, np.ndarray]:
        return {"scale": self.options.scale[:, 0], "n_iter": self.options.n_iter}

    def settings(self, one_target: bool) -> dict[str, Any]:
        scale, n_iter = self._chosen_options(self.options.scale.shape[1])
        return {
            "scale_": float(scale[0]) if one_target else scale,
            "n_iter_": int(n_iter[0]) if one_target else n_iter,
        }

    def operations(self, n: int) -> float:
        """Count an eigendecomposition of n rows and one of 2n, and some hundred products with many columns."""
        return 90.0 * n**3 + 400.0 * self.n_candidates * n**2
