"""The split of labels over sources, which has no effect on LESS (Qin and Guo 2019, (7))."""

from __future__ import annotations

import numpy as np

from ...bases import EmpiricalFeatures
from ...estimators import AveragedRegressor, SpectralRegressor
from ...summaries import Summary
from ..curves import averaged, less, measured, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, is_so, ratio
from ..outcome import Outcome, Panel, Table
from ..problems import PROBLEMS

LESS, AVERAGE = "LESS", "average of ridge fits"


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """The same rows over more and more sources: LESS from the sum of their summaries, and the average of local fits."""
    p = protocol
    target, m = PROBLEMS[p["kernel"]]().target(p["r"]), p["size"]
    lam = target.best_lam("tikhonov", m, p["noise"])
    moved = np.zeros(len(p["sources"]))
    errors = {name: np.empty((p["repetitions"], len(p["sources"]))) for name in (LESS, AVERAGE)}
    for i in range(p["repetitions"]):
        rng = np.random.default_rng([p["seed"], i])
        X, Y = target.draw(rng, m, p["noise"])
        basis = EmpiricalFeatures(target.known.kernel).fit(rng.random((p["public"], 1)))
        whole = less(Summary.of(basis, X, Y), lam)
        for j, count in enumerate(p["sources"]):
            first, *others = (Summary.of(basis, X[own], Y[own]) for own in np.array_split(rng.permutation(m), count))
            model = less(sum(others, first), lam)
            moved[j] = max(moved[j], float(np.max(np.abs(model.coef_ - whole.coef_))))
            errors[LESS][i, j] = target.error_of(model)
            local = SpectralRegressor(target.known.kernel)
            average = AveragedRegressor(local, count, lam, random_state=i, verbose=0)
            errors[AVERAGE][i, j] = target.error_of(averaged(average, X, Y))
        advance()
    rows = [
        (count, m / count, float(moved[j]), *(root(found[:, j]) for found in errors.values()))
        for j, count in enumerate(p["sources"])
    ]
    heads = ("sources", "labels each", "largest change of a coefficient", *errors)
    table = Table(f"m = {m} labels, n = {p['public']} public rows", heads, tuple(rows))
    curves = tuple(measured(name, p["sources"], found) for name, found in errors.items())
    panel = Panel(f"m = {m} labels", "ℓ, sources", "‖f̂ - f‖ in L²", curves)
    verdicts = (
        is_so(
            "(7): the split has no effect, not even with one label a source",
            float(moved.max()) < 1e-12,
            f"largest change of a coefficient {moved.max():.1e}, which is rounding",
        ),
        above(
            "Averages of local fits do lose with it",
            ratio(errors[AVERAGE][:, -1], errors[AVERAGE][:, 0]),
            1.0,
            "error with the most sources over that with one",
        ),
    )
    return Outcome((table,), (panel,), verdicts, ("λ is the best of the population for m labels, in all fits.",))


SHARED = {"kernel": "Brownian", "r": 1.0, "noise": 0.3, "seed": 19002}

EXPERIMENT = Experiment(
    name="000-split",
    title="The split over sources has no effect on LESS",
    question="Does it matter how labels are spread over sources? (7).",
    quick={**SHARED, "size": 128, "public": 128, "sources": [1, 4, 16, 64, 128], "repetitions": 3},
    full={**SHARED, "size": 256, "public": 256, "sources": [1, 4, 16, 64, 256], "repetitions": 6},
    steps=lambda protocol: int(protocol["repetitions"]),
    run=run,
)
