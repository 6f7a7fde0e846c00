"""A site's own folder: its settings, its rows as a study names them, and what its people answer to studies that ask.

The settings are a TOML file that the site owns, and nothing in it comes from a server.

The features of the rows are worked out once for a study, where they fit into memory. They are kept in memory, and on
the site's own disk as well, since a site may be a new process for every question.

Each study that asks to be joined is a file with the answer of the site's people. A yes is to one study with all its
terms, named by its digest: a study that differs in anything has to be asked for again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..._base.files import open_atomic
from ..._base.plain_json import encode_readable
from ..._base.rows import ArraySource, Rows, Source
from ..._base.text import quote
from ..._solvers.averaging.gathering import Gathering, mark_validation
from ...data import sources
from ...data.sources import open_labeled
from ...engines import as_engine
from ...gate import POLICY_NAME, Policy
from ...gate.gate import LOG_NAME
from ...summaries.contents import is_digest
from ...summaries.passes import KEPT, Mapped, mapped_once
from ..secure.keys import Identity, check_name, public_bytes
from ..secure.masks import FEWEST
from ..study.study import ConfigError, Study

CONFIG_NAME = "site.toml"


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
                raise ConfigError(f"{name} in {path} must be {called}, got {quote(value)}")
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
        raise ConfigError(f"the configuration {path} is not TOML: {quote(str(error))}") from None


Opened = tuple[Source, Any]


@dataclass
class SiteData:
    """A file or folder of rows, with the site's policy and ledger beside it; ``cache`` is for features of rows."""

    path: Path
    policy: Policy
    ledger: Path | None = None
    weight: str | None = None
    cache: Path | None = None
    _kept: dict[str, Opened] = field(default_factory=dict, repr=False)

    def named(self, study: Study) -> tuple[Any, Any]:
        """The rows, unread, and the names of their labels; an error where columns are missing."""
        asked = {"the study": list(study.targets)} | ({"the site": [self.weight]} if self.weight else {})
        rows = sources.select_rows(self.path, sources.columns_of(study.basis), asked)
        return rows, study.targets[0] if len(study.targets) == 1 else list(study.targets)

    def opened(self, study: Study) -> Opened:
        """The rows, and the basis or one that knows their features already."""
        return self._once(study, "all", lambda: self._mapped(study, None))

    def half(self, study: Study, held: bool) -> Opened:
        """Every second row in the order of a hash of its content, for validation, or the others."""
        return self._once(study, "held" if held else "trained", lambda: self._mapped(study, held))

    def forget(self) -> None:
        """A study is over, or another has begun."""
        self._kept.clear()
        for path in self._on_disk():
            path.unlink(missing_ok=True)

    def _on_disk(self) -> list[Path]:
        return [] if self.cache is None else list(self.cache.glob("*.npy"))

    def _once(self, study: Study, what: str, make: Callable[[], Opened]) -> Opened:
        key = f"{study.digest}-{what}-{self._stamp()}"
        if key not in self._kept:
            known = [*self._kept, *(path.name for path in self._on_disk())]
            if not all(name.startswith(study.digest) for name in known):
                self.forget()  # one study at a time
            self._kept[key] = self._from_disk(study, key) or self._to_disk(study, key, make())
        return self._kept[key]

    def _stamp(self) -> str:
        """Changes with the files of the rows, and with a restart of the machine, which may cut off a file."""
        paths = sorted(self.path.rglob("*.parquet")) if self.path.is_dir() else [self.path]
        about = [(str(path), *((s := path.stat()).st_size, s.st_mtime_ns)) for path in paths if path.exists()]
        return hashlib.sha256(json.dumps([about, self.weight, _boot()]).encode()).hexdigest()[:16]

    def _mapped(self, study: Study, held: bool | None) -> Opened:
        rows, y = self.named(study)
        source = open_labeled(study.basis, rows, y, self.weight)
        if held is None and source.n_rows * study.basis.n_features_ > KEPT:
            return source, study.basis
        gather = Gathering(source, as_engine(None), 0)
        wanted = np.arange(source.n_rows)
        if held is not None:
            mask = mark_validation(np.zeros(source.n_rows, dtype=np.int64), gather.keys(np.random.default_rng(0)))
            wanted = np.flatnonzero(mask == held)
        return mapped_once(_labeled(gather.read(wanted), study), study.basis)

    def _to_disk(self, study: Study, key: str, opened: Opened) -> Opened:
        source, features = opened
        if self.cache is not None and _boot() and study.exchanges > 1 and isinstance(features, Mapped):
            rows = source.rows  # type: ignore[attr-defined]
            parts = [rows.X, rows.Y] + ([] if rows.weights is None else [rows.weights])
            self.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self.cache, delete=False) as file:
                np.save(file, np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts]))
            os.replace(file.name, self.cache / f"{key}.npy")  # nobody waits for the disk: see the stamp
        return opened

    def _from_disk(self, study: Study, key: str) -> Opened | None:
        path = None if self.cache is None else self.cache / f"{key}.npy"
        if path is None or not path.exists():
            return None
        flat = np.load(path, mmap_mode="r")
        M, T = study.basis.n_features_, len(study.targets)
        n = len(flat) // (M + T + (self.weight is not None))
        X, Y, weights = flat[: n * M].reshape(n, M), flat[n * M : n * (M + T)].reshape(n, T), flat[n * (M + T) :]
        return _labeled(Rows(X, Y, weights if len(weights) else None), study), Mapped(study.basis)


