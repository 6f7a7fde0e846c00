"""The share of a target that each private method explains for an ε, with nothing tuned on the target.

The methods are that of Wang and Guo (2024) and others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...bases import Basis, EmpiricalFeatures
from ...estimators import PrivateRegressor, PrivateSGDRegressor, SummaryRegressor
from ...privacy import Private
from ...summaries import Summary
from ..curves import less, level
from ..experiment import Advance, Experiment, Protocol
from ..inference import Estimate, above, mean, together
from ..outcome import Curve, Outcome, Panel, Table

ALGORITHM, LESS, TIGHT, ROUNDS = "Algorithm 1, mended", "LESS, one round", "tight descent", "residual rounds"
METHODS = (ALGORITHM, LESS, TIGHT, ROUNDS)
LOWEST = -0.2  # R² that is drawn


def smooth(X: np.ndarray) -> np.ndarray:
    """A function of five variables, within ±1."""
    f = np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * np.cos(2 * X[:, 4])
    return np.asarray(f / 3)


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """R² on fresh rows without noise, for every method and ε, over draws of the data and of the noise."""
    p = protocol
    found = {name: np.empty((p["repetitions"], len(p["epsilons"]))) for name in METHODS}
    not_private = np.empty(p["repetitions"])
    for i in range(p["repetitions"]):
        rng = np.random.default_rng([p["seed"], i])
        X, fresh, public = (rng.uniform(-1, 1, (n, 5)) for n in (p["size"], p["fresh"], p["public"]))
        y = smooth(X) + p["noise"] * rng.uniform(-1, 1, len(X))
        basis = EmpiricalFeatures(None, p["features"]).fit(public)
        second = SummaryRegressor(center=True).fit_summary(Summary.of(basis, X, y, order=2))
        not_private[i] = explained(second, fresh)
        for j, epsilon in enumerate(p["epsilons"]):
            for name, model in models(p, epsilon, basis, X, y, public).items():
                found[name][i, j] = explained(model, fresh)
            advance()
    rows = [
        (e, *(float(found[name][:, j].mean()) for name in METHODS), float(not_private.mean()))
        for j, e in enumerate(p["epsilons"])
    ]
    title = f"R², n = {p['size']:,} records, {p['public']} public rows, δ = {p['delta']:g}; five inputs"
    table = Table(title, ("ε", *METHODS, "not private"), tuple(rows))
    epsilons = tuple(p["epsilons"])
    curves = [Curve(name, epsilons, tuple(np.maximum(found[name].mean(axis=0), LOWEST).tolist())) for name in METHODS]
    curves.append(level("not private", epsilons, float(not_private.mean())))
    label = f"R² (no lower than {LOWEST:g} drawn)"
    panel = Panel(f"n = {p['size']:,}, δ = {p['delta']:g}", "ε", label, tuple(curves), y_log=False)
    useful = {name: np.maximum(values, 0.0) for name, values in found.items()}

    def gain(name: str, other: str, j: int) -> Estimate:
        return mean(useful[name][:, j] - useful[other][:, j])

    ahead = [
        above(f"{name}, ε = {e:g}", gain(ROUNDS, name, j), 0.0, "gain in R²")
        for name in METHODS[:-1]
        for j, e in enumerate(epsilons)
    ]
    tighter = [above(f"ε = {e:g}", gain(TIGHT, ALGORITHM, j), 0.0, "gain in R²") for j, e in enumerate(epsilons)]
    verdicts = (
        together("Descent with tight noise explains more than Algorithm 1, mended, at every ε", tighter),
        together("Private residual rounds explain more than every other private method, at every ε", ahead),
    )
    return Outcome((table,), (panel,), verdicts, NOTES)


NOTES = (
    "Every method as it comes, with ε, δ and the label bound 1, and with the same public rows. The noise that protects "
    "is never seeded: figures differ from run to run.",
    "A constant explains nothing and costs no ε: an R² below 0 counts as 0 in the verdicts.",
    "How hard a budget is goes by nε: 2,000 records with ε = 1 are about as hard as 10,000 with ε = 0.2.",
)


def models(
    p: Protocol, epsilon: float, basis: Basis, X: np.ndarray, y: np.ndarray, public: np.ndarray
) -> dict[str, Any]:
    """Every method, fitted with that budget."""
    budget = (epsilon, p["delta"], 1.0)
    return {
        ALGORITHM: PrivateSGDRegressor(*budget, None, p["features"], "paper").fit(X, y, public=public),
        LESS: less(Summary.of(basis, X, y, privacy=Private(*budget)), "auto", center="public"),
        TIGHT: PrivateSGDRegressor(*budget, None, p["features"]).fit(X, y, public=public),
        ROUNDS: PrivateRegressor(*budget).fit(X, y, public=public),
    }


def explained(model: Any, fresh: np.ndarray) -> float:
    """R² against the function itself."""
    truth = smooth(fresh)
    return float(1 - np.mean((model.predict(fresh) - truth) ** 2) / np.var(truth))


SHARED = {"seed": 24003, "delta": 1e-6, "noise": 0.2, "fresh": 2000, "public": 400, "features": 150}

EXPERIMENT = Experiment(
    name="004-frontier",
    title="The private frontier, with residual rounds",
    question="How much of a target can be learned for an ε, by Algorithm 1 and by what this library adds?",
    quick={**SHARED, "size": 2000, "epsilons": [1.0, 10.0], "repetitions": 6},
    full={**SHARED, "size": 10_000, "epsilons": [0.1, 0.3, 1.0, 3.0, 10.0], "repetitions": 5},
    steps=lambda protocol: protocol["repetitions"] * len(protocol["epsilons"]),
    run=run,
    private=True,
)
