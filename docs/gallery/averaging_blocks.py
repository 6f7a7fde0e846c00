"""
How many blocks are too many?
=============================

An average of local fits is as good as one fit to all rows, up to a number of blocks that grows with N. The library
tries several numbers of blocks, and chooses λ for the average and not for a single block. The plots show how many
blocks the data allow.
"""

import numpy as np

import unpooled as up

rng = np.random.default_rng(0)
X = rng.uniform(size=(6000, 2))
truth = np.sin(6 * X[:, 0]) * np.cos(3 * X[:, 1])
y = truth + 0.5 * rng.standard_normal(6000)

local = up.SpectralRegressor(up.kernels.Matern(0.5, nu=1.5))
model = up.AveragedRegressor(local, n_blocks=[4, 8, 16, 32, 64, 128, 256, 512]).fit(X, y)
print(f"{model.n_blocks_} blocks, λ = {model.lam_:.2g}, error {np.sqrt(np.mean((model.predict(X) - truth) ** 2)):.3f}")

# %%
# The dotted line is the theorem's limit without its constant, so it gives an order of magnitude only.

up.plot.partition(model)

# %%
# Every number of blocks has a path of its own. With more blocks the best λ does not grow, although each block has fewer
# rows. The average reduces the variance of the blocks, but it keeps their bias.

ax = up.plot.path(model)
ax.legend(fontsize="small", ncols=2)
