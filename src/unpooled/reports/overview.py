"""The top of a report, two sentences on what the model is, and its end, which says how to predict with it."""

from __future__ import annotations

import re
import shlex
from html import escape
from typing import TYPE_CHECKING

from .._base import declared
from .._base.files import __version__
from .._base.html import Section, cards, copy_box, warning
from .._base.text import format_count, format_number, format_size
from .._solvers.predictors import KernelExpansion
from ..estimators.facts import ModelFacts

if TYPE_CHECKING:
    from .writing import Gathered


def sentences(facts: ModelFacts) -> tuple[str, str]:
    """The model and the rows it learned from, and the choice."""
    inputs = format_count(facts.n_inputs, "input")
    kernel = "" if facts.kernel is None else f", with the kernel {_rounded(repr(facts.kernel))}"
    source = ""
    if facts.n_rows is not None:
        source = f" and was fitted to {format_count(facts.n_rows, 'row' if facts.privacy is None else 'record')}"
    first = f"{facts.kind}: it predicts {facts.label} from {inputs}{source}{kernel}."
    return first, f"{facts.choice}."


def commands(facts: ModelFacts, file: str) -> list[tuple[str, str]]:
    """How to predict: at the command line and in Python, with the names of this model's inputs."""
    quoted = shlex.quote(file)
    rows = f"pandas.read_parquet('new.parquet'){f'[{list(facts.inputs)}]' if facts.inputs else ''}"
    python = [
        "import pandas, unpooled as up",
        f"model = up.load({file!r})",
        f"predicted = model.predict({rows})",
    ]
    return [
        ("At the command line", f"unpooled predict {quoted} new.parquet -o predictions.parquet"),
        ("In Python", "\n".join(python)),
    ]


def _rounded(text: str) -> str:
    return re.sub(r"\d+\.\d{4,}(?:e[-+]?\d+)?", lambda found: f"{float(found[0]):.4g}", text)


OWNER = (
    "This is the data owner's own page. The model is private, and may be published; the figures that come from the "
    "rows given beside it have no noise, and may not. Make a page without data to show others."
)
ROWS = "Some charts of this page show single rows of the data that were given: pass it on only where those may go."


def head(known: Gathered, title: str) -> str:
    """The title, two sentences, and the numbers that matter most."""
    facts = known.facts
    first, second = sentences(facts)
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(first)} {escape(second)}</p>']
    if known.rows is not None:
        parts.append(warning(OWNER) if facts.privacy is not None else f'<p class="missing">{escape(ROWS)}</p>')
    if facts.n_targets > 1:
        said = (
            f"The model predicts {facts.n_targets} labels. This page is about {facts.label}; --target chooses another."
        )
        parts.append(f'<p class="missing">{escape(said)}</p>')
    parts.append(cards(_cards(known)))
    return "".join(parts)


def _cards(known: Gathered) -> list[tuple[str, str, str]]:
    facts, tuning, errors = known.facts, known.tuning, known.overall
    found: list[tuple[str, str, str]] = []
    if facts.n_rows is not None:
        found.append(("Rows" if facts.privacy is None else "Records", f"{facts.n_rows:,}", "the model was fitted to"))
    n_sites = len(known.sent) or len(facts.blocks or facts.sites or ())
    if n_sites > 1:
        total = sum(one.bytes or 0 for one in known.sent)
        sent = f"sent {format_size(total)} in all" if total else ""
        found.append(("Sites" if facts.blocks is None else "Blocks", f"{n_sites:,}", sent))
    if errors is not None:
        share = "" if errors.r2 is None else f"R² {format_number(errors.r2)}, "
        found.append(("Error", format_number(errors.rmse), f"root mean square; {share}{errors.n:,} rows given"))
    if tuning is not None and tuning.error is not None:
        found.append(("Expected error", format_number(tuning.error), _explained(known, tuning.error)))
    if facts.lam is not None:
        df = None if tuning is None or tuning.df is None else float(tuning.df[tuning.chosen])
        found.append(("λ", format_number(facts.lam), "" if df is None else f"{format_number(df)} degrees of freedom"))
    if facts.privacy is not None:
        found.append(("ε", f"{facts.privacy.epsilon:.3g}", f"δ = {format_number(facts.privacy.delta)}"))
    return [*found, ("Inputs", f"{facts.n_inputs:,}", _features(facts))]


def _explained(known: Gathered, error: float) -> str:
    spread = known.label_spread
    if spread is None or spread == 0 or error > spread:
        return "root mean square, a new row"
    return f"a new row; explains {1 - (error / spread) ** 2:.0%} of the variance"


def _features(facts: ModelFacts) -> str:
    if facts.n_features is not None:
        return f"{facts.n_features:,} features of them"
    return f"{facts.predictor.n_points:,} kernel functions" if isinstance(facts.predictor, KernelExpansion) else ""


def predicting(known: Gathered) -> Section:
    """Commands to take away."""
    section, facts = Section("predict", "How to predict"), known.facts
    if facts.inputs:
        section.say(f"New rows need the columns {', '.join(facts.inputs)}. Others are not looked at.")
    else:
        section.say(f"New rows need {facts.n_inputs} columns of inputs, in the order of the fit, and no others.")
    for title, text in commands(facts, known.file):
        section.add(copy_box(title, text))
    return section


def foot(known: Gathered) -> str:
    """What made the page, and of which model."""
    try:
        digest = f"Model {declared.digest_of(known.model)[:12]}. "
    except ValueError:  # an average of foreign learners has no file, and so no name
        digest = ""
    said = f"{digest}Written by unpooled {__version__}; nothing on this page is fetched from elsewhere."
    return f"<footer><p>{escape(said)}</p></footer>"
