"""Robustness under outliers and heavy tails: correntropy, least squares, Huber's loss and minimum error entropy.

The claim is that of Xie, Hu, Wang and Wang (2022). They compare correntropy with minimum error entropy (MEE), which is
here by kernel gradient descent, for that comparison only.

With residuals e_i = y_i - f(x_i), w_ij = exp(-(e_i - e_j)²/(2h²)) and from f = 0,

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

from ...estimators import CorrentropyRegressor
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, below, together, typical_ratio
from ..outcome import Cell, Curve, Outcome, Panel, Table
from ..problems import PROBLEMS, Target, grid


def descend(
    K: np.ndarray, y: np.ndarray, K_new: np.ndarray, h: float, stops: Sequence[int], kappa_sq: float
) -> np.ndarray:
    """Predictions (stops, new rows) after each number of steps; K is of the rows, K_new of new rows by rows."""
    c, predicted = np.zeros(len(y)), np.empty((len(stops), len(K_new)))
    for t in range(1, max(stops) + 1):
        e = y - K @ c
        gaps = e[:, None] - e[None, :]
        pulls = np.sum(np.exp(-0.5 * (gaps / h) ** 2) * gaps, axis=1)
        c += pulls / (kappa_sq * len(y) ** 2)  # η·2 = 1/κ²
        if t in stops:
            predicted[list(stops).index(t)] = K_new @ c + densest(y - K @ c, h)
    return predicted


def densest(e: np.ndarray, h: float) -> float:
    """The fixed point b nearest to the median."""
    b = float(np.median(e))
    for _ in range(50):
        weights = np.exp(-0.5 * ((e - b) / h) ** 2)
        b = float(weights @ e / np.sum(weights))
    return b


LEAST_SQUARES, HUBER, MEE, CORRENTROPY = "least squares", "Huber", "MEE", "correntropy"
AUTO = "correntropy, σ and T from the data"
CLEAN, TAILS = "bounded noise", "Student t, 1.5"


def kinds(protocol: Protocol) -> list[str]:
    """What is wrong with the labels."""
    return [CLEAN, *(f"{share:.0%} outliers" for share in protocol["shares"]), TAILS]


def labels(protocol: Protocol, target: Target, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels; outliers are off by 5 to 15, all upwards."""
    n = int(protocol["size"])
    x = rng.random(n)
    noise = rng.standard_t(1.5, n) if kind == TAILS else math.sqrt(3) * rng.uniform(-1, 1, n)
    y = target(x) + protocol["noise"] * noise
    share = float(kind.split("%")[0]) / 100 if "outliers" in kind else 0.0
    return x[:, None], np.where(rng.random(n) < share, y + rng.uniform(5, 15, n), y)


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """Every method at its best scale and stop, and correntropy as it comes."""
    target = PROBLEMS[protocol["kernel"]]().target(protocol["r"])
    squares: dict[tuple[str, str], np.ndarray] = {}
    for number, kind in enumerate(kinds(protocol)):
        found: dict[str, list[np.ndarray]] = {}
        for i in range(protocol["repetitions"]):
            rng = np.random.default_rng([protocol["seed"], number, i])
            for method, errors in errors_of_all(protocol, target, *labels(protocol, target, kind, rng)).items():
                found.setdefault(method, []).append(errors)
            advance()
        for method, tried in found.items():
            table = np.asarray(tried).reshape(protocol["repetitions"], -1)
            squares[kind, method] = table[:, np.argmin(np.log(table).mean(axis=0))]
    return _told(protocol, squares)


