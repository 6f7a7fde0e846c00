"""The λ of the whole sample, which every block needs although it is too small for the block by itself.

This is section 3 of Guo, Lin and Zhou (2017).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...estimators import AveragedRegressor, SpectralRegressor
from ..curves import averaged, measured
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, below, ratio, together
from ..outcome import Outcome, Panel, Table
from ..problems import PROBLEMS, Target

WHOLE, BLOCK, OWN = "λ of N", "λ of N/m", "own λ"
ALONE, MEAN = "one block", "average"
HEADS = ("m", "rows a block", "one block alone", "averaged", "averaged, each block its own leave-one-out λ")


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """λ of the whole sample, λ of a block, and λ chosen by each block: for one block by itself, and averaged."""
    target = PROBLEMS[protocol["kernel"]]().target(protocol["r"])
    n, machines = protocol["size"], protocol["machines"]
    rows, losing, leading, own = [], [], [], []
    squares: dict[tuple[str, str], list[np.ndarray]] = {}
    for m in machines:
        found = by_choice(protocol, target, m)
        for key, values in found.items():
            squares.setdefault(key, []).append(values)
        alone = ratio(found[BLOCK, ALONE], found[WHOLE, ALONE])
        mean = ratio(found[BLOCK, MEAN], found[WHOLE, MEAN])
        chosen = ratio(found[OWN, MEAN], found[WHOLE, MEAN])
        rows.append((m, n // m, str(alone), str(mean), str(chosen)))
        leading.append(below(f"m = {m}", alone, 1.0, "ratio"))
        losing.append(above(f"m = {m}", mean, 1.0, "ratio"))
        own.append(above(f"m = {m}", chosen, 1.0, "ratio"))
        advance()
    curves = tuple(
        measured(f"{where}, {choice}", machines, np.stack(columns, axis=1))
        for (choice, where), columns in squares.items()
    )
    title = f"{protocol['kernel']}, r = {protocol['r']:g}, N = {n:,}"
    panel = Panel(title, "m, machines", "‖f̂ - f‖ in L²", curves)
    table = Table("Errors with the λ of a block over those with the λ of the whole sample", HEADS, tuple(rows))
    verdicts = (
        together("§3: a block by itself does better with the λ of its own size", leading),
        together(
            "§3: averaged, these over-regularised fits lose to under-regularised ones with the λ of the whole sample",
            losing,
        ),
        together("So they do where each block chooses its λ by leave-one-out", own),
    )
    return Outcome((table,), (panel,), verdicts, ("λ by the population's risk, for N rows and for N/m rows.",))


def by_choice(protocol: Protocol, target: Target, m: int) -> dict[tuple[str, str], np.ndarray]:
    """Squared errors of one block and of the average, for every choice of λ."""
    p = protocol
    n, kernel = p["size"], target.known.kernel
    lams = {WHOLE: target.best_lam("tikhonov", n, p["noise"]), BLOCK: target.best_lam("tikhonov", n // m, p["noise"])}
    grid = target.known.kappa_sq * np.logspace(-5, 0, 21)
    choosing = SpectralRegressor(kernel, lam="loo", per_target=True, grid=grid)
    found: dict[tuple[str, str], list[float]] = {}
    for i in range(p["repetitions"]):
        X, Y = target.draw(np.random.default_rng([p["seed"], m, i]), n, p["noise"], p["draws"])

        def average(local: SpectralRegressor, lam: Any) -> float:
            model = AveragedRegressor(local, m, lam, random_state=i, verbose=0)  # noqa: B023
            return target.error_of(averaged(model, X, Y))  # noqa: B023

        for choice, lam in lams.items():
            alone = SpectralRegressor(kernel, lam=lam).fit(X[: n // m], Y[: n // m])
            found.setdefault((choice, ALONE), []).append(target.error_of(alone))
            found.setdefault((choice, MEAN), []).append(average(SpectralRegressor(kernel), lam))
        found.setdefault((OWN, MEAN), []).append(average(choosing, "local"))
    return {key: np.asarray(values) for key, values in found.items()}


SHARED = {"kernel": "Brownian", "r": 0.75, "noise": 0.3, "seed": 17004}

EXPERIMENT = Experiment(
    name="001-whose-lambda",
    title="Over-regularised local fits lose to under-regularised ones once averaged",
    question="Should a block take the λ of its own size, or that of the whole sample? §3, after (21).",
    quick={**SHARED, "size": 1024, "machines": [4, 16], "repetitions": 10, "draws": 4},
    full={**SHARED, "size": 4096, "machines": [2, 4, 8, 16, 32, 64], "repetitions": 16, "draws": 6},
    steps=lambda protocol: len(protocol["machines"]),
    run=run,
)
