"""A federation over Flower on this machine: faults and how soon each is noticed; what a study costs, and whose cost.

    python benchmarks/federation.py faults            # about ten minutes
    python benchmarks/federation.py times             # one round and ten, 4 sites of 100,000 rows
    python benchmarks/federation.py times --rows 10000

Server and sites are processes of their own, with TLS and authenticated nodes; sums are secure. Each fault hits one of
four sites, and three are a quorum: the study should end with a model of the other three and a record that says so.
"Noticed" is from the question to the knowledge that the site fails, with a timeout of 30 s.

Of the time of a study, the sites' work is that of the slowest site at each message, the server's is what it does
between messages, and Flower's is the rest: carrying messages, looking for them, starting processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import unpooled as up
from federation_network import Network
from measure import machine
from unpooled.federation import FlowerEngine, StudyRecord
from unpooled.federation.secure.keys import Identity
from unpooled.federation.wire.network import write_network, write_node_key

SITES = ["north", "east", "south", "west"]
HIT = "west"


def restarted(network: Network, fault: str = "") -> None:
    if HIT in network.processes:
        network.kill(HIT)
    for note in ("working", "answered"):
        (network.place(HIT) / note).unlink(missing_ok=True)
    network.join(HIT, fault)


def none(network: Network) -> StudyRecord:
    network.online(4)
    network.submit()
    return network.finished()


def killed_before(network: Network) -> StudyRecord:
    network.online(4)
    network.kill(HIT)
    network.submit()
    return network.finished()


def killed_during(network: Network) -> StudyRecord:
    restarted(network, "slow")
    network.online(4)
    network.submit()
    network.until("sites", HIT, "working")
    network.kill(HIT)
    return network.finished()


def killed_after(network: Network) -> StudyRecord:
    restarted(network, "quick-to-die")
    network.online(4)
    network.submit()
    network.until("sites", HIT, "answered")
    network.kill(HIT)
    return network.finished()


def restarted_before(network: Network) -> StudyRecord:
    network.online(4)
    network.kill(HIT)
    network.submit()
    time.sleep(5)
    network.join(HIT)
    return network.finished()


def server_killed(network: Network) -> StudyRecord:
    network.change(kind="rounds", rounds=3)
    network.online(4)
    network.submit()
    network.until("results", "exchanges", "0000.json")
    network.kill("superlink")
    network.serve()
    network.online(4)
    network.again()
    record = network.finished()
    network.change(kind="second-order", rounds=1)
    return record


def wrong_node_key(network: Network) -> StudyRecord:
    return with_file(network, "node.key", lambda place: write_node_key(place))


def wrong_site_key(network: Network) -> StudyRecord:
    def other(place: Path) -> None:
        (place / "site.key").unlink()
        Identity.create(place / "site.key")

    return with_file(network, "site.key", other)


def wrong_authority(network: Network) -> StudyRecord:
    def other(place: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_network(Path(folder))
            shutil.copy(Path(folder) / "ca.crt", place / "ca.crt")

    return with_file(network, "ca.crt", other)


def not_a_number(network: Network) -> StudyRecord:
    def spoiled(place: Path) -> None:
        table = pq.read_table(place / "rows.parquet")
        y = table["y"].to_numpy().copy()
        y[17] = np.nan
        pq.write_table(table.set_column(table.column_names.index("y"), "y", pa.array(y)), place / "rows.parquet")

    return with_file(network, "rows.parquet", spoiled)


def with_file(network: Network, name: str, change: Callable[[Path], None]) -> StudyRecord:
    """A study while a file of one site is another."""
    place = network.place(HIT)
    shutil.copy(place / name, place / "kept")
    network.kill(HIT)
    change(place)
    network.join(HIT)
    network.change(patience=30)
    network.online(4, patience=10)
    network.submit()
    record = network.finished()
    network.change(patience=60)
    shutil.move(place / "kept", place / name)
    restarted(network)
    return record


def misbehaving(fault: str) -> Callable[[Network], StudyRecord]:
    def run(network: Network) -> StudyRecord:
        restarted(network, fault)
        network.online(4)
        network.submit()
        record = network.finished()
        restarted(network)
        return record

    return run


def other_code(network: Network) -> StudyRecord:
    """The server sends an app that leaves a file wherever it runs."""
    path = network.folder / "app" / "unpooled_study" / "client_app.py"
    kept, trace = path.read_text(), network.folder / "server-code-ran"
    path.write_text(f"open({str(trace)!r}, 'w').close()\n{kept}")
    network.online(4)
    network.submit()
    record = network.finished()
    path.write_text(kept)
    if trace.exists():
        raise SystemExit("the server's code ran at a site")
    return record


FAULTS: dict[str, Callable[[Network], StudyRecord]] = {
    "none": none,
    "site killed before it is asked": killed_before,
    "site killed, and back 5 s later": restarted_before,
    "site killed while it works": killed_during,
    "site killed after its answer": killed_after,
    "server killed between rounds, run again": server_killed,
    "wrong node key": wrong_node_key,
    "wrong site key": wrong_site_key,
    "wrong authority": wrong_authority,
    "wrong digest": misbehaving("wrong-digest"),
    "wrong shape": misbehaving("wrong-shape"),
    "a bit of its answer flipped": misbehaving("wrong-numbers"),
    "NaN in its rows": not_a_number,
    "the server sends other code": other_code,
}


def faults(console: Console, only: list[str]) -> None:
    table = Table(title="Faults at one of four sites, three are a quorum")
    for head in ("fault", "outcome", "named", "why", "noticed", "study", "model is that of"):
        table.add_column(head)
    with tempfile.TemporaryDirectory() as home:
        network = Network(Path(home) / "study", SITES, 2000, 40)
        network.change(timeout=30, patience=60, quorum=3)
        try:
            network.serve()
            network.register()
            for name in SITES:
                network.join(name)
            for name, fault in FAULTS.items():
                if only and not any(word in name for word in only):
                    continue
                if HIT not in network.processes:
                    network.join(HIT)
                row = outcome(name, fault(network), network)
                table.add_row(*row)
                console.print(*row, sep=" | ")
        finally:
            network.close()
    console.print(table)


def outcome(name: str, record: StudyRecord, network: Network) -> list[str]:
    failed = record.failures[-1] if record.failures else None
    return [
        name,
        record.outcome,
        failed.site if failed else "",
        failed.reason if failed else record.problem,
        f"{failed.seconds:.1f} s" if failed else "",
        f"{record.seconds:.0f} s",
        checked(record, network),
    ]


def checked(record: StudyRecord, network: Network) -> str:
    """Whose rows the model is of, by fitting it again from the rows themselves."""
    path = network.folder / "results" / "study.model"
    if record.model is None:
        return "no model" if not path.exists() else "A MODEL WITHOUT A RECORD"
    model, members = up.load(path), sorted(set.intersection(*(set(one.members) for one in record.exchanges)))
    pooled = pa.concat_tables([pq.read_table(network.place(name) / "rows.parquet") for name in members]).to_pandas()
    basis = up.bases.load(network.folder / "study.basis")
    rounds = record.study["rounds"]
    twin = up.SummaryRegressor(fit_intercept=True)
    twin.fit_summary(up.Summary.of(basis, pooled, "y", order=record.study["order"]))
    for _ in range(rounds - 1):
        twin.update(up.Summary.of(basis, pooled, "y", residuals_of=twin))
    off = np.max(np.abs(model.coef_ - twin.coef_)) / np.max(np.abs(twin.coef_))
    return f"{', '.join(members)}, off by {off:.0e}"


def studied(network: Network) -> StudyRecord:
    """A study as its folder says."""
    network.submit()
    return network.finished(3600)


def estimated(network: Network) -> StudyRecord:
    """An estimator in this process, the sums at the sites."""
    network.anew()
    os.environ.update(network.environment)
    with FlowerEngine(network.folder) as engine:
        model = up.LESSRegressor(basis=engine.study.basis, rounds=10, lam=1e-4, engine=engine, fit_intercept=False).fit(
            engine.rows, "y"
        )
        return engine.finish(model)


TIMED: dict[str, tuple[Callable[[Network], StudyRecord], dict[str, object]]] = {
    "one round, second order": (studied, {"kind": "second-order", "rounds": 1}),
    "ten rounds": (studied, {"kind": "rounds", "rounds": 10}),
    "LESSRegressor(rounds=10)": (estimated, {"kind": "estimator", "rounds": 10}),
}


def times(console: Console, n_rows: int, n_features: int, only: list[str]) -> None:
    table = Table(title=f"4 sites of {n_rows:,} rows, {n_features} features, secure sums")
    for head in ("study", "messages a site", "all", "sites' work", "server's work", "Flower", "a message", "sent"):
        table.add_column(head)
    with tempfile.TemporaryDirectory() as home:
        network = Network(Path(home) / "study", SITES, n_rows, n_features)
        watch_server(network)
        try:
            network.serve()
            network.register()
            for name in SITES:
                network.join(name, "timed")
            for name, (run, settings) in TIMED.items():
                if only and not any(word in name for word in only):
                    continue
                network.change(timeout=600, patience=60, **settings)
                network.online(4)
                noted(network)
                record = run(network)
                waiting, working = noted(network)
                seconds = record.seconds, working, record.seconds - waiting.sum(), waiting.sum() - working
                sent = f"{record.received / 4e6:.2f} MB a site"
                flower = f"{seconds[-1] / len(waiting):.1f} s"
                row = [name, str(len(waiting)), *(f"{value:.1f} s" for value in seconds), flower, sent]
                table.add_row(*row)
                console.print(*row, sep=" | ")
        finally:
            network.close()
    console.print(table)


def watch_server(network: Network) -> None:
    """The server's app notes how long it waits for answers, message after message."""
    app = network.folder / "app" / "unpooled_study" / "server_app.py"
    app.write_text(WATCHED.format(kept=app.read_text(), notes=str(network.folder / "seconds")))


