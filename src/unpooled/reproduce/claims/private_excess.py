"""The excess error of Algorithm 1 of Wang and Guo (2024) against n and ε, as printed, as mended, and tight."""

from __future__ import annotations

import math

import numpy as np

from ..._solvers.descent.sgd import one_by_one
from ...bases import CosineFeatures
from ...estimators import PrivateRegressor, PrivateSGDRegressor
from ...kernels import Gaussian
from ..curves import level, measured
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, below, exponent, no_slower, typical_ratio
from ..outcome import Curve, Outcome, Panel, Table, Verdict
from ..problems import grid
from .private_noise import noise_as_printed, schedule

NO_NOISE, PRINTED, MENDED, MEASURED = "no noise", "as printed", "mended", "mended, as measured"
TIGHT, ROUNDS = "tight", "residual rounds"
METHODS = (NO_NOISE, PRINTED, MENDED, MEASURED, TIGHT, ROUNDS)
ByMethod = dict[str, np.ndarray]


def truth(p: Protocol, x: np.ndarray) -> np.ndarray:
    """The regression function L_K g, g = a + b sin 2πx: Assumption 2.1 with r = 1, and so with all r below.

    A sine or a constant by itself would not do: the space of the Gaussian kernel does not hold them.
    """
    constant, wave = p["of_g"]
    g = constant + wave * np.sin(2 * math.pi * grid())
    return np.asarray(Gaussian(p["length_scale"])(x, grid()[:, None]) @ g / len(g))


def features(p: Protocol, n: int) -> int:
    """M as Theorem 1 asks, n^{(1+α(2r-1))/(2r+α)}, from its first value on."""
    power = (1 + p["alpha"] * (2 * p["r"] - 1)) / (2 * p["r"] + p["alpha"])
    return round(p["features"] * (n / p["sizes"][0]) ** power)


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """‖f_priv - f‖² against n and against ε."""
    p = protocol
    settings = [(n, p["epsilon"]) for n in p["sizes"]] + [(p["sizes"][-1], epsilon) for epsilon in p["epsilons"]]
    found = {name: np.empty((p["repetitions"], len(settings))) for name in METHODS}
    for i in range(p["repetitions"]):
        for j, (n, epsilon) in enumerate(settings):
            for name, value in excesses(p, n, epsilon, i).items():
                found[name][i, j] = value
            advance()
    before = np.empty((p["descents"], len(p["sizes"])))
    for j, n in enumerate(p["sizes"]):
        before[:, j] = [before_noise(p, n, i) for i in range(p["descents"])]
        advance()
    split = len(p["sizes"])
    by_n = {name: values[:, :split] for name, values in found.items()}
    by_epsilon = {name: values[:, split:] for name, values in found.items()}
    spread, n = float(np.var(truth(p, grid()[:, None]))), p["sizes"][-1]
    tables = (
        _table(f"against n, ε = {p['epsilon']:g}; the variance of the target is {spread:.3g}", "n", p["sizes"], by_n),
        _table(f"against ε, n = {n}", "ε", p["epsilons"], by_epsilon),
    )
    panels = (
        _panel(f"ε = {p['epsilon']:g}", "n, records", p["sizes"], by_n, spread),
        _panel(f"n = {n}", "ε", p["epsilons"], by_epsilon, spread),
    )
    return Outcome(tables, panels, _verdicts(p, by_n, before, spread), NOTES)


NOTES = (
    "As printed and mended are expectations over the noise: the error of the descent, and σ² times the mean squared "
    "length of the features. 'As measured' is PrivateSGDRegressor(method='paper'), 'tight' its default, 'residual "
    "rounds' PrivateRegressor. The noise that protects is never seeded, so what is measured differs from run to run, "
    "and the verdicts are on geometric means.",
    "Schedule of Theorem 1 with η = 1/n, r = 0.75, α = 0.8, and as many features as it asks for, from 100 on; the "
    "target is L_K g with a bounded g; labels are within ±1. The printed noise is not private.",
)


