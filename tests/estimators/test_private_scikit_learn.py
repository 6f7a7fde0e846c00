"""Private estimators have scikit-learn's manners, but for the checks that private_checks names."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import unpooled as up
from tests.estimators.private_checks import NOT_FOR_PRIVATE, checks, deterministic, without_noise
from tests.made_up import regression, sine

ESTIMATORS = {
    "as it comes": up.PrivateSGDRegressor(1.0, 1e-6, label_bound=100.0),
    "few features": up.PrivateSGDRegressor(
        1.0, 1e-6, label_bound=100.0, n_features=20, averaged=True, weight_decay=0.1
    ),
    "paper": up.PrivateSGDRegressor(1.0, 1e-6, label_bound=100.0, n_features=20, method="paper", fit_intercept=False),
    "rounds": up.PrivateRegressor(1.0, 1e-6, label_bound=100.0, n_features=20),
    "rounds, no bound": up.PrivateRegressor(1.0, 1e-6, n_features=20),
}
HELD, NAMED = zip(*(checks(estimator) for estimator in ESTIMATORS.values()))


def _params(groups):
    return [
        pytest.param(estimator, check, id=f"{check.func.__name__} {name}")
        for name, group in zip(ESTIMATORS, groups)
        for estimator, check in group
    ]


@pytest.mark.parametrize(("estimator", "check"), _params(HELD))
def test_every_check_of_scikit_learn_but_those_named_holds(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("estimator", "check"), _params(NAMED))
def test_those_named_hold_once_the_noise_is_taken_out(estimator, check, monkeypatch):
    without_noise(monkeypatch)
    deterministic(estimator, monkeypatch)
    check(estimator)


def test_no_check_is_named_that_is_not_there():
    for named in NAMED:
        assert {check.func.__name__ for _, check in named} == set(NOT_FOR_PRIVATE)


def test_no_check_is_left_out_because_fits_differ():
    for held in HELD:
        names = {check.func.__name__ for _, check in held}
        assert {"check_methods_sample_order_invariance", "check_methods_subset_invariance"} <= names


X, y = regression(n=300, function=sine(1), noise=0.0)
X = pd.DataFrame(X, columns=["age", "dose"])
BOTH = [up.PrivateSGDRegressor, up.PrivateRegressor]


@pytest.mark.parametrize("cls", BOTH)
def test_it_is_a_regressor_of_one_label(cls):
    model = cls(1.0, 1e-6, 1.0)
    assert is_regressor(model)
    assert not model.__sklearn_tags__().target_tags.multi_output
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(np.ones((2, 2)))


@pytest.mark.parametrize("cls", BOTH)
def test_clones_pickles_pipelines_and_folds(cls):
    model = cls(5.0, 1e-6, 1.0, n_features=30).fit(X, y)
    assert repr(clone(model)) == repr(model)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    given = {f"{cls.__name__.lower()}__public": X.iloc[:50]}
    piped = make_pipeline(FunctionTransformer(), clone(model)).fit(X, y, **given)
    assert piped.predict(X).shape == (300,)
    assert np.all(np.isfinite(cross_val_score(model, X, y, cv=3)))


@pytest.mark.parametrize("method", ["tight", "paper"])
def test_frames_keep_their_names_with_and_without_a_public_sample(method):
    how = {"n_features": 20, "method": method, "fit_intercept": method == "tight"}
    for public in (None, X.iloc[:50]):
        model = up.PrivateSGDRegressor(5.0, 1e-6, 1.0, **how).fit(X, y, public=public)
        assert list(model.feature_names_in_) == list(model.basis_.feature_names_in_) == ["age", "dose"]
        assert model.n_features_in_ == 2
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X[["dose", "age"]])
    named = up.PrivateSGDRegressor(5.0, 1e-6, 1.0, **how).fit(X.assign(y=y), "y", public=X.iloc[:50])
    assert list(named.feature_names_in_) == ["age", "dose"]
