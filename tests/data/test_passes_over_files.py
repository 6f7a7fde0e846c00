"""A file is read only once if the rows drawn beforehand fit into memory, and the results agree to the bit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unpooled as up
from tests.cases.counted_reads import counted_reads
from unpooled._base.rows import KEPT, ArraySource, KeptPiece, MemoryPiece, Rows
from unpooled.cli import app
from unpooled.data.sources import open_stream, read_some

GROUPS = 8


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=4000)
    return pa.table({**{name: X[:, j] for j, name in enumerate("abc")}, "y": y})


@pytest.fixture
def path(table, tmp_path):
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=4000 // GROUPS)
    return str(tmp_path / "rows.parquet")


def nystrom(length_scale=1.0, **choices):
    return up.NystromRegressor(up.kernels.Gaussian(length_scale), 60, **choices)


FITS = {
    "one pass": nystrom(),
    "length scale by the labels": nystrom("auto"),
    "with an intercept": nystrom(center=True),
    "rounds": nystrom(solver="rounds", lam=1e-3),
}
#: Passes without room in memory: points, then sums; in rounds also rows of the preconditioner, and a pass each.
WITHOUT_ROOM = {"one pass": 2, "length scale by the labels": 2, "with an intercept": 2}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_reads_a_file_once(name, path, monkeypatch):
    with counted_reads(monkeypatch) as reads:
        FITS[name].fit(path, "y")
    assert reads.passes == 1
    assert len(reads.groups) == GROUPS


@pytest.mark.parametrize("name", FITS)
def test_what_has_no_room_is_read_again_and_no_bit_changes(name, path, monkeypatch):
    once = FITS[name].fit(path, "y")
    bytes_read = []
    for room in (0, 4000 * 4 * 8 // 2):
        monkeypatch.setattr("unpooled.estimators.nystrom.KEPT", room)
        with counted_reads(monkeypatch) as reads:
            again = FITS[name].fit(path, "y")
        bytes_read.append(reads.bytes)
        assert reads.passes == WITHOUT_ROOM.get(name, again.n_rounds_ + 3)
        assert again.coef_.tobytes() == once.coef_.tobytes()
        assert again.lam_ == once.lam_
    assert bytes_read[1] < bytes_read[0]


def test_arrays_are_in_memory_already(table, monkeypatch):
    X = np.column_stack([table[name] for name in "abc"])
    with counted_reads(monkeypatch) as reads:
        nystrom().fit(X, table["y"].to_numpy())
    assert reads.passes == 0


def test_a_summary_and_the_share_that_its_policy_asks_for_take_one_pass(path, table, monkeypatch):
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 20).fit(table.select(list("abc"))[:200])
    with counted_reads(monkeypatch) as reads:
        summary = up.Summary.of(basis, path, "y")
    assert reads.passes == 1
    y = np.abs(table["y"].to_numpy())
    assert summary.label_share == pytest.approx(y.max() / y.sum(), rel=1e-12)


def test_a_site_lets_a_summary_leave_after_one_pass(path, table, tmp_path, monkeypatch):
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 20).fit(table.select(list("abc"))[:200])
    basis.save(tmp_path / "study.basis")
    (tmp_path / "policy.toml").write_text("")
    files = [str(tmp_path / name) for name in ("study.basis", "rows.parquet", "site.summary")]
    with counted_reads(monkeypatch) as reads:
        app(["summarize", *files[:2], "--target", "y", "-o", files[2]], standalone_mode=False)
    assert reads.passes == 1
    assert (tmp_path / "site.summary").exists()


def test_a_share_is_not_known_where_no_rows_were_seen_or_noise_hides_them(path, table, tmp_path):
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 20).fit(table.select(list("abc"))[:200])
    summary = up.Summary.of(basis, path, "y")
    summary.save(tmp_path / "site.summary")
    loaded = up.Summary.load(tmp_path / "site.summary")
    assert loaded.n_rows == summary.n_rows
    for unknown in (loaded, loaded + summary):
        assert np.isnan(unknown.label_share)
    pytest.importorskip("opendp")
    private = up.Summary.of(basis, path, "y", privacy=up.privacy.PrivacyRequest(1.0, 1e-6, 2.0))
    assert private.shares is None


@settings(max_examples=50, deadline=None)
@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=6), seed=st.integers(0, 2**16), room=st.integers(0, 2000)
)
def test_rows_for_several_are_those_that_each_would_read_alone(counts, seed, room):
    rng = np.random.default_rng(seed)
    n = sum(counts)
    X, Y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    ends = np.cumsum(counts)
    pieces = [KeptPiece(Rows(X[e - c : e], Y[e - c : e]), in_parts=True) for c, e in zip(counts, ends)]
    source = up._base.rows.Source(pieces, 2, streamed=True)
    wanted = [np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False)) for _ in range(rng.integers(1, 4))]
    found, kept = read_some(source, wanted, room)
    for rows, numbers in zip(found, wanted):
        np.testing.assert_array_equal(rows.X, X[numbers])
        np.testing.assert_array_equal(rows.Y, Y[numbers])
    held = sum(ours is not theirs for ours, theirs in zip(kept.pieces, pieces))
    assert held <= room / 24
    np.testing.assert_array_equal(np.concatenate([piece.read().X for piece in kept.pieces]), X)


def test_rows_of_arrays_are_drawn_from_the_arrays():
    source = ArraySource(Rows(np.eye(5), np.ones((5, 1))))
    [rows], same = read_some(source, [np.asarray([1, 3])], KEPT)
    assert same is source
    assert isinstance(same.pieces[0], MemoryPiece)
    np.testing.assert_array_equal(rows.X, np.eye(5)[[1, 3]])


def test_a_piece_that_is_kept_comes_in_the_chunks_of_its_file(path):
    for size in (1, 7, 130, 500, 9999):
        for piece in open_stream(path, "y").pieces[:2]:
            chunks = list(piece.chunks(size))
            again = list(KeptPiece(piece.read(), in_parts=True).chunks(size))
            assert [len(rows) for rows in again] == [len(rows) for rows in chunks]
            assert all(np.array_equal(a.X, b.X) for a, b in zip(again, chunks))


def test_a_second_pass_would_be_counted(path, monkeypatch):
    """Planted: a fit that keeps nothing of what it has read."""
    monkeypatch.setattr("unpooled.estimators.nystrom.read_some", lambda source, wanted, _: read_some(source, wanted, 0))
    with counted_reads(monkeypatch) as reads:
        nystrom().fit(path, "y")
    assert reads.passes == 2
