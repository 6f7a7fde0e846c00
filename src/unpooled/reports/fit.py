"""The choice of λ: the score of every value, its degrees of freedom, and the spectrum behind them.

The spectrum is the one that a model has learned in, and its effective dimension is 𝒩(λ) = Σ σ/(σ+λ).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import theory
from .._base.arrays import Floats
from .._base.html import Section, bullets, pair, readings, slider
from .._base.path import Tuning
from .._base.text import format_number
from .._solvers.predictors import BasisPredictor
from ..bases import Basis
from ..estimators.facts import ModelFacts
from ..estimators.paths import Family
from ..summaries import Summary
from .svg import Axis, Chart, figure

if TYPE_CHECKING:
    from .writing import Gathered


MAX_ROWS = 800  # points of a model that are decomposed: a second or so


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues from the largest down, and where they come from.

    ``exponent`` is the s of 𝒩(λ) ≈ C λ^{-s} where the points of a kernel show it, else None.
    """

    sigma: Floats
    source: str
    exponent: theory.DimensionExponent | None = None

    def dimension(self, lam: Any) -> Floats:
        """𝒩(λ)."""
        return np.sum(self.sigma / (self.sigma + np.asarray(lam, dtype=float)[..., None]), axis=-1)

    @property
    def grid(self) -> Floats:
        """λ from where 𝒩 is below one to where every eigenvalue that is more than rounding counts."""
        top = float(self.sigma[0])
        least = max(float(np.min(self.sigma[self.sigma > 0])), 1e-9 * top)
        return np.geomspace(0.3 * least, 3.0 * top, 49)


def spectrum_of(facts: ModelFacts, basis: Basis | None = None) -> Spectrum | str:
    """The spectrum, or a sentence that says why there is none."""
    summary = facts.summary
    if summary is not None and summary.order == 2:
        noisy = " (with its noise)" if summary.privacy is not None else ""
        return _kept(_second_order(facts, summary), f"the covariance of the features over all rows{noisy}")
    basis = facts.basis if basis is None else basis
    return _of_points(facts) if basis is None else spectrum_of_basis(basis)


def spectrum_of_basis(basis: Basis) -> Spectrum | str:
    """That of the public sample a basis was made of."""
    return _kept(basis.eigenvalues_, f"the public sample of {basis.n_public_:,} rows")


def _second_order(facts: ModelFacts, summary: Summary) -> Floats:
    assert summary.gram is not None
    C = summary.gram / summary.weight
    if facts.center is not False and "phi" in summary.sums:
        mean = summary.feature_sum / summary.weight
        C = C - np.outer(mean, mean)
    return np.asarray(np.linalg.eigvalsh(C)[::-1], dtype=float)


def _kept(sigma: Floats, source: str) -> Spectrum | str:
    sigma = np.asarray(sigma, dtype=float)
    sigma = sigma[sigma > 8 * np.finfo(float).eps * max(float(sigma[0]), 0.0)]
    return Spectrum(sigma, source) if len(sigma) else "The features are zero on all rows: there is no spectrum."


def _of_points(facts: ModelFacts) -> Spectrum | str:
    if facts.expansion is None:
        return "The model holds neither its basis nor points of a kernel, so its spectrum is unknown here."
    kernel, points = facts.expansion
    center = bool(facts.center)
    try:
        sigma = theory.eigenvalues(kernel, points, center, max_rows=MAX_ROWS)
    except ValueError as error:
        return f"The spectrum cannot be told from the points of the model: {error}."
    try:
        exponent = theory.dimension_exponent(kernel, points, center, max_rows=MAX_ROWS)
    except ValueError:  # too few different points to tell
        exponent = None
    n = min(len(points), MAX_ROWS)
    some = f"{n:,} points" if n == len(points) else f"{n:,} of the {len(points):,} points"
    spectrum = _kept(sigma, f"{some} that the model holds")
    return spectrum if isinstance(spectrum, str) else Spectrum(spectrum.sigma, spectrum.source, exponent)


