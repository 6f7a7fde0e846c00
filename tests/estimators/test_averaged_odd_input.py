"""Averages of odd input: offsets and scales, weights of zero, clones and copies, streams with other columns.

Tests `estimators/averaged.py`.
"""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

import unpooled as up
from tests.made_up import columns, regression, sine
from unpooled._solvers.averaging import gathering as rounds
from unpooled.estimators import locals as local_learners

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
KERNEL = up.kernels.Gaussian(0.5)

some_data = partial(regression, n=60, between=(0.0, 1.0), function=sine(5))


# Single precision chooses where blocks are large; these data are just large enough.


@pytest.fixture(scope="module")
def large():
    return regression(n=2200, d=8, function=sine(1, slope=0.5), noise=0.5)


def chosen(X, y, monkeypatch, single=True):
    """The fitted model, and whether single precision was asked."""
    asked = []
    original = rounds.candidates_on

    def watched(block, local, V, single_):
        asked.append(single_)
        return original(block, local, V, single_)

    with monkeypatch.context() as patched:
        patched.setattr(rounds, "candidates_on", watched)
        if not single:
            patched.setattr(local_learners, "_single_precision", lambda *_: (np.inf, 0.0))
        model = up.AveragedRegressor(up.SpectralRegressor(center=True), 1, engine=up.engines.Threads(1))
        return model.fit(X, y), asked


def test_single_precision_chooses_as_double_does(large, monkeypatch):
    X, y = large
    rough, asked = chosen(X, y, monkeypatch)
    exact, never = chosen(X, y, monkeypatch, single=False)
    assert asked == [True]
    assert never == [False]
    assert rough.lam_ == exact.lam_
    trusted = rough.path_.lam >= 1e-5
    np.testing.assert_allclose(rough.path_.criterion[0, trusted], exact.path_.criterion[0, trusted], rtol=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        lambda X, y: (X, y + 1e7),
        lambda X, y: (X, y * 1e-40),
        lambda X, y: (X, y * 1e40),
        lambda X, y: (X + 1e6, y),
        lambda X, y: (X * 1e-20, y),
    ],
    ids=["y-far-off", "y-tiny", "y-huge", "X-far-off", "X-tiny"],
)
def test_offsets_and_units_do_not_move_the_choice(large, monkeypatch, change):
    X, y = large
    plain, _ = chosen(X, y, monkeypatch)
    moved, _ = chosen(*change(X, y), monkeypatch)
    np.testing.assert_allclose(moved.lam_, plain.lam_, rtol=1e-9)


def test_rows_that_single_precision_cannot_tell_apart_are_left_to_double(large, monkeypatch):
    X, y = large
    spread = X.copy()
    spread[:, 0] += 1e6 * (np.arange(len(X)) % 2)  # two groups, far from each other on the scale of the kernel
    local = up.SpectralRegressor(up.kernels.Gaussian(3.0), center=True)
    model = up.AveragedRegressor(local, n_blocks=1).fit(spread, y)
    exact = up.AveragedRegressor(local, n_blocks=1, engine=up.engines.Threads(1))
    with monkeypatch.context() as patched:
        patched.setattr(local_learners, "_single_precision", lambda *_: (np.inf, 0.0))
        exact.fit(spread, y)
    assert model.lam_ == exact.lam_


def test_few_different_rows_are_fitted_without_a_word():
    x = np.random.default_rng(0).integers(20, 60, 1000)[:, None].astype(float)
    model = up.AveragedRegressor(n_blocks=4).fit(x, np.sin(x[:, 0] / 9))
    assert np.abs(model.predict(x) - np.sin(x[:, 0] / 9)).max() < 0.1
    constant = up.AveragedRegressor(up.SpectralRegressor(center=True), n_blocks=4, lam=0.1).fit(
        np.ones((200, 1)), x[:200, 0]
    )
    np.testing.assert_allclose(constant.predict(np.ones((1, 1))), x[:200, 0].mean())


