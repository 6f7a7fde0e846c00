"""Keys of a site: its identity, which the other sites pin, and single-use keys for one attempt each.

The identity is an Ed25519 key that stays in one file of the site. Its public part is a line of 61 characters that
people send each other in a way they trust (in person, by telephone, on paper): "site:", then the 32 bytes of the key
and 3 bytes of a checksum in base32, so that a copying error is noticed.

The message of a site in an attempt is hidden by masks that come from its key for that attempt. Two messages under one
key would reveal their difference. A key is therefore marked as used on disk before it is used, so it is never used
twice: not if a server asks again with other members, and not after a restart.

:class:`SiteStore` keeps a site's own secrets and notes in a folder that only the site may read, or in memory if it has
no folder. Each method returns only after its changes are on disk, so a site that is killed and restarted keeps its
promises.

The extra ``flower`` brings the library for keys and masks, which is imported only when it is needed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from ..._base.files import PathLike, open_atomic
from ..._base.plain_json import encode_canonical
from ..._base.text import quote


def import_primitives(name: str) -> Any:
    """Import a module of ``cryptography.hazmat.primitives`` by the rest of its name."""
    try:
        return import_module(f"cryptography.hazmat.primitives.{name}")
    except ImportError:
        raise ImportError(
            "the library cryptography, which makes keys and masks, is not installed: pip install 'unpooled[flower]'"
        ) from None


_PREFIX = "site:"


class TrustError(ValueError):
    """A key, a signature or a list of members that cannot be trusted."""


@dataclass(frozen=True)
class Identity:
    """The long-term key of a site; its private part signs and never leaves the site.

    Attributes
    ----------
    public : the public part, which the other sites pin
    """

    public: str
    _private: Any = field(repr=False, compare=False)

    @classmethod
    def create(cls, path: PathLike) -> Identity:
        """Create a key in a new file that only its owner may read."""
        if os.path.lexists(path):
            raise FileExistsError(
                f"{os.fspath(path)} exists, and a site should keep its key: remove the file to create a new one"
            )
        private = import_primitives("asymmetric.ed25519").Ed25519PrivateKey.generate()
        formats = import_primitives("serialization")
        pem = private.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
        with open_atomic(path, private=True) as file:
            file.write(pem)
        return cls._of(private)

    @classmethod
    def load(cls, path: PathLike) -> Identity:
        """Return the key in a file; a file that others may read is refused, as ssh refuses it."""
        name = os.fspath(path)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"{name} does not exist, or is not a file")
        if os.name == "posix" and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise TrustError(f"{name} holds a private key and others may read it: chmod 600 {name}")
        try:
            private = import_primitives("serialization").load_pem_private_key(Path(path).read_bytes(), password=None)
        except (ValueError, TypeError):
            raise TrustError(f"{name} does not hold a private key in PEM format, or is damaged") from None
        if not isinstance(private, import_primitives("asymmetric.ed25519").Ed25519PrivateKey):
            raise TrustError(f"{name} holds a key of another kind; the key of a site is an Ed25519 key")
        return cls._of(private)

    @classmethod
    def _of(cls, private: Any) -> Identity:
        return cls(_key_to_text(private.public_key().public_bytes_raw()), private)

    def sign(self, purpose: str, content: bytes) -> bytes:
        """Return a signature of 64 bytes that only this site can make and that is valid for this purpose only."""
        return bytes(self._private.sign(_signed_bytes(purpose, content)))


def verify(public: str, purpose: str, content: bytes, signature: bytes) -> bool:
    """Return whether the site with this public key signed the content for the purpose."""
    key = import_primitives("asymmetric.ed25519").Ed25519PublicKey.from_public_bytes(public_bytes(public))
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, _signed_bytes(purpose, content))
    except InvalidSignature:
        return False
    return True


def public_bytes(public: Any) -> bytes:
    """Return the 32 bytes of a pinned key; raise a TrustError if it was not copied correctly."""
    text = public.strip().lower() if isinstance(public, str) else ""
    try:
        content = base64.b32decode(text.removeprefix(_PREFIX).upper())
    except ValueError:
        content = b""
    if not text.startswith(_PREFIX) or len(content) != 35 or _checksum(content[:32]) != content[32:]:
        raise TrustError(f"a site's key must be site: and 56 letters and digits without an error, got {quote(public)}")
    return content[:32]


def add_own_key(pinned: Mapping[str, str], name: str, identity: Identity) -> dict[str, str]:
    """Return the pinned keys with the site's own; raise a TrustError if one is no key, or its own is another's."""
    known = {site: public_bytes(public) for site, public in pinned.items()}
    if known.get(name, public_bytes(identity.public)) != public_bytes(identity.public):
        raise TrustError(f"the key pinned for {name} must be its own, which is {identity.public}")
    return {**pinned, name: identity.public}


def _key_to_text(raw: bytes) -> str:
    return _PREFIX + base64.b32encode(raw + _checksum(raw)).decode().lower()


def _checksum(raw: bytes) -> bytes:
    return hashlib.sha256(b"unpooled site key " + raw).digest()[:3]


def _signed_bytes(purpose: str, content: bytes) -> bytes:
    return encode_canonical(["unpooled signature 1", purpose, hashlib.sha256(content).hexdigest()])


class SiteStore:
    """A store of short contents by name; names consist of letters, digits, dashes and dots."""

    def __init__(self, folder: PathLike | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._memory: dict[str, bytes] = {}
        self._lock = threading.Lock()
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def names(self, start: str, end: str) -> list[str]:
        """Return the names that begin and end with the given texts."""
        names = self._memory if self._folder is None else (path.name for path in self._folder.iterdir())
        return [name for name in names if name.startswith(start) and name.endswith(end)]

    def read(self, name: str) -> bytes | None:
        """Return the content with this name, or None if there is none."""
        if self._folder is None:
            return self._memory.get(name)
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Store a content, replacing any content with this name."""
        if self._folder is None:
            self._memory[name] = content
            return
        with open_atomic(self._folder / name, private=True) as file:
            file.write(content)
        self._sync(self._folder)

    def claim(self, name: str, content: bytes = b"") -> bool:
        """Store a content only if the name is free, and return whether it was; of several callers one gets True."""
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
        """Remove the content with this name, if there is one."""
        if self._folder is None:
            self._memory.pop(name, None)
            return
        with suppress(FileNotFoundError):
            (self._folder / name).unlink()
        self._sync(self._folder)

    def stamp(self, name: str) -> str:
        """Return a text that identifies this very file: the same content after a restore has another one."""
        if self._folder is None:
            return ""
        about = os.stat(self._folder / name)
        return f"{about.st_ino} {about.st_ctime_ns}"

    @staticmethod
    def _sync(folder: Path) -> None:
        # Otherwise a removed key could reappear after a power cut. Windows has no such call.
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


