"""Claims on centred kernels and on distributed kernel ridge regression, of Wang (2018), chapters 2 and 3."""

from __future__ import annotations

import math
from operator import itemgetter

import numpy as np

from ... import theory
from ...bases import EmpiricalFeatures
from ...estimators import SpectralRegressor
from ...kernels import Gaussian
from ..experiment import Experiment, Measurements, Numbers, Protocol, Setting
from ..inference import above, exponent, is_so, judge_rate, make_curve, no_slower, ratio, root, together
from ..outcome import Outcome, Panel, Table, Verdict, power_law
from ..problems import Target, find_target, fit_average, grid

PRINTED = {  # N: error, error.const
    100: (0.06679019, 0.3580925),
    300: (0.05064902, 0.2502581),
    500: (0.03951036, 0.2118137),
    1000: (0.03089287, 0.1768217),
}
PLAIN, PLAIN_SHIFTED, CENTRED, CENTRED_SHIFTED = "plain", "plain, shifted", "centred", "centred, shifted"
COLUMNS = {PLAIN: (False, 0), PLAIN_SHIFTED: (False, 1), CENTRED: (True, 0), CENTRED_SHIFTED: (True, 1)}
MISPRINT = "plain, shifted, against the target without its shift"


def _errors_with_shift(p: Protocol, at: Setting) -> Numbers:
    """The simulation of §2.4 with a random target at all sizes, without and with the centred kernel."""
    kernel, points, rng = Gaussian(p["width"]), grid()[:, None], at.rng()
    basis = EmpiricalFeatures(kernel, random_state=at.repetition).fit(rng.random((p["features_of"], 1)))
    weights = rng.standard_normal(basis.n_features_)
    truth = basis.transform(points) @ weights
    errors: dict[str, list[float]] = {name: [] for name in (*COLUMNS, MISPRINT)}
    for n in p["sizes"]:
        X = rng.random((n, 1))
        y = basis.transform(X) @ weights + p["noise"] * rng.standard_normal(n)
        for name, (center, times) in COLUMNS.items():
            model = SpectralRegressor(kernel, lam=n ** -p["power"], fit_intercept=center)
            off = model.fit(X, y + times * p["shift"]).predict(points) - truth
            errors[name].append(np.mean((off - times * p["shift"]) ** 2))
            if name == PLAIN_SHIFTED:
                errors[MISPRINT].append(np.mean(off**2))
    return errors


def _judge_constant(p: Protocol, data: Measurements) -> Outcome:
    """A constant added to the labels spoils kernel ridge regression, and centring cures it."""
    sizes, shift, squares = p["sizes"], p["shift"], {name: data.at(name) for name in (*COLUMNS, MISPRINT)}
    rows, worse = [], []
    for j, n in enumerate(sizes):
        plain, shifted, centred, centred_shifted = (root(squares[name][:, j]) for name in COLUMNS)
        printed, printed_shifted = PRINTED.get(n, (None, None))
        rows.append((n, printed, plain, printed_shifted, shifted, centred, centred_shifted))
        worse.append(above(f"N = {n}", ratio(squares[PLAIN_SHIFTED][:, j], squares[PLAIN][:, j]), 2.0, "ratio"))
    heads = ("N", "error: printed", "ours", f"labels + {shift:g}: printed", "ours", "centred", f"centred, + {shift:g}")
    table = Table(f"§2.4, λ = N^-{p['power']:g}, over random targets", heads, tuple(rows))
    lost = exponent(sizes, squares[PLAIN], over=squares[PLAIN_SHIFTED], paired=True)  # one target at all sizes
    gap = float(np.max(np.abs(np.sqrt(squares[CENTRED]) - np.sqrt(squares[CENTRED_SHIFTED]))))
    against, shown = (root(squares[name][:, 0]) for name in (MISPRINT, PLAIN_SHIFTED))
    slower = "§2.4: the rate becomes slower, and not the constant larger only" + _printed_slopes(sizes)
    equal = "The centred kernel makes the two columns equal: the constant moves the intercept and nothing else"
    as_printed = "error.const as printed, against f_ρ, is what its column shows"
    found_out = f"against f_ρ it would be {against:.2f}; the column is the error against f_ρ + {shift:g}"
    verdicts = (
        together(f"§2.4: adding {shift:g} to the labels at least doubles the error of plain KRR", worse),
        above(slower, lost, 0.0, "difference of the exponents"),
        is_so(equal, gap < 1e-8, f"largest difference {gap:.1e}"),
        is_so(as_printed, against < 2 * shown, found_out, known_wrong=True),
    )
    curves = tuple(make_curve(name, sizes, squares[name]) for name in COLUMNS)
    panel = Panel(f"Gaussian kernel of width {p['width']:g}", "N, labels", "error in L²", curves)
    return Outcome((table,), (panel,), verdicts)