@pytest.mark.parametrize("filter", ["landweber", "cutoff", "nu"])
def test_a_solver_that_does_not_serve_the_filter_is_refused(filter):
    X, y = some_data()
    local = up.SpectralRegressor(KERNEL, filter, solver="cholesky")
    with pytest.raises(ValueError, match="solver='cholesky' does not serve"):
        up.AveragedRegressor(local, n_blocks=2, lam=0.01).fit(X, y)


def test_equal_weights_count_beside_unlabeled_rows():
    X, y = some_data()
    U = some_data(1, n=30)[0]
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=1, lam=0.01)
    twice = clone(model).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2), unlabeled=U).predict(X)
    weighted = clone(model).fit(X, y, unlabeled=U, sample_weight=np.full(60, 2.0)).predict(X)
    np.testing.assert_allclose(weighted, twice, rtol=1e-9)


def test_unlabeled_rows_are_dealt_out_by_weight():
    X, y = some_data()
    U = some_data(1, n=30)[0]
    sites = np.repeat(["a", "b"], 30)
    weights = np.where(sites == "a", 2, 1)
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), lam=0.01)
    weighted = clone(model).fit(X, y, sites=sites, unlabeled=U, sample_weight=weights)
    repeated = clone(model).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights), sites=np.repeat(sites, weights), unlabeled=U
    )
    assert [b["unlabeled"] for b in weighted.blocks_] == [b["unlabeled"] for b in repeated.blocks_] == [20, 10]
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9)


def test_the_model_keeps_its_own_rows():
    for local in (up.SpectralRegressor(KERNEL, lam=0.01), up.CorrentropyRegressor(KERNEL, scale=1.0, n_iter=9)):
        X, y = some_data()
        model = up.AveragedRegressor(local, n_blocks=1).fit(X, y)
        before = model.predict(some_data()[0])
        X[:] = 0.0
        np.testing.assert_array_equal(model.predict(some_data()[0]), before)


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = some_data()
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), lam="local", n_blocks=2).fit(X, y)
    before, values = dict(vars(model)), model.predict(X)
    with pytest.raises(up.BlockError, match="block 'one' failed"):
        model.fit(X, y, sites=["many"] * 59 + ["one"])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(model.predict(X), values)


def test_pickles_clones_and_searches(tmp_path):
    X, y = some_data()
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=2, engine=up.engines.Threads(2)).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert clone(model).engine is model.engine
    search = GridSearchCV(up.AveragedRegressor(n_blocks=2), {"local": [None, Ridge()]}, cv=2).fit(X, y)
    assert search.best_params_["local"] is None


@pytest.mark.parametrize("stays", [True, False])
def test_an_engine_of_ones_own_is_pickled_with_the_model_only_if_it_says_so(stays):
    X, y = some_data()
    engine = OneByOne()
    engine.is_picklable = stays
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=2, engine=engine).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert isinstance(again.engine, OneByOne) if stays else again.engine is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


class OneByOne(up.engines.Engine):
    """Module-level, so that it can be pickled."""

    n_workers = 1

    def work(self, task, progress):
        tree = task.make_tree()
        for i, part in enumerate(task.parts):
            tree.add(i, task.run_on(part))
        return tree.result


def test_a_model_on_a_cluster_can_be_cloned_and_pickled():
    distributed = pytest.importorskip("distributed")
    X, y = some_data()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        model = clone(up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=2, engine=client)).fit(X, y)
        assert model.engine is client
        again = pickle.loads(pickle.dumps(model))
    assert again.engine is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_joblib_backends_that_give_lists_serve_too():
    import joblib

    X, y = some_data()
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=11, lam=0.01)
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        there = clone(model).set_params(engine="processes").fit(X, y)
    np.testing.assert_array_equal(there.predict(X), model.fit(X, y).predict(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"random_state": -1}, "random_state must be None, a whole number or a random generator, got -1"),
        ({"random_state": "a"}, "random_state must be"),
        ({"memory_limit": "much"}, "memory_limit must be a positive number or None"),
        ({"memory_limit": float("nan")}, "memory_limit must be a positive number or None"),
        ({"time_limit": 0}, "time_limit must be a positive number or None"),
        ({"verbose": None}, "verbose must be a number"),
        ({"lam": None}, "lam must be 'rule13'"),
        ({"grid": "a"}, "grid must be a positive number"),
        ({"local": Ridge}, "local must be a regressor"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        up.AveragedRegressor(**arguments).fit(*some_data())


@pytest.mark.parametrize("state", [None, np.int64(3), np.random.RandomState(0), np.random.default_rng(0)], ids=type)
def test_randomness_may_come_from_anywhere(state):
    up.AveragedRegressor(up.SpectralRegressor(KERNEL), n_blocks=np.asarray(2), random_state=state).fit(*some_data())


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", None] * 30),
        pd.Series(["a", pd.NA] * 30, dtype="string"),
        np.asarray(["2020-01-01", "NaT"] * 30, dtype="datetime64[D]"),
        pd.Series([1.0, np.nan] * 30),
    ],
    ids=["None", "NA", "NaT", "NaN"],
)
def test_rows_without_a_site_are_refused(labels):
    with pytest.raises(ValueError, match="sites has rows without a label"):
        up.AveragedRegressor(lam=0.1).fit(*some_data(), sites=labels)


