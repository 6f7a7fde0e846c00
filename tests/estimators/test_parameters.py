"""Every parameter of every estimator, set to every wrong kind of value: one sentence that names it, nothing changed.

What a parameter may be is said here once more, by hand, so a check that is lost in the library is missed here.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import unpooled as up
from tests.estimators.fitted import CASES, Case, U
from unpooled._base.declared import parameter_table
from unpooled._base.kinds import parameters_of

pytestmark = pytest.mark.filterwarnings("ignore")
SCRIPT = Path(__file__).parents[2] / "docs" / "_extensions" / "parameter_tables.py"
ONE_EACH = [case for case in CASES if "," not in case.name and case.name != "less in rounds"]

#: Values of many kinds, each by a letter.
VALUES: dict[str, Any] = {
    "N": None, "T": True, "w": "nonsense", "-": -1, "0": 0, "1": 1, "f": 0.5, "i": math.inf, "n": math.nan,
    "e": [], "a": [0.5, 0.25], "m": [[1.0]], "d": {}, "o": object(), "c": int, "j": 1j, "b": b"x",
    "s": np.array(["a"]), "t": (True, False),
}  # fmt: skip
#: What a parameter may be, by the letters of its values; nothing but what it is given where it is not named.
MAY_BE = {
    "kernel": "N", "lam": "1fa", "grid": "N1fa", "fit_intercept": "T", "per_target": "T", "cv": "Neamst",
    "random_state": "N01", "scale": "1fia", "n_iter": "1", "step": "1f", "decay": "0f", "jump": "0f", "estimator": "N",
    "n_blocks": "1", "engine": "N", "refit": "T", "max_validation": "1", "memory_limit": "N1fi", "time_limit": "N1fi",
    "tolerance": "0f", "verbose": "T-01f", "n_features": "1", "device": "N", "standardize": "T", "tol": "f",
    "max_iter": "1", "rounds": "1", "order": "1", "ridge": "T", "epsilon": "1f", "delta": "f", "label_bound": "1f",
    "ledger": "Nw", "n_steps": "N1", "passes": "N1", "batch_size": "N1", "clip": "N1f", "averaged": "T",
    "precondition": "N1f", "shrink": "T", "basis": "N",
    "less.tol": "0f", "private descent.weight_decay": "01f", "private descent.step": "N1f",
    "private.label_bound": "N1f",
    "private.random_state": "01", "private descent.random_state": "01",
}  # fmt: skip
#: Kinds that are right, in a fit in which another parameter forbids them.
CONTRADICTS = {("private descent", "n_steps", "1")}


@cache
def fitted(case: Case) -> Any:
    return case.fit(case.make())


def parameters() -> list[Any]:
    return [(case, one.name) for case in ONE_EACH for one in parameters_of(type(case.make()))]


@pytest.mark.parametrize(("case", "name"), parameters(), ids=lambda one: one if isinstance(one, str) else one.name)
def test_a_parameter_of_a_wrong_kind_is_refused_in_a_sentence_and_nothing_is_changed(case, name):
    model = fitted(case)
    right = getattr(model, name)
    before, values = dict(vars(model)), model.predict(U).tobytes()
    may_be = MAY_BE.get(f"{case.name}.{name}", MAY_BE.get(name, ""))
    for letter, value in VALUES.items():
        model.set_params(**{name: value})
        if letter in may_be:
            if (case.name, name, letter) not in CONTRADICTS:
                model._check_parameters()
        else:
            with pytest.raises(ValueError) as refused:
                case.again(model)
            sentence = str(refused.value)
            assert name in sentence, (letter, sentence)
            assert "\n" not in sentence
            assert len(sentence) < 400
        model.set_params(**{name: right})
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[key] is kept for key, kept in before.items()), letter
    assert model.predict(U).tobytes() == values


@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.name)
def test_the_constructor_the_docstring_and_the_table_name_the_declared_parameters(case):
    cls = type(case.make())
    declared = parameters_of(cls)
    names = [one.name for one in declared]
    signature = inspect.signature(cls).parameters
    assert list(signature) == names
    for one in declared:
        default = signature[one.name].default
        assert (default is inspect.Parameter.empty) == (one.default is dataclasses.MISSING)
        assert one.default is dataclasses.MISSING or default is one.default
    about = inspect.getdoc(cls).split("Parameters\n----------\n")[1].split("\nAttributes\n")[0]
    described = [line.split(":")[0] for line in about.splitlines() if line and not line.startswith(" ") and ":" in line]
    assert [name.strip() for line in described for name in line.split(",") if name.strip().isidentifier()] == names
    rows = parameter_table(cls).splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == names


@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.name)
def test_clones_and_classes_know_of_the_defaults_from_the_constructor_alone(case):
    model = case.make()
    again = clone(model)
    assert again.get_params().keys() == model.get_params().keys()
    assert not [name for name in model.get_params(deep=False) if hasattr(type(model), name)]


def test_every_public_regressor_is_among_those_that_are_tested():
    regressors = {name for name in up.__all__ if name.endswith("Regressor")}
    assert {type(case.make()).__name__ for case in ONE_EACH} == regressors


def test_the_page_of_the_reference_is_made_of_the_declarations():
    found = runpy.run_path(str(SCRIPT))
    assert found["PAGE"].read_text(encoding="utf-8") == found["page"](), f"make it anew: python {SCRIPT}"


def test_a_row_of_the_table_of_all_estimators_differs_for_one_reason_and_no_reason_is_without_a_row():
    found = runpy.run_path(str(SCRIPT))
    different = [name for name, cells in found["rows"]().items() if len(set(cells)) > 1]
    explained = [name for names in found["REASONS"] for name in names]
    assert sorted(explained) == sorted(different)
    assert found["COLUMNS"] == tuple(dict.fromkeys(found["COLUMNS"]))
    assert {f"{name}Regressor" for name in found["COLUMNS"]} == {n for n in up.__all__ if n.endswith("Regressor")}


#: what models keep for themselves and their files, and what scikit-learn asks for
OWN = {
    "basis_digest_", "centering_", "coef_matrix_", "feature_names_in_", "n_features_in_", "one_target_", "rounds_",
    "shift_", "summary_order_",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({type(case.make()).__name__ for case in CASES}))
def test_docstrings_list_the_attributes_that_fits_leave(name):
    listed = set(runpy.run_path(str(SCRIPT))["attributes_of"](getattr(up, name)))
    fitted = [case.fit(case.make()) for case in CASES if type(case.make()).__name__ == name]
    left = {one for model in fitted for one in dir(model) if one.endswith("_") and not one.startswith("_")}
    assert left - OWN == listed
