"""The server of a secure study receives masked integers and public headers: no clear vector, and no number of rows."""

import json

import numpy as np
import pytest
from scipy import stats

import unpooled as up
from tests.cases.federation import Consortium, Wire, lost, nth
from unpooled.federation import run_study
from unpooled.federation.secure.fixed_point import FixedPoint, flatten
from unpooled.federation.site.statistics import Sums

CHOICES = {"kind": "rounds", "rounds": 3, "lam": 1e-3, "secure": True, "timeout": 30.0, "id": "one and the same"}


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """Return all messages that a server received in two equal studies of sites with different rows."""
    found = []
    for seed in (0, 1):
        folder = tmp_path_factory.mktemp("consortium")
        sites, wire = Consortium(folder / "sites", seed=seed, scale=1.0 + 1000 * seed), Wire()
        run_study(sites.study(**CHOICES), sites.transport(wire), folder / "study")
        found.append((sites, wire))
    return found


def without_keys(header):
    """Remove the parts that are random anyway: keys, locks, and the names of attempts."""
    kept = {name: value for name, value in header.items() if name not in ("offer", "locks", "attempt")}
    return kept | ({"locks": sorted(header["locks"])} if "locks" in header else {})


def test_headers_are_the_same_whatever_the_rows_are(captured):
    """Two consortia with other labels, a thousand times as large: the headers differ in random keys alone.

    From the second round on the statistic is named by the model that is public then, so the first round is compared.
    """
    for kind in ("joined", "answer", "opened"):
        heard = [sorted(wire.received(kind), key=lambda pair: pair[0])[: len(sites.names)] for sites, wire in captured]
        firsts = [[(site, without_keys(m.header), m.arrays.keys()) for site, m in one] for one in heard]
        for one in firsts:
            for _, header, _ in one:
                header.pop("statistic", None)
        assert firsts[0] == firsts[1]


def test_headers_hold_nothing_but_names_digests_and_keys(captured):
    sites, wire = captured[0]
    allowed = {
        "joined": {"site", "study", "offer"},
        "answer": {"site", "study", "statistic", "attempt", "offer"},
        "opened": {"site", "study", "attempt", "locks"},
    }
    heard = wire.received()
    assert {message.kind for _, message in heard} == set(allowed)
    for site, message in heard:
        assert set(message.header) == allowed[message.kind]
        assert message.header["site"] == site
        assert message.arrays.keys() == ({"words"} if message.kind == "answer" else set())
        counts = [table.num_rows for table in sites.rows.values()] + [sites.pooled.num_rows]
        text = json.dumps(
            {k: v for k, v in message.header.items() if k not in ("offer", "locks", "study", "statistic")}
        )
        assert not any(str(n) in text for n in counts)


def test_answers_are_as_long_whatever_the_rows_are(captured):
    lengths = [sorted((site, len(m.to_bytes())) for site, m in wire.received("answer")) for _, wire in captured]
    assert lengths[0] == lengths[1]


def test_what_arrives_is_not_what_a_site_has(captured):
    """No entry of a masked vector equals that of the vector, and neither do differences of vectors."""
    sites, wire = captured[0]
    study = sites.study(**CHOICES)
    statistic, numbers = Sums(study), FixedPoint(len(sites.names))
    first = {site: m.arrays["words"] for site, m in wire.received("answer")[: len(sites.names)]}
    for name, words in first.items():
        part = up.Summary.of(sites.basis, sites.rows[name].to_pandas(), "y")
        clear = numbers.encode(*flatten(part.n_rows, part.sums, statistic.shapes()))
        assert not np.any(words[:-1] == clear)
        for other, theirs in first.items():
            if other != name:
                assert not np.any(words == theirs)


def test_masked_words_are_uniform(captured):
    """The bytes and bits of all answers are uniform; a clear number of rows would have zeros in its top bytes."""
    words = np.concatenate([m.arrays["words"].ravel() for _, wire in captured for _, m in wire.received("answer")])
    every = np.frombuffer(words.tobytes(), dtype=np.uint8)
    assert len(every) > 10_000
    assert stats.chisquare(np.bincount(every, minlength=256)).pvalue > 1e-6
    ones = np.unpackbits(every).mean()
    assert abs(ones - 0.5) < 6 * 0.5 / np.sqrt(8 * len(every))
    assert len(np.unique(words)) == len(words)


def test_two_attempts_at_the_same_question_share_no_mask(tmp_path):
    """A site is lost and the attempt repeated: the others' two answers to one question differ in every word."""
    sites = Consortium(tmp_path / "sites")
    wire = Wire({("west", "reply", "answer"): nth(0, lost)})
    run_study(sites.study(kind="less", lam=1e-2, secure=True), sites.transport(wire), tmp_path / "study")
    answers = [m.arrays["words"] for site, m in wire.received("answer") if site == "east"]
    assert len(answers) == 2
    assert not np.any(answers[0] == answers[1])
    apart = np.frombuffer((answers[0] - answers[1]).tobytes(), dtype=np.uint8)
    assert stats.chisquare(np.bincount(apart, minlength=256)).pvalue > 1e-6


def test_the_folder_of_the_server_holds_no_vector_of_a_site(tmp_path):
    """The files hold only totals, and their numbers of rows are those of all sites."""
    sites = Consortium(tmp_path / "sites")
    run_study(sites.study(kind="less", lam=1e-2, secure=True), sites.transport(), tmp_path / "study")
    totals = [up.Summary.load(path) for path in (tmp_path / "study").rglob("*.total")]
    assert [total.n_rows for total in totals] == [sites.pooled.num_rows]
    texts = " ".join(path.read_text() for path in (tmp_path / "study").rglob("*.json"))
    assert not any(f" {table.num_rows}," in texts for table in sites.rows.values())
