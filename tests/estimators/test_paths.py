"""The protocol of paths: every ``path_`` answers alike, whatever was tried and whichever model shows it."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from tests.cases.reports import models
from tests.made_up import named_rows
from unpooled._base.path import CRITERIA, SearchPath
from unpooled._solvers.averaging.search import BlockPath
from unpooled.estimators.paths import DescentPath, RegularizationPath, SummaryPath

X, Y = named_rows(2, 120)
TWO = pd.DataFrame({"a": Y, "b": np.exp(Y)})
KERNEL = up.kernels.Gaussian(1.0)


def fitted():
    """Models that show a path, of every class and of one and two labels."""
    spectral = up.SpectralRegressor(KERNEL, fit_intercept=False)
    robust = up.CorrentropyRegressor(KERNEL, fit_intercept=False)
    found = {name: model for name, model in models().items() if "path_" in vars(model)}
    return found | {
        "spectral, two": up.SpectralRegressor(KERNEL, per_target=True, fit_intercept=False).fit(X, TWO),
        "nystrom": up.NystromRegressor(KERNEL, n_features=20, fit_intercept=False).fit(X, Y),
        "less, two": up.LESSRegressor(fit_intercept=True, order=2).fit(X, TWO, public=X[:40]),
        "correntropy, two": up.CorrentropyRegressor(KERNEL, fit_intercept=False).fit(X, TWO),
        "correntropy, given": up.CorrentropyRegressor(KERNEL, scale=1.0, n_iter=8, fit_intercept=False).fit(X, Y),
        "averaged, two": up.AveragedRegressor(spectral, n_blocks=[1, 2]).fit(X, TWO),
        "averaged, robust": up.AveragedRegressor(robust, n_blocks=[1, 2]).fit(X, Y),
        "averaged, local": up.AveragedRegressor(spectral, n_blocks=[1, 2], lam="local").fit(X, Y),
    }


MODELS = fitted()
every_path = pytest.mark.parametrize("name", list(MODELS))


@every_path
def test_every_path_answers_the_protocol(name):
    path = MODELS[name].path_
    assert isinstance(path, SearchPath)
    assert len(path) == len(path.values) > 0
    assert path.criterion_name in CRITERIA
    assert path.parameter in ("λ", "iterations", "blocks")
    assert path.df is None or path.df.shape == (len(path),)
    assert path.taken is not None
    assert np.all((path.taken >= 0) & (path.taken < len(path)))
    assert "\n" not in repr(path)
    assert repr(path).startswith(f"{type(path).__name__}(")
    assert path._repr_html_().startswith("<p>")


@every_path
def test_the_columns_of_a_path_make_a_data_frame(name):
    path = MODELS[name].path_
    table = pd.DataFrame(path.as_dict())
    assert len(table) > 0
    if path.criterion is not None:
        scores = table[[c for c in table.columns if c.split("_")[0] in ("score", path.criterion_name)]].to_numpy()
        assert sorted(scores.reshape(-1)) == sorted(np.asarray(path.criterion, dtype=float).reshape(-1))


@every_path
def test_a_path_predicts_with_every_candidate_whose_function_it_keeps(name):
    model = MODELS[name]
    path = model.path_
    if isinstance(path, BlockPath):
        assert "predict" not in dir(path)  # it keeps the scores of its candidates and not their functions
        return
    if name == "of private sums":
        return
    values, expected = path.predict(X.to_numpy()), np.asarray(model.predict(X))
    assert values.shape == (len(path), *expected.shape)
    for t, place in enumerate(path.taken):
        taken = values[place] if expected.ndim == 1 else values[place, :, t]
        if vars(model).get("n_rounds_", 1) == 1:
            assert taken == pytest.approx(expected if expected.ndim == 1 else expected[:, t], abs=1e-8)


@every_path
def test_a_path_is_drawn_by_itself_as_by_the_public_function(name):
    path = MODELS[name].path_
    try:
        ax = path.plot()
    except ValueError as error:
        assert "there is nothing to draw" in str(error)
        assert path.criterion is None or name == "averaged, local"
        return
    other = up.plot.path(MODELS[name])
    assert (ax.get_xlabel(), ax.get_ylabel()) == (other.get_xlabel(), other.get_ylabel())
    for one, two in zip(ax.get_lines(), other.get_lines(), strict=True):
        np.testing.assert_array_equal(one.get_ydata(), two.get_ydata())


@every_path
def test_a_path_from_a_file_shows_the_same_and_predicts_nothing(name, tmp_path):
    model = MODELS[name]
    up.save(model, tmp_path / "some.model")
    path, read = model.path_, up.load(tmp_path / "some.model").path_
    assert type(read) is type(path)
    assert repr(read) == repr(path)
    for key, column in path.as_dict().items():
        np.testing.assert_array_equal(read.as_dict()[key], column)
    if isinstance(path, BlockPath):
        return
    with pytest.raises(ValueError, match="fit again to have") as error:
        read.predict(X.to_numpy())
    assert "\n" not in str(error.value)


def test_what_a_file_does_not_keep_of_a_path_may_be_left_out():
    lam, one = np.asarray([0.1, 1.0]), np.zeros(1, dtype=int)
    scores = np.asarray([1.0, 2.0])
    paths = [
        RegularizationPath(
            lam=lam, scored=scores, freedom=lam, criterion_name="loo", exact=True, iterations=None, index=one
        ),
        SummaryPath(lam, scores, lam, "gcv", one),
        DescentPath(n_iter=np.asarray([1, 2]), one_target=True, scales=None, tried=None, score=None),
        BlockPath(np.asarray([1, 2]), {"lam": lam}, np.ones((2, 2)), 0, one),
    ]
    for path in paths:
        assert len(path) == 2
        assert path.family(0) is None
        assert len(path.as_dict()) > 0


@given(st.integers(1, 12), st.integers(1, 3), st.randoms(use_true_random=False))
def test_the_tuning_of_a_path_rises_and_keeps_every_score_in_its_place(n, n_targets, random):
    lam = np.asarray(random.sample(range(1, 100), n), dtype=float)
    scores = np.asarray([[random.uniform(0, 9) for _ in range(n_targets)] for _ in range(n)])
    index = np.asarray([random.randrange(n) for _ in range(n_targets)])
    path = SummaryPath(lam, scores, lam / 2, "gcv", index)
    for target in range(n_targets):
        tuning = path.tuning(target)
        if n == 1:
            assert tuning is None
            continue
        assert np.all(np.diff(tuning.values) > 0)
        assert tuning.values[tuning.chosen] == lam[index[target]]
        assert dict(zip(tuning.values, tuning.score**2)) == pytest.approx(dict(zip(lam, scores[:, target])))
        assert tuning.df == pytest.approx(tuning.values / 2)
        bounded = path.tuning(target, squared=False)
        assert sorted(bounded.score) == sorted(scores[:, target])
        assert bounded.error is None
        assert tuning.error == pytest.approx(np.sqrt(scores[index[target], target]))


def test_the_tuning_of_a_descent_is_at_the_scale_and_steps_that_were_taken():
    model = MODELS["correntropy, two"]
    for target in (0, 1):
        tuning = model.facts(target).tuning
        assert tuning.values[tuning.chosen] == model.n_iter_[target]
        here = int(np.flatnonzero(model.path_.scales[:, target] == model.scale_[target])[0])
        assert tuning.score.tolist() == model.path_.score[here, :, target].tolist()
        assert len(tuning.others) == len(model.path_.scales) - 1


def test_a_criterion_that_noise_made_negative_is_left_out_of_the_picture():
    path = copy.copy(MODELS["second order"].path_)
    path.criterion = path.criterion.copy()
    path.criterion[0] = -1.0
    line = path.plot().get_lines()[0]
    assert np.count_nonzero(np.isnan(line.get_ydata())) == 1
