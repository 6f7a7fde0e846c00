"""The bundled data sets: whole, finite, with their source and licence."""

from importlib.resources import files

import numpy as np
import pytest

from unpooled import datasets


@pytest.mark.parametrize(("load", "shape"), [(datasets.load_airfoil, (1503, 5)), (datasets.load_heart, (740, 15))])
def test_rows_labels_names_and_folds_fit_together(load, shape):
    data = load()
    assert data.X.shape == shape
    assert data.y.shape == data.fold.shape == shape[:1]
    assert len(set(data.feature_names)) == shape[1]
    assert data.X.dtype == data.y.dtype == np.float64
    assert np.all(np.isfinite(data.X))
    assert np.all(np.isfinite(data.y))
    assert np.array_equal(np.unique(data.fold), np.arange(10))
    assert "CC BY 4.0" in data.source
    assert f"{shape[0]} rows × {shape[1]} features" in repr(data)


def test_the_four_hospitals():
    data = datasets.load_heart()
    sites, counts = np.unique(data.sites, return_counts=True)
    assert dict(zip(sites, counts)) == {"cleveland": 303, "hungarian": 261, "switzerland": 46, "va": 130}
    assert "switzerland 46" in repr(data)
    for site in sites:
        assert np.ptp(np.bincount(data.fold[data.sites == site])) <= 1
    named = dict(zip(data.feature_names, data.X.T))
    assert np.all(named["cholesterol"][data.sites == "switzerland"] == 0)
    for group in ("chest_pain", "ecg"):
        assert np.all(sum(column for name, column in named.items() if name.startswith(group)) == 1)
    assert set(named["male"]) == {0.0, 1.0}
    assert 60 <= data.y.min() < data.y.max() <= 202


def test_every_bundled_file_is_named_with_its_licence():
    folder = files("unpooled") / "datasets"
    text = (folder / "README.md").read_text()
    for file in folder.iterdir():
        if file.name.endswith(".parquet"):
            assert f"`{file.name}`" in text
    assert text.count("licensed under CC BY 4.0") == 2


def test_the_folds_are_the_same_at_every_call():
    np.testing.assert_array_equal(datasets.load_heart().fold, datasets.load_heart().fold)
