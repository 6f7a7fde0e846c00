"""LESSRegressor has scikit-learn's manners, takes rows from anywhere, and keeps its head over odd but honest data.

Tests `estimators/from_sums.py` and `estimators/less_rounds.py`.
"""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import unpooled as up
from tests.made_up import regression, sine
from unpooled import models
from unpooled.bases import EmpiricalFeatures, RandomFeatures
from unpooled.filters import IteratedTikhonov
from unpooled.kernels import Gaussian, Linear, Matern
from unpooled.losses import Huber

dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("ignore:.*public rows stand in for")
ESTIMATORS = {
    "as it comes": up.LESSRegressor(fit_intercept=False),
    "centred": up.LESSRegressor(fit_intercept=True),
    "centred on the public sample": up.LESSRegressor(fit_intercept="public", standardize=True),
    "second order": up.LESSRegressor(order=2, fit_intercept=False),
    "a fixed lam": up.LESSRegressor(lam=1e-3, n_features=20, fit_intercept=False),
    "rounds": up.LESSRegressor(lam=1e-3, rounds=4, ridge=True, steps="conjugate", fit_intercept=False),
    "huber": up.LESSRegressor(rounds=5, loss="huber", fit_intercept=True),
    "a filter": up.LESSRegressor(filter="landweber", grid=np.logspace(0, -3, 5), fit_intercept=False),
}
CHECKS = [
    pytest.param(estimator, check, id=f"{check.func.__name__} {name}")
    for name, given in ESTIMATORS.items()
    for estimator, check in estimator_checks_generator(given)
    if "array_api" not in check.func.__name__
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_every_check_of_scikit_learn_holds(estimator, check):
    check(estimator)


data = partial(regression, n=80, function=sine(1, slope=0.5), others=(40,))


X, y, U = data()
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(y=y, z=2 * y, w=np.arange(80) % 4)
PUBLIC = pd.DataFrame(U, columns=["a", "b"])
KINDS = {
    "one round": {},
    "centred": {"fit_intercept": True},
    "second order": {"order": 2, "lam": 1e-3},
    "rounds": {"rounds": 3, "lam": 0.01, "fit_intercept": True},
    "robust": {"rounds": 3, "lam": 0.01, "loss": Huber(0.5)},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def test_it_is_a_regressor_of_one_or_many_labels():
    assert is_regressor(up.LESSRegressor(fit_intercept=False))
    assert up.LESSRegressor(fit_intercept=False).__sklearn_tags__().target_tags.multi_output
    with pytest.raises(NotFittedError, match="not fitted yet"):
        up.LESSRegressor(fit_intercept=False).predict(X)


@every_kind
def test_a_clone_a_pickle_and_a_file_are_the_same_model(kind, tmp_path):
    model = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(X, y, public=U)
    copy = clone(model)
    assert repr(copy) == repr(model)
    assert not hasattr(copy, "predictor_")
    assert_array_equal(copy.fit(X, y, public=U).predict(X), model.predict(X))
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    up.save(model, tmp_path / "a.model")
    read = up.load(tmp_path / "a.model")
    assert_array_equal(read.predict(X), model.predict(X))
    assert models.digest_of(read) == models.digest_of(model)
    assert (read.lam_, read.loss_, read.n_rounds_, read.history_) == (
        model.lam_,
        model.loss_,
        model.n_rounds_,
        model.history_,
    )


def test_a_fitted_basis_is_used_as_it_is_by_clones_and_searches_too():
    for basis in (EmpiricalFeatures(Gaussian(1.0)).fit(U), RandomFeatures(Gaussian(1.0), 30).fit(U)):
        model = up.LESSRegressor(basis=basis, lam=0.01, fit_intercept=False)
        assert clone(model).basis is basis
        assert_array_equal(clone(model).fit(X, y).predict(X), model.fit(X, y).predict(X))
        assert np.all(np.isfinite(cross_val_score(model, X, y, cv=3)))
    same = up.LESSRegressor(Gaussian(1.0), lam=0.01, fit_intercept=False).fit(X, y, public=U)
    of_basis = up.LESSRegressor(basis=EmpiricalFeatures(Gaussian(1.0)).fit(U), lam=0.01, fit_intercept=False).fit(X, y)
    assert_array_equal(of_basis.predict(X), same.predict(X))


def test_a_grid_search_reaches_kernel_filter_and_rounds():
    grid = {
        "kernel__length_scale": [0.3, 1.0],
        "lam": [1e-3, "auto"],
        "rounds": [1, 3],
        "filter": ["tikhonov", IteratedTikhonov(2)],
    }
    search = GridSearchCV(up.LESSRegressor(Gaussian(1.0), fit_intercept=True), grid, cv=3, error_score="raise").fit(
        X, y
    )
    assert search.best_score_ > 0.9
    pipeline = make_pipeline(StandardScaler(), up.LESSRegressor(Gaussian(1.0), fit_intercept=False))
    assert pipeline.fit(X, y, lessregressor__public=StandardScaler().fit_transform(U)).score(X, y) > 0.8


@every_kind
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_frame_is_its_numbers_and_its_names_are_kept(kind, frame):
    table, public = frame(FRAME.to_dict("list")), frame(PUBLIC.to_dict("list"))
    model = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(
        table[["a", "b"]], table["y"], public=public
    )
    plain = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(X, y, public=U)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.targets_ == ("y",)
    assert_array_equal(model.predict(table[["a", "b"]]), plain.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[["b", "a"]])
    named = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(
        table[["a", "b", "y"]], "y", public=public
    )
    assert_array_equal(named.predict(table[["a", "b"]]), plain.predict(X))


@every_kind
def test_tensors_are_their_numbers(kind):
    plain = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(X, y, public=U)
    model = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(
        torch.tensor(X), torch.tensor(y), public=torch.tensor(U)
    )
    out = model.predict(torch.tensor(X))
    assert isinstance(out, torch.Tensor)
    assert_allclose(out.numpy(), plain.predict(X), atol=1e-8)
    assert model.lam_ == plain.lam_


@pytest.fixture(name="sources", scope="module")
def _sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    table = FRAME[["a", "b", "y", "w"]]
    table.to_parquet(folder / "rows.parquet", row_group_size=13, index=False)
    table.to_csv(folder / "rows.csv", index=False)
    PUBLIC.to_parquet(folder / "public.parquet", index=False)
    return {
        "parquet": folder / "rows.parquet",
        "csv": folder / "rows.csv",
        "dask": dd.from_pandas(table, npartitions=3),
    }, (folder / "public.parquet")


@every_kind
@pytest.mark.parametrize("source", ["parquet", "csv", "dask"])
@pytest.mark.parametrize("public", ["none", "array", "file"])
def test_streams_are_their_arrays(kind, source, public, sources):
    given, file = sources
    U_given, U_plain = {"none": (None, None), "array": (PUBLIC, PUBLIC), "file": (file, PUBLIC)}[public]
    model = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]})
    plain = clone(model).fit(FRAME[["a", "b"]], y, public=U_plain, sample_weight=FRAME["w"])
    model.fit(given[source], "y", public=U_given, sample_weight="w")
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.lam_ == plain.lam_
    assert_allclose(model.predict(FRAME[["a", "b"]]), plain.predict(FRAME[["a", "b"]]), atol=1e-8)


