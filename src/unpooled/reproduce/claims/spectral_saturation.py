"""Tikhonov's saturation beyond its qualification, and that other filters have none.

The definition is that of Guo, Lin and Zhou (2017), Definition 1, (5).
"""

from __future__ import annotations

import math

import numpy as np

from ... import theory
from ...estimators import SpectralRegressor
from ...filters import as_filter
from ..curves import measured, power_law, root
from ..experiment import Advance, Experiment, Protocol
from ..inference import above, exponent, is_so, no_slower, ratio, together
from ..outcome import Curve, Outcome, Panel, Table, Verdict
from ..problems import PROBLEMS, Target, grid

ByFilter = dict[str, np.ndarray]


def run(protocol: Protocol, advance: Advance) -> Outcome:
    """Bias against λ without noise, and error against N with the best λ."""
    target = PROBLEMS[protocol["kernel"]]().target(protocol["r"])
    bias = {filter: biases(protocol, target, filter) for filter in protocol["filters"]}
    advance()
    squares = {filter: best_of_path(protocol, target, filter, advance) for filter in protocol["filters"]}
    panels = (_bias_panel(protocol, target, bias), _rate_panel(protocol, target, squares))
    verdicts = _verdicts(protocol, target, bias, squares)
    return Outcome((_table(protocol, target, bias, squares),), panels, verdicts, NOTES)


NOTES = (
    "Bias: labels without noise on evenly spread rows, so that nothing but the filter is left.",
    "Error against N: λ is the oracle's, the one of the grid with the least mean squared error at that N. Even the "
    "best λ does not help Tikhonov: its bias is of order λ for every target that is not zero.",
)


def biases(protocol: Protocol, target: Target, filter: str) -> np.ndarray:
    """‖f_λ - f‖ for every λ."""
    n = protocol["bias_rows"]
    x = (np.arange(n) + 0.5) / n
    fits = (SpectralRegressor(target.known.kernel, filter, lam) for lam in protocol["bias_lams"])
    labels = target(x)
    return np.sqrt([target.error_of(model.fit(x[:, None], labels)) for model in fits])


def best_of_path(protocol: Protocol, target: Target, filter: str, advance: Advance) -> np.ndarray:
    """Squared errors (repetitions, sizes) at the λ that is best on average."""
    p = protocol
    lams = target.known.kappa_sq * np.geomspace(p["lam_least"], 1.0, p["n_lams"])
    model = SpectralRegressor(target.known.kernel, filter, lams)
    columns = []
    for n in p["sizes"]:
        found = np.empty((p["repetitions"], len(lams)))
        for i in range(p["repetitions"]):
            X, Y = target.draw(np.random.default_rng([p["seed"], n, i]), n, p["noise"], p["draws"])
            found[i] = target.squared_error(model.fit(X, Y).path_.predict(grid()[:, None]))
        columns.append(found[:, np.argmin(found.mean(axis=0))])
        advance()
    return np.stack(columns, axis=1)


def slope_in_lam(protocol: Protocol, bias: np.ndarray) -> float:
    """b of bias ∝ λ^b."""
    return float(np.polyfit(np.log(protocol["bias_lams"]), np.log(bias), 1)[0])


def shares_of_bound(protocol: Protocol, target: Target, filter: str, bias: np.ndarray) -> np.ndarray:
    """bias/(γ_r λ^r ‖u‖): at most one where (22) holds. f = L_K^r u, and γ_r is the filter's own."""
    u = target.coefficients / target.known.eigenvalues**target.r
    bound = as_filter(filter).gamma(target.r) * np.asarray(protocol["bias_lams"]) ** target.r * np.linalg.norm(u)
    return np.asarray(bias / bound)


def rate_exponent(target: Target, filter: str) -> float:
    """r/(2r+β), r capped by the filter's qualification."""
    return -math.log10(theory.rate(10, target.r, target.known.beta, filter=filter))


