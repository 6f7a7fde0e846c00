"""Every λ by rounds of products with the rows, none of which needs a Gram matrix: preconditioned conjugate gradients.

In orthonormal coordinates (C + λ)a = d. The preconditioner is (C_s + λ)⁻¹, in which the covariance C_s of a few rows a
point takes the place of C. With c rows a point the spectrum of (C_s + λ)⁻¹(C + λ) lies about (1 ± c^(-1/2))², whatever
λ is, so the number of rounds does not depend on λ. FALKON (Rudi, Carratino and Rosasco 2017), whose rows are the points
themselves, needs ever more rounds as λ falls.

All λ and all labels are columns that share each pass over the rows, and with them labels of random signs z, whose fits
have E zᵀHz = tr H: the degrees of freedom for generalised cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ..._base.arrays import Array, Floats, add_to_diagonal, cholesky, like, namespace, solve_lower, to_numpy
from ..._linalg.operator import NotPositiveDefinite
from ..spectral.criteria import trace_by_signs
from .from_gram import Centred, Solved
from .machine import Machine, Placed, Span

Step = Callable[[int], None]


def solve(
    span: Span,
    system: Centred,
    machine: Machine,
    chunks: Iterable[Placed],
    sample: Placed | None,
    lams: Floats,
    *,
    tol: float,
    most: int,
    factors: int,
    after_round: Step = lambda _: None,
) -> Solved:
    """All λ; at most ``most`` rounds, at most ``factors`` preconditioners (neighbouring λ share one).

    ``sample`` holds the rows that preconditioners are made from; None is the points themselves.
    """
    xp = namespace(span.L)
    d = span.whitened(system.ry)
    mean = span.whitened(system.r[:, None])[:, 0]
    k = d.shape[1]
    columns = np.repeat(lams, k)

    def times(V: Array) -> Array:
        """C V by one pass over the rows."""
        U, total = span.raw(V), xp.zeros_like(V)
        for rows in chunks:
            total = total + machine.twice(rows, U)
        product = span.whitened(total / system.weight)
        return product - mean[:, None] * (mean @ V)[None, :] if system.center else product

    own = span.own_covariance() if sample is None else machine.covariance(sample, span)
    precondition = _preconditioner(own, lams, k, factors)
    right = xp.concat([d] * len(lams), axis=1)
    a, left, rounds = _conjugate_gradients(times, precondition, right, columns, tol, most, after_round)
    # With the residual q = d - (C + λ)a known, aᵀCa = aᵀ(d - q) - λ|a|² holds however far the rounds have come.
    inner = to_numpy(xp.sum(a * right, axis=0)).reshape(len(lams), k)
    bent = to_numpy(xp.sum(a * (right - left), axis=0)).reshape(len(lams), k)
    norm = to_numpy(xp.sum(a * a, axis=0)).reshape(len(lams), k)
    error = system.yy - 2 * inner + bent - lams[:, None] * norm
    T = system.n_labels
    df = system.weight * trace_by_signs(inner, k - T) if k > T else np.full(len(lams), np.nan)
    coef = xp.reshape(span.raw(a), (span.size, len(lams), k))[:, :, :T]
    return system.solved(lams, xp.permute_dims(coef, (1, 0, 2)), error[:, :T], df, rounds)


def _preconditioner(own: Array, lams: Floats, k: int, factors: int) -> Callable[[Array, np.ndarray], Array]:
    """(C_s + λ)⁻¹ on columns of the given numbers; ``own`` is C_s, and overwritten."""
    xp = namespace(own)
    order = np.argsort(lams)
    groups = np.array_split(order, min(factors, len(lams)))
    factored = []
    for group in groups:
        shifted = xp.asarray(own, copy=True) if group is not groups[-1] else own
        add_to_diagonal(shifted, float(np.exp(np.mean(np.log(lams[group])))))
        F = cholesky(shifted)
        if F is None:
            raise NotPositiveDefinite
        factored.append(F)
    group_of = np.empty(len(lams), dtype=int)
    for number, group in enumerate(groups):
        group_of[group] = number

    def apply(R: Array, columns: np.ndarray) -> Array:
        out = xp.empty_like(R)
        for number, F in enumerate(factored):
            own_columns = np.flatnonzero(group_of[columns // k] == number)
            if len(own_columns):
                chosen = like(own_columns, R, dtype=xp.int64)
                out[:, chosen] = solve_lower(F, solve_lower(F, xp.take(R, chosen, axis=1)), transposed=True)
        return out

    return apply


def _conjugate_gradients(
    times: Callable[[Array], Array],
    precondition: Callable[[Array, np.ndarray], Array],
    right: Array,
    shifts: Floats,
    tol: float,
    most: int,
    after_round: Step,
) -> tuple[Array, Array, int]:
    """a with (C + shift)a = right column by column, what is left of right, and the rounds it took.

    A column is done when √(qᵀP⁻¹q) has fallen to ``tol`` of what it was, and takes no part any more.
    """
    xp = namespace(right)
    everyone = np.arange(right.shape[1])
    a, q = xp.zeros_like(right), xp.asarray(right, copy=True)
    z = precondition(q, everyone)
    p, size = z, to_numpy(xp.sum(q * z, axis=0))
    goal, rounds = tol * tol * size, 0
    active = everyone[size > goal]
    p = xp.take(p, like(active, p, dtype=xp.int64), axis=1)
    while len(active) and rounds < most:
        chosen = like(active, right, dtype=xp.int64)
        Cp = times(p) + like(shifts[active], right) * p
        alpha = size[active] / to_numpy(xp.sum(p * Cp, axis=0))
        a[:, chosen] += like(alpha, right) * p
        q[:, chosen] -= like(alpha, right) * Cp
        rest = xp.take(q, chosen, axis=1)
        z = precondition(rest, active)
        new = to_numpy(xp.sum(rest * z, axis=0))
        beta, size[active] = new / size[active], new
        rounds += 1
        after_round(rounds)
        going = np.flatnonzero(new > goal[active])
        kept = like(going, right, dtype=xp.int64)
        p = xp.take(z, kept, axis=1) + like(beta[going], right) * xp.take(p, kept, axis=1)
        active = active[going]
    return a, q, rounds
