"""An append-only file of JSON lines, each holding the hash of the line before: a site's log, a privacy ledger."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .plain_json import encode_canonical

START = "0" * 64  #: the hash that the first entry gives for a line before it


class ChainError(ValueError):
    """A file that was changed or damaged, or that cannot be written."""


class ChainGrown(ChainError):
    """An error: the file has grown in the meantime, so its entries must be read again."""


@dataclass(frozen=True)
class Entry:
    """One line of the file: an event, its time, and the hashes that chain it to the line before.

    Attributes
    ----------
    sequence : the number of the line
    time : in UTC
    previous : the hash of the line before
    event : what happened
    sha256 : the hash of this line
    """

    sequence: int
    time: str
    previous: str
    event: dict[str, Any]
    sha256: str


@dataclass(frozen=True)
class Verification:
    """The result of a check: the number of valid entries, the hash of the last one, and the first thing wrong.

    Attributes
    ----------
    count : how many entries are valid
    head : the hash of the last of them
    line : the first line that is wrong, or None
    problem : what is wrong there, or None
    """

    count: int
    head: str
    line: int | None = None
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Return whether nothing is wrong."""
        return self.problem is None

    def __str__(self) -> str:
        if self.problem is not None:
            return self.problem
        return f"the chain of {self.count} entries is intact; its head is {self.head}"


