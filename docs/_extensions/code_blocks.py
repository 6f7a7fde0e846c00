"""A doctest in Markdown ends with a blank line, which no reader needs to see."""

from __future__ import annotations

from typing import Any

from docutils import nodes


def trim(*given: Any) -> None:
    """Take blank lines off the end of every block of code."""
    doctree: nodes.document = given[-1]
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource == block.astext():  # otherwise it holds more than text: a link, a highlighted word
            text = block.rawsource.rstrip("\n")
            block.rawsource = text
            block.clear()
            block += nodes.Text(text)


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("doctree-read", trim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
