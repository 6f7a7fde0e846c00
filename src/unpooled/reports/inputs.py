"""What the model does with each input: partial dependence, at every λ where that is known.

Partial dependence is what the prediction does when one input moves and the others stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.html import Section, chooser, pair, slider
from .._base.text import format_number
from ..estimators.facts import FittedModel, ModelFacts
from ..estimators.span import values_by_name
from .svg import Axis, Chart, figure, row_chart

if TYPE_CHECKING:
    from .._base.arrays import Floats
    from ..estimators.paths import Family
    from .writing import Gathered


STEPS = 21
BACKGROUND = 120  # rows over which the other inputs are averaged
WORK = 3e8  # values of the kernel that all curves may take: a few seconds
MOST = 24  # inputs that are drawn: those that move the prediction furthest
FEW = 12  # different values up to which an input counts as discrete
ENDS = (0.02, 0.98)  # the quantiles between which an input moves


@dataclass(frozen=True)
class Curve:
    """The mean prediction along one input.

    ``curves`` are those of every λ of the path, (L, n), or None. ``moves`` is the distance from the lowest to the
    highest point of ``mean``.
    """

    name: str
    values: Floats
    mean: Floats
    curves: Floats | None = None

    @property
    def moves(self) -> float:
        """How far the prediction moves with this input."""
        return float(np.ptp(self.mean))


@dataclass(frozen=True)
class Background:
    """The rows whose other inputs are held, and whose they are."""

    rows: Floats
    source: str
    middle: bool = False  #: only the middle one is held; the others say how far inputs move


def background_of(facts: ModelFacts, given: Floats | None) -> Background | None:
    """Rows that were given with labels, else points that the model holds, else the middle of the public sample."""
    if given is not None and len(given):
        return Background(given[:BACKGROUND], "rows of the data that were given")
    scaling = facts.scaling
    if facts.expansion is not None:
        points = facts.expansion[1] if scaling is None else facts.expansion[1] * scaling.scale + scaling.shift
        drawn = np.random.default_rng(0).permutation(len(points))[:BACKGROUND]
        return Background(points[drawn], "points that the model holds")
    if scaling is None:
        return None
    # Waves hold no rows; of the public sample the mean and spread of every input are known.
    steps = np.linspace(-2.0, 2.0, STEPS)[:, None]
    middle = scaling.shift + steps * scaling.scale
    return Background(middle, "the public sample's means, two standard deviations to either side", True)


def curves_of(model: FittedModel, background: Background, family: Family | None = None, target: int = 0) -> list[Curve]:
    """A curve for each input, the one that moves the prediction furthest first."""
    facts, rows = model.facts(target), background.rows
    names = facts.input_names
    others = rows[: max(int(WORK / (STEPS * len(names) * facts.n_functions)), 8)]
    others = others if not background.middle else rows[len(rows) // 2][None]
    found = []
    for j, name in enumerate(names):
        values = grid_of(rows[:, j])
        if len(values) < 2:
            continue
        moved = np.repeat(others[None], len(values), axis=0)
        moved[:, :, j] = values[:, None]
        flat = moved.reshape(-1, rows.shape[1])
        mean = values_by_name(model, flat)[:, target].reshape(len(values), -1).mean(axis=1)
        curves = None
        if family is not None:
            every = np.asarray(family.predictor.predict(flat))
            curves = every.reshape(len(values), len(others), -1).mean(axis=1).T
        found.append(Curve(name, values, mean, curves))
    return sorted(found, key=lambda curve: -curve.moves)


def grid_of(values: Floats) -> Floats:
    """Where an input is looked at: its own values where they are few, else evenly between two quantiles."""
    different = np.unique(values)
    if len(different) <= FEW:
        return different
    low, high = np.quantile(values, ENDS)
    return np.linspace(low, high, STEPS) if high > low else different[[0, -1]]


ROOM = 0.35  # of the range of the curves at the choice, above and below: those of other λ may go beyond


def inputs(known: Gathered, data: dict[str, Any]) -> Section:
    """One curve at a time with the script, all of them without. Those of other λ go into ``data``."""
    section = Section("inputs", "Inputs")
    background, curves = known.background, known.curves
    if background is None:
        return section.lack(
            "What the prediction does with each input is averaged over rows, and the model holds none: give some with "
            "--data (X= and y= in Python)."
        )
    if not curves:
        return section.lack("No input takes different values on the rows that are known, so none can be moved.")
    far, label = curves[0], known.facts.label
    section.say(
        f"How the prediction of {label} moves with one input while the others stay as they are, averaged over "
        f"{background.source}. It moves furthest with {far.name}: by {format_number(far.moves)}."
    )
    shown = curves[:MOST]
    if len(shown) < len(curves):
        section.lack(f"The {MOST} inputs that move it furthest are drawn, of {len(curves)}.")
    if len(shown) < known.facts.n_inputs and len(shown) == len(curves):
        section.lack("Inputs that take one value only on these rows are left out.")
    section.add(chooser("input", "Input", [curve.name for curve in shown]))
    tuning = known.tuning
    along = tuning is not None and shown[0].curves is not None
    if along and tuning is not None:
        said = data["path"]["at"][tuning.chosen]
        label = f"At another {tuning.noun} (dashed)"
        section.add(slider("along-inputs", label, len(tuning.values), tuning.chosen, said))
        data["curves"] = []
    low, high = _range(shown)
    figures = [_curve(curve, number_, known.facts.label, low, high, along, data) for number_, curve in enumerate(shown)]
    return section.add(pair(f'<div class="curves">{"".join(figures)}</div>', _moves(shown, known.facts.label)))


def _range(curves: list[Curve]) -> tuple[float, float]:
    """One scale for all, so that they can be compared."""
    low, high = min(float(c.mean.min()) for c in curves), max(float(c.mean.max()) for c in curves)
    room = ROOM * (high - low) or 1.0
    return low - room / 2, high + room / 2


def _curve(curve: Curve, place: int, label: str, low: float, high: float, along: bool, data: dict[str, Any]) -> str:
    name = f"input-{place}"
    chart = Chart(Axis.over(curve.name, curve.values), Axis(f"prediction of {label}, mean", low, high))
    if along and curve.curves is not None:
        data["curves"].append([chart.points(curve.values, row) for row in curve.curves])
        chart.line([], [], kind="alt", curve=place)
    chart.line(curve.values, curve.mean)
    words = [f"{curve.name} = {format_number(v)}: {format_number(m)}" for v, m in zip(curve.values, curve.mean)]
    chart.dots(curve.values, curve.mean, words, radius=3)
    table = [[format_number(float(v)), format_number(float(m))] for v, m in zip(curve.values, curve.mean)]
    said = f"The prediction along {curve.name}"
    return figure(name, chart, said, [curve.name, "prediction"], table, place=place)


def _moves(curves: list[Curve], label: str) -> str:
    moves = np.asarray([curve.moves for curve in curves])
    names = [curve.name for curve in curves]
    chart = row_chart(Axis.over(f"how far the prediction of {label} moves", moves, zero=True), names)
    chart.spans(np.zeros(len(moves)), moves, range(len(moves)), kind="stem")
    chart.dots(
        moves, range(len(moves)), [f"{n}: {format_number(m)}" for n, m in zip(names, moves)], kind="ghost", radius=4
    )
    table = [[n, format_number(float(m))] for n, m in zip(names, moves)]
    return figure("moves", chart, "How far each input moves the prediction", ["input", "moves"], table)
