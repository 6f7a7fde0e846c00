"""Rounds of residuals in the span of a basis: preconditioners, messages, and the way to coefficients and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..filters import Filter, Floats
from .moments import Means, System, limited, system
from .residual_rounds import Rounds


def public_system(basis: Any, center: bool | str, n_features: Any = "all") -> System:
    """The public sample's covariance, decomposed; without a right-hand side."""
    M = basis.n_features_
    nothing = Means(1.0, 1.0, np.zeros(1), np.zeros(1), basis.mean_, np.zeros((M, 1)), None)
    found = system(nothing, basis, center, own=False)
    return found if isinstance(n_features, str) else limited(found, int(n_features))


def preconditioners(
    public: System, filter: Filter, lams: Floats, n_features: Any, with_intercept: bool
) -> tuple[Any, Any]:
    """r ↦ g_λ(C^u) r, a λ for each column, and r ↦ (q+λ)⁻¹ r, q the spread at fresh rows; the intercept's row stays.

    The second knows that the smallest public eigenvalues are too small for other rows.
    """
    g, _ = filter.path(public.sigma, lams, public.kappa_sq)
    if isinstance(n_features, str) and n_features == "rule":
        g = np.where(public.sigma[None, :] > public.kappa_sq * lams[:, None], g, 0.0)
    M = len(public.shift)

    def applying(weights: Floats) -> Any:
        def apply(r: Floats) -> Floats:
            t = r[: len(public.sigma)] if public.vectors is None else public.vectors.T @ r[:M]
            out = public.lifted(weights.T * t)
            return np.concatenate([out, r[M:]]) if with_intercept else out

        return apply

    return applying(g), applying(np.where(g > 0, 1.0 / (public.spread + lams[:, None]), 0.0))


def ridge_term(lams: Floats, M: int, with_intercept: bool) -> Floats:
    """λ for every coefficient (a row) and column, 0 for the intercept."""
    rows = np.broadcast_to(lams, (M, len(lams)))
    return np.concatenate([rows, np.zeros((1, len(lams)))]) if with_intercept else np.array(rows)


def centred_message(means: Means, shift: Floats, with_intercept: bool) -> Floats:
    """(1/n) Σ ψ (φ - shift), and (1/n) Σ ψ for the intercept."""
    message = means.phi_y - np.outer(shift, means.y)
    return np.concatenate([message, means.y[None]]) if with_intercept else message


def from_mean(rounds: Rounds, message: Floats) -> Floats:
    """The message at the mean of y, where the rounds then begin, from the one at zero.

    With features centred on the rows the mean of y is the best intercept whatever a is. Were it one more coordinate of
    the first step, a shift of y would have a say in how long that step is.
    """
    rounds.point[-1] = message[-1]
    return np.concatenate([message[:-1], np.zeros_like(message[-1:])])


def from_point(point: Floats, shift: Floats, with_intercept: bool) -> tuple[Floats, Floats]:
    """a and b of f = aᵀφ + b from f = (φ - shift)ᵀa + b'."""
    if not with_intercept:
        return point.copy(), np.zeros(point.shape[1])
    coef = point[:-1].copy()
    return coef, point[-1] - shift @ coef
