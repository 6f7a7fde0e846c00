"""LESS beside kernel ridge regression, in m, n and N (Qin and Guo 2019, Corollary 2.3 and (A4))."""

from __future__ import annotations

import math

import numpy as np

from ... import theory
from ...bases import EmpiricalFeatures
from ...estimators import LESSRegressor, SpectralRegressor
from ...summaries import Summary
from ..curves import less, measured, power_law, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import below, exponent, is_so, no_slower, ratio, together
from ..outcome import Outcome, Panel, Table, Verdict
from ..problems import PROBLEMS, grid

METHODS = KRR, ALL, RULE = "ridge", "LESS, all features", "LESS, N by (A4)"


def public_rows(m: int, r: float, s: float) -> int:
    """⌈max{m, m^{2/(2r+s)}}⌉: what Corollary 2.3 asks for."""
    return math.ceil(max(m, m ** (2 / (2 * r + s))))


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """The rate in m with n as Corollary 2.3 asks, and the number of features at the largest m."""
    sizes, cases = protocol["sizes"], [Case(protocol, noise, first) for noise, first in protocol["cases"]]
    rows, exponents, curves, keeping = [], [], [], []
    verdicts: dict[bool, list[Verdict]] = {True: [], False: []}
    for case in cases:
        squares, kept = case.errors(advance)
        for j, m in enumerate(sizes):
            errors = (root(squares[name][:, j]) for name in METHODS)
            beside = str(ratio(squares[RULE][:, j], squares[KRR][:, j]))
            rows.append((case.noise, case.first_lam, m, case.public(m), float(np.mean(kept[m])), *errors, beside))
        for name in METHODS:
            slope = exponent(sizes, squares[name])
            verdict = no_slower(f"{name}, {case.name}", slope, case.order, protocol["resolution"])
            exponents.append((case.noise, case.first_lam, name, str(slope), case.order, verdict.status))
            if name != KRR:
                verdicts[case is cases[-1]].append(verdict)
        keeping.append(below(case.name, ratio(squares[RULE][:, -1], squares[ALL][:, -1]), 1.0, "ratio"))
        curves += [measured(f"{name}, {case.name}", sizes, squares[name]) for name in (KRR, RULE)]
        curves.append(power_law(sizes, curves[-1].y[0], case.order, "m"))
    sweep, panel = cases[-1].over_features()
    advance()
    heads = ("noise", "first λ", "m", "n", "N", *METHODS, "(A4) / ridge")
    slope_heads = ("noise", "first λ", "method", "exponent [95 %]", "theory", "verdict")
    tables = (
        Table(f"{protocol['kernel']}, r = {protocol['r']:g}, n as (14) asks", heads, tuple(rows)),
        Table("Exponents a of error ∝ m^-a", slope_heads, tuple(exponents)),
        sweep,
    )
    judged = (
        together("Corollary 2.3: errors of LESS fall at least as fast as m^{-r/(2r+s)}", verdicts[False]),
        together(
            "The same already at these m with λ from ridge regression's best on, where the effective dimension is "
            "only three",
            verdicts[True],
        ),
        together(
            "(A4): the features with eigenvalues above κ²λ are enough: with these alone LESS does better than with all",
            keeping,
        ),
        _same_rows(protocol),
    )
    rates = Panel("n as (14) asks", "m, labels", "‖f̂ - f‖ in L²", tuple(curves))
    return Outcome(tables, (rates, panel), judged, NOTES)


NOTES = (
    "λ falls as m^{-1/(2r+s)} from a first value, for both methods. From 0.002 the effective dimension is in its power "
    "law; from 0.028, the best of ridge regression at the smallest m, it is not yet, and the exponent of LESS is below "
    "its limit: the theorem says nothing of where its rate begins.",
    "The rate is ridge regression's, the constant is not: LESS has the covariance from other rows than those of its "
    "labels, so that f itself adds to the noise. Where noise is small beside f, that is what rules its error.",
)