def family_of(facts: ModelFacts, basis: Basis | None = None) -> Family | None:
    """The functions along λ, rising, where the model holds them or its sums and basis give them again."""
    if facts.path is None:
        return None
    family: Family | None = facts.path.family(facts.target, own_norms=facts.solve_again is not None)
    if family is not None or facts.solve_again is None or basis is None:
        return family
    found, order = facts.solve_again(basis), np.argsort(facts.path.values)
    coef, b = found.coef[order, :, facts.target].T, found.intercept[order, facts.target]
    return Family(BasisPredictor(basis.map_, basis.coefficients_ @ coef, b), np.linalg.norm(coef, axis=0))


MOST_OTHERS = 12  # curves beside the chosen one
OF_A_ROUND = {
    "loss": "mean loss before it",
    "left": "left to learn",
    "mu": "price μ",
    "cut": "residuals cut at",
    "scale": "spread of residuals, believed",
    "degrees": "degrees of freedom",
    "error": "squared error of f, believed",
}
NEARLY_ALL = 0.9  # of the directions of a basis, from which a larger one is worth a try


def choice(known: Gathered, data: dict[str, Any]) -> Section:
    """The path and the spectrum. What the slider shows goes into ``data``."""
    tuning, spectrum = known.tuning, known.spectrum
    chosen = "λ" if known.facts.lam is not None else "The steps" if tuning is not None else "The plan"
    section = Section("choice", f"{chosen} and the spectrum")
    figures = []
    if tuning is None:
        _untuned(known, section)
    else:
        section.say(*_chosen(tuning))
        data["path"] = _path_data(known, tuning)
        said = data["path"]["at"][tuning.chosen]
        section.add(slider("along", f"Look at another {tuning.noun}", len(tuning.values), tuning.chosen, said))
        section.add(readings([(name, values[tuning.chosen]) for name, values in _readings(known, tuning)]))
        figures.append(_scores(tuning))
        if tuning.df is not None and np.isfinite(tuning.df[tuning.chosen]):
            figures.append(_tradeoff(tuning, tuning.df))
    if isinstance(spectrum, str):
        section.lack(spectrum)
        if tuning is not None and tuning.df is not None:
            figures.append(_freedom(tuning, tuning.values, tuning.df))
    else:
        figures += _spectrum(known, spectrum, section)
    if known.facts.history:
        figures.append(_rounds(known.facts.history))
    return section.add(pair(*figures)) if figures else section


def _untuned(known: Gathered, section: Section) -> None:
    facts = known.facts
    if facts.plan is not None:
        section.say("Nothing was tried on the records, which would have cost budget. This was decided beforehand:")
        section.add(bullets(str(facts.plan).splitlines()))
    elif facts.lam is not None:
        section.lack("λ was given and not chosen, so there is no path to show.")
    else:
        section.lack("Nothing was chosen from a path, so there is none to show.")


def _chosen(tuning: Tuning) -> list[str]:
    were = "was" if tuning.symbol == "λ" else "were"
    found = [f"{tuning.value(tuning.chosen)} {were} chosen among {len(tuning.values)} by {tuning.order}."]
    finite = tuning.score[np.isfinite(tuning.score)]
    if len(finite) > 2 and tuning.is_error:
        near = tuning.values[tuning.score <= 1.01 * tuning.score[tuning.chosen]]
        if len(near) > 1:
            found.append(
                f"Any {tuning.noun} from {format_number(float(near.min()))} to {format_number(float(near.max()))} "
                f"would have been "
                "within one per cent of it."
            )
    if tuning.chosen in (0, len(tuning.values) - 1):
        found.append("It lies at the end of what was tried: a wider range may do better.")
    return found


def _score_name(tuning: Tuning) -> str:
    return "expected error" if tuning.is_error else "mean bounded loss"