def _printed_slopes(sizes: list[int]) -> str:
    """The rates that the printed table itself shows."""
    if not set(sizes) <= set(PRINTED):
        return ""
    logs = np.log([PRINTED[n] for n in sizes]).T
    plain, shifted = (-np.polyfit(np.log(sizes), column, 1)[0] for column in logs)
    return f" (the printed columns have the exponents {plain:.3f} and {shifted:.3f})"


CONSTANT = Experiment(
    name="centring-constant",
    title="The table of §2.4, and its cure by centring",
    question="What does a constant in the labels do to kernel ridge regression, and to the centred kernel? §2.4.",
    protocol={"seed": 18001, "sizes": [100, 300, 500, 1000], "noise": 0.1, "power": 0.8, "shift": 10.0, "width": 1.0}
    | {"features_of": 3000, "repetitions": (10, 100)},
    sizes=lambda _: (None,),  # a repetition has one target at all sizes
    measure=_errors_with_shift,
    judge=_judge_constant,
    notes=(
        "The paper gives its target only as a random combination of empirical features of 3000 points; ours has "
        "standard normal weights, and is a new one in each repetition. Match the pattern, not the digits.",
    ),
)


def _errors_centred(p: Protocol, at: Setting) -> Numbers:
    """λ = λ₁(N/N₁)^{-1/(2r+1)}, labels with a constant added, centred kernel."""
    target, first = find_target(p["kernel"], at.case), p["sizes"][0]
    lam = target.best_lam("tikhonov", first, p["noise"]) * (at.size / first) ** (-1 / (2 * target.r + 1))
    X, Y = target.draw(at.rng(), at.size, p["noise"], p["draws"])
    model = SpectralRegressor(target.kernel, lam=lam, fit_intercept=True).fit(X, Y + p["shift"])
    return {"errors": target.squared_error(model.predict(grid()[:, None]) - p["shift"])}


def _judge_centred_rate(p: Protocol, data: Measurements) -> Outcome:
    """Theorem 2.1."""
    rows, curves, verdicts, sizes = [], [], [], p["sizes"]
    for number, r in enumerate(p["regularities"]):
        squares, order = data.over("errors", number), r / (2 * r + 1)
        cells, verdict = judge_rate(f"r = {r:g}", sizes, squares, order, p["resolution"])
        verdicts.append(verdict)
        rows.append((p["kernel"], r, *cells))
        curves.append(make_curve(f"r = {r:g}", sizes, squares))
        curves.append(power_law(sizes, curves[-1].y[0], order))
    heads = ("kernel", "r", "exponent [95 %]", "theory", "verdict")
    panel = Panel(f"{p['kernel']}, labels + {p['shift']:g}", "N, labels", "‖f̂ + b̂ - f‖ in L²", tuple(curves))
    verdict = together("Theorem 2.1: errors of CRK-KRR fall at least as fast as N^{-r/(2r+1)}", verdicts)
    return Outcome((Table("Exponents a of error ∝ N^-a", heads, tuple(rows)),), (panel,), (verdict,))


