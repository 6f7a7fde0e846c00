"""SpectralRegressor has scikit-learn's manners: every check it makes, and the tools people put around an estimator.

Tests `estimators/spectral.py`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as gp
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.fixes import parse_version

from tests.made_up import regression, sine
from unpooled import AveragedRegressor, CorrentropyRegressor, SpectralRegressor
from unpooled.filters import IteratedTikhonov
from unpooled.kernels import Gaussian, Linear, Polynomial

FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
GRID = np.logspace(0, -3, 7)


@pytest.fixture(name="data")
def _data():
    return regression(n=60, d=3, function=sine(1, slope=1.0))


ESTIMATORS = {
    "as it comes": SpectralRegressor(fit_intercept=False),
    "centred": SpectralRegressor(fit_intercept=True),
    **{name: SpectralRegressor(filter=name, grid=GRID, fit_intercept=False) for name in FILTERS[1:]},
    "a fixed lam": SpectralRegressor(Linear(), lam=0.1, fit_intercept=False),
    "gcv": SpectralRegressor("rbf", lam="gcv", fit_intercept=True),
    "folds": SpectralRegressor(gp.RBF(), lam="cv", per_target=True, cv=3, fit_intercept=False),
    "averaged": AveragedRegressor(),
    "correntropy": CorrentropyRegressor(fit_intercept=False),
    "correntropy, fixed": CorrentropyRegressor(scale=2.0, n_iter=1000, fit_intercept=True),
    "huber": CorrentropyRegressor(loss="huber", cv=3, fit_intercept=True),
}
CHECKS = [
    pytest.param(estimator, check, id=f"{check.func.__name__} {name}")
    for name, given in ESTIMATORS.items()
    for estimator, check in estimator_checks_generator(given)
    if "array_api" not in check.func.__name__  # those come next
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_every_check_of_scikit_learn_holds(estimator, check):
    check(estimator)


@pytest.mark.skipif(parse_version(sklearn.__version__) < parse_version("1.7"), reason="older ones have no such checks")
def test_the_checks_on_other_arrays_hold():
    """They run only where SCIPY_ARRAY_API was set before SciPy was imported: in an interpreter of its own."""
    program = (
        "from sklearn.utils.estimator_checks import estimator_checks_generator\n"
        "from unpooled import AveragedRegressor, CorrentropyRegressor, SpectralRegressor\n"
        "models = CorrentropyRegressor(), SpectralRegressor()\n"
        "given = [check for model in models for check in estimator_checks_generator(model)]\n"
        "checks = [c for c in given if 'array_api' in c[1].func.__name__]\n"
        "assert checks\n"
        "for estimator, check in checks: check(estimator)\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_is_a_regressor_of_one_or_many_targets():
    tags = SpectralRegressor(fit_intercept=False).__sklearn_tags__()
    assert is_regressor(SpectralRegressor(fit_intercept=False))
    assert tags.target_tags.multi_output
    assert not tags.input_tags.pairwise
    assert SpectralRegressor("precomputed", fit_intercept=False).__sklearn_tags__().input_tags.pairwise


def test_a_clone_has_the_same_parameters_and_has_learnt_nothing(data):
    model = SpectralRegressor(2.0 * Gaussian(0.5), IteratedTikhonov(3), lam="gcv", fit_intercept=True, grid=GRID).fit(
        *data
    )
    copy = clone(model)
    assert repr(copy) == repr(model)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        copy.predict(data[0])
    assert_array_equal(copy.fit(*data).predict(data[0]), model.predict(data[0]))


@pytest.mark.parametrize("filter", FILTERS)
def test_fitting_does_not_touch_the_parameters(filter, data):
    model = SpectralRegressor(filter=filter, grid=GRID, fit_intercept=False)
    before = model.get_params()
    model.fit(*data)
    assert all(model.get_params()[name] is value for name, value in before.items())


@pytest.mark.parametrize("filter", FILTERS)
def test_a_pickled_model_predicts_the_same(filter, data):
    X, y = data
    model = SpectralRegressor(filter=filter, fit_intercept=True, grid=GRID).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict(X), model.predict(X))
    assert_array_equal(copy.path_.predict(X), model.path_.predict(X))


def test_a_grid_search_reaches_the_length_scale_and_lam(data):
    X, y = data
    search = GridSearchCV(
        SpectralRegressor(Gaussian(1.0), fit_intercept=True),
        {"kernel__length_scale": [0.1, 1.0, 3.0], "lam": [1e-4, 1e-1, "loo"], "filter": ["tikhonov", "cutoff"]},
        cv=3,
    ).fit(X, y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_score_ > 0.9
    assert search.best_estimator_.kernel_.length_scale == search.best_params_["kernel__length_scale"]


def test_a_grid_search_reaches_into_sums_products_and_filters(data):
    X, y = data
    model = SpectralRegressor(Gaussian(1.0) + 0.5 * Polynomial(), IteratedTikhonov(), lam=0.01, fit_intercept=False)
    grid = {
        "kernel__left__length_scale": [0.5, 2.0],
        "kernel__right__scale": [0.1, 1.0],
        "kernel__right__kernel__degree": np.array([1, 2]),  # what numpy.arange gives
        "filter__times": np.array([1, 2]),
    }
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_a_grid_search_over_a_precomputed_matrix_cuts_rows_and_columns(data):
    X, y = data
    folds = KFold(3)
    by_matrix = cross_val_score(
        SpectralRegressor("precomputed", lam=0.01, fit_intercept=False), Gaussian(1.0)(X), y, cv=folds
    )
    direct = cross_val_score(SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False), X, y, cv=folds)
    assert_allclose(by_matrix, direct, rtol=1e-9)


def test_cross_validation_scores_as_refitting_by_hand(data):
    X, y = data
    model = SpectralRegressor(Gaussian(1.0), fit_intercept=False)
    scores = cross_val_score(model, X, y, cv=KFold(4))
    by_hand = [clone(model).fit(X[a], y[a]).score(X[b], y[b]) for a, b in KFold(4).split(X)]
    assert_allclose(scores, by_hand)
    assert cross_val_predict(model, X, y, cv=4).shape == y.shape


def test_a_pipeline_hands_data_frames_on(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipeline = make_pipeline(
        StandardScaler().set_output(transform="pandas"), SpectralRegressor(Gaussian(1.0), fit_intercept=False)
    )
    assert list(pipeline.fit(frame, y)[-1].feature_names_in_) == ["a", "b", "c"]
    plain = make_pipeline(StandardScaler(), SpectralRegressor(Gaussian(1.0), fit_intercept=False)).fit(X, y)
    assert_allclose(pipeline.predict(frame), plain.predict(X), rtol=1e-9)


def test_a_pipeline_hands_weights_on(data):
    X, y = data
    w = np.linspace(0.5, 2, len(y))
    pipeline = Pipeline(
        [("scale", StandardScaler()), ("model", SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False))]
    )
    direct = SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(
        StandardScaler().fit_transform(X), y, w
    )
    expected = direct.predict(StandardScaler().fit_transform(X))
    assert_array_equal(pipeline.fit(X, y, model__sample_weight=w).predict(X), expected)


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def frame_of(library, X, names):
    return FRAMES[library]({name: X[:, i] for i, name in enumerate(names)})


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_is_its_numbers_and_its_names_are_remembered(library, data):
    X, y = data
    frame = frame_of(library, X, ["a", "b", "c"])
    model = SpectralRegressor(Gaussian(1.0), fit_intercept=False).fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert_array_equal(model.predict(frame), SpectralRegressor(Gaussian(1.0), fit_intercept=False).fit(X, y).predict(X))


@pytest.mark.parametrize("library", FRAMES)
def test_a_renamed_or_reordered_column_is_refused(library, data):
    X, y = data
    model = SpectralRegressor(Gaussian(1.0), fit_intercept=False).fit(frame_of(library, X, ["a", "b", "c"]), y)
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        model.predict(frame_of(library, X, ["a", "b", "d"]))
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        model.predict(frame_of(library, X[:, [1, 0, 2]], ["b", "a", "c"]))


@pytest.mark.parametrize("library", FRAMES)
def test_labels_may_be_a_column_or_a_frame(library, data):
    X, y = data
    frame = FRAMES[library]({"y": y, "z": 2 * y})
    one = SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(X, frame["y"])
    two = SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(X, frame)
    assert one.predict(X).shape == (60,)
    assert two.predict(X).shape == (60, 2)
    assert_allclose(two.predict(X), np.column_stack([one.predict(X), 2 * one.predict(X)]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_weights_may_be_a_column(library, data):
    X, y = data
    w = np.linspace(0.5, 2, len(y))
    column = pd.Series(w, index=np.arange(60)[::-1]) if library == "pandas" else pl.Series(w)
    expected = SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(X, y, w).predict(X)
    assert_array_equal(
        SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(X, y, column).predict(X), expected
    )


def test_whole_numbers_and_booleans_are_numbers(data):
    X, y = data
    whole = np.round(3 * X).astype(int)
    expected = (
        SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False)
        .fit(whole.astype(float), y)
        .predict(whole.astype(float))
    )
    assert_array_equal(
        SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(whole, y).predict(whole), expected
    )
    assert_array_equal(
        SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(whole.tolist(), y).predict(whole), expected
    )
    signs = SpectralRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(X > 0, y > 0)
    assert_allclose(signs.predict(X > 0), signs.predict((X > 0).astype(float)))


def test_a_column_of_labels_keeps_its_shape(data):
    X, y = data
    column = SpectralRegressor(Gaussian(1.0), fit_intercept=False).fit(X, y[:, None])
    assert column.predict(X).shape == (60, 1)
    assert_array_equal(
        column.predict(X)[:, 0], SpectralRegressor(Gaussian(1.0), fit_intercept=False).fit(X, y).predict(X)
    )


def test_transformed_targets_are_transformed_back(data):
    X, y = data
    model = TransformedTargetRegressor(
        SpectralRegressor(Gaussian(1.0), fit_intercept=False), func=np.exp, inverse_func=np.log
    )
    inner = SpectralRegressor(Gaussian(1.0), fit_intercept=False).fit(X, np.exp(y))
    values = inner.predict(X)
    usable = values > 0
    assert_allclose(model.fit(X, y).predict(X[usable]), np.log(values[usable]))


def test_many_targets_are_many_regressors(data):
    X, y = data
    Y = np.column_stack([y, X[:, 2]])
    apart = MultiOutputRegressor(SpectralRegressor(Gaussian(1.0), fit_intercept=False)).fit(X, Y)
    together = SpectralRegressor(Gaussian(1.0), per_target=True, fit_intercept=False).fit(X, Y)
    assert_allclose(together.predict(X), apart.predict(X), atol=1e-9)


def test_the_score_is_r_squared(data):
    X, y = data
    model = SpectralRegressor(Gaussian(1.0), fit_intercept=False).fit(X, y)
    expected = 1 - np.mean((y - model.predict(X)) ** 2) / np.var(y)
    assert model.score(X, y) == pytest.approx(expected)


def test_fitting_again_forgets_everything(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = SpectralRegressor(Gaussian(1.0), fit_intercept=True).fit(frame, np.column_stack([y, y]))
    model.fit(X[:, :2], y)
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X[:, :2]).shape == (60,)
    assert_array_equal(
        model.predict(X[:, :2]), SpectralRegressor(Gaussian(1.0), fit_intercept=True).fit(X[:, :2], y).predict(X[:, :2])
    )
