"""Iterative filters at one λ by matrix products: t passes over the matrix instead of a decomposition.

With x ↦ (1/κ²)·A x the step operator, both iterations solve A a = v from a = 0:

    Landweber   a ← a + η (v - A a)
    ν-method    a ← a + μ_k (a - a_old) + ω_k η (v - A a)        (Engl, Hanke and Neubauer 1996, §6.3)

so that a = g_λ(A) v after the number of steps that λ stands for.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..arrays import Array
from ..filters import Filter, Landweber, NuMethod


def momentum_steps(filter: Filter, t: int) -> Iterable[tuple[float, float]]:
    """The pairs (μ_k, ω_k) of an iterative filter, k = 1..t."""
    return filter.steps(t) if isinstance(filter, NuMethod) else ((0.0, 1.0) for _ in range(t))


def is_iteration(filter: Filter) -> bool:
    """True where :func:`iterate` knows the recursion (a filter of one's own goes through eigh)."""
    return type(filter) in (Landweber, NuMethod)


def iterate(filter: Filter, M: Array, v: Array, lam: float, kappa_sq: float) -> Array:
    """g_λ(A) v with A = M/N, by t matrix products."""
    t = filter.iterations(lam, kappa_sq)
    assert t is not None
    step = 1.0 / (kappa_sq * M.shape[0])
    a_old = a = 0.0 * v
    for mu, omega in momentum_steps(filter, t):
        gradient = kappa_sq**-1 * v - step * (M @ a)
        a, a_old = a + mu * (a - a_old) + omega * gradient, a
    return a
