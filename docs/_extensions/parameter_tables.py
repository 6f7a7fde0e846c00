"""The page of the reference with the parameters of every estimator: python docs/_extensions/parameter_tables.py

The tables are made from the declarations that constructors, checks and files read, and from the attributes that the
docstrings list. A test compares the page with them, and the attributes with those of fitted models.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import unpooled as up
from unpooled._base.declared import parameter_table
from unpooled._base.kinds import parameters_of

PAGE = Path(__file__).parents[1] / "api" / "parameters.md"
COLUMNS = ("Spectral", "Nystrom", "Averaged", "Correntropy", "Summary", "LESS", "Private", "PrivateSGD")
ABSENT = "–"

ONLY_AVERAGES = "Only an average divides rows into blocks and works on them in turn, so only it has these choices."
ONLY_DESCENT = "Kernel gradient descent has no λ: its scale, its steps and their number are the regularisation."
ONLY_SGD = "These describe stochastic gradient descent, which no other estimator runs."
PROMISED = "Only the private estimators spend a privacy budget; a private summary carries its own promise."
FROM_ROUNDS = "Only learning by several rounds of residuals has rounds to describe."
FROM_SUMS = "Only estimators that learn from sums over rows have these."

#: why the cells of a row differ: one reason for each name, or for names that differ for the same reason
REASONS: dict[tuple[str, ...], str] = {
    ("kernel",): "An average uses the kernel of its `estimator`, and a summary the kernel of its basis.",
    ("filter",): "The others are each one method that takes no filter; an average uses the filter of its `estimator`.",
    ("lam",): "Each default is the best criterion that the available data allow. Descent is regularised by its number "
    "of steps, and private fits by the noise that they know.",
    ("fit_intercept",): "An average uses that of its `estimator`. PrivateRegressor always has an intercept: its rounds "
    "start from the released centre of the labels and its last question corrects the level, so a fit without an "
    "intercept would be another method with another proof.",
    ("grid",): "Every estimator that chooses λ takes a grid to choose from.",
    ("per_target",): "Only a full decomposition gives every target its own λ at no further cost.",
    ("cv",): "Choosing by folds needs all rows in memory.",
    ("random_state",): "Learning from sums draws nothing at random.",
    ("solver",): "Where several routes lead to the same function, it says which one to take.",
    ("n_features",): "It is there where the function lies in the span of features. A summary comes with its basis, of "
    "which all features are kept. PrivateSGDRegressor has a fixed number, because its noise does not grow with it.",
    ("device", "precision", "precision_", "jitter_"): "Only NystromRegressor sums over rows on a device, or in a "
    "precision, of its own choice; the others follow the arrays that they are given.",
    ("standardize",): "The basis of a summary is scaled already, and in memory a kernel can have one length scale for "
    "each input. PrivateRegressor scales by default because it always has rows, public or made up, to do it with.",
    ("tol",): "The two iterations measure what is left in different ways: a share of the equations of one λ, and a "
    "share of a norm of the residual sums.",
    ("max_iter",): "NystromRegressor alone iterates on its own; `rounds` are exchanges with the holders of rows.",
    ("estimator", "n_blocks", "score_by", "refit", "max_validation", "memory_limit", "time_limit", "tolerance"): (
        ONLY_AVERAGES
    ),
    ("n_blocks_", "blocks_", "plan_"): ONLY_AVERAGES,
    ("engine",): "It is there where blocks or sites each work on rows of their own. The others work in one process, "
    "with the threads of its machine.",
    ("scale", "n_iter", "decay", "jump", "scale_"): ONLY_DESCENT,
    ("step",): "Both descents have a step; with noise for privacy it is planned from the budget.",
    ("loss",): "A summary was made for one loss, and takes it from there. The robust descent is for wrong labels, and "
    "a private fit takes the loss that its label bound allows.",
    ("ridge", "steps", "n_rounds_"): "They describe rounds of residuals, which only these two estimators can continue.",
    ("rounds",): "A summary is one round; further rounds are calls of `update`.",
    ("order",): "The order of a summary was fixed when it was made.",
    ("basis",): "The basis of these estimators comes from public rows or is given; a summary names its own.",
    ("epsilon", "delta", "ledger"): PROMISED,
    ("label_bound",): "PrivateRegressor can do without one, with a loss that ignores gross outliers.",
    ("noise",): "Only PrivateRegressor asks several sites, each of which may add noise.",
    (
        "method",
        "n_steps",
        "passes",
        "batch_size",
        "clip",
        "weight_decay",
        "averaged",
        "precondition",
        "shrink",
    ): ONLY_SGD,
    ("sensitivity_", "sigma_"): ONLY_SGD,
    ("lam_", "path_"): "They exist where something is chosen along a path: λ, or the steps of a descent.",
    (
        "dual_coef_",
        "coef_",
    ): "`dual_coef_` has a coefficient for each row, `coef_` for each feature; the function of an "
    "average is in `predictor_`.",
    ("solver_",): "It names the route that the fit took, where there are several.",
    ("n_iter_",): "It counts the iterations of a fit that iterates on its own rows.",
    ("loss_",): "It exists where the loss is a choice, or comes with the sums; the loss of a private fit is in its "
    "`schedule_`, with the bound that it belongs to.",
    ("targets_",): "Names of labels are kept where labels can be columns of a file.",
    ("floor_", "n_features_rule_", "summary_"): FROM_SUMS,
    ("basis_",): "The estimators that make a basis keep it; a summary finds its own by its digest.",
    ("history_",): FROM_ROUNDS,
    ("sites_",): "It exists where `fit` takes a site for every row; an average describes its sites in `blocks_`.",
    ("privacy_",): "It states the privacy of a model, where the model has any.",
    ("schedule_",): "It lists all that a private fit decided before it looked at any record.",
}

HEAD = """# Parameters of the estimators

