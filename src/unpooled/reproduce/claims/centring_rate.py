"""The rate N^{-r/(2r+1)} of regression with a centred kernel (Wang 2018, Theorem 2.1)."""

from __future__ import annotations

import numpy as np

from ...estimators import SpectralRegressor
from ..curves import measured, power_law
from ..experiment import Advance, Experiment, Protocol
from ..inference import exponent, no_slower, together
from ..outcome import Outcome, Panel, Table
from ..problems import PROBLEMS, grid

HEADS = ("kernel", "r", "exponent [95 %]", "theory", "verdict")


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """λ = λ₁(N/N₁)^{-1/(2r+1)}, labels with a constant added, centred kernel."""
    rows, curves, verdicts = [], [], []
    sizes, shift, known = protocol["sizes"], protocol["shift"], PROBLEMS[protocol["kernel"]]()
    for r in protocol["regularities"]:
        target = known.target(r)
        first = target.best_lam("tikhonov", sizes[0], protocol["noise"])
        squares = np.empty((protocol["repetitions"], len(sizes)))
        for j, n in enumerate(sizes):
            lam = first * (n / sizes[0]) ** (-1 / (2 * r + 1))
            model = SpectralRegressor(known.kernel, lam=lam, center=True)
            for i in range(protocol["repetitions"]):
                rng = np.random.default_rng([protocol["seed"], n, i])
                X, Y = target.draw(rng, n, protocol["noise"], protocol["draws"])
                predicted = model.fit(X, Y + shift).predict(grid()[:, None])
                squares[i, j] = target.squared_error(predicted - shift)
            advance()
        theory, found = r / (2 * r + 1), exponent(sizes, squares)
        verdicts.append(no_slower(f"r = {r:g}", found, theory, protocol["resolution"]))
        rows.append((known.name, r, str(found), theory, verdicts[-1].status))
        curves.append(measured(f"r = {r:g}", sizes, squares))
        curves.append(power_law(sizes, curves[-1].y[0], theory))
    title = f"{known.name}, labels + {shift:g}"
    panel = Panel(title, "N, labels", "‖f̂ + b̂ - f‖ in L²", tuple(curves))
    verdict = together("Theorem 2.1: errors of CRK-KRR fall at least as fast as N^{-r/(2r+1)}", verdicts)
    return Outcome((Table("Exponents a of error ∝ N^-a", HEADS, tuple(rows)),), (panel,), (verdict,), NOTES)


NOTES = (
    "λ is the best of the population at the smallest N and falls as N^{-1/(2r+1)}, which ignores the capacity of the "
    "kernel: it is too large in the long run, and the rate is that of the bias.",
)

SHARED = {
    "kernel": "Sobolev 1",
    "regularities": [0.5, 0.75, 1.0],
    "seed": 18002,
    "noise": 0.3,
    "shift": 10.0,
    "draws": 8,
}

EXPERIMENT = Experiment(
    name="002-rate",
    title="The rate of regression with a centred kernel",
    question="Do errors fall as fast as N^{-r/(2r+1)}? Theorem 2.1.",
    quick={**SHARED, "sizes": [64, 128, 256, 512], "repetitions": 10, "resolution": 0.08},
    full={**SHARED, "sizes": [64, 128, 256, 512, 1024, 2048], "repetitions": 24, "resolution": 0.05},
    steps=lambda protocol: len(protocol["sizes"]) * len(protocol["regularities"]),
    run=run,
)
