"""Kernels of the coordinates themselves: linear, polynomial, Brownian."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base.arrays import Array, namespace
from .._base.text import quote
from .base import Kernel


class Linear(Kernel):
    """K(x, z) = x·z. Unbounded: κ is taken over the data."""

    def block(self, X: Array, Z: Array) -> Array:
        return X @ Z.T

    def diag(self, X: Array) -> Array:
        return namespace(X).sum(X * X, axis=1)


class Polynomial(Kernel):
    """K(x, z) = (γ x·z + c)^p with an integer degree p ≥ 1, γ > 0, c ≥ 0. Unbounded: κ is taken over the data.

    Parameters
    ----------
    degree : int
    gamma : float or None
        None is one over the number of features, scikit-learn's default.
    coef0 : float
    """

    def __init__(self, degree: int = 3, gamma: float | None = None, coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def _parameters(self, n_features: int) -> tuple[int, float, float]:
        gamma = 1.0 / n_features if self.gamma is None else self.gamma
        if not (isinstance(self.degree, (int, np.integer)) and self.degree >= 1):
            raise ValueError(f"degree must be a whole number of at least 1, got {quote(self.degree)}")
        if not (isinstance(gamma, (int, float, np.number)) and 0 < gamma < math.inf):
            raise ValueError(f"gamma must be a positive number or None, got {quote(self.gamma)}")
        if not (isinstance(self.coef0, (int, float, np.number)) and 0 <= self.coef0 < math.inf):
            raise ValueError(f"coef0 must not be negative, or the kernel is not one; got {quote(self.coef0)}")
        return int(self.degree), float(gamma), float(self.coef0)

    def _of_products(self, products: Any, n_features: int) -> Array:
        degree, gamma, coef0 = self._parameters(n_features)
        products *= gamma
        products += coef0
        return products**degree if degree > 1 else products

    def block(self, X: Array, Z: Array) -> Array:
        return self._of_products(X @ Z.T, X.shape[1])

    def diag(self, X: Array) -> Array:
        return self._of_products(namespace(X).sum(X * X, axis=1), X.shape[1])


class Brownian(Kernel):
    """K(x, z) = 1 + min(x, z) on [0, ∞), one feature: the Sobolev space W¹₂ of the papers' examples."""

    nonnegative = True

    def block(self, X: Array, Z: Array) -> Array:
        xp = namespace(X, Z)
        return 1.0 + xp.minimum(self._checked(X), self._checked(Z).T)

    def diag(self, X: Array) -> Array:
        return 1.0 + self._checked(X)[:, 0]

    def _checked(self, X: Array) -> Array:
        if X.shape[1] != 1:
            raise ValueError(f"Brownian is a kernel of one feature, X has {X.shape[1]}")
        smallest = float(namespace(X).min(X)) if X.shape[0] else 0.0
        if smallest < 0:
            raise ValueError(f"Brownian needs X ≥ 0 (best on [0, 1]), the smallest value is {smallest:g}")
        return X