WATCHED = """\
{kept}
import time
from unpooled.federation.wire.flower import GridTransport

exchange = GridTransport.exchange


def watched(self, messages, timeout):
    start = time.monotonic()
    replies = exchange(self, messages, timeout)
    with open({notes!r}, "a") as notes:
        notes.write(f"{{time.monotonic() - start}}\\n")
    return replies


GridTransport.exchange = watched
"""


def noted(network: Network) -> tuple[np.ndarray, float]:
    """What server and sites have noted since the last look: the waits, and the longest work at each of them, added."""
    found = []
    for place in (network.folder, *map(network.place, SITES)):
        notes = place / "seconds"
        found.append(np.loadtxt(notes, ndmin=1) if notes.exists() else np.zeros(0))
        notes.unlink(missing_ok=True)
    waiting, *sites = found
    if len({len(one) for one in found}) > 1:
        raise SystemExit(f"not every message was answered by every site: {[len(one) for one in found]}")
    return waiting, float(np.max(sites, axis=0).sum()) if len(waiting) else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["faults", "times"])
    parser.add_argument("--only", nargs="*", default=[], help="those with one of these words in their names")
    parser.add_argument("--rows", type=int, default=100_000, help="of each site")
    parser.add_argument("--features", type=int, default=100)
    arguments = parser.parse_args()
    console = Console(width=200)
    console.print(machine())
    if arguments.what == "faults":
        faults(console, arguments.only)
    else:
        times(console, arguments.rows, arguments.features, arguments.only)


if __name__ == "__main__":
    main()
