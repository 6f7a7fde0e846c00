"""
What a privacy budget buys
==========================

Differential privacy costs accuracy. You can estimate how much before you spend any of the budget: the library simulates
the method with made-up targets on public rows.
"""

import numpy as np

import unpooled as up

rng = np.random.default_rng(0)
n, epsilons = 4_000, [0.1, 0.3, 1.0, 3.0, 10.0]
public = rng.uniform(-1, 1, size=(300, 3))
outlook = up.privacy.forecast(n, public, epsilon=epsilons, delta=1e-6, explained=0.95)
print(outlook)

# %%
# Then the records themselves are used, here once for each ε. The guarantee of each fit holds for that fit alone.

X = rng.uniform(-1, 1, size=(n, 3))
truth = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
y = truth + np.sqrt(0.05 / 0.95) * truth.std() * rng.standard_normal(n)

reached = []
for epsilon in epsilons:
    model = up.PrivateRegressor(epsilon, delta=1e-6, label_bound=3.0).fit(X, y, public=public)
    reached.append(model.score(X, y))

ax = up.plot.frontier(outlook)
ax.plot(epsilons, reached, "k*", markersize=10, label="reached")
ax.legend(fontsize="small")

# %%
# The model states its guarantee in words.

print(model.privacy_)
