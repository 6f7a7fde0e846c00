"""Engines, on which blocks are worked on: threads, processes, or a Dask cluster."""

from __future__ import annotations

from typing import Any

from .._base.engine import BlockError, Engine
from .._base.text import shown
from .dask import Dask
from .local import Processes, Threads

__all__ = ["BlockError", "Dask", "Engine", "Processes", "Threads", "as_engine"]


def as_engine(engine: Any) -> Engine:
    """An engine from itself, its name ("threads", "processes", "dask"), a Dask client, a cluster or its address.

    Parameters
    ----------
    engine : any of these; None is "threads"
    """
    if engine is None or (isinstance(engine, str) and engine == "threads"):
        return Threads()
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, str) and engine == "processes":
        return Processes()
    is_address = isinstance(engine, str) and "://" in engine
    if is_address or engine == "dask" or type(engine).__module__.split(".")[0] in ("distributed", "dask"):
        return Dask(None if isinstance(engine, str) and engine == "dask" else engine)
    raise ValueError(
        "engine must be 'threads', 'processes', 'dask', a Dask client or its address (tcp://…), or an Engine; "
        f"got {shown(engine)}"
    )