def _table(protocol: Protocol, target: Target, bias: ByFilter, squares: ByFilter) -> Table:
    rows = []
    for filter, found in squares.items():
        nu = as_filter(filter).qualification
        rows.append(
            (
                filter,
                "∞" if math.isinf(nu) else f"{nu:g}",
                slope_in_lam(protocol, bias[filter]),
                min(target.r, nu),
                str(exponent(protocol["sizes"], found)),
                rate_exponent(target, filter),
                "" if filter == "landweber" else str(ratio(found[:, -1], squares["landweber"][:, -1])),
            )
        )
    heads = ("filter", "qualification", "bias ∝ λ^", "theory", "error ∝ N^- [95 %]", "theory", "error / Landweber's")
    title = f"{target.known.name}, r = {target.r:g}; the last column at N = {protocol['sizes'][-1]}"
    return Table(title, heads, tuple(rows))


def _bias_panel(protocol: Protocol, target: Target, bias: ByFilter) -> Panel:
    lams = protocol["bias_lams"]
    curves = [Curve(filter, tuple(lams), tuple(found.tolist())) for filter, found in bias.items()]
    for power, filter in ((1.0, "tikhonov"), (target.r, "landweber")):
        line = tuple(float(bias[filter][0] * (lam / lams[0]) ** power) for lam in lams)
        curves.append(Curve(f"λ^{power:g}", tuple(lams), line, style="theory"))
    return Panel(f"No noise, r = {target.r:g}", "λ", "‖f_λ - f‖ in L²", tuple(curves))


def _rate_panel(protocol: Protocol, target: Target, squares: ByFilter) -> Panel:
    sizes = protocol["sizes"]
    curves = [measured(filter, sizes, found) for filter, found in squares.items()]
    for filter in ("tikhonov", "landweber"):
        curves.append(power_law(sizes, root(squares[filter][:, 0]), rate_exponent(target, filter)))
    return Panel("With noise, λ of the oracle", "N, labels", "‖f̂ - f‖ in L²", tuple(curves))


def _verdicts(protocol: Protocol, target: Target, bias: ByFilter, squares: ByFilter) -> tuple[Verdict, ...]:
    sizes = protocol["sizes"]
    each = [
        no_slower(filter, exponent(sizes, found), rate_exponent(target, filter), protocol["resolution"])
        for filter, found in squares.items()
    ]
    shares = {filter: shares_of_bound(protocol, target, filter, found) for filter, found in bias.items()}
    kept = max(float(shares[filter].max()) for filter in ("cutoff", "landweber"))
    growth = float(shares["tikhonov"][-1] / shares["tikhonov"][0])
    fall = protocol["bias_lams"][0] / protocol["bias_lams"][-1]
    lost = exponent(sizes, squares["landweber"], over=squares["tikhonov"])
    return (
        is_so(
            f"(22): the biases of cut-off and Landweber are at most γ_r λ^r ‖u‖, also for r = {target.r:g}",
            kept <= 1,
            f"at most {kept:.2g} of the bound over all λ",
        ),
        is_so(
            f"(22) ends at the qualification: for Tikhonov no constant will do with r = {target.r:g}",
            growth > fall**0.5,
            f"its bias grows {growth:.3g}-fold beside λ^r while λ falls {fall:.3g}-fold",
        ),
        together("Theorem 2 with r capped by the qualification: no filter's error falls more slowly in N", each),
        above(
            "Saturation in N: even with the best λ Tikhonov's error falls more slowly than Landweber's",
            lost,
            0.0,
            "difference of the exponents",
        ),
    )


SHARED = {
    "kernel": "Sobolev 1",
    "r": 2.0,
    "filters": ["tikhonov", "iterated-tikhonov", "cutoff", "landweber"],
    "noise": 0.1,
    "seed": 17002,
    "bias_lams": [0.4, 0.28, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025],
    "lam_least": 1e-4,
    "resolution": 0.08,
}

EXPERIMENT = Experiment(
    name="001-saturation",
    title="Saturation of Tikhonov beyond r = 1, and its absence for cut-off and Landweber",
    question="Does regularity beyond a filter's qualification help it? Definition 1, Examples 1 to 3 and Theorem 2.",
    quick={
        **SHARED,
        "sizes": [64, 128, 256, 512],
        "repetitions": 8,
        "draws": 3,
        "n_lams": 15,
        "bias_rows": 512,
    },
    full={
        **SHARED,
        "sizes": [64, 128, 256, 512, 1024],
        "repetitions": 24,
        "draws": 4,
        "n_lams": 31,
        "bias_rows": 2048,
    },
    steps=lambda protocol: 1 + len(protocol["filters"]) * len(protocol["sizes"]),
    run=run,
)
