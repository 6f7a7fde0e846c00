"""HTML: pages to open in a browser, their elements, and what notebooks show below the picture of an estimator.

A page is one file that loads nothing from anywhere else. Whatever comes from users is escaped here.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_SHELL = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
{meta}<title>{title}</title>
<style>{style}</style></head><body>
{body}
</body></html>
"""
_STYLE = """
body{font:17px/1.55 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1.2rem;color:#222;background:#fff}
h1,h2{line-height:1.25}h2{margin-top:2.2rem}p,li{max-width:46rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.93em}
td,th{padding:.22rem .7rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}
tr.group td{font-style:italic;border-bottom:1px solid #888;padding-top:.9rem}
.wide{overflow-x:auto}figure{margin:1rem 0}svg{max-width:100%;height:auto}
pre{background:#f5f5f2;padding:.8rem 1rem;overflow-x:auto;font-size:.82em;line-height:1.45}
summary{cursor:pointer;padding:.2rem 0}
details details{margin-left:1.4rem}code{background:#f5f5f2;padding:0 .2rem}pre code{padding:0}
"""


def page(title: str, parts: Iterable[str], *, style: str = _STYLE, meta: str = "") -> str:
    """The page around parts that are HTML already; ``meta`` are lines of its head."""
    return _SHELL.format(title=escape(title), body="\n".join(parts), style=style, meta=meta)


def page_of_sections(
    title: str, head: str, sections: Sequence[Section], data: dict[str, Any], foot: str, *, style: str, script: str
) -> str:
    """A page with a list of its sections, data for its script, and a policy that forbids every other script."""
    rules = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    rules += "; base-uri 'none'; form-action 'none'"
    meta = (
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
    )
    links = "".join(f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections)
    parts = [
        '<a class="skip" href="#content">Skip to the content</a>',
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        '<main id="content">',
        head,
        *(section.markup() for section in sections),
        foot,
        "</main>",
        f'<script type="application/json" id="report-data">{embed_json(data)}</script>',
        f"<script>{script}</script>",
    ]
    return page(title, parts, style=style, meta=meta)


def embed_json(data: Any) -> str:
    """JSON that no content of it can break out of: not the script element, not its own quotes."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@dataclass
class Section:
    """A part of the page with a heading and a place in the list of sections.

    ``missing`` are sentences on what could not be shown, and what to give for it.
    """

    name: str
    title: str
    parts: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def say(self, *sentences: str) -> Section:
        """A paragraph."""
        self.parts.append(paragraph(" ".join(sentences)))
        return self

    def lack(self, sentence: str) -> Section:
        """What is not here, and why."""
        self.missing.append(sentence)
        self.parts.append(f'<p class="missing">{escape(sentence)}</p>')
        return self

    def add(self, *parts: str) -> Section:
        """What is HTML already."""
        self.parts.extend(parts)
        return self

    def markup(self) -> str:
        """The section."""
        heading = f'<h2 id="{self.name}-title">{escape(self.title)}</h2>'
        return f'<section id="{self.name}" aria-labelledby="{self.name}-title">{heading}{"".join(self.parts)}</section>'


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


def fold(title: str, parts: Iterable[str]) -> str:
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


def pair(*figures: str) -> str:
    """Figures beside each other where there is room."""
    return f'<div class="pair">{"".join(figures)}</div>'


def cards(facts: Iterable[tuple[str, str, str]]) -> str:
    """A few numbers, large: name, value, a word on it."""
    items = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in facts
    )
    return f'<dl class="cards">{"".join(items)}</dl>'


def warning(sentence: str) -> str:
    """What must not be overlooked."""
    return f'<p class="warning" role="note">{escape(sentence)}</p>'


def copy_box(title: str, text: str) -> str:
    """Something to type elsewhere."""
    return f'<div class="command"><h3>{escape(title)}</h3><pre><code>{escape(text)}</code></pre></div>'


def slider(name: str, label: str, n: int, chosen: int, said: str) -> str:
    """A control along a path; of use with the script alone, and hidden without it."""
    bounds = f'min="0" max="{n - 1}" value="{chosen}" step="1"'
    return (
        f'<div class="control js-only"><label for="{name}">{escape(label)}</label>'
        f'<input type="range" id="{name}" class="along" {bounds} aria-valuetext="{escape(said)}">'
        f'<output class="at" for="{name}">{escape(said)}</output>'
        '<button type="button" class="back">Back to the choice</button></div>'
    )


def chooser(name: str, label: str, options: Sequence[str]) -> str:
    """A list to choose from; hidden without the script."""
    items = "".join(f'<option value="{i}">{escape(option)}</option>' for i, option in enumerate(options))
    return (
        f'<div class="control js-only"><label for="{name}">{escape(label)}</label>'
        f'<select id="{name}">{items}</select></div>'
    )


def readings(facts: Iterable[tuple[str, str]]) -> str:
    """What a slider stands at; the values are those of the choice until it moves."""
    items = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f'<dl class="readings" aria-live="polite">{"".join(items)}</dl>'


class NotebookMixin:
    """Put before scikit-learn's classes: what was chosen, or learned, stands below the picture of the estimator."""

    def _below_picture(self) -> str:
        """HTML that stands below the picture; nothing before a fit."""
        return ""

    def _repr_html_inner(self) -> str:
        shown: str = super()._repr_html_inner()  # type: ignore[misc]
        return shown + self._below_picture()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._below_picture()
        return bundle
