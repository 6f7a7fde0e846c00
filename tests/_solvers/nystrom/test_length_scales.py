"""NystromRegressor(kernel with length_scale="auto"): chosen by some of the rows, wherever those are."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import unpooled as up
from tests.made_up import two_scales
from unpooled.estimators import nystrom

rows = partial(two_scales, n=1500, d=5, second=1.0)


@pytest.mark.parametrize("solver", ["gram", "rounds"])
def test_it_does_better_than_the_median(solver):
    X, y = rows()
    new, truth = rows(1, n=500)
    error = {
        scale: 1
        - up.NystromRegressor(up.kernels.Gaussian(scale), 150, solver=solver, fit_intercept=False)
        .fit(X, y)
        .score(new, truth)
        for scale in ("auto", "median")
    }
    assert error["auto"] < 0.5 * error["median"]


def test_rows_of_a_file_and_of_an_array_choose_the_same(tmp_path):
    X, y = rows()
    names = [f"x{i}" for i in range(5)]
    pa.parquet.write_table(pa.table(dict(zip([*names, "y"], [*X.T, y]))), tmp_path / "rows.parquet")
    kernel = up.kernels.Matern("auto")
    from_file = up.NystromRegressor(kernel, 60, fit_intercept=False).fit(tmp_path / "rows.parquet", "y")
    from_array = up.NystromRegressor(kernel, 60, fit_intercept=False).fit(X, y)
    np.testing.assert_array_equal(from_file.kernel_.length_scale, from_array.kernel_.length_scale)
    assert from_file.kernel_.search_.taken == "each feature"


def test_no_more_rows_are_read_than_are_looked_at(monkeypatch):
    X, y = rows()
    monkeypatch.setattr(nystrom, "MANY", 400)
    found = up.NystromRegressor(up.kernels.Gaussian("auto"), 60, fit_intercept=False).fit(X, y).kernel_
    assert found.search_.n_rows <= 400


def test_units_of_the_features_do_not_matter_and_weights_count_as_repeated_rows():
    X, y = rows(n=300)
    kernel = up.kernels.Gaussian("auto")
    plain, standard = (
        up.NystromRegressor(kernel, 60, standardize=s, fit_intercept=False).fit(X, y) for s in (False, True)
    )
    np.testing.assert_allclose(
        standard.kernel_.length_scale * standard.predictor_.map.scaling.scale, plain.kernel_.length_scale, rtol=0.02
    )
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    some = up.NystromRegressor(kernel, 60, fit_intercept=False).fit(X, y, weights).kernel_.length_scale
    expected = up.choose_length_scales(kernel, X[:200], y[:200]).length_scale
    np.testing.assert_allclose(some, expected, rtol=1e-3)


def test_rows_added_later_keep_the_length_scales_and_a_file_keeps_them_too(tmp_path):
    X, y = rows(n=600)
    model = up.NystromRegressor(up.kernels.Gaussian("auto"), 60, fit_intercept=False).partial_fit(X[:300], y[:300])
    before = model.kernel_.length_scale
    model.partial_fit(X[300:], y[300:])
    np.testing.assert_array_equal(model.kernel_.length_scale, before)
    up.save(model, tmp_path / "a.model")
    np.testing.assert_array_equal(up.load(tmp_path / "a.model").kernel_.length_scale, before)
