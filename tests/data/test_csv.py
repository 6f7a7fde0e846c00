"""Rows from a CSV file are the rows of the arrays it was written from, whatever its size; what is wrong is named."""

import gc
import gzip
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.made_up import awkward_cells
from unpooled._base.rows import concatenate
from unpooled.data import Csv, csv
from unpooled.data.csv import read_csv
from unpooled.data.parquet import Parquet, open_parquet


def read(source):
    return concatenate([piece.read() for piece in source.pieces])


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture(params=["memory", "spilled"])
def kept(request, monkeypatch, tmp_path):
    """Both ways of keeping the rows; the temporary folders lie in one place."""
    monkeypatch.setattr(csv.tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(csv, "STRETCH", 4096)
    if request.param == "spilled":
        monkeypatch.setattr(csv, "IN_MEMORY", 2000)
        monkeypatch.setattr(csv, "GROUP", 3000)
    return request.param


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
def test_a_csv_file_equals_the_parquet_file_of_the_same_table(kept, name, tmp_path):
    data = awkward_cells()
    data.to_csv(tmp_path / name, index=False)
    data.to_parquet(tmp_path / "data.parquet", index=False)
    features = ["c", "a", "b"]
    ours = read_csv(Csv(tmp_path / name, features), ["y", "z"], "w", "site")
    theirs = open_parquet(Parquet(tmp_path / "data.parquet", features), ["y", "z"], "w", "site")
    assert len(ours.pieces) > 3
    assert ours.streamed == (kept == "spilled")
    for a, b in ((read(ours), read(theirs)), *zip(take(ours), take(theirs))):
        np.testing.assert_array_equal(a.X, b.X)
        np.testing.assert_array_equal(a.Y, b.Y)
        np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(ours.site_labels, theirs.site_labels)
    assert ours.names == theirs.names
    assert (ours.n_features, ours.one_target, ours.weighted) == (3, False, True)


def take(source):
    rows = np.asarray([0, 3, 77, 399])
    return [concatenate([piece.read() for piece in source.slices(rows)])]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(2, 4)), elements=st.floats(-1e300, 1e300)))
def test_every_number_survives_to_the_last_bit(tmp_path, values):
    data = pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])
    data.to_csv(tmp_path / "data.csv", index=False, float_format="%.17g")
    np.testing.assert_array_equal(read(read_csv(Csv(tmp_path / "data.csv"), None, None, None)).X, values)


def test_the_temporary_file_goes_with_its_last_piece(kept, tmp_path):
    awkward_cells().to_csv(tmp_path / "data.csv", index=False)
    source = read_csv(Csv(tmp_path / "data.csv", ["a"]), "y", None, None)
    folders = list((tmp_path / "temporary").iterdir())
    assert len(folders) == (kept == "spilled")
    piece = source.pieces[1]
    travelled = pickle.loads(pickle.dumps(piece))
    del source
    gc.collect()
    np.testing.assert_array_equal(travelled.read().X, piece.read().X)
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in folders)
    del piece, travelled
    gc.collect()
    assert not any(folder.exists() for folder in folders)


def test_nothing_is_left_behind_by_a_file_that_is_refused(kept, tmp_path):
    data = awkward_cells().astype({"a": object})
    data.loc[399, "a"] = "oops"
    data.to_csv(tmp_path / "data.csv", index=False)
    for _ in range(20):
        with pytest.raises(
            ValueError, match=r"column 'a' of .*data.csv \(row 400 after the column names\) holds 'oops'"
        ):
            read_csv(Csv(tmp_path / "data.csv", ["a"]), "y", None, None)
    gc.collect()
    assert not any((tmp_path / "temporary").iterdir())


def test_a_column_may_turn_from_integers_to_fractions_anywhere(kept, tmp_path):
    lines = [f"{i},1" for i in range(5000)] + ["0.5,2"]
    source = read_csv(Csv(write(tmp_path / "data.csv", "\n".join(["a,y", *lines]))), "y", None, None)
    X = read(source).X
    assert X.shape == (5001, 1)
    np.testing.assert_array_equal(X[-2:, 0], [4999.0, 0.5])
    assert source.one_target


def test_only_the_columns_that_are_used_are_looked_at(tmp_path):
    write(tmp_path / "data.csv", 'id,a,note,y\n1,2,"two\nlines, and ""more""",3\n2,4,,5\n')
    np.testing.assert_array_equal(read(read_csv(Csv(tmp_path / "data.csv", ["a"]), "y", None, None)).X, [[2], [4]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,y\ntrue,1\nFalse,2\n True ,3\n", [1, 0, 1]),
        ("\ufeffa,y\r\n 1,1\r\n2 ,2\r\n\r\n3,3", [1, 2, 3]),
        ('"a","y"\n"1","1"\n1e2,2\n-.5,3\n', [1, 100, -0.5]),
    ],
    ids=["true and false", "Windows", "quoted"],
)
def test_ways_of_writing_numbers(tmp_path, text, expected):
    source = read_csv(Csv(write(tmp_path / "data.csv", text)), "y", None, None)
    np.testing.assert_array_equal(read(source).X[:, 0], expected)
    np.testing.assert_array_equal(read(source).Y[:, 0], [1, 2, 3])


