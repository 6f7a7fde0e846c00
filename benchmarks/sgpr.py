"""GPyTorch's sparse Gaussian process regression at given hyper-parameters."""

from __future__ import annotations

from typing import Any

import gpytorch
import torch


class Sparse(gpytorch.models.ExactGP):
    def __init__(self, X: Any, y: Any, likelihood: Any, points: Any, length_scale: float) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = gpytorch.kernels.RBFKernel()
        base.lengthscale = length_scale
        self.covar_module = gpytorch.kernels.InducingPointKernel(base, inducing_points=points, likelihood=likelihood)

    def forward(self, X: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def posterior_mean(X: Any, y: Any, points: Any, length_scale: float, noise: float, X_new: Any) -> Any:
    """The mean at new rows, in double precision: in single its factorisation fails on a million rows."""
    X, y, points, X_new = (a.to(torch.float64) for a in (X, y, points, X_new))
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(X.device, torch.float64)
    likelihood.noise = noise
    model = Sparse(X, y, likelihood, points, length_scale).to(X.device, torch.float64)
    model.eval()
    with torch.no_grad(), gpytorch.settings.skip_posterior_variances(True), gpytorch.settings.max_cholesky_size(10_000):
        return model(X_new).mean
