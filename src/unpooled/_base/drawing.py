"""Figures, and plots of paths. Only this module imports matplotlib, and only when one of its functions is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .path import LamPath


_NAMES = {"loo": "leave-one-out", "gcv": "GCV", "cv": "k-fold", "risk": "risk estimated from sums"}


class ScoresOfBlocks(Protocol):
    """The scores of every number of blocks and every candidate of a local learner."""

    candidates: dict[str, np.ndarray]
    criterion: np.ndarray
    n_blocks: Any
    index: np.ndarray
    chosen: int


class ScoresOfSteps(Protocol):
    """The scores of every scale and every number of steps of a descent; None where nothing was tried."""

    score: np.ndarray | None
    scales: np.ndarray | None
    tried: np.ndarray | None


def new_figure(width: float = 6.4, height: float = 4.0) -> tuple[Figure, Axes]:
    """A figure that belongs to nobody: no global state, no window, no back-end is chosen for the user."""
    figure, (ax,) = new_panels(width, height, (1,))
    return figure, ax


def new_panels(width: float, height: float, shares: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """The same with panels side by side, of these shares of the width."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'unpooled[plot]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, len(shares), width_ratios=shares, squeeze=False)[0])


def axes_for(ax: Axes | None, height: float = 4.0) -> Axes:
    """The axes that are given, or new ones: of pyplot where the user has imported it, so that it can show them."""
    if ax is not None:
        return ax
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return new_figure(height=height)[1]
    _, drawn = pyplot.subplots(figsize=(6.4, height), layout="constrained")
    return drawn


def plot_path(path: LamPath, ax: Axes | None = None, **line: Any) -> Axes:
    """Root of the criterion against λ on logarithmic axes, a dot on the chosen λ, one line a target."""
    ax = axes_for(ax)
    order = np.argsort(path.lam)
    scores = np.sqrt(path.criterion.reshape(len(path.lam), -1))
    label = line.pop("label", None)
    for target in range(scores.shape[1]):
        name = label if scores.shape[1] == 1 or label is None else f"{label}, target {target}"
        (drawn,) = ax.plot(path.lam[order], scores[order, target], label=name, **line)
        chosen = path.index[target]
        ax.plot(path.lam[chosen], scores[chosen, target], "o", color=drawn.get_color())
    ax.set(xscale="log", yscale="log", xlabel="λ", ylabel=f"error of one label ({_NAMES[path.criterion_name]})")
    return ax


def plot_block_path(path: ScoresOfBlocks, ax: Axes | None = None, **line: Any) -> Axes:
    """The validation score against the first candidate parameter, a curve for each number of blocks."""
    ax = axes_for(ax)
    name, values = next(iter(path.candidates.items()))
    scores = path.criterion if path.criterion.ndim == 2 else path.criterion.mean(axis=2)
    order = np.argsort(values, kind="stable")
    for m, row in zip(path.n_blocks, scores):
        ax.plot(values[order], row[order], **{"label": f"{m} blocks", **line})
    chosen = np.unique(path.index)
    ax.plot(values[chosen], scores[path.chosen, chosen], "o", color="black", label="chosen")
    ax.set(xscale="log", yscale="log", xlabel={"lam": "λ"}.get(name, name), ylabel="score on held-out halves")
    ax.legend()
    return ax


def plot_descent(path: ScoresOfSteps, ax: Axes | None = None, **line: Any) -> Axes:
    """The loss of rows left out against the number of steps, a curve for each scale, the best of each target marked."""
    if path.score is None or path.scales is None or path.tried is None:
        raise ValueError("there is nothing to draw: scale and n_iter were given, and nothing was tried")
    ax = axes_for(ax)
    scores = path.score.reshape(len(path.scales), len(path.tried), -1)
    for target in range(scores.shape[2]):
        for scale, row in zip(path.scales[:, target], scores[:, :, target]):
            name = "least squares" if np.isinf(scale) else f"scale {scale:.3g}"
            ax.plot(path.tried, row, **{"label": name, **line})
    ax.set(xscale="log", xlabel="steps", ylabel="mean bounded loss of rows left out")
    ax.legend(fontsize="small")
    return ax
