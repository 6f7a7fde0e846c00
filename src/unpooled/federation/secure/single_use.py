"""Keys for one attempt, in a drawer: made, signed and offered to the others, used once, and gone.

:class:`Drawer` keeps a site's own small secrets and notes, in a folder that only the site may read, or in memory where
there is none. Whatever a method has done is on disk when it returns: a site that is killed and started again finds what
it promised.

What a site sends in an attempt is hidden by masks that come from its key for that attempt. Two messages under one key
would give their difference away, so a key is struck out before it is used, on disk: there is no second use, not by a
server that asks twice with other members, not after a restart.
"""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..._base.files import PathLike, atomic
from ..._base.plain_json import canonical
from ..._base.text import shown
from .keys import Identity, NotTrusted, primitives, verify


class Drawer:
    """Short contents by name. Names are plain: letters, digits, dashes and dots."""

    def __init__(self, folder: PathLike | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._memory: dict[str, bytes] = {}
        self._lock = threading.Lock()
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def names(self, start: str, end: str) -> list[str]:
        """Of all that begin and end like this."""
        names = self._memory if self._folder is None else (path.name for path in self._folder.iterdir())
        return [name for name in names if name.startswith(start) and name.endswith(end)]

    def read(self, name: str) -> bytes | None:
        """The content, or None where there is none."""
        if self._folder is None:
            return self._memory.get(name)
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Put a content in, in the place of what was there."""
        if self._folder is None:
            self._memory[name] = content
            return
        with atomic(self._folder / name, private=True) as file:
            file.write(content)
        self._sync(self._folder)

    def claim(self, name: str, content: bytes = b"") -> bool:
        """Put it in where nothing is; False where something is. Of many who do so at once, one gets True."""
        if self._folder is None:
            with self._lock:
                if name in self._memory:
                    return False
                self._memory[name] = content
                return True
        try:
            handle = os.open(self._folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return False
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self._sync(self._folder)
        return True

    def remove(self, name: str) -> None:
        """Take it out, if it is there."""
        if self._folder is None:
            self._memory.pop(name, None)
            return
        with suppress(FileNotFoundError):
            (self._folder / name).unlink()
        self._sync(self._folder)

    @staticmethod
    def _sync(folder: Path) -> None:
        # Without this a key that was removed could be there again after a power cut; Windows has no such call.
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


_PURPOSE = "key for one attempt"


@dataclass(frozen=True)
class Attempt:
    """One attempt at one round of one study; ``name`` is the server's, no two attempts of a study share it."""

    study: str
    round: int
    name: str

    def __post_init__(self) -> None:
        for what in ("study", "name"):
            check_name(getattr(self, what), f"the {what} of an attempt")
        if type(self.round) is not int or not 0 <= self.round < 2**31:
            raise ValueError(f"the round of an attempt must be a whole number, got {shown(self.round)}")

    def __str__(self) -> str:
        return f"{self.name} of round {self.round} of {self.study}"


@dataclass(frozen=True)
class Offer:
    """A site's public key for an attempt, signed by its identity: the server passes it on and cannot change it."""

    attempt: Attempt
    site: str
    key: str  #: X25519, hexadecimal
    signature: str  #: Ed25519, hexadecimal

    def check(self, pinned: str) -> None:
        """Refuse what the site with that pinned key did not sign."""
        content = _content(self.attempt, self.site, self.key)
        if not verify(pinned, _PURPOSE, content, bytes.fromhex(self.signature)):
            raise NotTrusted(f"the key offered for {self.site} is not signed by the key that is pinned for it")

    def to_dict(self) -> dict[str, Any]:
        """For a message."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Any) -> Offer:
        """The inverse, everything checked but the signature."""
        try:
            attempt, site = Attempt(**content["attempt"]), content["site"]
            check_name(site, "the name of a site")
            for name, size in (("key", 32), ("signature", 64)):
                check_hex(content[name], size, name)
            if len(content) != 4:
                raise ValueError("there is more in it")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise NotTrusted(f"a message holds something else than the offer of a key: {shown(error)}") from None
        return cls(attempt, site, content["key"], content["signature"])


class SingleUseKeys:
    """The keys that a site has offered and not yet used.

    One attempt of a study is open at a time: offering a key for the next strikes out the one before.
    """

    def __init__(self, drawer: Drawer) -> None:
        self._drawer = drawer

    def offer(self, identity: Identity, site: str, attempt: Attempt) -> Offer:
        """A new key for the attempt, its public part signed; refused where the attempt had one before."""
        check_name(site, "the name of a site")
        study, name = _places(site, attempt)
        if self._drawer.read(f"{name}.key") is not None or self._drawer.read(f"{name}.used") is not None:
            raise NotTrusted(f"{site} has offered a key for attempt {attempt} before: start a new attempt")
        for other in self._drawer.names(study, ".key"):
            self._strike(other.removesuffix(".key"))
        private = primitives("asymmetric.x25519").X25519PrivateKey.generate()
        self._drawer.write(f"{name}.key", private.private_bytes_raw())
        key = private.public_key().public_bytes_raw().hex()
        return Offer(attempt, site, key, identity.sign(_PURPOSE, _content(attempt, site, key)).hex())

    def take(self, site: str, attempt: Attempt) -> Any:
        """The private key of the attempt, once: it is struck out before it is handed over."""
        _, name = _places(site, attempt)
        raw = self._drawer.read(f"{name}.key")
        if raw is None or not self._strike(name):
            raise NotTrusted(
                f"{site} has no key for attempt {attempt}: it was used already, or never offered; start a new attempt"
            )
        return primitives("asymmetric.x25519").X25519PrivateKey.from_private_bytes(raw)

    def _strike(self, name: str) -> bool:
        """Note that the key is used, then remove it; False where somebody else was first."""
        first = self._drawer.claim(f"{name}.used")
        self._drawer.remove(f"{name}.key")
        return first


def check_name(name: Any, what: str) -> None:
    """Names are short, printable, and without blanks around them, so that two that look alike are alike."""
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable() or name != name.strip():
        raise ValueError(f"{what} must be up to 200 printable characters, got {shown(name)}")


def check_hex(text: Any, size: int, what: str) -> bytes:
    """So many bytes, written in the one usual way."""
    if not isinstance(text, str) or len(text) != 2 * size or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"its {what} must be {2 * size} hexadecimal digits")
    return bytes.fromhex(text)


def _content(attempt: Attempt, site: str, key: str) -> bytes:
    return canonical([attempt.study, attempt.round, attempt.name, site, key])


def _places(site: str, attempt: Attempt) -> tuple[str, str]:
    """How names of a site's study begin, and the one of this attempt: names may hold what file names may not."""
    study = hashlib.sha256(canonical([site, attempt.study])).hexdigest()[:24]
    inner = hashlib.sha256(canonical([attempt.round, attempt.name])).hexdigest()[:40]
    return study, f"{study}-{inner}"


def _place(site: str, *what: str) -> str:
    return hashlib.sha256(canonical([site, *what[:-1]])).hexdigest()[:40] + "." + what[-1]
