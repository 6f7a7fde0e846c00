"""The pieces that a report is put together from, as HTML. Whatever comes from users is escaped here."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from .._base import html
from .svg import Chart

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{rules}">
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style></head><body>
<a class="skip" href="#content">Skip to the content</a>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main id="content">
{body}
</main>
<script type="application/json" id="report-data">{data}</script>
<script>{script}</script>
</body></html>
"""


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
        self.parts.append(html.paragraph(" ".join(sentences)))
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


def page(title: str, head: str, sections: Sequence[Section], data: dict[str, Any], foot: str) -> str:
    """The whole page: one file, its own style and script and no other, which the page itself forbids."""
    assets = files(__package__) / "assets"
    style, script = ((assets / name).read_text("utf-8") for name in ("report.css", "report.js"))
    rules = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    links = "".join(f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections)
    return _PAGE.format(
        title=escape(title),
        style=style,
        script=script,
        rules=f"{rules}; base-uri 'none'; form-action 'none'",
        links=links,
        body="\n".join([head, *(section.markup() for section in sections), foot]),
        data=embedded(data),
    )


def embedded(data: Any) -> str:
    """JSON that no content of it can break out of: not the script element, not its own quotes."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def figure(
    name: str,
    chart: Chart,
    words: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    key: Sequence[str] = (),
    place: int | None = None,
) -> str:
    """A chart, what it shows in a sentence, and its numbers as a table.

    ``key`` says what the first and the second colour are, ``place`` numbers figures of which one is shown at a time.
    """
    kinds = zip(("", ' class="second"'), key)
    colours = "".join(f"<li{kind}>{escape(said)}</li>" for kind, said in kinds)
    numbers = html.folded("Numbers", [html.table(header, rows)])
    legend = f'<ul class="key">{colours}</ul>' if key else ""
    below = f'<div class="below">{legend}{numbers}</div>'
    number = "" if place is None else f' data-input="{place}"'
    caption = f'<figcaption id="{name}-words">{escape(words)}</figcaption>'
    return f"<figure{number}>{caption}{chart.svg(name)}{below}</figure>"


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


def copyable(title: str, text: str) -> str:
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
