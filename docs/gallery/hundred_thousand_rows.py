"""
A hundred thousand rows
=======================

The kernel matrix of 100,000 rows would take 80 GB. A fit in the span of some hundred kernel functions needs only sums
over the rows. It takes one pass and memory that does not grow with N, and every λ of a grid follows from the same sums.
"""

import numpy as np
from matplotlib import pyplot as plt

import unpooled as up

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(100_000, 4))
truth = np.sin(4 * X[:, 0]) + X[:, 1] * np.cos(3 * X[:, 2])
y = truth + 0.3 * rng.standard_normal(len(X))
X_new = rng.uniform(-1, 1, size=(5_000, 4))
truth_new = np.sin(4 * X_new[:, 0]) + X_new[:, 1] * np.cos(3 * X_new[:, 2])

# %%
# Before the fit, ``up.plan`` shows what each route would take.

outlook = up.plan(X, y, memory="2 GB", n_features=400)
print(outlook)

# %%
# With more points in the basis the error is smaller. The noise of the labels, 0.3, does not limit it.

sizes = [25, 50, 100, 200, 400]
errors = []
for size in sizes:
    model = up.NystromRegressor(up.kernels.Gaussian(), size).fit(X, y)
    errors.append(np.sqrt(np.mean((model.predict(X_new) - truth_new) ** 2)))

_, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(sizes, errors, marker="o")
ax.set(xscale="log", yscale="log", xlabel="points of the basis", ylabel="error against the truth")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
print(f"{sizes[-1]} points: error {errors[-1]:.3f}, λ = {model.lam_:.1g}")