def excesses(p: Protocol, n: int, epsilon: float, i: int) -> dict[str, float]:
    """Every method on one data set."""
    rng = np.random.default_rng([p["seed"], n, i])
    X, c, delta, points = rng.random((n, 1)), p["label_bound"], p["delta"], grid()[:, None]
    y = truth(p, X) + _noise(p, rng, n)
    public, kernel, target = rng.random((p["public"], 1)), Gaussian(p["length_scale"]), truth(p, points)
    paper = PrivateSGDRegressor(epsilon, delta, c, kernel, features(p, n), "paper").fit(X, y)
    plan, phi = paper.plan_, paper.basis_.features(points)
    weights = one_by_one(paper.basis_.features(X), y, rng.integers(0, n, plan.steps), plan.step)
    alone, length = float(np.mean((phi @ weights - target) ** 2)), float(np.mean(np.sum(phi**2, axis=1)))
    printed = noise_as_printed(n, plan.steps, plan.step, c, epsilon, delta)
    tight = PrivateSGDRegressor(epsilon, delta, c, kernel, p["features"]).fit(X, y, public=public)
    rounds = PrivateRegressor(epsilon, delta, c, kernel, standardize=False).fit(X, y, public=public)
    return {
        NO_NOISE: alone,
        PRINTED: alone + printed**2 * length,
        MENDED: alone + paper.sigma_**2 * length,
        MEASURED: float(np.mean((paper.predictor_.predict(points)[:, 0] - target) ** 2)),
        TIGHT: float(np.mean((tight.predict(points) - target) ** 2)),
        ROUNDS: float(np.mean((rounds.predict(points) - target) ** 2)),
    }


def before_noise(p: Protocol, n: int, i: int) -> float:
    """‖f̂ - f‖² of Algorithm 1 without its noise, features drawn anew."""
    rng = np.random.default_rng([p["seed"], n, i, 1])
    X, points, (eta, T) = rng.random((n, 1)), grid()[:, None], schedule(n, p["r"], p["alpha"], slow=True)
    basis = CosineFeatures(Gaussian(p["length_scale"]), features(p, n), seed=i).fit(X)
    weights = one_by_one(basis.features(X), truth(p, X) + _noise(p, rng, n), rng.integers(0, n, T), eta)
    return float(np.mean((basis.features(points) @ weights - truth(p, points)) ** 2))


def _noise(p: Protocol, rng: np.random.Generator, n: int) -> np.ndarray:
    return np.asarray(p["noise"] * math.sqrt(3) * rng.uniform(-1, 1, n))


def _table(against: str, head: str, x: list[float], found: ByMethod) -> Table:
    rows = [(value, *(float(found[name][:, j].mean()) for name in METHODS)) for j, value in enumerate(x)]
    return Table(f"Excess error {against}", (head, *METHODS), tuple(rows))


def _panel(title: str, x_label: str, x: list[float], found: ByMethod, spread: float) -> Panel:
    curves = []
    for name, squares in found.items():
        drawn = measured(name, x, squares)
        assert drawn.low is not None
        assert drawn.high is not None
        y, low, high = (tuple(value**2 for value in values) for values in (drawn.y, drawn.low, drawn.high))
        curves.append(Curve(name, drawn.x, y, low, high))
    return Panel(title, x_label, "‖f_priv - f‖²", (*curves, level("variance of the target", x, spread)))


def _verdicts(p: Protocol, by_n: ByMethod, before: np.ndarray, spread: float) -> tuple[Verdict, ...]:
    share = {
        name: typical_ratio(by_n[name][:, -1], np.full(p["repetitions"], spread)) for name in (MENDED, TIGHT, ROUNDS)
    }
    order = 2 * p["r"] / (2 * p["r"] + p["alpha"])
    where = f"n = {p['sizes'][-1]}, ε = {p['epsilon']:g}"
    return (
        no_slower(
            "Theorem 1, (16), its second term: before noise ‖f̂ - f‖² falls at least as fast as n^{-2r/(2r+α)}",
            exponent(p["sizes"], before).times(2),
            order,
            p["resolution"],
        ),
        above(
            f"Algorithm 1, mended, is of no use at {where}: its error is above the standard deviation of the target",
            share[MENDED],
            1.0,
            "ratio",
        ),
        below(
            "Tight noise makes the same kind of descent useful: its error is typically below a third of that",
            share[TIGHT],
            1 / 3,
            "ratio",
        ),
        below("So do private residual rounds", share[ROUNDS], 1 / 3, "ratio"),
    )


SHARED = {
    "seed": 24002,
    "r": 0.75,
    "alpha": 0.8,
    "epsilon": 1.0,
    "delta": 1e-5,
    "label_bound": 1.0,
    "noise": 0.15,
    "length_scale": 0.2,
    "of_g": [0.54, 1.8],
    "features": 100,
    "public": 200,
    "resolution": 0.2,
}

EXPERIMENT = Experiment(
    name="004-excess",
    title="The excess error of Algorithm 1 against n and ε",
    question="What is left of the target once the noise is added? Theorem 1.",
    quick={**SHARED, "sizes": [250, 1000, 2000], "epsilons": [0.3, 3.0], "repetitions": 6, "descents": 12},
    full={
        **SHARED,
        "sizes": [500, 1000, 2000, 4000, 8000],
        "epsilons": [0.1, 0.3, 1.0, 3.0, 10.0],
        "repetitions": 8,
        "descents": 16,
    },
    steps=lambda p: p["repetitions"] * (len(p["sizes"]) + len(p["epsilons"])) + len(p["sizes"]),
    run=run,
    private=True,
)