_PURPOSE = "key for one attempt"


@dataclass(frozen=True)
class Attempt:
    """One attempt at one round of a study; the server gives each attempt of a study a ``name`` of its own."""

    study: str
    round: int
    name: str

    def __post_init__(self) -> None:
        for what in ("study", "name"):
            check_name(getattr(self, what), f"the {what} of an attempt")
        if type(self.round) is not int or not 0 <= self.round < 2**31:
            raise ValueError(f"the round of an attempt must be a whole number, got {quote(self.round)}")

    def __str__(self) -> str:
        return f"{self.name} of round {self.round} of {self.study}"


@dataclass(frozen=True)
class Offer:
    """A site's public key for an attempt, signed by its identity so that the server can only pass it on."""

    attempt: Attempt
    site: str
    key: str  #: X25519, hexadecimal
    signature: str  #: Ed25519, hexadecimal

    def check(self, pinned: str) -> None:
        """Raise a TrustError unless the site with that pinned key signed the offer."""
        content = _offer_bytes(self.attempt, self.site, self.key)
        if not verify(pinned, _PURPOSE, content, bytes.fromhex(self.signature)):
            raise TrustError(f"the key offered for {self.site} is not signed with the key that is pinned for this site")

    def to_dict(self) -> dict[str, Any]:
        """Return the offer as a dictionary for a message."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Any) -> Offer:
        """Return the offer in a message, with everything checked except the signature."""
        try:
            attempt, site = Attempt(**content["attempt"]), content["site"]
            check_name(site, "the name of a site")
            for name, size in (("key", 32), ("signature", 64)):
                check_hex(content[name], size, name)
            if len(content) != 4:
                raise ValueError("it has unknown entries")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TrustError(f"a message does not hold a valid offer of a key: {quote(error)}") from None
        return cls(attempt, site, content["key"], content["signature"])


class SingleUseKeys:
    """The keys that a site has offered and not yet used.

    Only one attempt of a study is open at a time: offering a key for the next attempt discards the one before.
    """

    def __init__(self, store: SiteStore) -> None:
        self._store = store

    def offer(self, identity: Identity, site: str, attempt: Attempt) -> Offer:
        """Create a key for the attempt and return its public part, signed; an attempt can have only one key."""
        check_name(site, "the name of a site")
        study, name = _file_names(site, attempt)
        if self._store.read(f"{name}.key") is not None or self._store.read(f"{name}.used") is not None:
            raise TrustError(f"{site} has already offered a key for attempt {attempt}: start a new attempt")
        for other in self._store.names(study, ".key"):
            self._strike(other.removesuffix(".key"))
        private = import_primitives("asymmetric.x25519").X25519PrivateKey.generate()
        self._store.write(f"{name}.key", private.private_bytes_raw())
        key = private.public_key().public_bytes_raw().hex()
        return Offer(attempt, site, key, identity.sign(_PURPOSE, _offer_bytes(attempt, site, key)).hex())

    def take(self, site: str, attempt: Attempt) -> Any:
        """Return the private key of the attempt, which works only once: it is marked as used first."""
        _, name = _file_names(site, attempt)
        raw = self._store.read(f"{name}.key")
        if raw is None or not self._strike(name):
            raise TrustError(
                f"{site} has no key for attempt {attempt}: it was used already, or never offered; start a new attempt"
            )
        return import_primitives("asymmetric.x25519").X25519PrivateKey.from_private_bytes(raw)

    def _strike(self, name: str) -> bool:
        """Mark the key as used and remove it; return False if it was marked before."""
        first = self._store.claim(f"{name}.used")
        self._store.remove(f"{name}.key")
        return first


def check_name(name: Any, what: str) -> None:
    """Raise a ValueError unless a name is short, printable and trimmed, so that names that look equal are equal."""
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable() or name != name.strip():
        raise ValueError(f"{what} must be 1 to 200 printable characters without outer blanks, got {quote(name)}")


def check_hex(text: Any, size: int, what: str) -> bytes:
    """Return the bytes of a text of lower-case hexadecimal digits of the given size."""
    if not isinstance(text, str) or len(text) != 2 * size or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"its {what} must have {2 * size} hexadecimal digits")
    return bytes.fromhex(text)


def _offer_bytes(attempt: Attempt, site: str, key: str) -> bytes:
    return encode_canonical([attempt.study, attempt.round, attempt.name, site, key])


def _file_names(site: str, attempt: Attempt) -> tuple[str, str]:
    """Return the start of the file names of a site's study, and the file name of an attempt.

    Names are hashed, because they may contain characters that file names may not.
    """
    study = hashlib.sha256(encode_canonical([site, attempt.study])).hexdigest()[:24]
    inner = hashlib.sha256(encode_canonical([attempt.round, attempt.name])).hexdigest()[:40]
    return study, f"{study}-{inner}"


def file_name(site: str, *what: str) -> str:
    """Return the file name of a site's note: the hash of its parts, with the last one as the suffix."""
    return hashlib.sha256(encode_canonical([site, *what[:-1]])).hexdigest()[:40] + "." + what[-1]
