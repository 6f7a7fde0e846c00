"""Engines, on which blocks are worked on: threads, processes, or a Dask cluster."""

from __future__ import annotations

from typing import Any

from .._base.engine import BlockError, Engine
from .._base.text import shown
from .dask import Dask
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
            f"got {shown(engine)}"
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
    return isinstance(value, Engine) or type(value).__module__.split(".")[0] in ("distributed", "dask")