## All estimators side by side

The first table compares the eight estimators: the default of every parameter (*required* where there is none), and the
attributes that a fit leaves. A dash means that the estimator has no such parameter or attribute. All names end in
`Regressor`. Where estimators differ, the second table says why. Every fitted estimator also has `n_features_in_`, and
`feature_names_in_` where columns had names, as in scikit-learn.
"""

EACH = """## Each estimator

What each parameter may be, as constructors, checks and files know it: one declaration in each class is read by all of
them, and by this page. *In a file* says whether `up.save` keeps the value; a ledger or a place on one machine is not
kept. Any other value is refused by `fit` with one sentence, and so is a file that holds it.
"""


def attributes_of(cls: Any) -> list[str]:
    """The names under "Attributes" in the docstring of an estimator."""
    section = re.search(r"\nAttributes\n-+\n(.*?)(?:\n\n[A-Z]\w+\n---|\Z)", inspect.getdoc(cls) or "", re.DOTALL)
    assert section is not None
    lists = [re.match(r"(\w+_(?:, \w+_)*)(?= :|,|$)", line) for line in section[1].splitlines()]
    return [name for found in lists if found is not None for name in found[1].split(", ")]


def rows() -> dict[str, list[str]]:
    """The table of all estimators: every parameter, then every attribute, with one cell for each column."""
    parameters, attributes = [], []
    for column in COLUMNS:
        cls = getattr(up, f"{column}Regressor")
        parameters.append({one.name: one.default for one in parameters_of(cls)})
        attributes.append(attributes_of(cls))

    def cell(defaults: dict[str, Any], name: str) -> str:
        if name not in defaults:
            return ABSENT
        return "required" if defaults[name] is dataclasses.MISSING else f"`{defaults[name]!r}`"

    first = dict.fromkeys(name for defaults in parameters for name in defaults)
    second = dict.fromkeys(name for names in attributes for name in names)
    return {name: [cell(defaults, name) for defaults in parameters] for name in first} | {
        name: ["✓" if name in names else ABSENT for names in attributes] for name in second
    }


def _comparison() -> str:
    lines = [f"| | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| `{name}` | {' | '.join(cells)} |" for name, cells in rows().items()]
    reasons = [f"| {', '.join(f'`{name}`' for name in names)} | {why} |" for names, why in REASONS.items()]
    return "\n".join([*lines, "", "| where they differ | why |", "|---|---|", *reasons, ""])


def page() -> str:
    """The text of the page."""
    names = sorted(name for name in up.__all__ if name.endswith("Regressor"))
    tables = [f"### {name}\n\n{parameter_table(getattr(up, name))}\n" for name in names]
    return "\n".join([HEAD, _comparison(), EACH, *tables])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
