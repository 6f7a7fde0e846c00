"""A site's node: Flower's SuperNode, and beside it a process that answers with the code that is installed here.

Flower starts a new ``flwr-clientapp`` for every message and runs in it whatever app the server has sent. Here that
command is a few lines that call this process, which has everything imported, forks, and answers by itself: no code of
the server ever runs at the site, and no message waits for imports.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ..._base.text import shown
from ..site.config import SiteConfig
from ..study.study import ConfigError
from .commands import QUIET, command

NETWORK_NAME = "network.toml"
LONGEST = 1 << 16  # bytes of a call
# After a power cut a SuperLink believes for a minute that the node is still there, and does not take it again.
SOON, PAUSE, PATIENCE = 30.0, 5.0, 120.0


@dataclass(frozen=True)
class Network:
    """How a site gets to the SuperLink: its address, the certificate of its authority, the node's key, a free port."""

    superlink: str
    certificate: Path
    key: Path
    port: int

    @classmethod
    def read(cls, folder: Path) -> Network:
        """From ``network.toml`` of a site's folder; paths in it are beside it."""
        path = folder / NETWORK_NAME
        try:
            content = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
        wanted = {"superlink": str, "certificate": str, "key": str, "port": int}
        for name, kind in wanted.items():
            if type(content.get(name)) is not kind:
                raise ConfigError(f"{path} must say {name}, and it says {shown(content.get(name))}")
        places = {name: (folder / content[name]).absolute() for name in ("certificate", "key")}
        for place in places.values():
            if not place.is_file():
                raise ConfigError(f"{path} speaks of {place}, which does not exist")
        return cls(content["superlink"], port=content["port"], **places)


def run(folder: Path, ready: Callable[[], None] = lambda: None) -> int:
    """Be a site until stopped, or until the SuperNode ends: its exit code."""
    if not hasattr(os, "fork"):
        raise ConfigError("a site's node needs a system that can fork: start flower-supernode as the how-to says")
    os.environ.update(QUIET | os.environ)  # before Flower is imported: it looks then
    from . import flower

    folder = folder.absolute()
    SiteConfig.read(folder)  # what is wrong with it is said here and not at the first question
    network, client = Network.read(folder), flower.own_client()
    with tempfile.TemporaryDirectory(prefix="unpooled-") as private, socket.socket(socket.AF_UNIX) as calls:
        calls.bind(f"{private}/calls")
        calls.listen()
        calls.settimeout(1.0)
        commands = Path(private) / "bin"
        _write_commands(commands, f"{private}/calls", flower.CLIENT_COMMAND, flower.EXEC_COMMAND)
        asked = [
            *(sys.executable, "-P", "-c", flower.NODE),
            *("--superlink", network.superlink, "--port", str(network.port)),
            *("--root-certificates", str(network.certificate), "--auth-supernode-private-key", str(network.key)),
            *("--node-config", f"site={json.dumps(str(folder))}"),
        ]
        # Nothing else is on its path: were the command called otherwise one day, nothing would run at all.
        environment = {**os.environ, "PATH": str(commands), "UNPOOLED_SITE": str(os.getpid())}
        ready()
        began = time.monotonic()
        while True:
            started = time.monotonic()
            code = _serve(calls, subprocess.Popen(asked, env=environment), client)
            refused = code > 0 and time.monotonic() - started < SOON
            if not refused or time.monotonic() - began > PATIENCE:
                return code
            time.sleep(PAUSE)


def _serve(calls: socket.socket, node: subprocess.Popen[bytes], work: Callable[[list[str]], None]) -> int:
    working: set[int] = set()

    def stop(*_: int | FrameType | None) -> None:
        node.terminate()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while node.poll() is None:
            with suppress(TimeoutError), calls.accept()[0] as call:
                arguments = json.loads(call.recv(LONGEST))
                working.add(_forked(calls, work, arguments))
            working = {child for child in working if os.waitpid(child, os.WNOHANG) == (0, 0)}
        return node.returncode
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for child in working:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def _forked(calls: socket.socket, work: Callable[[list[str]], None], arguments: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        calls.close()
        work(arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        print(f"error: {error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _write_commands(folder: Path, address: str, client: str, executor: str) -> None:
    """The two commands that a SuperNode starts: the one that calls us, and Flower's own that starts it."""
    folder.mkdir()
    (folder / executor).symlink_to(command(executor))
    (folder / "call.py").write_text(_CALL.format(address=address))
    script = f'exec {shlex.quote(sys.executable)} -IS {shlex.quote(str(folder / "call.py"))} "$@"'
    (folder / client).write_text(f"#!/bin/sh\n{script}\n")
    (folder / client).chmod(0o700)


_CALL = """\
import json, socket, sys
with socket.socket(socket.AF_UNIX) as call:
    call.connect({address!r})
    call.sendall(json.dumps(sys.argv[1:]).encode())
"""
