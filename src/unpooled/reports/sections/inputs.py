"""What the model does with each input: partial dependence, at every λ where that is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..facts.dependence import MOST, Curve
from ..gathering import Gathered
from ..numbers import number
from ..parts import Section, chooser, figure, pair, slider
from ..svg import Axis, Chart, row_chart

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
    far = curves[0]
    section.say(
        f"How the prediction of {known.label} moves with one input while the others stay as they are, averaged over "
        f"{background.source}. It moves furthest with {far.name}: by {number(far.moves)}."
    )
    shown = curves[:MOST]
    if len(shown) < len(curves):
        section.lack(f"The {MOST} inputs that move it furthest are drawn, of {len(curves)}.")
    if len(shown) < int(known.model.n_features_in_) and len(shown) == len(curves):
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
    figures = [_curve(curve, number_, known.label, low, high, along, data) for number_, curve in enumerate(shown)]
    return section.add(pair(f'<div class="curves">{"".join(figures)}</div>', _moves(shown, known.label)))


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
    words = [f"{curve.name} = {number(v)}: {number(m)}" for v, m in zip(curve.values, curve.mean)]
    chart.dots(curve.values, curve.mean, words, radius=3)
    table = [[number(float(v)), number(float(m))] for v, m in zip(curve.values, curve.mean)]
    said = f"The prediction along {curve.name}"
    return figure(name, chart, said, [curve.name, "prediction"], table, place=place)


def _moves(curves: list[Curve], label: str) -> str:
    moves = np.asarray([curve.moves for curve in curves])
    names = [curve.name for curve in curves]
    chart = row_chart(Axis.over(f"how far the prediction of {label} moves", moves, zero=True), names)
    chart.spans(np.zeros(len(moves)), moves, range(len(moves)), kind="stem")
    chart.dots(moves, range(len(moves)), [f"{n}: {number(m)}" for n, m in zip(names, moves)], kind="ghost", radius=4)
    table = [[n, number(float(m))] for n, m in zip(names, moves)]
    return figure("moves", chart, "How far each input moves the prediction", ["input", "moves"], table)
