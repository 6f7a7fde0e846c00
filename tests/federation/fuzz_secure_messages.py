"""Studies with secure sums in which one message is damaged or forged: nothing comes out wrong without a word.

    python -m tests.federation.fuzz_secure_messages --cases 1000

Damage is bytes changed, lost or added on the way. A forgery has a changed header or changed arrays and the right
hashes, as of a site or a server that is broken. Whatever is done to a message, the study ends in one of three ways: all
members are in the sum; a site is named and left out, and the record says that the sum is partial; or there is no model,
and a sentence. In the first two the sum is, to the bit, that of the members that the record names.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np

import unpooled as up
from tests.cases.federation import NAMES, Consortium, nth
from tests.models.fuzz_files import damaged, forged
from unpooled.federation import Message, StudyError, run_study
from unpooled.federation.secure.fixed_point import FixedPoint, add_all
from unpooled.federation.site.statistics import Sums
from unpooled.federation.study.folder import RECORD, StudyFolder

FRESH = 50  # studies after which sites with empty logs take over
HASH = 32  # bytes in front of a message
KINDS = ("join", "ask", "open")


class Line:
    """The line between server and sites, on which the n-th message of one kind, of or to one site, is changed."""

    def __init__(self, site: str, way: str, kind: str, n: int, change) -> None:
        self.place, self.change = (site, way), nth(n, change)
        self.kind, self.asked = kind, {}

    def __call__(self, site: str, way: str, content: bytes) -> bytes:
        if way == "request":
            self.asked[site] = Message.from_bytes(content).kind
        return self.change(content) if (site, way) == self.place and self.asked[site] == self.kind else content


def damage(rng: np.random.Generator):
    """An accident: mostly to what is said, at times to the hash in front of it."""

    def change(content: bytes) -> bytes:
        said = content[HASH:]
        if rng.integers(4) == 0:
            return rng.bytes(HASH) + said
        return content[:HASH] + (changed if (changed := damaged(said, rng)) != said else said[:-1])

    return change


def forgery(rng: np.random.Generator):
    """A change that keeps hashes right, often one bit of the masked numbers; damage where it cannot be sent."""

    def change(content: bytes) -> bytes:
        message = Message.from_bytes(content)
        if "words" in message.arrays and rng.integers(2):
            words = message.arrays["words"].copy()
            words.flat[rng.integers(words.size)] ^= np.uint64(1 << int(rng.integers(64)))
            return Message(message.kind, message.header, message.arrays | {"words": words}).to_bytes()
        try:
            return Message(message.kind, *forged(message.header, message.arrays or {"x": np.zeros(1)}, rng)).to_bytes()
        except (ValueError, TypeError, OverflowError, RecursionError):
            return damage(rng)(content)

    return change


class Truth:
    """The exact sums over any three or four of the sites, as words on the grid."""

    def __init__(self, sites: Consortium) -> None:
        statistic = Sums(sites.study(secure=True))
        vectors = {}
        for name in NAMES:
            summary = up.Summary.of(sites.basis, sites.rows[name].to_pandas(), "y")
            vectors[name] = statistic.to_vector(summary)
        self.sums = {}
        for names in [NAMES, *combinations(NAMES, 3)]:
            numbers = FixedPoint(len(names))
            words = add_all(numbers.encode(*vectors[name]) for name in names)
            self.sums[names] = statistic.from_vector(*numbers.decode(words))

    def check(self, names: list[str], summary: up.Summary) -> None:
        n_rows, sums = self.sums[tuple(sorted(names))]
        assert summary.n_rows == n_rows
        for name, value in sums.items():
            got = summary.sums[name]
            assert np.array_equal(got.high, value.high), name
            assert np.array_equal(got.low, value.low), name


def outcome(sites: Consortium, truth: Truth, line: Line, folder: Path) -> str:
    """Return the outcome of a study; raise an AssertionError if the study must not end in this way."""
    study = sites.study(secure=True, timeout=5.0, poll=0.01)
    try:
        record = run_study(study, sites.transport(line), folder)
    except StudyError as error:
        assert not list(folder.glob("*.model")), "there is a model"
        assert "\n" not in str(error)
        assert '"failed"' in (folder / RECORD).read_text()
        return "no model"
    (exchange,) = record.exchanges
    named = {failure.site for failure in record.failures}
    truth.check(exchange.members, up.load(StudyFolder(folder).model).summary_)
    if len(exchange.members) == len(NAMES):
        assert record.outcome == "complete"
        return "complete"
    assert record.outcome == "partial"
    assert set(record.missing) == set(NAMES) - set(exchange.members) == named
    return "partial, the site named"


def run(n_cases: int, seed: int, folder: Path, tell=lambda _: None) -> Counter[str]:
    """Run several studies, half of them with damage, and count the outcomes."""
    rng = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for case in range(n_cases):
        if case % FRESH == 0:
            sites = Consortium(folder / f"sites {case}", n_rows=40)
            truth = Truth(sites)
        way, kind = ("request", "reply")[int(rng.integers(2))], KINDS[int(rng.integers(3))]
        site, what = NAMES[int(rng.integers(4))], ("damaged", "forged")[case % 2]
        change = forgery(rng) if case % 2 else damage(rng)
        began = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about few public rows
            try:
                ended = outcome(sites, truth, Line(site, way, kind, 0, change), folder / f"study {case}")
            except Exception as error:
                where = f"case {case} of seed {seed}: {kind} {way} of {site}, {what}"
                raise AssertionError(f"{where}: {error!r}") from error
        assert time.monotonic() - began < 30
        found[f"{what} {kind} {way}: {ended}"] += 1
        tell(f"{case + 1} of {n_cases}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(options.cases, options.seed, Path(folder), lambda text: print(f"\r{text}", end="", file=sys.stderr))
    print(file=sys.stderr)
    for name, count in sorted(found.items()):
        print(f"{count:6d}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
