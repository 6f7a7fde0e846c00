"""FALKON's algorithm (Rudi, Carratino and Rosasco 2017) in plain torch: a peer where its own package does not install.

Preconditioned conjugate gradients for (K_nmᵀK_nm + λ n K_mm)c = K_nmᵀy, one λ at a time, with the preconditioner of its
paper: T = chol(K_mm), A = chol(TTᵀ/M + λI), both in double precision; kernel blocks in the precision that is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Step:
    """Where the iterations are: seconds spent on them so far, and the coefficients."""

    iteration: int
    seconds: float
    coef: Any


class FalkonStyle:
    """Gaussian kernel of one length scale."""

    def __init__(self, X: Any, y: Any, points: Any, length_scale: float, dtype: Any, block: int) -> None:
        self.X, self.Z = X.to(dtype) / length_scale, points.to(dtype) / length_scale
        self.y, self.dtype, self.block = y.to(torch.float64), dtype, block
        self.started = _now()
        Z = points.to(torch.float64) / length_scale
        K = torch.exp(-0.5 * _squares(Z, Z))
        K.diagonal().add_((1e-13 if dtype == torch.float64 else 1e-7) * len(Z))
        self.T = torch.linalg.cholesky(K, upper=True)
        self.own = self.T @ self.T.T / len(Z)
        self.factoring = _now() - self.started

    def steps(self, lam: float, most: int) -> Iterator[Step]:
        """The iterations at one λ; what all λ share is counted once in ``factoring`` and not here."""
        start = _now()
        n, M = self.X.shape[0], len(self.Z)
        shifted = self.own.clone()
        shifted.diagonal().add_(lam)
        A = torch.linalg.cholesky(shifted, upper=True)
        del shifted

        def back(v: Any) -> Any:
            return torch.linalg.solve_triangular(self.T, torch.linalg.solve_triangular(A, v, upper=True), upper=True)

        def forth(v: Any) -> Any:
            half = torch.linalg.solve_triangular(self.T.T, v, upper=False)
            return torch.linalg.solve_triangular(A.T, half, upper=False)

        def operator(v: Any) -> Any:
            u = torch.linalg.solve_triangular(A, v, upper=True)
            c = torch.linalg.solve_triangular(self.T, u, upper=True)
            inner = torch.linalg.solve_triangular(self.T.T, self._pass(c) / n, upper=False) + lam * u
            return torch.linalg.solve_triangular(A.T, inner, upper=False)

        right = forth(self._pass(None) / n)
        beta, residual = torch.zeros((M, 1), dtype=torch.float64, device=self.X.device), right.clone()
        direction, size = residual.clone(), (residual * residual).sum()
        for iteration in range(1, most + 1):
            product = operator(direction)
            alpha = size / (direction * product).sum()
            beta += alpha * direction
            residual -= alpha * product
            new = (residual * residual).sum()
            direction = residual + new / size * direction
            size = new
            spent = _now() - start
            yield Step(iteration, spent, back(beta))
            start = _now() - spent

    def _pass(self, c: Any) -> Any:
        """Kᵀ(Kc), or Kᵀy without c."""
        total = torch.zeros((len(self.Z), 1), dtype=torch.float64, device=self.X.device)
        for i in range(0, self.X.shape[0], self.block):
            K = torch.exp_(_squares(self.X[i : i + self.block], self.Z).mul_(-0.5))
            v = self.y[i : i + self.block, None].to(self.dtype) if c is None else K @ c.to(self.dtype)
            total += (K.T @ v).to(torch.float64)
        return total

    def predict(self, X: Any, length_scale: float, c: Any) -> Any:
        """Values at rows, in double precision."""
        K = torch.exp_(_squares(X.double() / length_scale, self.Z.double()).mul_(-0.5))
        return (K @ c)[:, 0]


def _squares(X: Any, Z: Any) -> Any:
    return torch.addmm((X * X).sum(1, keepdim=True) + (Z * Z).sum(1)[None], X, Z.T, alpha=-2.0).clamp_(min=0.0)


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
