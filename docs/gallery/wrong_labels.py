"""
A third of the labels is wrong
==============================

Least squares follows every label. Under the correntropy loss a residual has less and less influence once it is far
beyond the usual size of residuals. The usual size is estimated from the data.
"""

import numpy as np
from matplotlib import pyplot as plt

import unpooled as up

rng = np.random.default_rng(1)
X = np.sort(rng.uniform(-3, 3, size=(300, 1)), axis=0)
truth = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0]
y = truth + 0.15 * rng.standard_normal(300)
wrong = rng.random(300) < 0.3
y[wrong] = rng.uniform(3, 8, size=wrong.sum())

kernel = up.kernels.Gaussian(0.6)
squares = up.SpectralRegressor(kernel).fit(X, y)
robust = up.CorrentropyRegressor(kernel).fit(X, y)
print(f"{wrong.sum()} of 300 labels are wrong; scale {robust.scale_:.2f}, {robust.n_iter_} steps")

# %%

_, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(X[:, 0], y, ".", color="lightgrey", label="labels")
ax.plot(X[:, 0], truth, "--", color="black", label="truth")
ax.plot(X[:, 0], squares.predict(X), label="least squares")
ax.plot(X[:, 0], robust.predict(X), label="correntropy")
ax.set(xlabel="x", ylabel="y", ylim=(-2.5, 9.5))
ax.legend(fontsize="small", loc="upper center", ncols=4)

# %%
# The scale and the number of steps are chosen on rows left out, by a loss that wrong labels hardly affect.

up.plot.path(robust)