def test_a_public_sample_that_has_the_labels_too_does_not_make_them_inputs(sources):
    given, _ = sources
    expected = up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(
        FRAME[["a", "b"]], y, public=FRAME[["a", "b"]]
    )
    for rows in (given["parquet"], FRAME[["a", "b", "y", "w"]]):
        model = up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(
            rows, "y", public=rows, sample_weight="w"
        )
        assert list(model.feature_names_in_) == ["a", "b"]
    unweighted = up.LESSRegressor(Gaussian(1.0), lam=0.1, fit_intercept=False).fit(
        FRAME[["a", "b", "y"]], "y", public=FRAME[["a", "b", "y"]]
    )
    assert_allclose(unweighted.predict(FRAME[["a", "b"]]), expected.predict(FRAME[["a", "b"]]), atol=1e-10)


def test_a_dask_array_is_its_array():
    lazy = up.LESSRegressor(Gaussian(1.0), fit_intercept=False).fit(
        da.from_array(X, chunks=(30, 2)), da.from_array(y, chunks=30), public=U
    )
    plain = up.LESSRegressor(Gaussian(1.0), fit_intercept=False).fit(X, y, public=U)
    assert lazy.lam_ == plain.lam_
    assert_allclose(lazy.predict(X), plain.predict(X), atol=1e-9)


