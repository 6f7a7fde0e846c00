"""λ by rule (13), and λ with the number of blocks by rule (14), against an oracle that knows the target.

The rules are those of Guo, Lin and Zhou (2017).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import theory
from ...estimators import AveragedRegressor, SpectralRegressor
from ..curves import averaged, measured, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import below, exponent, no_slower, ratio, together
from ..outcome import Curve, Outcome, Panel, Table, Verdict
from ..problems import PROBLEMS, Target

ORACLE, PRINTED = "oracle", "(13) as printed, half of the data"
REFITTED, JOINT = "(13), refitted to all data", "(14), refitted to all data"
CHOICES = (ORACLE, PRINTED, REFITTED, JOINT)


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """The rules and the oracle on the same data, at every size."""
    target = PROBLEMS[protocol["kernel"]]().target(protocol["r"])
    sizes, repetitions = protocol["sizes"], protocol["repetitions"]
    squares = {name: np.empty((repetitions, len(sizes))) for name in CHOICES}
    chosen: dict[tuple[str, int], list[tuple[float, int]]] = {}
    for j, n in enumerate(sizes):
        for i in range(repetitions):
            for name, model in models(protocol, target, n, i).items():
                squares[name][i, j] = target.error_of(model)
                chosen.setdefault((name, n), []).append((float(model.lam_), model.n_blocks_))
            advance()
    table = _table(protocol, squares, chosen)
    return Outcome((table,), (_panel(protocol, target, squares),), _verdicts(protocol, target, squares), NOTES)


NOTES = (
    "The oracle knows the target: it has the λ of least risk in the population for N rows, and m = the limit (9), "
    "which (13) is given as well. (14) chooses m too, of 1, 2, 4, … up to that limit.",
    "The paper gives no constant for its rules; what it cites is that they keep the rate. Single choices from few "
    "validation rows are rough, and the means of squared errors are ruled by the roughest.",
)


def models(protocol: Protocol, target: Target, n: int, i: int) -> dict[str, AveragedRegressor]:
    """One data set, four fits."""
    X, Y = target.draw(np.random.default_rng([protocol["seed"], n, i]), n, protocol["noise"])
    lams = target.known.kappa_sq * np.asarray(protocol["lams"])
    limit = int(theory.partition_limit(n, target.r, target.known.beta, filter="tikhonov"))

    def fit(n_blocks: Any, lam: Any, refit: bool = True) -> AveragedRegressor:
        local = SpectralRegressor(target.known.kernel)
        return averaged(AveragedRegressor(local, n_blocks, lam, refit=refit, random_state=i, verbose=0), X, Y[:, 0])

    return {
        ORACLE: fit(limit, target.best_lam("tikhonov", n, protocol["noise"])),
        PRINTED: fit(limit, lams, refit=False),
        REFITTED: fit(limit, lams),
        JOINT: fit([m for m in (2**k for k in range(20)) if m < limit] + [limit], lams),
    }


def _table(
    protocol: Protocol, squares: dict[str, np.ndarray], chosen: dict[tuple[str, int], list[tuple[float, int]]]
) -> Table:
    rows = []
    for j, n in enumerate(protocol["sizes"]):
        for name in CHOICES:
            own = squares[name][:, j]
            lam, m = np.median(np.asarray(chosen[name, n]), axis=0)
            beside = "" if name == ORACLE else str(ratio(own, squares[ORACLE][:, j]))
            rows.append((n, name, root(own), beside, float(lam), int(m)))
    return Table(
        f"{protocol['kernel']}, r = {protocol['r']:g}, {protocol['repetitions']} samples of each size",
        ("N", "choice", "error", "ratio to the oracle", "λ (median)", "m (median)"),
        tuple(rows),
    )


def _panel(protocol: Protocol, target: Target, squares: dict[str, np.ndarray]) -> Panel:
    sizes = protocol["sizes"]
    curves = [measured(name, sizes, found) for name, found in squares.items()]
    order = [theory.rate(n, target.r, target.known.beta) for n in sizes]
    line = tuple(float(curves[0].y[0] * rate / order[0]) for rate in order)
    curves.append(Curve("N^{-r/(2r+β)}", tuple(map(float, sizes)), line, style="theory"))
    return Panel(f"{target.known.name}, r = {target.r:g}", "N, labels in all", "‖f̄ - f‖ in L²", tuple(curves))


def _verdicts(protocol: Protocol, target: Target, squares: dict[str, np.ndarray]) -> tuple[Verdict, ...]:
    sizes, resolution = protocol["sizes"], protocol["resolution"]
    order = -math.log10(theory.rate(10, target.r, target.known.beta))
    rate = "keeps the rate N^{-r/(2r+β)} without knowing r"
    behind = [
        no_slower(name, exponent(sizes, squares[name], over=squares[ORACLE]), 0.0, resolution) for name in CHOICES[1:]
    ]
    return (
        no_slower(f"Rule (13) as printed {rate}", exponent(sizes, squares[PRINTED]), order, resolution),
        no_slower(f"Rule (14) {rate}", exponent(sizes, squares[JOINT]), order, resolution),
        together("The error of a rule over the oracle's does not grow with N", behind),
        below(
            "Refitted to all data, (13) does better than the fit to half of them that it keeps as printed",
            ratio(squares[REFITTED], squares[PRINTED]),
            1.0,
            "ratio of errors over all N",
        ),
    )


SHARED = {
    "kernel": "Brownian",
    "r": 0.75,
    "noise": 0.3,
    "seed": 17005,
    "lams": [3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1],
}

EXPERIMENT = Experiment(
    name="001-rules",
    title="Rules (13) and (14) against the oracle",
    question="How far from the best λ, and number of blocks, do the rules that see only data end up?",
    quick={**SHARED, "sizes": [64, 128, 256, 512], "repetitions": 40, "resolution": 0.1},
    full={**SHARED, "sizes": [64, 128, 256, 512, 1024, 2048], "repetitions": 40, "resolution": 0.06},
    steps=lambda protocol: len(protocol["sizes"]) * protocol["repetitions"],
    run=run,
)
