"""Flower's processes on this machine: its commands, a site's node, and certificates and keys for a TEST network.

A real consortium has certificates of its own. These are meant for a rehearsal on one machine, because anyone with the
folder has the private key of the server. There is one authority, one server, and a key for every SuperNode.

A site's node consists of Flower's SuperNode and a process that answers with the code that is installed here. Flower
starts a new ``flwr-clientapp`` for every message and runs in it any app that the server has sent. Here that command is
a few lines that call our process, which has imported everything, forks, and answers itself. So no code of the server
ever runs at the site, and no message waits for imports.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import shlex
import shutil
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
from typing import Any

from ..._base.files import open_atomic
from ..._base.text import join_lines, quote
from ..secure.keys import import_primitives
from ..site.config import SiteConfig
from ..study.folder import StudyError
from ..study.study import ConfigError

DAYS = 90
_WARNING = "unpooled TEST network, not for real data"
HOSTS = ("127.0.0.1", "::1", "localhost")


def write_network(folder: Path, hosts: tuple[str, ...] = HOSTS) -> None:
    """Write ca.crt, server.crt and server.key into the folder; the authority's own key is discarded.

    Nobody can sign another certificate afterwards: for a server with another name, create the network again.
    """
    ec = import_primitives("asymmetric.ec")
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _certificate(f"{_WARNING}: authority", authority.public_key(), "authority", authority, ())
    own = _certificate(f"{_WARNING}: server", server.public_key(), "authority", authority, hosts)
    _write(folder / "ca.crt", _pem(ca))
    _write(folder / "server.crt", _pem(own))
    _write(folder / "server.key", _private_pem(server, "PKCS8"), private=True)


def write_node_key(folder: Path) -> None:
    """Write node.key and node.key.pub, which identify a SuperNode to the SuperLink (ECDSA on P-384 for Flower)."""
    ec, formats = import_primitives("asymmetric.ec"), import_primitives("serialization")
    key = ec.generate_private_key(ec.SECP384R1())
    _write(folder / "node.key", _private_pem(key, "OpenSSH"), private=True)
    public = key.public_key().public_bytes(formats.Encoding.OpenSSH, formats.PublicFormat.OpenSSH)
    _write(folder / "node.key.pub", public + b"\n")


def _certificate(name: str, public: Any, kind: str, signer: Any, hosts: tuple[str, ...]) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def common_name(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(common_name(name))
        .issuer_name(common_name(f"{_WARNING}: {kind}"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # the clocks of machines differ
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=not hosts, path_length=None if hosts else 0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(x509, is_authority=not hosts), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(x509, host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(signer, import_primitives("hashes").SHA256())


def _usage(x509: Any, is_authority: bool) -> Any:
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "encipher_only", "decipher_only")
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        **dict.fromkeys(unused, False),
    )


def _host(x509: Any, host: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Any) -> bytes:
    return bytes(certificate.public_bytes(import_primitives("serialization").Encoding.PEM))


def _private_pem(key: Any, form: str) -> bytes:
    formats = import_primitives("serialization")
    return bytes(key.private_bytes(formats.Encoding.PEM, getattr(formats.PrivateFormat, form), formats.NoEncryption()))


def _write(path: Path, content: bytes, private: bool = False) -> None:
    with open_atomic(path, private=private) as file:
        file.write(content)


# No telemetry, no check for updates, and a check for messages every fifth of a second instead of every second.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
}


def _find_command(name: str) -> str:
    """Return the path of one of Flower's commands, from this Python's installation if it is there."""
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise ConfigError(f"{name} is not installed: pip install 'unpooled[flower]'")
    return path


def submit_run(app: Path, superlink: str, config: dict[str, str]) -> str:
    """Start a run of an app at a SuperLink with these settings, and return the number of the run."""
    settings = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
    arguments = [_find_command("flwr"), "run", str(app), superlink, "--run-config", settings, "--format", "json"]
    done = subprocess.run(arguments, env=QUIET | os.environ, capture_output=True, text=True, check=False)
    try:
        return str(json.loads(done.stdout)["run-id"])
    except (ValueError, KeyError, TypeError):
        output = join_lines(done.stderr or done.stdout)[-500:]
        raise StudyError(f"the SuperLink {superlink!r} could not start a run of {app}: {output}") from None


NETWORK_NAME = "network.toml"
_KINDS = {str: "a text", int: "a whole number"}
LONGEST = 1 << 16  # the most bytes of a call
# After a power cut a SuperLink considers the node connected for another minute, and refuses it until then.
_SOON, _PAUSE, PATIENCE = 30.0, 5.0, 120.0


@dataclass(frozen=True)
class Network:
    """A site's connection to the SuperLink: its address, the authority's certificate, the node's key, a free port."""

    superlink: str
    certificate: Path
    key: Path
    port: int

    @classmethod
    def read(cls, folder: Path) -> Network:
        """Return the connection in ``network.toml`` of a site's folder, to which its paths are relative."""
        path = folder / NETWORK_NAME
        try:
            content = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {join_lines(error)}") from None
        wanted = {"superlink": str, "certificate": str, "key": str, "port": int}
        for name, kind in wanted.items():
            if type(content.get(name)) is not kind:
                raise ConfigError(f"{name} in {path} must be {_KINDS[kind]}, got {quote(content.get(name))}")
        places = {name: (folder / content[name]).absolute() for name in ("certificate", "key")}
        for place in places.values():
            if not place.is_file():
                raise ConfigError(f"{path} names {place}, which does not exist")
        return cls(content["superlink"], port=content["port"], **places)