# Streams


def frame(n=90):
    weights = np.random.default_rng(1).integers(0, 3, n)
    return pd.DataFrame(columns(*some_data(n=n), w=weights, place=np.resize(["n", "s"], n)))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(frame(), preserve_index=False), path, row_group_size=20)
    return path


def model(**arguments):
    return up.AveragedRegressor(up.SpectralRegressor(KERNEL, center=True), verbose=0, **arguments)


def test_streams_are_matched_by_name(file, tmp_path):
    data = frame()
    fitted = model(lam=0.01, n_blocks=2).fit(up.blocks.Parquet(file, ["a", "b"]), "y")
    expected = fitted.predict(data[["a", "b"]])
    swapped = tmp_path / "swapped.parquet"
    data[["b", "a"]].to_parquet(swapped)
    np.testing.assert_allclose(fitted.predict(swapped), expected, rtol=1e-12)
    np.testing.assert_allclose(fitted.predict(dd.from_pandas(data[["b", "a"]], npartitions=2)), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="X has the features b, a; the model has a, b"):
        fitted.predict(up.blocks.Parquet(swapped, ["b", "a"]))
    straight = model(lam=0.01, n_blocks=1).fit(data[["a", "b"]], data["y"], unlabeled=data[["a", "b"]][:20])
    crossed = tmp_path / "crossed.parquet"
    data[["b", "a"]][:20].to_parquet(crossed)
    by_file = model(lam=0.01, n_blocks=1).fit(data[["a", "b"]], data["y"], unlabeled=crossed)
    np.testing.assert_allclose(by_file.predict(data[["a", "b"]]), straight.predict(data[["a", "b"]]), rtol=1e-10)


