"""up.plan predicts from public knowledge alone: more budget and smoother targets are better, and it is about right.

Tests `privacy/rounds/simulation.py`.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import unpooled as up
from tests.cases.cli import call
from tests.made_up import CUBE, points, regression, sine

U = points(0, 300, between=CUBE)


def test_more_budget_more_records_and_smoother_targets_are_better():
    small, large = up.plan(5_000, U, [0.1, 1.0, 10.0]), up.plan(100_000, U, [0.1, 1.0, 10.0])
    for one in (small, large):
        assert one.predictions[0].usual < one.predictions[2].usual <= one.ceiling
        assert one.predictions[0].rough < one.predictions[0].smooth
    assert small.predictions[0].rough < large.predictions[0].rough
    assert up.plan(5_000, U, 0.3, sites=16).predictions[0].rough < up.plan(5_000, U, 0.3).predictions[0].rough


def test_without_public_rows_it_promises_less():
    with_rows, without = up.plan(10_000, U, 0.3), up.plan(10_000, None, 0.3, n_inputs=2)
    assert without.predictions[0].usual < with_rows.predictions[0].usual
    assert "standard normal" in str(without)


def test_it_plans_the_features_and_rounds_that_the_fit_takes():
    rng = np.random.default_rng(2)
    U = rng.standard_normal((300, 8))
    X = rng.standard_normal((8_000, 8))
    outlook = up.plan(8_000, U, [0.1, 10.0], label_bound=3.0)
    poor, rich = outlook.predictions
    assert poor.n_features == outlook.n_features < rich.n_features
    assert poor.rounds < rich.rounds
    for row in (poor, rich):
        model = up.PrivateRegressor(row.epsilon, 1e-6, label_bound=3.0).fit(X, X[:, 0], public=U)
        assert (model.schedule_.n_features, model.schedule_.rounds) == (row.n_features, row.rounds)


def test_it_is_about_right():
    X, y = regression(1, 20_000, between=CUBE, function=sine(3, slope=1.0), noise=0.25)
    predicted = up.plan(20_000, U, 1.0, label_bound=3.0, explained=1 - 0.0625 / np.var(y)).predictions[0]
    reached = up.PrivateRegressor(1.0, 1e-6, label_bound=3.0).fit(X, y, public=U).score(X, y)
    assert predicted.rough - 0.1 < reached < predicted.smooth + 0.05


def test_it_can_be_read_and_kept():
    outlook = up.plan(1_000, U, [0.5, 2.0])
    assert len(str(outlook).splitlines()) == 5
    assert json.loads(json.dumps(outlook.to_dict()))["predictions"][1]["epsilon"] == 2.0
    assert len(outlook.plot().get_lines()) == 4


def test_the_command(tmp_path):
    up.bases.EmpiricalFeatures(n_features=20).fit(U).save(tmp_path / "study.basis")
    study = tmp_path / "study.basis"
    said = json.loads(call("plan", "5000", study, "--epsilon", "0.5,2", "--json").stdout)
    assert [row["epsilon"] for row in said["predictions"]] == [0.5, 2.0]
    assert (
        "--epsilon must be numbers"
        in call("plan", "50", str(tmp_path / "study.basis"), "--epsilon", "a", code=2).stderr
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": 0}, "n must be a whole number"),
        ({"epsilon": -1.0}, "epsilon must be a positive"),
        ({"epsilon": []}, "epsilon must be a number or several"),
        ({"delta": 2.0}, "delta must lie between"),
        ({"explained": 1.5}, "explained must be a share"),
        ({"label_bound": 0.0}, "label_bound must be a positive"),
        ({"kernel": up.kernels.Linear()}, "has no bound"),
        ({"public": None}, "give public rows"),
        ({"public": np.zeros(3)}, "public: "),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        up.plan(**{"n": 1_000, "public": U} | arguments)