RATE = Experiment(
    name="centring-rate",
    title="The rate of regression with a centred kernel",
    question="Do errors fall as fast as N^{-r/(2r+1)}? Theorem 2.1.",
    protocol={"kernel": "Sobolev 1", "regularities": [0.5, 0.75, 1.0], "seed": 18002, "noise": 0.3, "shift": 10.0}
    | {"draws": 8, "sizes": ([64, 128, 256, 512], [64, 128, 256, 512, 1024, 2048])}
    | {"repetitions": (10, 24), "resolution": (0.08, 0.05)},
    cases=itemgetter("regularities"),
    same_data=True,
    measure=_errors_centred,
    judge=_judge_centred_rate,
    notes=(
        "λ is the best of the population at the smallest N and falls as N^{-1/(2r+1)}, which ignores the capacity of "
        "the kernel: it is too large in the long run, and the rate is that of the bias.",
    ),
)


def _measure_error(
    target: Target, m: int, lam: float, X: np.ndarray, Y: np.ndarray, unlabeled: np.ndarray, seed: int
) -> float:
    """The squared error of the average over m machines, rows without labels dealt to them (3.22)."""
    more = unlabeled if len(unlabeled) else None
    return target.error_of(
        fit_average(SpectralRegressor(target.kernel, fit_intercept=False), m, X, Y, seed, more, lam=lam)
    )


def _without_logs(n: int, target: Target, total: int | None = None) -> float:
    """(3.2), or (3.25) with its sign corrected, without the factor 1/(log³N + 1)."""
    method = "krr" if total is None else "semi-supervised"
    return theory.partition_limit(n, target.r, target.beta, method, total) * (math.log(n) ** 3 + 1)


LABELS, BOTH = "labels", "both"


def _allowed_machines(p: Protocol, target: Target, n: int) -> dict[str, int]:
    """m for labels alone and with more rows."""
    limits = {LABELS: _without_logs(n, target), BOTH: _without_logs(n, target, p["times"] * n)}
    return {name: max(1, int(limit)) for name, limit in limits.items()}


def _errors_of_averages(p: Protocol, at: Setting) -> Numbers:
    """m from (3.2), and from (3.25) with rows without labels; λ by the schedule."""
    target, n, first, rng = find_target(*at.case), at.size, p["sizes"][0], at.rng()
    lam = target.lam_from(target.best_lam("tikhonov", first, p["noise"]), first, n)
    X, Y = target.draw(rng, n, p["noise"], p["draws"])
    more = {LABELS: np.empty((0, 1)), BOTH: rng.random(((p["times"] - 1) * n, 1))}
    machines = _allowed_machines(p, target, n)
    return {name: _measure_error(target, m, lam, X, Y, more[name], at.repetition) for name, m in machines.items()}


def _judge_distributed(p: Protocol, data: Measurements) -> Outcome:
    """The machines that (3.2) and (3.25) allow, logarithms left out, and the logarithms of (3.2)."""
    sizes, totals = p["sizes"], {LABELS: "N", BOTH: f"{p['times']}N"}
    rows, curves = [], []
    verdicts: dict[str, list[Verdict]] = {name: [] for name in totals}
    for number, (kernel, r) in enumerate(p["cases"]):
        target = find_target(kernel, r)
        machines = [_allowed_machines(p, target, n) for n in sizes]
        for name, total in totals.items():
            squares = data.over(name, number)
            cells, verdict = judge_rate(f"{kernel}, r = {r:g}", sizes, squares, target.order(), p["resolution"])
            verdicts[name].append(verdict)
            rows.append((kernel, r, total, f"{machines[0][name]} to {machines[-1][name]}", *cells))
            curves.append(make_curve(f"{kernel}, r = {r:g}, N* = {total}", sizes, squares))
        curves.append(power_law(sizes, curves[-2].y[0], target.order()))
    allowed = theory.partition_limit(sizes[-1], 1.0, 0.5, "krr")
    first = next(k for k in range(1, 60) if theory.partition_limit(10.0**k, 1.0, 0.5, "krr") >= 1)
    keep = "Corollary 3.1: averages over (3.2) machines, logarithms left out, keep N^{-r/(2r+s)}"
    as_printed = "(3.2) as it stands, with log³N + 1, allows two machines or more at a realistic N"
    at_last = f"at N = {sizes[-1]:,}, r = 1, s = 1/2 it allows {allowed:.2g} machines, and one from N = 10^{first} on"
    judged = (
        together(keep, verdicts[LABELS]),
        together("Corollary 3.2: so do semi-supervised ones over (3.25) machines", verdicts[BOTH]),
        is_so(as_printed, allowed >= 2, f"{at_last}: the logarithm is there for the proof", known_wrong=True),
    )
    heads = ("kernel", "r", "N*", "machines", "exponent [95 %]", "theory", "verdict")
    panel = Panel("λ by the schedule", "N, labels", "‖f̄ - f‖ in L²", tuple(curves))
    return Outcome((Table("Exponents a of error ∝ N^-a", heads, tuple(rows)),), (panel,), judged)