def test_rows_of_weight_zero_are_as_if_they_were_not_there_in_streams_too(file):
    data = frame()
    X = data[["a", "b"]]
    here = model().fit(X, data["y"], sites=data["place"], sample_weight=data["w"])
    there = model().fit(up.blocks.Parquet(file, ["a", "b"]), "y", sites="place", sample_weight="w")
    lazy = model().fit(dd.from_pandas(data, npartitions=3), "y", sites="place", sample_weight="w")
    kept = data["w"] > 0
    without = model().fit(X[kept], data["y"][kept], sites=data["place"][kept], sample_weight=data["w"][kept])
    for other in (there, lazy, without):
        assert other.lam_ == here.lam_
        np.testing.assert_allclose(other.predict(X), here.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        model().fit(dd.from_pandas(data.assign(w=0), npartitions=3), "y", sites="place", sample_weight="w")


def test_blocks_cut_from_one_row_group_are_random(tmp_path):
    x = np.sort(np.random.default_rng(0).uniform(size=2000))
    data = pd.DataFrame({"x": x, "y": np.sin(9 * x)})
    data.to_parquet(tmp_path / "sorted.parquet")
    there = model(n_blocks=20, lam=1e-6).fit(tmp_path / "sorted.parquet", "y")
    here = model(n_blocks=20, lam=1e-6).fit(data[["x"]], data["y"])
    errors = [np.abs(fitted.predict(data[["x"]]) - data["y"]).max() for fitted in (there, here)]
    assert errors[0] < 1.5 * errors[1]


def test_dask_columns_are_dropped_only_where_they_are_named():
    data = dd.from_pandas(frame(), npartitions=3)
    fitted = model(lam=0.1).fit(data[["a", "b"]], data["y"], sites=(data["a"] > 0.5))
    assert fitted.n_features_in_ == 2
    two = model(lam=0.1, n_blocks=2).fit(
        da.from_array(frame()[["a", "b"]].to_numpy(), chunks=(30, 2)), np.ones((90, 2)).tolist()
    )
    assert two.predict(np.ones((3, 2))).shape == (3, 2)
    for sites in (["n", "s"] * 10, ["n", "s"] * 60):
        with pytest.raises(ValueError, match="sites must hold one label per row: there are 90 rows"):
            model(lam=0.1).fit(data[["a", "b"]], data["y"], sites=sites)
    with pytest.raises(ValueError, match="y names the column 'z', but X has only: a, b"):
        model().fit(data[["a", "b"]], "z")


def test_parquet_folders_as_others_write_them(tmp_path):
    data = frame()
    (tmp_path / "year.parquet").mkdir()
    data.sample(frac=1, random_state=0).to_parquet(tmp_path / "year.parquet" / "part.0.parquet")  # keeps its index
    fitted = model(n_blocks=2).fit(up.blocks.Parquet(tmp_path, ["a", "b"]), "y")
    assert fitted.n_features_in_ == 2
    numbers = data[["a", "b", "y"]].sample(frac=1, random_state=0)
    numbers.to_parquet(tmp_path / "year.parquet" / "part.0.parquet")
    assert list(model(n_blocks=2).fit(tmp_path, "y").feature_names_in_) == ["a", "b"]
    (tmp_path / "year.parquet" / "part.1.parquet").write_text("a,b,y")
    with pytest.raises(ValueError, match="part.1.parquet is not a Parquet file"):
        model(n_blocks=2).fit(tmp_path, "y")
    data[["a", "y"]].to_parquet(tmp_path / "year.parquet" / "part.1.parquet")
    with pytest.raises(ValueError, match="part.1.parquet lacks the columns b that"):
        model(n_blocks=2).fit(tmp_path, "y")


def test_sites_name_one_column(file):
    with pytest.raises(ValueError, match="sites must name one column, got place, w"):
        model().fit(up.blocks.Parquet(file, ["a", "b"]), "y", sites=["place", "w"])
    data = frame()
    data.loc[3, "place"] = None
    pq.write_table(pa.Table.from_pandas(data, preserve_index=False), file)
    with pytest.raises(ValueError, match="sites has rows without a label"):
        model().fit(up.blocks.Parquet(file, ["a", "b"]), "y", sites="place")


def test_no_unlabeled_rows_in_any_form_change_nothing(file, tmp_path):
    data = frame()
    X = data[["a", "b"]]
    plain = model(n_blocks=2).fit(X, data["y"]).predict(X)
    X[:0].to_parquet(tmp_path / "none.parquet")
    for nothing in ([], X[:0], tmp_path / "none.parquet"):
        np.testing.assert_array_equal(model(n_blocks=2).fit(X, data["y"], unlabeled=nothing).predict(X), plain)


def test_compressing_keeps_the_precision_and_survives_a_kernel_of_zeros():
    X, y = some_data()
    single = up.AveragedRegressor(n_blocks=2, lam=0.1).fit(X.astype(np.float32), y.astype(np.float32)).compress(5)
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    zeros = up.AveragedRegressor(up.SpectralRegressor(up.kernels.Linear()), n_blocks=2, lam=0.1).fit(0 * X, y)
    assert zeros.compress(5).predict(X).shape == (60,)


def test_limits_without_end_can_be_saved(tmp_path):
    X, y = some_data()
    fitted = model(n_blocks=2, time_limit=np.inf, max_validation=np.int64(50), refit=np.bool_(True)).fit(X, y)
    up.save(fitted, tmp_path / "m.model")
    np.testing.assert_array_equal(up.load(tmp_path / "m.model").predict(X), fitted.predict(X))
