"""The configuration of a site: a TOML file that the site owns. Nothing in it comes from a server."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..._base.text import shown
from ...gate import POLICY_NAME, Policy
from ...gate.gate import LOG_NAME
from ..secure.keys import Identity, public_bytes
from ..secure.masks import FEWEST
from ..secure.single_use import check_name

CONFIG_NAME = "site.toml"


class ConfigError(ValueError):
    """A configuration that cannot be read, or that says something it cannot mean."""


@dataclass(frozen=True)
class SiteConfig:
    """Where a site has what.

    Parameters
    ----------
    name : by which the server and the other sites know it
    folder : where it keeps its log, requests, studies and single-use keys
    data : its rows, a Parquet or CSV file or a folder of Parquet files
    policy : its policy; a file, or None for the default
    log : its log; None is ``unpooled-log.jsonl`` in the folder
    ledger : its privacy ledger, which private studies need
    weight : a column of weights
    identity : its key, for secure sums
    peers : the public keys of the other sites, by name, as their people told them
    fewest : no secure sum over fewer sites, whatever a server asks; at least 3
    """

    name: str
    folder: Path
    data: Path
    policy: Path | None = None
    log: Path | None = None
    ledger: Path | None = None
    weight: str | None = None
    identity: Identity | None = field(default=None, repr=False)
    peers: Mapping[str, str] = field(default_factory=dict)
    fewest: int = FEWEST

    def __post_init__(self) -> None:
        for name in ("folder", "data", "policy", "log", "ledger"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else Path(value))
        if self.log is None:
            object.__setattr__(self, "log", self.folder / LOG_NAME)
        check_name(self.name, "the name of a site")
        for name, key in self.peers.items():
            check_name(name, "the name of another site")
            public_bytes(key)  # a NotTrusted where it was not copied right

    @property
    def rules(self) -> Policy:
        """The policy as it stands now: it is read anew for every request."""
        return Policy.default() if self.policy is None else Policy.read(self.policy)

    @property
    def pinned(self) -> dict[str, str]:
        """The public keys of all sites that this one knows, itself included."""
        own = {} if self.identity is None else {self.name: self.identity.public}
        return {**self.peers, **own}

    @classmethod
    def read(cls, path: Path) -> SiteConfig:
        """The configuration in a file, or in ``site.toml`` of a folder; paths in it are beside it."""
        path = path / CONFIG_NAME if path.is_dir() else path
        content = _toml(path)
        unknown = sorted(set(content) - set(_KINDS))
        if unknown:
            raise ConfigError(f"{path} has {', '.join(unknown)}, which nothing is called: look at its template")
        for name, value in content.items():
            kind, called = _KINDS[name]
            if type(value) is not kind or value == "":
                raise ConfigError(f"{name} in {path} must be {called}, got {shown(value)}")
        for name in ("name", "data"):
            if name not in content:
                raise ConfigError(f"{path} lacks {name}: a site has a name and data")
        folder = path.parent
        places = {name: folder / content[name] for name in ("data", "policy", "log", "ledger") if name in content}
        if "policy" not in places and (folder / POLICY_NAME).exists():
            places["policy"] = folder / POLICY_NAME
        identity = Identity.load(folder / content["key"]) if "key" in content else None
        others: dict[str, Any] = {name: content[name] for name in ("weight", "peers", "fewest") if name in content}
        return cls(content["name"], folder, identity=identity, **places, **others)


_TEXT = (str, "a text")
_KINDS: dict[str, tuple[type, str]] = dict.fromkeys(
    ("name", "data", "policy", "log", "ledger", "weight", "key"), _TEXT
) | {"peers": (dict, "a table of names and keys"), "fewest": (int, "a whole number")}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"the configuration {path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the configuration {path} is not TOML: {shown(str(error))}") from None
