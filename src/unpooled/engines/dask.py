"""An engine on a Dask cluster: workers read the blocks and keep them, and a tree of tasks combines the results.

Nothing is scattered, because scattered data cannot be recomputed once they are lost: everything a task needs is in the
graph, so that Dask computes it again on another worker when one dies.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from .._base.engine import BlockError, Engine, Function, Part, Task, name_of, run_part
from .._base.progress import Progress
from .._base.rows import Block


class Dask(Engine):
    """An engine that works on blocks on the workers of a ``dask.distributed`` cluster.

    Every thread of a worker takes one part at a time, on one BLAS thread; give a worker memory for as many.

    Parameters
    ----------
    client : a ``distributed.Client``, a cluster or its address
        None is the current client, or else a local cluster with one process per core.
    """

    def __init__(self, client: Any = None) -> None:
        distributed = _import_distributed()
        self._own = not isinstance(client, distributed.Client)
        if isinstance(client, distributed.Client):
            self.client = client
        elif client is not None:
            self.client = distributed.Client(client, set_as_default=False)
        else:
            try:
                self.client, self._own = distributed.get_client(), False
            except ValueError:
                self.client = distributed.Client(threads_per_worker=1, set_as_default=False, dashboard_address=":0")
        self._kept: dict[int, tuple[Part, Any]] | None = None

    @property
    def n_workers(self) -> int:
        return max(1, sum(self.client.nthreads().values()))

    def __repr__(self) -> str:
        return f"Dask({self.client!r})"

    def close(self) -> None:
        """Close the client, if it was opened here."""
        if self._own:
            self.client.close()

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep blocks on the workers while the same ones are mapped again."""
        self._kept = {}
        try:
            yield
        finally:
            self._kept = None

    def work(self, task: Task, progress: Progress) -> Any:
        from distributed import KilledWorker, as_completed

        task.make_tree()  # raises an error if there is nothing to combine; the tree below consists of Dask's own tasks
        parts = task.parts
        self._forget_others(parts)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            shared = self._submit(_tuple, *task.args)
            what = task.label or name_of(task.fn)
            layer = [
                self._submit(_run, task.fn, self._keep_near(part), shared, name=f"{what} of block {part.name}")
                for part in parts
            ]
            leaves = list(layer)
            while len(layer) > 1:
                pairs = [layer[i : i + 2] for i in range(0, len(layer), 2)]
                layer = [self._submit(task.combine, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        del shared
        try:
            if progress.wanted:
                for _ in as_completed(leaves):
                    progress.advance()
            return layer[0].result()
        except KilledWorker as error:
            names = ", ".join(repr(p.name) for p, leaf in zip(parts, leaves) if leaf.status == "error")
            raise BlockError(
                f"the workers of block {names or '?'} died repeatedly, perhaps for lack of memory: use more blocks"
            ) from error
        finally:
            # The scheduler drops what nobody refers to, after an error or an interrupt too.
            for future in (*leaves, *layer):
                future.release()

    def _submit(self, function: Any, *args: Any, name: str | None = None) -> Any:
        key = f"{name or function.__name__}-{uuid4().hex}"
        return self.client.submit(function, *args, key=key, pure=False)

    def _keep_near(self, part: Part) -> Any:
        """Return the part with its rows on a worker, as a future; it is read once per session."""
        if self._kept is None:
            return self._load(part)
        if id(part) not in self._kept:
            self._kept[id(part)] = (part, self._load(part))  # a reference to the part, so that its id is not reused
        return self._kept[id(part)][1]

    def _forget_others(self, parts: Sequence[Part]) -> None:
        """Forget rows on the workers unless the same parts are mapped again."""
        if self._kept is not None:
            wanted = {id(part) for part in parts}
            self._kept = {key: kept for key, kept in self._kept.items() if key in wanted}

    def _load(self, part: Any) -> Any:
        if isinstance(part, Block) and (lazy := part.lazy()) is not None:
            # The cluster computes pieces of a Dask collection, close to where they are.
            return self._submit(_assemble, part.without_data(), *[self.client.compute(piece) for piece in lazy])
        return self._submit(_load, part.pack())


def _tuple(*args: Any) -> tuple[Any, ...]:
    return args


def _run(fn: Function, part: Part, args: tuple[Any, ...]) -> Any:
    # One BLAS thread: a worker has as many task threads as it was given cores.
    return run_part(fn, part, args, 1)


def _load(part: Any) -> Any:
    return run_part(_load_all, part, (), 1)


def _load_all(part: Any) -> Any:
    return part.load()


def _assemble(part: Any, *pieces: Any) -> Any:
    return _load(part.with_data(pieces))


def is_connection(value: Any) -> bool:
    """Return whether a value is a client or a cluster of Dask; imports nothing, since only an import can make one."""
    if "distributed" not in sys.modules:
        return False
    distributed = _import_distributed()
    return isinstance(value, (distributed.Client, distributed.deploy.Cluster))


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ImportError("the Dask engine needs dask.distributed: pip install 'unpooled[dask]'") from None
    return distributed
