"""What every λ came to, whichever way it was found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, namespace, to_numpy
from ..filters import Floats
from .sums import Sums


@dataclass(frozen=True)
class Solved:
    """Coefficients of the kernel functions, and what choosing among them needs."""

    lam: Floats
    coef: Floats = field(repr=False)  #: (L, M, T)
    intercept: Floats  #: (L, T)
    error: Floats  #: (L, T) mean squared residual on the rows
    df: Floats  #: (L,), the intercept's included
    rounds: int = 0  #: passes over the rows after the first

    def gcv(self, n: float) -> Floats:
        """Generalised cross-validation, error/(1 - df/n)²: (L, T)."""
        left = np.maximum(1.0 - self.df / n, 0.0)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(left > 0, self.error / left**2, np.inf)


@dataclass(frozen=True)
class Centred:
    """(C + λI) a = d with the means taken out, before it is brought to coordinates of the span."""

    weight: float
    n_labels: int
    y: Floats  #: (T + probes,) the means that were taken out; zeros without an intercept
    yy: Floats  #: (T + probes,) mean squares of what is left
    r: Array = field(repr=False)  #: (M,) means of the kernel functions
    ry: Array = field(repr=False)  #: (M, T + probes)
    center: bool = False

    @classmethod
    def of(cls, sums: Sums, n_labels: int, center: bool, means: Array | float = 0.0) -> Centred:
        """From sums over rows, of kernel functions less ``means``; without an intercept nothing is taken out."""
        xp = namespace(sums.ry)
        y, yy = float(center) * sums.y / sums.weight, sums.yy / sums.weight
        left = sums.r / sums.weight
        of_labels = xp.asarray(y, dtype=sums.ry.dtype, device=sums.ry.device)
        ry = sums.ry / sums.weight - left[:, None] * of_labels[None, :]
        return cls(sums.weight, n_labels, y, np.maximum(yy - y * y, 0.0), float(center) * (left + means), ry, center)

    def solved(self, lams: Floats, coef: Array, error: Floats, df: Floats, rounds: int = 0) -> Solved:
        """The solutions; ``coef`` (L, M, T) of kernel functions. What rounding leaves of an error is none."""
        host = to_numpy(coef)
        intercept = self.y[: self.n_labels] - np.einsum("m,lmt->lt", to_numpy(self.r), host)
        floor = 1e-14 * self.yy[: self.n_labels]
        return Solved(lams, host, intercept, np.maximum(error, floor), df + float(self.center), rounds)
