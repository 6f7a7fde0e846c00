"""The larger number of machines that rows without labels buy, and their cost (Wang 2018, (3.25))."""

from __future__ import annotations

import math

import numpy as np

from ...estimators import SpectralRegressor
from ..curves import measured
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, exponent, is_so, no_slower, ratio, together
from ..outcome import Outcome, Panel, Table, Verdict
from ..problems import PROBLEMS
from .distributed_rates import as_printed, error, term_of_proof, without_logs

HEADS = ("N*/N", "m", "error / one machine's", "same m, labels only", "(3.25), sign mended", "(3.25) as printed")
Errors = dict[tuple[int, int], np.ndarray]  # of N*/N and m


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """Errors over m for several N*, beside one machine with the labels only."""
    p = protocol
    target, n = PROBLEMS[p["kernel"]]().target(p["r"]), p["size"]
    lam = target.best_lam("tikhonov", n, p["noise"])
    tried = tried_machines(p)
    one = np.empty(p["repetitions"])
    found: Errors = {(q, m): np.empty(p["repetitions"]) for q in p["times"] for m in tried[q]}
    for i in range(p["repetitions"]):
        rng = np.random.default_rng([p["seed"], i])
        X, Y = target.draw(rng, n, p["noise"], p["draws"])
        more = rng.random(((max(p["times"]) - 1) * n, 1))
        one[i] = target.error_of(SpectralRegressor(target.known.kernel, lam=lam).fit(X, Y))
        for q, m in found:
            found[q, m][i] = error(target, m, lam, X, Y, more[: (q - 1) * n], i)
        advance()
    r, s = target.r, target.known.beta
    rows = []
    for q in p["times"]:
        m = grown(p, q)
        beside = (str(ratio(found[q, m], one)), str(ratio(found[1, m], one)))
        rows.append((q, m, *beside, without_logs(n, r, s, q * n), min(*as_printed(n, r, s, q * n), n)))
    title = f"{p['kernel']}, r = {r:g}, N = {n} labels; (3.25) without logarithms; m grows as it does, like √N*"
    curves = tuple(
        measured(
            f"N* = {q if q > 1 else ''}N", tried[q], np.stack([found[q, m] / one.mean() for m in tried[q]], axis=1)
        )
        for q in p["times"]
    )
    panel = Panel(f"N = {n} labels, r = {r:g}", "m, machines", "error / error of one machine", curves)
    verdicts = _verdicts(p, found, one, {q: tried[q][0] for q in p["times"] if q > 1})
    return Outcome((Table(title, HEADS, tuple(rows)),), (panel,), (*verdicts, _sign(n)), NOTES)


NOTES = (
    "λ is the best of the population for N labels, everywhere.",
    "Inflated labels add the variance of f itself to that of the noise. With noise of the size of the target, as here, "
    "that costs a few machines a quarter of their error or so, with less noise more; only many small blocks gain more "
    "than that. Corollary 3.2 keeps the rate, with another constant.",
)


def grown(protocol: Protocol, times: int) -> int:
    """m₁√(N*/N)."""
    return round(protocol["machines"] * math.sqrt(times))


def tried_machines(protocol: Protocol) -> dict[int, list[int]]:
    """The m that are tried, for every N*/N; labels alone are tried with all that N* buys."""
    p = protocol
    tried = {q: {grown(p, q), *(m for m in p["tried"] if q * p["size"] / m <= p["most_rows"])} for q in p["times"]}
    tried[1] |= {grown(p, q) for q in p["times"]}
    return {q: sorted(ms) for q, ms in tried.items()}


def _verdicts(p: Protocol, found: Errors, one: np.ndarray, few: dict[int, int]) -> tuple[Verdict, ...]:
    times = [
        q for q in p["times"] if q > 1
    ]  # inflated labels all of them: their cost is there at every N*, and no growth
    grown_errors = np.stack([found[q, grown(p, q)] for q in times], axis=1)
    kept = exponent([q * p["size"] for q in times], grown_errors, paired=True)
    lost = [
        above(f"m = {m}", ratio(found[1, m], found[q, m]), 1.0, "error without over error with them")
        for q, m in ((q, grown(p, q)) for q in times)
    ]
    costly = [above(f"N* = {q}N, m = {m}", ratio(found[q, m], one), 1.0, "ratio") for q, m in few.items()]
    return (
        no_slower("(3.25): m may grow like √N*, and the error keeps its order, N*^0", kept, 0.0, p["resolution"]),
        together("With so many machines labels alone do worse", lost),
        together("With few machines rows without labels cost rather than help", costly),
    )


def _sign(n: int) -> Verdict:
    r, s, total = 0.6, 0.25, 16 * n
    term = term_of_proof(as_printed(n, r, s, total)[1], n, r, s, total)
    return is_so(
        "(3.25) as printed, with -(2r+s-2)/(6r+3s), keeps the term of its proof below N^{-r/(2r+s)}",
        term <= 1 + 1e-9,
        f"at r = {r:g}, s = {s:g}, N = {n}, N* = 16N the term is {term:.1f} times that; with + it is 1 always",
        known_wrong=True,
    )


SHARED = {"kernel": "Sobolev 1", "r": 1.0, "noise": 1.0, "seed": 18004, "draws": 4}

EXPERIMENT = Experiment(
    name="002-unlabeled",
    title="The larger number of machines that rows without labels buy",
    question="How many machines does (3.25) allow with rows without labels, and what do they cost?",
    quick={
        **SHARED,
        "size": 256,
        "machines": 16,
        "times": [1, 4, 8, 16],
        "tried": [4, 16, 64],
        "most_rows": 256,
        "repetitions": 16,
        "resolution": 0.08,
    },
    full={
        **SHARED,
        "size": 512,
        "machines": 32,
        "times": [1, 2, 4, 8, 16],
        "tried": [2, 4, 8, 16, 32, 64, 128, 256],
        "most_rows": 1024,
        "repetitions": 14,
        "resolution": 0.05,
    },
    steps=lambda protocol: int(protocol["repetitions"]),
    run=run,
)
