"""Features are worked out once for a study, also where a site is a new process for every question; then they go."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import unpooled as up
from tests.cases.federation import Consortium
from unpooled.federation import Message, run_study
from unpooled.federation.site.config import _boot

pytestmark = pytest.mark.skipif(not _boot(), reason="nothing is kept on disk here")


@pytest.fixture
def sites(tmp_path):
    return Consortium(tmp_path / "sites")


def kept(sites, name):
    return sorted((sites.folder / name / "cache").glob("*"))


def coef_of(sites, folder, hook=None, **choices):
    run_study(sites.study(**{"kind": "rounds", "rounds": 3, "lam": 1e-3, **choices}), sites.transport(hook), folder)
    return up.load(folder / "study.model").coef_


@pytest.mark.parametrize("choices", [{}, {"kind": "average", "rounds": 1, "lam": "rule13"}], ids=["rounds", "average"])
def test_features_from_disk_change_no_bit(sites, tmp_path, choices):
    seen = []

    def forgetful(site, way, content):
        if way == "request" and Message.from_bytes(content).kind == "ask":
            seen.append(len(kept(sites, site)))
            sites.restart(site)
        return content

    once = coef_of(sites, tmp_path / "once", **choices)
    again = coef_of(sites, tmp_path / "again", forgetful, **choices)
    assert np.array_equal(once, again)
    assert sorted(set(seen))[:2] == [0, 1]  # nothing at first, then something
    assert kept(sites, "north") == []


def test_rows_that_have_changed_are_read_again(sites, tmp_path):
    """The features of other rows are never used: the file is another one."""
    changed = sites.rows["north"].to_pandas()
    changed["y"] *= 2.0

    def changing(site, way, content):
        if site == "north" and way == "reply" and Message.from_bytes(content).kind == "answer":
            pq.write_table(sites.rows["north"].from_pandas(changed), sites.folder / "north" / "rows.parquet")
        return content

    coef = coef_of(sites, tmp_path / "changing", changing, rounds=2)
    twin = up.SummaryRegressor(lam=1e-3, fit_intercept=True)
    with pytest.warns(UserWarning, match="public rows"):
        twin.fit_summary(up.Summary.of(sites.basis, sites.pooled.to_pandas(), "y"))
    tables = {name: table.to_pandas() for name, table in sites.rows.items()} | {"north": changed}
    twin.update(sum(up.Summary.of(sites.basis, rows, "y", residuals_of=twin) for rows in tables.values()))
    assert np.max(np.abs(coef - twin.coef_)) < 1e-9 * np.max(np.abs(twin.coef_))


def test_another_study_takes_the_place_of_one_that_was_left(sites, tmp_path):
    def stopping(status):
        if status.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(sites.study(kind="rounds", rounds=3), sites.transport(), tmp_path / "left", progress=stopping)
    before = kept(sites, "north")
    assert len(before) == 1
    assert before[0].stat().st_mode & 0o077 == 0
    coef_of(sites, tmp_path / "other")
    assert kept(sites, "north") == []


def test_a_private_study_keeps_nothing(sites, tmp_path):
    pytest.importorskip("opendp")
    sites.ledgers(1.0, 1e-6)
    coef_of(sites, tmp_path / "private", privacy={"epsilon": 1.0, "delta": 1e-6, "label_bound": 8.0})
    assert not (sites.folder / "north" / "cache").exists()
