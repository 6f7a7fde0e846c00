"""The floor that a small public sample sets LESS, and what removes it (Qin and Guo 2019, and beyond)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...bases import EmpiricalFeatures
from ...estimators import LESSRegressor, SpectralRegressor
from ..curves import level, measured, on_purpose, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, below, ratio, together
from ..outcome import Outcome, Panel, Table, Verdict
from ..problems import PROBLEMS

SECOND = "second order"


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """Many labels and few public rows: one round, several rounds, second order."""
    p = protocol
    target, m = PROBLEMS[p["kernel"]]().target(p["r"]), p["labels"]
    lam = target.best_lam("tikhonov", m, p["noise"])
    squares = {name: np.empty((p["repetitions"], len(p["public"]))) for name in _ways(p)}
    pooled, told = np.empty(p["repetitions"]), np.empty((p["repetitions"], len(p["public"])))
    for i in range(p["repetitions"]):
        rng = np.random.default_rng([p["seed"], i])
        X, Y = target.draw(rng, m, p["noise"], p["draws"])
        U = rng.random((max(p["public"]), 1))
        pooled[i] = target.error_of(SpectralRegressor(target.known.kernel, lam=lam).fit(X, Y))
        for j, n in enumerate(p["public"]):
            basis = EmpiricalFeatures(target.known.kernel).fit(U[:n])
            for name, way in _ways(p).items():
                with on_purpose():
                    model: Any = LESSRegressor(basis, lam=lam, **way).fit(X, Y)
                squares[name][i, j] = target.error_of(model)
                if way.get("rounds") == 1:
                    told[i, j] = model.floor_.error
        advance()
    rows = [
        (n, *(root(found[:, j]) for found in squares.values()), float(told[:, j].mean()))
        for j, n in enumerate(p["public"])
    ]
    title = f"m = {m} labels, noise {p['noise']:g}; pooled ridge regression has {root(pooled):.3g}"
    table = Table(title, ("n, public rows", *squares, "floor as floor_ tells it"), tuple(rows))
    curves = [measured(name, p["public"], found) for name, found in squares.items()]
    curves.append(level("pooled ridge", p["public"], root(pooled)))
    panel = Panel(f"m = {m:,} labels", "n, public rows", "‖f̂ - f‖ in L²", tuple(curves))
    note = ("λ is the best of the population for m labels; rounds keep a -λf term and take conjugate steps.",)
    return Outcome((table,), (panel,), _verdicts(p, squares, pooled), note)


def _ways(p: Protocol) -> dict[str, dict[str, Any]]:
    """What LESSRegressor is told, by the name of its column."""
    ways: dict[str, dict[str, Any]] = {
        f"LESS, {count} round{'s' if count > 1 else ''}": {"rounds": count, "ridge": True, "steps": "conjugate"}
        for count in p["rounds"]
    }
    return ways | {SECOND: {"order": 2}}


def _verdicts(p: Protocol, squares: dict[str, np.ndarray], pooled: np.ndarray) -> tuple[Verdict, ...]:
    public, slack = p["public"], p["slack"]
    one, *_, most, second = squares.values()

    def gone(found: np.ndarray) -> list[Verdict]:
        ratios = (ratio(found[:, j], pooled) for j in range(len(public)))
        return [below(f"n = {n}", own, slack, "error over that of pooled ridge") for n, own in zip(public, ratios)]

    return (
        above(
            f"With n = {public[0]} public rows one round has more than twice the error of pooled ridge regression",
            ratio(one[:, 0], pooled),
            2.0,
            "ratio",
        ),
        below(
            f"The floor falls with n: from n = {public[0]} to {public[-1]}", ratio(one[:, -1], one[:, 0]), 1.0, "ratio"
        ),
        together(f"{p['rounds'][-1]} rounds of residuals remove it (within {slack - 1:.0%} of pooled)", gone(most)),
        together("So do summaries of second order, in one round", gone(second)),
    )


SHARED = {"kernel": "Brownian", "r": 1.0, "noise": 0.1, "seed": 19004, "slack": 1.1, "draws": 2}

EXPERIMENT = Experiment(
    name="000-floor",
    title="The floor at few public rows, and what removes it",
    question="What does a small public sample cost LESS, and do residual rounds and second order mend it?",
    quick={**SHARED, "labels": 1024, "public": [16, 64, 256], "rounds": [1, 3, 10], "repetitions": 6},
    full={
        **SHARED,
        "labels": 4096,
        "public": [16, 32, 64, 128, 256, 512, 1024],
        "rounds": [1, 2, 3, 5, 10],
        "repetitions": 8,
    },
    steps=lambda protocol: int(protocol["repetitions"]),
    run=run,
)
