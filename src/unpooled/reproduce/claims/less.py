"""Claims on LESS, semi-supervised learning with summary statistics, of Qin and Guo (2019)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...bases import EmpiricalFeatures
from ...estimators import LESSRegressor, SpectralRegressor
from ...summaries import Summary
from ..experiment import Experiment, Measurements, Numbers, Protocol, Setting
from ..inference import above, below, is_so, judge_rate, make_curve, ratio, root, together, typical_ratio
from ..outcome import Outcome, Panel, Table, Verdict, level, power_law
from ..problems import PROBLEMS, Target, find_target, fit_average, fit_less, grid, on_purpose

METHODS = KRR, ALL, RULE = "ridge", "LESS, all features", "LESS, N by (A4)"


def _count_public_rows(m: int, target: Target) -> int:
    """⌈max{m, m^{2/(2r+s)}}⌉: the n that Corollary 2.3 asks for."""
    return math.ceil(max(m, m ** (2 / (2 * target.r + target.beta))))


def _numbers_of_features(m: int) -> list[int]:
    """The N that are tried."""
    return [N for N in (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512) if m >= N]


def _errors_beside_ridge(p: Protocol, at: Setting) -> Numbers:
    """Of ridge and LESS, with the N of the rule; with the last noise and most labels also of LESS over N."""
    target, m, (noise, first_lam), rng = find_target(p["kernel"], p["r"]), at.size, at.case, at.rng()
    X, Y = target.draw(rng, m, noise, p["draws"])
    basis = EmpiricalFeatures(target.kernel).fit(rng.random((_count_public_rows(m, target), 1)))
    summary, lam = Summary.of(basis, X, Y), target.lam_from(first_lam, p["sizes"][0], m)
    by_rule = fit_less(summary, lam, "rule")
    numbers: dict[str, Any] = {
        KRR: target.error_of(SpectralRegressor(target.kernel, lam=lam, fit_intercept=False).fit(X, Y)),
        ALL: target.error_of(fit_less(summary, lam)),
        RULE: target.error_of(by_rule),
        "N": int(by_rule.n_features_rule_),
    }
    if at.case == p["cases"][-1] and m == p["sizes"][-1] and at.repetition < p["feature_repetitions"]:
        numbers["over N"] = [target.error_of(fit_less(summary, lam, N)) for N in _numbers_of_features(m)]
    return numbers


def _judge_ridge(p: Protocol, data: Measurements) -> Outcome:
    """Corollary 2.3 with n as it asks, and (A4): the number of features."""
    target, sizes = find_target(p["kernel"], p["r"]), p["sizes"]
    rows, exponents, curves, keeping = [], [], [], []
    slopes: list[Verdict] = []
    for number, (noise, lam) in enumerate(p["cases"]):
        case, squares = f"noise {noise:g}, λ from {lam:g}", {name: data.over(name, number) for name in METHODS}
        for j, m in enumerate(sizes):
            errors = (root(squares[name][:, j]) for name in METHODS)
            features, beside = float(np.mean(data.at("N", number, j))), ratio(squares[RULE][:, j], squares[KRR][:, j])
            rows.append((noise, lam, m, _count_public_rows(m, target), features, *errors, str(beside)))
        for name in METHODS:
            cells, verdict = judge_rate(f"{name}, {case}", sizes, squares[name], target.order(), p["resolution"])
            exponents.append((noise, lam, name, *cells))
            slopes += [verdict] if name != KRR else []
        keeping.append(below(case, ratio(squares[RULE][:, -1], squares[ALL][:, -1]), 1.0, "ratio"))
        curves += [make_curve(f"{name}, {case}", sizes, squares[name]) for name in (KRR, RULE)]
        curves.append(power_law(sizes, curves[-1].y[0], target.order(), "m"))
    rule, over = data.at("N", number)[p["feature_repetitions"] - 1], data.at("over N", number)
    tried, title = _numbers_of_features(m), f"The number N of features, m = {m}, noise {noise:g}"
    heads = ("noise", "first λ", "m", "n", "N", *METHODS, "(A4) / ridge")
    slope_heads = ("noise", "first λ", "method", "exponent [95 %]", "theory", "verdict")
    tables = (
        Table(f"{p['kernel']}, r = {p['r']:g}, n as (14) asks", heads, tuple(rows)),
        Table("Exponents a of error ∝ m^-a", slope_heads, tuple(exponents)),
        Table(title, ("N", "error"), tuple((N, root(over[:, k])) for k, N in enumerate(tried))),
    )
    already = "The same holds at these m if λ starts at ridge regression's best"
    enough = "(A4): the features with eigenvalues above κ²λ are enough: with these alone LESS does better than with all"
    gap = _gap_to_ridge(p, target)
    verdicts = (
        together("Corollary 2.3: errors of LESS fall at least as fast as m^{-r/(2r+s)}", slopes[:-2]),
        together(f"{already}, where the effective dimension is only three", slopes[-2:]),
        together(enough, keeping),
        is_so("With u = x and all features LESS is kernel ridge regression", gap < 1e-8, f"difference {gap:.1e}"),
    )
    mark = ((f"(A4): N = {rule}", float(rule)),)
    panels = (
        Panel("n as (14) asks", "m, labels", "‖f̂ - f‖ in L²", tuple(curves)),
        Panel(title, "N, features", "‖f̂ - f‖ in L²", (make_curve("LESS", tried, over),), mark),
    )
    return Outcome(tables, panels, verdicts)


def _gap_to_ridge(p: Protocol, target: Target) -> float:
    """The largest difference between LESS whose public rows are those of the labels and ridge regression."""
    X, Y = target.draw(np.random.default_rng(p["seed"]), p["sizes"][0], 0.3)
    ours, ridge = (
        model(target.kernel, lam=0.01, fit_intercept=False).fit(X, Y[:, 0]).predict(grid()[:, None])
        for model in (LESSRegressor, SpectralRegressor)
    )
    return float(np.max(np.abs(ours - ridge)))


RIDGE = Experiment(
    name="less-ridge",
    title="LESS beside kernel ridge regression, in m, n and N",
    question="Does LESS keep the rate of ridge regression, and with how many features? Corollary 2.3 and (A4).",
    protocol={"kernel": "Brownian", "r": 1.0, "cases": [[1.0, 0.002], [0.3, 0.002], [0.3, 0.028]], "seed": 19001}
    | {"draws": 2, "sizes": ([64, 128, 256, 512], [64, 128, 256, 512, 1024]), "repetitions": (24, 40)}
    | {"feature_repetitions": (4, 12), "resolution": (0.15, 0.06)},
    same_data=True,
    measure=_errors_beside_ridge,
    judge=_judge_ridge,
    notes=(
        "λ falls as m^{-1/(2r+s)} from a first value, for both methods. From 0.002 the effective dimension is in its "
        "power law; from 0.028, the best of ridge regression at the smallest m, it is not yet, and the exponent of "
        "LESS is below its limit: the theorem does not say where its rate begins.",
        "The rate is ridge regression's, the constant is not: LESS has the covariance from other rows than those of "
        "its labels, so that f itself adds to the noise. Where noise is small beside f, that dominates its error.",
    ),
)

LESS, AVERAGE, INFLATED, SECOND = "LESS", "average of ridge fits", "inflation", "second order"


def _errors_over_sources(p: Protocol, at: Setting) -> Numbers:
    """Over more and more sources of the same rows: LESS from the sum of summaries, and the average of local fits."""
    target, m, rng = find_target(p["kernel"], p["r"]), p["size"], at.rng()
    lam = target.best_lam("tikhonov", m, p["noise"])
    X, Y = target.draw(rng, m, p["noise"])
    basis = EmpiricalFeatures(target.kernel).fit(rng.random((p["public"], 1)))
    whole = fit_less(Summary.of(basis, X, Y), lam)
    numbers: dict[str, list[float]] = {"moved": [], LESS: [], AVERAGE: []}
    for count in p["sources"]:
        first, *others = (Summary.of(basis, X[own], Y[own]) for own in np.array_split(rng.permutation(m), count))
        model = fit_less(sum(others, first), lam)
        average = fit_average(
            SpectralRegressor(target.kernel, fit_intercept=False), count, X, Y, at.repetition, lam=lam
        )
        numbers["moved"].append(float(np.max(np.abs(model.coef_ - whole.coef_))))
        numbers[LESS].append(target.error_of(model))
        numbers[AVERAGE].append(target.error_of(average))
    return numbers


def _judge_split(p: Protocol, data: Measurements) -> Outcome:
    """(7): the split of labels over sources has no effect on LESS."""
    m, sources, moved = p["size"], p["sources"], data.at("moved").max(axis=0)
    squares = {name: data.at(name) for name in (LESS, AVERAGE)}
    rows = [
        (count, m / count, float(moved[j]), *(root(errors[:, j]) for errors in squares.values()))
        for j, count in enumerate(sources)
    ]
    heads = ("sources", "labels each", "largest change of a coefficient", *squares)
    table = Table(f"m = {m} labels, n = {p['public']} public rows", heads, tuple(rows))
    curves = tuple(make_curve(name, sources, errors) for name, errors in squares.items())
    panel = Panel(f"m = {m} labels", "ℓ, sources", "‖f̂ - f‖ in L²", curves)
    lost = ratio(squares[AVERAGE][:, -1], squares[AVERAGE][:, 0])
    largest = f"largest change of a coefficient {moved.max():.1e}, which is rounding"
    verdicts = (
        is_so("(7): the split has no effect, even with one label per source", float(moved.max()) < 1e-12, largest),
        above("Averages of local fits do get worse", lost, 1.0, "error with the most sources over that with one"),
    )
    return Outcome((table,), (panel,), verdicts)


SPLIT = Experiment(
    name="less-split",
    title="The split over sources has no effect on LESS",
    question="Does it matter how labels are spread over sources? (7).",
    protocol={"kernel": "Brownian", "r": 1.0, "noise": 0.3, "seed": 19002, "size": (128, 256), "public": (128, 256)}
    | {"sources": ([1, 4, 16, 64, 128], [1, 4, 16, 64, 256]), "repetitions": (3, 6)},
    measure=_errors_over_sources,
    judge=_judge_split,
    notes=("λ is the best of the population for m labels, in all fits.",),
)

POOLED, WAVES, SMOOTH = "pooled", "A target of four waves", "A smooth target, at the boundary of its class"


def _errors_over_public(p: Protocol, at: Setting) -> Numbers:
    """m sources of one label each; n public rows for LESS, or dealt to the sources as unlabeled ones."""
    m, rng, known = p["labels"], at.rng(), PROBLEMS[p["kernel"]]()
    target = known.waves(p["r"], *p["waves"]) if at.case == WAVES else find_target(p["kernel"], p["r"])
    lam = target.best_lam("tikhonov", m, p["noise"])
    X, Y = target.draw(rng, m, p["noise"], p["draws"])
    U = rng.random((max(p["factors"]) * m, 1))
    ridge = SpectralRegressor(target.kernel, lam=lam, fit_intercept=False).fit(X, Y)
    numbers: dict[str, Any] = {LESS: [], INFLATED: [], POOLED: target.error_of(ridge)}
    for n in (factor * m for factor in p["factors"]):
        basis = EmpiricalFeatures(target.kernel, p["features"]).fit(U[:n])
        numbers[LESS].append(target.error_of(fit_less(Summary.of(basis, X, Y), lam)))
        inflated = fit_average(
            SpectralRegressor(target.kernel, fit_intercept=False), m, X, Y, at.repetition, U[:n], lam=lam
        )
        numbers[INFLATED].append(target.error_of(inflated))
    return numbers


def _judge_unlabeled(p: Protocol, data: Measurements) -> Outcome:
    """The public rows that LESS needs beside the inflation method, with one label per source (§3.2)."""
    m, ahead_to, within = p["labels"], p["ahead_to"], f"{p['tolerance']:.0%}"
    sizes, target = [factor * m for factor in p["factors"]], find_target(p["kernel"], p["r"])
    tables, panels, needed, ratios = [], [], [], {}
    for number, case in enumerate((WAVES, SMOOTH)):
        squares, ridge = {name: data.at(name, number) for name in (LESS, INFLATED)}, root(data.at(POOLED, number))
        goal = (1 + p["tolerance"]) ** 2 * squares[LESS][:, -1].mean()
        enough = (errors.mean(axis=0) <= goal for errors in squares.values())
        own, other = (next((f"{n:,}" for n, so in zip(sizes, each) if so), "more") for each in enough)
        needed.append(f"{case}: {LESS} {own}, inflation {other}")
        ratios[case] = [typical_ratio(squares[INFLATED][:, j], squares[LESS][:, j]) for j in range(len(sizes))]
        rows = [
            (n, n // m, *(root(errors[:, j]) for errors in squares.values()), str(ratios[case][j]))
            for j, n in enumerate(sizes)
        ]
        title = f"{case}; m = {m} sources of one label each; pooled ridge regression has {ridge:.3g}"
        heads = ("n, public rows", "a source", LESS, INFLATED, "inflation / LESS, typically")
        tables.append(Table(title, heads, tuple(rows)))
        curves = [make_curve(name, sizes, errors) for name, errors in squares.items()]
        panels.append(Panel(case, "n, public rows", "‖f̂ - f‖ in L²", (*curves, level("pooled ridge", sizes, ridge))))
    few = [(j, f"n = {n}") for j, n in enumerate(sizes) if n <= ahead_to * m]
    ahead = [above(label, ratios[WAVES][j], 1.0, "inflation / LESS") for j, label in few]
    alike = [below(label, ratios[SMOOTH][j], 1 + p["tolerance"], "inflation / LESS") for j, label in few]
    verdicts = (
        together(f"§3.2: {WAVES}: up to n = {ahead_to}m public rows LESS does better than inflated labels", ahead),
        together(f"It does not always: {SMOOTH}: with as few inflated labels do as well (within {within})", alike),
    )
    first, last = _count_public_rows(m, target), m ** (2 + 2 / (2 * target.r + target.beta))
    note = (
        f"To come within {within} of LESS with {sizes[-1]:,} public rows it takes: {'; '.join(needed)}. (14) asks for "
        f"{first:,}, and (13) for {last:,.0f}: sufficient for the proofs, and for inflated labels far more than enough."
    )
    return Outcome(tuple(tables), tuple(panels), verdicts, (note,))


UNLABELED = Experiment(
    name="less-unlabeled",
    title="The public rows that LESS and inflated labels need",
    question="With one label per source, how many public rows do LESS and the inflation method need? (12) to (14).",
    protocol={"kernel": "Brownian", "r": 1.0, "noise": 0.5, "seed": 19003, "tolerance": 0.1, "features": 400}
    | {"ahead_to": 2, "waves": [1, 4], "draws": 4, "labels": (48, 64), "factors": ([1, 2, 16], [1, 2, 4, 8, 16, 32])}
    | {"repetitions": (12, 24)},
    cases=lambda _: (WAVES, SMOOTH),
    measure=_errors_over_public,
    judge=_judge_unlabeled,
    notes=(
        "λ is the best of ridge regression in the population for m labels. With endless public rows the two methods "
        "are one, the population's covariance with the labels' sums; pooled ridge regression knows the rows of its "
        "labels and is better than that.",
        "Blocks of a few rows regularise by themselves. Where the target is smooth that does no harm, and inflated "
        "labels need no more public rows than LESS; where it has waves, they need as many rows a source as the "
        "effective dimension, or a few times that. LESS with n = m depends on one sample of public rows: a rare bad "
        "one dominates its mean squared error, so the ratios are of geometric means.",
    ),
)


def _ways(p: Protocol) -> dict[str, dict[str, Any]]:
    """The parameters of LESSRegressor, by the name of their column."""
    by_rounds: dict[str, dict[str, Any]] = {
        f"LESS, {count} round{'s' if count > 1 else ''}": {"rounds": count, "ridge": True, "steps": "conjugate"}
        for count in p["rounds"]
    }
    return by_rounds | {SECOND: {"order": 2}}


def _errors_of_ways(p: Protocol, at: Setting) -> Numbers:
    """Many labels and few public rows: one round, several rounds, second order."""
    target, m, rng = find_target(p["kernel"], p["r"]), p["labels"], at.rng()
    lam = target.best_lam("tikhonov", m, p["noise"])
    X, Y = target.draw(rng, m, p["noise"], p["draws"])
    U = rng.random((max(p["public"]), 1))
    pooled = SpectralRegressor(target.kernel, lam=lam, fit_intercept=False).fit(X, Y)
    numbers: dict[str, Any] = {POOLED: target.error_of(pooled), "floor": []} | {name: [] for name in _ways(p)}
    for n in p["public"]:
        basis = EmpiricalFeatures(target.kernel).fit(U[:n])
        for name, way in _ways(p).items():
            with on_purpose():
                model: Any = LESSRegressor(basis=basis, lam=lam, fit_intercept=False, **way).fit(X, Y)
            numbers[name].append(target.error_of(model))
            if way.get("rounds") == 1:
                numbers["floor"].append(model.floor_.error)
    return numbers


def _judge_floor(p: Protocol, data: Measurements) -> Outcome:
    """The floor that a small public sample sets LESS, and what removes it."""
    m, public, slack, pooled = p["labels"], p["public"], p["slack"], data.at(POOLED)
    squares = {name: data.at(name) for name in _ways(p)}
    one, *_, most, second = squares.values()
    rows = [
        (n, *(root(errors[:, j]) for errors in squares.values()), float(data.at("floor")[:, j].mean()))
        for j, n in enumerate(public)
    ]
    title = f"m = {m} labels, noise {p['noise']:g}; pooled ridge regression has {root(pooled):.3g}"
    table = Table(title, ("n, public rows", *squares, "floor that floor_ estimates"), tuple(rows))
    curves = [make_curve(name, public, errors) for name, errors in squares.items()]
    curves.append(level("pooled ridge", public, root(pooled)))
    panel = Panel(f"m = {m:,} labels", "n, public rows", "‖f̂ - f‖ in L²", tuple(curves))
    removed, also = (
        [
            below(f"n = {n}", ratio(e[:, j], pooled), slack, "error over that of pooled ridge")
            for j, n in enumerate(public)
        ]
        for e in (most, second)
    )
    twice = f"With n = {public[0]} public rows one round has more than twice the error of pooled ridge regression"
    falls = f"The floor falls with n: from n = {public[0]} to {public[-1]}"
    verdicts = (
        above(twice, ratio(one[:, 0], pooled), 2.0, "ratio"),
        below(falls, ratio(one[:, -1], one[:, 0]), 1.0, "ratio"),
        together(f"{p['rounds'][-1]} rounds of residuals remove it (within {slack - 1:.0%} of pooled)", removed),
        together("So do summaries of second order, in one round", also),
    )
    return Outcome((table,), (panel,), verdicts)


FLOOR = Experiment(
    name="less-floor",
    title="The floor at few public rows, and what removes it",
    question="What does a small public sample cost LESS, and do residual rounds and second order remove that cost?",
    protocol={"kernel": "Brownian", "r": 1.0, "noise": 0.1, "seed": 19004, "slack": 1.1, "draws": 2}
    | {"labels": (1024, 4096), "public": ([16, 64, 256], [16, 32, 64, 128, 256, 512, 1024])}
    | {"rounds": ([1, 3, 10], [1, 2, 3, 5, 10]), "repetitions": (6, 8)},
    measure=_errors_of_ways,
    judge=_judge_floor,
    notes=("λ is the best of the population for m labels; rounds keep a -λf term and take conjugate steps.",),
)

EXPERIMENTS = (RIDGE, SPLIT, UNLABELED, FLOOR)