class Case:
    """One noise level, and the λ at the smallest m."""

    def __init__(self, protocol: Protocol, noise: float, first_lam: float) -> None:
        self.protocol, self.noise, self.first_lam = protocol, noise, first_lam
        self.name = f"noise {noise:g}, λ from {first_lam:g}"
        self.target = PROBLEMS[protocol["kernel"]]().target(protocol["r"])
        self.r, self.s = self.target.r, self.target.known.beta
        self.order = -math.log10(theory.rate(10, self.r, self.s, filter="tikhonov"))

    def lam(self, m: int) -> float:
        """By the schedule."""
        first = self.protocol["sizes"][0]
        return self.first_lam * theory.lam(m, self.r, self.s) / theory.lam(first, self.r, self.s)

    def public(self, m: int) -> int:
        """n."""
        return public_rows(m, self.r, self.s)

    def summarised(self, m: int, i: int) -> tuple[np.ndarray, np.ndarray, Summary]:
        """Rows, labels, and their sums over the features of other rows."""
        rng = np.random.default_rng([self.protocol["seed"], m, i])
        X, Y = self.target.draw(rng, m, self.noise, self.protocol["draws"])
        basis = EmpiricalFeatures(self.target.known.kernel).fit(rng.random((self.public(m), 1)))
        return X, Y, Summary.of(basis, X, Y)

    def errors(self, advance: Advance) -> tuple[dict[str, np.ndarray], dict[int, list[int]]]:
        """Squared errors (repetitions, m) of ridge and LESS, and the N of the rule."""
        p = self.protocol
        squares = {name: np.empty((p["repetitions"], len(p["sizes"]))) for name in METHODS}
        kept: dict[int, list[int]] = {m: [] for m in p["sizes"]}
        for j, m in enumerate(p["sizes"]):
            for i in range(p["repetitions"]):
                X, Y, summary = self.summarised(m, i)
                lam = self.lam(m)
                by_rule = less(summary, lam, "rule")
                kept[m].append(int(by_rule.n_features_rule_))
                ridge = SpectralRegressor(self.target.known.kernel, lam=lam).fit(X, Y)
                squares[KRR][i, j] = self.target.error_of(ridge)
                squares[ALL][i, j] = self.target.error_of(less(summary, lam))
                squares[RULE][i, j] = self.target.error_of(by_rule)
            advance()
        return squares, kept

    def over_features(self) -> tuple[Table, Panel]:
        """The error against N at the largest m."""
        m = self.protocol["sizes"][-1]
        tried = [N for N in (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512) if m >= N]
        found = np.empty((self.protocol["feature_repetitions"], len(tried)))
        rule = 0
        for i in range(len(found)):
            _, _, summary = self.summarised(m, i)
            models = [less(summary, self.lam(m), N) for N in tried]
            found[i] = [self.target.error_of(model) for model in models]
            rule = int(models[0].n_features_rule_)
        title = f"The number N of features, m = {m}, noise {self.noise:g}"
        rows = tuple((N, root(found[:, k])) for k, N in enumerate(tried))
        mark = ((f"(A4): N = {rule}", float(rule)),)
        panel = Panel(title, "N, features", "‖f̂ - f‖ in L²", (measured("LESS", tried, found),), mark)
        return Table(title, ("N", "error"), rows), panel


def _same_rows(protocol: Protocol) -> Verdict:
    target, m = PROBLEMS[protocol["kernel"]]().target(protocol["r"]), protocol["sizes"][0]
    X, Y = target.draw(np.random.default_rng(protocol["seed"]), m, 0.3)
    kernel, points = target.known.kernel, grid()[:, None]
    ours, ridge = (
        model(kernel, lam=0.01).fit(X, Y[:, 0]).predict(points) for model in (LESSRegressor, SpectralRegressor)
    )
    gap = float(np.max(np.abs(ours - ridge)))
    return is_so("With u = x and all features LESS is kernel ridge regression", gap < 1e-8, f"difference {gap:.1e}")


SHARED = {
    "kernel": "Brownian",
    "r": 1.0,
    "cases": [[1.0, 0.002], [0.3, 0.002], [0.3, 0.028]],
    "seed": 19001,
    "draws": 2,
}

EXPERIMENT = Experiment(
    name="000-ridge",
    title="LESS beside kernel ridge regression, in m, n and N",
    question="Does LESS keep the rate of ridge regression, and with how many features? Corollary 2.3 and (A4).",
    quick={**SHARED, "sizes": [64, 128, 256, 512], "repetitions": 24, "feature_repetitions": 4, "resolution": 0.15},
    full={
        **SHARED,
        "sizes": [64, 128, 256, 512, 1024],
        "repetitions": 40,
        "feature_repetitions": 12,
        "resolution": 0.06,
    },
    steps=lambda protocol: 1 + len(protocol["cases"]) * len(protocol["sizes"]),
    run=run,
)
