"""A Flower network on this machine, of separate processes, with TLS and authenticated nodes; and faults to order."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import unpooled as up
from unpooled.federation import StudyError, StudyRecord
from unpooled.federation.study.new_study import NewStudy
from unpooled.federation.wire.network import QUIET

BIN = Path(sys.executable).parent
D = 5


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(n)
    return pa.table({f"x{i}": X[:, i] for i in range(D)} | {"y": y})


def free_port(count: int) -> int:
    """The first of so many in a row that nobody listens on."""
    for first in range(31000, 60000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for number, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + number))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise SystemExit("no ports are free")


class Network:
    """A study folder with a SuperLink and nodes that can be started, killed and started again."""

    def __init__(self, folder: Path, sites: list[str], n_rows: int, n_features: int) -> None:
        self.folder, self.sites, self.port = folder, sites, free_port(len(sites) + 1)
        NewStudy(folder, sites, ["y"], port=self.port).write()
        basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(), n_features=n_features)
        basis.fit(rows(2000, 99).drop_columns(["y"])).save(folder / "study.basis")
        for seed, name in enumerate(sites):
            pq.write_table(rows(n_rows, seed), self.place(name) / "rows.parquet")
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "FLWR_HOME": str(folder / "flower"), "OPENBLAS_NUM_THREADS": "1"}
        self.environment = {**os.environ, **QUIET, **own}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def place(self, name: str) -> Path:
        return self.folder / "sites" / name

    def change(self, **settings: object) -> None:
        """Settings of study.toml."""
        path = self.folder / "study.toml"
        text = path.read_text()
        for name, value in settings.items():
            said = json.dumps(value)
            text, found = re.subn(rf"(?m)^{name} = .*$", f"{name} = {said}", text)
            text = text if found else f"{name} = {said}\n{text}"
        path.write_text(text)

    def start(self, name: str, *command: object) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(part) for part in command], env=self.environment, stdout=log, stderr=log, cwd=self.folder
            )

    def serve(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        network = self.folder / "network"
        self.start(
            "superlink",
            *(BIN / "flower-superlink", "--host", "127.0.0.1", "--port", self.port),
            *("--ssl-ca-certfile", network / "ca.crt", "--ssl-certfile", network / "server.crt"),
            *("--ssl-keyfile", network / "server.key", "--database", self.folder / "flower" / "state.db"),
            *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
        )
        while self.flwr("supernode", "list", "study").returncode:
            if self.processes["superlink"].poll() is not None:
                raise SystemExit((self.folder / "superlink.log").read_text()[-2000:])
            time.sleep(0.5)

    def register(self) -> None:
        for name in self.sites:
            self.flwr("supernode", "register", self.place(name) / "node.key.pub", "study", "--name", name)

    def join(self, name: str, fault: str = "") -> None:
        """Start a site's node; with a fault, one that misbehaves."""
        faults = Path(__file__).with_name("federation_faults.py")
        command = [sys.executable, faults, fault, self.place(name)] if fault else None
        self.start(name, *(command or [BIN / "unpooled", "federation", "site", self.place(name)]))

    def flwr(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(BIN / "flwr"), *map(str, arguments)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    def online(self, wanted: int, patience: float = 90.0) -> None:
        """Wait until so many nodes are online."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            listed = json.loads(self.flwr("supernode", "list", "study", "--format", "json").stdout or "{}")
            if sum(node.get("status") == "online" for node in listed.get("nodes", [])) >= wanted:
                return
            time.sleep(0.5)

    def kill(self, name: str) -> None:
        """At once, with all its children: a power cut."""
        process = self.processes.pop(name)
        for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue
        process.wait()

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)

    def submit(self) -> None:
        """Start a run of the study anew."""
        self.anew()
        self.again()

    def anew(self) -> None:
        """Put the results of the study before aside."""
        results = self.folder / "results"
        if results.exists():
            results.rename(self.folder / f"results-{time.time_ns()}")

    def again(self) -> None:
        """Start a run of the study, which goes on where it was."""
        (self.folder / "results" / "record.json").unlink(missing_ok=True)
        done = self.flwr("run", self.folder / "app", "study")
        if done.returncode:
            raise SystemExit(done.stderr or done.stdout)

    def until(self, *parts: str, patience: float = 300.0) -> None:
        """Wait until a file of the folder is there."""
        end = time.monotonic() + patience
        while not self.folder.joinpath(*parts).exists():
            if time.monotonic() > end:
                raise SystemExit(f"{'/'.join(parts)} did not come within {patience:g} s")
            time.sleep(0.02)

    def finished(self, patience: float = 600.0) -> StudyRecord:
        self.until("results", "record.json", patience=patience)
        while True:
            try:
                return StudyRecord.load(self.folder / "results")
            except StudyError:  # an earlier one is being replaced
                time.sleep(0.1)
