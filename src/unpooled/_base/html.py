"""Pages to open in a browser, each in one file that loads nothing from anywhere else."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body{{font:17px/1.55 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1.2rem;color:#222;background:#fff}}
h1,h2{{line-height:1.25}}h2{{margin-top:2.2rem}}p,li{{max-width:46rem}}
table{{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.93em}}
td,th{{padding:.22rem .7rem;text-align:right;border-bottom:1px solid #ddd}}
td:first-child,th:first-child{{text-align:left}}
tr.group td{{font-style:italic;border-bottom:1px solid #888;padding-top:.9rem}}
.wide{{overflow-x:auto}}figure{{margin:1rem 0}}svg{{max-width:100%;height:auto}}
pre{{background:#f5f5f2;padding:.8rem 1rem;overflow-x:auto;font-size:.82em;line-height:1.45}}
summary{{cursor:pointer;padding:.2rem 0}}
details details{{margin-left:1.4rem}}code{{background:#f5f5f2;padding:0 .2rem}}pre code{{padding:0}}
</style></head><body>
{body}
</body></html>
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The page around parts that are HTML already."""
    return _PAGE.format(title=escape(title), body="\n".join(parts))


def paragraph(text: str) -> str:
    """Plain text, escaped."""
    return f"<p>{escape(text)}</p>"


def bullets(texts: Iterable[str]) -> str:
    """A list of plain sentences."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of plain text; a row of one cell is the heading of those below it."""
    lines = ["<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header) + "</tr>"]
    for row in rows:
        if len(row) == 1:
            lines.append(f'<tr class="group"><td colspan="{len(header)}">{escape(row[0])}</td></tr>')
        else:
            lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return '<div class="wide"><table>' + "\n".join(lines) + "</table></div>"


def folded(title: str, parts: Iterable[str]) -> str:
    """Something to unfold."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def literal(text: str) -> str:
    """Text as it is, letter by letter."""
    return f"<pre>{escape(text)}</pre>"


def drawing(figure: Figure, words: str) -> str:
    """A figure inside the page, and in words for those who cannot see it."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    return f'<figure role="img" aria-label="{escape(words)}">{svg[svg.index("<svg") :]}</figure>'
