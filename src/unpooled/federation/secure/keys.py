"""Keys of a site: its identity, which the others pin, and the keys for one attempt: made, signed, used once, and gone.

The identity is an Ed25519 key that stays in one file of the site. Its public part is a line of 61 characters that
people send each other by a way they trust (in person, by telephone, on paper): "site:", then the 32 bytes of the key
and 3 of a checksum in base32, so that a slip of the pen is noticed.

What a site sends in an attempt is hidden by masks that come from its key for that attempt. Two messages under one key
would give their difference away, so a key is struck out before it is used, on disk: there is no second use, not by a
server that asks twice with other members, not after a restart.

:class:`Drawer` keeps a site's own small secrets and notes, in a folder that only the site may read, or in memory where
there is none. Whatever a method has done is on disk when it returns: a site that is killed and started again finds what
it promised.

The extra ``flower`` brings the library for keys and masks, which is imported where it is needed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from ..._base.files import PathLike, open_atomic
from ..._base.plain_json import encode_canonical
from ..._base.text import quote


def primitives(name: str) -> Any:
    """A module of ``cryptography.hazmat.primitives``, by what comes after the dot."""
    try:
        return import_module(f"cryptography.hazmat.primitives.{name}")
    except ImportError:
        raise ImportError(
            "keys and masks are made by cryptography, which is not installed: pip install 'unpooled[flower]'"
        ) from None


_PREFIX = "site:"


class NotTrusted(ValueError):
    """A key, a signature or a list of members that is not what it should be."""


@dataclass(frozen=True)
class Identity:
    """A site's long-term key; the private part signs, and never leaves.

    Attributes
    ----------
    public : what the others pin
    """

    public: str
    _private: Any = field(repr=False, compare=False)

    @classmethod
    def create(cls, path: PathLike) -> Identity:
        """A new key, in a new file that only its owner may read."""
        if os.path.lexists(path):
            raise FileExistsError(f"{os.fspath(path)} exists: a site keeps its key; remove the file to make a new one")
        private = primitives("asymmetric.ed25519").Ed25519PrivateKey.generate()
        formats = primitives("serialization")
        pem = private.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
        with open_atomic(path, private=True) as file:
            file.write(pem)
        return cls._of(private)

    @classmethod
    def load(cls, path: PathLike) -> Identity:
        """The key in a file; a file that others may read is refused, as ssh does."""
        name = os.fspath(path)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"{name} does not exist, or is not a file")
        if os.name == "posix" and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise NotTrusted(f"{name} holds a private key and others may read it: chmod 600 {name}")
        try:
            private = primitives("serialization").load_pem_private_key(Path(path).read_bytes(), password=None)
        except (ValueError, TypeError):
            raise NotTrusted(f"{name} does not hold a private key in PEM, or it is damaged") from None
        if not isinstance(private, primitives("asymmetric.ed25519").Ed25519PrivateKey):
            raise NotTrusted(f"{name} holds a key of another kind, and a site signs with Ed25519")
        return cls._of(private)

    @classmethod
    def _of(cls, private: Any) -> Identity:
        return cls(_shown(private.public_key().public_bytes_raw()), private)

    def sign(self, purpose: str, content: bytes) -> bytes:
        """64 bytes that only this site can make, and only for this purpose."""
        return bytes(self._private.sign(_to_sign(purpose, content)))


def verify(public: str, purpose: str, content: bytes, signature: bytes) -> bool:
    """Whether the site with that public key signed the content for the purpose."""
    key = primitives("asymmetric.ed25519").Ed25519PublicKey.from_public_bytes(public_bytes(public))
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, _to_sign(purpose, content))
    except InvalidSignature:
        return False
    return True


def public_bytes(public: Any) -> bytes:
    """The 32 bytes of a pinned key; a NotTrusted where it was not copied right."""
    text = public.strip().lower() if isinstance(public, str) else ""
    try:
        content = base64.b32decode(text.removeprefix(_PREFIX).upper())
    except ValueError:
        content = b""
    if not text.startswith(_PREFIX) or len(content) != 35 or _checksum(content[:32]) != content[32:]:
        raise NotTrusted(f"a site's key is site: and 56 letters and digits, and this is not one: {quote(public)}")
    return content[:32]


def _shown(raw: bytes) -> str:
    return _PREFIX + base64.b32encode(raw + _checksum(raw)).decode().lower()


def _checksum(raw: bytes) -> bytes:
    return hashlib.sha256(b"unpooled site key " + raw).digest()[:3]


def _to_sign(purpose: str, content: bytes) -> bytes:
    return encode_canonical(["unpooled signature 1", purpose, hashlib.sha256(content).hexdigest()])


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
        with open_atomic(self._folder / name, private=True) as file:
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
            raise ValueError(f"the round of an attempt must be a whole number, got {quote(self.round)}")

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
            raise NotTrusted(f"a message holds something else than the offer of a key: {quote(error)}") from None
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
        raise ValueError(f"{what} must be up to 200 printable characters, got {quote(name)}")


def check_hex(text: Any, size: int, what: str) -> bytes:
    """So many bytes, written in the one usual way."""
    if not isinstance(text, str) or len(text) != 2 * size or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"its {what} must be {2 * size} hexadecimal digits")
    return bytes.fromhex(text)


def _content(attempt: Attempt, site: str, key: str) -> bytes:
    return encode_canonical([attempt.study, attempt.round, attempt.name, site, key])


def _places(site: str, attempt: Attempt) -> tuple[str, str]:
    """How names of a site's study begin, and the one of this attempt: names may hold what file names may not."""
    study = hashlib.sha256(encode_canonical([site, attempt.study])).hexdigest()[:24]
    inner = hashlib.sha256(encode_canonical([attempt.round, attempt.name])).hexdigest()[:40]
    return study, f"{study}-{inner}"


def _place(site: str, *what: str) -> str:
    return hashlib.sha256(encode_canonical([site, *what[:-1]])).hexdigest()[:40] + "." + what[-1]
