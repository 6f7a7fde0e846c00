"""Formulas drawn by matplotlib into the page: no script, no fonts, no network, and alike in every browser."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from matplotlib import rc_context
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from sphinx.util import logging

log = logging.getLogger(__name__)

EM = 100  # units of the drawing
LARGER = 1.08  # a serif face looks smaller than the text around it
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
# What TeX knows by more names than matplotlib.
SPELLINGS = [(r"\\le(?![a-zA-Z])", r"\\leq"), (r"\\ge(?![a-zA-Z])", r"\\geq"), (r"\\dots", r"\\ldots")]
SPELLINGS += [(r"\\frac\s*(\w)\s*(\w)", r"\\frac{\1}{\2}"), (r"\s+", " ")]


def drawn(tex: str, fractions: str = r"\frac") -> str:
    """An SVG picture in the colour of the text, its baseline on that of the line; fractions small or at full size."""
    spelled = tex.strip()
    for pattern, spelling in SPELLINGS:
        spelled = re.sub(pattern, spelling, spelled)
    spelled = spelled.replace(r"\frac", fractions)
    with rc_context({"mathtext.fontset": "stix"}):
        path = TextPath((0, 0), f"${spelled}$", size=EM)
    steps = []
    for points, code in path.iter_segments():
        where = " ".join(f"{value:.0f}" for value in points * ([1, -1] * (len(points) // 2)))
        steps.append(LETTERS[code] + ("" if code == Path.CLOSEPOLY else where))
    box = path.get_extents().padded(EM / 20)
    width, height, depth = (value * LARGER / EM for value in (box.width, box.height, -box.y0))
    return (
        f'<svg class="formula" role="img" viewBox="{box.x0:.0f} {-box.y1:.0f} {box.width:.0f} {box.height:.0f}" '
        f'style="width:{width:.2f}em;height:{height:.2f}em;vertical-align:{-depth:.2f}em">'
        f'<title>{html.escape(tex.strip())}</title><path fill="currentColor" d="{"".join(steps)}"/></svg>'
    )


def _drawn(node: nodes.Element, fractions: str = r"\frac") -> str:
    try:
        return drawn(node.astext(), fractions)
    except ValueError as error:
        log.warning("a formula that cannot be drawn: %s", str(error).strip().splitlines()[-1], location=node)
        return ""


def in_text(self: Any, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(_drawn(node))
    raise nodes.SkipNode


def displayed(self: Any, node: nodes.math_block) -> None:
    """A formula by itself."""
    self.body.append(self.starttag(node, "div", CLASS="math") + _drawn(node, r"\dfrac") + "</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx."""
    app.add_html_math_renderer("drawn", (in_text, None), (displayed, None))
    app.config.html_math_renderer = "drawn"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
