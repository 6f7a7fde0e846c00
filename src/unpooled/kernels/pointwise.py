"""Kernels of the coordinates themselves: linear, polynomial, Brownian."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base.arrays import Array, namespace
from .._base.text import quote
from .base import Kernel


class Linear(Kernel):
    """The linear kernel K(x, z) = x·z. It is unbounded, so κ is taken over the rows of the fit."""

    def block(self, X: Array, Z: Array) -> Array:
        return X @ Z.T

    def diag(self, X: Array) -> Array:
        return namespace(X).sum(X * X, axis=1)


class Polynomial(Kernel):
    """The polynomial kernel K(x, z) = (γ x·z + c)^p. It is unbounded, so κ is taken over the rows of the fit.

    Parameters
    ----------
    degree : int, default 3
        The degree p ≥ 1.
    gamma : float or None
        γ > 0. None is one over the number of features, as in scikit-learn.
    coef0 : float, default 1
        The constant c ≥ 0.
    """

    def __init__(self, degree: int = 3, gamma: float | None = None, coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def _check_parameters(self, n_features: int) -> tuple[int, float, float]:
        gamma = 1.0 / n_features if self.gamma is None else self.gamma
        if not (isinstance(self.degree, (int, np.integer)) and self.degree >= 1):
            raise ValueError(f"degree must be a whole number of at least 1, got {quote(self.degree)}")
        if not (isinstance(gamma, (int, float, np.number)) and 0 < gamma < math.inf):
            raise ValueError(f"gamma must be a positive number or None, got {quote(self.gamma)}")
        if not (isinstance(self.coef0, (int, float, np.number)) and 0 <= self.coef0 < math.inf):
            raise ValueError(
                f"coef0 must be a number of at least 0, because the kernel is not positive semi-definite otherwise; "
                f"got {quote(self.coef0)}"
            )
        return int(self.degree), float(gamma), float(self.coef0)

    def _raise_products(self, products: Any, n_features: int) -> Array:
        degree, gamma, coef0 = self._check_parameters(n_features)
        products *= gamma
        products += coef0
        return products**degree if degree > 1 else products

    def block(self, X: Array, Z: Array) -> Array:
        return self._raise_products(X @ Z.T, X.shape[1])

    def diag(self, X: Array) -> Array:
        return self._raise_products(namespace(X).sum(X * X, axis=1), X.shape[1])


class Brownian(Kernel):
    """The kernel K(x, z) = 1 + min(x, z) of one feature on [0, ∞), whose space is the Sobolev space W¹₂."""

    nonnegative = True

    def block(self, X: Array, Z: Array) -> Array:
        xp = namespace(X, Z)
        return 1.0 + xp.minimum(self._check(X), self._check(Z).T)

    def diag(self, X: Array) -> Array:
        return 1.0 + self._check(X)[:, 0]

    def _check(self, X: Array) -> Array:
        if X.shape[1] != 1:
            raise ValueError(f"X must have one feature for the kernel Brownian, but it has {X.shape[1]}")
        smallest = float(namespace(X).min(X)) if X.shape[0] else 0.0
        if smallest < 0:
            raise ValueError(
                f"X must not be negative for the kernel Brownian, and its smallest value is {smallest:g}: shift X, "
                "preferably to [0, 1]"
            )
        return X
