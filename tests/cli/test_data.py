"""`unpooled data` writes the bundled data sets as tables, lists them, and leaves files alone that are there."""

from pathlib import Path

import numpy as np
import pytest

import unpooled as up
from tests.cases.cli import answer_of, call, said
from unpooled.cli import console
from unpooled.datasets import BUNDLED


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_file_is_the_data_set_to_the_last_bit(name, kind):
    data = BUNDLED[name]()
    found = answer_of("data", name, "-o", f"{name}.{kind}")
    assert found["n_rows"] == len(data.y)
    assert found["columns"][: len(data.feature_names) + 1] == [*data.feature_names, data.label]
    assert found["target"] == data.label
    assert found["source"] == data.source
    numbers = [*data.feature_names, data.label]
    from_file = up.NystromRegressor(n_features=5, lam=1e-2, fit_intercept=False).fit(
        _rows(f"{name}.{kind}", data), data.label
    )
    from_arrays = up.NystromRegressor(n_features=5, lam=1e-2, fit_intercept=False).fit(data.X, data.y)
    np.testing.assert_array_equal(from_file.coef_, from_arrays.coef_)
    assert list(from_file.feature_names_in_) == numbers[:-1]


def _rows(path, data):
    make = up.blocks.Csv if path.endswith(".csv") else up.blocks.Parquet
    return make(path, features=data.feature_names)


def test_the_sites_are_a_column():
    call("data", "heart", "-o", "heart.parquet")
    data = up.datasets.load_heart()
    local = up.SpectralRegressor(up.kernels.Gaussian(20.0), lam=1e-2, fit_intercept=False)
    from_file = up.AveragedRegressor(local).fit("heart.parquet", "heart_rate", sites="site")
    assert {block["name"]: block["rows"] for block in from_file.blocks_} == {
        site: int(np.sum(data.sites == site)) for site in np.unique(data.sites)
    }


def test_without_a_name_all_are_listed():
    sets = {one["name"]: one for one in answer_of("data")["sets"]}
    assert sets.keys() == BUNDLED.keys()
    assert sets["airfoil"]["n_rows"] == 1503
    assert sets["airfoil"]["sites"] == []
    assert sets["heart"]["sites"] == ["cleveland", "hungarian", "switzerland", "va"]
    assert all(one["licence"] == "CC BY 4.0" for one in sets.values())
    screen = call("data").stdout
    for name, load in BUNDLED.items():
        assert name in screen
        assert str(len(load().y)) in screen
        assert load().source in screen
    assert not list(Path().iterdir())


def test_a_file_that_is_there_stays_unless_it_is_to_be_replaced():
    Path("mine.csv").write_text("mine")
    assert said("data", "heart", "-o", "mine.csv", code=console.USAGE) == (
        "--output mine.csv exists already: choose another name, or say --overwrite"
    )
    assert Path("mine.csv").read_text() == "mine"
    call("data", "heart", "-o", "mine.csv", "--overwrite")
    assert len(Path("mine.csv").read_text().splitlines()) == 741


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("hart", "-o", "x.csv"), console.USAGE, "NAME must be airfoil or heart, got 'hart'"),
        (("heart",), console.USAGE, "--output is missing: name a file for it, -o heart.csv, say"),
        (("-o", "x.csv"), console.USAGE, "NAME is missing: say which of airfoil, heart goes to x.csv"),
        (("heart", "-o", "x.txt"), console.USAGE, "--output x.txt must end in .parquet or .csv"),
        (("heart", "-o", "."), console.USAGE, "--output . is a folder: name a file"),
        (("heart", "-o", "no/x.csv"), console.DATA, "--output no/x.csv cannot be written: there is no folder no"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(words, code, sentence):
    assert said("data", *words, code=code) == sentence
    assert not list(Path().iterdir())
