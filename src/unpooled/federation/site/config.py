"""A site's own folder: its settings, its rows, and the answers of its staff to studies that ask it to join.

The settings are a TOML file that the site owns, and nothing in it comes from a server.

The features of the rows are computed once for a study, if they fit into memory. They are kept in memory and on the
site's own disk, because a site may be a new process for every question.

Each study that asks the site to join is a file with the answer of the site's staff. An approval is for one study with
all its terms, identified by its digest: a study that differs in anything needs a new approval.
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
from ...data.sources import UnreadRows, open_labeled, read_all
from ...engines import as_engine
from ...gate import POLICY_NAME, Policy
from ...gate.gate import LOG_NAME
from ...summaries.contents import is_digest
from ...summaries.passes import MOST_FEATURES_KEPT, FeatureRows, map_once
from ..secure.keys import Identity, check_name, public_bytes
from ..secure.masks import FEWEST_MEMBERS
from ..secure.pinned import read_pinned
from ..study.study import ConfigError, Study

CONFIG_NAME = "site.toml"


@dataclass(frozen=True)
class SiteConfig:
    """The settings of a site.

    Parameters
    ----------
    name : the name by which the server and the other sites know it
    folder : the folder of its log, requests, studies and single-use keys
    data : its rows: a Parquet or CSV file, or a folder of Parquet files
    policy : the file of its policy; None means the default policy
    log : the file of its log; None means ``unpooled-log.jsonl`` in the folder
    ledger : its privacy ledger, which private studies need
    weight : the column of the weights, if there are any
    identity : its key, for secure sums
    peers : the public keys of the other sites, by name, which their staff gave to this site; in its folder they are in
        ``pinned-keys.toml``, or in the older table ``[peers]`` of ``site.toml``
    fewest : the fewest sites in a secure sum that this site takes part in, whatever a server asks; at least 3
    colluding : the fewest members that a question must allow to work together, live and by file; at least 1
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
    fewest: int = FEWEST_MEMBERS
    colluding: int = 1

    def __post_init__(self) -> None:
        for name in ("folder", "data", "policy", "log", "ledger"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else Path(value))
        if self.log is None:
            object.__setattr__(self, "log", self.folder / LOG_NAME)
        check_name(self.name, "the name of a site")
        for name, key in self.peers.items():
            check_name(name, "the name of another site")
            public_bytes(key)  # raises a TrustError if the key was not copied correctly

    @property
    def current_policy(self) -> Policy:
        """The policy at this moment; it is read again for every request."""
        return Policy.default() if self.policy is None else Policy.read(self.policy)

    @property
    def pinned_keys(self) -> dict[str, str]:
        """The public keys of all sites that this one knows, including its own."""
        own = {} if self.identity is None else {self.name: self.identity.public}
        return {**self.peers, **own}

    @classmethod
    def read(cls, path: Path) -> SiteConfig:
        """Return the settings in a file, or in ``site.toml`` of a folder; paths in the file are relative to it."""
        path = path / CONFIG_NAME if path.is_dir() else path
        content = _read_toml(path)
        unknown = sorted(set(content) - set(_KINDS))
        if unknown:
            raise ConfigError(f"{path} has the unknown entries {', '.join(unknown)}; choose from {', '.join(_KINDS)}")
        for name, value in content.items():
            kind, description = _KINDS[name]
            if type(value) is not kind or value == "":
                raise ConfigError(f"{name} in {path} must be {description}, got {quote(value)}")
        for name in ("name", "data"):
            if name not in content:
                raise ConfigError(f"{path} has no {name}: a site needs a name and data")
        folder = path.parent
        places = {name: folder / content[name] for name in ("data", "policy", "log", "ledger") if name in content}
        if "policy" not in places and (folder / POLICY_NAME).exists():
            places["policy"] = folder / POLICY_NAME
        identity = Identity.load(folder / content["key"]) if "key" in content else None
        others: dict[str, Any] = {name: content[name] for name in ("weight", "fewest", "colluding") if name in content}
        keys = {**content.get("peers", {}), **read_pinned(folder)}
        own = None if identity is None else (content["name"], identity.public)
        others["peers"] = {name: key for name, key in keys.items() if (name, key) != own}
        return cls(content["name"], folder, identity=identity, **places, **others)