DISTRIBUTED = Experiment(
    name="centring-distributed",
    title="Distributed kernel ridge regression and its semi-supervised form: rates",
    question="Do averages keep N^{-r/(2r+s)} with the machines of (3.2), and with those of (3.25)?",
    protocol={"noise": 0.6, "seed": 18003, "times": 4, "draws": 6}
    | {"cases": ([["Sobolev 1", 1.0]], [["Sobolev 1", 1.0], ["Sobolev 1", 0.75], ["Sobolev 2", 0.75]])}
    | {"sizes": ([64, 128, 256, 512], [64, 128, 256, 512, 1024, 2048])}
    | {"repetitions": (12, 20), "resolution": (0.08, 0.05)},
    measure=_errors_of_averages,
    judge=_judge_distributed,
    notes=("N* counts all rows, with labels and without.",),
)


def _as_printed(n: int, r: float, s: float, total: int) -> tuple[float, float]:
    """The two bounds of (3.25), the sign of the second exponent as printed, without logarithms."""
    first = total**0.5 * n ** (-(s + 1) / (4 * r + 2 * s))
    return float(first), float(total ** (1 / 3) * n ** (-(2 * r + s - 2) / (6 * r + 3 * s)))


def _term_of_proof(m: float, n: int, r: float, s: float, total: int) -> float:
    """m^{3/2} N^{-(2r+s-1/2)/(2r+s)} N*^{-1/2} N^{(s+1)/(4r+2s)} over N^{-r/(2r+s)}.

    The proof of Corollary 3.2 needs it to be at most one, and the second bound of (3.25) is there for that.
    """
    power = (-(2 * r + s - 0.5) + (s + 1) / 2 + r) / (2 * r + s)
    return float(m**1.5 * total**-0.5 * n**power)


def _tried_machines(p: Protocol) -> tuple[dict[int, int], dict[int, list[int]]]:
    """For every N*/N, m₁√(N*/N) and all m that are tried; labels alone are tried with all that N* buys."""
    grown = {q: round(p["machines"] * math.sqrt(q)) for q in p["times"]}
    tried = {q: {m, *(m for m in p["tried"] if q * p["size"] / m <= p["most_rows"])} for q, m in grown.items()}
    tried[1] |= set(grown.values())
    return grown, {q: sorted(ms) for q, ms in tried.items()}


def _errors_with_unlabeled(p: Protocol, at: Setting) -> Numbers:
    """Errors over m for several N*, beside one machine with the labels only."""
    target, n, rng = find_target(p["kernel"], p["r"]), p["size"], at.rng()
    lam = target.best_lam("tikhonov", n, p["noise"])
    X, Y = target.draw(rng, n, p["noise"], p["draws"])
    more = rng.random(((max(p["times"]) - 1) * n, 1))
    errors = {"one": target.error_of(SpectralRegressor(target.kernel, lam=lam, fit_intercept=False).fit(X, Y))}
    for q, ms in _tried_machines(p)[1].items():
        for m in ms:
            errors[f"{q}, {m}"] = _measure_error(target, m, lam, X, Y, more[: (q - 1) * n], at.repetition)
    return errors