class Chain:
    """An append-only file whose lines cannot be edited, deleted, inserted or moved without breaking the chain.

    Two things cannot be seen from the file alone: that its last lines were cut off, and that all of it was rewritten.
    To detect these too, note the head and the number of entries elsewhere and give them to :meth:`verify`.
    """

    noun = "log"  #: the word for the file in error messages

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._known: tuple[bytes, list[Entry]] = b"", []  # the bytes that were checked before, and their entries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def append(self, event: Mapping[str, Any], after: str | None = None) -> Entry:
        """Add an entry, which is on disk before this returns; raise a ChainError if the chain so far is broken.

        ``after`` is the head on which the event was decided: ChainGrown is raised if it is no longer the last one.
        """
        try:
            content = json.loads(encode_canonical(dict(event)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ChainError(
                f"event must contain only what JSON can hold: text, finite numbers, lists, dictionaries ({error})"
            ) from None
        with self._lock_file() as file:
            data = self._read(file)
            checked, entries = self._check(data)
            if checked.problem is not None:
                raise ChainError(f"{checked.problem}; nothing is added to a damaged {self.noun}")
            if after is not None and after != checked.head:
                raise ChainGrown(f"the {self.noun} {self.path} has grown in the meantime: read it again")
            entry = _entry(checked.count, _now(), checked.head, content)
            line = encode_canonical(asdict(entry)) + b"\n"
            self._write(file, line, len(data))
            self._known = data + line, [*entries, entry]
        return copy.deepcopy(entry)

    def entries(self) -> list[Entry]:
        """Return copies of all entries, checked; none if there is no file yet. Changing them changes nothing else."""
        return copy.deepcopy(self.shared_entries())

    def shared_entries(self) -> list[Entry]:
        """Return the entries on which decisions rest, checked and not copied: the caller must not change them."""
        with self._read_locked() as data:
            checked, entries = self._check(data)
        if checked.problem is not None:
            raise ChainError(checked.problem)
        return list(entries)

    def verify(self, expected_head: str | None = None, expected_count: int | None = None) -> Verification:
        """Check the chain, and that it still begins with what was noted of it earlier.

        ``expected_head`` and ``expected_count`` come from an earlier check; the file may have grown since. Without
        them, a file whose end was cut off looks intact.
        """
        if not self.path.exists():
            return Verification(0, START, None, f"there is no {self.noun} {self.path}")
        with self._read_locked() as data:
            checked, entries = _check(data, self.path)  # from the first line on, whatever was checked before
        problem = checked.problem
        if problem is None and expected_count is not None and checked.count < expected_count:
            problem = f"{self.path} has {checked.count} entries, but {expected_count} were noted: its end was cut off"
        if problem is None and expected_head is not None:
            hashes = [START, *(entry.sha256 for entry in entries)]
            places = hashes if expected_count is None else hashes[expected_count : expected_count + 1]
            if expected_head.strip().lower() not in places:
                problem = f"{self.path} lacks the head that was noted: its end was cut off, or it was rewritten"
        return Verification(checked.count, checked.head, checked.line, problem)

    def _check(self, data: bytes) -> tuple[Verification, list[Entry]]:
        """Check the bytes of the file; lines that were checked before only have to be unchanged, byte for byte.

        Nothing that the file system says about the file is trusted: whoever can replace it can also set its times.
        """
        content, known = self._known
        same = data.startswith(content)
        checked, entries = _check(data, self.path, len(content), known) if same else _check(data, self.path)
        if checked.problem is None:
            self._known = data, entries
        return checked, entries

    @contextmanager
    def _read_locked(self) -> Iterator[bytes]:
        """Give the bytes of the file while it is locked for us; no bytes if there is no file."""
        if not self.path.exists():
            yield b""
            return
        with self._lock_file(create=False) as file:
            yield self._read(file)

    def _read(self, file: int) -> bytes:
        parts = []
        try:
            os.lseek(file, 0, os.SEEK_SET)
            while part := os.read(file, 2**20):
                parts.append(part)
        except OSError as error:
            raise ChainError(
                f"the {self.noun} {self.path} cannot be read ({error.strerror}): choose another place"
            ) from None
        return b"".join(parts)

    def _write(self, file: int, line: bytes, size: int) -> None:
        """Add a line to a file of the given size and wait for the disk; write all of it or nothing."""
        try:
            if os.write(file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(file, size)
            raise ChainError(
                f"the {self.noun} {self.path} cannot be written ({error.strerror}): nothing may leave without it"
            ) from None

    @contextmanager
    def _lock_file(self, create: bool = True) -> Iterator[int]:
        """Open the file and lock it against everyone else who uses this class."""
        fresh = create and not self.path.exists()
        flags = (os.O_RDWR | os.O_CREAT | os.O_APPEND if create else os.O_RDONLY) | getattr(os, "O_BINARY", 0)
        try:
            file = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise ChainError(
                f"the {self.noun} {self.path} cannot be opened ({error.strerror}): choose another place"
            ) from None
        try:
            try:
                _lock(file)
                if fresh:
                    _sync_folder(self.path.parent)
            except OSError as error:
                raise ChainError(
                    f"the {self.noun} {self.path} cannot be locked ({error.strerror}): choose another place"
                ) from None
            yield file
            _unlock(file)
        finally:
            os.close(file)  # which also releases the lock


def _check(data: bytes, path: Path, start: int = 0, known: Sequence[Entry] = ()) -> tuple[Verification, list[Entry]]:
    """Check the chain in the bytes of a file up to the first wrong line; ``known`` entries end at ``start``."""
    entries = list(known)
    head = entries[-1].sha256 if entries else START
    *lines, rest = data[start:].split(b"\n")
    for number, line in enumerate(lines, start=len(entries) + 1):
        entry = _entry_of(line, len(entries), head)
        if isinstance(entry, str):
            return Verification(len(entries), head, number, f"line {number} of {path} {entry}"), entries
        entries.append(entry)
        head = entry.sha256
    if rest:
        number = len(entries) + 1
        problem = f"line {number} of {path} is incomplete, as after a power cut: keep a copy and remove that line"
        return Verification(len(entries), head, number, problem), entries
    return Verification(len(entries), head), entries


def _entry_of(line: bytes, sequence: int, previous: str) -> Entry | str:
    """Return the entry in a line, or a phrase that says what is wrong with the line in its place."""
    try:
        content = json.loads(line)
        if not isinstance(content["event"], dict):
            raise TypeError
        entry = _entry(content["sequence"], content["time"], content["previous"], content["event"])
        # Byte for byte: JSON can write the same content in many ways, and this file in only one.
        same = encode_canonical(asdict(entry)) == line
    except (ValueError, TypeError, KeyError, RecursionError):
        return "is not an entry of the chain: it was damaged, or inserted by hand"
    if not same:
        return "was changed after it was written: it does not match its SHA-256"
    if entry.sequence != sequence:
        return f"has the number {entry.sequence} instead of {sequence}: lines were deleted, inserted or moved"
    if entry.previous != previous:
        return "does not follow from the line before: lines were deleted, inserted or moved"
    return entry


def _entry(sequence: int, time: str, previous: str, event: dict[str, Any]) -> Entry:
    content = {"sequence": sequence, "time": time, "previous": previous, "event": event}
    return Entry(sequence, time, previous, event, hashlib.sha256(encode_canonical(content)).hexdigest())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _sync_folder(folder: Path) -> None:
    """Wait until a new file's folder is on disk too: only then is the file safe. Windows does that by itself."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


if sys.platform == "win32":
    import msvcrt
    import time

    _FAR = 2**31 - 2  # a byte far beyond the end: Windows does not let others read what is locked

    def _lock(file: int) -> None:
        while True:
            os.lseek(file, _FAR, os.SEEK_SET)
            try:
                msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
                return
            except OSError:
                time.sleep(0.01)

    def _unlock(file: int) -> None:
        os.lseek(file, _FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