def _readings(known: Gathered, tuning: Tuning) -> list[tuple[str, list[str]]]:
    found = [(_score_name(tuning).capitalize(), [format_number(s) for s in tuning.score])]
    if tuning.df is not None:
        found.append(("Degrees of freedom", [format_number(d) for d in tuning.df]))
    family = known.family
    if family is not None and family.norms is not None:
        found.append(("Norm of the function", [format_number(n) for n in family.norms]))
    rows = known.rows
    if family is not None and rows is not None and rows.rows is not None and rows.labels is not None:
        wrong = np.asarray(family.predictor.predict(rows.rows)) - rows.labels[:, None]
        said = f"Error on {len(rows.labels):,} of the rows given"
        found.append((said, [format_number(e) for e in np.sqrt(np.mean(wrong * wrong, axis=0))]))
    return found


def _path_data(known: Gathered, tuning: Tuning) -> dict[str, Any]:
    return {
        "chosen": tuning.chosen,
        "at": [tuning.value(place) for place in range(len(tuning.values))],
        "readings": [values for _, values in _readings(known, tuning)],
    }


def _scores(tuning: Tuning) -> str:
    everything = [tuning.score, *(curve for _, curve in tuning.others[:MOST_OTHERS])]
    chart = Chart(Axis.over(_along(tuning), tuning.values, log=True), _score_axis(tuning, *everything))
    for _, curve in tuning.others[:MOST_OTHERS]:
        chart.line(tuning.values, curve, kind="other")
    chart.line(tuning.values, tuning.score)
    _cursor(chart, tuning)
    words = [f"{tuning.value(place)}: {format_number(s)}" for place, s in enumerate(tuning.score)]
    chart.dots(tuning.values, tuning.score, words, kind="ghost", radius=4)
    i = tuning.chosen
    chart.dots([tuning.values[i]], [tuning.score[i]], [f"chosen: {words[i]}"], radius=5)
    header = [tuning.symbol, tuning.name or _score_name(tuning), *(name for name, _ in tuning.others)]
    header += ["degrees of freedom"] if tuning.df is not None else []
    table = [
        [
            format_number(float(value)),
            format_number(float(tuning.score[i])) + (" chosen" if i == tuning.chosen else ""),
            *(format_number(float(curve[i])) for _, curve in tuning.others),
            *([format_number(float(tuning.df[i]))] if tuning.df is not None else []),
        ]
        for i, value in enumerate(tuning.values)
    ]
    beside = ""
    if tuning.others:
        named = [name for name, _ in tuning.others[:3]] + (["others"] if len(tuning.others) > 3 else [])
        beside = f" ({tuning.name}; in grey {', '.join(named)})"
    return figure("scores", chart, f"What every {tuning.noun} scored, by {tuning.order}{beside}", header, table)


def _score_axis(tuning: Tuning, *curves: np.ndarray) -> Axis:
    """Logarithmic where scores differ by much."""
    finite = np.concatenate([curve[np.isfinite(curve)] for curve in curves])
    wide = len(finite) > 0 and finite.min() > 0 and finite.max() > 3 * finite.min()
    return Axis.over(_score_name(tuning), finite, log=bool(wide))


def _tradeoff(tuning: Tuning, df: np.ndarray) -> str:
    chart = Chart(Axis.over("degrees of freedom", df, log=True), _score_axis(tuning, tuning.score))
    chart.line(df, tuning.score)
    _cursor(chart, tuning, df)
    words = [
        f"{format_number(float(d))} degrees of freedom: {format_number(float(s))}" for d, s in zip(df, tuning.score)
    ]
    chart.dots(df, tuning.score, words, kind="ghost", radius=4)
    table = [[format_number(float(d)), format_number(float(s))] for d, s in zip(df, tuning.score)]
    said = "What more degrees of freedom buy"
    return figure("tradeoff", chart, said, ["degrees of freedom", _score_name(tuning)], table)


def _along(tuning: Tuning) -> str:
    return "λ" if tuning.symbol == "λ" else "steps of descent"


def _cursor(chart: Chart, tuning: Tuning, values: np.ndarray | None = None) -> None:
    """A line that follows the slider; off the chart where a value is unknown."""
    values = tuning.values if values is None else values
    at = " ".join(f"{a:.1f}" for a in np.nan_to_num(chart.across(values), nan=-99.0))
    chart.upright(float(values[tuning.chosen]), kind="cursor", at=at)