_TEXT = (str, "a text")
_KINDS: dict[str, tuple[type, str]] = dict.fromkeys(
    ("name", "data", "policy", "log", "ledger", "weight", "key"), _TEXT
) | {
    "peers": (dict, "a table of names and keys"),
    "fewest": (int, "a whole number"),
    "colluding": (int, "a whole number"),
}


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"the configuration {path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the configuration {path} is not TOML: {quote(str(error))}") from None


_OpenedRows = tuple[Source, Any]


@dataclass
class SiteData:
    """The rows of a site, with its policy and ledger; ``cache`` is the folder for the features of the rows."""

    path: Path
    policy: Policy
    ledger: Path | None = None
    weight: str | None = None
    cache: Path | None = None
    _in_memory: dict[str, _OpenedRows] = field(default_factory=dict, repr=False)

    def locate_rows(self, study: Study) -> tuple[Any, Any]:
        """Return the rows, unread, and the names of their labels; missing columns raise an error."""
        wanted = {"the study": list(study.targets)} | ({"the site": [self.weight]} if self.weight else {})
        rows = sources.select_rows(self.path, sources.columns_of(study.basis), wanted)
        return rows, study.targets[0] if len(study.targets) == 1 else list(study.targets)

    def open_rows(self, study: Study) -> _OpenedRows:
        """Return the rows and the basis, or the features of the rows and a stand-in for the basis."""
        return self._open_once(study, "all", lambda: self._map_rows(study, None))

    def open_private(self, study: Study, rows: UnreadRows) -> _OpenedRows:
        """Return the rows in the coordinates of a private study; labels of any size pass, since they are clipped."""

        def read() -> _OpenedRows:
            source = rows.read()
            if source.n_rows * study.basis.n_features_ > MOST_FEATURES_KEPT:
                return source, study.frame
            return map_once(_as_source(read_all(source), study), study.frame)

        return self._open_once(study, f"frame-{study.frame_digest[:16]}", read)

    def open_half(self, study: Study, validation: bool) -> _OpenedRows:
        """Return every second row in the order of a hash of its content, for validation, or the other rows."""
        return self._open_once(study, "held" if validation else "trained", lambda: self._map_rows(study, validation))

    def forget(self) -> None:
        """Discard all features, because a study is over or another one has begun."""
        self._in_memory.clear()
        for path in self._on_disk():
            path.unlink(missing_ok=True)

    def _on_disk(self) -> list[Path]:
        return [] if self.cache is None else list(self.cache.glob("*.npy"))

    def _open_once(self, study: Study, what: str, make: Callable[[], _OpenedRows]) -> _OpenedRows:
        key = f"{study.digest}-{what}-{self._stamp()}"
        if key not in self._in_memory:
            known = [*self._in_memory, *(path.name for path in self._on_disk())]
            if not all(name.startswith(study.digest) for name in known):
                self.forget()  # one study at a time
            self._in_memory[key] = self._from_disk(study, key) or self._to_disk(study, key, make())
        return self._in_memory[key]

    def _stamp(self) -> str:
        """Return a text that changes with the files of the rows and with a restart, which may truncate a file."""
        paths = sorted(self.path.rglob("*.parquet")) if self.path.is_dir() else [self.path]
        about = [(str(path), *((s := path.stat()).st_size, s.st_mtime_ns)) for path in paths if path.exists()]
        return hashlib.sha256(json.dumps([about, self.weight, _boot()]).encode()).hexdigest()[:16]

    def _map_rows(self, study: Study, validation: bool | None) -> _OpenedRows:
        rows, y = self.locate_rows(study)
        source = open_labeled(study.basis, rows, y, self.weight)
        if validation is None and source.n_rows * study.basis.n_features_ > MOST_FEATURES_KEPT:
            return source, study.basis
        gather = Gathering(source, as_engine(None), 0)
        wanted = np.arange(source.n_rows)
        if validation is not None:
            mask = mark_validation(np.zeros(source.n_rows, dtype=np.int64), gather.keys(np.random.default_rng(0)))
            wanted = np.flatnonzero(mask == validation)
        return map_once(_as_source(gather.read(wanted), study), study.basis)

    def _to_disk(self, study: Study, key: str, opened: _OpenedRows) -> _OpenedRows:
        source, features = opened
        if self.cache is not None and _boot() and study.exchanges > 1 and isinstance(features, FeatureRows):
            rows = source.rows  # type: ignore[attr-defined]
            parts = [rows.X, rows.Y] + ([] if rows.weights is None else [rows.weights])
            self.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self.cache, delete=False) as file:
                np.save(file, np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts]))
            os.replace(
                file.name, self.cache / f"{key}.npy"
            )  # no need to flush to disk: the stamp changes with a restart
        return opened

    def _from_disk(self, study: Study, key: str) -> _OpenedRows | None:
        path = None if self.cache is None else self.cache / f"{key}.npy"
        if path is None or not path.exists():
            return None
        flat = np.load(path, mmap_mode="r")
        M, T = study.basis.n_features_, len(study.targets)
        n = len(flat) // (M + T + (self.weight is not None))
        X, Y, weights = flat[: n * M].reshape(n, M), flat[n * M : n * (M + T)].reshape(n, T), flat[n * (M + T) :]
        return _as_source(Rows(X, Y, weights if len(weights) else None), study), FeatureRows(study.basis)


