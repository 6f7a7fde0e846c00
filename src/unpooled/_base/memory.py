"""Free memory of the machine, of its container and of a device, and an error for work that would not fit into it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .arrays import Array, is_torch
from .text import format_size

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
UNKNOWN = 4 << 30  # bytes assumed to be free where the machine does not say
CHECKED_FROM = 1 << 30  # bytes: below these, looking up the free memory would cost a small fit more than it saves
#: for both versions of control groups: the limit, the usage, and the line of memory.stat with what can be reclaimed
_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def available_memory() -> float | None:
    """Return the bytes that this process may still take, within all quotas; None if the machine does not say."""
    limits = [*_of_machine(), *_of_groups(), *_of_addresses()]
    return max(min(limits), 0.0) if limits else None


def free_memory() -> float:
    """Return the available memory, or a guess if the machine does not say."""
    free = available_memory()
    return float(UNKNOWN) if free is None else free


def free_for(array: Array) -> float | None:
    """Return the bytes that are free where an array is: on its GPU, or on this machine."""
    if is_torch(array) and array.device.type == "cuda":
        return free_on(array.device)
    return available_memory()


def free_on(device: Any) -> float:
    """Return the bytes that torch could still use on a GPU: free ones, and those it has reserved."""
    cuda = sys.modules["torch"].cuda
    ready = cuda.memory_reserved(device) - cuda.memory_allocated(device)
    return float(cuda.mem_get_info(device)[0] + ready)


def require(needed: float, array: Array, what: str, instead: str) -> None:
    """Raise a MemoryError, before anything is allocated, if more bytes are needed than are free beside ``array``."""
    if needed < CHECKED_FROM:
        return
    free = free_for(array)
    if free is not None and needed > free + sum(_meminfo("SwapFree")):
        raise MemoryError(
            f"{what} needs about {format_size(needed)} at its peak, but only {format_size(free)} is free: {instead}"
        )


def affordable(count: int, bytes_each: float, array: Array) -> int:
    """Return ``count``, or the largest number that fits into the free memory beside ``array``."""
    if count * bytes_each < CHECKED_FROM:
        return count
    free = free_for(array)
    return count if free is None else min(count, int(free // bytes_each))


def _of_machine() -> Iterator[float]:
    known = list(_meminfo("MemAvailable"))
    yield from known
    if not known:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            yield float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _meminfo(name: str) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError):
        for line in (PROC / "meminfo").read_text().splitlines():
            if line.startswith(f"{name}:"):
                yield 1024.0 * int(line.split()[1])


def _of_groups() -> Iterator[float]:
    """Give what the control groups of the process leave it: its own group, and those that contain it.

    Cached files count as used memory, but the system reclaims them on demand.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in (PROC / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            version = "memory" if "memory" in controllers.split(",") else ""
            if controllers and not version:
                continue
            top = GROUPS / version
            # Within a container the path may be the host's, while its own group is mounted at the top.
            own = top / path.strip("/")
            for folder in {own, *own.parents, top}:
                if folder == top or top in folder.parents:
                    yield from _of_group(folder, *_FILES[version])


def _of_group(folder: Path, limit: str, used: str, cached: str) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError):  # no such file, or the limit is the word "max"
        left = float((folder / limit).read_text()) - float((folder / used).read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
        yield left + sum(float(line.split()[1]) for line in lines if line.split()[0] == cached)


def _of_addresses() -> Iterator[float]:
    """Give what ``ulimit -v`` leaves."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit - float((PROC / "self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
