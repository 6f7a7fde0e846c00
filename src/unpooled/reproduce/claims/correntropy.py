"""Claims on maximum correntropy, of Xie, Hu, Wang and Wang (2022), who compare it with minimum error entropy (MEE).

MEE is here by kernel gradient descent, for that comparison only. With residuals e_i = y_i - f(x_i),
w_ij = exp(-(e_i - e_j)²/(2h²)) and from f = 0,

    f ← f + η (1/N²) Σ_ij w_ij (e_i - e_j)(K_{x_i} - K_{x_j}) = f + η (2/N²) Σ_i [Σ_j w_ij (e_i - e_j)] K_{x_i}.

Only differences of residuals enter, so f is known up to a constant. The constant is where the residuals are densest at
the scale h, the fixed point b = Σ w_i e_i/Σ w_i with w_i = exp(-(e_i - b)²/(2h²)) that is reached from their median.
The median itself would give way to outliers on one side. η = 1/(2κ²): with h → ∞ these are the steps of Landweber on
centred residuals. Every step costs N² exponentials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import theory
from ...estimators import CorrentropyRegressor
from ..experiment import Experiment, Measurements, Numbers, Protocol, Setting
from ..inference import above, below, exponent, make_curve, no_slower, ratio, root, together, typical_ratio
from ..outcome import Cell, Outcome, Panel, Table, line, power_law
from ..problems import Target, find_target, fit_average, grid


def _descend(
    K: np.ndarray, y: np.ndarray, K_new: np.ndarray, h: float, stops: Sequence[int], kappa_sq: float
) -> np.ndarray:
    """Predictions (stops, new rows) of MEE after each number of steps; K is of the rows, K_new of new rows by rows."""
    c, predicted = np.zeros(len(y)), np.empty((len(stops), len(K_new)))
    for t in range(1, max(stops) + 1):
        e = y - K @ c
        gaps = e[:, None] - e[None, :]
        pulls = np.sum(np.exp(-0.5 * (gaps / h) ** 2) * gaps, axis=1)
        c += pulls / (kappa_sq * len(y) ** 2)  # η·2 = 1/κ²
        if t in stops:
            predicted[list(stops).index(t)] = K_new @ c + _densest(y - K @ c, h)
    return predicted


def _densest(e: np.ndarray, h: float) -> float:
    """The fixed point b nearest to the median."""
    b = float(np.median(e))
    for _ in range(50):
        weights = np.exp(-0.5 * ((e - b) / h) ** 2)
        b = float(weights @ e / np.sum(weights))
    return b


LEAST_SQUARES, HUBER, MEE, CORRENTROPY = "least squares", "Huber", "MEE", "correntropy"
AUTO = "correntropy, σ and T from the data"
METHODS = (LEAST_SQUARES, HUBER, MEE, CORRENTROPY, AUTO)
CLEAN, TAILS = "bounded noise", "Student t, 1.5"


def _faults(p: Protocol) -> list[str]:
    """The faults of the labels."""
    return [CLEAN, *(f"{share:.0%} outliers" for share in p["shares"]), TAILS]


def _draw_rows(p: Protocol, target: Target, fault: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows and labels; outliers are off by 5 to 15, all upwards."""
    n = int(p["size"])
    x = rng.random(n)
    noise = rng.standard_t(1.5, n) if fault == TAILS else math.sqrt(3) * rng.uniform(-1, 1, n)
    y = target(x) + p["noise"] * noise
    share = float(fault.split("%")[0]) / 100 if "outliers" in fault else 0.0
    return x[:, None], np.where(rng.random(n) < share, y + rng.uniform(5, 15, n), y)


