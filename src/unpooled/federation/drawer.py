"""A site's own small secrets and notes, in a folder that only it may read, or in memory where there is none.

Whatever a method has done is on disk when it returns: a site that is killed and started again finds what it promised.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from ..files import PathLike, atomic


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
