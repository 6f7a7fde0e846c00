"""Averages of correntropy fits: the rate of Corollary 1, and outliers against the number m of machines.

The claims are those of Xie, Hu, Wang and Wang (2022).
"""

from __future__ import annotations

import math

import numpy as np

from ... import theory
from ...estimators import AveragedRegressor, CorrentropyRegressor
from ..curves import averaged, measured, power_law, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, below, exponent, no_slower, ratio, together
from ..outcome import Outcome, Panel, Table
from ..problems import PROBLEMS, Target
from .correntropy_scale import spoiled, steps

CORRENTROPY, LEAST_SQUARES = "correntropy", "least squares"


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """Averages over machines: the rate with the theorem's σ, and outliers with a moderate one."""
    p = protocol
    target, sizes = PROBLEMS[p["kernel"]]().target(p["r"]), p["sizes"]
    limits = [without_log(n, target.r, target.known.beta) for n in sizes]
    ms = sorted({*p["machines"], limits[-1]})
    squares = np.empty((p["repetitions"], len(sizes)))
    outliers = {name: np.empty((p["repetitions"], len(ms))) for name in (CORRENTROPY, LEAST_SQUARES)}
    for j, n in enumerate(sizes):
        T, scale = steps(target, sizes[0], n, p["noise"]), theory.scale(n, target.r, target.known.beta)
        for i in range(p["repetitions"]):
            rng = np.random.default_rng([p["seed"], n, i])
            X, Y = target.draw(rng, n, p["noise"], p["draws"])
            squares[i, j] = average(target, scale, T, limits[j], X, Y, i)
            if n == sizes[-1]:
                bad = spoiled(rng, Y, p["share"])
                for k, m in enumerate(ms):
                    outliers[CORRENTROPY][i, k] = average(target, p["scale"], T, m, X, bad, i)
                    outliers[LEAST_SQUARES][i, k] = average(target, math.inf, T, m, X, bad, i)
            advance()
    return _told(protocol, target, limits, squares, ms, outliers)


def without_log(n: int, r: float, s: float) -> int:
    """⌊N^{(r-1/2)/(2r+s)}⌋: (8) without its log⁵N."""
    return max(1, int(n ** ((r - 0.5) / (2 * r + s))))


def average(target: Target, scale: float, T: int, m: int, X: np.ndarray, Y: np.ndarray, seed: int) -> float:
    """The squared error of an average over m machines."""
    local = CorrentropyRegressor(target.known.kernel, scale, T, jump=0.0)
    return target.error_of(averaged(AveragedRegressor(local, m, random_state=seed, verbose=0), X, Y))


def _told(
    protocol: Protocol,
    target: Target,
    limits: list[int],
    squares: np.ndarray,
    ms: list[int],
    outliers: dict[str, np.ndarray],
) -> Outcome:
    p, sizes, n = protocol, protocol["sizes"], protocol["sizes"][-1]
    r, s = target.r, target.known.beta
    order, slope = r / (2 * r + s), exponent(sizes, squares)
    robust, plain = outliers[CORRENTROPY], outliers[LEAST_SQUARES]
    kept = [
        below(f"m = {m}", ratio(robust[:, k], robust[:, 0]), p["slack"], "ratio")
        for k, m in enumerate(ms)
        if 1 < m <= limits[-1]
    ]
    better = [above(f"m = {m}", ratio(plain[:, k], robust[:, k]), 1.0, "ratio") for k, m in enumerate(ms)]
    setting = f"{p['share']:.0%} outliers, σ = {p['scale']:g}"
    verdicts = (
        no_slower(
            "Corollary 1: averages over N^{(r-1/2)/(2r+s)} machines, (8) without its log⁵N, keep N^{-r/(2r+s)}",
            slope,
            order,
            p["resolution"],
        ),
        together(
            f"{setting}: up to that many machines the error stays within {p['slack'] - 1:.0%} of one machine's", kept
        ),
        together(f"{setting}: averages of correntropy fits do better than those of least squares", better),
    )
    allowed = [theory.partition_limit(size, r, s, "correntropy") for size in sizes]
    tables = (
        Table(
            f"Bounded noise, σ and T of Corollary 1: exponent {slope}, theory {order:.3f}",
            ("N", "m", "error", "(8) with its log⁵N"),
            tuple((size, m, root(squares[:, j]), allowed[j]) for j, (size, m) in enumerate(zip(sizes, limits))),
        ),
        Table(
            f"N = {n}, {setting}",
            ("m", *outliers),
            tuple((m, *(root(found[:, k]) for found in outliers.values())) for k, m in enumerate(ms)),
        ),
    )
    rates = measured("averages, σ of Corollary 1", sizes, squares)
    curves = tuple(measured(name, ms, found) for name, found in outliers.items())
    mark = (("(8) without its log", float(limits[-1])),)
    panels = (
        Panel("Bounded noise", "N, labels in all", "‖f̄ - f‖ in L²", (rates, power_law(sizes, rates.y[0], order))),
        Panel(f"{p['share']:.0%} outliers, N = {n}", "m, machines", "‖f̄ - f‖ in L²", curves, mark),
    )
    note = f"(8) as it stands allows {allowed[-1]:.1e} machines at N = {n}: its log⁵N is there for the proof."
    return Outcome(tables, panels, verdicts, (note,))


SHARED = {
    "kernel": "Sobolev 1",
    "r": 1.0,
    "noise": 0.3,
    "seed": 22003,
    "share": 0.2,
    "scale": 2.0,
    "slack": 1.15,
}

EXPERIMENT = Experiment(
    name="003-distributed",
    title="Distributed correntropy: the rate, and outliers against m",
    question="Do averages of correntropy fits keep the rate, and their robustness? Theorem 1, Corollary 1, (8).",
    quick={
        **SHARED,
        "sizes": [64, 128, 256, 512],
        "machines": [1, 4, 16],
        "repetitions": 8,
        "draws": 4,
        "resolution": 0.08,
    },
    full={
        **SHARED,
        "sizes": [64, 128, 256, 512, 1024, 2048],
        "machines": [1, 2, 4, 8, 16, 32, 64],
        "repetitions": 16,
        "draws": 4,
        "resolution": 0.05,
    },
    steps=lambda protocol: len(protocol["sizes"]) * protocol["repetitions"],
    run=run,
)
