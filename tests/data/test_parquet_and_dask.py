"""Rows from Parquet and Dask are the rows of the arrays they were made from.

Tests `data/dask.py`.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unpooled as up
from tests.made_up import rows_of_sites

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture
def folder(tmp_path):
    """The frame as three files of several row groups."""
    data = rows_of_sites()
    for i, start in enumerate(range(0, 150, 50)):
        table = pa.Table.from_pandas(data.iloc[start : start + 50], preserve_index=False)
        pq.write_table(table, tmp_path / f"part-{i}.parquet", row_group_size=16)
    return tmp_path


def model(**arguments):
    return up.AveragedRegressor(up.SpectralRegressor(center=True), verbose=0, **arguments)


def features_of(path, *names):
    return up.blocks.Parquet(path, features=names or ("a", "b", "c"))


def test_a_parquet_folder_equals_its_arrays(folder):
    data = rows_of_sites()
    X = data[["a", "b", "c"]]
    for lam in ("rule13", 0.01):
        stream = model(lam=lam).fit(features_of(folder), "y", sites="place", sample_weight="w")
        here = model(lam=lam).fit(X, data["y"], sites=data["place"], sample_weight=data["w"])
        assert stream.lam_ == here.lam_
        np.testing.assert_array_equal(stream.predictor_.coef, here.predictor_.coef)
        np.testing.assert_array_equal(stream.predict(X), here.predict(X))
        assert stream.blocks_ == here.blocks_
        assert list(stream.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(stream.predict(features_of(folder)), stream.predict(X), rtol=1e-12)
    np.testing.assert_allclose(stream.predict(str(folder)), stream.predict(X), rtol=1e-12)


def test_one_block_of_a_parquet_folder_is_the_local_learner(folder):
    data = rows_of_sites()
    X = data[["a", "b", "c"]]
    local = up.SpectralRegressor(lam=0.02, center=True).fit(X, data["y"], sample_weight=data["w"])
    stream = up.AveragedRegressor(local, n_blocks=1).fit(features_of(folder), "y", sample_weight="w")
    np.testing.assert_allclose(stream.predict(X), local.predict(X), rtol=1e-12)


def test_blocks_of_a_parquet_folder_are_even_and_hold_every_row_once(folder):
    for n_blocks in (2, 7, 18):
        fitted = model(n_blocks=n_blocks, lam=0.1).fit(features_of(folder), "y")
        sizes = [block["rows"] for block in fitted.blocks_]
        assert sum(sizes) == 150
        assert max(sizes) - min(sizes) <= 1
        points = fitted.predictor_.points
        expected = rows_of_sites()[["a", "b", "c"]].to_numpy()
        np.testing.assert_array_equal(points[np.argsort(points[:, 0])], expected[np.argsort(expected[:, 0])])


def test_nothing_larger_than_a_row_group_is_read_at_once(folder, monkeypatch):
    seen = []
    read = pq.ParquetFile.read_row_group

    def watched(self, *args, **kwargs):
        table = read(self, *args, **kwargs)
        seen.append(table.num_rows)
        return table

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", watched)
    for name in ("read", "iter_batches", "read_row_groups"):
        monkeypatch.setattr(pq.ParquetFile, name, None)
    model(n_blocks=5).fit(features_of(folder), "y")
    assert seen
    assert max(seen) <= 16


def test_several_targets_and_unlabeled_rows_from_parquet(folder):
    data = rows_of_sites()
    U = rows_of_sites(1, 60)[["a", "b"]]
    pq.write_table(pa.Table.from_pandas(U, preserve_index=False), folder / "unlabeled.pq")
    stream = model(lam=0.05).fit(
        features_of(folder, "a", "b"), ["y", "c"], sites="place", unlabeled=str(folder / "unlabeled.pq")
    )
    assert stream.predict(data[["a", "b"]]).shape == (150, 2)
    assert sum(block["unlabeled"] for block in stream.blocks_) == 60


@pytest.mark.parametrize(
    ("X", "arguments", "message"),
    [
        ("nowhere.parquet", {"y": "y"}, "there is no file or folder nowhere.parquet"),
        (None, {"y": "z"}, "y names the column 'z', but the file has only: a, b, c, y, place, w"),
        (None, {"y": "y"}, "column 'place' of .* holds .*string and not numbers: leave it out"),
        (None, {"y": np.ones(150)}, "with a Parquet file y must be the name of a column"),
        (None, {"y": None}, "requires y to be passed"),
    ],
    ids=["no-file", "no-column", "strings", "array", "no-y"],
)
def test_bad_files_get_one_clear_sentence(folder, X, arguments, message):
    with pytest.raises(ValueError, match=message):
        model().fit(str(folder) if X is None else X, **arguments)


def test_missing_values_name_the_block_and_the_column(folder):
    data = rows_of_sites()
    data.loc[20, "b"] = np.nan
    pq.write_table(pa.Table.from_pandas(data, preserve_index=False), folder / "part-1.parquet")
    with pytest.raises(up.BlockError, match="block .* failed: column 'b' of .*part-1.parquet .* missing or infinite"):
        model(n_blocks=3).fit(features_of(folder), "y")


@pytest.fixture(params=["array", "frame", "columns"])
def collection(request):
    data = rows_of_sites()
    if request.param == "array":
        X = da.from_array(data[["a", "b", "c"]].to_numpy(), chunks=(40, 2))
        return X, da.from_array(data["y"].to_numpy(), chunks=70), data["place"].to_numpy()
    pieces = dd.from_pandas(data.drop(columns="w"), npartitions=4)
    if request.param == "frame":
        return pieces[["a", "b", "c"]], pieces["y"], pieces["place"]
    return pieces, "y", "place"


def test_a_dask_collection_equals_its_arrays(collection):
    data = rows_of_sites()
    X, y, sites = collection
    lazy = model(lam=0.01).fit(X, y, sites=sites)
    here = model(lam=0.01).fit(data[["a", "b", "c"]], data["y"], sites=data["place"])
    np.testing.assert_allclose(
        lazy.predict(data[["a", "b", "c"]].to_numpy())
        if not hasattr(lazy, "feature_names_in_")
        else lazy.predict(data[["a", "b", "c"]]),
        here.predict(data[["a", "b", "c"]]),
        rtol=1e-12,
    )
    assert lazy.blocks_ == here.blocks_
    chosen = model(n_blocks=3).fit(X if not isinstance(y, str) else X.drop(columns="place"), y)
    assert chosen.n_blocks_ == 3


def test_a_dask_collection_is_worked_on_by_its_cluster():
    distributed = pytest.importorskip("distributed")
    data = rows_of_sites()
    X = da.from_array(data[["a", "b", "c"]].to_numpy(), chunks=(40, 3))
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        there = model(n_blocks=3, engine=client).fit(X, data["y"].to_numpy())
    here = model(n_blocks=3).fit(X, data["y"].to_numpy())
    assert there.lam_ == here.lam_
    np.testing.assert_array_equal(there.predictor_.coef, here.predictor_.coef)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames_keep_their_names(make):
    data = rows_of_sites()
    X = make({name: data[name].to_numpy() for name in ("a", "b", "c")})
    fitted = model(n_blocks=3).fit(X, data["y"])
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    by_array = model(n_blocks=3).fit(data[["a", "b", "c"]].to_numpy(), data["y"].to_numpy())
    np.testing.assert_array_equal(fitted.predict(X), by_array.predict(data[["a", "b", "c"]].to_numpy()))