def _errors_of_methods(p: Protocol, at: Setting) -> Numbers:
    """Of every method at every scale and stop, and of correntropy as it comes."""
    target, stops = find_target(p["kernel"], p["r"]), p["stops"]
    X, y = _draw_rows(p, target, at.case, at.rng())
    kernel, points = target.kernel, grid()[:, None]
    K, K_new = kernel(X), kernel(points, X)

    def over_scales(loss: str, scales: Sequence[float]) -> list[float]:
        models = (
            CorrentropyRegressor(kernel, scale, max(stops), loss=loss, fit_intercept=False).fit(X, y)
            for scale in scales
        )
        return [target.squared_error(row) for model in models for row in model.path_.predict(points)]

    by_mee = (_descend(K, y, K_new, h, stops, target.known.kappa_sq) for h in p["scales"])
    return {
        LEAST_SQUARES: over_scales("squared", [1.0]),
        HUBER: over_scales("huber", p["huber"]),
        MEE: [target.squared_error(row) for predicted in by_mee for row in predicted],
        CORRENTROPY: over_scales("correntropy", p["scales"]),
        AUTO: [target.error_of(CorrentropyRegressor(kernel, fit_intercept=False).fit(X, y))],
    }


def _judge_robust(p: Protocol, data: Measurements) -> Outcome:
    """Every method at its best scale and stop; by geometric means, since a mean of squares is its largest term."""
    n, slack = p["size"], p["slack"]
    squares: dict[tuple[str, str], np.ndarray] = {}
    for number, fault in enumerate(_faults(p)):
        for method in METHODS:
            tried = data.at(method, number)
            squares[fault, method] = tried[:, np.argmin(np.log(tried).mean(axis=0))]
    typical = {key: float(np.exp(0.5 * np.log(errors).mean())) for key, errors in squares.items()}
    gains = {fault: typical_ratio(squares[fault, LEAST_SQUARES], squares[fault, CORRENTROPY]) for fault in _faults(p)}
    clean, outliers = squares[CLEAN, CORRENTROPY], _faults(p)[1:-1]
    worse = [
        above(f, gain, 1.0, "error of least squares over correntropy's") for f, gain in gains.items() if f != CLEAN
    ]
    doubled = [
        below(f, typical_ratio(squares[f, CORRENTROPY], clean), 2.0, "error over that without outliers")
        for f in outliers
    ]
    against_mee = [
        below(f, typical_ratio(squares[f, CORRENTROPY], squares[f, MEE]), slack, "ratio") for f in _faults(p)
    ]
    cheap = f"With bounded noise it costs almost nothing compared with least squares (less than {slack - 1:.0%})"
    verdicts = (
        together("Where labels are wrong or heavy-tailed, correntropy does better than least squares", worse),
        below(cheap, typical_ratio(clean, squares[CLEAN, LEAST_SQUARES]), slack, "ratio of errors"),
        together(f"Up to {max(p['shares']):.0%} of outliers, all on one side, at most double its error", doubled),
        together(f"§3: it does as well as MEE, whose steps cost N² (within {slack - 1:.0%})", against_mee),
    )
    heads = ("labels", *METHODS, "least squares / correntropy")
    rows: list[tuple[Cell, ...]] = [(f, *(typical[f, method] for method in METHODS), str(gains[f])) for f in _faults(p)]
    table = Table(f"Errors in L², N = {n}; every method but the last at its best scale and stop", heads, tuple(rows))
    percent = [100 * share for share in (0.0, *p["shares"])]
    curves = [line(m, percent, (typical[f, m] for f in (CLEAN, *outliers)), "measured") for m in METHODS]
    panel = Panel(f"Outliers on one side, N = {n}", "outliers, %", "error in L²", tuple(curves), x_log=False)
    return Outcome((table,), (panel,), verdicts)


