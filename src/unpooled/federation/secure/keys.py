"""A site's identity: an Ed25519 key that stays in one file of the site, and its public part, which the others pin.

The extra ``flower`` brings the library for keys and masks, which is imported where it is needed.

The public part is a line of 61 characters that people send each other by a way they trust (in person, by telephone, on
paper): "site:", then the 32 bytes of the key and 3 of a checksum in base32, so that a slip of the pen is noticed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from ..._base.files import PathLike, atomic
from ..._base.plain_json import canonical
from ..._base.text import shown


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
        with atomic(path, private=True) as file:
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
        raise NotTrusted(f"a site's key is site: and 56 letters and digits, and this is not one: {shown(public)}")
    return content[:32]


def _shown(raw: bytes) -> str:
    return _PREFIX + base64.b32encode(raw + _checksum(raw)).decode().lower()


def _checksum(raw: bytes) -> bytes:
    return hashlib.sha256(b"unpooled site key " + raw).digest()[:3]


def _to_sign(purpose: str, content: bytes) -> bytes:
    return canonical(["unpooled signature 1", purpose, hashlib.sha256(content).hexdigest()])
