"""Partial dependence: how the prediction changes as one input varies and the others stay fixed.

It is computed at every λ of the path if the model can restore those functions.
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
    from .writing import ReportMaterial


STEPS = 21
BACKGROUND = 120  # rows over which the other inputs are averaged
WORK = 3e8  # values of the kernel that all curves may take: a few seconds
MOST = 24  # inputs that are drawn: those with the largest effect
FEW = 12  # different values up to which an input counts as discrete
ENDS = (0.02, 0.98)  # the quantiles between which an input moves


@dataclass(frozen=True)
class Curve:
    """The mean prediction along one input.

    ``curves`` has the curve of every λ of the path, (L, n), or is None.
    """

    name: str
    values: Floats
    mean: Floats
    curves: Floats | None = None

    @property
    def moves(self) -> float:
        """The distance from the lowest to the highest point of ``mean``."""
        return float(np.ptp(self.mean))


@dataclass(frozen=True)
class Background:
    """The rows over which the other inputs are averaged, and their source."""

    rows: Floats
    source: str
    middle: bool = False  #: only the middle row is averaged over; the others give the range of the inputs


def choose_background(facts: ModelFacts, given: Floats | None) -> Background | None:
    """Choose given rows, else points stored in the model, else the middle of the public sample."""
    if given is not None and len(given):
        return Background(given[:BACKGROUND], "rows of the given data")
    scaling = facts.scaling
    if facts.expansion is not None:
        points = facts.expansion[1] if scaling is None else facts.expansion[1] * scaling.scale + scaling.shift
        drawn = np.random.default_rng(0).permutation(len(points))[:BACKGROUND]
        return Background(points[drawn], "points stored in the model")
    if scaling is None:
        return None
    # Waves hold no rows; of the public sample the mean and spread of every input are known.
    steps = np.linspace(-2.0, 2.0, STEPS)[:, None]
    middle = scaling.shift + steps * scaling.scale
    return Background(middle, "the public sample's means, two standard deviations to either side", True)


def compute_curves(
    model: FittedModel, background: Background, family: Family | None = None, target: int = 0
) -> list[Curve]:
    """Compute a curve for each input, the one with the largest effect first."""
    facts, rows = model.facts(target), background.rows
    names = facts.input_names
    others = rows[: max(int(WORK / (STEPS * len(names) * facts.n_functions)), 8)]
    others = others if not background.middle else rows[len(rows) // 2][None]
    result = []
    for j, name in enumerate(names):
        values = _choose_values(rows[:, j])
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
        result.append(Curve(name, values, mean, curves))
    return sorted(result, key=lambda curve: -curve.moves)


def _choose_values(values: Floats) -> Floats:
    """Choose the values of an input: its own if they are few, else evenly spaced between two quantiles."""
    different = np.unique(values)
    if len(different) <= FEW:
        return different
    low, high = np.quantile(values, ENDS)
    return np.linspace(low, high, STEPS) if high > low else different[[0, -1]]


ROOM = 0.35  # of the range of the curves at the choice, above and below: those of other λ may go beyond


def show_inputs(known: ReportMaterial, data: dict[str, Any]) -> Section:
    """Write the section on inputs: the script shows one curve at a time; curves of other λ are put into ``data``."""
    section = Section("inputs", "Inputs")
    background, curves = known.background, known.curves
    if background is None:
        return section.lack(
            "The effect of an input is averaged over rows, and the model stores none: pass some with --data (X= and y= "
            "in Python)."
        )
    if not curves:
        return section.lack("No input varies over the available rows, so there is no curve to draw.")
    far, label = curves[0], known.facts.label
    section.say(
        f"Each curve shows the mean prediction of {label} as one input varies and the others stay fixed, averaged "
        f"over {background.source}. {far.name} has the largest effect: it changes the prediction by "
        f"{format_number(far.moves)}."
    )
    shown = curves[:MOST]
    if len(shown) < len(curves):
        section.lack(f"Of {len(curves)} inputs, the {MOST} with the largest effect are drawn.")
    if len(shown) < known.facts.n_inputs and len(shown) == len(curves):
        section.lack("Inputs that are constant on these rows are left out.")
    section.add(chooser("input", "Input", [curve.name for curve in shown]))
    tuning = known.tuning
    along = tuning is not None and shown[0].curves is not None
    if along and tuning is not None:
        said = data["path"]["at"][tuning.chosen]
        label = f"At another {tuning.noun} (dashed)"
        section.add(slider("along-inputs", label, len(tuning.values), tuning.chosen, said))
        data["curves"] = []
    low, high = _find_range(shown)
    figures = [_curve(curve, number_, known.facts.label, low, high, along, data) for number_, curve in enumerate(shown)]
    return section.add(pair(f'<div class="curves">{"".join(figures)}</div>', _moves(shown, known.facts.label)))


def _find_range(curves: list[Curve]) -> tuple[float, float]:
    """Return one scale for all curves, so that they can be compared."""
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
    chart = row_chart(Axis.over(f"change of the prediction of {label}", moves, zero=True), names)
    chart.spans(np.zeros(len(moves)), moves, range(len(moves)), kind="stem")
    chart.dots(
        moves, range(len(moves)), [f"{n}: {format_number(m)}" for n, m in zip(names, moves)], kind="ghost", radius=4
    )
    table = [[n, format_number(float(m))] for n, m in zip(names, moves)]
    return figure("moves", chart, "How much each input changes the prediction", ["input", "moves"], table)
