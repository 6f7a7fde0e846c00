"""The top of a report, two sentences on what the model is, and its end, which says how to predict with it."""

from __future__ import annotations

import re
import shlex
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import savable
from .._base.text import number, size
from .._base.version import __version__
from ..estimators import choices
from ..estimators.choices import chosen, with_noun
from ..filters import Tikhonov, as_filter
from .inputs import names_of
from .parts import Section, cards, copyable, warning

if TYPE_CHECKING:
    from .writing import Gathered


KINDS = {
    "SpectralRegressor": "{method}",
    "CorrentropyRegressor": "Kernel gradient descent on {loss}",
    "AveragedRegressor": "The average of kernel regressions on {blocks}, each fitted to its own rows",
    "SummaryRegressor": "{method} learned from sums over rows, and from no row",
    "LESSRegressor": "{method} in the span of a public basis, learned from sums over rows",
    "NystromRegressor": "{method} in the span of kernel functions at a few points",
    "PrivateRegressor": "Differentially private kernel regression by rounds of noised residual sums",
    "PrivateSGDRegressor": "Differentially private kernel regression by gradient descent with noise on where it ends",
}


def label_of(model: Any, target: int = 0) -> str:
    """The name of a label, where it has one."""
    names = list(getattr(model, "targets_", ()))
    return str(names[target]) if names else "the label"


def targets_of(model: Any) -> int:
    """How many labels a model predicts."""
    intercept = getattr(model.predictor_, "intercept", None)
    return 1 if intercept is None or model.one_target_ else len(np.atleast_1d(intercept))


def kind_of(model: Any) -> str:
    """What it is, in the words of KINDS; of a model that is not listed the name of its class."""
    name = type(model).__name__
    known = KINDS.get(name, f"Kernel regression, a {name}")
    return known.format(
        method=_method(model),
        loss=_loss(model),
        blocks=with_noun(getattr(model, "n_blocks_", 0), "block"),
    )


def sentences(model: Any, target: int = 0) -> tuple[str, str]:
    """What was learned from what, and what was chosen."""
    inputs = with_noun(int(model.n_features_in_), "input")
    kernel = getattr(model, "kernel_", None)
    with_kernel = "" if kernel is None else f", with the kernel {_rounded(repr(kernel))}"
    rows = rows_of(model)
    source = "" if rows is None else f" and was fitted to {with_noun(rows, 'record' if private(model) else 'row')}"
    first = f"{kind_of(model)}: it predicts {label_of(model, target)} from {inputs}{source}{with_kernel}."
    return first, f"{chosen(model, target)}."


def rows_of(model: Any) -> int | None:
    """How many rows it was learned from, where it knows."""
    if getattr(model, "summary_", None) is not None:
        return int(model.summary_.n_rows)
    if getattr(model, "blocks_", None):
        return sum(int(block["rows"]) for block in model.blocks_)
    if hasattr(model, "plan_") and hasattr(model.plan_, "n_rows"):
        return int(model.plan_.n_rows)
    if getattr(model, "sites_", None):
        return sum(int(site["rows"]) for site in model.sites_)
    points = getattr(model.predictor_, "points", None)
    return None if points is None else int(points.shape[0])


def private(model: Any) -> bool:
    """Whether the model comes with a guarantee."""
    return getattr(model, "privacy_", None) is not None


def commands(model: Any, file: str) -> list[tuple[str, str]]:
    """How to predict: at the command line and in Python, with the names of this model's inputs."""
    quoted = shlex.quote(file)
    inputs = [repr(name) for name in names_of(model)]
    named = hasattr(model, "feature_names_in_")
    rows = "pandas.read_parquet('new.parquet')" + (f"[[{', '.join(inputs)}]]" if named else "")
    python = [
        "import pandas, unpooled as up",
        f"model = up.load({file!r})",
        f"predicted = model.predict({rows})",
    ]
    return [
        ("At the command line", f"unpooled predict {quoted} new.parquet -o predictions.parquet"),
        ("In Python", "\n".join(python)),
    ]


def _method(model: Any) -> str:
    given = getattr(model, "filter_", getattr(model, "filter", None))
    if given is None or type(as_filter(given)) is Tikhonov:
        return "Kernel ridge regression"
    return f"Kernel regression with the filter {as_filter(given)!r}"


def _loss(model: Any) -> str:
    if np.all(np.isinf(getattr(model, "scale_", 0.0))):
        return "squared errors, since the labels gave no reason to be wary of them"
    return "a loss that gross errors in the labels cannot move"


def _rounded(text: str) -> str:
    return re.sub(r"\d+\.\d{4,}(?:e[-+]?\d+)?", lambda found: f"{float(found[0]):.4g}", text)


OWNER = (
    "This is the data owner's own page. The model is private, and may be published; the figures that come from the "
    "rows given beside it have no noise, and may not. Make a page without data to show others."
)
ROWS = "Some charts of this page show single rows of the data that were given: pass it on only where those may go."


def head(known: Gathered, title: str) -> str:
    """The title, two sentences, and the numbers that matter most."""
    first, second = sentences(known.model, known.target)
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(first)} {escape(second)}</p>']
    if known.rows is not None:
        parts.append(warning(OWNER) if known.private else f'<p class="missing">{escape(ROWS)}</p>')
    several = targets_of(known.model)
    if several > 1:
        said = f"The model predicts {several} labels. This page is about {known.label}; --target chooses another."
        parts.append(f'<p class="missing">{escape(said)}</p>')
    parts.append(cards(_facts(known)))
    return "".join(parts)


def _facts(known: Gathered) -> list[tuple[str, str, str]]:
    model, tuning, found = known.model, known.tuning, known.overall
    facts: list[tuple[str, str, str]] = []
    rows = rows_of(model)
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
    lam = choices.lam_of(model, known.target)
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
    for title, text in commands(known.model, known.file):
        section.add(copyable(title, text))
    return section


def foot(known: Gathered) -> str:
    """What made the page, and of which model."""
    try:
        digest = f"Model {savable.digest_of(known.model)[:12]}. "
    except ValueError:  # an average of foreign learners has no file, and so no name
        digest = ""
    said = f"{digest}Written by unpooled {__version__}; nothing on this page is fetched from elsewhere."
    return f"<footer><p>{escape(said)}</p></footer>"
