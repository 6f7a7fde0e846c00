"""What a fitted model is, in two sentences, and how to predict with it."""

from __future__ import annotations

import re
import shlex
from typing import Any

import numpy as np

from ...filters import Tikhonov, as_filter
from ..numbers import number
from .dependence import names_of
from .tuning import tuning_of

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


def lam_of(model: Any, target: int = 0) -> float | None:
    """The λ of one label; None where the model has none."""
    lam = np.atleast_1d(getattr(model, "lam_", np.empty(0)))
    return float(lam[min(target, len(lam) - 1)]) if len(lam) else None


def kind_of(model: Any) -> str:
    """What it is, in the words of KINDS; of a model that is not listed the name of its class."""
    name = type(model).__name__
    known = KINDS.get(name, f"Kernel regression, a {name}")
    return known.format(
        method=_method(model),
        loss=_loss(model),
        blocks=_count(getattr(model, "n_blocks_", 0), "block"),
    )


def sentences(model: Any, target: int = 0) -> tuple[str, str]:
    """What was learned from what, and what was chosen."""
    inputs = _count(int(model.n_features_in_), "input")
    kernel = getattr(model, "kernel_", None)
    with_kernel = "" if kernel is None else f", with the kernel {_rounded(repr(kernel))}"
    rows = rows_of(model)
    source = "" if rows is None else f" and was fitted to {_count(rows, 'record' if private(model) else 'row')}"
    first = f"{kind_of(model)}: it predicts {label_of(model, target)} from {inputs}{source}{with_kernel}."
    return first, f"{chosen(model, target)}."


def chosen(model: Any, target: int = 0) -> str:
    """What was chosen, and how, in one sentence without its full stop."""
    tuning = tuning_of(model, target)
    parts = []
    lam = lam_of(model, target)
    if lam is not None:
        parts.append(f"λ = {number(lam)}")
    if hasattr(model, "n_iter_"):
        scale, n_iter = (np.atleast_1d(value) for value in (model.scale_, model.n_iter_))
        size = number(float(scale[min(target, len(scale) - 1)]))
        parts.append(f"{int(n_iter[min(target, len(n_iter) - 1)]):,} steps at scale {size}")
    if hasattr(model, "n_rounds_") and model.n_rounds_ > 1:
        parts.append(f"{model.n_rounds_} rounds")
    if hasattr(model, "n_blocks_"):
        parts.append(_count(model.n_blocks_, "block"))
    if getattr(model, "privacy_", None) is not None:
        parts += [f"ε = {model.privacy_.epsilon:.3g}", f"δ = {number(model.privacy_.delta)}"]
    if not parts:
        return "There was nothing to choose"
    said = f"{_listed(parts)} {'were' if len(parts) > 1 else 'was'}"
    if tuning is None:
        return f"{said} given"
    df = "" if tuning.df is None else f", which leaves {number(float(tuning.df[tuning.chosen]))} degrees of freedom"
    return f"{said} chosen among {len(tuning.values)} by {tuning.order}{df}"


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


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _listed(parts: list[str]) -> str:
    *rest, last = parts or [""]
    return f"{', '.join(rest)} and {last}" if rest else last
