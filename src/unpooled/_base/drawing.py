"""Drawing with matplotlib, which is imported only when something is drawn.

A path, a spectrum or a plan describes its diagram as a ``Picture`` of plain numbers, and ``draw`` draws it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = ("#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00")  # Okabe-Ito: safe for colour blindness
MARKERS = "osv^DP"


@dataclass(frozen=True)
class Curve:
    """A line through points.

    Attributes
    ----------
    x, y : the points
    label : in the legend
    after : added to a label that the user gave, if several curves share it
    dot : position of a marked point
    marker : of every point
    """

    x: Any
    y: Any
    label: str | None = None
    after: str = ""
    dot: int | None = None
    marker: str | None = None


@dataclass(frozen=True)
class Dots:
    """Points without a line; ``look`` is passed on to matplotlib."""

    x: Any
    y: Any
    label: str
    look: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Guide:
    """A dotted line across the picture, level or upright."""

    at: float
    label: str
    upright: bool = False


@dataclass(frozen=True)
class Picture:
    """A diagram in plain numbers.

    Attributes
    ----------
    xlabel, ylabel, title : words; those that are None stay as the axes have them
    curves, dots, guides : in the order in which they are drawn
    bars : lengths of horizontal bars, one for each of ``names``
    names : of rows, which stand in the place of numbers at the left
    xscale, yscale : None leaves them as they are
    legend : its font size, the usual one where it is empty; None is no legend
    height : of a new figure
    """

    xlabel: str
    ylabel: str | None = None
    curves: Sequence[Curve] = ()
    dots: Sequence[Dots] = ()
    guides: Sequence[Guide] = ()
    bars: Sequence[float] = ()
    names: Sequence[str] = ()
    xscale: Literal["log"] | None = None
    yscale: Literal["log", "linear"] | None = None
    title: str | None = None
    legend: str | None = None
    height: float = 4.0


def draw(picture: Picture, ax: Axes | None = None, **line: Any) -> Axes:
    """Draw into the given axes, or into new ones; ``line`` is passed on to matplotlib for every curve."""
    ax = _axes_for(ax, picture.height)
    label = line.pop("label", None)
    for curve in picture.curves:
        name = curve.label if label is None else f"{label}{curve.after}"
        look = {"label": name, **({} if curve.marker is None else {"marker": curve.marker}), **line}
        (drawn,) = ax.plot(curve.x, curve.y, **look)
        if curve.dot is not None:
            ax.plot(curve.x[curve.dot], curve.y[curve.dot], "o", color=drawn.get_color())
    for dots in picture.dots:
        ax.plot(dots.x, dots.y, "o", label=dots.label, **dots.look)
    for guide in picture.guides:
        (ax.axvline if guide.upright else ax.axhline)(guide.at, linestyle=":", color="grey", label=guide.label)
    if picture.bars:
        ax.barh(range(len(picture.bars)), picture.bars)
    if picture.names:
        ax.set_yticks(range(len(picture.names)), picture.names)
    wanted = ("xlabel", "ylabel", "xscale", "yscale", "title")
    ax.set(**{name: value for name in wanted if (value := getattr(picture, name)) is not None})
    if picture.legend is not None:
        ax.legend(fontsize=picture.legend or None)
    return ax


def _axes_for(ax: Axes | None, height: float = 4.0) -> Axes:
    """Return the given axes, or new ones: pyplot's if the user has imported it, so that pyplot can show them."""
    if ax is not None:
        return ax
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return make_panels(6.4, height, (1,))[1][0]
    _, drawn = pyplot.subplots(figsize=(6.4, height), layout="constrained")
    return drawn


def make_panels(width: float, height: float, shares: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side, whose widths have the given shares.

    The figure is independent of pyplot: there is no global state, no window, and no back-end is chosen for the user.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'unpooled[plot]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, len(shares), width_ratios=shares, squeeze=False)[0])