@every_kind
@pytest.mark.parametrize("own", [False, True])
def test_weights_are_repeated_rows_at_a_given_lam(kind, own):
    options = {**KINDS[kind], "lam": 0.01}
    w, public = np.arange(80) % 4, None if own else U
    weighted = up.LESSRegressor(Gaussian("median"), **{"fit_intercept": False, **options}).fit(
        X, y, public=public, sample_weight=w
    )
    repeated = up.LESSRegressor(Gaussian("median"), **{"fit_intercept": False, **options}).fit(
        np.repeat(X, w, axis=0), np.repeat(y, w), public=public
    )
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)
    kept = w > 0
    dropped = up.LESSRegressor(Gaussian("median"), **{"fit_intercept": False, **options}).fit(
        X[kept], y[kept], public=public, sample_weight=w[kept]
    )
    assert_array_equal(weighted.predict(X), dropped.predict(X))
    even = up.LESSRegressor(Gaussian("median"), **{"fit_intercept": False, **options}).fit(
        X, y, public=public, sample_weight=np.full(80, 2.0)
    )
    plain = up.LESSRegressor(Gaussian("median"), **{"fit_intercept": False, **options}).fit(X, y, public=public)
    assert_allclose(even.predict(X), plain.predict(X), atol=1e-9)


@pytest.mark.parametrize("kind", ["one round", "centred", "second order"])
def test_many_labels_are_many_regressors(kind):
    _, Y, _ = data(targets=3)
    options = {**KINDS[kind], "lam": 0.01}
    together = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **options}).fit(X, Y, public=U)
    apart = MultiOutputRegressor(up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **options})).fit(
        X, Y, public=U
    )
    assert_allclose(together.predict(X), apart.predict(X), atol=1e-10)
    assert together.coef_.shape == (together.basis_.n_features_, 3)
    column = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **options}).fit(X, y[:, None], public=U)
    assert column.predict(X).shape == (80, 1)


@every_kind
def test_single_precision_is_nearly_double(kind):
    half = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(
        X.astype("f4"), y.astype("f4"), public=U.astype("f4")
    )
    whole = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(X, y, public=U)
    assert_allclose(half.predict(X.astype("f4")), whole.predict(X), atol=1e-3)


@every_kind
def test_fitting_again_forgets_everything(kind):
    model = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]})
    model.fit(FRAME[["a", "b"]], FRAME[["y", "z"]], public=PUBLIC, sites=np.arange(80) % 2)
    model.fit(X[:, :1], y)
    fresh = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind]}).fit(X[:, :1], y)
    assert not hasattr(model, "feature_names_in_")
    assert model.sites_ == []
    assert_array_equal(model.predict(X[:, :1]), fresh.predict(X[:, :1]))


@every_kind
def test_one_row_is_learned_where_lam_is_given(kind):
    options = {**KINDS[kind], "lam": 0.5}
    model = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **options}).fit([[1.0, 2.0]], [3.0])
    assert model.predict([[1.0, 2.0]])[0] == pytest.approx(
        3.0 if options.get("fit_intercept") else model.predict([[1.0, 2.0]])[0]
    )
    assert 0 < model.predict([[1.0, 2.0]])[0] <= 3.0 + 1e-12


