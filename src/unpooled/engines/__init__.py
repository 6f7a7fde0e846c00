"""Engines, on which blocks are worked on: threads, processes, or a Dask cluster."""

from __future__ import annotations

from typing import Any

from .._base.engine import BlockError, Engine
from .._base.kinds import Kind
from .._base.text import quote
from .dask import Dask, is_connection
from .local import Processes, Threads

#: the engines that a name stands for
NAMES = ("threads", "processes", "dask")

__all__ = ["BlockError", "Dask", "Engine", "Processes", "Threads", "as_engine"]


def as_engine(engine: Any) -> Engine:
    """An engine from itself, its name ("threads", "processes", "dask"), a Dask client, a cluster or its address.

    Parameters
    ----------
    engine : any of these; None is "threads"
    """
    if engine is None or (isinstance(engine, str) and engine == "threads"):
        return Threads()
    if not is_engine(engine):
        raise ValueError(
            "engine must be 'threads', 'processes', 'dask', a Dask client or its address (tcp://…), or an Engine; "
            f"got {quote(engine)}"
        )
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, str) and engine == "processes":
        return Processes()
    return Dask(None if isinstance(engine, str) and engine == "dask" else engine)


def is_engine(value: Any) -> bool:
    """Whether :func:`as_engine` takes a value for an engine; connects to nothing."""
    if isinstance(value, str):
        return value in NAMES or "://" in value
    return isinstance(value, Engine) or is_connection(value)


class EngineKind(Kind):
    """Where blocks are worked on. A file keeps the names of engines, and never the address of a cluster.

    A model from a file would otherwise send the rows of its next fit to wherever the file says.
    """

    words = "'threads', 'processes', 'dask', a Dask client or its address (tcp://…), or an Engine"
    separator = ";"

    def __init__(self, *, in_files: bool = True) -> None:
        self.in_files = in_files

    def holds(self, value: Any) -> bool:
        return value is None or is_engine(value)

    def to_plain(self, value: Any) -> Any:
        return value if isinstance(value, str) and value in NAMES else None

    def from_plain(self, written: Any) -> Any:
        if not (written is None or (isinstance(written, str) and is_engine(written))):
            raise ValueError(f"its engine must be the name of one, got {quote(written)}")
        return self.to_plain(written)
