"""A fitted model's choices: the scores along λ or steps, alike for every kind of path, and one sentence about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base import html
from .._base.arrays import Floats
from .._base.notebooks import InNotebooks
from .._base.text import number

CRITERIA = {
    "loo": "leave-one-out",
    "gcv": "generalised cross-validation",
    "cv": "k folds",
    "risk": "an estimate of the risk from the sums",
    "halves": "rows held out of every block",
    "robust": "a bounded loss on rows left out",
    "robust gcv": "generalised cross-validation of the loss",
}


@dataclass(frozen=True)
class Tuning:
    """Scores along one parameter.

    Attributes
    ----------
    symbol : "λ", or "steps" of a descent
    values : (L,) rising
    score : (L,) root mean square error expected of a new row, or a mean bounded loss; NaN where there is none
    judged_by : a key of CRITERIA
    chosen : position of the choice
    df : (L,) degrees of freedom, or None
    others : names and scores of other curves: of other numbers of blocks, of other scales
    """

    symbol: str
    values: Floats
    score: Floats
    judged_by: str
    chosen: int
    df: Floats | None = None
    others: tuple[tuple[str, Floats], ...] = ()
    name: str = ""  #: of the main curve, where there are others

    @property
    def is_error(self) -> bool:
        """Whether scores are errors in the unit of the label."""
        return not self.judged_by.startswith("robust")

    @property
    def error(self) -> float | None:
        """The error of a new row that is expected at the choice."""
        found = float(self.score[self.chosen])
        return found if self.is_error and math.isfinite(found) else None

    @property
    def noun(self) -> str:
        """What the parameter is called in a sentence."""
        return "λ" if self.symbol == "λ" else "number of steps"

    def said(self, place: int) -> str:
        """One value, as a sentence has it: "λ = 0.1", "64 steps"."""
        value = float(self.values[place])
        return f"λ = {number(value)}" if self.symbol == "λ" else f"{value:,.0f} steps"

    @property
    def order(self) -> str:
        """How the choice was judged, in words."""
        return CRITERIA.get(self.judged_by, self.judged_by)


def tuning_of(model: Any, target: int = 0) -> Tuning | None:
    """The path of a fitted model for one of its labels; None where nothing was tried."""
    path = getattr(model, "path_", None)
    if hasattr(path, "n_blocks"):
        return _of_blocks(path, target)
    if hasattr(path, "tried"):
        return _of_descent(model, path, target)
    return None if path is None or len(path) < 2 else _of_lam(model, path, target)


def _of_lam(model: Any, path: Any, target: int) -> Tuning:
    order = np.argsort(path.lam)
    criterion = np.asarray(path.criterion, dtype=float).reshape(len(path), -1)[order, target]
    squared = str(getattr(model, "loss_", "squared")) == "squared"
    return Tuning(
        "λ",
        path.lam[order],
        _roots(criterion) if squared else criterion,
        path.criterion_name if squared else f"robust {path.criterion_name}",
        int(np.flatnonzero(order == path.index[target])[0]),
        np.asarray(path.df, dtype=float)[order],
    )


def _of_blocks(path: Any, target: int) -> Tuning | None:
    """Rules (13) and (14): a curve for each number of blocks; the candidates of a robust learner at its scale."""
    scores = np.asarray(path.criterion, dtype=float)
    scores = scores if scores.ndim == 2 else scores[:, :, target]
    chosen = int(path.index[min(target, len(path.index) - 1)])
    robust = "n_iter" in path.candidates
    name = "n_iter" if robust else next(iter(path.candidates), "")
    if not name or scores.shape[1] < 2:
        return None
    kept = np.arange(scores.shape[1])
    if robust and "scale" in path.candidates:
        scales = np.asarray(path.candidates["scale"], dtype=float).reshape(len(kept), -1)[:, 0]
        kept = np.flatnonzero(scales == scales[chosen])
    values = np.asarray(path.candidates[name], dtype=float)[kept]
    order = np.argsort(values, kind="stable")
    kept = kept[order]
    curves = [row[kept] if robust else _roots(row[kept]) for row in scores]
    return Tuning(
        "steps" if robust else "λ",
        values[order],
        curves[path.chosen],
        "robust" if robust else "halves",
        int(np.flatnonzero(kept == chosen)[0]),
        others=tuple((_blocks(m), c) for i, (m, c) in enumerate(zip(path.n_blocks, curves)) if i != path.chosen),
        name=_blocks(path.n_blocks[path.chosen]),
    )


def _of_descent(model: Any, path: Any, target: int) -> Tuning | None:
    if path.score is None or path.tried is None or path.scales is None or len(path.tried) < 2:
        return None
    scores = np.asarray(path.score, dtype=float)
    scores = scores if scores.ndim == 2 else scores[:, :, target]
    scales = np.asarray(path.scales, dtype=float)[:, target]
    scale = float(np.atleast_1d(model.scale_)[min(target, np.size(model.scale_) - 1)])
    n_iter = int(np.atleast_1d(model.n_iter_)[min(target, np.size(model.n_iter_) - 1)])
    here = int(np.flatnonzero(scales == scale)[0])
    return Tuning(
        "steps",
        np.asarray(path.tried, dtype=float),
        scores[here],
        "robust",
        int(np.flatnonzero(path.tried == n_iter)[0]),
        others=tuple((_scale(s), row) for i, (s, row) in enumerate(zip(scales, scores)) if i != here),
        name=_scale(scale),
    )


def _blocks(m: int) -> str:
    return "1 block" if m == 1 else f"{m} blocks"


def _scale(sigma: float) -> str:
    return "least squares" if math.isinf(sigma) else f"scale {number(sigma)}"


def _roots(squares: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(squares), np.sqrt(np.maximum(squares, 0.0)), np.nan)


class ShowsChoices(InNotebooks):
    """Put before scikit-learn's classes: below the picture of a fitted estimator stands what was chosen."""

    def _below_picture(self) -> str:
        return html.paragraph(f"{chosen(self)}.") if hasattr(self, "predictor_") else ""


