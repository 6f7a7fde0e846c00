"""HTML pages for a browser, their elements, and the part that notebooks show below an estimator's diagram.

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
    """Return the page around parts that are HTML already; ``meta`` holds lines for its head."""
    return _SHELL.format(title=escape(title), body="\n".join(parts), style=style, meta=meta)


def page_of_sections(
    title: str, head: str, sections: Sequence[Section], data: dict[str, Any], foot: str, *, style: str, script: str
) -> str:
    """Return a page with a list of its sections, data for its script, and a policy that forbids every other script."""
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
    """Return JSON whose content cannot end the script element or its own strings."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@dataclass
class Section:
    """A part of the page with a heading and a place in the list of sections.

    ``missing`` holds sentences that say what could not be shown, and which argument would provide it.
    """

    name: str
    title: str
    parts: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def say(self, *sentences: str) -> Section:
        """Add a paragraph."""
        self.parts.append(paragraph(" ".join(sentences)))
        return self

    def lack(self, sentence: str) -> Section:
        """Add a sentence on something that is missing, and why."""
        self.missing.append(sentence)
        self.parts.append(f'<p class="missing">{escape(sentence)}</p>')
        return self

    def add(self, *parts: str) -> Section:
        """Add parts that are HTML already."""
        self.parts.extend(parts)
        return self

    def markup(self) -> str:
        """Return the section as HTML."""
        heading = f'<h2 id="{self.name}-title">{escape(self.title)}</h2>'
        return f'<section id="{self.name}" aria-labelledby="{self.name}-title">{heading}{"".join(self.parts)}</section>'


def paragraph(text: str) -> str:
    """Return plain text as an escaped paragraph."""
    return f"<p>{escape(text)}</p>"


def bullets(texts: Iterable[str]) -> str:
    """Return a list of plain sentences."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of plain text as a table; a row of one cell is the heading of those below it."""
    lines = ["<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header) + "</tr>"]
    for row in rows:
        if len(row) == 1:
            lines.append(f'<tr class="group"><td colspan="{len(header)}">{escape(row[0])}</td></tr>')
        else:
            lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return '<div class="wide"><table>' + "\n".join(lines) + "</table></div>"


def fold(title: str, parts: Iterable[str]) -> str:
    """Return parts that are hidden until the reader unfolds them."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def literal(text: str) -> str:
    """Return text in a fixed-width block, unchanged but for escaping."""
    return f"<pre>{escape(text)}</pre>"


def drawing(figure: Figure, words: str) -> str:
    """Return a matplotlib figure inside the page, with a description for readers who cannot see it."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    return f'<figure role="img" aria-label="{escape(words)}">{svg[svg.index("<svg") :]}</figure>'


def pair(*figures: str) -> str:
    """Return figures side by side where there is room."""
    return f'<div class="pair">{"".join(figures)}</div>'


def cards(facts: Iterable[tuple[str, str, str]]) -> str:
    """Return a few numbers in large type: for each its name, its value and a short note."""
    items = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in facts
    )
    return f'<dl class="cards">{"".join(items)}</dl>'


def warning(sentence: str) -> str:
    """Return a sentence that must not be overlooked."""
    return f'<p class="warning" role="note">{escape(sentence)}</p>'


def copy_box(title: str, text: str) -> str:
    """Return text that the reader is to copy and run elsewhere."""
    return f'<div class="command"><h3>{escape(title)}</h3><pre><code>{escape(text)}</code></pre></div>'


def slider(name: str, label: str, n: int, chosen: int, said: str) -> str:
    """Return a control to move along a path; it needs the script and is hidden without it."""
    bounds = f'min="0" max="{n - 1}" value="{chosen}" step="1"'
    return (
        f'<div class="control js-only"><label for="{name}">{escape(label)}</label>'
        f'<input type="range" id="{name}" class="along" {bounds} aria-valuetext="{escape(said)}">'
        f'<output class="at" for="{name}">{escape(said)}</output>'
        '<button type="button" class="back">Back to the choice</button></div>'
    )


def chooser(name: str, label: str, options: Sequence[str]) -> str:
    """Return a drop-down list; it is hidden without the script."""
    items = "".join(f'<option value="{i}">{escape(option)}</option>' for i, option in enumerate(options))
    return (
        f'<div class="control js-only"><label for="{name}">{escape(label)}</label>'
        f'<select id="{name}">{items}</select></div>'
    )


def readings(facts: Iterable[tuple[str, str]]) -> str:
    """Return the values at the slider's position: those of the choice, until the slider moves."""
    items = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f'<dl class="readings" aria-live="polite">{"".join(items)}</dl>'


class NotebookMixin:
    """A mixin in front of scikit-learn's classes: the outcome of a fit appears below the estimator's diagram."""

    def _below_picture(self) -> str:
        """Return HTML that appears below the diagram; nothing before a fit."""
        return ""

    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        return diagram + self._below_picture()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._below_picture()
        return bundle
