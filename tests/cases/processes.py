"""Processes of a network on this machine: free ports, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

MARK = "UNPOOLED_TEST_RUN"


def free_ports(count):
    """The first of so many ports in a row that nobody listens on."""
    for first in range(21000 + os.getpid() % 5000 * 7 % 20000, 60000, count):
        with contextlib.ExitStack() as open_:
            try:
                for port in range(first, first + count):
                    open_.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no ports are free")


class Marked:
    """Processes with a mark in their environment, which their children inherit."""

    def __init__(self, **environment) -> None:
        self.mark = uuid.uuid4().hex
        here = str(Path(sys.executable).parent)
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OPENBLAS_NUM_THREADS": "1"}
        path = f"{here}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, **quiet, "PATH": path, MARK: self.mark, **environment}

    def left(self) -> dict[int, str]:
        """Those that run, by number."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (place / "environ").read_bytes():
                    found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # gone meanwhile, or of somebody else
                continue
        return found

    def gone_within(self, seconds) -> dict[int, str]:
        """Those that are left after so long."""
        until = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < until:
            time.sleep(0.2)
        return left

    def kill(self) -> None:
        """All of them, by number."""
        for number in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def bash(self, script, folder, timeout) -> tuple[int, str]:
        """A script to its end; the exit code and what it said."""
        said = folder / "said.log"
        with open(said, "w") as out:
            shell = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=self.environment, stdout=out, stderr=out
            )
            try:
                code = shell.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                code = shell.wait() or -1
        return code, said.read_text()
