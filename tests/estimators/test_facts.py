"""The facts that fitted models answer: one type for all models, and true of each."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from tests.cases.reports import basis, models
from tests.made_up import named_rows
from unpooled.estimators.facts import ModelFacts, ShowsChoices
from unpooled.estimators.span import BasisAverage

X, Y = named_rows(2, 90)
TWO = pd.DataFrame({"a": Y, "b": np.exp(Y)})


def every_model():
    summed = models()["second order"]
    average = BasisAverage().settle(basis(), summed.coef_matrix_, summed.predictor_.intercept, 0.01, ("stay",), 3, {})
    return models() | {
        "nystrom": up.NystromRegressor(n_features=20, fit_intercept=False).fit(X, Y),
        "average of sites": average,
        "two labels": up.SpectralRegressor(per_target=True, fit_intercept=False).fit(X, TWO),
    }


MODELS = every_model()
every_kind = pytest.mark.parametrize("kind", list(MODELS))


@every_kind
def test_every_fitted_model_answers_its_facts(kind):
    model = MODELS[kind]
    facts = model.facts()
    assert isinstance(facts, ModelFacts)
    assert facts.name == type(model).__name__
    assert facts.n_inputs == model.n_features_in_ == len(facts.input_names)
    assert facts.inputs == tuple(vars(model).get("feature_names_in_", ()))
    assert facts.n_targets == np.asarray(model.predict(X)).reshape(len(X), -1).shape[1]
    for name in ("lam", "privacy", "path", "summary"):
        assert (getattr(facts, name) is None) == (vars(model).get(f"{name}_") is None), name
    assert facts.kernel is model.kernel_
    assert (facts.schedule is None) == (kind not in ("private", "private descent"))
    assert facts.choice[0].isupper() or facts.choice[0] in "λε" or facts.choice[0].isdigit()


@every_kind
def test_facts_of_a_model_from_a_file_are_those_that_the_file_keeps(kind, tmp_path):
    model = MODELS[kind]
    up.save(model, tmp_path / "some.model")
    fresh, read = model.facts(), up.load(tmp_path / "some.model").facts()
    differs = {"predictor", "kernel", "path", "tune", "basis", "summary", "solve_again", "filter", "targets", "n_rows"}
    for field in dataclasses.fields(ModelFacts):
        if field.name not in differs | {"privacy", "plan"}:
            assert getattr(read, field.name) == getattr(fresh, field.name), field.name
    assert read.choice == fresh.choice
    assert repr(read.filter) == repr(fresh.filter)
    assert read.n_rows in (None, fresh.n_rows)


def test_facts_are_about_one_label():
    model = MODELS["two labels"]
    for target in (0, 1):
        facts = model.facts(target)
        assert facts.target == target
        assert facts.lam == model.lam_[target]
        assert facts.tuning.values[facts.tuning.chosen] == model.lam_[target]


def test_rows_sites_and_blocks_are_counted():
    found = {kind: model.facts() for kind, model in MODELS.items()}
    assert found["spectral"].n_rows == found["averaged"].n_rows == 300
    assert found["second order"].n_rows == 360
    assert found["private"].n_rows == 1500
    assert found["nystrom"].n_rows is None
    assert len(found["averaged"].blocks) == found["averaged"].n_blocks
    assert found["average of sites"].n_sites == 3
    assert found["less"].sites == []
    assert found["spectral"].blocks is found["spectral"].sites is None


def test_the_expansion_is_in_the_points_that_the_kernel_sees():
    kernel, points = MODELS["spectral"].facts().expansion
    assert points.shape == (300, 3)
    assert kernel is MODELS["spectral"].kernel_
    facts = MODELS["second order"].facts()
    assert len(facts.expansion[1]) == facts.n_functions
    assert facts.scaling is not None
    matrix = np.eye(8) + 0.1
    assert (
        up.SpectralRegressor("precomputed", lam=0.1, fit_intercept=False).fit(matrix, np.arange(8.0)).facts().expansion
        is None
    )


def test_an_average_of_foreign_learners_answers_too():
    from sklearn.kernel_ridge import KernelRidge

    model = up.AveragedRegressor(KernelRidge(), n_blocks=2).fit(X, Y)
    facts = model.facts()
    assert (facts.n_blocks, facts.n_targets, facts.lam, facts.expansion, facts.n_functions) == (2, 1, None, None, 1)
    assert "2 blocks" in up.report(model).html


def test_the_average_of_sites_has_a_report():
    html = up.report(MODELS["average of sites"]).html
    assert "Kernel regression, a BasisAverage" in html


def test_a_new_estimator_is_told_to_answer():
    class Mine(ShowsChoices):
        pass

    with pytest.raises(NotImplementedError, match="Mine must answer facts"):
        Mine().facts()