@cache
def _boot() -> str:
    """Which start of the machine this is; empty where the system does not say, and then nothing is kept on disk."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def _labeled(rows: Rows, study: Study) -> ArraySource:
    return ArraySource(rows, target_names=study.targets, one_target=len(study.targets) == 1)


STATES = ("pending", "approved", "denied")


class RequestError(ValueError):
    """There is no such request, or its file was damaged."""


@dataclass(frozen=True)
class Request:
    """A study that asks to be joined, and the answer so far.

    Attributes
    ----------
    study : its digest
    described : what it asks for, in words
    state : "pending", "approved" or "denied"
    asked, answered : when, in UTC
    by : who answered
    """

    study: str
    described: str
    state: str = "pending"
    asked: str = ""
    answered: str = ""
    by: str = ""


class Requests:
    """All requests of a site, a file each.

    Parameters
    ----------
    folder : where the files are
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Request]:
        """Oldest first."""
        found = [self._read(path) for path in sorted(self.folder.glob("*.json"))]
        return sorted(found, key=lambda request: (request.asked, request.study))

    def get(self, study: str) -> Request | None:
        """The request of a study, by its digest."""
        path = self._path(study)
        return self._read(path) if path.exists() else None

    def ask(self, study: str, described: str) -> Request:
        """Note that a study asks, if it has not before."""
        known = self.get(study)
        return known if known is not None else self._write(Request(study, described, asked=_now()))

    def approve(self, study: str, by: str = "") -> Request:
        """Say yes to the study whose digest begins so."""
        return self._answer(study, "approved", by)

    def deny(self, study: str, by: str = "") -> Request:
        """Say no, also where the answer was yes before: nothing more leaves."""
        return self._answer(study, "denied", by)

    def _answer(self, study: str, state: str, by: str) -> Request:
        found = [request for request in self.all() if study and request.study.startswith(study.lower())]
        if len(found) != 1:
            many = "no study asks" if not found else f"{len(found)} studies ask"
            raise RequestError(f"{many} to be joined whose digest begins with {quote(study)}: look at the list")
        return self._write(replace(found[0], state=state, answered=_now(), by=by))

    def _path(self, study: str) -> Path:
        if not is_digest(study):
            raise RequestError(f"a study is named by its SHA-256, got {quote(study)}")
        return self.folder / f"{study}.json"

    def _write(self, request: Request) -> Request:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open_atomic(self._path(request.study)) as file:
            file.write(encode_readable(asdict(request)).encode())
        return request

    def _read(self, path: Path) -> Request:
        try:
            found = Request(**json.loads(path.read_bytes()))
            if found.state not in STATES or f"{found.study}.json" != path.name:
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            raise RequestError(f"{path} is not a request that a study can be joined by: remove it") from None
        return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
