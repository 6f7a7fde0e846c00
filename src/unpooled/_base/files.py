"""Files for everything that travels: a JSON header and raw arrays in the safetensors format, never pickle.

The header sits in safetensors' own metadata beside a SHA-256 over header and arrays, so damage anywhere is detected
before anything is used. Files are written under a temporary name and renamed: a reader never sees half a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from .plain_json import encode_header
from .text import join_lines, quote, quote_unless_name

try:
    __version__ = version("unpooled")  # written into every file
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0+unknown"

#: the newest format of each kind of file; a file says the lowest that has words for its content
FORMATS = {"model": 2}
FIRST = 1  # of all other kinds
DEEPEST = 64  # lists and dictionaries in one another

ENVELOPE = {"format", "kind", "unpooled"}  # entries of a header that belong to the file and not to its content

PathLike = str | os.PathLike[str]
V = TypeVar("V")


class FileError(ValueError):
    """A file that is damaged, of another program, or from a newer version."""


class _Content(dict[str, V]):
    """The header or the arrays of a file, which remember the entries that nobody has read."""

    def __init__(self, content: dict[str, V]) -> None:
        super().__init__(content)
        self.unread = set(content)

    def __getitem__(self, name: str) -> V:
        self.unread.discard(name)
        return super().__getitem__(name)

    def __missing__(self, name: str) -> V:
        raise ValueError(f"it lacks {name!r}")

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry, or the default if there is none."""
        self.unread.discard(name)
        return super().get(name, default)


@contextmanager
def open_content(
    header: dict[str, Any], arrays: dict[str, np.ndarray], what: str
) -> Iterator[tuple[_Content[Any], _Content[np.ndarray]]]:
    """Give the header and the arrays from which ``what`` is read; raise a ValueError if an entry is left unread."""
    entries, numbers = _Content(header), _Content(arrays)
    yield entries, numbers
    if surplus := sorted((entries.unread - ENVELOPE) | numbers.unread):
        raise ValueError(f"it has {quote(surplus[0])}, which no {what} has")


def write(
    path: PathLike, kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray], format: int = FIRST
) -> None:
    """Write one file of the given kind, such as "model", "basis" or "summary"."""
    content = to_bytes(kind, header, arrays, format)
    with open_atomic(path) as file:
        file.write(content)


def to_bytes(kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray], format: int = FIRST) -> bytes:
    """Return the bytes that :func:`write` writes."""
    full = {"format": format, "kind": kind, "unpooled": __version__, **header}
    arrays = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    # One entry and not two: safetensors orders entries at random, and equal models should be equal files.
    metadata = {"unpooled": encode_header({"header": full, "sha256": digest(full, arrays)})}
    return safetensors.numpy.save(arrays, metadata=metadata)


@contextmanager
def open_atomic(path: PathLike, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes its name once all of it is on disk; after an error nothing has changed.

    A private file can be read by its owner alone, from the first moment on.
    """
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except FileNotFoundError:
        raise FileNotFoundError(f"{target} cannot be written: the folder {target.parent} does not exist") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not private:
            os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def read(path: PathLike, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a file of the given kind; a FileError says what is wrong with the file."""
    header, arrays = read_any(path)
    if header.get("kind") != kind:
        raise FileError(f"{os.fspath(path)} holds {_a(header.get('kind'))}, not {_a(kind)}")
    return header, arrays


def read_any(path: PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a file of any kind, which is ``header["kind"]``."""
    name = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{name} does not exist, or is not a file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {key: file.get_tensor(key) for key in sorted(file.keys())}
    except (*_UNREADABLE, OSError) as error:
        raise _unreadable(name, error) from None
    return _check(name, metadata, arrays), arrays


def from_bytes(content: bytes, name: str, *, is_verified: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the bytes of a file, which error messages call ``name``.

    ``is_verified`` says that a hash over all bytes was just confirmed: then the one inside is not computed again.
    """
    try:
        arrays = safetensors.numpy.load(content)  # which finds the lengths below to be right
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__") or {}
    except (*_UNREADABLE, RecursionError) as error:
        raise _unreadable(name, error) from None
    return _check(name, metadata, arrays, is_verified), arrays


# A type that NumPy does not have is an AttributeError in safetensors.
_UNREADABLE = (SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError)


def _unreadable(name: str, error: Exception) -> FileError:
    why = join_lines(error)[:200]
    return FileError(f"{name} is not a file of unpooled, or it is damaged ({why})")


def _check(
    name: str, metadata: dict[str, str], arrays: dict[str, np.ndarray], is_verified: bool = False
) -> dict[str, Any]:
    """Return the header if it and the arrays are unchanged since they were written."""
    if "unpooled" not in metadata:
        raise FileError(f"{name} is a safetensors file, but not one that unpooled wrote")
    try:
        content = json.loads(metadata["unpooled"])
        header, expected = content["header"], content["sha256"]
        # A header that has no canonical form is refused in either case.
        intact = bool(encode_header(header).encode()) if is_verified else expected == digest(header, arrays)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise FileError(f"{name} is damaged: its header cannot be read; fetch or write it again") from None
    if not intact:
        raise FileError(f"{name} is damaged: its content does not match its SHA-256; fetch or write it again")
    if not _is_plain(header):
        raise FileError(f"{name} has a header that is nested too deep or has numbers too large: unpooled wrote no such")
    if not isinstance(header, dict) or type(header.get("format")) is not int or header["format"] < 1:
        raise FileError(f"{name} has no readable header")
    kind = header.get("kind")
    newest = FORMATS.get(kind, FIRST) if isinstance(kind, str) else FIRST
    if header["format"] > newest:
        raise FileError(
            f"{name} has format {header['format']} and this unpooled reads up to {newest}: install a newer unpooled"
        )
    return header


def _a(kind: Any) -> str:
    if kind in ("candidates", "scores"):
        return str(kind)
    return f"an {kind}" if kind in ("answer", "enrolment") else f"a {quote_unless_name(kind)}"


def _is_plain(content: Any, depth: int = 0) -> bool:
    """Return whether content is no deeper than any header written here, and its whole numbers fit into 64 bits."""
    if isinstance(content, (dict, list)):
        inner = content.values() if isinstance(content, dict) else content
        return depth < DEEPEST and all(_is_plain(item, depth + 1) for item in inner)
    return not isinstance(content, int) or abs(content) < 2**63


def digest(header: Any, arrays: dict[str, np.ndarray]) -> str:
    """Return the SHA-256 over a header and arrays."""
    sha = hashlib.sha256(encode_header(header).encode())
    for name, array in sorted(arrays.items()):
        sha.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
