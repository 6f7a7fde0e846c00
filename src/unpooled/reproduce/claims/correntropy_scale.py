"""The error against the scale σ of the correntropy loss, and the use of the σ of Corollary 1.

The claim is that of Xie, Hu, Wang and Wang (2022). The number of steps and the wrong labels are shared with the
experiment on averages (:mod:`.correntropy_distributed`).
"""

from __future__ import annotations

import math

import numpy as np

from ... import theory
from ...estimators import CorrentropyRegressor
from ..curves import measured, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, exponent, no_slower, ratio
from ..outcome import Curve, Outcome, Panel, Table, Verdict
from ..problems import PROBLEMS, Target, grid


def steps(target: Target, first: int, n: int, noise: float) -> int:
    """T: what κ²/λ of the population stands for at the first N, then growing like N^{1/(2r+s)}."""
    start = target.known.kappa_sq / target.best_lam("landweber", first, noise)
    growth = theory.lam(first, target.r, target.known.beta) / theory.lam(n, target.r, target.known.beta)
    return max(1, round(start * growth))


def spoiled(rng: np.random.Generator, Y: np.ndarray, share: float) -> np.ndarray:
    """A share of the labels moved up by 5 to 15."""
    off = rng.uniform(5, 15, Y.shape)
    return np.where(rng.random(Y.shape) < share, Y + off, Y)


class Found:
    """Squares (repetitions, scales): distances from least squares at every N, errors at the largest."""

    def __init__(self, protocol: Protocol) -> None:
        shape = (protocol["repetitions"], len(protocol["scales"]))
        self.gaps = {n: np.empty(shape) for n in protocol["sizes"]}
        self.clean, self.dirty = np.empty(shape), np.empty(shape)
        self.dirty_at_theirs = np.empty(protocol["repetitions"])


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """One T, every σ: how far from least squares, and how far from the target, with and without outliers."""
    p = protocol
    target = PROBLEMS[p["kernel"]]().target(p["r"])
    largest, found = p["sizes"][-1], Found(protocol)
    theirs = theory.scale(largest, p["r"], target.known.beta)
    for n in p["sizes"]:
        T = steps(target, p["sizes"][0], n, p["noise"])
        for i in range(p["repetitions"]):
            rng = np.random.default_rng([p["seed"], n, i])
            X, Y = target.draw(rng, n, p["noise"], p["draws"])
            plain = predicted(target, X, Y, math.inf, T)
            own = [predicted(target, X, Y, scale, T) for scale in p["scales"]]
            found.gaps[n][i] = [np.mean((values - plain) ** 2) for values in own]
            if n == largest:
                bad = spoiled(rng, Y, p["share"])
                found.clean[i] = [target.squared_error(values) for values in own]
                found.dirty[i] = [target.squared_error(predicted(target, X, bad, s, T)) for s in p["scales"]]
                found.dirty_at_theirs[i] = target.squared_error(predicted(target, X, bad, theirs, T))
            advance()
    return _told(protocol, target, found, theirs)


def predicted(target: Target, X: np.ndarray, Y: np.ndarray, scale: float, T: int) -> np.ndarray:
    """f on the grid after T steps, every one of them taken."""
    model = CorrentropyRegressor(target.known.kernel, scale, T, jump=0.0)
    return np.asarray(model.fit(X, Y).predict(grid()[:, None]))


def _told(protocol: Protocol, target: Target, found: Found, theirs: float) -> Outcome:
    scales, sizes, n, share = protocol["scales"], protocol["sizes"], protocol["sizes"][-1], protocol["share"]
    rows = [
        (scale, *(root(found.gaps[size][:, k]) for size in sizes), root(found.clean[:, k]), root(found.dirty[:, k]))
        for k, scale in enumerate(scales)
    ]
    distances = (f"‖f_σ - f_∞‖, N = {size}" for size in sizes)
    table = Table(
        f"{target.known.name}, r = {target.r:g}, T by the schedule; no outliers but in the last column",
        ("σ", *distances, f"error, N = {n}", f"{share:.0%} outliers"),
        tuple(rows),
    )
    distance = measured("‖f_σ - f_∞‖", scales, found.gaps[n])
    line = tuple(float(distance.y[-1] * (scale / scales[-1]) ** -2) for scale in scales)
    mark = ((f"σ of Corollary 1, {theirs:.0f}", theirs),)
    errors = (measured("bounded noise", scales, found.clean), measured(f"{share:.0%} outliers", scales, found.dirty))
    panels = (
        Panel(f"N = {n}", "σ", "‖f̂ - f‖ in L²", errors, mark),
        Panel(
            f"N = {n}, bounded noise",
            "σ",
            "‖f_σ - f_∞‖ in L²",
            (distance, Curve("σ^-2", distance.x, line, style="theory")),
            mark,
        ),
    )
    verdicts, in_n = _verdicts(protocol, target, found, theirs)
    notes = (
        f"Theorem 1 prints N^{{5/(2r+s)}}σ^-2 for this distance, Proposition 1 and Corollary 1 have N^{{5/(2(2r+s))}}; "
        f"what is measured at the largest σ is N^{-in_n:.2f}. Both are upper bounds, and far above.",
        "A σ that the theorem allows clips nothing: there correntropy is least squares, with its outliers.",
    )
    return Outcome((table,), panels, verdicts, notes)


def _verdicts(protocol: Protocol, target: Target, found: Found, theirs: float) -> tuple[tuple[Verdict, ...], float]:
    scales, sizes = protocol["scales"], protocol["sizes"]
    large = [k for k, scale in enumerate(scales) if scale >= protocol["large_from"]]
    in_scale = exponent([scales[k] for k in large], found.gaps[sizes[-1]][:, large], paired=True)
    in_n = exponent(sizes, np.stack([found.gaps[n][:, -1] for n in sizes], axis=1))
    growth = 5 / (2 * (2 * target.r + target.known.beta))
    best = int(np.argmin(found.dirty.mean(axis=0)))
    verdicts = (
        no_slower(
            "Proposition 1: the distance from least squares falls at least like σ^-2",
            in_scale,
            2.0,
            protocol["resolution"],
        ),
        no_slower(
            f"Corollary 1: at one σ that distance, N^-a, grows no faster than N^{growth:.2f}: a ≥ -{growth:.2f}",
            in_n,
            -growth,
            1.0,
        ),
        above(
            f"A moderate σ = {scales[best]:g} does better under outliers than the σ = {theirs:.0f} for which "
            "Corollary 1 has the rate",
            ratio(found.dirty_at_theirs, found.dirty[:, best]),
            1.0,
            "ratio of errors",
        ),
    )
    return verdicts, in_n.value


SHARED = {
    "kernel": "Sobolev 1",
    "r": 1.0,
    "noise": 0.3,
    "seed": 22002,
    "share": 0.2,
    "large_from": 4.0,
    "resolution": 0.1,
}

EXPERIMENT = Experiment(
    name="003-scale",
    title="The error against σ",
    question="What does the scale of the loss cost, and what does it buy? Proposition 1 and Corollary 1.",
    quick={
        **SHARED,
        "sizes": [64, 256],
        "scales": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        "repetitions": 5,
        "draws": 4,
    },
    full={
        **SHARED,
        "sizes": [64, 256, 1024],
        "scales": [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0],
        "repetitions": 12,
        "draws": 4,
    },
    steps=lambda protocol: len(protocol["sizes"]) * protocol["repetitions"],
    run=run,
)
