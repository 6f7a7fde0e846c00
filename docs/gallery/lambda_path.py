"""
One decomposition, every λ
==========================

The regularisation λ matters more than any other choice, and it need not be searched for. One decomposition of the
kernel matrix gives the leave-one-out error of every λ of a grid. The data are sound levels from 1503 wind-tunnel runs.
"""

import numpy as np
from sklearn.preprocessing import StandardScaler

import unpooled as up

data = up.datasets.load_airfoil()
train, test = data.fold != 0, data.fold == 0
scaler = StandardScaler().fit(data.X[train])
X, X_test = scaler.transform(data.X[train]), scaler.transform(data.X[test])
y, y_test = data.y[train], data.y[test]

model = up.SpectralRegressor(up.kernels.Matern(1.0, nu=2.5))
model.fit(X, y)
print(f"λ = {model.lam_:.2g}, R² on rows held out: {model.score(X_test, y_test):.3f}")

# %%
# ``path_`` keeps the scores, the degrees of freedom and the predictions of every λ. The error on rows that were held
# out is lowest at about the λ that leave-one-out chooses.

held_out = np.sqrt(((model.path_.predict(X_test) - y_test) ** 2).mean(axis=1))
ax = up.plot.path(model, label="leave-one-out")
ax.plot(model.path_.lam, held_out, "--", label="rows held out")
ax.set_ylabel("error (root mean square, dB)")
ax.legend()

# %%
# The path follows from the spectrum. λ divides the eigenvalues, and the effective dimension counts those above it.

up.plot.spectrum(model)