ROBUST = Experiment(
    name="correntropy-robust",
    title="Robustness under outliers and heavy tails",
    question="Is correntropy accurate where least squares is not? How does it compare with Huber's loss and MEE?",
    protocol={"kernel": "Sobolev 1", "r": 1.0, "noise": 0.3, "seed": 22001, "stops": [8, 16, 32, 64, 128]}
    | {"size": (128, 400), "repetitions": 20, "slack": (1.2, 1.1), "shares": ([0.2], [0.05, 0.1, 0.2, 0.3, 0.4])}
    | {"scales": ([0.5, 1.0, 2.0], [0.25, 0.5, 1.0, 2.0, 4.0, 8.0])}
    | {"huber": ([0.1, 0.4], [0.05, 0.1, 0.2, 0.4, 0.8, 1.6])},
    cases=_faults,
    measure=_errors_of_methods,
    judge=_judge_robust,
    notes=(
        "Errors are geometric means over repetitions. All methods have the same kernel. The best scale and number of "
        "steps are an oracle's, one choice for all repetitions. The last column of errors had no oracle. The margins "
        "in the claims are what so many repetitions of such a size can tell apart.",
        "Outliers are gross, 5 to 15 where the target has norm 1 and the noise 0.3. MEE is a plain implementation of "
        "its definition, for this comparison.",
    ),
)


def _steps(p: Protocol, target: Target, n: int) -> int:
    """T: what κ²/λ of the population stands for at the first N, then growing like N^{1/(2r+s)}."""
    first = p["sizes"][0]
    start = target.known.kappa_sq / target.best_lam("landweber", first, p["noise"])
    growth = theory.lam(first, target.r, target.beta) / theory.lam(n, target.r, target.beta)
    return max(1, round(start * growth))


def _spoil(rng: np.random.Generator, Y: np.ndarray, share: float) -> np.ndarray:
    """Move a share of the labels up by 5 to 15."""
    off = rng.uniform(5, 15, Y.shape)
    return np.where(rng.random(Y.shape) < share, Y + off, Y)


def _errors_over_scales(p: Protocol, at: Setting) -> Numbers:
    """One T, every σ: how far from least squares; at the largest N how far from the target, also with outliers."""
    target, n, rng = find_target(p["kernel"], p["r"]), at.size, at.rng()
    T = _steps(p, target, n)
    X, Y = target.draw(rng, n, p["noise"], p["draws"])

    def predict(labels: np.ndarray, scale: float) -> np.ndarray:
        model = CorrentropyRegressor(target.kernel, scale, T, jump=0.0, fit_intercept=False)  # every step is taken
        return np.asarray(model.fit(X, labels).predict(grid()[:, None]))

    plain, own = predict(Y, math.inf), [predict(Y, scale) for scale in p["scales"]]
    numbers = {"gaps": [np.mean((predicted - plain) ** 2) for predicted in own]}
    if n == p["sizes"][-1]:
        bad = _spoil(rng, Y, p["share"])
        theirs = theory.scale(n, p["r"], target.beta)
        numbers["clean"] = [target.squared_error(predicted) for predicted in own]
        *dirty, numbers["theirs"] = (target.squared_error(predict(bad, scale)) for scale in (*p["scales"], theirs))
        numbers["dirty"] = dirty
    return numbers


