"""New study folders, ready to run: the Flower app, the study, a TEST network, and a folder for every site.

The texts of the files come first: the Flower app, the study, the settings of the sites, and the instructions.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._base.files import open_atomic
from ...gate import POLICY_NAME, Policy
from ..secure.keys import Identity
from ..secure.masks import FEWEST_MEMBERS
from ..secure.pinned import KEY_NAME, write_pinned
from ..site.config import CONFIG_NAME
from ..wire.network import DAYS, HOSTS, NETWORK_NAME, write_network, write_node_key
from .privacy import LIVE_ROUNDS
from .study import KINDS, STUDY_NAME, ConfigError

_APP = """\
[project]
name = "{package}"
version = "1.0.0"
description = "A study of unpooled: sums travel, rows stay"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "consortium"

[tool.flwr.app.components]
serverapp = "{module}.server_app:app"
clientapp = "{module}.client_app:app"

[tool.flwr.app.config]
study = {study}
relay = ""
"""

_SERVER_APP = '''\
"""The server's side of the study: Flower runs it where the SuperLink is."""

from unpooled.federation.wire.flower import server_app as app

__all__ = ["app"]
'''

_CLIENT_APP = '''\
"""A site's side: Flower runs it at every SuperNode that is not started by `unpooled federation site`."""

from unpooled.federation.wire.flower import client_app as app

