"""``score`` on files, frames and Dask collections is ``score`` on their arrays, which is scikit-learn's R²."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

import unpooled as up
from tests.made_up import columns, regression, sine
from unpooled.data import csv
from unpooled.estimators import span as scoring

KERNEL = up.kernels.Gaussian(1.0)
SCORED = {
    "averaged": up.AveragedRegressor(up.SpectralRegressor(KERNEL, lam=1e-3), n_blocks=2, verbose=0),
    "nystrom": up.NystromRegressor(KERNEL, n_features=20, lam=1e-3),
    "less": up.LESSRegressor(KERNEL, n_features=20, lam=1e-3),
    "private": up.PrivateSGDRegressor(50.0, 1e-6, label_bound=1.0, kernel=KERNEL, n_features=20),
}


def frame_of(n, seed):
    rng = np.random.default_rng(seed)
    X, y = regression(rng, n, between=(-2.0, 2.0), function=sine(2), noise=0.3)
    return pd.DataFrame(columns(X, y, z=y**2 + X[:, 1], w=rng.integers(0, 4, n)))


def features(frame):
    return frame[["a", "b"]]


def fitted(model, y="y"):
    train = frame_of(300, 0)
    return model.fit(features(train), train[y].to_numpy())


def save(frame, folder):
    """The rows as files: CSV, one of Parquet with several row groups, a folder of Parquet."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pa.csv.write_csv(table, folder / "new.csv")
    pa.parquet.write_table(table, folder / "new.parquet", row_group_size=17)
    (folder / "parts").mkdir()
    for i, start in enumerate(range(0, len(frame), 40)):
        pa.parquet.write_table(table.slice(start, 40), folder / "parts" / f"{i}.parquet")
    return [folder / "new.csv", str(folder / "new.csv"), folder / "new.parquet", folder / "parts"]


@pytest.mark.parametrize("name", SCORED)
@pytest.mark.parametrize("weight", [None, "w"])
def test_files_frames_and_arrays_have_one_score(tmp_path, name, weight):
    model, new = fitted(SCORED[name]), frame_of(100, 1)
    weights = None if weight is None else new[weight].to_numpy()
    expected = r2_score(new["y"], model.predict(features(new)), sample_weight=weights)
    assert model.score(features(new), new["y"].to_numpy(), weights) == pytest.approx(expected, rel=1e-12)
    for place in [new, *save(new, tmp_path)]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # columns are taken by name: nothing to warn of
            assert model.score(place, "y", weight) == pytest.approx(expected, rel=1e-12)


def test_a_model_from_summaries_is_scored_on_files_too(tmp_path):
    train, new = frame_of(300, 0), frame_of(100, 1)
    basis = up.bases.EmpiricalFeatures(KERNEL, 20).fit(features(train))
    model = up.SummaryRegressor().fit_summary(up.Summary.of(basis, train, "y", order=2))
    for place in save(new, tmp_path):
        assert model.score(place, "y") == pytest.approx(model.score(features(new), new["y"]), rel=1e-12)


def test_of_several_targets_it_is_the_mean(tmp_path):
    model, new = fitted(SCORED["less"], ["y", "z"]), frame_of(100, 1)
    each = [r2_score(new[name], model.predict(features(new))[:, j]) for j, name in enumerate("yz")]
    assert abs(each[0] - each[1]) > 1e-3
    for place in save(new, tmp_path):
        assert model.score(place, ["y", "z"]) == pytest.approx(np.mean(each), rel=1e-12)
    with pytest.raises(ValueError, match=r"y names 1 label\(s\), and the model predicts 2"):
        model.score(tmp_path / "new.csv", "y")


def test_fit_predict_and_score_all_from_files(tmp_path):
    save(frame_of(300, 0), tmp_path)
    new = frame_of(100, 1)
    new[["y", "b", "a"]].to_csv(tmp_path / "other.csv", index=False)  # in another order: columns have names
    path = up.blocks.Parquet(tmp_path / "new.parquet", features=["a", "b"])
    model = up.AveragedRegressor(up.SpectralRegressor(KERNEL, lam=1e-3), n_blocks=2, verbose=0).fit(path, "y")
    values = model.predict(up.blocks.Csv(tmp_path / "other.csv"))
    assert model.score(tmp_path / "other.csv", "y") == pytest.approx(r2_score(new["y"], values), rel=1e-12)


def test_dask_collections(tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    model, new = fitted(SCORED["less"]), frame_of(100, 1)
    lazy = dd.from_pandas(new, npartitions=3)
    expected = model.score(features(new), new["y"], new["w"])
    assert model.score(lazy, "y", "w") == pytest.approx(expected, rel=1e-12)
    assert model.score(features(lazy), lazy["y"], lazy["w"]) == pytest.approx(expected, rel=1e-12)


def test_rows_are_predicted_a_chunk_at_a_time(tmp_path, monkeypatch):
    """However the file is cut, no more than a chunk of inputs is there at once, and the score stays what it was."""
    model, new = fitted(SCORED["less"]), frame_of(100, 1)
    expected = model.score(features(new), new["y"])
    pa.parquet.write_table(pa.Table.from_pandas(new, preserve_index=False), tmp_path / "one.parquet")
    new.to_csv(tmp_path / "one.csv", index=False)
    sizes = []
    predict = type(model).predict
    monkeypatch.setattr(type(model), "predict", lambda self, X: sizes.append(len(X)) or predict(self, X))
    monkeypatch.setattr(scoring, "CHUNK", 30)
    monkeypatch.setattr(csv, "IN_MEMORY", 0)
    for name in ("one.parquet", "one.csv"):
        sizes.clear()
        assert model.score(tmp_path / name, "y") == pytest.approx(expected, rel=1e-12)
        assert sizes == [30, 30, 30, 10]


def test_what_cannot_be_scored_is_said_in_a_sentence(tmp_path):
    model, new = fitted(SCORED["less"]), frame_of(100, 1)
    save(new, tmp_path)
    with pytest.raises(ValueError, match="y names the column 'wrong', but the file has only: a, b, y, z, w"):
        model.score(tmp_path / "new.csv", "wrong")
    with pytest.raises(ValueError, match="the column 'wrong' is not in X"):
        model.score(new, "wrong")
    with pytest.raises(ValueError, match="names a column, but X is not a data frame"):
        model.score(features(new).to_numpy(), "y")
    with pytest.raises(ValueError, match="requires y"):
        model.score(tmp_path / "new.csv", None)
    with pytest.raises(NotFittedError):
        up.LESSRegressor().score(tmp_path / "new.csv", "y")
    with pytest.raises(NotFittedError):
        up.SummaryRegressor().score(tmp_path / "new.csv", "y")
