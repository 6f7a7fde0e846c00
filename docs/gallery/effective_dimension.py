"""
How large a kernel's space looks
================================

The effective dimension 𝒩(λ) counts the directions that survive the regularisation λ. How it grows as λ falls, like
λ^{-s}, is what the theorems need to know of kernel and inputs: s sets the rate, and how many blocks may be averaged.
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
    found = up.theory.dimension_exponent(kernel, X)
    (line,) = ax.plot(lam, up.theory.effective_dimension(kernel, X, lam), label=f"{name}: s = {found.s:.2f}")
    ax.plot(found.lam, found.dimension, ".", color=line.get_color())
ax.set(xscale="log", yscale="log", xlabel="λ", ylabel=r"effective dimension $\mathcal{N}(\lambda)$")
ax.legend()

# %%
# Dots are the same curve with what a finite sample does to it undone; s is the slope there. The theorem of Brownian and
# Matérn kernels on an interval says 1/2 and 1/4, and 0 for the Gaussian, whose eigenvalues fall faster than any power.
#
# With s, the theorem says what to set for N rows and a target of regularity r.

print(up.theory.schedule(100_000, r=1.0, s=0.25))
