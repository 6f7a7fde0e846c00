"""Rows are opened in two phases, and what is known of them is complete when they are made."""

import ast
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import unpooled as up
from tests.cases.private_summaries import Unread
from tests.made_up import rows_of_sites
from unpooled._base.rows import ArraySource, Rows, Source
from unpooled.data.csv import Csv, read_csv
from unpooled.data.parquet import Parquet, open_parquet
from unpooled.data.sources import UnreadRows, must_be_read, open_labeled

FIELDS = {field.name for field in fields(Source)}
ROOT = Path(up.__file__).parent


def patches(tree):
    """Lines that assign to what a source has for an attribute, or by way of ``setattr``; ``self`` is its own."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in (inner for outer in targets if outer is not None for inner in ast.walk(outer)):
            stored = isinstance(target, ast.Attribute) and target.attr in FIELDS and isinstance(target.ctx, ast.Store)
            if stored and not is_self(target.value):
                yield target.lineno
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in SETTERS:
            named = any(isinstance(part, ast.Constant) and part.value in FIELDS for part in node.args)
            if named and not is_self(node.args[0]):
                yield node.lineno


SETTERS = ("setattr", "__setattr__")


def is_self(node):
    """The name that a method has for its own object."""
    return isinstance(node, ast.Name) and node.id == "self"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_patches_a_source_from_outside(path):
    assert not list(patches(ast.parse(path.read_text())))


@pytest.mark.parametrize(
    "line",
    [
        "source.one_target = True",
        "a, source.n_outputs = 1, 2",
        "source.n_features += 1",
        "setattr(source, 'site_labels', None)",
        "object.__setattr__(source, 'target_names', ())",
        "source.streamed: bool = True",
    ],
)
def test_a_patch_would_be_seen(line):
    assert list(patches(ast.parse(line)))


@pytest.fixture
def places(tmp_path):
    """Return rows of whole numbers, which every kind of file keeps exactly."""
    data = (8 * rows_of_sites()[["a", "b", "y"]]).round()
    data.to_csv(tmp_path / "rows.csv", index=False)
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=40)
    return data, str(tmp_path / "rows.csv"), str(tmp_path / "rows.parquet")


def test_sources_are_frozen_and_say_what_their_labels_are(places):
    data, csv, parquet = places
    X = data[["a", "b"]].to_numpy()
    made = [
        read_csv(Csv(csv), ["y", "b"], None, None),
        open_parquet(Parquet(parquet), ["y", "b"], None, None),
        ArraySource(Rows(X, X), target_names=("y", "b"), one_target=False),
    ]
    for source in made:
        assert (source.n_outputs, source.one_target, source.target_names) == (2, False, ("y", "b"))
        assert source.n_rows == len(data)
        with pytest.raises(FrozenInstanceError):
            source.one_target = True
        assert "array" not in repr(source)  # which an error message may show


def test_sources_of_dask_say_it_too(places):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(places[0], npartitions=2)
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 5).fit(places[0][["a"]])
    source = open_labeled(basis, frame, ["y", "b"], None)
    assert (source.n_outputs, source.one_target, source.target_names) == (2, False, ("y", "b"))
    source = open_labeled(basis, frame, "y", None)
    assert (source.n_outputs, source.one_target, source.target_names) == (1, True, ("y",))


@pytest.fixture
def basis(places):
    return up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 5).fit(places[0][["a", "b"]])


def test_phase_one_tells_what_can_be_told_unread_and_phase_two_the_rest(places, basis):
    data, csv, parquet = places
    n = len(data)
    nameless = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 5).fit(data[["a", "b"]].to_numpy())
    lists = (data[["a", "b"]].to_numpy().tolist(), data["y"].tolist())
    told = {
        "frame": (data, "y", n, 1, False),
        "arrays": (data[["a", "b"]].to_numpy(), data["y"].to_numpy(), n, 1, False),
        "parquet": (parquet, "y", n, 1, False),
        "csv": (csv, "y", None, 1, True),
        "lists": (*lists, None, 1, True),
    }
    for name, (X, y, n_rows, n_labels, read) in told.items():
        rows = UnreadRows.of(nameless if name in ("arrays", "lists") else basis, X, y)
        assert (rows.n_rows, rows.n_labels, rows.must_be_read) == (n_rows, n_labels, read), name
        assert must_be_read(X) == read
        source = rows.read()
        assert source is rows.read()
        assert (rows.n_rows, rows.n_labels, rows.count()) == (n, 1, n)
        X = np.concatenate([piece.read().X for piece in source.pieces])
        np.testing.assert_array_equal(X, data[["a", "b"]].to_numpy(), err_msg=name)


def test_phase_one_of_a_parquet_file_reads_no_value(places, basis, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the data were looked at")

    for name in ("read_row_group", "iter_batches", "read", "read_row_groups"):
        monkeypatch.setattr(pq.ParquetFile, name, never)
    assert UnreadRows.of(basis, places[2], "y").n_rows == len(places[0])
    with pytest.raises(AssertionError, match="looked at"):
        UnreadRows.of(basis, places[2], "y").read().pieces[0].read()


REFUSED = {
    "no labels": (Unread(9, 2), None, "requires y to be passed"),
    "another width": (Unread(9, 3), Unread(9), "3 features"),
    "one dimension": (Unread(9), Unread(9), "two-dimensional"),
    "no rows": (Unread(0, 2), Unread(0), "at least one row"),
    "no columns": (Unread(9, 0), Unread(9), "minimum of 1 is required"),
    "fewer labels": (Unread(9, 2), Unread(8), "X has 9 rows and y has 8"),
    "labels without a width": (Unread(9, 2), Unread(9, 0), "one label per row"),
    "a sparse matrix": (scipy.sparse.csr_matrix(np.eye(2)), np.ones(2), "[Ss]parse"),
    "a column that is not there": (pd.DataFrame({"a": [1.0], "b": [1.0]}), "z", "'z' is not in X"),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("learn", [False, True])
def test_phase_one_refuses_what_it_can_without_a_look_at_a_value(name, learn, basis):
    X, y, sentence = REFUSED[name]
    owner = up.PrivateRegressor(1.0, 1e-6) if learn else basis
    if learn and name == "another width":
        assert UnreadRows.of(owner, X, y, learn=True).n_rows == 9
        assert owner.n_features_in_ == 3
        return
    with pytest.raises((ValueError, TypeError), match=sentence):
        UnreadRows.of(owner, X, y, learn=learn)