def errors_of_all(protocol: Protocol, target: Target, X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Squared errors (scales, stops) of every method."""
    kernel, kappa_sq, points = target.known.kernel, target.known.kappa_sq, grid()[:, None]
    stops = protocol["stops"]

    def path(loss: str, scale: float) -> np.ndarray:
        model = CorrentropyRegressor(kernel, scale, max(stops), loss=loss).fit(X, y)
        predicted = model.path_.predict(points)
        return np.asarray([target.squared_error(row) for row in predicted])

    K, K_new = kernel(X), kernel(points, X)
    return {
        LEAST_SQUARES: path("squared", 1.0)[None],
        HUBER: np.stack([path("huber", scale) for scale in protocol["huber"]]),
        MEE: np.stack(
            [
                [target.squared_error(row) for row in descend(K, y, K_new, h, stops, kappa_sq)]
                for h in protocol["scales"]
            ]
        ),
        CORRENTROPY: np.stack([path("correntropy", scale) for scale in protocol["scales"]]),
        AUTO: np.asarray([[target.error_of(CorrentropyRegressor(kernel).fit(X, y))]]),
    }


def _typical(squares: np.ndarray) -> float:
    """The geometric mean of errors: with tails this heavy a mean of squares is its largest term."""
    return float(np.exp(0.5 * np.log(squares).mean()))


def _told(protocol: Protocol, squares: dict[tuple[str, str], np.ndarray]) -> Outcome:
    methods = (LEAST_SQUARES, HUBER, MEE, CORRENTROPY, AUTO)
    n, slack = protocol["size"], protocol["slack"]
    rows: list[tuple[Cell, ...]] = []
    worse = []
    for kind in kinds(protocol):
        gain = typical_ratio(squares[kind, LEAST_SQUARES], squares[kind, CORRENTROPY])
        rows.append((kind, *(_typical(squares[kind, method]) for method in methods), str(gain)))
        if kind != CLEAN:
            worse.append(above(kind, gain, 1.0, "error of least squares over correntropy's"))
    heads = ("labels", *methods, "least squares / correntropy")
    table = Table(f"Errors in L², N = {n}; every method but the last at its best scale and stop", heads, tuple(rows))
    clean = squares[CLEAN, CORRENTROPY]
    doubled = [
        below(kind, typical_ratio(squares[kind, CORRENTROPY], clean), 2.0, "error over that without outliers")
        for kind in kinds(protocol)
        if kind not in (CLEAN, TAILS)
    ]
    against_mee = [
        below(kind, typical_ratio(squares[kind, CORRENTROPY], squares[kind, MEE]), slack, "ratio")
        for kind in kinds(protocol)
    ]
    price = typical_ratio(squares[CLEAN, CORRENTROPY], squares[CLEAN, LEAST_SQUARES])
    verdicts = (
        together("Where labels are wrong or heavy-tailed, correntropy does better than least squares", worse),
        below(
            f"With bounded noise it costs next to nothing beside least squares (less than {slack - 1:.0%})",
            price,
            slack,
            "ratio of errors",
        ),
        together(
            f"Up to {max(protocol['shares']):.0%} of outliers, all on one side, at most double its error", doubled
        ),
        together(f"§3: it does as well as MEE, whose steps cost N² (within {slack - 1:.0%})", against_mee),
    )
    shares = [0.0, *protocol["shares"]]
    curves = []
    for method in methods:
        y = [_typical(squares[kind, method]) for kind in kinds(protocol) if kind != TAILS]
        curves.append(Curve(method, tuple(100 * share for share in shares), tuple(y)))
    panel = Panel(f"Outliers on one side, N = {n}", "outliers, %", "error in L²", tuple(curves), x_log=False)
    return Outcome((table,), (panel,), verdicts, NOTES)


NOTES = (
    "Errors are geometric means over repetitions. All methods have the same kernel. The best scale and number of steps "
    "are an oracle's, one choice for all repetitions. The last column of errors had no oracle. The margins in the "
    "claims are what so many repetitions of such a size can tell apart.",
    "Outliers are gross, 5 to 15 where the target has norm 1 and the noise 0.3. MEE is a plain implementation of its "
    "definition, for this comparison.",
)

SHARED = {
    "kernel": "Sobolev 1",
    "r": 1.0,
    "noise": 0.3,
    "seed": 22001,
    "stops": [8, 16, 32, 64, 128],
}

EXPERIMENT = Experiment(
    name="003-robust",
    title="Robustness under outliers and heavy tails",
    question="Does correntropy hold where least squares does not? And beside Huber's loss and MEE? §3.",
    quick={
        **SHARED,
        "size": 128,
        "repetitions": 20,
        "slack": 1.2,
        "shares": [0.2],
        "scales": [0.5, 1.0, 2.0],
        "huber": [0.1, 0.4],
    },
    full={
        **SHARED,
        "size": 400,
        "repetitions": 20,
        "slack": 1.1,
        "shares": [0.05, 0.1, 0.2, 0.3, 0.4],
        "scales": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
        "huber": [0.05, 0.1, 0.2, 0.4, 0.8, 1.6],
    },
    steps=lambda protocol: len(kinds(protocol)) * protocol["repetitions"],
    run=run,
)