def _judge_unlabeled(p: Protocol, data: Measurements) -> Outcome:
    """The larger number of machines that rows without labels allow by (3.25), and their cost."""
    target, n, (grown, tried), one = find_target(p["kernel"], p["r"]), p["size"], _tried_machines(p), data.at("one")
    r, s, rows = target.r, target.beta, []
    more = {q: m for q, m in grown.items() if q > 1}
    for q, m in grown.items():
        ratios = (str(ratio(data.at(f"{own}, {m}"), one)) for own in (q, 1))
        limits = (_without_logs(n, target, q * n), min(*_as_printed(n, r, s, q * n), n))
        rows.append((q, m, *ratios, *limits))
    # Inflated labels all of them: their cost is there at every N*, and no growth.
    kept = exponent([q * n for q in more], np.stack([data.at(f"{q}, {m}") for q, m in more.items()], 1), paired=True)
    lost = [
        above(f"m = {m}", ratio(data.at(f"1, {m}"), data.at(f"{q}, {m}")), 1.0, "error without over error with them")
        for q, m in more.items()
    ]
    few = {q: tried[q][0] for q in more}
    costly = [above(f"N* = {q}N, m = {m}", ratio(data.at(f"{q}, {m}"), one), 1.0, "ratio") for q, m in few.items()]
    where = (n, 0.6, 0.25, 16 * n)
    term = _term_of_proof(_as_printed(*where)[1], *where)
    sign = "(3.25) as printed, with -(2r+s-2)/(6r+3s), keeps the term of its proof below N^{-r/(2r+s)}"
    ten = f"at r = 0.6, s = 0.25, N = {n}, N* = 16N the term is {term:.1f} times that; with + it is 1 always"
    verdicts = (
        no_slower("(3.25): m may grow like √N*, and the error keeps its order, N*^0", kept, 0.0, p["resolution"]),
        together("With so many machines labels alone do worse", lost),
        together("With few machines rows without labels cost rather than help", costly),
        is_so(sign, term <= 1 + 1e-9, ten, known_wrong=True),
    )
    title = f"{p['kernel']}, r = {r:g}, N = {n} labels; (3.25) without logarithms; m grows as it does, like √N*"
    heads = ("N*/N", "m", "error / one machine's", "same m, labels only", "(3.25), sign corrected", "(3.25) as printed")
    over_one = {q: np.stack([data.at(f"{q}, {m}") / one.mean() for m in ms], axis=1) for q, ms in tried.items()}
    curves = tuple(make_curve(f"N* = {q if q > 1 else ''}N", tried[q], own) for q, own in over_one.items())
    panel = Panel(f"N = {n} labels, r = {r:g}", "m, machines", "error / error of one machine", curves)
    return Outcome((Table(title, heads, tuple(rows)),), (panel,), verdicts)


UNLABELED = Experiment(
    name="centring-unlabeled",
    title="The larger number of machines that rows without labels allow",
    question="How many machines does (3.25) allow with rows without labels, and what do they cost?",
    protocol={"kernel": "Sobolev 1", "r": 1.0, "noise": 1.0, "seed": 18004, "draws": 4, "size": (256, 512)}
    | {"machines": (16, 32), "times": ([1, 4, 8, 16], [1, 2, 4, 8, 16])}
    | {"tried": ([4, 16, 64], [2, 4, 8, 16, 32, 64, 128, 256]), "most_rows": (256, 1024)}
    | {"repetitions": (16, 14), "resolution": (0.08, 0.05)},
    measure=_errors_with_unlabeled,
    judge=_judge_unlabeled,
    notes=(
        "λ is the best of the population for N labels, everywhere.",
        "Inflated labels add the variance of f itself to that of the noise. With noise of the size of the target, as "
        "here, that costs a few machines a quarter of their error or so, with less noise more; only many small blocks "
        "gain more than that. Corollary 3.2 keeps the rate, with another constant.",
    ),
)

EXPERIMENTS = (CONSTANT, RATE, DISTRIBUTED, UNLABELED)
