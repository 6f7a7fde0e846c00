"""Summaries described in words that a data steward understands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .contents import numbers, size

if TYPE_CHECKING:
    from .summary import Summary


def describe(summary: Summary) -> str:
    """Every field of a summary: its name, how many numbers, and what they are."""
    c = summary.contents
    label = ", ".join(summary.targets) or "the label"
    if c.residual:
        of = f"model {c.model[:12]}" if c.model else "zero"
        what = f"how far {label} is from {of}" + ("" if c.loss == "squared" else f", limited by the loss {c.loss}")
    else:
        what = label
    lines = [
        f"A summary of order {c.order} of {summary.n_rows} rows in the basis {c.basis[:12]}, without any row.",
        f"In it, y is {what}; φ are the {c.n_features} functions of the inputs that the basis names.",
        "",
        f"{'rows':>12}  {1:>9}  the number of rows: {summary.n_rows}",
    ]
    lines += [f"{field:>12}  {size(summary, field):>9}  {words}" for field, words in fields(summary).items()]
    lines += ["", f"{numbers(summary)} numbers in all. {privacy(summary)}"]
    return "\n".join(lines)


def as_html(summary: Summary) -> str:
    """The same for notebooks."""
    from .._base import html

    first, second, *_ = describe(summary).splitlines()
    rows = [["rows", "1", f"the number of rows: {summary.n_rows}"]]
    rows += [[field, f"{size(summary, field)}", words] for field, words in fields(summary).items()]
    table = html.table(["field", "numbers", "what they are"], rows)
    return html.paragraph(f"{first} {second}") + table + html.paragraph(privacy(summary))


def privacy(summary: Summary) -> str:
    """What is promised of the records, and how much noise that took."""
    noised = summary.privacy
    if noised is None:
        return "No noise was added: it is not differentially private."
    noise = ", ".join(f"{field} {noised.sigma[field]:.4g}" for field in summary.sums if field in noised.sigma)
    beside = " (on the diagonal; beside it 1/√2 of that)" if "gram" in noised.sigma else ""
    return f"{noised}\nThe standard deviation of the noise in each number: {noise}{beside}."


def fields(summary: Summary) -> dict[str, str]:
    """The meaning of every field there is."""
    meaning = {
        "weight": f"the sum of the weights: {summary.weight:g}",
        "y": "the sum of y over the rows",
        "yy": "the sum of y² over the rows",
        "phi": "the sum over the rows of each function φ_i(x)",
        "phi_y": "the sum over the rows of y·φ_i(x)",
        "loss": "the sum of the loss over the rows",
        "gram": "the sum over the rows of φ_i(x)·φ_k(x), for every pair",
    }
    return {name: meaning[name] for name in summary.sums}
