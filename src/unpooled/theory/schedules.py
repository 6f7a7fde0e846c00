"""Schedules that the theorems set for given N, r and s: λ, the number of iterations, correntropy's scale, and the rate.

In practice r and s are unknown, and λ, T and σ are chosen from the data; the schedules give their orders of magnitude.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._base.text import quote
from .limits import checked_positive, checked_r, checked_rows, checked_s, is_number, partition_limit, usable_regularity


def _power(n: float, exponent: float, cause: str) -> float:
    try:
        return float(n**exponent)
    except OverflowError:
        raise ValueError(f"{cause} asks for N to the power {exponent:g}, which is out of range") from None


def rate(n: float, r: float, s: float, *, filter: Any = None, qualification: float | None = None) -> float:
    """N^{-r/(2r+s)}, the order of ‖f - f_ρ‖ in L²(ρ_X): (11) of paper 001, Corollaries 3.1 of 002 and 1 of 003.

    The mean squared error is its square, (10) and (12) of 001. It is the best any method can do, up to a constant;
    a filter of qualification ν < r stays at ν in place of r.

    Parameters
    ----------
    n, r, s : N, the regularity of the target, the capacity of the kernel
    filter, qualification : the filter, or its qualification ν by itself
    """
    r = usable_regularity(r, "spectral", filter, qualification)
    return checked_rows("n", n) ** (-r / (2 * r + checked_s(s)))


def lam(
    n: float, r: float, s: float, kappa: float = 1.0, *, filter: Any = None, qualification: float | None = None
) -> float:
    """κ² N^{-1/(2r+s)}: the λ of Corollary 1 of paper 001 and of Corollaries 3.1 and 3.2 of 002.

    N is the size of the WHOLE sample, also for a fit on one block: the bias of a block must be that of the whole, and
    the average takes care of the variance. The papers leave κ to the constant; with κ² = sup K(x, x) as a factor, a
    kernel scaled by c and its λ, scaled with it, give the same functions as before.

    Parameters
    ----------
    n, r, s : N, the regularity of the target, the capacity of the kernel
    kappa : κ, √sup K(x, x)
    filter, qualification : the filter, or its qualification ν by itself; r stops counting there
    """
    r = usable_regularity(r, "spectral", filter, qualification)
    return checked_positive("kappa", kappa) ** 2 * checked_rows("n", n) ** (-1 / (2 * r + checked_s(s)))


def n_iter(n: float, r: float, s: float, decay: float = 0.0) -> int:
    """T = ⌊N^{1/((2r+s)(1-θ))}⌋ steps of size η_t = η t^{-θ}, with θ = ``decay`` in [0, 1): Theorem 1 of paper 003.

    Then T^{-(1-θ)} is the λ of :func:`lam` for κ = 1. A kernel with another κ needs the step η/κ² and the same T.
    (The paper calls ⌊a⌋ the smallest integer not less than a; it is the integer part.)

    Parameters
    ----------
    n, r, s : N, the regularity of the target, the capacity of the kernel
    decay : θ
    """
    n, r, s = checked_rows("n", n), checked_r(r), checked_s(s)
    if not (is_number(decay) and 0 <= decay < 1):
        raise ValueError(
            f"decay, the exponent of the step sizes, must be at least 0 and less than 1, got {quote(decay)}"
        )
    steps = _power(n, 1 / ((2 * r + s) * (1 - decay)), f"decay={decay:g}")
    whole = round(steps)  # 1000^{1/3} is ten, whatever rounding says
    return whole if abs(steps - whole) <= 1e-9 * steps else math.floor(steps)


def scale(n: float, r: float, s: float, label_scale: float = 1.0) -> float:
    """N^{(r/2+5/4)/(2r+s)}, the smallest σ of the correntropy loss that keeps the rate: Corollary 1 of paper 003.

    There the bias N^{5/(2(2r+s))} σ^{-2} is down to N^{-r/(2r+s)}. (Theorem 1 prints N^{5/(2r+s)}; Proposition 1 and
    Corollary 1 have the 2.) σ has the unit of the labels: ``label_scale`` is the paper's bound on |y|, or their
    standard deviation. Such a σ hardly clips anything; robustness wants a moderate one, chosen from the data.

    Parameters
    ----------
    n, r, s : N, the regularity of the target, the capacity of the kernel
    label_scale : in the unit of the labels
    """
    n, r, s = checked_rows("n", n), checked_r(r), checked_s(s)
    return checked_positive("label_scale", label_scale) * n ** ((r / 2 + 5 / 4) / (2 * r + s))


@dataclass(frozen=True)
class Schedule:
    """What the theorem of one method sets for N, r and s. ``print`` it for a table; :func:`schedule` makes it.

    Attributes
    ----------
    method : "spectral", "krr", "semi-supervised" or "correntropy"
    n, r, s : as given
    usable_r : r capped by the method's qualification; it goes into everything below
    rate : N^{-r/(2r+s)}, the order of the error in L²(ρ_X)
    lam : κ² N^{-1/(2r+s)}
    n_iter : T, the steps of gradient descent with η_t = η t^{-decay} that ``lam`` amounts to
    scale : the smallest σ of the correntropy loss for that rate
    blocks : the partition limit, as a number that may be less than one
    n_total, decay : as given
    """

    method: str
    n: float
    r: float
    s: float
    usable_r: float
    rate: float
    lam: float
    n_iter: int
    scale: float
    blocks: float
    n_total: float | None = None
    decay: float = 0.0

    def __str__(self) -> str:
        title = f"{self.method}: N = {self.n:,.0f}, r = {self.r:g}, s = {self.s:g}"
        if self.n_total is not None:
            title += f", N* = {self.n_total:,.0f}"
        if self.usable_r < self.r:
            title += f" (saturates: r = {self.usable_r:g} is used)"
        steps = f"{self.n_iter:,}" + (f" with steps t^-{self.decay:g}" if self.decay else "")
        lines = [
            ("rate", f"{self.rate:.3g}", "order of the L² error"),
            ("lam", f"{self.lam:.3g}", "for every block"),
            ("n_iter", steps, "if by gradient descent"),
            ("scale", f"{self.scale:.3g}", "correntropy's σ, at least"),
            ("blocks", f"{self.blocks:.3g}", "at most" if self.blocks >= 1 else "the theorem is silent at this N"),
        ]
        return "\n".join([title, *(f"  {name:<8}{value:>10}  {note}" for name, value, note in lines)])


def schedule(
    n: float,
    r: float,
    s: float,
    method: str = "spectral",
    *,
    filter: Any = None,
    qualification: float | None = None,
    n_total: float | None = None,
    decay: float = 0.0,
    kappa: float = 1.0,
    label_scale: float = 1.0,
) -> Schedule:
    """All that the theorem of one method sets for N rows, regularity r and capacity s: see :class:`Schedule`.

    Parameters
    ----------
    n, r, s : N, the regularity of the target, the capacity of the kernel
    method : "spectral", "krr", "semi-supervised" or "correntropy"
    filter, qualification : of the spectral method, as in :func:`lam`
    n_total : N*, labeled and unlabeled rows; for the semi-supervised method
    decay : of the steps, as in :func:`n_iter`
    kappa : κ, √sup K(x, x)
    label_scale : as in :func:`scale`
    """
    usable = usable_regularity(r, method, filter, qualification)
    return Schedule(
        method=method,
        n=checked_rows("n", n, least=2),
        r=checked_r(r),
        s=checked_s(s),
        usable_r=usable,
        rate=rate(n, usable, s),
        lam=lam(n, usable, s, kappa),
        n_iter=n_iter(n, usable, s, decay),
        scale=scale(n, usable, s, label_scale),
        blocks=partition_limit(n, r, s, method, n_total, filter=filter, qualification=qualification),
        n_total=None if n_total is None else float(n_total),
        decay=float(decay),
    )
