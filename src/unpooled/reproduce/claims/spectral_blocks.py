"""The error of an average against the number m of machines, with the limit (9) of Guo, Lin and Zhou (2017)."""

from __future__ import annotations

import math

import numpy as np

from ... import theory
from ...estimators import AveragedRegressor, SpectralRegressor
from ..curves import averaged, measured, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import exponent, no_slower, ratio, together
from ..outcome import Outcome, Panel, Table
from ..problems import PROBLEMS, Target

HEADS = ("kernel", "filter", "r", "N", "limit (9)", "error, m = 1", "ratio at (9)", "ratio at the last m", "last m")


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """Errors over a range of m, at two sizes or more of the whole sample."""
    rows, panels, verdicts = [], [], []
    for number, (kernel, r, filter) in enumerate(protocol["cases"]):
        target = PROBLEMS[kernel]().target(r)
        curves, marks, at_limit = [], [], []
        for n in protocol["sizes"]:
            limit = theory.partition_limit(n, r, target.known.beta, filter=filter)
            ms, squares = errors_over_m(protocol, target, filter, number, n, int(limit))
            one, last = squares[:, 0], squares[:, -1]
            at_limit.append(np.stack([squares[:, ms.index(int(limit))], one]))
            beside = (str(ratio(*at_limit[-1])), str(ratio(last, one)), ms[-1])
            rows.append((kernel, filter, r, n, limit, root(one), *beside))
            curves.append(measured(f"N = {n:,}", ms, squares))
            marks.append((f"(9), N = {n:,}", float(limit)))
            advance()
        title = f"{kernel}, {filter}, r = {r:g}"
        here, one = np.stack(at_limit, axis=2)
        falling = exponent(protocol["sizes"], here, over=one)
        verdicts.append(no_slower(f"{title}, error at (9) over one machine's", falling, 0.0, protocol["resolution"]))
        panels.append(Panel(title, "m, machines", "‖f̄ - f‖ in L²", tuple(curves), tuple(marks)))
    table = Table("Error against m; ratios to one machine, with 95 % intervals", HEADS, tuple(rows))
    verdict = together(
        "Corollary 1: with m up to (9) the error keeps the order of one machine's: their ratio does not grow with N",
        verdicts,
    )
    return Outcome((table,), tuple(panels), (verdict,), NOTES)


NOTES = (
    "λ is the best of the population for the N of the whole sample, in every block. (9) has no constant: read it as an "
    "order of growth, sufficient and not necessary.",
)


def errors_over_m(
    protocol: Protocol, target: Target, filter: str, number: int, n: int, limit: int
) -> tuple[list[int], np.ndarray]:
    """The m that are tried, and squared errors (repetitions, m)."""
    p = protocol
    ms = sorted({1, limit, *(2**k for k in range(1, int(math.log2(n // p["fewest"])) + 1))})
    lam = target.best_lam(filter, n, p["noise"])
    local = SpectralRegressor(target.known.kernel, filter)
    found = np.empty((p["repetitions"], len(ms)))
    for i in range(p["repetitions"]):
        X, Y = target.draw(np.random.default_rng([p["seed"], number, n, i]), n, p["noise"], p["draws"])
        for j, m in enumerate(ms):
            model = AveragedRegressor(local, m, lam, random_state=i, verbose=0)
            found[i, j] = target.error_of(averaged(model, X, Y))
    return ms, found


SHARED = {"noise": 0.3, "seed": 17003, "fewest": 8, "draws": 4, "resolution": 0.15}

EXPERIMENT = Experiment(
    name="001-blocks",
    title="Error against the number of machines, with the limit (9)",
    question="Up to which number of machines does the average keep the order of one machine? Corollary 1.",
    quick={
        **SHARED,
        "cases": [["Sobolev 1", 1.0, "tikhonov"], ["Brownian", 1.5, "landweber"]],
        "sizes": [256, 1024],
        "repetitions": 5,
    },
    full={
        **SHARED,
        "cases": [
            ["Brownian", 0.75, "tikhonov"],
            ["Sobolev 1", 1.0, "tikhonov"],
            ["Brownian", 1.5, "landweber"],
            ["Sobolev 1", 2.0, "landweber"],
        ],
        "sizes": [256, 1024, 4096],
        "repetitions": 8,
    },
    steps=lambda protocol: len(protocol["cases"]) * len(protocol["sizes"]),
    run=run,
)