@every_kind
@pytest.mark.parametrize("value", [0.0, 7.0, -1e8])
def test_constant_labels_are_learned(kind, value):
    labels = np.full(80, value)
    model = up.LESSRegressor(Gaussian(1.0), **{**KINDS[kind], "fit_intercept": True, "loss": "squared"}).fit(
        X, labels, public=U
    )
    assert_allclose(model.predict(X), labels, rtol=1e-9, atol=1e-12)
    for loss in ("huber", "correntropy"):
        robust = up.LESSRegressor(Gaussian(1.0), lam=0.1, rounds=5, loss=loss, fit_intercept=True).fit(
            X, labels, public=U
        )
        assert_allclose(robust.predict(X), labels, rtol=1e-6, atol=1e-12)


@every_kind
def test_duplicate_rows_and_equal_rows_are_no_trouble(kind):
    twice = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind], "lam": 0.01}).fit(
        np.vstack([X, X]), np.append(y, y)
    )
    once = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **KINDS[kind], "lam": 0.01}).fit(X, y)
    assert_allclose(twice.predict(X), once.predict(X), atol=1e-7)
    equal = up.LESSRegressor(**{"fit_intercept": False, **KINDS[kind]}).fit(np.ones((30, 2)), y[:30])
    assert np.all(np.isfinite(equal.predict(X)))
    if KINDS[kind].get("fit_intercept") and "loss" not in KINDS[kind]:
        assert equal.predict(np.ones((1, 2)))[0] == pytest.approx(y[:30].mean(), abs=1e-9)


@every_kind
@pytest.mark.parametrize("unit", [1e-60, 1e-12, 1e12, 1e60])
def test_the_unit_of_labels_scales_the_model_and_nothing_else(kind, unit):
    options = KINDS[kind]
    scaled = {**options, "loss": Huber(0.5 * unit)} if "loss" in options else options
    model = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **options}).fit(X, y, public=U)
    other = up.LESSRegressor(Gaussian(1.0), **{"fit_intercept": False, **scaled}).fit(X, unit * y, public=U)
    assert other.lam_ == model.lam_
    assert_allclose(other.predict(X) / unit, model.predict(X), atol=1e-7)


@every_kind
@pytest.mark.parametrize("unit", [1e-100, 1e-6, 1e6, 1e100])
@pytest.mark.parametrize("standardize", [False, True])
def test_the_unit_of_inputs_does_not_matter_where_scales_follow_it(kind, unit, standardize):
    make = {"kernel": Gaussian("median"), "standardize": standardize, **KINDS[kind]}
    plain = up.LESSRegressor(**{"fit_intercept": False, **make}).fit(X, y, public=U).predict(X)
    assert_allclose(
        up.LESSRegressor(**{"fit_intercept": False, **make}).fit(unit * X, y, public=unit * U).predict(unit * X),
        plain,
        atol=1e-5,
    )


def test_a_linear_kernel_on_few_columns_is_linear_regression():
    model = up.LESSRegressor(Linear(), lam=1e-10, fit_intercept=True).fit(X, y)
    design = np.column_stack([X, np.ones(80)])
    assert_allclose(model.predict(X), design @ np.linalg.lstsq(design, y)[0], atol=1e-6)


def test_partial_fit_is_there_for_one_round_of_squares_only():
    assert hasattr(up.LESSRegressor(fit_intercept=False), "partial_fit")
    for options in ({"rounds": 2}, {"loss": "huber"}, {"loss": Huber(1.0)}):
        model = up.LESSRegressor(**{"fit_intercept": False, **options})
        assert not hasattr(model, "partial_fit")
    model = (
        up.LESSRegressor(Matern(1.0), lam=0.1, fit_intercept=False)
        .partial_fit(X[:40], y[:40], public=U)
        .partial_fit(X[40:], y[40:])
    )
    assert_allclose(
        model.predict(X),
        up.LESSRegressor(Matern(1.0), lam=0.1, fit_intercept=False).fit(X, y, public=U).predict(X),
        atol=1e-10,
    )
