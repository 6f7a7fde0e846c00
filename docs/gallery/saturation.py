"""
Where ridge regression stops learning
=====================================

A filter g replaces the inverse of the spectrum: the fit leaves out the share 1 - σg(σ) of the component at eigenvalue
σ. Tikhonov's filter, which is kernel ridge regression, leaves out λ/(σ+λ), which never falls faster than λ. It
saturates: a smoother target gains nothing. Landweber iteration, which is gradient descent, has no such limit.
"""

import numpy as np
from matplotlib import pyplot as plt

import unpooled as up

sigma = np.geomspace(1e-4, 1, 300)
filters = {"Tikhonov": up.filters.Tikhonov(), "Landweber": up.filters.Landweber(), "cut-off": up.filters.CutOff()}
_, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, one in filters.items():
    ax.plot(sigma, np.maximum(one.residual(sigma, 0.01, 1.0), 1e-5), label=name)
ax.axvline(0.01, linestyle=":", color="grey", label="λ")
ax.set(xscale="log", yscale="log", xlabel="eigenvalue σ", ylabel="share that is left, 1 - σg(σ)", ylim=(1e-4, 2))
ax.legend()

# %%
# The theorems say what saturation costs. For a target of regularity r they determine λ, and the error falls like
# N^{-r/(2r+s)}. Beyond the qualification of the filter, which is 1 for Tikhonov, a smoother target has the rate of
# r = 1.

for r in (0.75, 1.0, 2.0):
    ridge, descent = (up.theory.rate(10_000, r, 0.5, filter=name) for name in ("tikhonov", "landweber"))
    print(f"r = {r}: error of order {ridge:.3f} with Tikhonov, {descent:.3f} with Landweber, N = 10,000")

# %%
# The same effect shows on data. The kernel is 1 + min(x, z), and the target is smooth in the sense of that kernel: a
# function from its space, smoothed three times more by the kernel's own operator. Each filter uses the λ that is best
# for it.

kernel = up.kernels.Brownian()
grid = np.linspace(0, 1, 400)[:, None]
smoother = kernel(grid, grid) / len(grid)
target = np.linalg.matrix_power(smoother, 3) @ np.sign(np.sin(3 * np.pi * grid[:, 0]))
target *= 2 / np.abs(target).max()


def error(name, n, seed):
    """Return the smallest error over λ, against the truth on the grid."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(grid), size=n)
    y = target[rows] + 0.3 * rng.standard_normal(n)
    path = up.SpectralRegressor(kernel, name, "gcv", grid=np.geomspace(2, 1e-4, 25)).fit(grid[rows], y).path_
    return np.sqrt(((path.predict(grid) - target) ** 2).mean(axis=1)).min()


sizes = [50, 100, 200, 400, 800]
_, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name in ("tikhonov", "landweber"):
    ax.plot(sizes, [np.mean([error(name, n, seed) for seed in range(20)]) for n in sizes], marker="o", label=name)
ax.set(xscale="log", yscale="log", xlabel="rows N", ylabel="error against the truth")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.legend()
