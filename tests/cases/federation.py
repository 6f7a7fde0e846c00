"""A consortium in one process: sites with rows, keys and folders of their own, and faults to order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import unpooled as up
from tests.made_up import CUBE, columns, points, regression, sine
from unpooled.federation import Identity, InProcess, LostMessage, Message, Site, SiteConfig, Study
from unpooled.gate import POLICY_NAME
from unpooled.privacy import Ledger

NAMES = ("east", "north", "south", "west")


class Consortium:
    """Sites in folders below ``folder``. ``rows`` holds the table of each, ``sites`` the sites as they stand now."""

    def __init__(self, folder: Path, names=NAMES, seed=0, n_rows=150, secure_keys=True, scale=1.0) -> None:
        rng = np.random.default_rng(seed)
        self.folder, self.names = folder, tuple(names)
        self.folder.mkdir(parents=True, exist_ok=True)
        public = points(99, 60, between=CUBE)
        kernel = up.kernels.Gaussian(0.7)
        self.basis = up.bases.EmpiricalFeatures(kernel, n_features=12).fit(
            pa.table({"a": public[:, 0], "b": public[:, 1]})
        )
        self.rows, self.configs = {}, {}
        identities = {}
        for i, name in enumerate(self.names):
            place = folder / name
            place.mkdir()
            n = n_rows + 10 * i
            X, y = regression(rng, n, between=CUBE, function=sine(3, slope=1 + 0.2 * i), noise=0.2)
            self.rows[name] = pa.table(columns(X, scale * y))
            pq.write_table(self.rows[name], place / "rows.parquet")
            if secure_keys:
                identities[name] = Identity.create(place / "site.key")
        for name in self.names:
            peers = {other: identities[other].public for other in identities if other != name}
            self.configs[name] = SiteConfig(
                name, folder / name, folder / name / "rows.parquet", identity=identities.get(name), peers=peers
            )
            keys = "".join(f'"{other}" = "{key}"\n' for other, key in peers.items())
            own = 'key = "site.key"\n' if secure_keys else ""
            text = f'name = "{name}"\ndata = "rows.parquet"\n{own}[peers]\n{keys}'
            (folder / name / "site.toml").write_text(text)
        self.sites = {name: Site(config) for name, config in self.configs.items()}

    @property
    def pooled(self) -> pa.Table:
        return pa.concat_tables([self.rows[name] for name in sorted(self.names)])

    def table(self, *names) -> pa.Table:
        return pa.concat_tables([self.rows[name] for name in sorted(names)])

    def reconfigure(self, name: str, **changes) -> None:
        self.configs[name] = replace(self.configs[name], **changes)
        self.restart(name)

    def restart(self, name: str) -> None:
        """Restart the sites as after a power cut: only their files remain."""
        self.sites[name] = Site(self.configs[name])

    def policy(self, name: str, **rules) -> None:
        path = self.folder / name / POLICY_NAME
        text = {bool: lambda v: str(v).lower(), str: lambda v: f'"{v}"'}
        lines = [f"{rule} = {text.get(type(value), repr)(value)}" for rule, value in rules.items()]
        path.write_text("\n".join(lines) + "\n")
        self.reconfigure(name, policy=path)

    def ledgers(self, epsilon: float, delta: float) -> None:
        for name in self.names:
            path = self.folder / name / "ledger.jsonl"
            Ledger.create(path, epsilon, delta, f"rows of {name}")
            self.reconfigure(name, ledger=path)

    def study(self, **choices) -> Study:
        facts = {"quorum": 3, "timeout": 10.0, "members": self.names, **choices}
        return Study("days", self.basis, "y", **facts)

    def transport(self, hook=None) -> InProcess:
        return (
            InProcess(_Now(self, name) for name in self.names)
            if hook is None
            else InProcess((_Now(self, name) for name in self.names), hook)
        )

    def left(self, name: str) -> list[dict]:
        """Return the releases of a site by its log."""
        return [entry.event for entry in self.sites[name].log.entries() if entry.event["what"] == "left"]

    def said(self, name: str) -> list[dict]:
        return [entry.event for entry in self.sites[name].log.entries()]


class _Now:
    """The site of a name as it stands at the moment: a restart puts another in its place."""

    def __init__(self, consortium: Consortium, name: str) -> None:
        self._consortium, self.name = consortium, name

    def answer(self, message: Message) -> Message:
        return self._consortium.sites[self.name].answer(message)


class Wire:
    """A hook that records all messages and makes faults: ``faults`` maps (site, way, kind of message) to a change.

    A fault is called with the bytes, once (or as long as it returns another fault in ``again``); the message is what a
    request or a reply holds before the fault.
    """

    def __init__(self, faults=None) -> None:
        self.faults = dict(faults or {})
        self.seen: list[tuple[str, str, bytes]] = []

    def __call__(self, site: str, way: str, content: bytes) -> bytes:
        kind = Message.from_bytes(content).kind
        fault = self.faults.get((site, way, kind))
        if fault is not None:
            content = fault(content)
        self.seen.append((site, way, content))
        return content

    def received(self, *kinds: str) -> list[tuple[str, Message]]:
        """Return the messages that the server received."""
        found = [(site, Message.from_bytes(content)) for site, way, content in self.seen if way == "reply"]
        return [(site, message) for site, message in found if not kinds or message.kind in kinds]


def lost(content: bytes) -> bytes:
    raise LostMessage("the site did not answer")


def damaged(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def rewritten(change):
    """A fault that changes the message itself, with all its hashes right."""

    def fault(content: bytes) -> bytes:
        message = Message.from_bytes(content)
        return (change(message) or message).to_bytes()

    return fault


def nth(n: int, fault):
    """The fault at the n-th time only (from 0)."""
    count = iter(range(10**6))
    return lambda content: fault(content) if next(count) == n else content
