"""
Four hospitals that send sums
=============================

The records of the patients stay at their four hospitals. Each hospital evaluates public functions of its patients'
inputs, adds them up over its patients, and sends these sums. The model is computed from the sums alone.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt
from sklearn.preprocessing import StandardScaler

import unpooled as up

data = up.datasets.load_heart()
print(f"{len(data.y)} patients, {data.X.shape[1]} inputs, to predict: {data.target}")

hospitals = np.unique(data.sites)
public, test = data.fold < 2, data.fold >= 8
private = ~public & ~test

# Hospitals differ in more than their patients, so four columns say which hospital a patient belongs to.
X = np.column_stack([data.X, *(data.sites == name for name in hospitals)])
X = StandardScaler().fit(X[public]).transform(X)

# %%
# The basis is made from public patients without their labels, and is sent to all hospitals.

basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(), 80)
basis.fit(X[public])

# %%
# Each hospital makes one summary. Nothing else leaves it.


def summary_of(name, **more):
    """Return the summary that one hospital sends."""
    here = private & (data.sites == name)
    return up.Summary.of(basis, X[here], data.y[here], **more)


summaries = {name: summary_of(name) for name in hospitals}
print(summaries["switzerland"].describe())

# %%
# Sums add up: together, the sums of all hospitals equal what one hospital with all the patients would have sent. In
# further rounds the hospitals send sums of the model's errors, which brings the model close to the best one in the
# basis.


def error(fitted):
    """Return the error in beats a minute, on patients that no model has seen."""
    return np.sqrt(np.mean((fitted.predict(X[test]) - data.y[test]) ** 2))


model = up.SummaryRegressor(ridge=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # it says that one round is not enough with so few public patients
    model.fit_summary(sum(summaries.values()))
errors = {"sums, one round": error(model)}
for _ in range(5):
    model.update(sum(summary_of(name, residuals_of=model) for name in hospitals))
errors["sums, six rounds"] = error(model)

# %%
# For comparison, fit a model at each hospital alone, and one to all patients in one place.

for name in hospitals:
    here = private & (data.sites == name)
    errors[f"{name} alone"] = error(up.SpectralRegressor(basis.kernel_).fit(X[here], data.y[here]))
errors["all patients in one place"] = error(up.SpectralRegressor(basis.kernel_).fit(X[private], data.y[private]))

_, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
colours = ["C0" if name.startswith("sums") else "lightgrey" for name in errors]
ax.barh(list(errors), list(errors.values()), color=colours)
ax.invert_yaxis()
ax.set_xlabel("error on new patients of all hospitals (beats a minute)")