@cache
def _boot() -> str:
    """Return the id of the machine's last start; if it is empty (unknown), nothing is kept on disk."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def _as_source(rows: Rows, study: Study) -> ArraySource:
    return ArraySource(rows, target_names=study.targets, one_target=len(study.targets) == 1)


_STATES = ("pending", "approved", "denied")


class RequestError(ValueError):
    """A request that does not exist, or whose file was damaged."""


@dataclass(frozen=True)
class Request:
    """The request of a study to join it, and the answer so far.

    Attributes
    ----------
    study : the digest of the study
    described : the description of the study
    state : "pending", "approved" or "denied"
    asked, answered : the times of the request and the answer, in UTC
    by : the person who answered
    """

    study: str
    described: str
    state: str = "pending"
    asked: str = ""
    answered: str = ""
    by: str = ""


class Requests:
    """Stores each pending request of a site in a file of its own.

    Parameters
    ----------
    folder : the folder of the files
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Request]:
        """Return all requests, the oldest first."""
        requests = [self._read(path) for path in sorted(self.folder.glob("*.json"))]
        return sorted(requests, key=lambda request: (request.asked, request.study))

    def get(self, study: str) -> Request | None:
        """Return the request of the study with this digest, or None."""
        path = self._path(study)
        return self._read(path) if path.exists() else None

    def ask(self, study: str, described: str) -> Request:
        """Store the request of a study, unless it is stored already, and return it."""
        known = self.get(study)
        return known if known is not None else self._write(Request(study, described, asked=_now()))

    def approve(self, study: str, by: str = "") -> Request:
        """Approve the study whose digest begins with this text."""
        return self._answer(study, "approved", by)

    def deny(self, study: str, by: str = "") -> Request:
        """Deny a study, even if it was approved before: nothing more leaves."""
        return self._answer(study, "denied", by)

    def _answer(self, study: str, state: str, by: str) -> Request:
        matches = [request for request in self.all() if study and request.study.startswith(study.lower())]
        if len(matches) != 1:
            many = "no study has" if not matches else f"{len(matches)} studies have"
            raise RequestError(f"{many} a digest that begins with {quote(study)}: see the list of requests")
        return self._write(replace(matches[0], state=state, answered=_now(), by=by))

    def _path(self, study: str) -> Path:
        if not is_digest(study):
            raise RequestError(f"study must be the SHA-256 of a study, got {quote(study)}")
        return self.folder / f"{study}.json"

    def _write(self, request: Request) -> Request:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open_atomic(self._path(request.study)) as file:
            file.write(encode_readable(asdict(request)).encode())
        return request

    def _read(self, path: Path) -> Request:
        try:
            request = Request(**json.loads(path.read_bytes()))
            if request.state not in _STATES or f"{request.study}.json" != path.name:
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            raise RequestError(f"{path} does not hold a valid request: remove it") from None
        return request


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
