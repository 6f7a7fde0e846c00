"""
The effective dimension of a kernel
===================================

The effective dimension 𝒩(λ) counts the directions that are left after the regularisation λ. As λ falls, it grows like
λ^{-s}. The exponent s is all that the theorems need to know of kernel and inputs: it determines the rate, and how many
blocks may be averaged.
"""

import numpy as np
from matplotlib import pyplot as plt

import unpooled as up

X = np.random.default_rng(0).uniform(size=(1000, 1))
lam = np.geomspace(1e-1, 1e-6, 30)
kernels = {
    "Brownian": up.kernels.Brownian(),
    "Matérn 3/2": up.kernels.Matern(0.5, nu=1.5),
    "Gaussian": up.kernels.Gaussian(0.5),
}

_, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, kernel in kernels.items():
    capacity = up.theory.dimension_exponent(kernel, X)
    (line,) = ax.plot(lam, up.theory.effective_dimension(kernel, X, lam), label=f"{name}: s = {capacity.s:.2f}")
    ax.plot(capacity.lam, capacity.dimension, ".", color=line.get_color())
ax.set(xscale="log", yscale="log", xlabel="λ", ylabel=r"effective dimension $\mathcal{N}(\lambda)$")
ax.legend()

# %%
# The dots are the same curve after the effect of a finite sample has been removed; s is their slope. In theory s is 1/2
# for the Brownian and 1/4 for the Matérn kernel on an interval, and 0 for the Gaussian, whose eigenvalues fall faster
# than any power.
#
# From s the theorem derives the settings for N rows and a target of regularity r.

print(up.theory.schedule(100_000, r=1.0, s=0.25))
