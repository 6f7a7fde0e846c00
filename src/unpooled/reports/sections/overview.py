"""What the model is, at the top; how to predict with it, at the end."""

from __future__ import annotations

from html import escape

from ... import __version__, models
from ...messages import size
from ..facts import about
from ..gathering import Gathered
from ..numbers import number
from ..parts import Section, cards, copyable, warning

OWNER = (
    "This is the data owner's own page. The model is private, and may be published; the figures that come from the "
    "rows given beside it have no noise, and may not. Make a page without data to show others."
)
ROWS = "Some charts of this page show single rows of the data that were given: pass it on only where those may go."


def head(known: Gathered, title: str) -> str:
    """The title, two sentences, and the numbers that matter most."""
    first, second = about.sentences(known.model, known.target)
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(first)} {escape(second)}</p>']
    if known.rows is not None:
        parts.append(warning(OWNER) if known.private else f'<p class="missing">{escape(ROWS)}</p>')
    several = about.targets_of(known.model)
    if several > 1:
        said = f"The model predicts {several} labels. This page is about {known.label}; --target chooses another."
        parts.append(f'<p class="missing">{escape(said)}</p>')
    parts.append(cards(_facts(known)))
    return "".join(parts)


def _facts(known: Gathered) -> list[tuple[str, str, str]]:
    model, tuning, found = known.model, known.tuning, known.overall
    facts: list[tuple[str, str, str]] = []
    rows = about.rows_of(model)
    if rows is not None:
        facts.append(("Records" if known.private else "Rows", f"{rows:,}", "the model was fitted to"))
    n_sites = len(known.sent) or len(getattr(model, "blocks_", None) or getattr(model, "sites_", None) or [])
    if n_sites > 1:
        facts.append(("Blocks" if hasattr(model, "blocks_") else "Sites", f"{n_sites:,}", _sent_words(known)))
    if found is not None:
        share = "" if found.r2 is None else f"R² {number(found.r2)}, "
        facts.append(("Error", number(found.rmse), f"root mean square; {share}{found.n:,} rows given"))
    if tuning is not None and tuning.error is not None:
        facts.append(("Expected error", number(tuning.error), _explained(known, tuning.error)))
    lam = about.lam_of(model, known.target)
    if lam is not None:
        df = None if tuning is None or tuning.df is None else float(tuning.df[tuning.chosen])
        facts.append(("λ", number(lam), "" if df is None else f"{number(df)} degrees of freedom"))
    if known.private:
        facts.append(("ε", f"{model.privacy_.epsilon:.3g}", f"δ = {number(model.privacy_.delta)}"))
    facts.append(("Inputs", f"{int(model.n_features_in_):,}", _features(known)))
    return facts


def _explained(known: Gathered, error: float) -> str:
    spread = known.label_spread
    if spread is None or spread == 0 or error > spread:
        return "root mean square, a new row"
    return f"a new row; explains {1 - (error / spread) ** 2:.0%} of the variance"


def _sent_words(known: Gathered) -> str:
    total = sum(one.bytes or 0 for one in known.sent)
    return f"sent {size(total)} in all" if total else ""


def _features(known: Gathered) -> str:
    coef = getattr(known.model, "coef_matrix_", None)
    if coef is not None:
        return f"{len(coef):,} features of them"
    points = getattr(known.model.predictor_, "points", None)
    return "" if points is None else f"{len(points):,} kernel functions"


def predicting(known: Gathered) -> Section:
    """Commands to take away."""
    section = Section("predict", "How to predict")
    columns = ", ".join(str(name) for name in getattr(known.model, "feature_names_in_", []))
    if columns:
        section.say(f"New rows need the columns {columns}. Others are not looked at.")
    else:
        n = int(known.model.n_features_in_)
        section.say(f"New rows need {n} columns of inputs, in the order of the fit, and no others.")
    for title, text in about.commands(known.model, known.file):
        section.add(copyable(title, text))
    return section


def foot(known: Gathered) -> str:
    """What made the page, and of which model."""
    try:
        digest = f"Model {models.digest_of(known.model)[:12]}. "
    except ValueError:  # an average of foreign learners has no file, and so no name
        digest = ""
    said = f"{digest}Written by unpooled {__version__}; nothing on this page is fetched from elsewhere."
    return f"<footer><p>{escape(said)}</p></footer>"