def _judge_scale(p: Protocol, data: Measurements) -> Outcome:
    """The error against the scale σ of the correntropy loss, and the use of the σ of Corollary 1."""
    target, scales, sizes, share = find_target(p["kernel"], p["r"]), p["scales"], p["sizes"], p["share"]
    n, gaps = sizes[-1], [data.at("gaps", 0, j) for j in range(len(sizes))]
    theirs, clean, dirty = theory.scale(n, p["r"], target.beta), data.at("clean"), data.at("dirty")
    large = [k for k, scale in enumerate(scales) if scale >= p["large_from"]]
    in_scale = exponent([scales[k] for k in large], gaps[-1][:, large], paired=True)
    in_n = exponent(sizes, np.stack([own[:, -1] for own in gaps], axis=1))
    growth, best = 5 / (2 * (2 * target.r + target.beta)), int(np.argmin(dirty.mean(axis=0)))
    falls = "Proposition 1: the distance from least squares falls at least like σ^-2"
    grows = f"Corollary 1: at one σ that distance, N^-a, grows no faster than N^{growth:.2f}: a ≥ -{growth:.2f}"
    moderate = f"A moderate σ = {scales[best]:g} does better under outliers than the σ = {theirs:.0f} for which"
    gain = ratio(data.at("theirs"), dirty[:, best])
    verdicts = (
        no_slower(falls, in_scale, 2.0, p["resolution"]),
        no_slower(grows, in_n, -growth, 1.0),
        above(f"{moderate} Corollary 1 has the rate", gain, 1.0, "ratio of errors"),
    )
    rows = [
        (scale, *(root(own[:, k]) for own in gaps), root(clean[:, k]), root(dirty[:, k]))
        for k, scale in enumerate(scales)
    ]
    title = f"{target.known.name}, r = {target.r:g}, T by the schedule; no outliers but in the last column"
    distances = (f"‖f_σ - f_∞‖, N = {size}" for size in sizes)
    table = Table(title, ("σ", *distances, f"error, N = {n}", f"{share:.0%} outliers"), tuple(rows))
    distance = make_curve("‖f_σ - f_∞‖", scales, gaps[-1])
    law = line("σ^-2", scales, (distance.y[-1] * (scale / scales[-1]) ** -2 for scale in scales))
    errors = (make_curve("bounded noise", scales, clean), make_curve(f"{share:.0%} outliers", scales, dirty))
    mark = ((f"σ of Corollary 1, {theirs:.0f}", theirs),)
    panels = (
        Panel(f"N = {n}", "σ", "‖f̂ - f‖ in L²", errors, mark),
        Panel(f"N = {n}, bounded noise", "σ", "‖f_σ - f_∞‖ in L²", (distance, law), mark),
    )
    note = (
        f"Theorem 1 prints N^{{5/(2r+s)}}σ^-2 for this distance, Proposition 1 and Corollary 1 have N^{{5/(2(2r+s))}}; "
        f"what is measured at the largest σ is N^{-in_n.value:.2f}. Both are upper bounds, and far above."
    )
    return Outcome((table,), panels, verdicts, (note,))


SCALE = Experiment(
    name="correntropy-scale",
    title="The error against σ",
    question="What does the scale of the loss cost, and what does it buy? Proposition 1 and Corollary 1.",
    protocol={"kernel": "Sobolev 1", "r": 1.0, "noise": 0.3, "seed": 22002, "share": 0.2, "large_from": 4.0}
    | {"resolution": 0.1, "sizes": ([64, 256], [64, 256, 1024])}
    | {"scales": ([0.25 * 2**k for k in range(8)], [0.125 * 2**k for k in range(10)])}
    | {"repetitions": (5, 12), "draws": 4},
    measure=_errors_over_scales,
    judge=_judge_scale,
    notes=("A σ that the theorem allows clips nothing: there correntropy is least squares, with its outliers.",),
)


def _most_machines(target: Target, n: int) -> int:
    """⌊N^{(r-1/2)/(2r+s)}⌋: (8) without its log⁵N."""
    return max(1, int(n ** ((target.r - 0.5) / (2 * target.r + target.beta))))


def _counts(p: Protocol, target: Target) -> list[int]:
    """The m that are tried with outliers."""
    return sorted({*p["machines"], _most_machines(target, p["sizes"][-1])})


def _errors_of_averages(p: Protocol, at: Setting) -> Numbers:
    """With the theorem's σ over the machines of (8); at the largest N a moderate σ with outliers, over every m."""
    target, n, rng = find_target(p["kernel"], p["r"]), at.size, at.rng()
    T = _steps(p, target, n)
    X, Y = target.draw(rng, n, p["noise"], p["draws"])

    def error(scale: float, m: int, labels: np.ndarray) -> float:
        local = CorrentropyRegressor(target.kernel, scale, T, jump=0.0, fit_intercept=False)
        return target.error_of(fit_average(local, m, X, labels, at.repetition))

    numbers = {"rate": error(theory.scale(n, target.r, target.beta), _most_machines(target, n), Y)}
    if n < p["sizes"][-1]:
        return numbers
    bad, scales = _spoil(rng, Y, p["share"]), {CORRENTROPY: p["scale"], LEAST_SQUARES: math.inf}
    return numbers | {name: [error(s, m, bad) for m in _counts(p, target)] for name, s in scales.items()}


