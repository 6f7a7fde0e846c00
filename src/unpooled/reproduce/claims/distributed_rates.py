"""The rates of distributed kernel ridge regression and of its semi-supervised form (Wang 2018, chapter 3).

The number of machines is the one that (3.2) and (3.25) allow, without their logarithms. The averages of the
semi-supervised form have rows without labels.
"""

from __future__ import annotations

import math

import numpy as np

from ... import theory
from ...estimators import AveragedRegressor, SpectralRegressor
from ..curves import averaged, measured, power_law
from ..experiment import Advance, Experiment, Protocol
from ..inference import exponent, is_so, no_slower, together
from ..outcome import Outcome, Panel, Table, Verdict
from ..problems import PROBLEMS, Target


def error(target: Target, m: int, lam: float, X: np.ndarray, Y: np.ndarray, unlabeled: np.ndarray, seed: int) -> float:
    """The squared error of the average over m machines, rows without labels dealt to them (3.22)."""
    model = AveragedRegressor(SpectralRegressor(target.known.kernel), m, lam, random_state=seed, verbose=0)
    return target.error_of(averaged(model, X, Y, unlabeled=unlabeled if len(unlabeled) else None))


def without_logs(n: int, r: float, s: float, total: int | None = None) -> float:
    """(3.2), or (3.25) with its sign mended, without the factor 1/(log³N + 1)."""
    method = "krr" if total is None else "semi-supervised"
    return theory.partition_limit(n, r, s, method, total) * (math.log(n) ** 3 + 1)


def as_printed(n: int, r: float, s: float, total: int) -> tuple[float, float]:
    """The two bounds of (3.25), the sign of the second exponent as printed, without logarithms."""
    first = total**0.5 * n ** (-(s + 1) / (4 * r + 2 * s))
    return float(first), float(total ** (1 / 3) * n ** (-(2 * r + s - 2) / (6 * r + 3 * s)))


def term_of_proof(m: float, n: int, r: float, s: float, total: int) -> float:
    """m^{3/2} N^{-(2r+s-1/2)/(2r+s)} N*^{-1/2} N^{(s+1)/(4r+2s)} over N^{-r/(2r+s)}.

    The proof of Corollary 3.2 needs it to be at most one, and the second bound of (3.25) is there for that.
    """
    power = (-(2 * r + s - 0.5) + (s + 1) / 2 + r) / (2 * r + s)
    return float(m**1.5 * total**-0.5 * n**power)


HEADS = ("kernel", "r", "N*", "machines", "exponent [95 %]", "theory", "verdict")
LABELS, BOTH = "labels", "both"


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """m from (3.2), and from (3.25) with rows without labels, logarithms left out; λ by the schedule."""
    sizes = protocol["sizes"]
    totals = {LABELS: "N", BOTH: f"{protocol['times']}N"}
    rows, curves = [], []
    verdicts: dict[str, list[Verdict]] = {LABELS: [], BOTH: []}
    for number, (kernel, r) in enumerate(protocol["cases"]):
        target = PROBLEMS[kernel]().target(r)
        order = -math.log10(theory.rate(10, r, target.known.beta, filter="tikhonov"))
        machines = machines_of(protocol, target)
        for name, squares in errors(protocol, target, number, machines, advance).items():
            slope = exponent(sizes, squares)
            verdict = no_slower(f"{kernel}, r = {r:g}", slope, order, protocol["resolution"])
            verdicts[name].append(verdict)
            ms = f"{machines[name][0]} to {machines[name][-1]}"
            rows.append((kernel, r, totals[name], ms, str(slope), order, verdict.status))
            curves.append(measured(f"{kernel}, r = {r:g}, N* = {totals[name]}", sizes, squares))
        curves.append(power_law(sizes, curves[-2].y[0], order))
    judged = (
        together(
            "Corollary 3.1: averages over (3.2) machines, logarithms left out, keep N^{-r/(2r+s)}", verdicts[LABELS]
        ),
        together("Corollary 3.2: so do semi-supervised ones over (3.25) machines", verdicts[BOTH]),
        _logarithms(sizes[-1]),
    )
    table = Table("Exponents a of error ∝ N^-a", HEADS, tuple(rows))
    panel = Panel("λ by the schedule", "N, labels", "‖f̄ - f‖ in L²", tuple(curves))
    return Outcome((table,), (panel,), judged, ("N* counts all rows, with labels and without.",))


def machines_of(protocol: Protocol, target: Target) -> dict[str, list[int]]:
    """m at every size, for labels alone and with more rows."""
    r, s, times = target.r, target.known.beta, protocol["times"]
    return {
        LABELS: [max(1, int(without_logs(n, r, s))) for n in protocol["sizes"]],
        BOTH: [max(1, int(without_logs(n, r, s, times * n))) for n in protocol["sizes"]],
    }


def errors(
    protocol: Protocol, target: Target, number: int, machines: dict[str, list[int]], advance: Advance
) -> dict[str, np.ndarray]:
    """Squared errors (repetitions, sizes)."""
    p, sizes, r, s = protocol, protocol["sizes"], target.r, target.known.beta
    first = target.best_lam("tikhonov", sizes[0], p["noise"])
    squares = {name: np.empty((p["repetitions"], len(sizes))) for name in machines}
    for j, n in enumerate(sizes):
        lam = first * theory.lam(n, r, s) / theory.lam(sizes[0], r, s)
        for i in range(p["repetitions"]):
            rng = np.random.default_rng([p["seed"], number, n, i])
            X, Y = target.draw(rng, n, p["noise"], p["draws"])
            more = rng.random(((p["times"] - 1) * n, 1))
            squares[LABELS][i, j] = error(target, machines[LABELS][j], lam, X, Y, more[:0], i)
            squares[BOTH][i, j] = error(target, machines[BOTH][j], lam, X, Y, more, i)
        advance()
    return squares


def _logarithms(n: int) -> Verdict:
    allowed = theory.partition_limit(n, 1.0, 0.5, "krr")
    first = next(k for k in range(1, 60) if theory.partition_limit(10.0**k, 1.0, 0.5, "krr") >= 1)
    return is_so(
        "(3.2) as it stands, with log³N + 1, allows two machines or more at an N that somebody has",
        allowed >= 2,
        f"at N = {n:,}, r = 1, s = 1/2 it allows {allowed:.2g} machines, and one from N = 10^{first} on: the logarithm "
        "is there for the proof",
        known_wrong=True,
    )


SHARED = {"noise": 0.6, "seed": 18003, "times": 4, "draws": 6}

EXPERIMENT = Experiment(
    name="002-distributed",
    title="Distributed kernel ridge regression and its semi-supervised form: rates",
    question="Do averages keep N^{-r/(2r+s)} with the machines of (3.2), and with those of (3.25)?",
    quick={
        **SHARED,
        "cases": [["Sobolev 1", 1.0]],
        "sizes": [64, 128, 256, 512],
        "repetitions": 12,
        "resolution": 0.08,
    },
    full={
        **SHARED,
        "cases": [["Sobolev 1", 1.0], ["Sobolev 1", 0.75], ["Sobolev 2", 0.75]],
        "sizes": [64, 128, 256, 512, 1024, 2048],
        "repetitions": 20,
        "resolution": 0.05,
    },
    steps=lambda protocol: len(protocol["cases"]) * len(protocol["sizes"]),
    run=run,
)