__all__ = ["app"]
'''

STUDY = """\
# Everything that the sites are asked. They are told all of it, and each site decides for itself.

name = {name}
basis = "study.basis"    # the public basis, beside this file: unpooled basis public.csv -o {folder}/study.basis
targets = {targets}
members = {members}

# A sum over fewer sites is not used. Secure sums need 3 or more.
quorum = {quorum}
# Seconds that a site has for an answer.
timeout = 300
# Seconds that the study waits for sites that are not connected yet, or whose staff have not approved the study.
patience = 600

# "second-order": ridge regression on the pooled rows. "less": first-order sums, one round. "rounds": first-order sums
# of residuals, several times. "average": each site's own fit, averaged. "private": rounds with noise, which need
# [privacy] below; their rounds may be "auto".
kind = {kind}
rounds = {rounds}
# "auto" chooses λ from the sums; a number sets it. With kind = "average": "rule13".
lam = {lam}
# true: the server sees nothing but sums over all sites.
secure = true

{privacy}"""

_NO_NOISE = """\
# Noise for differential privacy, for the whole study; every site then needs a ledger.
# [privacy]
# epsilon = 1.0
# delta = 1e-6
# label_bound = 10.0
"""

_NOISE = """\
# The budget of the whole study. Every site needs a ledger with as much left.
[privacy]
epsilon = 8.0
delta = 1e-6
# Labels beyond ±label_bound are clipped. Without it they may have any size.
# label_bound = 10.0
# So many sites may pool what they know: each site adds a share of the noise, and they can take off their own.
colluding = 1
"""

SITE = """\
# This file belongs to the site. Nothing in it comes from a server, and none of it is sent.

name = {name}
data = "rows.parquet"    # a .parquet or .csv file, or a folder of .parquet files
{ledger}key = "site.key"         # its identity: keep it here, and give the others what `unpooled keys show` prints

# The keys of the other sites are in pinned-keys.toml. Pin only a key that its people told you in a way that you trust:
# in person, by telephone, on paper. `unpooled keys pin NAME KEY` does so.
"""

_LEDGER = 'ledger = "rows.ledger"   # unpooled ledger create rows.ledger, with the budget of these rows for life\n'

_NETWORK = """\
# How this site connects to the server.
superlink = {superlink}
certificate = "ca.crt"    # the certificate of the authority that signed the server's certificate
key = "node.key"          # identifies this node to the server, which has node.key.pub
port = {port}              # a free port of this machine, used by Flower's own processes on this machine only
"""

_FLOWER = """\
[superlink]
default = "study"

[superlink.study]
address = {superlink}
root-certificates = {certificate}
"""

_ENVIRONMENT = """\
# Run `. {folder}/env.sh` before Flower's own commands. It sets the folder of Flower's settings for this study, and
# switches telemetry and the check for updates off.
export FLWR_HOME={home}
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.2
"""

HOWTO = """\
# How to run this study

**The certificates in `network/` are for a TEST on one machine: they say so, and they expire after {days} days. For real
data, use certificates of your own, and create every key at the site to which it belongs.**

`study.toml` defines the study; put the basis beside it as `study.basis`. `sites/` has a folder for each site, which in
a real study belongs on that site's own machine. Put each site's rows there as `rows.parquet` (or change `site.toml`),
and read its `unpooled-policy.toml`, which says what may leave the site.

## The server

```sh
. {folder}/env.sh
flower-superlink --ssl-ca-certfile {folder}/network/ca.crt --ssl-certfile {folder}/network/server.crt \\
  --ssl-keyfile {folder}/network/server.key --host {host} --port {port} --database {folder}/flower/state.db \\
  --enable-supernode-auth --disable-runtime-dependency-installation
```

Anyone who can reach that port can register nodes and submit runs: let only the sites and yourself through the firewall.
Register each site's node once, under its name, with the public key that it sent:

```sh
. {folder}/env.sh
{register}
```

## The sites

```sh
unpooled federation site {folder}/sites/{first}
```

This starts Flower's SuperNode and answers with the code that is installed at the site. Flower's own command works too,
but then the site runs any code that the server sends:

```sh
flower-supernode --superlink {superlink} --root-certificates {folder}/sites/{first}/ca.crt \\
  --auth-supernode-private-key {folder}/sites/{first}/node.key --port {node_port} \\
  --node-config 'site="{folder}/sites/{first}"'
```

If a policy says `approve = "ask"`, `unpooled federation approve {folder}/sites/{first}` shows the study, and a person
approves or denies it.

## The study

```sh
. {folder}/env.sh
flwr run {folder}/app study --stream
unpooled federation status {folder}
unpooled predict {folder}/results/study.model new.csv -o predictions.csv
```

`flwr run` always ends with exit code 0; the exit code of `unpooled federation status` shows failures. A study that was
interrupted continues after its last complete exchange when it is run again; remove `{folder}/results` to start again.
"""


_MODULE = "unpooled_study"


@dataclass(frozen=True)
class NewStudy:
    """The choices for a new study folder."""

    folder: Path
    sites: Sequence[str]
    targets: Sequence[str]
    kind: str = "second-order"
    rounds: int = 0
    host: str = "127.0.0.1"
    port: int = 8000

    def check(self) -> None:
        """Raise a ConfigError if the folder cannot be written, before anything is written."""
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ConfigError(f"{self.folder} is not empty: choose another folder, or remove it")
        if len(self.sites) < FEWEST_MEMBERS or len(set(self.sites)) < len(self.sites):
            raise ConfigError(f"a secure sum needs at least {FEWEST_MEMBERS} sites: give each of them once with --site")
        for name in self.sites:
            if not re.fullmatch(r"\w[\w.-]{0,99}", name):
                raise ConfigError(
                    f"the name of a site must consist of letters, digits, - and _, because its folder has the same "
                    f"name; got {name!r}"
                )
        if not self.targets:
            raise ConfigError("there is no target: name the column to predict with --target")
        if self.kind not in KINDS:
            raise ConfigError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if not 1 <= self.port <= 65535 - len(self.sites):
            most = 65535 - len(self.sites)
            raise ConfigError(f"port must be at most {most}, so that every site has a port above it, got {self.port}")

    @property
    def superlink(self) -> str:
        """The address of the server."""
        return f"{self.host}:{self.port}"

    def site(self, name: str) -> Path:
        """Return the folder of a site."""
        return self.folder / "sites" / name

    def write(self) -> dict[str, str]:
        """Write the folder, and return the public keys of the sites by name."""
        self.check()
        package = self.folder / "app" / _MODULE
        for place in (package, self.folder / "flower", self.folder / "network", *map(self.site, self.sites)):
            place.mkdir(parents=True)
        write_network(self.folder / "network", tuple(dict.fromkeys((*HOSTS, self.host))))
        self._write_app(package)
        keys = {name: Identity.create(self.site(name) / KEY_NAME).public for name in self.sites}
        for number, name in enumerate(self.sites):
            self._write_site(name, number, keys)
        self._write_texts()
        return keys

    def _write_app(self, package: Path) -> None:
        study = _toml(str(self.folder.absolute()))
        app = _APP.format(package=_MODULE.replace("_", "-"), module=_MODULE, study=study)
        _write(package.parent / "pyproject.toml", app)
        _write(package / "__init__.py", '"""A study of unpooled, as Flower runs it."""\n')
        _write(package / "server_app.py", _SERVER_APP)
        _write(package / "client_app.py", _CLIENT_APP)

    def _write_site(self, name: str, number: int, keys: dict[str, str]) -> None:
        folder = self.site(name)
        _write(folder / CONFIG_NAME, SITE.format(name=_toml(name), ledger=_LEDGER if self.kind == "private" else ""))
        write_pinned(folder, keys)
        Policy.write_template(folder / POLICY_NAME)
        write_node_key(folder)
        (folder / "ca.crt").write_bytes((self.folder / "network" / "ca.crt").read_bytes())
        network = _NETWORK.format(superlink=_toml(self.superlink), port=self.port + 1 + number)
        _write(folder / NETWORK_NAME, network)

    def _write_texts(self) -> None:
        absolute, folder = self.folder.absolute(), shlex.quote(str(self.folder))
        study: dict[str, Any] = {
            "name": self.folder.absolute().name,
            "targets": list(self.targets),
            "members": list(self.sites),
            "quorum": max(FEWEST_MEMBERS, len(self.sites) - 1),
            "kind": self.kind,
            "rounds": self.rounds or (LIVE_ROUNDS if self.kind == "private" else 1),
            "lam": "rule13" if self.kind == "average" else "auto",
        }
        filled = {name: _toml(value) for name, value in study.items()}
        _write(
            self.folder / STUDY_NAME,
            STUDY.format(folder=folder, privacy=_NOISE if self.kind == "private" else _NO_NOISE, **filled),
        )
        certificate = _toml(str(absolute / "network" / "ca.crt"))
        flower = _FLOWER.format(superlink=_toml(self.superlink), certificate=certificate)
        _write(self.folder / "flower" / "config.toml", flower)
        home = shlex.quote(str(absolute / "flower"))
        _write(self.folder / "env.sh", _ENVIRONMENT.format(folder=folder, home=home))
        keys = [f"{folder}/sites/{name}/node.key.pub" for name in self.sites]
        register = [f"flwr supernode register {key} study --name {name}" for key, name in zip(keys, self.sites)]
        howto = {"folder": folder, "host": self.host, "port": self.port, "superlink": self.superlink, "days": DAYS}
        howto |= {"register": "\n".join(register), "first": self.sites[0], "node_port": self.port + 1}
        _write(self.folder / "HOWTO.md", HOWTO.format(**howto))


def _toml(value: Any) -> str:
    """Return a value as TOML, which writes texts, numbers and lists of them as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, text: str) -> None:
    with open_atomic(path) as file:
        file.write(text.encode())