def _judge_distributed(p: Protocol, data: Measurements) -> Outcome:
    """The rate of Corollary 1, and outliers against the number m of machines."""
    target, sizes, n = find_target(p["kernel"], p["r"]), p["sizes"], p["sizes"][-1]
    r, s, squares, ms = target.r, target.beta, data.over("rate"), _counts(p, target)
    limits, order, slope = [_most_machines(target, size) for size in sizes], r / (2 * r + s), exponent(sizes, squares)
    robust, plain = data.at(CORRENTROPY), data.at(LEAST_SQUARES)
    kept = [
        below(f"m = {m}", ratio(robust[:, k], robust[:, 0]), p["slack"], "ratio")
        for k, m in enumerate(ms)
        if 1 < m <= limits[-1]
    ]
    better = [above(f"m = {m}", ratio(plain[:, k], robust[:, k]), 1.0, "ratio") for k, m in enumerate(ms)]
    setting = f"{p['share']:.0%} outliers, σ = {p['scale']:g}"
    within = f"{setting}: up to that many machines the error stays within {p['slack'] - 1:.0%} of one machine's"
    keep = "Corollary 1: averages over N^{(r-1/2)/(2r+s)} machines, (8) without its log⁵N, keep N^{-r/(2r+s)}"
    verdicts = (
        no_slower(keep, slope, order, p["resolution"]),
        together(within, kept),
        together(f"{setting}: averages of correntropy fits do better than those of least squares", better),
    )
    allowed = [theory.partition_limit(size, r, s, "correntropy") for size in sizes]
    over_n = tuple((size, limits[j], root(squares[:, j]), allowed[j]) for j, size in enumerate(sizes))
    over_m = tuple((m, root(robust[:, k]), root(plain[:, k])) for k, m in enumerate(ms))
    title = f"Bounded noise, σ and T of Corollary 1: exponent {slope}, theory {order:.3f}"
    tables = (
        Table(title, ("N", "m", "error", "(8) with its log⁵N"), over_n),
        Table(f"N = {n}, {setting}", ("m", CORRENTROPY, LEAST_SQUARES), over_m),
    )
    rates = make_curve("averages, σ of Corollary 1", sizes, squares)
    curves = (make_curve(CORRENTROPY, ms, robust), make_curve(LEAST_SQUARES, ms, plain))
    mark = (("(8) without its log", float(limits[-1])),)
    panels = (
        Panel("Bounded noise", "N, labels in all", "‖f̄ - f‖ in L²", (rates, power_law(sizes, rates.y[0], order))),
        Panel(f"{p['share']:.0%} outliers, N = {n}", "m, machines", "‖f̄ - f‖ in L²", curves, mark),
    )
    note = f"(8) as it stands allows {allowed[-1]:.1e} machines at N = {n}: its log⁵N is there for the proof."
    return Outcome(tables, panels, verdicts, (note,))


DISTRIBUTED = Experiment(
    name="correntropy-distributed",
    title="Distributed correntropy: the rate, and outliers against m",
    question="Do averages of correntropy fits keep the rate, and their robustness? Theorem 1, Corollary 1, (8).",
    protocol={"kernel": "Sobolev 1", "r": 1.0, "noise": 0.3, "seed": 22003, "share": 0.2, "scale": 2.0, "slack": 1.15}
    | {"sizes": ([64, 128, 256, 512], [64, 128, 256, 512, 1024, 2048])}
    | {"machines": ([1, 4, 16], [1, 2, 4, 8, 16, 32, 64]), "repetitions": (8, 16), "draws": 4}
    | {"resolution": (0.08, 0.05)},
    measure=_errors_of_averages,
    judge=_judge_distributed,
)

EXPERIMENTS = (ROBUST, SCALE, DISTRIBUTED)