def _spectrum(known: Gathered, spectrum: Spectrum, section: Section) -> list[str]:
    tuning = known.tuning if known.tuning is not None and known.tuning.symbol == "λ" else None
    lam = known.facts.lam
    said = [f"The eigenvalues are those of {spectrum.source}."]
    if lam is not None:
        above = int(np.sum(spectrum.sigma > lam))
        dimension = float(spectrum.dimension(lam))
        said.append(
            f"At λ = {format_number(lam)} the effective dimension 𝒩(λ) is {format_number(dimension)}: so many "
            f"directions are "
            f"learned, and {above:,} of {len(spectrum.sigma):,} eigenvalues lie above λ."
        )
        if dimension > NEARLY_ALL * len(spectrum.sigma) and known.facts.n_features is not None:
            said.append("Nearly all that the basis has is used: one of more features may do better.")
    if spectrum.exponent is not None:
        s = spectrum.exponent
        said.append(
            f"𝒩(λ) grows about as λ to the power −{s.s:.2f} ({s.low:.2f} to {s.high:.2f}): the smaller that number, "
            "the easier the kernel makes the problem."
        )
    section.say(*said)
    grid = spectrum.grid if tuning is None else tuning.values
    first = _freedom(tuning, grid, spectrum.dimension(grid), lam)
    n = np.arange(1, len(spectrum.sigma) + 1)
    shown = np.unique(np.geomspace(1, len(n), 60).round().astype(int)) - 1
    chart = Chart(Axis.over("number of the eigenvalue", n, log=True), Axis.over("eigenvalue", spectrum.sigma, log=True))
    if lam is not None and chart.y.low < lam < chart.y.high:
        chart.level(lam, words="λ")
    chart.line(n, spectrum.sigma)
    words = [f"eigenvalue {n[i]}: {format_number(float(spectrum.sigma[i]))}" for i in shown]
    chart.dots(n[shown], spectrum.sigma[shown], words, radius=2.5)
    table = [[f"{n[i]:,}", format_number(float(spectrum.sigma[i]))] for i in shown]
    second = figure("eigenvalues", chart, f"The eigenvalues of {spectrum.source}", ["number", "eigenvalue"], table)
    return [first, second]


def _freedom(tuning: Tuning | None, lam: Any, dimension: Any, mark: float | None = None) -> str:
    chart = Chart(Axis.over("λ", lam, log=True), Axis.over("effective dimension 𝒩(λ)", dimension, log=True))
    chart.line(lam, dimension)
    words = [f"λ = {format_number(float(a))}: {format_number(float(b))}" for a, b in zip(lam, dimension)]
    chart.dots(lam, dimension, words, kind="ghost", radius=4)
    if tuning is not None:
        _cursor(chart, tuning)
    elif mark is not None and chart.x.low < mark < chart.x.high:
        chart.upright(mark, words="λ")
    table = [[format_number(float(a)), format_number(float(b))] for a, b in zip(lam, dimension)]
    return figure("dimension", chart, "How many directions are learned at every λ", ["λ", "𝒩(λ)"], table)


def _rounds(history: Sequence[dict[str, Any]]) -> str:
    """What each round left: of residuals the loss, of a private fit the error that is believed."""
    numbers = [float(entry["round"]) for entry in history]
    private = "error" in history[0]
    key, label = ("error", "mean squared error of f, believed") if private else ("left", "left to learn, of the first")
    values = np.asarray([float(entry.get(key, np.nan)) for entry in history])
    chart = Chart(Axis.over("round", [0, *numbers]), Axis.over(label, values, log=bool(np.all(values > 0))))
    chart.line(numbers, values)
    chart.dots(numbers, values, [f"round {n:.0f}: {format_number(v)}" for n, v in zip(numbers, values)], radius=4)
    columns = {key: words for key, words in OF_A_ROUND.items() if key in history[0]}
    table = [[f"{entry['round']:.0f}", *(format_number(float(entry[key])) for key in columns)] for entry in history]
    return figure("rounds", chart, "What every round left", ["round", *columns.values()], table)
