"""Docstrings are plain text with formulas in it; reStructuredText would read some of their characters as its own.

Indented lines are kept as they are written, |x| is an absolute value, and what scikit-learn adds to every estimator
is left out.
"""

from __future__ import annotations

import re
from typing import Any

LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Examples", "See Also")
FROM_SKLEARN = re.compile(r"set_\w+_request|get_metadata_routing|set_output")


def keep_indented_lines(*given: Any) -> None:
    """Formulas and drawings stand on lines of their own: in the text of a docstring an indented block is verbatim."""
    lines: list[str] = given[-1]
    done: list[str] = []
    section, verbatim = "", False
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if line and below == "-" * len(line):
            section = line
        if line.strip() and not line.startswith(" "):
            verbatim = False
        opens = line.startswith("    ") and not verbatim and bool(done) and not done[-1].strip()
        if opens and section not in LISTS and not _within_list(done):
            done += [".. code-block:: text", ""]
            verbatim = True
        done.append(line)
    lines[:] = done


def _within_list(before: list[str]) -> bool:
    last = next((line for line in reversed(before) if line.strip()), "")
    return re.match(r" |[-*] |\d+\. ", last) is not None


def escape_bars(*given: Any) -> None:
    """|x| is an absolute value and no substitution, outside of code."""
    lines: list[str] = given[-1]
    code, depth = "", 0
    for number, line in enumerate(lines):
        text = line.lstrip()
        indent = len(line) - len(text)
        if text.startswith((">>>", ".. code-block::")):
            code, depth = text[0], indent
        elif (code == ">" and not text) or (code == "." and text and indent <= depth):
            code = ""
        if not code:
            outside_literals = [p if i % 2 else p.replace("|", r"\|") for i, p in enumerate(line.split("``"))]
            lines[number] = "``".join(outside_literals)


def leave_out(*given: Any) -> bool | None:
    """Whether a member is one that scikit-learn puts into every estimator, and documents there."""
    name: str = given[2]
    return True if FROM_SKLEARN.fullmatch(name) else None


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx: numpydoc, at the usual 500, reads what the first leaves, and the second what numpydoc leaves."""
    app.connect("autodoc-process-docstring", keep_indented_lines, priority=400)
    app.connect("autodoc-process-docstring", escape_bars, priority=600)
    app.connect("autodoc-skip-member", leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
