"""Engines that work on blocks: threads, processes, or a Dask cluster."""

from __future__ import annotations

from typing import Any

from .._base.engine import BlockError, Engine
from .._base.kinds import Kind
from .._base.text import quote
from .dask import Dask, is_connection
from .local import Processes, Threads

#: the engines that have a name
NAMES = ("threads", "processes", "dask")

__all__ = ["BlockError", "Dask", "Engine", "Processes", "Threads", "as_engine"]


def as_engine(engine: Any) -> Engine:
    """Return an engine for an engine, its name ("threads", "processes", "dask"), a Dask client, cluster or address.

    Parameters
    ----------
    engine : any of these; None is "threads"
    """
    if engine is None or (isinstance(engine, str) and engine == "threads"):
        return Threads()
    if not _is_engine(engine):
        raise ValueError(
            "engine must be 'threads', 'processes', 'dask', a Dask client or its address (tcp://…), or an Engine; "
            f"got {quote(engine)}"
        )
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, str) and engine == "processes":
        return Processes()
    return Dask(None if isinstance(engine, str) and engine == "dask" else engine)


def _is_engine(value: Any) -> bool:
    """Return whether :func:`as_engine` accepts a value; connects to nothing."""
    if isinstance(value, str):
        return value in NAMES or "://" in value
    return isinstance(value, Engine) or is_connection(value)


class EngineKind(Kind):
    """A parameter that names an engine. A file keeps the names of engines, and never the address of a cluster.

    Otherwise a model from a file would send the rows of its next fit to any address that the file gives.
    """

    words = "'threads', 'processes', 'dask', a Dask client or its address (tcp://…), or an Engine"
    separator = ";"

    def __init__(self, *, in_files: bool = True) -> None:
        self.in_files = in_files

    def holds(self, value: Any) -> bool:
        return value is None or _is_engine(value)

    def to_plain(self, value: Any) -> Any:
        return value if isinstance(value, str) and value in NAMES else None

    def from_plain(self, written: Any) -> Any:
        if not (written is None or (isinstance(written, str) and _is_engine(written))):
            raise ValueError(f"its engine must be the name of an engine, got {quote(written)}")
        return self.to_plain(written)
