"""The public rows that LESS needs beside the inflation method, with one label a source (Qin and Guo 2019, §3.2)."""

from __future__ import annotations

import numpy as np

from ...bases import EmpiricalFeatures
from ...estimators import AveragedRegressor, SpectralRegressor
from ...summaries import Summary
from ..curves import averaged, less, level, measured, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import Estimate, above, below, together, typical_ratio
from ..outcome import Outcome, Panel, Table
from ..problems import PROBLEMS, Target
from .less_ridge import public_rows

LESS, INFLATED = "LESS", "inflation"
WAVES, SMOOTH = "A target of four waves", "A smooth target, at the boundary of its class"


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """m sources of one label each; n public rows for LESS, or dealt to the sources as unlabeled ones."""
    p = protocol
    known, m = PROBLEMS[p["kernel"]](), p["labels"]
    sizes = [factor * m for factor in p["factors"]]
    targets = {WAVES: known.waves(p["r"], *p["waves"]), SMOOTH: known.target(p["r"])}
    tables, panels = [], []
    needed: dict[str, list[int | None]] = {}
    ratios: dict[str, list[Estimate]] = {}
    for number, (called, target) in enumerate(targets.items()):
        squares, ridge = errors(p, target, number, sizes, advance)
        goal = (1 + p["tolerance"]) ** 2 * squares[LESS][:, -1].mean()
        needed[called] = [_first(sizes, found.mean(axis=0) <= goal) for found in squares.values()]
        ratios[called] = [typical_ratio(squares[INFLATED][:, j], squares[LESS][:, j]) for j in range(len(sizes))]
        rows = [
            (n, n // m, *(root(found[:, j]) for found in squares.values()), str(ratios[called][j]))
            for j, n in enumerate(sizes)
        ]
        title = f"{called}; m = {m} sources of one label each; pooled ridge regression has {root(ridge):.3g}"
        tables.append(
            Table(title, ("n, public rows", "a source", LESS, INFLATED, "inflation / LESS, typically"), tuple(rows))
        )
        curves = [measured(name, sizes, found) for name, found in squares.items()]
        curves.append(level("pooled ridge", sizes, root(ridge)))
        panels.append(Panel(called, "n, public rows", "‖f̂ - f‖ in L²", tuple(curves)))
    first, last = public_rows(m, p["r"], known.beta), m ** (2 + 2 / (2 * p["r"] + known.beta))
    words = "; ".join(f"{called}: {LESS} {_told(own)}, inflation {_told(o)}" for called, (own, o) in needed.items())
    ahead = [
        above(f"n = {n}", found, 1.0, "inflation / LESS")
        for n, found in zip(sizes, ratios[WAVES])
        if n <= p["ahead_to"] * m
    ]
    alike = [
        below(f"n = {n}", found, 1 + p["tolerance"], "inflation / LESS")
        for n, found in zip(sizes, ratios[SMOOTH])
        if n <= p["ahead_to"] * m
    ]
    verdicts = (
        together(f"§3.2: {WAVES}: up to n = {p['ahead_to']}m public rows LESS does better than inflated labels", ahead),
        together(
            f"It does not always: {SMOOTH}: with as few inflated labels do as well (within {p['tolerance']:.0%})", alike
        ),
    )
    enough = (
        f"To come within {p['tolerance']:.0%} of LESS with {sizes[-1]:,} public rows it takes: {words}. (14) asks for "
        f"{first:,}, and (13) for {last:,.0f}: sufficient for the proofs, and for inflated labels far more than enough."
    )
    return Outcome(tuple(tables), tuple(panels), verdicts, (enough, *NOTES))


NOTES = (
    "λ is the best of ridge regression in the population for m labels. With endless public rows the two methods are "
    "one, the population's covariance with the labels' sums; pooled ridge regression knows the rows of its labels and "
    "is better than that.",
    "Blocks of a few rows regularise by themselves. Where the target is smooth that does no harm, and inflated labels "
    "need no more public rows than LESS; where it has waves, they need as many rows a source as the effective "
    "dimension, or a few times that. LESS with n = m is at the mercy of one sample of public rows: a rare bad one "
    "rules its mean squared error, and therefore the ratios are of geometric means.",
)


def errors(
    p: Protocol, target: Target, number: int, sizes: list[int], advance: Advance
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Squared errors (repetitions, sizes) of both methods, and of pooled ridge regression."""
    m, kernel = p["labels"], target.known.kernel
    lam = target.best_lam("tikhonov", m, p["noise"])
    squares = {name: np.empty((p["repetitions"], len(sizes))) for name in (LESS, INFLATED)}
    ridge = np.empty(p["repetitions"])
    for i in range(p["repetitions"]):
        rng = np.random.default_rng([p["seed"], number, i])
        X, Y = target.draw(rng, m, p["noise"], p["draws"])
        U = rng.random((max(sizes), 1))
        ridge[i] = target.error_of(SpectralRegressor(kernel, lam=lam).fit(X, Y))
        for j, n in enumerate(sizes):
            basis = EmpiricalFeatures(kernel, p["features"]).fit(U[:n])
            squares[LESS][i, j] = target.error_of(less(Summary.of(basis, X, Y), lam))
            model = AveragedRegressor(SpectralRegressor(kernel), m, lam, random_state=i, verbose=0)
            squares[INFLATED][i, j] = target.error_of(averaged(model, X, Y, unlabeled=U[:n]))
        advance()
    return squares, ridge


def _first(sizes: list[int], enough: np.ndarray) -> int | None:
    return next((n for n, so in zip(sizes, enough) if so), None)


def _told(rows: int | None) -> str:
    return "more" if rows is None else f"{rows:,}"


SHARED = {
    "kernel": "Brownian",
    "r": 1.0,
    "noise": 0.5,
    "seed": 19003,
    "tolerance": 0.1,
    "features": 400,
    "ahead_to": 2,
    "waves": [1, 4],
    "draws": 4,
}

EXPERIMENT = Experiment(
    name="000-unlabeled",
    title="The appetite for public rows: LESS beside inflated labels",
    question="With one label a source, how many public rows do LESS and the inflation method need? (12) to (14).",
    quick={**SHARED, "labels": 48, "factors": [1, 2, 16], "repetitions": 12},
    full={**SHARED, "labels": 64, "factors": [1, 2, 4, 8, 16, 32], "repetitions": 24},
    steps=lambda protocol: 2 * int(protocol["repetitions"]),
    run=run,
)