def lam_of(model: Any, target: int = 0) -> float | None:
    """The λ of one label; None where the model has none."""
    lam = np.atleast_1d(getattr(model, "lam_", np.empty(0)))
    return float(lam[min(target, len(lam) - 1)]) if len(lam) else None


def chosen(model: Any, target: int = 0) -> str:
    """What was chosen, and how, in one sentence without its full stop."""
    tuning = tuning_of(model, target)
    parts = []
    lam = lam_of(model, target)
    if lam is not None:
        parts.append(f"λ = {number(lam)}")
    if hasattr(model, "n_iter_"):
        scale, n_iter = (np.atleast_1d(value) for value in (model.scale_, model.n_iter_))
        size = number(float(scale[min(target, len(scale) - 1)]))
        parts.append(f"{int(n_iter[min(target, len(n_iter) - 1)]):,} steps at scale {size}")
    if hasattr(model, "n_rounds_") and model.n_rounds_ > 1:
        parts.append(f"{model.n_rounds_} rounds")
    if hasattr(model, "n_blocks_"):
        parts.append(with_noun(model.n_blocks_, "block"))
    if getattr(model, "privacy_", None) is not None:
        parts += [f"ε = {model.privacy_.epsilon:.3g}", f"δ = {number(model.privacy_.delta)}"]
    if not parts:
        return "There was nothing to choose"
    said = f"{_listed(parts)} {'were' if len(parts) > 1 else 'was'}"
    if tuning is None:
        return f"{said} given"
    df = "" if tuning.df is None else f", which leaves {number(float(tuning.df[tuning.chosen]))} degrees of freedom"
    return f"{said} chosen among {len(tuning.values)} by {tuning.order}{df}"


def with_noun(n: int, what: str) -> str:
    """A number and what it counts: "1 block", "3 blocks"."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _listed(parts: list[str]) -> str:
    *rest, last = parts or [""]
    return f"{', '.join(rest)} and {last}" if rest else last
