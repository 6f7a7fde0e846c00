"""The rate N^{-r/(2r+β)} on one machine and on as many as (9) allows (Guo, Lin and Zhou 2017).

One machine is Theorem 2, many machines are Corollary 1.
"""

from __future__ import annotations

import math

import numpy as np

from ... import theory
from ...estimators import AveragedRegressor, SpectralRegressor
from ..curves import averaged, measured, power_law
from ..experiment import Advance, Experiment, Protocol
from ..inference import Estimate, exponent, no_slower, together
from ..outcome import Cell, Outcome, Panel, Table, Verdict
from ..problems import PROBLEMS

HEADS = ("kernel", "β", "filter", "r", "machines", "exponent [95 %]", "theory", "verdict")
ONE, MANY = "one machine", "m at the limit (9)"


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """Errors at every size, λ by the theory's schedule, for every case; fits of their slopes."""
    rows, panels = [], []
    verdicts: dict[str, list[Verdict]] = {ONE: [], MANY: []}
    for number, (kernel, r, filter) in enumerate(protocol["cases"]):
        case = Case(protocol, number, kernel, r, filter)
        curves = []
        for machines, squares in case.squares(advance).items():
            slope = exponent(protocol["sizes"], squares)
            verdict = no_slower(f"{kernel}, r = {r:g}, {filter}", slope, case.theory, protocol["resolution"])
            verdicts[machines].append(verdict)
            rows.append(case.row(machines, slope, verdict))
            curves.append(measured(machines, protocol["sizes"], squares))
        curves.append(power_law(protocol["sizes"], curves[0].y[0], case.theory))
        panels.append(Panel(f"{kernel}, {filter}, r = {r:g}", "N, labels in all", "‖f̂ - f‖ in L²", tuple(curves)))
    judged = (
        together("Theorem 2, (12): on one machine errors fall at least as fast as N^{-r/(2r+β)}", verdicts[ONE]),
        together("Corollary 1, (10): so do averages over as many machines as (9) allows", verdicts[MANY]),
    )
    return Outcome((Table("Exponents a of error ∝ N^-a", HEADS, tuple(rows)),), tuple(panels), judged, NOTES)


NOTES = (
    "λ is the best of the population at the smallest N, and falls from there as N^{-1/(2r+β)}: the theory's schedule, "
    "with its free constant fixed once. All machines have the λ of the whole sample.",
    "Targets are at the boundary of their class, so that the exponent cannot be much better than the theory's in the "
    "long run; at these N averages over the most machines (9) allows pay a factor at first, which then falls.",
)


class Case:
    """One kernel, regularity and filter."""

    def __init__(self, protocol: Protocol, number: int, kernel: str, r: float, filter: str) -> None:
        self.protocol, self.number, self.filter = protocol, number, filter
        self.known = PROBLEMS[kernel]()
        self.target = self.known.target(r)
        self.theory = -math.log10(theory.rate(10, r, self.known.beta, filter=filter))
        self.first = self.target.best_lam(filter, protocol["sizes"][0], protocol["noise"])

    def lam(self, n: int) -> float:
        """The theory's schedule from its first value on."""
        sizes = (n, self.protocol["sizes"][0])
        here, first = (theory.lam(size, self.target.r, self.known.beta, filter=self.filter) for size in sizes)
        return self.first * here / first

    def machines(self, n: int) -> int:
        """⌊(9)⌋."""
        return max(1, int(theory.partition_limit(n, self.target.r, self.known.beta, filter=self.filter)))

    def squares(self, advance: Advance) -> dict[str, np.ndarray]:
        """Squared errors (repetitions, sizes) on one machine, and on many where (9) allows more than one."""
        p = self.protocol
        names = (ONE, MANY) if self.machines(p["sizes"][-1]) > 1 else (ONE,)
        found = {name: np.empty((p["repetitions"], len(p["sizes"]))) for name in names}
        for j, n in enumerate(p["sizes"]):
            local = SpectralRegressor(self.known.kernel, self.filter, self.lam(n))
            for i in range(p["repetitions"]):
                rng = np.random.default_rng([p["seed"], self.number, n, i])
                X, Y = self.target.draw(rng, n, p["noise"], p["draws"])
                found[ONE][i, j] = self.target.error_of(local.fit(X, Y))
                if MANY in found:
                    model = AveragedRegressor(local, self.machines(n), self.lam(n), random_state=i, verbose=0)
                    found[MANY][i, j] = self.target.error_of(averaged(model, X, Y))
            advance()
        return found

    def row(self, machines: str, slope: Estimate, verdict: Verdict) -> tuple[Cell, ...]:
        """A line of the table."""
        sizes = self.protocol["sizes"]
        counts = "1" if machines == ONE else f"{self.machines(sizes[0])} to {self.machines(sizes[-1])}"
        where = (self.known.name, self.known.beta, self.filter, self.target.r, counts)
        return (*where, str(slope), self.theory, verdict.status)


SHARED = {"noise": 0.3, "seed": 17001, "draws": 8}

EXPERIMENT = Experiment(
    name="001-rates",
    title="Rates of spectral algorithms, on one machine and on many",
    question="Do errors fall as fast as N^{-r/(2r+β)}, on one machine and on as many as (9) allows?",
    quick={
        **SHARED,
        "cases": [
            ["Brownian", 0.5, "tikhonov"],
            ["Brownian", 1.0, "tikhonov"],
            ["Sobolev 2", 0.75, "tikhonov"],
            ["Sobolev 1", 2.0, "landweber"],
        ],
        "sizes": [64, 128, 256, 512],
        "repetitions": 12,
        "resolution": 0.08,
    },
    full={
        **SHARED,
        "cases": [
            ["Brownian", 0.5, "tikhonov"],
            ["Brownian", 0.75, "tikhonov"],
            ["Brownian", 1.0, "tikhonov"],
            ["Brownian", 2.0, "landweber"],
            ["Sobolev 1", 0.5, "tikhonov"],
            ["Sobolev 1", 1.0, "tikhonov"],
            ["Sobolev 1", 1.5, "landweber"],
            ["Sobolev 1", 2.0, "landweber"],
            ["Sobolev 2", 0.5, "tikhonov"],
            ["Sobolev 2", 1.0, "tikhonov"],
            ["Sobolev 2", 2.0, "landweber"],
        ],
        "sizes": [64, 128, 256, 512, 1024, 2048],
        "repetitions": 24,
        "resolution": 0.05,
    },
    steps=lambda protocol: len(protocol["cases"]) * len(protocol["sizes"]),
    run=run,
)