@pytest.mark.parametrize(
    ("text", "asked", "message"),
    [
        ("a,y\n1,2\n", {"y": "b"}, "y names the column 'b', but the file has only: a, y"),
        ("a,y\n1,2\n", {"y": 3}, "with a CSV file y must be the name of a column"),
        ("a,y\n1,2\n", {"features": ["q"]}, "features names the column 'q'"),
        ("y\n1\n", {}, "has no columns left for X"),
        ("a,y\n1,2\n3,\n", {}, r"column 'y' of .* \(row 2 after the column names\) has a missing or infinite value"),
        ("a,y\n1,2\nNA,4\n", {}, "column 'a' .* has a missing or infinite value: drop or impute"),
        ("a,y\n1,2\n-inf,4\n", {}, "column 'a' .* has a missing or infinite value"),
        ("a,y\n1,2\n1e999,4\n", {}, "column 'a' .* has a missing or infinite value"),
        (
            "a,y\n1,2\n3 mg,4\nx,5\n",
            {},
            r"column 'a' .*\(row 2 .*\) holds '3 mg', which is not a number: correct the cell, or leave",
        ),
        ("a,y\n1,2\n1_0,4\n", {}, "holds '1_0', which is not a number"),
        ("a,a,y\n1,2,3\n", {}, "has 'a' more than once among its column names"),
        (",a,y\n0,2,3\n", {}, "column 1 of .* has no name .*name it"),
        ("a,y\n1,2\n3\n", {}, "line 3 of .* has 1 values and the line of column names has 2: correct that line"),
        ("a,y\n1,2\n3,4,5\n", {}, "line 3 of .* has 3 values"),
        ('a,n,y\n1,u,2\n3,u,"4\n5,u,6\n', {}, "not a number"),
        ('a,y,n\n1,2,u\n3,4,"u\n5,6,u\n', {"features": ["a"]}, "a quotation mark that is never closed"),
        ("", {}, "is empty"),
        ("\n\n", {}, "is empty"),
        ("a,y\n", {}, "has no rows"),
        ("a,y", {}, "has no rows"),
        ("a;y\n1;2\n", {}, r"looks like several separated by semicolons: give X=up.blocks.Csv\(path, delimiter=';'\)"),
        ("a,y,w\n1,2,1\n1,2,-1\n", {"weight": "w"}, r"column 'w' .*\(row 2 .*negative weight"),
        ("a,y,s\n1,2,u\n1,2,\n", {"site": "s"}, r"column 's' .*\(row 2 .*has no label: give every row its site"),
        ("a,y\n1,2\n".encode("utf-16"), {}, "is not text in UTF-8"),
        ("ä,y\n1,2\n".encode("latin-1"), {}, "is not text in UTF-8"),
        ("a,y\n1ä,2\n".encode("latin-1"), {}, "is not text in UTF-8"),
        (gzip.compress(b"a,y\n" + b"1,2\n" * 999, mtime=0)[:-12], {}, "cannot be read as CSV"),
        (b"\x1f\x8bnonsense", {}, "cannot be read as CSV"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, asked, message):
    path = write(tmp_path / "data.csv", text)
    with pytest.raises(ValueError, match=message) as caught:
        read_csv(Csv(path, asked.get("features")), asked.get("y", "y"), asked.get("weight"), asked.get("site"))
    assert "\n" not in str(caught.value)


def test_an_empty_line_of_a_file_with_one_column_is_a_missing_value(tmp_path):
    path = write(tmp_path / "data.csv", "a\n1\n\n3\n")
    with pytest.raises(ValueError, match=r"column 'a' .*\(row 2 .*missing"):
        read_csv(Csv(path), None, None, None)


def test_other_delimiters(tmp_path):
    path = write(tmp_path / "data.csv", "a;y\n1;2\n")
    np.testing.assert_array_equal(read(read_csv(Csv(path, delimiter=";"), "y", None, None)).X, [[1]])
    for wrong in ("", ";;", '"', None):
        with pytest.raises(ValueError, match="delimiter must be one character, got"):
            read_csv(Csv(path, delimiter=wrong), "y", None, None)


def test_no_such_file_and_a_folder(tmp_path):
    with pytest.raises(ValueError, match="there is no file nowhere.csv"):
        read_csv(Csv(Path("nowhere.csv")), "y", None, None)
    with pytest.raises(ValueError, match="is a folder: give one CSV file"):
        read_csv(Csv(tmp_path), "y", None, None)
