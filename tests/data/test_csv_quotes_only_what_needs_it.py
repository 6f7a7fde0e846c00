"""CSV that is written has quotation marks only where a reader needs them, and reads as what was written."""

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from tests.cases.cli import call, write
from tests.made_up import COLUMNS, patients
from unpooled.data import tables

CELLS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(["", " ", '"', '""', "a,b", 'say "x"', "two\nlines", "\r", "1.5", "007", "ä"]),
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def written(table, folder, n_parts=1):
    """The bytes of the file, written in so many parts."""
    path = folder / "t.csv"
    with tables.open_writer(path, table.schema) as writer:
        for part in np.array_split(np.arange(table.num_rows), n_parts):
            writer.write_table(table.take(part))
    return path.read_bytes()


def read(content):
    """Every cell as the standard library reads it."""
    return list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))


@given(names=st.lists(CELLS.filter(bool), min_size=1, max_size=3, unique=True), data=st.data())
def test_what_is_read_is_what_was_written(names, data, tmp_path_factory):
    rows = data.draw(st.lists(st.tuples(*[CELLS] * len(names)), max_size=5))
    table = pa.table([pa.array([row[j] for row in rows], pa.string()) for j in range(len(names))], names)
    content = written(table, tmp_path_factory.mktemp("csv"), n_parts=2)
    assert read(content) == [names, *map(list, rows)]


@given(st.lists(NUMBERS, min_size=1, max_size=10))
def test_numbers_come_back_to_the_last_bit_and_are_never_quoted(tmp_path_factory, numbers):
    content = written(pa.table({"x": numbers, "text": [f"t{x}" for x in numbers]}), tmp_path_factory.mktemp("csv"))
    assert b'"' not in content
    assert [float(cell) for cell, _ in read(content)[1:]] == numbers


def test_quotes_stand_around_cells_that_need_them_and_no_others(tmp_path):
    words = ["plain", "with space", "a,b", 'the "x"', "two\nlines", "", "3.5", None]
    table = pa.table({"word, or not": words, "kind": pa.array(words).dictionary_encode(), "yes": [True] * 8})
    expected = (
        '"word, or not",kind,yes\nplain,plain,true\nwith space,with space,true\n"a,b","a,b",true\n'
        '"the ""x""","the ""x""",true\n"two\nlines","two\nlines",true\n,,true\n3.5,3.5,true\n,,true\n'
    )
    assert written(table, tmp_path).decode() == expected


def test_a_row_with_nothing_in_its_only_cell_is_still_a_row(tmp_path):
    assert written(pa.table({"t": ["", None, "x"]}), tmp_path) == b't\n""\n""\nx\n'


def test_nested_columns_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(
        ValueError, match=r"column 'list' holds list<.*>, which CSV cannot store: write a \.parquet file"
    ):
        written(pa.table({"list": [[1], [2]]}), tmp_path)
    assert not list(tmp_path.iterdir())


def test_columns_that_predict_keeps_of_a_csv_file_are_as_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = patients(1, 40)
    words = pa.array([f'bed {i}, "ward"' if i % 2 else "none" for i in range(40)])
    write(table.append_column("bed", words), tmp_path, "rows")
    y = table["stay"].to_numpy()
    frame = pq.read_table("rows.parquet", columns=COLUMNS).to_pandas()
    model = up.NystromRegressor(n_features=10, lam=1e-3).fit(frame, y)
    up.save(model, "m.model")
    call("predict", "m.model", "rows.csv", "-o", "p.csv", "--keep", "id,w,bed")
    head, *rows = read(Path("p.csv").read_bytes())
    assert head == ["id", "w", "bed", "prediction"]
    assert [row[0] for row in rows] == table["id"].to_pylist()
    assert [float(row[1]) for row in rows] == table["w"].to_pylist()
    assert [row[2] for row in rows] == words.to_pylist()
    np.testing.assert_array_equal([float(row[3]) for row in rows], up.load("m.model").predict(frame))
    assert Path("p.csv").read_text().splitlines()[1].count('"') == 0
    again = pa.csv.read_csv("p.csv")  # numbers are read as numbers
    assert again.schema.field("w").type == again.schema.field("prediction").type == pa.float64()
