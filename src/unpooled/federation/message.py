"""What travels between a server and its sites: a kind, a JSON header and arrays, in the container of ``files.py``.

In front of the container stand the 32 bytes of its SHA-256. So a message that differs in any bit from the one that was
sent is refused before anything of it is read; whether it is from whom it says is the business of TLS and of keys.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import files

FORMAT = 1  # of what the headers say, apart from the container's
_HASH = 32


class MessageError(ValueError):
    """A message that was damaged on its way, or is none."""


@dataclass(frozen=True)
class Message:
    """What travels between the server and a site.

    Attributes
    ----------
    kind : what is asked or answered
    header : what JSON can hold
    arrays : numbers, or the bytes of files, by name
    """

    kind: str
    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def to_bytes(self) -> bytes:
        """The message as it travels."""
        content = files.to_bytes("message", {"message": FORMAT, "says": self.kind, "content": self.header}, self.arrays)
        return hashlib.sha256(content).digest() + content

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """The inverse; a MessageError says in a sentence what is wrong."""
        if not isinstance(data, bytes) or len(data) <= _HASH:
            raise MessageError("the message is too short to be one: it was cut off")
        content = data[_HASH:]
        if hashlib.sha256(content).digest() != data[:_HASH]:
            raise MessageError("the message was damaged on its way: it does not match its SHA-256")
        try:
            header, arrays = files.from_bytes(content, "the message")
        except files.FileError as error:
            raise MessageError(str(error)) from None
        kind, inner = header.get("says"), header.get("content")
        if header.get("kind") != "message" or not isinstance(kind, str) or not isinstance(inner, dict):
            raise MessageError("the message is a file of unpooled, but no message")
        if header.get("message") != FORMAT:
            raise MessageError(
                f"the message has format {header.get('message')!r} and this unpooled reads {FORMAT}: use one version of"
                " unpooled everywhere"
            )
        return cls(kind, inner, arrays)

    def file(self, name: str) -> bytes:
        """The bytes of a file that the message carries."""
        array = self.arrays.get(name)
        if array is None or array.dtype != np.uint8 or array.ndim != 1:
            raise MessageError(f"the message {self.kind!r} lacks the file {name!r}")
        return array.tobytes()


def as_array(content: bytes) -> np.ndarray:
    """The bytes of a file as an array, for a message to carry."""
    return np.frombuffer(content, dtype=np.uint8)


def as_file(content: bytes, read: Callable[[Path], Any]) -> Any:
    """What ``read`` makes of a file with this content."""
    with tempfile.TemporaryDirectory(prefix="unpooled-") as folder:
        place = Path(folder) / "content"
        place.write_bytes(content)
        return read(place)
