"""A ready study folder: the Flower app, the study, a TEST network, and a folder for every site."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import atomic
from ..site import POLICY_NAME, Policy
from . import templates
from .certificates import DAYS, HOSTS, write_network, write_node_key
from .config import CONFIG_NAME, ConfigError
from .keys import Identity
from .masks import FEWEST
from .node import NETWORK_NAME
from .study import KINDS
from .study_file import STUDY_NAME

MODULE = "unpooled_study"


@dataclass(frozen=True)
class NewStudy:
    """What a new folder is to hold."""

    folder: Path
    sites: Sequence[str]
    targets: Sequence[str]
    kind: str = "second-order"
    rounds: int = 1
    host: str = "127.0.0.1"
    port: int = 8000

    def check(self) -> None:
        """A ConfigError says what is wrong, before anything is written."""
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ConfigError(f"{self.folder} is not empty: choose another folder, or remove it")
        if len(self.sites) < FEWEST or len(set(self.sites)) < len(self.sites):
            raise ConfigError(f"give at least {FEWEST} sites, each once, with --site: a secure sum needs so many")
        for name in self.sites:
            if not re.fullmatch(r"\w[\w.-]{0,99}", name):
                raise ConfigError(
                    f"a site's folder is called like the site: use letters, digits, - and _, not {name!r}"
                )
        if not self.targets:
            raise ConfigError("name the column to predict with --target")
        if self.kind not in KINDS:
            raise ConfigError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if not 1 <= self.port <= 65535 - len(self.sites):
            raise ConfigError(f"port {self.port} leaves no port above it for each site")

    @property
    def superlink(self) -> str:
        """The address of the server."""
        return f"{self.host}:{self.port}"

    def site(self, name: str) -> Path:
        """The folder of a site."""
        return self.folder / "sites" / name

    def write(self) -> dict[str, str]:
        """All of it; the public keys of the sites by name."""
        self.check()
        package = self.folder / "app" / MODULE
        for place in (package, self.folder / "flower", self.folder / "network", *map(self.site, self.sites)):
            place.mkdir(parents=True)
        write_network(self.folder / "network", tuple(dict.fromkeys((*HOSTS, self.host))))
        self._write_app(package)
        keys = {name: Identity.create(self.site(name) / "site.key").public for name in self.sites}
        for number, name in enumerate(self.sites):
            self._write_site(name, number, keys)
        self._write_texts()
        return keys

    def _write_app(self, package: Path) -> None:
        study = _toml(str(self.folder.absolute()))
        app = templates.APP.format(package=MODULE.replace("_", "-"), module=MODULE, study=study)
        _write(package.parent / "pyproject.toml", app)
        _write(package / "__init__.py", '"""A study of unpooled, as Flower runs it."""\n')
        _write(package / "server_app.py", templates.SERVER_APP)
        _write(package / "client_app.py", templates.CLIENT_APP)

    def _write_site(self, name: str, number: int, keys: dict[str, str]) -> None:
        folder = self.site(name)
        peers = "\n".join(f"{_toml(other)} = {_toml(key)}" for other, key in keys.items() if other != name)
        _write(folder / CONFIG_NAME, templates.SITE.format(name=_toml(name), peers=peers))
        Policy.write_template(folder / POLICY_NAME)
        write_node_key(folder)
        (folder / "ca.crt").write_bytes((self.folder / "network" / "ca.crt").read_bytes())
        network = templates.NETWORK.format(superlink=_toml(self.superlink), port=self.port + 1 + number)
        _write(folder / NETWORK_NAME, network)

    def _write_texts(self) -> None:
        absolute, said = self.folder.absolute(), shlex.quote(str(self.folder))
        study: dict[str, Any] = {
            "name": self.folder.absolute().name,
            "targets": list(self.targets),
            "members": list(self.sites),
            "quorum": max(FEWEST, len(self.sites) - 1),
            "kind": self.kind,
            "rounds": self.rounds,
            "lam": "rule13" if self.kind == "average" else "auto",
        }
        filled = {name: _toml(value) for name, value in study.items()}
        _write(self.folder / STUDY_NAME, templates.STUDY.format(folder=said, **filled))
        certificate = _toml(str(absolute / "network" / "ca.crt"))
        flower = templates.FLOWER.format(superlink=_toml(self.superlink), certificate=certificate)
        _write(self.folder / "flower" / "config.toml", flower)
        home = shlex.quote(str(absolute / "flower"))
        _write(self.folder / "env.sh", templates.ENVIRONMENT.format(folder=said, home=home))
        keys = [f"{said}/sites/{name}/node.key.pub" for name in self.sites]
        register = [f"flwr supernode register {key} study --name {name}" for key, name in zip(keys, self.sites)]
        howto = {"folder": said, "host": self.host, "port": self.port, "superlink": self.superlink, "days": DAYS}
        howto |= {"register": "\n".join(register), "first": self.sites[0], "node_port": self.port + 1}
        _write(self.folder / "HOWTO.md", templates.HOWTO.format(**howto))


def _toml(value: Any) -> str:
    """JSON's texts, numbers and lists of them are TOML's."""
    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, text: str) -> None:
    with atomic(path) as file:
        file.write(text.encode())
