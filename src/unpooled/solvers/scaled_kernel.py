"""A kernel whose length scales are free, on a few rows: its leave-one-out error, that error's gradient, its minima.

The parameters θ are log(ℓ_k/s_k) for every free part of the kernel and every feature k, s_k being the spread of the
feature, and at last log(λ/κ²). Scaling a column of X then changes no θ, and scaling y adds a constant to log L.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone

from ..filters import Floats, Tikhonov
from ..kernels.base import Kernel
from ..kernels.stationary import is_auto
from .decomposition import NotPositiveDefinite
from .fit import Problem, fit_one
from .loo_gradient import leave_one_out

Path = tuple[str, ...]  #: the parameters that lead from a kernel to one that it is made of; () is the kernel itself
Penalty = Callable[[Floats], tuple[float, Floats]]  #: θ ↦ a value to be added to log L, and its gradient

SHORTEST, LONGEST = 1e-2, 1e3  # ℓ/s: of a feature of which every value is a world of its own, and of one left out
LAMS = (1e-7, 10.0)  # λ/κ²; more rows than are searched on will want smaller ones
FAILED = 1e3  # in the place of log L where there is none
STEPS = 30  # of L-BFGS
ENOUGH = 1e-4  # log L must fall by that much for another step


def free_parts(kernel: Kernel) -> list[Path]:
    """Where in the kernel length scales are to be chosen."""
    paths = [tuple(name.split("__")) for name, value in kernel.get_params(deep=True).items() if is_auto(value)]
    parts = [path[:-1] for path in paths if path[-1] == "length_scale"]
    return sorted(part for part in parts if hasattr(_part(kernel, part), "length_scale_gradient"))


def with_length_scales(kernel: Kernel, parts: Sequence[Path], values: Sequence[Any]) -> Kernel:
    """A copy of the kernel with these length scales in its free parts."""
    return clone(kernel).set_params(**{"__".join((*path, "length_scale")): value for path, value in zip(parts, values)})


def _part(kernel: Any, path: Path) -> Any:
    for name in path:
        kernel = getattr(kernel, name)
    return kernel


def gradients(kernel: Kernel, parts: Sequence[Path], X: Floats, G: Floats) -> list[Floats]:
    """How ⟨G, 𝕂⟩ changes with log ℓ of every part: the chain rule through sums, products and scalings."""
    inner = kernel.pull_back(X, G) if any(parts) else {}
    found: list[Floats] = []
    for path in parts:
        if path and path[0] not in inner:
            raise ValueError(
                f"length_scale='auto' cannot be chosen inside {type(kernel).__name__}, which does not say how it "
                "depends on the kernel in it: give numbers or 'median'"
            )
        if path:
            found += gradients(getattr(kernel, path[0]), [path[1:]], X, inner[path[0]])
        else:
            found.append(kernel.length_scale_gradient(X, G))
    return found


@dataclass
class ScaledKernel:
    """The rows, labels that are centred and of variance one, and the kernel with its free parts.

    All but the free parts is numbers already.
    """

    kernel: Kernel
    parts: list[Path]
    spread: Floats  #: s, (d,)
    X: Floats
    Y: Floats
    weights: Floats | None
    evaluations: int = 0
    kappa_sq: float = field(init=False)

    def __post_init__(self) -> None:
        self.kappa_sq = float(np.mean(self.kernel.diag(self.X))) or 1.0

    def at(self, theta: Floats) -> Kernel:
        """The kernel with the length scales of θ."""
        lengths = np.exp(theta[:-1].reshape(len(self.parts), -1)) * self.spread
        return with_length_scales(self.kernel, self.parts, list(lengths))

    def lam(self, theta: Floats) -> float:
        """λ."""
        return float(np.exp(theta[-1])) * self.kappa_sq

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """log L and its gradient; a large number and no slope where there is no L."""
        self.evaluations += 1
        kernel = self.at(theta)
        found = leave_one_out(kernel(self.X), self.Y, self.weights, self.lam(theta))
        if found is None:
            return FAILED, np.zeros_like(theta)
        by_scale = gradients(kernel, self.parts, self.X, found.by_kernel)
        slope = np.append(np.concatenate(by_scale), found.by_log_lam)
        value = max(found.value, np.finfo(float).tiny)
        return float(np.log(value)), slope / value

    def minimum(self, start: Floats, groups: np.ndarray, penalty: Penalty | None = None) -> Floats:
        """θ of the lowest log L (plus penalty) that L-BFGS finds from a start.

        ``groups`` gives for each parameter the number of the group that it moves with, or -1 where it stays.
        """
        moving = groups >= 0
        size = int(np.max(groups)) + 1
        low, high = np.full(size, -np.inf), np.full(size, np.inf)
        limits = np.tile(np.log([SHORTEST, LONGEST]), (len(start), 1))
        limits[-1] = np.log(LAMS)
        start = np.where(moving, np.clip(start, limits[:, 0], limits[:, 1]), start)
        np.maximum.at(low, groups[moving], (limits[:, 0] - start)[moving])
        np.minimum.at(high, groups[moving], (limits[:, 1] - start)[moving])

        def moved(step: Floats) -> Floats:
            return np.where(moving, start + step[groups], start)

        def objective(step: Floats) -> tuple[float, Floats]:
            theta = moved(step)
            value, slope = self(theta)
            if penalty is not None:
                more, its_slope = penalty(theta)
                value, slope = value + more, slope + its_slope
            return value, np.bincount(groups[moving], weights=slope[moving], minlength=size).astype(float)

        options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": ENOUGH, "gtol": ENOUGH}
        bounds = np.column_stack([low, high])
        found = minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return moved(found.x)

    def squared_errors(self, theta: Floats, X: Floats, Y: Floats) -> Floats:
        """Σ_t (y_t - f_t(x))² for rows that the fit with θ has not seen; infinite where there is no fit."""
        kernel = self.at(theta)
        problem = Problem(kernel, self.X, self.Y, self.weights, True, Tikhonov(), self.kappa_sq)
        try:
            f = fit_one(problem, self.lam(theta), "cholesky")
        except NotPositiveDefinite:
            return np.full(len(X), np.inf)
        return np.sum((Y - kernel(X, self.X) @ f.coef - f.intercept) ** 2, axis=1)