def run_site(folder: Path, ready: Callable[[], None] = lambda: None) -> int:
    """Run a site until it is stopped or the SuperNode ends, and return the exit code of the SuperNode."""
    if not hasattr(os, "fork"):
        raise ConfigError("a site's node needs a system that can fork: start flower-supernode as HOWTO.md describes")
    os.environ.update(QUIET | os.environ)  # before Flower is imported, which reads them then
    from . import flower

    folder = folder.absolute()
    SiteConfig.read(folder)  # reports errors in the settings now and not at the first question
    network, client = Network.read(folder), flower.make_own_client()
    with tempfile.TemporaryDirectory(prefix="unpooled-") as private, socket.socket(socket.AF_UNIX) as calls:
        calls.bind(f"{private}/calls")
        calls.listen()
        calls.settimeout(1.0)
        commands = Path(private) / "bin"
        _write_commands(commands, f"{private}/calls", flower.CLIENT_COMMAND, flower.EXEC_COMMAND)
        arguments = [
            *(sys.executable, "-P", "-c", flower.NODE),
            *("--superlink", network.superlink, "--port", str(network.port)),
            *("--root-certificates", str(network.certificate), "--auth-supernode-private-key", str(network.key)),
            *("--node-config", f"site={json.dumps(str(folder))}"),
        ]
        # Only our commands are on its path, so if Flower renames its command one day, nothing runs at all.
        environment = {**os.environ, "PATH": str(commands), "UNPOOLED_SITE": str(os.getpid())}
        ready()
        began = time.monotonic()
        while True:
            started = time.monotonic()
            code = _serve(calls, subprocess.Popen(arguments, env=environment), client)
            refused = code > 0 and time.monotonic() - started < _SOON
            if not refused or time.monotonic() - began > PATIENCE:
                return code
            time.sleep(_PAUSE)


def _serve(calls: socket.socket, node: subprocess.Popen[bytes], work: Callable[[list[str]], None]) -> int:
    working: set[int] = set()

    def stop(*_: int | FrameType | None) -> None:
        node.terminate()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while node.poll() is None:
            with suppress(TimeoutError), calls.accept()[0] as call:
                arguments = json.loads(call.recv(LONGEST))
                working.add(_fork_answer(calls, work, arguments))
            working = {child for child in working if os.waitpid(child, os.WNOHANG) == (0, 0)}
        return node.returncode
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for child in working:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def _fork_answer(calls: socket.socket, work: Callable[[list[str]], None], arguments: list[str]) -> int:
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
    """Write the two commands that a SuperNode starts: the one that calls our process, and Flower's own."""
    folder.mkdir()
    (folder / executor).symlink_to(_find_command(executor))
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
